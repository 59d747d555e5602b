//! The database of OpenCode 1.18.33 goes through the log and comes out the same.

use std::collections::BTreeMap;

use everturn_interop::opencode::rows::{
    self, OpenCodeMessageRow, OpenCodePartRow, OpenCodeProjectRow, OpenCodeSessionRow, OpenCodeTodoRow,
    SessionRows,
};
use rusqlite::{Connection, Row};
use serde_json::Value;

use super::data::{folded, unpacked};

fn session(row: &Row<'_>) -> rusqlite::Result<OpenCodeSessionRow> {
    Ok(OpenCodeSessionRow {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        workspace_id: row.get("workspace_id")?,
        parent_id: row.get("parent_id")?,
        slug: row.get("slug")?,
        directory: row.get("directory")?,
        path: row.get("path")?,
        title: row.get("title")?,
        version: row.get("version")?,
        share_url: row.get("share_url")?,
        summary_additions: row.get("summary_additions")?,
        summary_deletions: row.get("summary_deletions")?,
        summary_files: row.get("summary_files")?,
        summary_diffs: row.get("summary_diffs")?,
        metadata: row.get("metadata")?,
        cost: row.get("cost")?,
        tokens_input: row.get("tokens_input")?,
        tokens_output: row.get("tokens_output")?,
        tokens_reasoning: row.get("tokens_reasoning")?,
        tokens_cache_read: row.get("tokens_cache_read")?,
        tokens_cache_write: row.get("tokens_cache_write")?,
        revert: row.get("revert")?,
        permission: row.get("permission")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
        time_compacting: row.get("time_compacting")?,
        time_archived: row.get("time_archived")?,
    })
}

fn message(row: &Row<'_>) -> rusqlite::Result<OpenCodeMessageRow> {
    Ok(OpenCodeMessageRow {
        id: row.get("id")?,
        session_id: row.get("session_id")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
        data: row.get("data")?,
    })
}

fn part(row: &Row<'_>) -> rusqlite::Result<OpenCodePartRow> {
    Ok(OpenCodePartRow {
        id: row.get("id")?,
        message_id: row.get("message_id")?,
        session_id: row.get("session_id")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
        data: row.get("data")?,
    })
}

fn todo(row: &Row<'_>) -> rusqlite::Result<OpenCodeTodoRow> {
    Ok(OpenCodeTodoRow {
        session_id: row.get("session_id")?,
        content: row.get("content")?,
        status: row.get("status")?,
        priority: row.get("priority")?,
        position: row.get("position")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
    })
}

fn project(row: &Row<'_>) -> rusqlite::Result<OpenCodeProjectRow> {
    Ok(OpenCodeProjectRow {
        id: row.get("id")?,
        worktree: row.get("worktree")?,
        vcs: row.get("vcs")?,
        name: row.get("name")?,
        icon_url: row.get("icon_url")?,
        icon_url_override: row.get("icon_url_override")?,
        icon_color: row.get("icon_color")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
        time_initialized: row.get("time_initialized")?,
        sandboxes: row.get("sandboxes")?,
        commands: row.get("commands")?,
    })
}

pub(super) fn all<T>(
    db: &Connection,
    sql: &str,
    key: &[&str],
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map(rusqlite::params_from_iter(key), read).unwrap();
    rows.map(Result::unwrap).collect()
}

pub(super) fn sessions(db: &Connection) -> Vec<OpenCodeSessionRow> {
    all(db, "select * from session order by id", &[], session)
}

fn rows_of(db: &Connection, session: OpenCodeSessionRow) -> SessionRows {
    let id = session.id.clone();
    let of = |table: &str| format!("select * from {table} where session_id = ?");
    SessionRows {
        session,
        messages: all(db, &of("message"), &[&id], message),
        parts: all(db, &of("part"), &[&id], part),
        todos: all(db, &of("todo"), &[&id], todo),
    }
}

type Data = BTreeMap<String, (String, Value)>;

fn messages(rows: &SessionRows) -> Data {
    let row = |row: &OpenCodeMessageRow| {
        (row.id.clone(), (row.time_created.to_string(), serde_json::from_str(&row.data).unwrap()))
    };
    rows.messages.iter().map(row).collect()
}

fn parts(rows: &SessionRows) -> Data {
    let row = |row: &OpenCodePartRow| {
        (row.id.clone(), (row.message_id.clone(), serde_json::from_str(&row.data).unwrap()))
    };
    rows.parts.iter().map(row).collect()
}

fn todos(rows: &SessionRows) -> Vec<[String; 4]> {
    let row = |row: &OpenCodeTodoRow| {
        [row.content.clone(), row.status.clone(), row.priority.clone(), row.position.to_string()]
    };
    rows.todos.iter().map(row).collect()
}

fn check(rows: &SessionRows) {
    let (imported, problems) = rows::read_one(rows.clone(), None);
    assert_eq!(problems, []);
    let written = rows::write(&folded(&imported));
    assert_eq!(written.session, rows.session);
    assert_eq!(messages(&written), messages(rows));
    assert_eq!(parts(&written), parts(rows));
    assert_eq!(todos(&written), todos(rows));
}

fn database() -> (tempfile::TempDir, Connection) {
    let folder = unpacked("opencode-sqlite-1.18.33.tar.gz");
    let db = Connection::open(folder.path().join("opencode/opencode.db")).unwrap();
    (folder, db)
}

#[test]
fn every_session_survives() {
    let (_folder, db) = database();
    let list = sessions(&db);
    assert_eq!(list.len(), 20);
    for session in list {
        check(&rows_of(&db, session));
    }
}

#[test]
fn projects_survive() {
    let (_folder, db) = database();
    for row in all(&db, "select * from project", &[], project) {
        assert_eq!(rows::project_row(&rows::project_value(row.clone())), row);
    }
    let rich = OpenCodeProjectRow {
        id: "global".to_owned(),
        worktree: "/".to_owned(),
        name: Some("all".to_owned()),
        icon_url: Some("data:,x".to_owned()),
        icon_color: Some("pink".to_owned()),
        sandboxes: r#"["/a"]"#.to_owned(),
        commands: Some(r#"{"start":"make"}"#.to_owned()),
        ..OpenCodeProjectRow::default()
    };
    assert_eq!(rows::project_row(&rows::project_value(rich.clone())), rich);
}

#[test]
fn rows_that_are_no_json_are_named_and_odd_columns_stay() {
    let (_folder, db) = database();
    let mut rows = rows_of(&db, sessions(&db).remove(0));
    rows.session.summary_additions = Some(3);
    (rows.session.summary_deletions, rows.session.summary_files) = (None, None);
    rows.session.revert = Some("no json".to_owned());
    rows.session.model = Some(r#"{"id":"m"}"#.to_owned());
    rows.session.slug = String::new();
    check(&rows);
    rows.messages.push(OpenCodeMessageRow {
        id: "msg_bad".to_owned(),
        data: "{".to_owned(),
        ..Default::default()
    });
    rows.parts.push(OpenCodePartRow {
        id: "prt_bad".to_owned(),
        message_id: "msg_none".to_owned(),
        ..Default::default()
    });
    let problems = rows::read_one(rows, None).1;
    assert_eq!(
        problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "message msg_bad: is no JSON: EOF while parsing an object at line 1 column 1",
            "part prt_bad: belongs to message msg_none, which is not there"
        ]
    );
}
