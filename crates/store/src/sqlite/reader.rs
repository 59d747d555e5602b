//! Reading rows.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use everturn_model::inbox::{InboxItem, WaitingPrompts};
use everturn_model::permission::{Action, Rule};
use everturn_model::request::Request;
use everturn_model::subject::EventPayload;
use everturn_model::todo::Todo;
use everturn_model::tree::Node;
use everturn_model::{
    Entry, EntryId, EventId, FromJson, Part, PartId, Record, RequestId, Session, SessionId, Tree,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::schema::{self, ConnectionSettings};
use super::stored_session::text;
use crate::payload::{self, Blob, Hash};
use crate::query::StreamText;
use crate::shape::{self, damaged, decode};
use crate::{Error, parallel};

/// How many idle connections are kept.
const KEPT: usize = 4;

/// Connections for reading.
#[derive(Debug)]
pub(super) struct Pool {
    settings: ConnectionSettings,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(settings: ConnectionSettings) -> Self {
        Self { settings, idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    pub(super) fn with<T>(&self, query: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let opened = schema::open_reader(&self.settings);
                opened.map_err(|error| super::named(&self.settings.path, error))?
            }
        };
        // One transaction, so that all rows of an answer are of one moment.
        let failure = |error| super::failure(&self.settings.path, error);
        connection.execute_batch("BEGIN").map_err(failure)?;
        let result = query(&connection).map_err(|error| super::named(&self.settings.path, error));
        if !connection.is_autocommit() {
            connection.execute_batch("COMMIT").map_err(failure)?;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        result
    }
}

/// The bytes of a blob.
pub(super) fn blob(connection: &Connection, hash: &Hash) -> Result<Option<Vec<u8>>, Error> {
    let found = connection
        .prepare_cached("SELECT size, data FROM blob WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| Ok((row.get::<_, usize>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let unpack = |(size, packed): (usize, Vec<u8>)| Blob::unpack(size, &packed);
    found.map(unpack).transpose().map_err(|error| damaged("", &format!("blob {hash}"), &error))
}

/// The JSON that kept data stands for.
pub(super) fn whole<'d>(
    connection: &Connection,
    session: &str,
    place: &str,
    data: &'d str,
) -> Result<Cow<'d, str>, Error> {
    if !data.starts_with(['@', '*']) {
        return Ok(Cow::Borrowed(data));
    }
    let fetch = |hash: &Hash| {
        blob(connection, hash)?.ok_or_else(|| damaged(session, place, &format!("blob {hash} is missing")))
    };
    let json = payload::unpack(data.to_owned(), fetch).map_err(|error| match error {
        payload::Unpack::Fetch(error) => error,
        other => damaged(session, place, &other),
    })?;
    Ok(Cow::Owned(json))
}

/// A row that may name blobs.
fn unpack<T: FromJson>(connection: &Connection, session: &str, place: &str, data: &str) -> Result<T, Error> {
    decode(session, place, &whole(connection, session, place, data)?)
}

pub(super) fn key_and_session(
    connection: &Connection,
    id: &SessionId,
) -> Result<Option<(i64, Session)>, Error> {
    let found = connection
        .prepare_cached("SELECT key, data FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((row.get::<_, i64>(0)?, text(row, 1)?)))
        .optional()?;
    found.map(|(key, data)| Ok((key, decode(id.as_str(), "session", &data)?))).transpose()
}

pub(super) fn session(connection: &Connection, id: &SessionId) -> Result<Option<Session>, Error> {
    Ok(key_and_session(connection, id)?.map(|(_, session)| session))
}

pub(super) fn tree(connection: &Connection, id: &SessionId) -> Result<Option<Tree>, Error> {
    let Some((key, session)) = key_and_session(connection, id)? else { return Ok(None) };
    rows(connection, key, session).map(Some)
}

/// All rows of a session.
pub(super) fn rows(connection: &Connection, key: i64, session: Session) -> Result<Tree, Error> {
    let name = session.id.to_string();
    let parts = raw(connection, key, &name, "part", "SELECT ord, entry, data FROM part WHERE session = ?1")?;
    // Parts are the larger half: they are understood while the entries are fetched.
    let (parts, entries) = parallel::both(
        parts.len(),
        || understand::<Part>(parts, &name, "part"),
        || {
            let sql = "SELECT ord, id, data FROM entry WHERE session = ?1";
            understand::<Entry>(raw(connection, key, &name, "entry", sql)?, &name, "entry")
        },
    );
    let mut own = shape::Parts::default();
    for (order, entry, part) in parts? {
        own.add(&entry, order, part);
    }
    let entries = entries?.into_iter().map(|(order, _, entry)| (order, entry)).collect();
    let mut tree = shape::tree(session, entries, own);
    tree.inbox.extend(inbox(connection, key, &name)?);
    let mut statement = connection.prepare_cached("SELECT data FROM request WHERE session = ?1")?;
    let mut found = statement.query([key])?;
    while let Some(row) = found.next()? {
        let request: Request = decode(&name, "request", &text(row, 0)?)?;
        tree.requests.insert(request.id.clone(), request);
    }
    tree.todos = todos(connection, key, &name)?;
    Ok(tree)
}

/// Order, name and JSON of all rows of one kind.
fn raw(
    connection: &Connection,
    key: i64,
    session: &str,
    place: &str,
    sql: &str,
) -> Result<Vec<(i64, String, String)>, Error> {
    let mut rows = Vec::new();
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([key])?;
    while let Some(row) = found.next()? {
        let mut data = text(row, 2)?;
        if let Cow::Owned(json) = whole(connection, session, place, &data)? {
            data = json;
        }
        rows.push((row.get(0)?, row.get(1)?, data));
    }
    Ok(rows)
}

/// The same rows with what their JSON means.
fn understand<T: FromJson + Send>(
    rows: Vec<(i64, String, String)>,
    session: &str,
    place: &str,
) -> Result<Vec<(i64, String, T)>, Error> {
    let values = parallel::map(&rows, |(_, _, data)| decode(session, place, data))?;
    Ok(rows.into_iter().zip(values).map(|((order, name, _), value)| (order, name, value)).collect())
}

pub(super) fn todos_of(connection: &Connection, id: &SessionId) -> Result<Vec<Todo>, Error> {
    let Some((key, session)) = key_and_session(connection, id)? else { return Ok(Vec::new()) };
    todos(connection, key, session.id.as_str())
}

fn todos(connection: &Connection, key: i64, name: &str) -> Result<Vec<Todo>, Error> {
    let data = connection
        .prepare_cached("SELECT data FROM todo WHERE session = ?1")?
        .query_row([key], |row| text(row, 0))
        .optional()?;
    data.map_or(Ok(Vec::new()), |data| decode(name, "todo", &data))
}

/// The prompts that wait in a session, the next one first.
pub(super) fn inbox(connection: &Connection, key: i64, name: &str) -> Result<Vec<InboxItem>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT data FROM inbox WHERE session = ?1 ORDER BY ord")?;
    let mut found = statement.query([key])?;
    let mut items = WaitingPrompts::default();
    while let Some(row) = found.next()? {
        items.push(unpack(connection, name, "inbox", &text(row, 0)?)?);
    }
    Ok(items.into_iter().collect())
}

/// A prompt that waits.
pub(super) fn waiting_prompt(
    connection: &Connection,
    id: &SessionId,
    prompt: &EntryId,
) -> Result<Option<InboxItem>, Error> {
    let Some((key, _)) = key_and_session(connection, id)? else { return Ok(None) };
    waiting(connection, key, prompt)
}

pub(super) fn node(connection: &Connection, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
    let Some((key, _)) = key_and_session(connection, id)? else { return Ok(None) };
    node_of(connection, key, id, entry)
}

/// A node of the session with this key.
pub(super) fn node_of(
    connection: &Connection,
    key: i64,
    id: &SessionId,
    entry_id: &EntryId,
) -> Result<Option<Node>, Error> {
    let Some(entry) = entry(connection, key, entry_id)? else { return Ok(None) };
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE session = ?1 AND entry = ?2 ORDER BY ord")?;
    let mut rows = statement.query(params![key, entry_id.as_str()])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        let data = text(row, 0)?;
        parts.push(unpack(connection, id.as_str(), "part", &data)?);
    }
    Ok(Some(Node::new(entry, parts)))
}

