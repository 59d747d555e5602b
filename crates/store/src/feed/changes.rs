//! What a look finds: the sessions that changed since the last one, and those that were deleted for good.

use everturn_model::SessionId;
use serde_json::Value;

use super::PurgedSession;
use super::position::Position;

/// What changed since a moment.
#[derive(Debug)]
pub(crate) struct FeedChanges {
    /// The sessions, each with the seq of its last event.
    pub(crate) sessions: Vec<(SessionId, u64)>,
    /// Sessions that nobody had put into the trash and that are gone.
    pub(crate) purged: Vec<PurgedSession>,
    /// Something changed that cannot be named: nobody can be told what.
    pub(crate) gap: bool,
    /// The moment of this answer.
    pub(crate) now: Position,
}

impl FeedChanges {
    /// Nothing so far.
    pub(crate) fn until(now: Position) -> Self {
        Self { sessions: Vec::new(), purged: Vec::new(), gap: false, now }
    }
}

/// The session that the note of a purge in the audit is about. None when it was in the trash: that it is gone was told by
/// its last event.
pub(crate) fn purged(detail: &str) -> Option<PurgedSession> {
    let detail: Value = serde_json::from_str(detail).ok()?;
    let text = |key: &str| detail.get(key)?.as_str().map(str::to_owned);
    Some(PurgedSession {
        session: SessionId::new(text("session")?),
        project: text("project")?,
        directory: text("directory")?,
    })
}
