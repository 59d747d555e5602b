//! Appending: the log, its rows and its rules, within one transaction.

use std::sync::Arc;

use everturn_model::event::Touches;
use everturn_model::fold::{self, Changes};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Record, Session, SessionId, Tree};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::reader;
use super::writer::Piece;
use crate::Error;
use crate::append::{Appended, Authority, Committed, Lease, NewEvent};

/// Payloads above this many bytes are kept compressed and shared by content.
const BLOB: usize = 64 * 1024;

struct Row {
    key: i64,
    seq: u64,
    session: Session,
}

/// Appends events to a session and folds them into its rows. `observed` says whether anybody wants to see each event
/// with its rows; if not, none are collected.
pub(super) fn append(
    connection: &Connection,
    id: &SessionId,
    authority: &Authority,
    events: Vec<NewEvent>,
    observed: bool,
) -> Result<(Appended, Vec<Committed>), Error> {
    let row = load_row(connection, id)?;
    if let (Authority::Owned(lease), Some(_)) = (authority, &row) {
        check_lease(connection, lease)?;
    }
    let staged = row.as_ref().is_some_and(|row| row.session.revert.is_some());
    if *authority == Authority::Admission && staged {
        return Err(Error::Staged(id.clone()));
    }
    if let Some(seen) = already_there(connection, id, &events)? {
        let session = row.ok_or_else(|| Error::NoSession(id.clone()))?.session;
        return Ok((Appended { first: seen, session: Arc::new(session), fresh: false }, Vec::new()));
    }
    let mut events = events.into_iter();
    let mut committed = Vec::new();
    let (mut writer, first) = match row {
        Some(row) => {
            let first = row.seq + 1;
            (
                Writer { connection, key: row.key, seq: row.seq, tree: Tree::new(row.session), whole: false },
                first,
            )
        }
        None => {
            let Some(new) = events.next() else { return Err(Error::NoSession(id.clone())) };
            if !matches!(new.event, Event::SessionCreated { .. }) {
                return Err(Error::NoSession(id.clone()));
            }
            let record = Record { id: new.id, session: id.clone(), seq: 0, time: new.time, event: new.event };
            let writer = Writer::create(connection, &record)?;
            if observed {
                let tree = writer.tree.clone();
                committed.push(Committed { record, before: None, changes: Changes::default(), tree });
            }
            (writer, 0)
        }
    };
    for new in events {
        if matches!(new.event, Event::SessionCreated { .. }) {
            return Err(Error::Exists(id.clone()));
        }
        let record =
            Record { id: new.id, session: id.clone(), seq: writer.seq + 1, time: new.time, event: new.event };
        let before = observed.then(|| writer.tree.session.clone());
        let changes = writer.append(&record)?;
        if observed {
            committed.push(Committed { record, before, changes, tree: writer.tree.clone() });
        }
    }
    writer.put_session()?;
    let session = Arc::new(writer.tree.session);
    Ok((Appended { first, session, fresh: true }, committed))
}

/// The seq of the first event, when all of them are in this session's log already.
fn already_there(connection: &Connection, id: &SessionId, events: &[NewEvent]) -> Result<Option<u64>, Error> {
    let Some(first) = events.first() else { return Ok(Some(0)) };
    match reader::find_event(connection, &first.id)? {
        None => Ok(None),
        Some((session, seq)) if &session == id => Ok(Some(seq)),
        Some(_) => {
            Err(Error::Unfit { session: id.clone(), source: fold::Error::Taken(first.id.to_string()) })
        }
    }
}

fn load_row(connection: &Connection, id: &SessionId) -> Result<Option<Row>, Error> {
    let found = connection
        .prepare_cached("SELECT key, seq, data FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?, row.get::<_, String>(2)?))
        })
        .optional()?;
    let Some((key, seq, data)) = found else { return Ok(None) };
    let session = reader::decode(id.as_str(), "session", &data)?;
    Ok(Some(Row { key, seq, session }))
}

