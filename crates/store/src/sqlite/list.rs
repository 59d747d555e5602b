//! Lists of sessions: pages, children, totals, search, and what changed.

use everturn_model::{FromJson as _, Session, SessionId, Tokens};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::stored_session::text;
use crate::Error;
use crate::query::{Filter, Search, Totals};
use crate::row::SpentSums;
use crate::search::IndexedPlace;
use crate::words::WordQuery;

/// A session in a list, with its place in it.
pub(super) type Listed = (Session, (i64, i64));

/// The conditions that a filter means, and their values.
fn conditions(filter: &Filter) -> (String, Vec<Value>) {
    let mut sql = if filter.trashed { "trashed IS NOT NULL" } else { "trashed IS NULL" }.to_owned();
    let mut values: Vec<Value> = Vec::new();
    let mut also = |condition: &str, value: Value| {
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(project) = &filter.project {
        also(" AND project = ?", project.clone().into());
    }
    if let Some(directory) = &filter.directory {
        also(" AND directory = ?", directory.clone().into());
    }
    if let Some(since) = filter.since {
        also(" AND updated >= ?", since.into());
    }
    if let Some(text) = &filter.search {
        also(" AND instr(folded, ?) > 0", text.to_lowercase().into());
    }
    if let Some(parent) = &filter.parent {
        also(" AND parent = ?", parent.to_string().into());
    }
    if filter.roots {
        sql.push_str(" AND parent IS NULL");
    }
    sql.push_str(filter.archived_condition());
    (sql, values)
}

/// Sessions by a filter, newest activity first, from behind a place in that order.
pub(super) fn sessions(
    connection: &Connection,
    filter: &Filter,
    after: Option<(i64, i64)>,
) -> Result<Vec<Listed>, Error> {
    let (condition, values) = conditions(filter);
    let mut after = after;
    let mut sessions = Vec::new();
    // A page is full or the last one, however many sessions on the way cannot be read.
    loop {
        let mut values = values.clone();
        let mut sql = format!("SELECT id, data, updated, key FROM session WHERE {condition}");
        if let Some((updated, key)) = after {
            sql.push_str(" AND (updated, key) < (?, ?)");
            values.extend([updated.into(), key.into()]);
        }
        sql.push_str(" ORDER BY updated DESC, key DESC LIMIT ?");
        let found = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let left = filter.limit.map(|limit| limit.saturating_sub(found));
        values.push(left.map_or(-1, i64::from).into());
        let last = collect(connection, &sql, values, &mut sessions)?;
        let full = filter.limit.is_none_or(|limit| u32::try_from(sessions.len()).is_ok_and(|n| n >= limit));
        if full || last.is_none() {
            return Ok(sessions);
        }
        after = last;
    }
}

pub(super) fn children(connection: &Connection, parent: &SessionId) -> Result<Vec<Session>, Error> {
    let sql = "SELECT id, data, updated, key FROM session WHERE parent = ? AND trashed IS NULL
               ORDER BY created DESC, key DESC";
    let mut found = Vec::new();
    collect(connection, sql, vec![parent.to_string().into()], &mut found)?;
    Ok(found.into_iter().map(|(session, _)| session).collect())
}

/// Adds what can be read to a list. Gives the place of the last row.
fn collect(
    connection: &Connection,
    sql: &str,
    values: Vec<Value>,
    sessions: &mut Vec<Listed>,
) -> Result<Option<(i64, i64)>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let place = (row.get(2).unwrap_or(i64::MIN), row.get(3)?);
        last = Some(place);
        match Session::from_json(&text(row, 1)?) {
            Ok(session) => sessions.push((session, place)),
            // One damaged session must not hide the others.
            Err(error) => {
                let id = text(row, 0)?;
                tracing::error!(session = id, error = error.to_string(), "a session's row cannot be read");
            }
        }
    }
    Ok(last)
}

pub(super) fn totals(connection: &Connection, filter: &Filter) -> Result<Totals, Error> {
    let (condition, values) = conditions(filter);
    // A damaged number must not take the others with it.
    let sum = |column: &str| format!("CAST(max(ifnull(sum({column}), 0), 0) AS INTEGER)");
    let sql = format!(
        "SELECT count(*), {}, {}, {}, {}, {}, CAST(ifnull(sum(cost), 0) AS INTEGER) FROM session WHERE {condition}",
        sum("input"),
        sum("output"),
        sum("reasoning"),
        sum("cache_read"),
        sum("cache_write"),
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(rusqlite::params_from_iter(values), |row| {
        let mut tokens = Tokens { input: row.get(1)?, output: row.get(2)?, ..Tokens::default() };
        tokens.reasoning = row.get(3)?;
        tokens.cache.read = row.get(4)?;
        tokens.cache.write = row.get(5)?;
        let spent = SpentSums { cost: row.get(6)?, ..SpentSums::default() };
        Ok(Totals { sessions: row.get(0)?, tokens, cost: spent.money() })
    })?)
}

/// Places whose words match, the newest texts first; `skip` of them are left out.
pub(super) fn find(
    connection: &Connection,
    search: &Search,
    query: &WordQuery,
    skip: usize,
) -> Result<Vec<IndexedPlace>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT s.id, s.title, t.entry, t.part FROM search f JOIN text t ON t.key = f.rowid
         JOIN session s ON s.key = t.session
         WHERE search MATCH ?1 AND s.trashed IS NULL AND (?2 IS NULL OR s.project = ?2)
         AND (?3 IS NULL OR s.id = ?3) ORDER BY f.rowid DESC LIMIT ?4 OFFSET ?5",
    )?;
    let session = search.session.as_ref().map(SessionId::as_str);
    let rows =
        statement.query_map(params![query.sqlite(), search.project, session, search.limit, skip], |row| {
            Ok(IndexedPlace {
                session: SessionId::new(text(row, 0)?),
                title: text(row, 1)?,
                entry: text(row, 2)?,
                part: text(row, 3)?,
            })
        })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The key that cursors are sealed with.
pub(super) fn secret(connection: &Connection) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'secret'";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
}
