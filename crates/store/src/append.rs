//! What goes into the log.
//!
//! There are two ways to append. An *owned* append is made by the process that runs the session: it carries the
//! lease, and the store refuses it when the lease has passed on. An *open* append needs no lease, so that any process
//! can accept a prompt, an answer or a new title while another one runs the turn.

use std::sync::Arc;

use everturn_model::{EntryId, Event, EventId, Millis, PartId, Record, Session, SessionId, Tree};

/// An event that wants into the log.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Its id: appending the same id again changes nothing and gives the same answer.
    pub id: EventId,
    /// When it happened.
    pub time: Millis,
    /// What happened.
    pub event: Event,
}

/// The right to run a session, until somebody else takes it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The process that has it.
    pub owner: String,
    /// Which ownership this is; it grows with every takeover.
    pub epoch: u64,
    /// When the process that had it before last said that it lives, if it never gave it back: up to one
    /// [beat](crate::Timing::beat) before its end.
    pub taken_from: Option<Millis>,
}

/// By what right an append is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// Anybody may.
    Open,
    /// Anybody may, unless a revert is staged: that has to be committed first, by the owner.
    Admission,
    /// Anybody may, if there is something to stop: a turn that is open, or prompts that wait.
    Interrupt,
    /// Only the owner may.
    Owned(Lease),
    /// Only the owner may, and gives the session back with it: one commit has both, or neither.
    Leaving(Lease),
}

impl Authority {
    /// The lease that it stands on.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Owned(lease) | Self::Leaving(lease) => Some(lease),
            Self::Open | Self::Admission | Self::Interrupt => None,
        }
    }
}

/// The answer to an append: it is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// The seq of the first event.
    pub first: u64,
    /// The seq of the session's last event now.
    pub seq: u64,
    /// The session row after the last one.
    pub session: Arc<Session>,
    /// False when all of it was there already.
    pub fresh: bool,
}

/// Who wrote an event, and with that, of which moment the rows beside it are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenBy {
    /// This process. The rows are as they are right after the event.
    Us,
    /// Another process. The rows were read later.
    Others {
        /// Nothing had come after the event when they were read, so that they are as they are right after it.
        newest: bool,
    },
}

/// One event that was committed, with what is needed to show it: the rows it touched, as they are after it.
#[derive(Debug)]
pub struct Committed {
    /// The event in its place.
    pub record: Arc<Record>,
    /// The session row before it; none for a session's first event, and for what others wrote.
    pub before: Option<Session>,
    /// The session row and the touched rows after it; the session row alone where it [lacks](Self::lacks_rows) the others.
    pub tree: Tree,
    /// Who wrote it.
    pub by: WrittenBy,
    /// The stamp of the last change of the session before the append; 0 for a new one.
    pub(crate) follows: u64,
}

impl Committed {
    /// Whether it touched the whole session, and another process wrote it: there may be any number of such rows, and
    /// mostly nobody wants to see them. Whoever does reads the session.
    #[must_use]
    pub fn lacks_rows(&self) -> bool {
        matches!(self.by, WrittenBy::Others { .. }) && self.record.event.touches().whole
    }
}

/// A piece of streamed text of a part that is still open.
#[derive(Debug, Clone)]
pub(crate) struct StreamPiece {
    pub(crate) lease: Lease,
    pub(crate) entry: EntryId,
    pub(crate) part: PartId,
    /// Where in the text it begins.
    pub(crate) start: usize,
    pub(crate) text: String,
}
