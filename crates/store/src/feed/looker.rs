//! The task that looks for what other processes do: the only one in this process.
//!
//! It waits until something stirs: on a server that is a notice of another process, in a folder a write to the file. Then
//! one cheap question tells whether there is anything that was not told, which is never so after own commits alone.
//!
//! A look asks for the sessions that changed since the last one, reads what was not told of them, and then the text of
//! the parts that others are streaming. What it costs grows with what changed, not with how many sessions there are. A look
//! that fails is made again from where it began: nothing is lost by it, and the sequencer drops what was told twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use everturn_model::SessionId;
use tokio::time::Instant;

use super::changes::FeedChanges;
use super::excerpt::{FoundLog, WantedLog};
use super::position::Position;
use super::sequencer::{FollowedPart, SavedPiece, Sequencer};
use crate::{Error, postgres, sqlite};

/// How many events of a session are read at once.
const PAGE: usize = 256;

/// Of how many sessions events are read at once.
const SESSIONS: usize = 64;

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

    /// What changed since a moment.
    async fn changes(&self, since: &Position) -> Result<FeedChanges, Error> {
        read!(self, engine => engine.changes(since).await)
    }

    /// Events of sessions with the rows that they touch, for each session in turn. `since` is where the look began.
    async fn excerpts(&self, wanted: &[WantedLog], since: &Position) -> Result<Vec<FoundLog>, Error> {
        read!(self, engine => engine.excerpts(wanted, since, PAGE).await)
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
    let mut patience = Duration::MAX;
    loop {
        patience = patience.min(reader.patience(look, sequencer.is_streaming()));
        let cause =
            if failed { LookReason::Asked } else { wait(&sequencer, &reader, look, last, patience).await };
        // A write makes itself known before it is committed, and the commit does not: it is asked for soon, then less often.
        patience = if cause == LookReason::Waited { patience.saturating_mul(2) } else { look };
        last = Instant::now();
        match glance(&sequencer, &reader, cause == LookReason::Asked).await {
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

/// Why the task stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookReason {
    /// Somebody asks for a look.
    Asked,
    /// Somebody writes.
    Stirred,
    /// Nothing has happened for a while.
    Waited,
}

/// Waits until there may be something to see, but no longer than its patience lasts.
async fn wait(
    sequencer: &Sequencer,
    reader: &FeedReader,
    look: Duration,
    last: Instant,
    patience: Duration,
) -> LookReason {
    let stirred = async {
        reader.stirred().await;
        // Many writes follow each other closely.
        tokio::time::sleep_until(last + look).await;
    };
    tokio::select! {
        () = sequencer.called() => LookReason::Asked,
        () = stirred => LookReason::Stirred,
        () = tokio::time::sleep(patience) => LookReason::Waited,
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
    let FeedChanges { sessions, purged, gap, now } = reader.changes(&since).await?;
    if gap {
        sequencer.tell_gap();
    }
    // Before anything can fail: it is read once.
    let missed = sequencer.take_missed();
    for note in purged {
        let id = &note.purged.session;
        if !note.was_told(&since, sequencer.last(id), missed.get(id).copied()) {
            sequencer.tell_purged(note.purged);
        }
    }
    let mut left: VecDeque<(WantedLog, u64)> = VecDeque::new();
    for (session, head) in sessions {
        let first = sequencer.last(&session).map(|last| last + 1);
        if first.is_none_or(|first| first <= head) {
            left.push_back((WantedLog { session, first }, head));
        }
    }
    while !left.is_empty() {
        // However many they are, they are asked for together.
        let (wanted, heads): (Vec<WantedLog>, Vec<u64>) = left.drain(..left.len().min(SESSIONS)).unzip();
        let found = reader.excerpts(&wanted, &since).await?;
        for ((wanted, head), found) in wanted.into_iter().zip(heads).zip(found) {
            if let Some(first) = tell_log(sequencer, &wanted.session, head, found)? {
                left.push_back((WantedLog { first: Some(first), ..wanted }, head));
            }
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

/// Tells what was found of a session whose last event is `head`. Says from where on there is more.
fn tell_log(sequencer: &Sequencer, id: &SessionId, head: u64, found: FoundLog) -> Result<Option<u64>, Error> {
    match found {
        Ok(excerpt) => {
            let last = excerpt.as_ref().and_then(|excerpt| excerpt.records.last()).map(|record| record.seq);
            let Some((excerpt, last)) = excerpt.zip(last) else {
                // Told before, or deleted for good in the meantime: the next look finds the note of that.
                sequencer.settle(id, head);
                return Ok(None);
            };
            sequencer.deliver(id, excerpt.into_committed());
            Ok((last < head).then_some(last + 1))
        }
        // One session that cannot be read must not keep the others waiting.
        Err(error @ (Error::Corrupt { .. } | Error::Damaged { .. } | Error::Purged(_))) => {
            tracing::error!(session = %id, error = error.to_string(), "a session is missing in the feed");
            sequencer.skip(id, head);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
