//! Deleting for good, and how long the trash is kept.
//!
//! Putting a session into the trash and taking it out again are events like others. What is here cannot be undone:
//! the log and all rows go, and a tombstone stays, so that neither a late append nor an import brings the id back.

use std::time::Duration;

use everturn_model::{Millis, SessionId};
use serde_json::json;

use super::audit::Audit;
use super::blob::Collected;
use crate::store::{StoreEngine, ask};
use crate::{Error, Store};

/// What is left of a session that was deleted for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The session.
    pub session: SessionId,
    /// When it was deleted.
    pub time: Millis,
}

/// What is kept for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long a session stays in the trash; none means forever.
    pub trash: Option<Duration>,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// The sessions that were deleted for good.
    pub purged: Vec<SessionId>,
    /// The sessions whose time had come and that a living process runs: they stay until the next sweep.
    pub busy: Vec<SessionId>,
    /// The blobs that nobody used any more.
    pub collected: Collected,
    /// The space that this made.
    pub space: FreeSpace,
}

/// Space inside the database that holds nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that were given back to the file system.
    pub returned: u64,
    /// Bytes that stay in the file and are used again by what comes next.
    pub free: u64,
}

/// A deletion as an engine is asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Purge {
    pub(crate) session: SessionId,
    pub(crate) time: Millis,
    /// Only if it is in the trash since then or longer.
    pub(crate) trashed: Option<Millis>,
}

/// Where and when a session was that is deleted for good. The note of that stays, so nothing that was said in the session is
/// in it, not even a title.
#[derive(Debug)]
pub(crate) struct PurgedPlace {
    pub(crate) project: String,
    pub(crate) directory: String,
    pub(crate) created: Millis,
    pub(crate) updated: Millis,
    /// The stamp of its last event, if it was in the trash: whoever has told that event has told that it is gone.
    pub(crate) trashed: Option<u64>,
}

impl Purge {
    /// The note that stays of it. Where the session was is in it, for those who still show it.
    pub(crate) fn audit(&self, events: u64, place: Option<PurgedPlace>) -> Audit {
        let mut detail = json!({ "session": self.session, "events": events });
        if let (Some(place), Some(detail)) = (place, detail.as_object_mut()) {
            detail.insert("project".to_owned(), place.project.into());
            detail.insert("directory".to_owned(), place.directory.into());
            detail.insert("created".to_owned(), place.created.into());
            detail.insert("updated".to_owned(), place.updated.into());
            if let Some(stamp) = place.trashed {
                detail.insert("trashed".to_owned(), stamp.into());
            }
        }
        Audit::new(self.time, "purge", detail)
    }
}

/// What became of the bytes of what was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erasure {
    /// No file has them any more.
    Done,
    /// Somebody was reading all the while, so the write-ahead log may have them until it is written over.
    HeldUp,
    /// A server has them in its tables, its log and its backups until those are recycled.
    UpToServer,
}

impl Store {
    /// Deletes a session for good: its log, its rows, its streams and its place in the search. It cannot be undone, and
    /// the id is never used again. False when there is no such session.
    ///
    /// # Errors
    /// `Busy` when another living process runs it; or when the disk refuses.
    pub async fn purge(&self, id: &SessionId, time: Millis) -> Result<bool, Error> {
        self.purge_session(Purge { session: id.clone(), time, trashed: None }).await
    }

    /// What was deleted for good, by id.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn tombstones(&self) -> Result<Vec<Tombstone>, Error> {
        ask!(self, engine => engine.tombstones().await)
    }

    /// Deletes what was in the trash for longer than it is kept, and collects what nobody uses any more.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn sweep(&self, retention: Retention, now: Millis) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        if let Some(age) = retention.trash {
            // What is kept for no time at all goes, also what a clock that was ahead has put there.
            let since = match Millis::try_from(age.as_millis()) {
                Ok(0) => Millis::MAX,
                age => now.saturating_sub(age.unwrap_or(Millis::MAX)),
            };
            for id in ask!(self, engine => engine.trashed_since(since).await)? {
                // Asked again in the transaction: somebody may have taken it out of the trash meanwhile.
                match self.purge_session(Purge { session: id.clone(), time: now, trashed: Some(since) }).await
                {
                    Ok(true) => swept.purged.push(id),
                    Ok(false) => {}
                    Err(Error::Busy { .. }) => swept.busy.push(id),
                    Err(error) => return Err(error),
                }
            }
        }
        swept.collected = self.collect().await?;
        swept.space = ask!(self, engine => engine.shrink().await)?;
        Ok(swept)
    }

    /// Makes sure that nothing of what was deleted is in a file of ours any more, which takes time in proportion to all that
    /// is stored.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn erase_deleted(&self) -> Result<Erasure, Error> {
        match self.engine() {
            StoreEngine::Sqlite(engine) if engine.erase().await? => Ok(Erasure::Done),
            StoreEngine::Sqlite(_) => Ok(Erasure::HeldUp),
            // Tables that others work with would be locked for as long as it takes.
            StoreEngine::Postgres(_) => Ok(Erasure::UpToServer),
        }
    }

    async fn purge_session(&self, purge: Purge) -> Result<bool, Error> {
        ask!(self, engine => engine.purge_session(purge).await)
    }

    pub(crate) async fn is_purged(&self, id: &SessionId) -> Result<bool, Error> {
        ask!(self, engine => engine.is_purged(id).await)
    }
}
