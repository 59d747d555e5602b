//! OpenCode's database, row by row.

use std::collections::HashMap;

use everturn_interop::opencode::{self, rows};
use everturn_model::{Record, SessionId};
use everturn_store::foreign::{Column, Database};
use serde_json::Value;

use super::Incoming;
use crate::Error;

pub(super) fn read_projects(database: &Database) -> Result<HashMap<String, Value>, Error> {
    let select = "SELECT id, worktree, vcs, name, icon_url, icon_url_override, icon_color, time_created, time_updated, \
                  time_initialized, sandboxes, commands FROM project";
    if !database.has("project", &["id", "worktree", "time_initialized", "sandboxes", "commands"])? {
        return Ok(HashMap::new());
    }
    let mut projects = HashMap::new();
    for row in database.select(select, &[])? {
        let mut row = RowCells(row.into_iter());
        let row = rows::OpenCodeProjectRow {
            id: row.text(),
            worktree: row.text(),
            vcs: row.optional_text(),
            name: row.optional_text(),
            icon_url: row.optional_text(),
            icon_url_override: row.optional_text(),
            icon_color: row.optional_text(),
            time_created: row.integer(),
            time_updated: row.integer(),
            time_initialized: row.optional_integer(),
            sandboxes: row.text(),
            commands: row.optional_text(),
        };
        projects.insert(row.id.clone(), rows::project_value(row));
    }
    Ok(projects)
}

pub(super) fn read_session(
    database: &Database,
    id: &str,
    projects: &HashMap<String, Value>,
) -> Result<Incoming, Error> {
    let select = "SELECT id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url, \
                  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost, tokens_input, \
                  tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write, revert, permission, agent, \
                  model, time_created, time_updated, time_compacting, time_archived FROM session WHERE id = ?1";
    let found = database.select(select, &[id])?.into_iter().next();
    let mut row = RowCells(found.ok_or_else(|| Error::Import(format!("session {id} is gone")))?.into_iter());
    let session = rows::OpenCodeSessionRow {
        id: row.text(),
        project_id: row.text(),
        workspace_id: row.optional_text(),
        parent_id: row.optional_text(),
        slug: row.text(),
        directory: row.text(),
        path: row.optional_text(),
        title: row.text(),
        version: row.text(),
        share_url: row.optional_text(),
        summary_additions: row.optional_integer(),
        summary_deletions: row.optional_integer(),
        summary_files: row.optional_integer(),
        summary_diffs: row.optional_text(),
        metadata: row.optional_text(),
        cost: row.next().number().unwrap_or_default(),
        tokens_input: row.integer(),
        tokens_output: row.integer(),
        tokens_reasoning: row.integer(),
        tokens_cache_read: row.integer(),
        tokens_cache_write: row.integer(),
        revert: row.optional_text(),
        permission: row.optional_text(),
        agent: row.optional_text(),
        model: row.optional_text(),
        time_created: row.integer(),
        time_updated: row.integer(),
        time_compacting: row.optional_integer(),
        time_archived: row.optional_integer(),
    };
    let messages = database
        .select(
            "SELECT id, session_id, time_created, time_updated, data FROM message WHERE session_id = ?1",
            &[id],
        )?
        .into_iter()
        .map(|row| {
            let mut row = RowCells(row.into_iter());
            rows::OpenCodeMessageRow {
                id: row.text(),
                session_id: row.text(),
                time_created: row.integer(),
                time_updated: row.integer(),
                data: row.text(),
            }
        })
        .collect();
    let parts = database
        .select(
            "SELECT id, message_id, session_id, time_created, time_updated, data FROM part WHERE session_id = ?1",
            &[id],
        )?
        .into_iter()
        .map(|row| {
            let mut row = RowCells(row.into_iter());
            rows::OpenCodePartRow {
                id: row.text(),
                message_id: row.text(),
                session_id: row.text(),
                time_created: row.integer(),
                time_updated: row.integer(),
                data: row.text(),
            }
        })
        .collect();
    let todos = database
        .select(
            "SELECT session_id, content, status, priority, position, time_created, time_updated FROM todo \
             WHERE session_id = ?1",
            &[id],
        )?
        .into_iter()
        .map(|row| {
            let mut row = RowCells(row.into_iter());
            rows::OpenCodeTodoRow {
                session_id: row.text(),
                content: row.text(),
                status: row.text(),
                priority: row.text(),
                position: row.integer(),
                time_created: row.integer(),
                time_updated: row.integer(),
            }
        })
        .collect();
    let project = projects.get(&session.project_id).cloned();
    let messages: Vec<rows::OpenCodeMessageRow> = messages;
    if messages.is_empty()
        && let Some(records) = read_log(database, id)?
    {
        return Ok(Incoming::logged(SessionId::new(id), project, records));
    }
    let (imported, problems) = rows::read_one(rows::SessionRows { session, messages, parts, todos }, project);
    Ok(Incoming::seeded(imported, problems))
}

/// The log of a session that OpenCode's V2 engine ran; none for the others.
fn read_log(database: &Database, id: &str) -> Result<Option<Vec<Record>>, Error> {
    if !database.has("event", &["id", "aggregate_id", "seq", "type", "data"])? {
        return Ok(None);
    }
    let select = "SELECT id, aggregate_id, seq, type, data FROM event WHERE aggregate_id = ?1 ORDER BY seq";
    let rows: Vec<rows::OpenCodeEventRow> = database
        .select(select, &[id])?
        .into_iter()
        .map(|row| {
            let mut row = RowCells(row.into_iter());
            rows::OpenCodeEventRow {
                id: row.text(),
                aggregate_id: row.text(),
                seq: row.integer(),
                kind: row.text(),
                data: row.text(),
            }
        })
        .collect();
    if !rows.iter().any(|row| row.kind.starts_with("session.next.")) {
        return Ok(None);
    }
    opencode::v2::read_events(rows).map(Some).map_err(|problem| Error::Import(problem.to_string()))
}

/// The cells of a row, taken in order.
struct RowCells(std::vec::IntoIter<Column>);

impl RowCells {
    fn next(&mut self) -> Column {
        self.0.next().unwrap_or(Column::Null)
    }

    fn text(&mut self) -> String {
        self.optional_text().unwrap_or_default()
    }

    fn optional_text(&mut self) -> Option<String> {
        self.next().text()
    }

    fn integer(&mut self) -> i64 {
        self.optional_integer().unwrap_or_default()
    }

    fn optional_integer(&mut self) -> Option<i64> {
        self.next().integer()
    }
}
