//! The order in which the feed tells what happened: each event once, a session's events one after the other.
//!
//! There are two sources. The writer brings own commits at once; the task that looks brings what it read from the log,
//! which is everybody's. Both may bring the same event, and either may be first. Whose it is does not depend on that: the
//! writer announces what it is about to commit, and what was announced is told as our own by whoever comes first. For each
//! session that is on the move the
//! sequencer keeps the seq of the last event told: what follows directly is told, what was told before is dropped, and
//! what leaves a gap waits for the events between.
//!
//! Sessions that rest cost nothing. Everything up to the last look has been told, so that for a session without a track
//! two stamps are enough: an own commit that the last look has covered was told by it; one whose predecessor is covered
//! follows directly; any other has a gap before it.
//!
//! Where commits are numbered one after the other, own ones move that moment on by themselves: what comes directly after
//! the last one that was told needs no look, and a number that was left out is another process's.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part, PartId, Session, SessionId};
use tokio::sync::Notify;

use super::position::Position;
use super::{FeedItem, ForeignText, Observer, PurgedSession};
use crate::append::{Committed, WrittenBy};

/// How much may wait for the missing events of one session. More is let go, with the gap.
const MOST_HELD: usize = 4096;

/// Something that is to be told after what was committed before it.
type Telling = Box<dyn FnOnce() + Send>;

/// What waits for missing events.
enum Held {
    Commit(Arc<Committed>, u64),
    Telling(Telling),
}

/// A session that was on the move lately.
#[derive(Default)]
struct Track {
    /// The seq of the last event that was told; none when it is not known which one that was.
    last: Option<u64>,
    /// The stamp of that event; known of own ones.
    stamp: Option<u64>,
    /// The look during or before which it moved.
    look: u64,
    held: VecDeque<Held>,
}

/// A part that another process is streaming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FollowedPart {
    pub(crate) session: SessionId,
    pub(crate) project: String,
    pub(crate) directory: String,
    pub(crate) entry: EntryId,
    pub(crate) part: PartId,
    /// How much of its text was told, in bytes.
    pub(crate) offset: usize,
}

impl FollowedPart {
    /// A part of which nothing was told.
    pub(crate) fn new(session: &Session, entry: EntryId, part: PartId) -> Self {
        let (project, directory) = (session.project.clone(), session.directory.clone());
        Self { session: session.id.clone(), project, directory, entry, part, offset: 0 }
    }
}

/// A saved piece of a part's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedPiece {
    pub(crate) session: SessionId,
    pub(crate) part: PartId,
    /// Where in the text it begins, in bytes.
    pub(crate) start: usize,
    pub(crate) text: String,
}

/// An own event that is being committed.
struct Announced {
    stamp: u64,
    committed: Arc<Committed>,
}

#[derive(Default)]
struct SequencerState {
    /// Everything before this moment was told.
    told_until: Option<Position>,
    /// How many looks have begun.
    looks: u64,
    /// Where the look began that is under way, or that failed and will be made again.
    looks_from: Option<Position>,
    /// Own commits that were told although others before them were not.
    ahead: BTreeSet<u64>,
    tracks: HashMap<SessionId, Track>,
    /// The last events of sessions that were gone when they were to be read.
    missed: HashMap<SessionId, u64>,
    /// Own events that may be in the log and were not told, by session and in order.
    announced: HashMap<SessionId, VecDeque<Announced>>,
    open: BTreeMap<(SessionId, PartId), FollowedPart>,
}

/// The one order of a process.
pub(crate) struct Sequencer {
    observer: Observer,
    state: Mutex<SequencerState>,
    wake: Notify,
}

impl std::fmt::Debug for Sequencer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sequencer").finish_non_exhaustive()
    }
}

impl Sequencer {
    pub(crate) fn new(observer: Observer) -> Self {
        Self { observer, state: Mutex::default(), wake: Notify::new() }
    }

    // Telling happens under the lock: what is told by two threads is told in one order.
    fn lock(&self) -> MutexGuard<'_, SequencerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins at a moment, with the parts that others are streaming then.
    pub(crate) fn begin(&self, now: Position, open: Vec<FollowedPart>) {
        let mut state = self.lock();
        state.told_until = Some(now);
        state.open = open.into_iter().map(|part| ((part.session.clone(), part.part.clone()), part)).collect();
    }

