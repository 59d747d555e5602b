//! The bus: what happened and what is happening, in order, as one kind of update that every face translates.
//!
//! Committed events come from the store's feed: those of this process before their appender is answered, those of other
//! processes as soon as they are seen, each once and in the order of its session. Live signals are not stored: whoever
//! was not listening asks for the state.

use std::sync::Arc;

use everturn_model::fault::Fault;
use everturn_model::session::RetryState;
use everturn_model::{EntryId, Millis, Part, PartId, SessionId};
pub use everturn_store::{Committed, WrittenBy};
use tokio::sync::broadcast;

/// How far a listener may fall behind before it loses updates and has to ask for the state again.
const CAPACITY: usize = 16_384;

/// Something on the bus.
#[derive(Debug, Clone)]
pub enum SessionUpdate {
    /// An event that is in the log, with what it touched.
    Committed(Arc<Committed>),
    /// A live signal.
    Live(Arc<Live>),
    /// Something may be missing here: whoever shows the state has to get it again.
    Gap,
}

/// A live signal, with its place.
#[derive(Debug)]
pub struct Live {
    /// The session it is about.
    pub session: SessionId,
    /// The project of the session.
    pub project: String,
    /// The folder of the session.
    pub directory: String,
    /// What it says.
    pub signal: Signal,
}

impl From<&RetryState> for Signal {
    fn from(RetryState { attempt, message, next, .. }: &RetryState) -> Self {
        let attempt = u32::try_from(*attempt).unwrap_or(u32::MAX);
        Self::Retry { attempt, message: message.clone(), next: *next }
    }
}

/// What a live signal says.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// The session began or goes on working.
    Busy,
    /// The session waits before it tries a provider again.
    Retry {
        /// Which attempt failed.
        attempt: u32,
        /// Why.
        message: String,
        /// When it tries again, in milliseconds since the Unix epoch.
        next: i64,
    },
    /// The session stopped working.
    Idle,
    /// Text was added to a part that is streaming.
    Delta {
        /// The entry.
        entry: EntryId,
        /// The part.
        part: PartId,
        /// Where in the part's text it begins, in bytes. See [`continuation`].
        offset: usize,
        /// The text.
        text: String,
    },
    /// A running tool shows something: its part as it looks now.
    Progress {
        /// The message that clients see it in: the entry, or the second one of its pair.
        message: String,
        /// The part.
        part: Box<Part>,
    },
    /// A slash command was carried out.
    CommandDone {
        /// Its name.
        name: String,
        /// What was typed behind it.
        arguments: String,
        /// The message that came of it.
        message: String,
    },
    /// Something failed.
    Failed {
        /// What.
        error: Fault,
    },
    /// The session was deleted for good, and was in no trash before. What it was called is gone with it.
    Purged {
        /// When it was created.
        created: Millis,
        /// Its last activity.
        updated: Millis,
    },
    /// A tool wrote a file.
    FileEdited {
        /// Its absolute path.
        file: String,
    },
}

/// What of a piece of text is new to somebody who has `shown` bytes of it; none when something is missing before it.
/// The same text may come again, cut differently: from the process that streams it, and from the one that takes the
/// session over.
#[must_use]
pub fn continuation(shown: usize, offset: usize, text: &str) -> Option<&str> {
    let known = shown.checked_sub(offset)?;
    Some(text.get(known.min(text.len())..).unwrap_or_default())
}

/// The bus.
#[derive(Debug, Clone)]
pub struct Bus(broadcast::Sender<SessionUpdate>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Bus {
    /// Puts something on the bus; nobody need be listening.
    pub fn send(&self, update: SessionUpdate) {
        self.0.send(update).ok();
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<SessionUpdate> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_goes_on_where_the_text_ends() {
        assert_eq!(continuation(0, 0, "one"), Some("one"));
        assert_eq!(continuation(3, 3, " two"), Some(" two"));
        assert_eq!(continuation(5, 3, " two"), Some("wo"), "the beginning is known");
        assert_eq!(continuation(9, 3, " two"), Some(""), "all of it is known");
        assert_eq!(continuation(2, 3, " two"), None, "something is missing");
    }
}