pub(super) fn entry(connection: &Connection, key: i64, id: &EntryId) -> Result<Option<Entry>, Error> {
    one(connection, "SELECT data FROM entry WHERE session = ?1 AND id = ?2", key, id.as_str())
}

pub(super) fn waiting(connection: &Connection, key: i64, id: &EntryId) -> Result<Option<InboxItem>, Error> {
    one(connection, "SELECT data FROM inbox WHERE session = ?1 AND id = ?2", key, id.as_str())
}

fn one<T: FromJson>(connection: &Connection, sql: &str, key: i64, id: &str) -> Result<Option<T>, Error> {
    let data = connection.prepare_cached(sql)?.query_row(params![key, id], |row| text(row, 0)).optional()?;
    data.map(|data| unpack(connection, &key.to_string(), id, &data)).transpose()
}

pub(super) fn part(
    connection: &Connection,
    key: i64,
    entry: &EntryId,
    id: &PartId,
) -> Result<Option<Part>, Error> {
    let data = connection
        .prepare_cached("SELECT data FROM part WHERE session = ?1 AND entry = ?2 AND id = ?3")?
        .query_row(params![key, entry.as_str(), id.as_str()], |row| text(row, 0))
        .optional()?;
    data.map(|data| unpack(connection, entry.as_str(), id.as_str(), &data)).transpose()
}

