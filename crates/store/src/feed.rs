//! The feed: everything that happens in the database, told once for the whole process.
//!
//! Whoever opens a store with an [`Observer`] is told of each durable event once and in the order of its session, whether
//! this process wrote it or another one, and of text while another process streams it. Own commits come straight from the
//! writer, before their append is answered. What others commit is found by one task that looks for it: it alone asks the
//! database, however many listen. `sequencer` puts both into one order.
//!
//! What is told belongs together: a commit that leaves a gap behind the last event waits, with everything that was to be
//! told after it, until the missing events are read from the log. Where that is not possible, [`FeedItem::Gap`] says so.
//! See `docs/design/0008-one-feed.md`.

pub(crate) mod changes;
pub(crate) mod excerpt;
pub(crate) mod looker;
pub(crate) mod position;
pub(crate) mod sequencer;

use std::sync::Arc;

use everturn_model::{EntryId, Millis, Part, PartId, Session, SessionId};

use crate::append::Committed;

/// What the feed tells.
#[derive(Debug, Clone)]
pub enum FeedItem {
    /// An event that is in the log.
    Committed(Arc<Committed>),
    /// Text that another process is streaming.
    Text(Arc<ForeignText>),
    /// A session that was not in the trash was deleted for good, by whichever process. Its log is gone with it, so that no
    /// event says so.
    Purged(Arc<PurgedSession>),
    /// Something may be missing here: whoever keeps a picture of the sessions has to get it again.
    Gap,
}

/// Told of what the feed has, in order. It must be quick: the next append waits for it.
pub type Observer = Arc<dyn Fn(FeedItem) + Send + Sync>;

/// Text that another process has added to a part that is streaming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignText {
    /// The session.
    pub session: SessionId,
    /// The project of the session.
    pub project: String,
    /// The folder of the session.
    pub directory: String,
    /// The entry.
    pub entry: EntryId,
    /// The part.
    pub part: PartId,
    /// Where in the part's text it begins, in bytes.
    pub offset: usize,
    /// What was added.
    pub text: String,
}

/// A session that was deleted for good: where it was, and when. What it was called is gone with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedSession {
    /// The session.
    pub session: SessionId,
    /// Its project.
    pub project: String,
    /// Its folder.
    pub directory: String,
    /// When it was created.
    pub created: Millis,
    /// Its last activity.
    pub updated: Millis,
}

/// A part that another process is streaming.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingPart {
    /// Its session.
    pub session: Session,
    /// Its entry.
    pub entry: EntryId,
    /// The message that holds it: the entry, or the second one of a pair.
    pub message: EntryId,
    /// The part, with as much of its text as was saved.
    pub part: Part,
}
