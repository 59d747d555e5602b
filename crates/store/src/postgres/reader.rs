//! Reading a session: its row, its tree, its log, and what waits in it.

use deadpool_postgres::ClientWrapper;
use everturn_model::inbox::{InboxItem, WaitingPrompts};
use everturn_model::permission::{Action, Rule};
use everturn_model::request::Request;
use everturn_model::subject::EventPayload;
use everturn_model::todo::Todo;
use everturn_model::{EntryId, EventId, FromJson, Record, RequestId, Session, SessionId, Tree};
use tokio_postgres::Row;

use super::blob::{self, Blobs};
use super::failure::ServerFailure;
use super::pool::{StatementValues, query};
use crate::query::StreamText;
use crate::shape::{self, decode};
use crate::{Error, parallel};

/// A number that is never negative.
pub(super) fn count(row: &Row, column: usize) -> Result<u64, ServerFailure> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

/// Payloads of one kind with the place of each, not yet decoded.
#[derive(Debug)]
pub(super) struct Payloads<'r> {
    session: &'r str,
    kind: &'static str,
    /// Order, name and text.
    rows: Vec<(i64, &'r str, &'r str)>,
}

impl<'r> Payloads<'r> {
    /// Rows of order, name and data.
    pub(super) fn of(session: &'r str, kind: &'static str, rows: &'r [Row]) -> Result<Self, ServerFailure> {
        let mut payloads = Self { session, kind, rows: Vec::with_capacity(rows.len()) };
        for row in rows {
            let data = blob::text(session, kind, row.try_get(2)?)?;
            payloads.rows.push((row.try_get(0)?, row.try_get(1)?, data));
        }
        Ok(payloads)
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &'r str> {
        self.rows.iter().map(|(_, _, data)| *data)
    }

    /// Order, name and value of each.
    pub(super) fn decode<T: FromJson + Send>(&self, blobs: &Blobs) -> Result<Vec<(i64, &'r str, T)>, Error> {
        parallel::map(&self.rows, |(order, name, data)| {
            Ok((*order, *name, blobs.decode(self.session, self.kind, data)?))
        })
    }
}