pub(super) fn events(
    connection: &Connection,
    id: &SessionId,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<Record>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT e.seq, e.id, e.time, e.data FROM session s JOIN event e ON e.session = s.key
         WHERE s.id = ?1 AND e.seq > ?2 ORDER BY e.seq LIMIT ?3",
    )?;
    let after = after.map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
    let mut rows = statement.query(params![id.as_str(), after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: u64 = row.get(0)?;
        let data = text(row, 3)?;
        let EventPayload { event, subject } =
            unpack(connection, id.as_str(), &format!("event {seq}"), &data)?;
        records.push(Record {
            id: EventId::new(row.get::<_, String>(1)?),
            session: id.clone(),
            seq,
            time: row.get(2)?,
            event,
            subject,
        });
    }
    Ok(records)
}

pub(super) fn find_event(connection: &Connection, id: &EventId) -> Result<Option<(SessionId, u64)>, Error> {
    // Not in one query: nearly always there is no such event.
    let found = connection
        .prepare_cached("SELECT session, seq FROM event WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
        .optional()?;
    let Some((key, seq)) = found else { return Ok(None) };
    let session = connection
        .prepare_cached("SELECT id FROM session WHERE key = ?1")?
        .query_row([key], |row| row.get::<_, String>(0))
        .optional()?;
    Ok(session.map(|session| (SessionId::new(session), seq)))
}

pub(super) fn unfinished(connection: &Connection) -> Result<Vec<SessionId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM session WHERE trashed IS NULL AND (open = 1 OR key IN (SELECT session FROM inbox))",
    )?;
    // A damaged id is nobody's, and must not keep the others from going on.
    let ids = statement.query_map([], |row| text(row, 0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(ids.into_iter().map(SessionId::new).collect())
}

/// Unfinished sessions that a process has the right to run, with its name.
pub(super) fn owned(connection: &Connection) -> Result<Vec<(SessionId, String)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, owner FROM session WHERE trashed IS NULL AND owner IS NOT NULL
         AND (open = 1 OR key IN (SELECT session FROM inbox))",
    )?;
    let rows = statement.query_map([], |row| Ok((SessionId::new(text(row, 0)?), text(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn streams(connection: &Connection, id: &SessionId) -> Result<Vec<StreamText>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT t.entry, t.part, t.text, t.start FROM stream t JOIN session s ON s.key = t.session WHERE s.id = ?1
         ORDER BY t.part, t.start",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let mut streams = shape::Streams::default();
    while let Some(row) = rows.next()? {
        // A damaged piece is one that was not saved: it must not keep the rest of the session from being read.
        if let (Ok(entry), Ok(part), Ok(start), Ok(piece)) = (row.get(0), row.get(1), row.get(3), row.get(2))
        {
            streams.add(entry, part, start, piece);
        }
    }
    Ok(streams.finish())
}

pub(super) fn requests(connection: &Connection) -> Result<Vec<(SessionId, Request)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT s.id, r.data FROM request r JOIN session s ON s.key = r.session
         WHERE s.trashed IS NULL ORDER BY r.id",
    )?;
    let mut rows = statement.query([])?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        let session: String = row.get(0)?;
        match decode(&session, "request", &text(row, 1)?) {
            Ok(request) => requests.push((SessionId::new(session), request)),
            // One damaged request must not hide the others.
            Err(error) => tracing::error!(session, error = error.to_string(), "a request cannot be read"),
        }
    }
    Ok(requests)
}

pub(super) fn request(
    connection: &Connection,
    id: &RequestId,
) -> Result<Option<(SessionId, Request)>, Error> {
    let found = connection
        .prepare_cached(
            "SELECT s.id, r.data FROM request r JOIN session s ON s.key = r.session WHERE r.id = ?1",
        )?
        .query_row([id.as_str()], |row| Ok((row.get::<_, String>(0)?, text(row, 1)?)))
        .optional()?;
    let Some((session, data)) = found else { return Ok(None) };
    let request = decode(&session, "request", &data)?;
    Ok(Some((SessionId::new(session), request)))
}

pub(super) fn approvals(connection: &Connection, project: &str, folder: &str) -> Result<Vec<Rule>, Error> {
    let sql = "SELECT permission, pattern FROM approval WHERE project = ?1 AND folder = ?2 ORDER BY time";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([project, folder], |row| {
        Ok(Rule { permission: row.get(0)?, pattern: row.get(1)?, action: Action::Allow })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn projects(connection: &Connection) -> Result<Vec<(String, String)>, Error> {
    let mut statement = connection.prepare_cached("SELECT id, data FROM project ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
