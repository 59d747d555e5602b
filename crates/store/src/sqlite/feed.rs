//! What the feed reads from the file: whether anything changed, what did, and the text that is being streamed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_model::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::stored_session::text;
use super::watch::FileWatch;
use super::{reader, schema, write};
use crate::Error;
use crate::feed::changes::{FeedChanges, PurgeNote};
use crate::feed::excerpt::{self, Excerpt, FoundLog, WantedLog};
use crate::feed::looker::Sign;
use crate::feed::position::Position;
use crate::feed::sequencer::{FollowedPart, SavedPiece};

/// Reads for the feed. It holds the file open but keeps nothing else of the store alive.
#[derive(Debug)]
pub(crate) struct FileReader {
    readers: Arc<reader::Pool>,
    /// A connection of its own, because what SQLite says of changes it says for each connection, and the last answer.
    version: Arc<Mutex<Option<(Connection, i64)>>>,
    /// The newest note of the audit that was read: what was deleted for good is in it alone.
    noted: Arc<AtomicI64>,
    /// None where the system cannot tell of writes.
    watch: Option<FileWatch>,
    #[cfg(test)]
    questions: Arc<std::sync::atomic::AtomicU64>,
}

impl FileReader {
    pub(super) fn new(readers: &Arc<reader::Pool>) -> Self {
        let watch = FileWatch::begin(&readers.settings().path);
        Self {
            readers: Arc::clone(readers),
            version: Arc::default(),
            noted: Arc::default(),
            watch,
            #[cfg(test)]
            questions: Arc::default(),
        }
    }

    /// How often it was asked what has happened.
    #[cfg(test)]
    pub(crate) fn questions(&self) -> Arc<std::sync::atomic::AtomicU64> {
        Arc::clone(&self.questions)
    }

    /// Whether the system tells of writes.
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Waits until somebody has written to the file.
    pub(crate) async fn stirred(&self) {
        match &self.watch {
            Some(watch) => watch.stirred().await,
            None => std::future::pending().await,
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || readers.with(query)).await.map_err(|_| Error::Closed)?
    }

    /// What has happened since this was last asked. As long as nobody has committed anything it reads no page of the file.
    pub(crate) async fn sign(&self) -> Result<Sign, Error> {
        #[cfg(test)]
        self.questions.fetch_add(1, Ordering::Relaxed);
        if self.is_still() {
            return Ok(Sign::Still);
        }
        let (readers, version) = (Arc::clone(&self.readers), Arc::clone(&self.version));
        let ask = move || {
            let mut version = version.lock().unwrap_or_else(PoisonError::into_inner);
            let (connection, before) = match version.take() {
                Some((connection, before)) => (connection, Some(before)),
                None => {
                    let connection = schema::open_reader(readers.settings())?;
                    connection.busy_timeout(Duration::ZERO)?;
                    (connection, None)
                }
            };
            let now = connection.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0));
            let now = now.map_err(|error| super::failure(&readers.settings().path, error))?;
            let sign = if before == Some(now) {
                Sign::Still
            } else {
                Sign::Written(Position::Newest(position(&connection)?))
            };
            *version = Some((connection, now));
            Ok(sign)
        };
        tokio::task::spawn_blocking(ask).await.map_err(|_| Error::Closed)?
    }

    /// Whether it is sure that nothing was committed since it was last asked. It is asked after every write, and the answer
    /// is in memory: a thread for it would cost more than the question. It does not wait, and whatever takes longer is left
    /// to that thread.
    fn is_still(&self) -> bool {
        let Ok(version) = self.version.try_lock() else { return false };
        let ask = |connection: &Connection| {
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get::<_, i64>(0))
        };
        version.as_ref().is_some_and(|(connection, before)| ask(connection).is_ok_and(|now| now == *before))
    }

    pub(crate) async fn position(&self) -> Result<Position, Error> {
        let noted = Arc::clone(&self.noted);
        let begin = move |connection: &Connection| {
            let newest = "SELECT ifnull(max(key), 0) FROM audit";
            noted.store(connection.query_row(newest, [], |row| row.get(0))?, Ordering::Relaxed);
            Ok(Position::Newest(position(connection)?))
        };
        self.read(begin).await
    }

    pub(crate) async fn changes(&self, since: &Position) -> Result<FeedChanges, Error> {
        let (since, noted) = (newest(since), Arc::clone(&self.noted));
        let changes = move |connection: &Connection| {
            let mut changes = changes(connection, since)?;
            changes.purged = purged(connection, &noted)?;
            Ok(changes)
        };
        self.read(changes).await
    }

    pub(crate) async fn excerpts(
        &self,
        wanted: &[WantedLog],
        since: &Position,
        limit: usize,
    ) -> Result<Vec<FoundLog>, Error> {
        let (wanted, since, path) = (wanted.to_vec(), newest(since), self.readers.settings().path.clone());
        let found = move |connection: &Connection| {
            let read = |wanted| read_excerpt(connection, wanted, since, limit);
            Ok(wanted.iter().map(|wanted| read(wanted).map_err(|error| super::named(&path, error))).collect())
        };
        self.read(found).await
    }

    pub(crate) async fn pieces(&self, open: Vec<FollowedPart>) -> Result<Vec<SavedPiece>, Error> {
        self.read(move |connection| pieces(connection, open)).await
    }
}

