//! What a look finds: the sessions that changed since the last one.

use everturn_model::SessionId;

use super::position::Position;

/// What changed since a moment.
#[derive(Debug)]
pub(crate) struct FeedChanges {
    /// The sessions, each with the seq of its last event.
    pub(crate) sessions: Vec<(SessionId, u64)>,
    /// Something changed that cannot be named: nobody can be told what.
    pub(crate) gap: bool,
    /// The moment of this answer.
    pub(crate) now: Position,
}

impl FeedChanges {
    /// Nothing so far.
    pub(crate) fn until(now: Position) -> Self {
        Self { sessions: Vec::new(), gap: false, now }
    }
}