fn check_lease(connection: &Connection, lease: &Lease) -> Result<(), Error> {
    let holds = connection
        .prepare_cached("SELECT 1 FROM session WHERE id = ?1 AND owner = ?2 AND epoch = ?3")?
        .exists(params![lease.session.as_str(), lease.owner, lease.epoch])?;
    if holds { Ok(()) } else { Err(Error::Fenced(lease.session.clone())) }
}

/// Saves a piece of streamed text of an open part, if the lease still holds.
pub(super) fn save_stream(connection: &Connection, piece: &Piece) -> Result<(), Error> {
    check_lease(connection, &piece.lease)?;
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

struct Writer<'c> {
    connection: &'c Connection,
    key: i64,
    seq: u64,
    tree: Tree,
    whole: bool,
}

impl<'c> Writer<'c> {
    fn create(connection: &'c Connection, record: &Record) -> Result<Self, Error> {
        let tree = fold::begin(record).map_err(|source| unfit(&record.session, source))?;
        let session = &tree.session;
        if session.id != record.session {
            return Err(unfit(&record.session, fold::Error::Taken(session.id.to_string())));
        }
        connection
            .prepare_cached(
                "INSERT INTO session (id, seq, project, directory, title, created, updated, data)
                 VALUES (?1, 0, '', '', '', 0, 0, '')",
            )?
            .execute([session.id.as_str()])?;
        let key = connection.last_insert_rowid();
        let writer = Self { connection, key, seq: 0, tree, whole: true };
        writer.log(record)?;
        Ok(writer)
    }

    fn append(&mut self, record: &Record) -> Result<Changes, Error> {
        self.load(&record.event.touches())?;
        let changes = fold::apply(&mut self.tree, record).map_err(|source| unfit(&record.session, source))?;
        self.seq = record.seq;
        self.log(record)?;
        self.write(record, &changes)?;
        Ok(changes)
    }

    /// Brings the rows that an event touches into the tree.
    fn load(&mut self, touches: &Touches<'_>) -> Result<(), Error> {
        if self.whole {
            return Ok(());
        }
        if touches.whole {
            let session = self.tree.session.clone();
            self.tree = reader::rows(self.connection, self.key, session)?;
            self.whole = true;
            return Ok(());
        }
        for entry in &touches.entries {
            if self.tree.node(entry).is_none()
                && let Some(found) = reader::entry(self.connection, self.key, entry)?
            {
                self.tree.insert(Node::new(found, Vec::new()));
            }
        }
        for entry in &touches.entries {
            for part in &touches.parts {
                let absent = self.tree.node(entry).is_some_and(|node| node.part(part).is_none());
                if absent
                    && let Some(found) = reader::part(self.connection, self.key, entry, part)?
                    && let Some(node) = self.tree.node_mut(entry)
                {
                    node.parts.push(found);
                }
            }
        }
        for item in &touches.inbox {
            if self.tree.waiting(item).is_none()
                && let Some(found) = reader::waiting(self.connection, self.key, item)?
            {
                self.tree.inbox.push(found);
            }
        }
        for request in &touches.requests {
            if !self.tree.requests.contains_key(*request)
                && let Some((_, found)) = reader::request(self.connection, request)?
            {
                self.tree.requests.insert(found.id.clone(), found);
            }
        }
        Ok(())
    }

    fn log(&self, record: &Record) -> Result<(), Error> {
        let data = encode(&record.event)?;
        let (text, blob) = if data.len() > BLOB {
            let hash = blake3::hash(data.as_bytes());
            let packed = zstd::bulk::compress(data.as_bytes(), 1)
                .map_err(|source| Error::Io { path: "compression".into(), source })?;
            self.connection
                .prepare_cached("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3)")?
                .execute(params![hash.as_bytes(), data.len(), packed])?;
            (None, Some(*hash.as_bytes()))
        } else {
            (Some(data), None)
        };
        self.connection.prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(
            params![
                self.key,
                record.seq,
                record.id.as_str(),
                record.time,
                record.event.stored_name(),
                text,
                blob
            ],
        )?;
        Ok(())
    }

