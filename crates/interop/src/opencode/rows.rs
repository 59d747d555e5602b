//! The tables of OpenCode's database, as rows.
//!
//! A row is what one `SELECT` of its table gives, column by column; JSON columns stay text until a session is read.
//! An import goes one session at a time: fill a [`SessionRows`], call [`read_one`], go on.

use std::collections::HashMap;

use everturn_model::derived_ids::DerivedIds;
use everturn_model::todo::Todo;
use everturn_model::{Map, SessionId, Tree, path};
use serde_json::Value;

use super::v1::info::{self, MessagePlace, ReadHead};
use super::v1::part;
use super::v1::{self, IdPlacement, ReadMessage, session, view};
use super::{ImportProblem, Imported};

mod column;

pub use column::{project_row, project_value, read_session_row, session_row};

/// A row of `session`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpenCodeSessionRow {
    /// The session's id.
    pub id: String,
    /// Its project.
    pub project_id: String,
    /// Its workspace.
    pub workspace_id: Option<String>,
    /// The session it belongs to.
    pub parent_id: Option<String>,
    /// A readable name.
    pub slug: String,
    /// Its folder.
    pub directory: String,
    /// The folder inside the worktree.
    pub path: Option<String>,
    /// Its title.
    pub title: String,
    /// The version that made it.
    pub version: String,
    /// Where it is shared.
    pub share_url: Option<String>,
    /// Lines added.
    pub summary_additions: Option<i64>,
    /// Lines removed.
    pub summary_deletions: Option<i64>,
    /// Files changed.
    pub summary_files: Option<i64>,
    /// The changes, JSON.
    pub summary_diffs: Option<String>,
    /// What a client keeps with it, JSON.
    pub metadata: Option<String>,
    /// Dollars.
    pub cost: f64,
    /// Tokens read by the model.
    pub tokens_input: i64,
    /// Tokens written by it.
    pub tokens_output: i64,
    /// Tokens of reasoning.
    pub tokens_reasoning: i64,
    /// Tokens from the cache.
    pub tokens_cache_read: i64,
    /// Tokens into the cache.
    pub tokens_cache_write: i64,
    /// A staged revert, JSON.
    pub revert: Option<String>,
    /// Rules, JSON.
    pub permission: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The model, JSON.
    pub model: Option<String>,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
    /// When a compaction began.
    pub time_compacting: Option<i64>,
    /// When it was archived.
    pub time_archived: Option<i64>,
}

/// A row of `message`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeMessageRow {
    /// The message's id.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
    /// Its head without ids, JSON.
    pub data: String,
}

/// A row of `part`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodePartRow {
    /// The part's id.
    pub id: String,
    /// Its message.
    pub message_id: String,
    /// Its session.
    pub session_id: String,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
    /// The part without ids, JSON.
    pub data: String,
}

/// A row of `todo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeTodoRow {
    /// The session.
    pub session_id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: String,
    /// How much it matters.
    pub priority: String,
    /// Its place in the list.
    pub position: i64,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
}

/// A row of `project`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeProjectRow {
    /// The project's id.
    pub id: String,
    /// Its folder.
    pub worktree: String,
    /// Its version control.
    pub vcs: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// A picture.
    pub icon_url: Option<String>,
    /// A picture that somebody chose instead.
    pub icon_url_override: Option<String>,
    /// A colour.
    pub icon_color: Option<String>,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
    /// When it was set up.
    pub time_initialized: Option<i64>,
    /// Other worktrees, JSON.
    pub sandboxes: String,
    /// Its commands, JSON.
    pub commands: Option<String>,
}

/// A row of `event`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeEventRow {
    /// The event's id.
    pub id: String,
    /// The session.
    pub aggregate_id: String,
    /// Its place.
    pub seq: i64,
    /// Its name and version.
    pub kind: String,
    /// What it says, JSON.
    pub data: String,
}

/// A row of `session_message`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeSessionMessageRow {
    /// The message's id.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// Its kind.
    pub kind: String,
    /// The event that made it.
    pub seq: i64,
    /// When it was made.
    pub time_created: i64,
    /// When it last changed.
    pub time_updated: i64,
    /// The message, JSON.
    pub data: String,
}

/// A row of `session_input`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeSessionInputRow {
    /// The id of the message it becomes.
    pub id: String,
    /// Its session.
    pub session_id: String,
    /// The prompt, JSON.
    pub prompt: String,
    /// `steer` or `queue`.
    pub delivery: String,
    /// The event that admitted it.
    pub admitted_seq: i64,
    /// The event that promoted it.
    pub promoted_seq: Option<i64>,
    /// When it was admitted.
    pub time_created: i64,
}

/// A row of `session_context_epoch`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodeEpochRow {
    /// The session.
    pub session_id: String,
    /// The baseline, byte for byte.
    pub baseline: String,
    /// The snapshot, JSON.
    pub snapshot: String,
    /// The event after which it holds.
    pub baseline_seq: i64,
}