    /// Asks for a look at once.
    pub(crate) fn call(&self) {
        self.wake.notify_one();
    }

    /// Waits until somebody asks for a look.
    pub(crate) async fn called(&self) {
        self.wake.notified().await;
    }

    /// Takes note of what this process is about to commit under a stamp. A commit that fails needs no other word: what
    /// was announced is forgotten as soon as its place in the log has another event, or a look has seen that it is not there.
    pub(crate) fn announce<'c>(&self, stamp: u64, committed: impl IntoIterator<Item = &'c Arc<Committed>>) {
        let mut state = self.lock();
        for committed in committed {
            let announced = state.announced.entry(committed.record.session.clone()).or_default();
            while announced.back().is_some_and(|last| last.committed.record.seq >= committed.record.seq) {
                announced.pop_back();
            }
            announced.push_back(Announced { stamp, committed: Arc::clone(committed) });
        }
    }

    /// Takes in what this process committed under a stamp.
    pub(crate) fn commit(&self, stamp: u64, committed: &[Arc<Committed>]) {
        if committed.is_empty() {
            return;
        }
        let mut state = self.lock();
        for committed in committed {
            if state.take(&self.observer, stamp, Arc::clone(committed)) {
                self.wake.notify_one();
            }
        }
    }

    /// Everything that this process committed under a stamp was told.
    pub(crate) fn pass(&self, stamp: u64) {
        let mut state = self.lock();
        if let Some(Position::Newest(_)) = state.told_until {
            state.ahead.insert(stamp);
            state.advance();
            if state.looks_from.is_none() {
                state.forget_resting();
                state.forget_settled();
            }
        }
    }

    /// Whether everything up to a moment was told.
    pub(crate) fn has_told(&self, now: &Position) -> bool {
        let state = self.lock();
        match (&state.told_until, now) {
            // That a session is gone may be noted by now, which is counted as no commit.
            (Some(Position::Newest(told)), Position::Newest(now)) => now == told && state.missed.is_empty(),
            _ => false,
        }
    }

    /// Tells something after all that was committed to a session before: at once, unless events are missing.
    pub(crate) fn tell_after(&self, session: &SessionId, telling: Telling) {
        let mut state = self.lock();
        match state.tracks.get_mut(session).filter(|track| !track.held.is_empty()) {
            None => telling(),
            Some(_) => state.hold(&self.observer, session, Held::Telling(telling)),
        }
    }

    /// Begins a look: the moment up to which everything was told.
    pub(crate) fn begin_look(&self) -> Option<Position> {
        let mut state = self.lock();
        state.looks += 1;
        let told = state.told_until.clone();
        state.looks_from.clone_from(&told);
        told
    }

    /// How many looks have begun.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.lock().looks
    }

    /// Ends a look that has told everything before a moment. Sessions that did not move during it are forgotten.
    pub(crate) fn end_look(&self, now: Position) {
        let mut state = self.lock();
        let looks = state.looks;
        let from = state.looks_from.take();
        // Own commits may have moved on in the meantime.
        if from == state.told_until || !state.told_until.as_ref().is_some_and(|told| told.includes(&now)) {
            state.told_until = Some(now);
        }
        state.forget_settled();
        state.tracks.retain(|_, track| !track.held.is_empty() || track.look >= looks);
        state.advance();
    }

    /// The last event of a session that was told, if it is known.
    pub(crate) fn last(&self, session: &SessionId) -> Option<u64> {
        self.lock().tracks.get(session)?.last
    }

    /// Takes in events of one session from its log.
    pub(crate) fn deliver(&self, session: &SessionId, page: Vec<Committed>) {
        let mut state = self.lock();
        for committed in page {
            state.deliver(&self.observer, session, Arc::new(committed));
        }
        state.release(&self.observer, session);
    }

    /// Gives up on the events of a session up to a seq: they cannot be read.
    pub(crate) fn skip(&self, session: &SessionId, head: u64) {
        let mut state = self.lock();
        (self.observer)(FeedItem::Gap);
        let track = state.touch(session);
        (track.last, track.stamp) = (Some(head), None);
        state.release(&self.observer, session);
    }

    /// Says that something is missing, and that nobody knows of which session.
    pub(crate) fn tell_gap(&self) {
        // Under the lock, as everything is told.
        let _state = self.lock();
        (self.observer)(FeedItem::Gap);
    }

    /// Says that a session was deleted for good. Nothing more of it can be read.
    pub(crate) fn tell_purged(&self, purged: PurgedSession) {
        let mut state = self.lock();
        if state.tracks.get(&purged.session).is_some_and(|track| !track.held.is_empty()) {
            state.let_go(&self.observer, &purged.session);
        }
        state.open.retain(|(session, _), _| *session != purged.session);
        (self.observer)(FeedItem::Purged(Arc::new(purged)));
    }

    /// Lets go of what waits for events that turned out not to be there, up to `head`.
    pub(crate) fn settle(&self, session: &SessionId, head: u64) {
        let mut state = self.lock();
        state.missed.insert(session.clone(), head);
        if state.tracks.get(session).is_some_and(|track| !track.held.is_empty()) {
            state.let_go(&self.observer, session);
        }
    }

    /// The last events of sessions that the look before this one did not find any more.
    pub(crate) fn take_missed(&self) -> HashMap<SessionId, u64> {
        std::mem::take(&mut self.lock().missed)
    }

    /// The parts that others are streaming.
    pub(crate) fn open_parts(&self) -> Vec<FollowedPart> {
        self.lock().open.values().cloned().collect()
    }

    /// Whether others are streaming something.
    pub(crate) fn is_streaming(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// Takes in pieces of text, those of one part in order.
    pub(crate) fn tell_texts(&self, pieces: Vec<SavedPiece>) {
        let mut state = self.lock();
        for piece in pieces {
            let key = (piece.session, piece.part);
            // It may have ended while its text was read.
            let Some(open) = state.open.get_mut(&key) else { continue };
            // A piece that was not saved makes a hole. What comes after it cannot be told and need not be read; the whole
            // text comes with the part's end.
            if piece.start > open.offset {
                state.open.remove(&key);
                continue;
            }
            if piece.start < open.offset || piece.text.is_empty() {
                continue;
            }
            open.offset += piece.text.len();
            let text = ForeignText {
                session: open.session.clone(),
                project: open.project.clone(),
                directory: open.directory.clone(),
                entry: open.entry.clone(),
                part: open.part.clone(),
                offset: piece.start,
                text: piece.text,
            };
            (self.observer)(FeedItem::Text(Arc::new(text)));
        }
    }
}