pub(super) async fn key_and_session(
    client: &ClientWrapper,
    id: &SessionId,
) -> Result<Option<(i64, Session)>, ServerFailure> {
    let rows = query(client, "SELECT key, data FROM session WHERE id = $1", &[&id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let data = blob::text(id.as_str(), "session", row.try_get(1)?)?;
    Ok(Some((row.try_get(0)?, decode(id.as_str(), "session", data)?)))
}

pub(super) async fn session(
    client: &ClientWrapper,
    id: &SessionId,
) -> Result<Option<Session>, ServerFailure> {
    Ok(key_and_session(client, id).await?.map(|(_, session)| session))
}

pub(super) async fn tree(client: &ClientWrapper, id: &SessionId) -> Result<Option<Tree>, ServerFailure> {
    let Some((key, session)) = key_and_session(client, id).await? else { return Ok(None) };
    let name = id.as_str();
    let own: StatementValues<'_> = &[&key];
    let (entries, parts, inbox, requests, todos) = tokio::try_join!(
        query(client, "SELECT ord, id, data FROM entry WHERE session = $1", own),
        query(client, "SELECT ord, entry, data FROM part WHERE session = $1", own),
        query(client, INBOX, own),
        query(client, "SELECT 0::bigint, id, data FROM request WHERE session = $1", own),
        query(client, TODOS, own),
    )?;
    let entries = Payloads::of(name, "entry", &entries)?;
    let parts = Payloads::of(name, "part", &parts)?;
    let inbox = Payloads::of(name, "inbox", &inbox)?;
    let requests = Payloads::of(name, "request", &requests)?;
    let todos = Payloads::of(name, "todo", &todos)?;
    let blobs = Blobs::of(client, entries.texts().chain(parts.texts()).chain(inbox.texts())).await?;
    let mut joined = shape::Parts::default();
    for (order, entry, part) in parts.decode(&blobs)? {
        joined.add(entry, order, part);
    }
    let entries = entries.decode(&blobs)?.into_iter().map(|(order, _, entry)| (order, entry));
    let mut tree = shape::tree(session, entries.collect(), joined);
    tree.inbox = inbox.decode(&blobs)?.into_iter().map(|(_, _, item)| item).collect();
    for (_, _, request) in requests.decode::<Request>(&blobs)? {
        tree.requests.insert(request.id.clone(), request);
    }
    if let Some((_, _, todos)) = todos.decode(&blobs)?.pop() {
        tree.todos = todos;
    }
    Ok(Some(tree))
}

const INBOX: &str = "SELECT ord, id, data FROM inbox WHERE session = $1 ORDER BY ord";

const TODOS: &str = "SELECT 0::bigint, '', data FROM todo WHERE session = $1";

/// The prompts that wait in the session with this key.
pub(super) async fn inbox(
    client: &ClientWrapper,
    key: i64,
    name: &str,
) -> Result<Vec<InboxItem>, ServerFailure> {
    let rows = query(client, INBOX, &[&key]).await?;
    let items = Payloads::of(name, "inbox", &rows)?;
    let blobs = Blobs::of(client, items.texts()).await?;
    let items: WaitingPrompts = items.decode(&blobs)?.into_iter().map(|(_, _, item)| item).collect();
    Ok(items.into_iter().collect())
}

/// A prompt that waits.
pub(super) async fn waiting_prompt(
    client: &ClientWrapper,
    id: &SessionId,
    prompt: &EntryId,
) -> Result<Option<InboxItem>, ServerFailure> {
    let sql = "SELECT i.ord, i.id, i.data FROM inbox i JOIN session s ON s.key = i.session
               WHERE s.id = $1 AND i.id = $2";
    let rows = query(client, sql, &[&id.as_str(), &prompt.as_str()]).await?;
    let items = Payloads::of(id.as_str(), "inbox", &rows)?;
    let blobs = Blobs::of(client, items.texts()).await?;
    Ok(items.decode(&blobs)?.pop().map(|(_, _, item)| item))
}

pub(super) async fn todos(client: &ClientWrapper, id: &SessionId) -> Result<Vec<Todo>, ServerFailure> {
    let sql = "SELECT t.data FROM todo t JOIN session s ON s.key = t.session WHERE s.id = $1";
    let rows = query(client, sql, &[&id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    Ok(decode(id.as_str(), "todo", blob::text(id.as_str(), "todo", row.try_get(0)?)?)?)
}

pub(super) async fn events(
    client: &ClientWrapper,
    id: &SessionId,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<Record>, ServerFailure> {
    let sql = "SELECT e.seq, e.id, e.data, e.time FROM event e
               WHERE e.session = (SELECT key FROM session WHERE id = $1) AND e.seq > $2 ORDER BY e.seq LIMIT $3";
    let after = after.map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = query(client, sql, &[&id.as_str(), &after, &limit]).await?;
    let payloads = Payloads::of(id.as_str(), "event", &rows)?;
    let blobs = Blobs::of(client, payloads.texts()).await?;
    let mut records = Vec::with_capacity(rows.len());
    for ((seq, event_id, data), row) in payloads.rows.iter().zip(&rows) {
        let EventPayload { event, subject } = blobs.decode(id.as_str(), &format!("event {seq}"), data)?;
        let seq = u64::try_from(*seq).unwrap_or(0);
        let (event_id, session) = (EventId::new(*event_id), id.clone());
        records.push(Record { id: event_id, session, seq, time: row.try_get(3)?, event, subject });
    }
    Ok(records)
}

pub(super) async fn unfinished(client: &ClientWrapper) -> Result<Vec<SessionId>, ServerFailure> {
    let sql = "SELECT id FROM session WHERE trashed IS NULL AND (open OR key IN (SELECT session FROM inbox))";
    let rows = query(client, sql, &[]).await?;
    rows.iter().map(|row| Ok(SessionId::new(row.try_get::<_, String>(0)?))).collect()
}

pub(super) async fn streams(
    client: &ClientWrapper,
    id: &SessionId,
) -> Result<Vec<StreamText>, ServerFailure> {
    let sql = "SELECT t.entry, t.part, t.start, t.text FROM stream t
               WHERE t.session = (SELECT key FROM session WHERE id = $1) ORDER BY t.part, t.start";
    let mut streams = shape::Streams::default();
    for row in query(client, sql, &[&id.as_str()]).await? {
        let start = usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or(usize::MAX);
        let piece = blob::text(id.as_str(), "stream", row.try_get(3)?)?.to_owned();
        streams.add(row.try_get(0)?, row.try_get(1)?, start, piece);
    }
    Ok(streams.finish())
}

pub(super) async fn requests(client: &ClientWrapper) -> Result<Vec<(SessionId, Request)>, ServerFailure> {
    let sql = "SELECT s.id, r.data FROM request r JOIN session s ON s.key = r.session
               WHERE s.trashed IS NULL ORDER BY r.id";
    let mut requests = Vec::new();
    for row in query(client, sql, &[]).await? {
        match asked(&row) {
            Ok(request) => requests.push(request),
            // One damaged session must not hide the others.
            Err(ServerFailure::Store(error)) => {
                tracing::error!(error = error.to_string(), "a request cannot be read");
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(requests)
}

pub(super) async fn request(
    client: &ClientWrapper,
    id: &RequestId,
) -> Result<Option<(SessionId, Request)>, ServerFailure> {
    let sql = "SELECT s.id, r.data FROM request r JOIN session s ON s.key = r.session WHERE r.id = $1";
    query(client, sql, &[&id.as_str()]).await?.first().map(asked).transpose()
}

fn asked(row: &Row) -> Result<(SessionId, Request), ServerFailure> {
    let session: String = row.try_get(0)?;
    let request = decode(&session, "request", blob::text(&session, "request", row.try_get(1)?)?)?;
    Ok((SessionId::new(session), request))
}

pub(super) async fn approvals(
    client: &ClientWrapper,
    project: &str,
    folder: &str,
) -> Result<Vec<Rule>, ServerFailure> {
    let sql = "SELECT permission, pattern FROM approval WHERE project = $1 AND folder = $2 ORDER BY time";
    let rows = query(client, sql, &[&project, &folder]).await?;
    let rule =
        |row: &Row| Ok(Rule { permission: row.try_get(0)?, pattern: row.try_get(1)?, action: Action::Allow });
    rows.iter().map(rule).collect()
}

pub(super) async fn projects(client: &ClientWrapper) -> Result<Vec<(String, String)>, ServerFailure> {
    let rows = query(client, "SELECT id, data FROM project ORDER BY id", &[]).await?;
    let project = |row: &Row| Ok((row.try_get(0)?, blob::text("", "project", row.try_get(1)?)?.to_owned()));
    rows.iter().map(project).collect()
}

/// The key that cursors are sealed with.
pub(super) async fn secret(client: &ClientWrapper) -> Result<Vec<u8>, ServerFailure> {
    let rows = query(client, "SELECT value FROM meta WHERE name = 'secret'", &[]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}
