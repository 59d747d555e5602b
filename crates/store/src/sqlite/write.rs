//! Writing within a transaction: appends, streamed text, blobs.

use std::sync::Arc;

use everturn_model::tree::Node;
use everturn_model::{Session, SessionId, Tree, fold};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::stored_session::{maybe_text, text};
use super::{bill, lease, reader};
use crate::append::{Appended, Committed};
use crate::payload::Blob;
use crate::plan::{self, AppendOutcome, AppendPlan, AppendRequest, KnownEvent, NeededRows, SessionState};
use crate::row::{self, EndedStreams, LogRow, Rows, SessionRow, TextRow};
use crate::{Error, shape, words};

/// What an append wrote, and what is left to write of it.
pub(super) struct WrittenAppend {
    pub(super) appended: Appended,
    pub(super) committed: Vec<Arc<Committed>>,
    /// Nothing when it was there already.
    pub(super) fresh: Option<Box<UnwrittenRows>>,
}

/// What an append was planned with. It is kept until the answer is given: taking a fork's thousands of rows apart
/// takes a while, and nobody should wait for it.
pub(super) struct UnwrittenRows {
    key: i64,
    /// The session is new, so none of its texts has a place yet.
    created: bool,
    rows: Rows,
    _state: Option<SessionState>,
}

impl UnwrittenRows {
    /// Makes its texts findable.
    pub(super) fn put_texts(&self, connection: &Connection) -> Result<(), Error> {
        put_texts(connection, self.key, self.created, &self.rows.texts)
    }
}

/// Appends events to a session and writes the rows that they change. `observed` says whether anybody wants to see each
/// event with its rows; `stamp` is the number of the commit.
///
/// The texts are left to the caller: the index writes a segment at each savepoint that follows, so they come once,
/// after all appends of a group.
pub(super) fn append(
    connection: &Connection,
    asked: AppendRequest,
    observed: bool,
    stamp: i64,
) -> Result<WrittenAppend, Error> {
    let known = known(connection, &asked)?;
    let id = asked.session.clone();
    let mut state = load(connection, &asked)?;
    let key = state.as_ref().map(|(key, _)| *key);
    let mut state = state.take().map(|(_, state)| state);
    match plan::plan(&mut state, asked, &known, observed)? {
        AppendOutcome::Present(appended) => {
            Ok(WrittenAppend { appended, committed: Vec::new(), fresh: None })
        }
        AppendOutcome::Fresh(plan) => {
            let AppendPlan { session, given_back, log, rows, appended, committed, created } = *plan;
            let key = match key {
                Some(key) => key,
                None => create(connection, &id)?,
            };
            put_session(connection, key, &session, Some(stamp))?;
            if given_back {
                lease::free(connection, key)?;
            }
            put_rows(connection, key, &rows)?;
            // Last, because it may still be packed while the rows are written.
            let (log, blobs) = row::finish(log)?;
            put_log(connection, key, &log, stamp)?;
            put_blobs(connection, key, &blobs)?;
            Ok(WrittenAppend {
                appended,
                committed,
                fresh: Some(Box::new(UnwrittenRows { key, created, rows, _state: state })),
            })
        }
    }
}

/// Events of the append that are in the log already.
fn known(connection: &Connection, asked: &AppendRequest) -> Result<Vec<KnownEvent>, Error> {
    let mut found = Vec::new();
    for new in &asked.events {
        if let Some((session, seq)) = reader::find_event(connection, &new.id)? {
            let after = seq.checked_sub(1);
            let record = reader::events(connection, &session, after, 1)?.pop();
            if let Some(record) = record {
                found.push(KnownEvent { id: new.id.clone(), session, seq, event: record.event });
            }
        }
    }
    Ok(found)
}

/// The session's row and what the append touches.
fn load(connection: &Connection, asked: &AppendRequest) -> Result<Option<(i64, SessionState)>, Error> {
    let id = &asked.session;
    let found = connection
        .prepare_cached(
            "SELECT key, seq, owner, epoch, data, (SELECT reason FROM quarantine WHERE session = ?1), changed
             FROM session WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let head = (row.get::<_, i64>(0)?, row.get::<_, u64>(1)?, row.get::<_, u64>(6)?);
            let reason = row.get::<_, Option<String>>(5)?;
            Ok((head, maybe_text(row, 2)?, row.get::<_, u64>(3)?, text(row, 4)?, reason))
        })
        .optional()?;
    let Some(((key, seq, changed), owner, epoch, data, reason)) = found else {
        refuse_purged(connection, id)?;
        return Ok(None);
    };
    if let Some(reason) = reason {
        return Err(Error::Quarantined { session: id.clone(), reason });
    }
    let session: Session = shape::decode(id.as_str(), "session", &data)?;
    let needs = NeededRows::of(asked.events.iter().map(|new| &new.event));
    let tree = if needs.whole {
        reader::rows(connection, key, session)?
    } else {
        touched(connection, key, session, &needs)?
    };
    Ok(Some((key, SessionState { seq, tree, owner, epoch, changed })))
}

