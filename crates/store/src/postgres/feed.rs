//! What the feed reads from the server: what changed, and the text that is being streamed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::ClientWrapper;
use everturn_model::{PartId, SessionId};

use super::address::Address;
use super::failure::ServerFailure;
use super::pool::{Pool, query};
use super::reader::count;
use super::{blob, excerpts};
use crate::Error;
use crate::feed::changes::{FeedChanges, PurgeNote};
use crate::feed::excerpt::{FoundLog, WantedLog};
use crate::feed::position::{Position, TransactionSnapshot};
use crate::feed::sequencer::{FollowedPart, SavedPiece};
use crate::shape::damaged;

/// Reads for the feed. It shares the connections for reading and keeps nothing else of the store alive.
#[derive(Debug)]
pub(crate) struct ServerReader {
    pub(super) pool: Arc<Pool>,
    pub(super) address: Address,
    /// The notes that were read: what was deleted for good is in the audit alone.
    pub(super) noted: Mutex<ReadNotes>,
}

/// Which notes of the audit were read, by their numbers.
#[derive(Debug, Default)]
pub(super) struct ReadNotes {
    newest: i64,
    /// Those that are not long before it.
    keys: BTreeSet<i64>,
}

/// How many numbers of notes before the newest one that was read are looked at again. Notes are committed in any order, so
/// that it says nothing of those just before it.
const NOTES: i64 = 64;

impl ServerReader {
    pub(crate) async fn position(&self) -> Result<Position, Error> {
        // What is noted now was told before.
        let newest = read!(self, client => newest_note(&client))?;
        self.noted().newest = newest;
        self.purged().await?;
        read!(self, client => position(&client))
    }

    /// What was deleted for good since this was last asked.
    async fn purged(&self) -> Result<Vec<PurgeNote>, Error> {
        let newest = self.noted().newest;
        let found = read!(self, client => notes(&client, newest))?;
        let mut noted = self.noted();
        let fresh = found.iter().filter(|(key, _)| !noted.keys.contains(key));
        let purged = fresh.filter_map(|(_, purge)| PurgeNote::read(purge.as_deref()?)).collect();
        noted.keys = found.iter().map(|(key, _)| *key).collect();
        noted.newest = noted.keys.last().map_or(newest, |last| newest.max(*last));
        Ok(purged)
    }

    fn noted(&self) -> MutexGuard<'_, ReadNotes> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn changes(&self, since: &Position) -> Result<FeedChanges, Error> {
        let changes = read!(self, client => changes(&client, since))?;
        Ok(FeedChanges { purged: self.purged().await?, ..changes })
    }

    pub(crate) async fn excerpts(
        &self,
        wanted: &[WantedLog],
        since: &Position,
        limit: usize,
    ) -> Result<Vec<FoundLog>, Error> {
        read!(self, client => excerpts::read(&client, wanted, written(since), limit))
    }

    pub(crate) async fn pieces(&self, open: Vec<FollowedPart>) -> Result<Vec<SavedPiece>, Error> {
        read!(self, client => pieces(&client, &open))
    }
}

fn parse(text: &str) -> Result<Position, ServerFailure> {
    let snapshot = TransactionSnapshot::parse(text)
        .ok_or_else(|| damaged("", "snapshot", &format!("{text:?} is not understood")))?;
    Ok(Position::Snapshot(snapshot))
}

/// As the server writes it; the other engine's moments never come here.
fn written(position: &Position) -> &str {
    match position {
        Position::Snapshot(snapshot) => snapshot.text(),
        Position::Newest(_) => "1:1:",
    }
}

/// This moment: which transactions are over.
async fn position(client: &ClientWrapper) -> Result<Position, ServerFailure> {
    let rows = query(client, "SELECT pg_current_snapshot()::text", &[]).await?;
    parse(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

/// What changed after a moment.
async fn changes(client: &ClientWrapper, since: &Position) -> Result<FeedChanges, ServerFailure> {
    // One statement sees one moment: nothing falls between the answer and the position. A damaged number must not end
    // what follows all sessions.
    let sql = "SELECT now.position, s.id, greatest(s.seq, 0) FROM (SELECT pg_current_snapshot()::text AS position) now
               LEFT JOIN session s ON s.changed >= pg_snapshot_xmin($1::text::pg_snapshot)
               AND NOT pg_visible_in_snapshot(s.changed, $1::text::pg_snapshot) ORDER BY s.changed";
    let rows = query(client, sql, &[&written(since)]).await?;
    let now = rows.first().map(|row| row.try_get(0)).transpose()?;
    let mut changes = FeedChanges::until(now.map_or_else(|| Ok(since.clone()), parse)?);
    for row in &rows {
        if let Some(id) = row.try_get::<_, Option<String>>(1)? {
            changes.sessions.push((SessionId::new(id), count(row, 2)?));
        }
    }
    Ok(changes)
}

async fn newest_note(client: &ClientWrapper) -> Result<i64, ServerFailure> {
    let rows = query(client, "SELECT coalesce(max(key), 0) FROM audit", &[]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

/// The notes after the newest that was read and those shortly before it, by their numbers; of purges with what they say.
async fn notes(client: &ClientWrapper, newest: i64) -> Result<Vec<(i64, Option<String>)>, ServerFailure> {
    let sql = "SELECT key, CASE action WHEN 'purge' THEN detail END FROM audit WHERE key > $1 ORDER BY key";
    let rows = query(client, sql, &[&newest.saturating_sub(NOTES)]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// What was saved of parts behind what is known of them.
async fn pieces(client: &ClientWrapper, open: &[FollowedPart]) -> Result<Vec<SavedPiece>, ServerFailure> {
    let sql = "SELECT s.id, t.part, t.start, t.text
               FROM unnest($1::text[], $2::text[], $3::bigint[]) u (session, part, start)
               JOIN session s ON s.id = u.session
               JOIN stream t ON t.session = s.key AND t.part = u.part AND t.start >= u.start
               ORDER BY s.id, t.part, t.start";
    let sessions: Vec<&str> = open.iter().map(|open| open.session.as_str()).collect();
    let parts: Vec<&str> = open.iter().map(|open| open.part.as_str()).collect();
    let starts: Vec<i64> = open.iter().map(|open| i64::try_from(open.offset).unwrap_or(i64::MAX)).collect();
    let mut pieces = Vec::new();
    for row in query(client, sql, &[&sessions, &parts, &starts]).await? {
        let session: String = row.try_get(0)?;
        let text = blob::text(&session, "stream", row.try_get(3)?)?.to_owned();
        let start = usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or(usize::MAX);
        let part = PartId::new(row.try_get::<_, String>(1)?);
        pieces.push(SavedPiece { session: SessionId::new(session), part, start, text });
    }
    Ok(pieces)
}
