//! A session's rows as they are, for upkeep: nothing is decoded, and a value of the wrong kind stops nothing.

use everturn_model::SessionId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Params, Row};

use super::bill;
use crate::Error;
use crate::payload::Hash;
use crate::row::{EntryRow, InboxRow, LogRow, PartRow, RequestRow, Rows, SessionRow, SpentSums};
use crate::upkeep::stored_session::{KeyedId, StoredSession, StreamRow, TextPlace};

/// The text of a column; if it is not text, something that nobody can take for the value.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(bytes).into_owned(),
        },
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
    })
}

pub(super) fn maybe_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => text(row, column).map(Some),
    }
}

/// The number of a column; if it is not a number, one that is never right.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => number,
        _ => i64::MIN,
    })
}

/// The same, where there may be none.
pub(super) fn maybe_number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<i64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => number(row, column).map(Some),
    }
}

pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(number(row, column)?).unwrap_or(u64::MAX))
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, each)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The key of a session: of its row, or of a log that was left without one.
pub(super) fn key(connection: &Connection, id: &SessionId) -> Result<Option<i64>, Error> {
    let found = connection
        .prepare_cached("SELECT key FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let mut lost = lost(connection)?;
    lost.retain(|lost| lost.id == *id);
    Ok(lost.pop().map(|lost| lost.key))
}

/// Sessions that no row has the id of: logs without a row, and rows whose id is no text.
fn lost(connection: &Connection) -> Result<Vec<KeyedId>, Error> {
    let mut lost = without_row(connection)?;
    let mut statement = connection.prepare_cached("SELECT key, id FROM session")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if row.get_ref(1)?.as_str().is_err() {
            lost.push(keyed(connection, row)?);
        }
    }
    Ok(lost)
}

/// A session by key and id. If the id is no text, it is what the creation names; if that cannot be read either, what is
/// left of the id.
pub(super) fn keyed(connection: &Connection, row: &Row<'_>) -> Result<KeyedId, Error> {
    let key = row.get(0)?;
    if let Ok(id) = row.get_ref(1)?.as_str() {
        return Ok(KeyedId { key, id: SessionId::new(id) });
    }
    let created = connection
        .prepare_cached("SELECT data FROM event WHERE session = ?1 AND seq = 0")?
        .query_row([key], |row| text(row, 0))
        .optional()?;
    let named = created.and_then(|data| named_in(&data));
    Ok(KeyedId { key, id: SessionId::new(named.map_or_else(|| text(row, 1), Ok)?) })
}

/// Logs without a session's row, with the id that their creation names.
pub(super) fn without_row(connection: &Connection) -> Result<Vec<KeyedId>, Error> {
    let sql = "WITH RECURSIVE log (key) AS (
                 SELECT min(session) FROM event UNION ALL
                 SELECT (SELECT min(session) FROM event WHERE session > log.key) FROM log WHERE log.key IS NOT NULL
               )
               SELECT log.key, e.data FROM log JOIN event e ON e.session = log.key AND e.seq = 0
               WHERE log.key NOT IN (SELECT key FROM session)";
    let rows = all(connection, sql, [], |row| Ok((row.get::<_, i64>(0)?, text(row, 1)?)))?;
    let named = |(key, data): (i64, String)| Some(KeyedId { key, id: SessionId::new(named_in(&data)?) });
    Ok(rows.into_iter().filter_map(named).collect())
}

/// The id that the creation of a session names.
fn named_in(created: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(created).ok()?;
    Some(event.get("session.created")?.get("session")?.get("id")?.as_str()?.to_owned())
}

