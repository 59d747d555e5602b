//! The task that looks for what other processes do: the only one in this process.
//!
//! A look asks for the sessions that changed since the last one, reads what was not told of them, and then the text of
//! the parts that others are streaming. What it costs grows with what changed, not with how many sessions there are; when
//! nothing changed it is one cheap question. A look that fails is made again from where it began: nothing is lost by it,
//! and the sequencer drops what was told twice.

use std::sync::Arc;
use std::time::Duration;

use everturn_model::SessionId;

use super::excerpt::Excerpt;
use super::position::Position;
use super::sequencer::{FollowedPart, SavedPiece, Sequencer};
use crate::{Error, postgres, sqlite};

/// How many events are read at once.
const PAGE: usize = 256;

/// How often text is looked for while others stream some.
const TEXT: Duration = Duration::from_millis(100);

/// How long to wait after a look that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// What the feed reads a database with.
pub(crate) enum FeedReader {
    Sqlite(sqlite::feed::FileReader),
    Postgres(Box<postgres::feed::ServerReader>),
}

/// Asks whichever engine it is.
macro_rules! read {
    ($reader:expr, $engine:ident => $call:expr) => {
        match $reader {
            FeedReader::Sqlite($engine) => $call,
            FeedReader::Postgres($engine) => $call,
        }
    };
}

impl FeedReader {
    /// Whether anything may have changed since this was last asked.
    async fn has_changed(&self) -> Result<bool, Error> {
        read!(self, engine => engine.has_changed().await)
    }

    /// The present moment.
    pub(crate) async fn position(&self) -> Result<Position, Error> {
        read!(self, engine => engine.position().await)
    }

    /// Sessions that changed since a moment, each with the seq of its last event, and the moment of this answer.
    async fn changed(&self, since: &Position) -> Result<(Vec<(SessionId, u64)>, Position), Error> {
        read!(self, engine => engine.changed(since).await)
    }

    /// The seq of the first event of a session that was written after a moment.
    async fn first_since(&self, id: &SessionId, since: &Position) -> Result<Option<u64>, Error> {
        read!(self, engine => engine.first_since(id, since).await)
    }

    /// Events of a session after a seq, and the rows that they touch. None when there is no such session.
    async fn excerpt(&self, id: &SessionId, after: Option<u64>) -> Result<Option<Excerpt>, Error> {
        read!(self, engine => engine.excerpt(id, after, PAGE).await)
    }

    /// What was saved of these parts behind what was told.
    async fn pieces(&self, open: Vec<FollowedPart>) -> Result<Vec<SavedPiece>, Error> {
        read!(self, engine => engine.pieces(open).await)
    }
}

/// Looks until it is stopped. `look` is how often where nothing tells of changes.
pub(crate) async fn run(sequencer: Arc<Sequencer>, reader: FeedReader, look: Duration) {
    let mut failed = false;
    loop {
        let pause = if sequencer.is_streaming() { look.min(TEXT) } else { look };
        let called = tokio::time::timeout(pause, sequencer.called()).await.is_ok();
        // What cannot be asked for is looked for, which says what is wrong.
        if !called && !failed && !reader.has_changed().await.unwrap_or(true) {
            continue;
        }
        match make_look(&sequencer, &reader).await {
            Ok(()) => failed = false,
            Err(error) => {
                if !failed {
                    tracing::warn!(error = error.to_string(), "the feed cannot be read; it is tried again");
                }
                failed = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn make_look(sequencer: &Sequencer, reader: &FeedReader) -> Result<(), Error> {
    let Some(since) = sequencer.begin_look() else { return Ok(()) };
    let (changed, now) = reader.changed(&since).await?;
    for (id, head) in changed {
        match catch_up(sequencer, reader, &id, head, &since).await {
            Ok(()) => {}
            // One session that cannot be read must not keep the others waiting.
            Err(error @ (Error::Corrupt { .. } | Error::Damaged { .. } | Error::Purged(_))) => {
                tracing::error!(session = %id, error = error.to_string(), "a session is missing in the feed");
                sequencer.skip(&id, head);
            }
            Err(error) => return Err(error),
        }
    }
    let open = sequencer.open_parts();
    if !open.is_empty() {
        sequencer.tell_texts(reader.pieces(open).await?);
    }
    sequencer.end_look(now);
    Ok(())
}

/// Reads what was not told of a session whose last event is `head`.
async fn catch_up(
    sequencer: &Sequencer,
    reader: &FeedReader,
    id: &SessionId,
    head: u64,
    since: &Position,
) -> Result<(), Error> {
    let mut after = sequencer.last(id);
    if after.is_some_and(|last| last >= head) {
        return Ok(());
    }
    if after.is_none() {
        match reader.first_since(id, since).await? {
            Some(first) => after = first.checked_sub(1),
            None => {
                sequencer.settle(id);
                return Ok(());
            }
        }
    }
    while after.is_none_or(|after| after < head) {
        let Some(excerpt) = reader.excerpt(id, after).await? else { break };
        let Some(last) = excerpt.records.last().map(|record| record.seq) else { break };
        after = Some(last);
        sequencer.deliver(id, excerpt.into_committed());
    }
    // Deleted for good in the meantime.
    if after.is_none_or(|after| after < head) {
        sequencer.settle(id);
    }
    Ok(())
}
