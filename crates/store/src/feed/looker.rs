//! The task that looks for what other processes do: the only one in this process.
//!
//! It waits until something stirs: on a server that is a notice of another process, in a folder a write to the file. Then
//! one cheap question tells whether there is anything that was not told, which is never so after own commits alone.
//!
//! A look asks for the sessions that changed since the last one, reads what was not told of them, and then the text of
//! the parts that others are streaming. What it costs grows with what changed, not with how many sessions there are. A look
//! that fails is made again from where it began: nothing is lost by it, and the sequencer drops what was told twice.

use std::sync::Arc;
use std::time::Duration;

use everturn_model::SessionId;
use tokio::time::Instant;

use super::excerpt::Excerpt;
use super::position::Position;
use super::sequencer::{FollowedPart, SavedPiece, Sequencer};
use crate::{Error, postgres, sqlite};

/// How many events are read at once.
const PAGE: usize = 256;

/// How often to ask where a change makes itself known, in case that failed.
const RARELY: Duration = Duration::from_secs(1);

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
    /// Waits until something may have changed.
    async fn stirred(&self) {
        match self {
            Self::Sqlite(file) => file.stirred().await,
            // Its notices call for a look by themselves.
            Self::Postgres(_) => std::future::pending().await,
        }
    }

    /// What has happened since this was last asked, as far as a cheap question can tell.
    async fn sign(&self) -> Result<Sign, Error> {
        match self {
            Self::Sqlite(file) => file.sign().await,
            Self::Postgres(_) => Ok(Sign::Unknown),
        }
    }

    /// How long to wait at most. `look` is how often to look where nothing makes itself known.
    fn patience(&self, look: Duration, streaming: bool) -> Duration {
        match self {
            Self::Sqlite(file) if file.is_watched() => look.max(RARELY),
            Self::Sqlite(_) => look,
            Self::Postgres(_) if streaming => look.min(TEXT),
            Self::Postgres(_) => look,
        }
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

/// What a cheap question tells of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing was written.
    Still,
    /// Something was written; this is the moment now.
    Written(Position),
    /// Only a look can tell.
    Unknown,
}

/// Looks until it is stopped. `look` is how often where nothing tells of changes.
pub(crate) async fn run(sequencer: Arc<Sequencer>, reader: FeedReader, look: Duration) {
    let mut failed = false;
    let mut last = Instant::now();
    loop {
        let asked = failed || wait(&sequencer, &reader, look, last).await;
        last = Instant::now();
        match glance(&sequencer, &reader, asked).await {
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

/// Waits until there may be something to see. True when somebody asks for a look.
async fn wait(sequencer: &Sequencer, reader: &FeedReader, look: Duration, last: Instant) -> bool {
    let stirred = async {
        reader.stirred().await;
        // Many writes follow each other closely.
        tokio::time::sleep_until(last + look).await;
    };
    tokio::select! {
        () = sequencer.called() => true,
        () = stirred => false,
        () = tokio::time::sleep(reader.patience(look, sequencer.is_streaming())) => false,
    }
}

/// Looks, if that is `asked` for or there is anything to see.
async fn glance(sequencer: &Sequencer, reader: &FeedReader, asked: bool) -> Result<(), Error> {
    // What cannot be asked for is looked for, which says what is wrong.
    match reader.sign().await.unwrap_or(Sign::Unknown) {
        Sign::Still if !asked => Ok(()),
        Sign::Written(now) if !asked && sequencer.has_told(&now) => tell_texts(sequencer, reader).await,
        Sign::Still | Sign::Written(_) | Sign::Unknown => make_look(sequencer, reader).await,
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
    tell_texts(sequencer, reader).await?;
    sequencer.end_look(now);
    Ok(())
}

/// Reads what others have streamed since.
async fn tell_texts(sequencer: &Sequencer, reader: &FeedReader) -> Result<(), Error> {
    let open = sequencer.open_parts();
    if !open.is_empty() {
        sequencer.tell_texts(reader.pieces(open).await?);
    }
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

#[cfg(test)]
mod tests;