/// The other engine's moments never come here.
fn newest(position: &Position) -> u64 {
    match position {
        Position::Newest(newest) => *newest,
        Position::Snapshot(_) => 0,
    }
}

/// The number of the newest commit.
fn position(connection: &Connection) -> Result<u64, Error> {
    let sql = format!("SELECT {} FROM meta WHERE name = 'commits'", schema::NEWEST_COMMIT);
    Ok(connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

/// What changed after a commit.
fn changes(connection: &Connection, since: u64) -> Result<FeedChanges, Error> {
    let now = position(connection)?;
    // A count that went back says nothing of what was committed under numbers that were there before.
    let mut changes = FeedChanges { gap: now < since, ..FeedChanges::until(Position::Newest(now)) };
    if now == since {
        return Ok(changes);
    }
    let mut statement = connection.prepare_cached(
        // A damaged value must not end what follows all sessions.
        "SELECT id, max(CAST(seq AS INTEGER), 0) FROM session WHERE changed > ?1 ORDER BY changed",
    )?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        match row.get_ref(0)?.as_str() {
            Ok(id) => changes.sessions.push((SessionId::new(id), row.get(1)?)),
            Err(_) => {
                tracing::error!(
                    session = text(row, 0)?,
                    "a session whose id is damaged is missing in the feed"
                );
                changes.gap = true;
            }
        }
    }
    Ok(changes)
}

/// What was deleted for good since the newest note that was read.
fn purged(connection: &Connection, noted: &AtomicI64) -> Result<Vec<PurgeNote>, Error> {
    let mut statement = connection.prepare_cached("SELECT key, action, detail FROM audit WHERE key > ?1")?;
    let mut rows = statement.query([noted.load(Ordering::Relaxed)])?;
    let mut purged = Vec::new();
    while let Some(row) = rows.next()? {
        if text(row, 1)? == "purge" {
            purged.extend(PurgeNote::read(&text(row, 2)?));
        }
        noted.store(row.get(0)?, Ordering::Relaxed);
    }
    Ok(purged)
}

/// The first event of a session that was written after a commit.
fn first_since(connection: &Connection, id: &SessionId, since: u64) -> Result<Option<u64>, Error> {
    // Stamps grow with the seq, so walking back from the end stops early.
    let mut statement = connection.prepare_cached(
        "SELECT e.seq, e.stamp FROM session s JOIN event e ON e.session = s.key WHERE s.id = ?1
         ORDER BY e.seq DESC",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let mut first = None;
    while let Some(row) = rows.next()? {
        if row.get::<_, u64>(1)? <= since {
            break;
        }
        first = Some(row.get(0)?);
    }
    Ok(first)
}

fn read_excerpt(connection: &Connection, wanted: &WantedLog, since: u64, limit: usize) -> FoundLog {
    let id = &wanted.session;
    let Some((key, session)) = reader::key_and_session(connection, id)? else { return Ok(None) };
    let head = connection
        .prepare_cached("SELECT max(CAST(seq AS INTEGER), 0) FROM session WHERE key = ?1")?
        .query_row([key], |row| row.get(0))?;
    let first = match wanted.first {
        Some(first) => Some(first),
        None => first_since(connection, id, since)?,
    };
    let Some(first) = first else { return Ok(None) };
    let records = reader::events(connection, id, first.checked_sub(1), limit)?;
    let rows = write::touched(connection, key, session, &excerpt::needed(&records))?;
    Ok(Some(Excerpt { head, records, rows }))
}

/// What was saved of parts behind what is known of them.
fn pieces(connection: &Connection, open: Vec<FollowedPart>) -> Result<Vec<SavedPiece>, Error> {
    let mut key = connection.prepare_cached("SELECT key FROM session WHERE id = ?1")?;
    let mut saved = connection.prepare_cached(
        "SELECT start, text FROM stream WHERE session = ?1 AND part = ?2 AND start >= ?3 ORDER BY start",
    )?;
    let mut pieces = Vec::new();
    for FollowedPart { session, part, offset, .. } in open {
        let Some(key) = key.query_row([session.as_str()], |row| row.get::<_, i64>(0)).optional()? else {
            continue;
        };
        let mut rows = saved.query(params![key, part.as_str(), offset])?;
        while let Some(row) = rows.next()? {
            // The whole text comes with the part's end: a damaged piece must not keep that of others waiting.
            let (Ok(start), Ok(text)) = (row.get(0), row.get(1)) else { break };
            pieces.push(SavedPiece { session: session.clone(), part: part.clone(), start, text });
        }
    }
    Ok(pieces)
}

/// Sessions with an open turn that a process has the right to run, with its name.
pub(super) fn open_and_owned(connection: &Connection) -> Result<Vec<(SessionId, String)>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT id, owner FROM session WHERE owner IS NOT NULL AND open = 1")?;
    let rows = statement.query_map([], |row| Ok((SessionId::new(text(row, 0)?), text(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