impl SequencerState {
    fn touch(&mut self, session: &SessionId) -> &mut Track {
        let look = self.looks;
        let track = self.tracks.entry(session.clone()).or_default();
        track.look = look;
        track
    }

    /// Forgets the sessions of which nothing was told that is not before the moment up to which everything was told.
    fn forget_resting(&mut self) {
        let Some(told) = &self.told_until else { return };
        let rests = |track: &Track| track.stamp.is_some_and(|stamp| told.covers(stamp));
        self.tracks.retain(|_, track| !track.held.is_empty() || !rests(track));
    }

    /// Moves on over own commits that follow directly.
    fn advance(&mut self) {
        let Some(Position::Newest(told)) = &mut self.told_until else { return };
        while let Some(next) = self.ahead.first().copied().filter(|next| *next <= *told + 1) {
            self.ahead.remove(&next);
            *told = next.max(*told);
        }
    }

    /// Takes in an own commit. True when events before it have to be read.
    fn take(&mut self, observer: &Observer, stamp: u64, committed: Arc<Committed>) -> bool {
        let (session, seq) = (committed.record.session.clone(), committed.record.seq);
        let covers = |stamp| self.told_until.as_ref().is_none_or(|told: &Position| told.covers(stamp));
        let (known, follows) = match self.tracks.get(&session) {
            Some(track) => {
                let follows = track.held.is_empty() && track.last.map(|last| last + 1) == Some(seq);
                (track.last.is_some_and(|last| seq <= last), follows)
            }
            None => (self.told_until.is_some() && covers(stamp), seq == 0 || covers(committed.follows)),
        };
        if known {
            // Read from the log before the writer came to tell of it.
            return false;
        }
        if follows {
            self.tell(observer, committed, Some(stamp));
            return false;
        }
        self.touch(&session);
        self.hold(observer, &session, Held::Commit(committed, stamp));
        true
    }

    fn hold(&mut self, observer: &Observer, session: &SessionId, held: Held) {
        let track = self.tracks.entry(session.clone()).or_default();
        track.held.push_back(held);
        if track.held.len() > MOST_HELD {
            self.let_go(observer, session);
        }
    }