pub(super) fn stored(connection: &Connection, id: &SessionId) -> Result<Option<StoredSession>, Error> {
    let Some(key) = key(connection, id)? else { return Ok(None) };
    let texts = all(
        connection,
        "SELECT t.entry, t.part, EXISTS (SELECT 1 FROM search_docsize d WHERE d.id = t.key)
         FROM text t WHERE t.session = ?1",
        [key],
        |row| Ok(TextPlace { entry: text(row, 0)?, part: text(row, 1)?, indexed: row.get(2)? }),
    )?;
    let uses: Vec<Vec<u8>> = all(connection, "SELECT hash FROM blob_use WHERE session = ?1", [key], |row| {
        Ok(row.get_ref(0)?.as_blob().map(<[u8]>::to_vec).unwrap_or_default())
    })?;
    let streams = all(
        connection,
        "SELECT part, start, text FROM stream WHERE session = ?1 ORDER BY part, start",
        [key],
        |row| Ok(StreamRow { part: text(row, 0)?, start: count(row, 1)?, text: text(row, 2)? }),
    )?;
    let (bill, billed) = bill::stored(connection, key)?;
    Ok(Some(StoredSession {
        session: session(connection, key)?,
        log: log(connection, key)?,
        rows: Rows { bill, ..rows(connection, key)? },
        billed,
        texts,
        uses: uses.iter().filter_map(|bytes| Hash::from_slice(bytes)).collect(),
        streams,
    }))
}

fn session(connection: &Connection, key: i64) -> Result<Option<SessionRow>, Error> {
    let sql = "SELECT id, seq, project, directory, parent, title, folded, created, updated, archived, trashed, open,
               input, output, reasoning, cache_read, cache_write, cost, data FROM session WHERE key = ?1";
    let found = connection.prepare_cached(sql)?.query_row([key], |row| {
        Ok(SessionRow {
            id: text(row, 0)?,
            seq: count(row, 1)?,
            project: text(row, 2)?,
            directory: text(row, 3)?,
            parent: maybe_text(row, 4)?,
            title: text(row, 5)?,
            folded: text(row, 6)?,
            created: number(row, 7)?,
            updated: number(row, 8)?,
            archived: maybe_number(row, 9)?,
            trashed: maybe_number(row, 10)?,
            open: number(row, 11)? != 0,
            spent: SpentSums {
                input: number(row, 12)?,
                output: number(row, 13)?,
                reasoning: number(row, 14)?,
                cache_read: number(row, 15)?,
                cache_write: number(row, 16)?,
                cost: number(row, 17)?,
            },
            data: text(row, 18)?,
        })
    });
    Ok(found.optional()?)
}

/// A session's log.
pub(super) fn log(connection: &Connection, key: i64) -> Result<Vec<LogRow>, Error> {
    let sql = "SELECT seq, id, time, type, epoch, data FROM event WHERE session = ?1 ORDER BY seq";
    all(connection, sql, [key], |row| {
        Ok(LogRow {
            seq: count(row, 0)?,
            id: text(row, 1)?,
            time: number(row, 2)?,
            name: text(row, 3)?,
            epoch: maybe_number(row, 4)?.and_then(|epoch| u64::try_from(epoch).ok()),
            data: text(row, 5)?,
        })
    })
}

fn rows(connection: &Connection, key: i64) -> Result<Rows, Error> {
    let entries = all(
        connection,
        "SELECT id, ord, parent, data FROM entry WHERE session = ?1 ORDER BY ord",
        [key],
        |row| {
            let (id, order) = (text(row, 0)?, number(row, 1)?);
            Ok(EntryRow { id, order, parent: maybe_text(row, 2)?, data: text(row, 3)? })
        },
    )?;
    let parts = all(
        connection,
        "SELECT entry, id, ord, data FROM part WHERE session = ?1 ORDER BY entry, ord",
        [key],
        |row| {
            let (entry, id) = (text(row, 0)?, text(row, 1)?);
            Ok(PartRow { entry, id, order: number(row, 2)?, data: text(row, 3)? })
        },
    )?;
    let inbox =
        all(connection, "SELECT id, ord, data FROM inbox WHERE session = ?1 ORDER BY ord", [key], |row| {
            Ok(InboxRow { id: text(row, 0)?, order: number(row, 1)?, data: Some(text(row, 2)?) })
        })?;
    let requests =
        all(connection, "SELECT id, data FROM request WHERE session = ?1 ORDER BY id", [key], |row| {
            Ok(RequestRow { id: text(row, 0)?, data: Some(text(row, 1)?) })
        })?;
    let todos = connection
        .prepare_cached("SELECT data FROM todo WHERE session = ?1")?
        .query_row([key], |row| text(row, 0))
        .optional()?;
    Ok(Rows { entries, parts, inbox, requests, todos, ..Rows::default() })
}