pub(super) fn refuse_purged(connection: &Connection, id: &SessionId) -> Result<(), Error> {
    let purged =
        connection.prepare_cached("SELECT 1 FROM tombstone WHERE session = ?1")?.exists([id.as_str()])?;
    if purged { Err(Error::Purged(id.clone())) } else { Ok(()) }
}

pub(super) fn refuse_quarantined(connection: &Connection, id: &SessionId) -> Result<(), Error> {
    let reason = connection
        .prepare_cached("SELECT reason FROM quarantine WHERE session = ?1")?
        .query_row([id.as_str()], |row| row.get::<_, String>(0))
        .optional()?;
    reason.map_or(Ok(()), |reason| Err(Error::Quarantined { session: id.clone(), reason }))
}

/// The session row and the rows that events need.
pub(super) fn touched(
    connection: &Connection,
    key: i64,
    session: Session,
    needs: &NeededRows,
) -> Result<Tree, Error> {
    let mut tree = Tree::new(session);
    for id in &needs.entries {
        if let Some(found) = reader::entry(connection, key, id)? {
            tree.insert(Node::new(found, Vec::new()));
        }
    }
    for (entry, part) in &needs.parts {
        if tree.node(entry).is_some()
            && let Some(found) = reader::part(connection, key, entry, part)?
            && let Some(node) = tree.node_mut(entry)
        {
            node.parts.push(found);
        }
    }
    for id in &needs.inbox {
        if let Some(found) = reader::waiting(connection, key, id)? {
            tree.inbox.push(found);
        }
    }
    for id in &needs.requests {
        if let Some((of, found)) = reader::request(connection, id)?
            && of == tree.session.id
        {
            tree.requests.insert(found.id.clone(), found);
        }
    }
    Ok(tree)
}

/// A session's row with nothing in it yet.
pub(super) fn create(connection: &Connection, id: &SessionId) -> Result<i64, Error> {
    connection
        .prepare_cached(
            "INSERT INTO session (id, seq, project, directory, title, created, updated, data)
             VALUES (?1, 0, '', '', '', 0, 0, '')",
        )?
        .execute([id.as_str()])?;
    Ok(connection.last_insert_rowid())
}