    fn write(&self, record: &Record, changes: &Changes) -> Result<(), Error> {
        let base = i64::try_from(record.seq).unwrap_or(i64::MAX >> 20) << 20;
        let mut put_entry = self.connection.prepare_cached(
            "INSERT INTO entry (session, id, ord, parent, data) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET parent = ?4, data = ?5",
        )?;
        for (ord, id) in (base..).zip(&changes.entries) {
            let Some(node) = self.tree.node(id) else { continue };
            let parent = node.entry.parent.as_ref().map(EntryId::as_str);
            put_entry.execute(params![self.key, id.as_str(), ord, parent, encode(&node.entry)?])?;
        }
        let mut put_part = self.connection.prepare_cached(
            "INSERT INTO part (session, entry, id, ord, data) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET data = ?5",
        )?;
        for (ord, (entry, id)) in (base..).zip(&changes.parts) {
            let Some(part) = self.tree.node(entry).and_then(|node| node.part(id)) else { continue };
            put_part.execute(params![self.key, entry.as_str(), id.as_str(), ord, encode(part)?])?;
        }
        for (ord, id) in (base..).zip(&changes.inbox) {
            match self.tree.waiting(id) {
                Some(item) => self
                    .connection
                    .prepare_cached(
                        "INSERT INTO inbox VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET data = ?4",
                    )?
                    .execute(params![self.key, id.as_str(), ord, encode(item)?])?,
                None => self
                    .connection
                    .prepare_cached("DELETE FROM inbox WHERE session = ?1 AND id = ?2")?
                    .execute(params![self.key, id.as_str()])?,
            };
        }
        for id in &changes.requests {
            match self.tree.requests.get(id) {
                Some(request) => self
                    .connection
                    .prepare_cached("INSERT OR REPLACE INTO request VALUES (?1, ?2, ?3)")?
                    .execute(params![id.as_str(), self.key, encode(request)?])?,
                None => self
                    .connection
                    .prepare_cached("DELETE FROM request WHERE id = ?1")?
                    .execute([id.as_str()])?,
            };
        }
        if changes.todos {
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO todo VALUES (?1, ?2)")?
                .execute(params![self.key, encode(&self.tree.todos)?])?;
        }
        self.end_streams(&record.event)
    }

    /// The final value of a part replaces what was saved of it while it streamed.
    fn end_streams(&self, event: &Event) -> Result<(), Error> {
        match event {
            Event::PartEnded { part, .. } => {
                self.connection
                    .prepare_cached("DELETE FROM stream WHERE session = ?1 AND part = ?2")?
                    .execute(params![self.key, part.as_str()])?;
            }
            Event::StepEnded { .. } | Event::StepFailed { .. } => {
                self.connection
                    .prepare_cached("DELETE FROM stream WHERE session = ?1")?
                    .execute([self.key])?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put_session(&self) -> Result<(), Error> {
        let session = &self.tree.session;
        self.connection
            .prepare_cached(
                "UPDATE session SET seq = ?2, project = ?3, directory = ?4, parent = ?5, title = ?6, created = ?7,
                 updated = ?8, archived = ?9, trashed = ?10, open = ?11, data = ?12 WHERE key = ?1",
            )?
            .execute(params![
                self.key,
                self.seq,
                session.project,
                session.directory,
                session.parent.as_ref().map(SessionId::as_str),
                session.title,
                session.time.created,
                session.time.updated,
                session.time.archived,
                session.time.trashed,
                session.open,
                encode(session)?
            ])?;
        Ok(())
    }
}

fn unfit(session: &SessionId, source: fold::Error) -> Error {
    Error::Unfit { session: session.clone(), source }
}

fn encode(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt {
        session: String::new(),
        place: "memory".to_owned(),
        reason: error.to_string(),
    })
}