    /// Tells everything that waits, with the gap.
    fn let_go(&mut self, observer: &Observer, session: &SessionId) {
        observer(FeedItem::Gap);
        let held = std::mem::take(&mut self.touch(session).held);
        for held in held {
            match held {
                Held::Commit(committed, stamp) => self.tell(observer, committed, Some(stamp)),
                Held::Telling(telling) => telling(),
            }
        }
    }

    /// Tells an event that comes next; its stamp is known if it is an own one.
    fn tell(&mut self, observer: &Observer, committed: Arc<Committed>, stamp: Option<u64>) {
        let record = &committed.record;
        let track = self.touch(&record.session);
        (track.last, track.stamp) = (Some(record.seq), stamp);
        self.forget_announced(&record.session, record.seq);
        match &record.event {
            Event::PartStarted { entry, part } if streams(part) => {
                if let WrittenBy::Others { .. } = committed.by {
                    let open = FollowedPart::new(&committed.tree.session, entry.clone(), part.id.clone());
                    self.open.insert((record.session.clone(), part.id.clone()), open);
                }
            }
            Event::PartEnded { part, .. } => drop(self.open.remove(&(record.session.clone(), part.clone()))),
            Event::StepEnded { .. } | Event::StepFailed { .. } | Event::SessionTrashed {} => {
                self.open.retain(|(session, _), _| *session != record.session);
            }
            _ => {}
        }
        observer(FeedItem::Committed(committed));
    }

    /// Takes in an event from the log.
    fn deliver(&mut self, observer: &Observer, session: &SessionId, committed: Arc<Committed>) {
        self.release(observer, session);
        let seq = committed.record.seq;
        let track = self.touch(session);
        if track.last.is_some_and(|last| seq <= last) {
            return;
        }
        // Our own knows the rows as they were right after it.
        let held = match track.held.front() {
            Some(Held::Commit(own, _)) if own.record.seq == seq => track.held.pop_front(),
            _ => None,
        };
        let own = match held {
            Some(Held::Commit(own, stamp)) => Some((own, stamp)),
            _ => self.announced(&committed),
        };
        match own {
            Some((own, stamp)) => self.tell(observer, own, Some(stamp)),
            None => self.tell(observer, committed, None),
        }
    }

    /// An event from the log as this process announced it, if it did.
    fn announced(&self, read: &Committed) -> Option<(Arc<Committed>, u64)> {
        let announced = self.announced.get(&read.record.session)?;
        let own = announced.iter().find(|own| own.committed.record.seq == read.record.seq)?;
        (own.committed.record.id == read.record.id).then(|| (Arc::clone(&own.committed), own.stamp))
    }

    /// Forgets what was announced of a session up to a seq that was told.
    fn forget_announced(&mut self, session: &SessionId, seq: u64) {
        let Some(announced) = self.announced.get_mut(session) else { return };
        while announced.front().is_some_and(|first| first.committed.record.seq <= seq) {
            announced.pop_front();
        }
        if announced.is_empty() {
            self.announced.remove(session);
        }
    }

    /// Forgets what was announced and would have been told by now if it had been committed.
    fn forget_settled(&mut self) {
        let Some(told) = &self.told_until else { return };
        self.announced.retain(|_, announced| {
            announced.retain(|announced| !told.covers(announced.stamp));
            !announced.is_empty()
        });
    }

    /// Tells what waits and follows the last event directly.
    fn release(&mut self, observer: &Observer, session: &SessionId) {
        loop {
            let Some(track) = self.tracks.get_mut(session) else { return };
            let Some(last) = track.last else { return };
            let ready = match track.held.front() {
                None => return,
                Some(Held::Commit(next, _)) => next.record.seq <= last + 1,
                Some(Held::Telling(_)) => true,
            };
            if !ready {
                return;
            }
            match track.held.pop_front() {
                Some(Held::Commit(next, stamp)) if next.record.seq > last => {
                    self.tell(observer, next, Some(stamp));
                }
                Some(Held::Telling(telling)) => telling(),
                Some(Held::Commit(..)) | None => {}
            }
        }
    }
}

/// Whether a part's text streams.
pub(crate) fn streams(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text { .. } | PartKind::Reasoning { .. })
}

#[cfg(test)]
mod tests;
