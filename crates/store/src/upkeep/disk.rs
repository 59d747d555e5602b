//! What takes how much space.

use everturn_model::SessionId;

use crate::store::ask;
use crate::{Error, Store};

/// How many of the largest sessions are named.
const LARGEST: usize = 10;

/// The space that a store takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// The database, in bytes.
    pub file: u64,
    /// Its write-ahead log, in bytes.
    pub log: u64,
    /// Bytes of the database that hold nothing at the moment.
    pub free: u64,
    /// Its blobs.
    pub blobs: BlobUse,
    /// How many sessions there are, with those in the trash.
    pub sessions: u64,
    /// What is in the trash.
    pub trash: TrashUse,
    /// The largest sessions, the largest first, at most ten.
    pub largest: Vec<LargeSession>,
}

/// The space that blobs take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlobUse {
    /// How many there are.
    pub count: u64,
    /// How many bytes they hold.
    pub size: u64,
    /// How many bytes they take, compressed.
    pub packed: u64,
}

/// The space that the trash takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrashUse {
    /// How many sessions are in it.
    pub sessions: u64,
    /// The bytes of their logs and their share of blobs.
    pub bytes: u64,
}

/// A session by its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeSession {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// The bytes of its log and its share of blobs; a blob that three sessions use counts a third for each.
    pub bytes: u64,
}

/// The sizes that an engine measures.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeasuredSizes {
    pub(crate) file: u64,
    pub(crate) log: u64,
    pub(crate) free: u64,
    pub(crate) blobs: BlobUse,
    /// Every session, and whether it is in the trash.
    pub(crate) sessions: Vec<(LargeSession, bool)>,
}

impl Store {
    /// What takes how much space.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn disk_use(&self) -> Result<DiskUse, Error> {
        let MeasuredSizes { file, log, free, blobs, mut sessions } =
            ask!(self, engine => engine.measure().await)?;
        let mut trash = TrashUse::default();
        for (session, _) in sessions.iter().filter(|(_, trashed)| *trashed) {
            trash.sessions += 1;
            trash.bytes += session.bytes;
        }
        let count = u64::try_from(sessions.len()).unwrap_or(u64::MAX);
        sessions.sort_by(|(one, _), (two, _)| {
            two.bytes.cmp(&one.bytes).then_with(|| one.session.cmp(&two.session))
        });
        let largest = sessions.into_iter().take(LARGEST).map(|(session, _)| session).collect();
        Ok(DiskUse { file, log, free, blobs, sessions: count, trash, largest })
    }
}