/// A row of `permission`: something that was allowed for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCodePermissionRow {
    /// Its id.
    pub id: String,
    /// The project.
    pub project_id: String,
    /// The kind of action.
    pub action: String,
    /// On what.
    pub resource: String,
    /// When it was allowed.
    pub time_created: i64,
    /// When that last changed.
    pub time_updated: i64,
}

/// The rows of one session, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRows {
    /// The session.
    pub session: OpenCodeSessionRow,
    /// Its V1 messages.
    pub messages: Vec<OpenCodeMessageRow>,
    /// Their parts.
    pub parts: Vec<OpenCodePartRow>,
    /// Its task list.
    pub todos: Vec<OpenCodeTodoRow>,
}

/// Reads the V1 messages of one session. What cannot be read is listed, and the rest is read.
#[must_use]
pub fn read_one(rows: SessionRows, project: Option<Value>) -> (Imported, Vec<ImportProblem>) {
    let mut problems = Vec::new();
    let mut row = read_session_row(rows.session);
    let mut mint = DerivedIds::new(row.id.as_str());
    let mut parts: HashMap<String, Vec<(String, String)>> = HashMap::with_capacity(rows.messages.len());
    for part in rows.parts {
        parts.entry(part.message_id).or_default().push((part.id, part.data));
    }
    let mut read = Vec::with_capacity(rows.messages.len());
    for message in rows.messages {
        match json(&message.data) {
            Ok(info) => {
                let own = parts.remove(&message.id).unwrap_or_default();
                read.push(read_message(&row.id, message, info, own, &mut mint, &mut problems));
            }
            Err(what) => problems.push(ImportProblem::new(format!("message {}", message.id), what)),
        }
    }
    for (message, list) in parts {
        let what = format!("belongs to message {message}, which is not there");
        problems
            .extend(list.into_iter().map(|(id, _)| ImportProblem::new(format!("part {id}"), what.clone())));
    }
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    let mut seed = v1::assemble(read, &mut mint);
    let mut todos = rows.todos;
    todos.sort_by_key(|todo| todo.position);
    seed.todos = todos.into_iter().map(todo).collect();
    session::adopt(&mut row, &seed);
    (Imported { project, session: row, seed }, problems)
}

fn read_message(
    session: &SessionId,
    row: OpenCodeMessageRow,
    info: Value,
    mut parts: Vec<(String, String)>,
    mint: &mut DerivedIds,
    problems: &mut Vec<ImportProblem>,
) -> ReadMessage {
    let mut head: ReadHead = info::read(info, session, IdPlacement::Outside);
    head.created = head.created.or(Some(row.time_created));
    parts.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let time = head.created.unwrap_or_default();
    let place = MessagePlace { session: session.as_str(), message: &row.id, time, ids: IdPlacement::Outside };
    let mut read = Vec::with_capacity(parts.len());
    for (id, data) in parts {
        match json(&data) {
            Ok(value) => read.push(part::read(value, place, Some(id), mint)),
            Err(what) => problems.push(ImportProblem::new(format!("part {id}"), what)),
        }
    }
    head.id = Some(row.id);
    ReadMessage::of(head, read)
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))
}

fn todo(row: OpenCodeTodoRow) -> Todo {
    Todo { content: row.content, status: row.status, priority: row.priority, extra: Map::new() }
}

/// The rows of a session's path, and of the prompts that wait.
#[must_use]
pub fn write(tree: &Tree) -> SessionRows {
    let id = &tree.session.id;
    let way = path::to(tree, tree.session.leaf.as_ref());
    let mut rows = SessionRows { session: session_row(&tree.session), ..SessionRows::default() };
    for shown in view::shown(&way, &tree.inbox) {
        for (part, data) in shown.parts(id, IdPlacement::Outside) {
            rows.parts.push(OpenCodePartRow {
                id: part.to_owned(),
                message_id: shown.id.clone().into_owned(),
                session_id: id.as_str().to_owned(),
                time_created: shown.time,
                time_updated: shown.time,
                data: data.to_string(),
            });
        }
        rows.messages.push(OpenCodeMessageRow {
            session_id: id.as_str().to_owned(),
            time_created: shown.time,
            time_updated: shown.time,
            data: shown.info(id, IdPlacement::Outside).to_string(),
            id: shown.id.into_owned(),
        });
    }
    let updated = tree.session.time.updated;
    rows.todos =
        (0..).zip(&tree.todos).map(|(position, todo)| todo_row(id, position, todo, updated)).collect();
    rows
}

fn todo_row(session: &SessionId, position: i64, todo: &Todo, time: i64) -> OpenCodeTodoRow {
    OpenCodeTodoRow {
        session_id: session.as_str().to_owned(),
        content: todo.content.clone(),
        status: todo.status.clone(),
        priority: todo.priority.clone(),
        position,
        time_created: time,
        time_updated: time,
    }
}
