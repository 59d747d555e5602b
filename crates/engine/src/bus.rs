//! The bus: what happened and what is happening, in order.
//!
//! Committed events come from the store's writer before their appender is answered, so the order of a session on the
//! bus is the order of its log. Live signals are only of the moment: whoever was not listening asks for the state.

use std::sync::Arc;

use everturn_model::fault::Fault;
use everturn_model::{EntryId, Part, PartId, SessionId};
pub use everturn_store::Committed;
use tokio::sync::broadcast;

/// How far a listener may fall behind before it loses signals and has to ask for the state again.
const CAPACITY: usize = 16_384;

/// Something on the bus.
#[derive(Debug, Clone)]
pub enum Notice {
    /// An event that is in the log.
    Committed(Arc<Committed>),
    /// A signal of the moment.
    Live(Arc<Live>),
}

/// A signal of the moment, with its place.
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
        /// The text.
        text: String,
    },
    /// A running tool shows something: its part as it looks now.
    Progress {
        /// The entry.
        entry: EntryId,
        /// The part.
        part: Box<Part>,
    },
    /// Something failed.
    Failed {
        /// What.
        error: Fault,
    },
    /// A tool wrote a file.
    FileEdited {
        /// Its absolute path.
        file: String,
    },
}

/// The bus.
#[derive(Debug, Clone)]
pub struct Bus(broadcast::Sender<Notice>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Bus {
    /// Puts something on the bus; nobody need be listening.
    pub fn send(&self, notice: Notice) {
        self.0.send(notice).ok();
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.0.subscribe()
    }
}
