//! Rows of `session` and `project` as the objects that clients see, and back.
//!
//! Both ways go through the object: what a session keeps in order to be printed as it came also fills its columns as
//! they were.

use everturn_model::{Map, Money, Session, SessionId};
use serde_json::Value;

use super::{OpenCodeProjectRow, OpenCodeSessionRow};
use crate::opencode::shape::{object, put, put_some, text};
use crate::opencode::v1::{read_session, session_info};

/// The session of a row.
#[must_use]
pub fn read_session_row(row: OpenCodeSessionRow) -> Session {
    let id = row.id.clone();
    let made = row.time_created;
    // The object has an id, so it is a session.
    read_session(info(row)).unwrap_or_else(|| Session::new(SessionId::new(id), "", "", "", "", made))
}

fn info(row: OpenCodeSessionRow) -> Map {
    let mut map = object([("id", row.id.into())]);
    // An empty slug prints as none; the column cannot be null.
    if !row.slug.is_empty() {
        put(&mut map, "slug", row.slug);
    }
    put(&mut map, "projectID", row.project_id);
    put_some(&mut map, "workspaceID", row.workspace_id);
    put(&mut map, "directory", row.directory);
    put_some(&mut map, "path", row.path);
    put_some(&mut map, "parentID", row.parent_id);
    let mut summary = Map::new();
    put_some(&mut summary, "additions", row.summary_additions);
    put_some(&mut summary, "deletions", row.summary_deletions);
    put_some(&mut summary, "files", row.summary_files);
    put_some(&mut summary, "diffs", row.summary_diffs.map(json));
    if !summary.is_empty() {
        put(&mut map, "summary", summary);
    }
    put(&mut map, "cost", amount(row.cost));
    let cache = object([("read", row.tokens_cache_read.into()), ("write", row.tokens_cache_write.into())]);
    let tokens = object([
        ("input", row.tokens_input.into()),
        ("output", row.tokens_output.into()),
        ("reasoning", row.tokens_reasoning.into()),
        ("cache", cache.into()),
    ]);
    put(&mut map, "tokens", tokens);
    put_some(&mut map, "share", row.share_url.map(|url| object([("url", url.into())])));
    put(&mut map, "title", row.title);
    put_some(&mut map, "agent", row.agent);
    put_some(&mut map, "model", row.model.map(json));
    put(&mut map, "version", row.version);
    put_some(&mut map, "metadata", row.metadata.map(json));
    let mut time = object([("created", row.time_created.into()), ("updated", row.time_updated.into())]);
    put_some(&mut time, "compacting", row.time_compacting);
    put_some(&mut time, "archived", row.time_archived);
    put(&mut map, "time", time);
    put_some(&mut map, "permission", row.permission.map(json));
    put_some(&mut map, "revert", row.revert.map(json));
    map
}

// JavaScript prints a whole amount without a fraction, and so do clients see it.
fn amount(cost: f64) -> Value {
    let value = Money::from_f64(cost).to_json();
    if value.as_f64() == Some(cost) { value } else { cost.into() }
}

// A column that is no JSON is kept as the text that it is.
fn json(column: String) -> Value {
    serde_json::from_str(&column).unwrap_or(Value::String(column))
}

fn column(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The row of a session.
#[must_use]
pub fn session_row(session: &Session) -> OpenCodeSessionRow {
    let Value::Object(mut map) = session_info(session) else { return OpenCodeSessionRow::default() };
    let mut take = |key: &str| map.remove(key);
    let word = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let object = |value: Option<Value>| match value {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let count = |map: &Map, key: &str| map.get(key).and_then(Value::as_i64);
    let mut summary = object(take("summary"));
    let tokens = object(take("tokens"));
    let cache = object(tokens.get("cache").cloned());
    let time = object(take("time"));
    OpenCodeSessionRow {
        id: word(take("id")).unwrap_or_default(),
        project_id: word(take("projectID")).unwrap_or_default(),
        workspace_id: word(take("workspaceID")),
        parent_id: word(take("parentID")),
        slug: word(take("slug")).unwrap_or_default(),
        directory: word(take("directory")).unwrap_or_default(),
        path: word(take("path")),
        title: word(take("title")).unwrap_or_default(),
        version: word(take("version")).unwrap_or_default(),
        share_url: word(object(take("share")).remove("url")),
        summary_additions: count(&summary, "additions"),
        summary_deletions: count(&summary, "deletions"),
        summary_files: count(&summary, "files"),
        summary_diffs: summary.remove("diffs").map(column),
        metadata: take("metadata").map(column),
        cost: take("cost").and_then(|cost| cost.as_f64()).unwrap_or_default(),
        tokens_input: count(&tokens, "input").unwrap_or_default(),
        tokens_output: count(&tokens, "output").unwrap_or_default(),
        tokens_reasoning: count(&tokens, "reasoning").unwrap_or_default(),
        tokens_cache_read: count(&cache, "read").unwrap_or_default(),
        tokens_cache_write: count(&cache, "write").unwrap_or_default(),
        revert: take("revert").map(column),
        permission: take("permission").map(column),
        agent: word(take("agent")),
        model: take("model").map(column),
        time_created: count(&time, "created").unwrap_or_default(),
        time_updated: count(&time, "updated").unwrap_or_default(),
        time_compacting: count(&time, "compacting"),
        time_archived: count(&time, "archived"),
    }
}

/// The project of a row, as clients see it.
#[must_use]
pub fn project_value(row: OpenCodeProjectRow) -> Value {
    let mut map = object([("id", row.id.into()), ("worktree", row.worktree.into())]);
    put_some(&mut map, "vcs", row.vcs);
    put_some(&mut map, "name", row.name);
    let mut icon = Map::new();
    put_some(&mut icon, "url", row.icon_url);
    put_some(&mut icon, "override", row.icon_url_override);
    put_some(&mut icon, "color", row.icon_color);
    if !icon.is_empty() {
        put(&mut map, "icon", icon);
    }
    put_some(&mut map, "commands", row.commands.map(json));
    let mut time = object([("created", row.time_created.into()), ("updated", row.time_updated.into())]);
    put_some(&mut time, "initialized", row.time_initialized);
    put(&mut map, "time", time);
    put(&mut map, "sandboxes", json(row.sandboxes));
    map.into()
}

/// The row of a project.
#[must_use]
pub fn project_row(project: &Value) -> OpenCodeProjectRow {
    let none = Map::new();
    let map = project.as_object().unwrap_or(&none);
    let inner = |key: &str| map.get(key).and_then(Value::as_object).unwrap_or(&none);
    let word = |map: &Map, key: &str| text(map, key).map(str::to_owned);
    let (icon, time) = (inner("icon"), inner("time"));
    let moment = |key: &str| time.get(key).and_then(Value::as_i64);
    OpenCodeProjectRow {
        id: word(map, "id").unwrap_or_default(),
        worktree: word(map, "worktree").unwrap_or_default(),
        vcs: word(map, "vcs"),
        name: word(map, "name"),
        icon_url: word(icon, "url"),
        icon_url_override: word(icon, "override"),
        icon_color: word(icon, "color"),
        time_created: moment("created").unwrap_or_default(),
        time_updated: moment("updated").unwrap_or_default(),
        time_initialized: moment("initialized"),
        sandboxes: map.get("sandboxes").cloned().map_or_else(|| "[]".to_owned(), column),
        commands: map.get("commands").cloned().map(column),
    }
}