/// Writes a session's row; without a stamp it counts as no change.
pub(super) fn put_session(
    connection: &Connection,
    key: i64,
    row: &SessionRow,
    stamp: Option<i64>,
) -> Result<(), Error> {
    let spent = &row.spent;
    connection
        .prepare_cached(
            "UPDATE session SET seq = ?2, title = ?3, folded = ?4, created = ?5, archived = ?6, data = ?7, input = ?8,
             output = ?9, reasoning = ?10, cache_read = ?11, cache_write = ?12, cost = ?13,
             changed = ifnull(?14, changed) WHERE key = ?1",
        )?
        .execute(params![
            key,
            row.seq,
            row.title,
            row.folded,
            row.created,
            row.archived,
            row.data,
            spent.input,
            spent.output,
            spent.reasoning,
            spent.cache_read,
            spent.cache_write,
            spent.cost,
            stamp
        ])?;
    // Lists are ordered and chosen by these. They seldom change, and each has a page of an index that would be written.
    connection
        .prepare_cached(
            "UPDATE session SET project = ?2, directory = ?3, parent = ?4, updated = ?5, trashed = ?6, open = ?7
             WHERE key = ?1 AND (project, directory, parent, updated, trashed, open)
             IS NOT (?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![key, row.project, row.directory, row.parent, row.updated, row.trashed, row.open])?;
    Ok(())
}

pub(super) fn put_log(connection: &Connection, key: i64, log: &[LogRow], stamp: i64) -> Result<(), Error> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO event (session, seq, id, time, type, data, epoch, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in log {
        insert.execute(params![key, row.seq, row.id, row.time, row.name, row.data, row.epoch, stamp])?;
    }
    Ok(())
}

/// Writes rows of a session's projections.
pub(super) fn put_rows(connection: &Connection, key: i64, rows: &Rows) -> Result<(), Error> {
    put_blobs(connection, key, &rows.blobs)?;
    let mut put_entry = connection.prepare_cached(
        "INSERT INTO entry (session, id, ord, parent, data) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET parent = ?4, data = ?5",
    )?;
    for row in &rows.entries {
        put_entry.execute(params![key, row.id, row.order, row.parent, row.data])?;
    }
    let mut put_part = connection.prepare_cached(
        "INSERT INTO part (session, entry, id, ord, data) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET data = ?5",
    )?;
    for row in &rows.parts {
        put_part.execute(params![key, row.entry, row.id, row.order, row.data])?;
    }
    for row in &rows.inbox {
        match &row.data {
            Some(data) => connection
                .prepare_cached(
                    "INSERT INTO inbox VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET data = ?4",
                )?
                .execute(params![key, row.id, row.order, data])?,
            None => connection
                .prepare_cached("DELETE FROM inbox WHERE session = ?1 AND id = ?2")?
                .execute(params![key, row.id])?,
        };
    }
    for row in &rows.requests {
        match &row.data {
            Some(data) => {
                let put = connection
                    .prepare_cached(
                        "INSERT INTO request VALUES (?1, ?2, ?3)
                         ON CONFLICT DO UPDATE SET data = ?3 WHERE session = ?2",
                    )?
                    .execute(params![row.id, key, data])?;
                if put == 0 {
                    return Err(taken_request(connection, key, &row.id)?);
                }
            }
            None => {
                connection
                    .prepare_cached("DELETE FROM request WHERE id = ?1 AND session = ?2")?
                    .execute(params![row.id, key])?;
            }
        }
    }
    if let Some(todos) = &rows.todos {
        connection
            .prepare_cached("INSERT OR REPLACE INTO todo VALUES (?1, ?2)")?
            .execute(params![key, todos])?;
    }
    bill::put(connection, key, &rows.bill)?;
    end_streams(connection, key, &rows.ended)
}

/// The refusal of a request whose id another session has.
fn taken_request(connection: &Connection, key: i64, id: &str) -> Result<Error, Error> {
    let session = connection
        .prepare_cached("SELECT id FROM session WHERE key = ?1")?
        .query_row([key], |row| row.get::<_, String>(0))?;
    Ok(Error::Unfit { session: SessionId::new(session), source: fold::Error::Taken(id.to_owned()) })
}

pub(super) fn put_blobs(connection: &Connection, key: i64, blobs: &[Blob]) -> Result<(), Error> {
    for blob in blobs {
        connection.prepare_cached("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3)")?.execute(params![
            blob.hash.as_bytes(),
            blob.size,
            blob.packed
        ])?;
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob_use VALUES (?1, ?2)")?
            .execute(params![key, blob.hash.as_bytes()])?;
    }
    Ok(())
}

/// Makes texts findable. Those of a session that was just `created` have no place yet.
pub(super) fn put_texts(
    connection: &Connection,
    key: i64,
    created: bool,
    texts: &[TextRow],
) -> Result<(), Error> {
    let mut put_place =
        connection.prepare_cached("INSERT INTO text (session, entry, part) VALUES (?1, ?2, ?3)")?;
    let mut put_words = connection.prepare_cached("INSERT INTO search (rowid, words) VALUES (?1, ?2)")?;
    for row in texts {
        let place = if created { None } else { place_of(connection, key, row)? };
        match (&row.text, place) {
            (None, None) => {}
            (None, Some(place)) => {
                connection.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([place])?;
                connection.prepare_cached("DELETE FROM text WHERE key = ?1")?.execute([place])?;
            }
            (Some(text), Some(place)) => {
                connection
                    .prepare_cached("INSERT OR REPLACE INTO search (rowid, words) VALUES (?1, ?2)")?
                    .execute(params![place, words::joined(text)])?;
            }
            (Some(text), None) => {
                put_place.execute(params![key, row.entry, row.part])?;
                put_words.execute(params![connection.last_insert_rowid(), words::joined(text)])?;
            }
        }
    }
    Ok(())
}

fn place_of(connection: &Connection, key: i64, row: &TextRow) -> Result<Option<i64>, Error> {
    let found = connection
        .prepare_cached("SELECT key FROM text WHERE session = ?1 AND entry = ?2 AND part = ?3")?
        .query_row(params![key, row.entry, row.part], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(found)
}

/// The final value of a part replaces what was saved of it while it streamed.
fn end_streams(connection: &Connection, key: i64, ended: &[EndedStreams]) -> Result<(), Error> {
    for ended in ended {
        match ended {
            EndedStreams::Part(part) => connection
                .prepare_cached("DELETE FROM stream WHERE session = ?1 AND part = ?2")?
                .execute(params![key, part.as_str()])?,
            EndedStreams::All => {
                connection.prepare_cached("DELETE FROM stream WHERE session = ?1")?.execute([key])?
            }
        };
    }
    Ok(())
}

/// Saves a piece of streamed text of an open part, if the lease still holds.
pub(super) fn save_stream(connection: &Connection, piece: &crate::append::StreamPiece) -> Result<(), Error> {
    lease::check(connection, &piece.lease)?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO stream (session, part, start, entry, text)
             SELECT key, ?2, ?3, ?4, ?5 FROM session WHERE id = ?1",
        )?
        .execute(params![
            piece.lease.session.as_str(),
            piece.part.as_str(),
            piece.start,
            piece.entry.as_str(),
            piece.text
        ])?;
    Ok(())
}
