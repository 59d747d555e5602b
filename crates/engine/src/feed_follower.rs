//! Follows the store's feed: what other processes do to our sessions, and what they run themselves.
//!
//! The feed calls this while it holds the order of events, so everything here only sets flags and wakes tasks: a prompt
//! for a session that works here wakes its drain, an interrupt stops it, an answer goes to the call that waits, and
//! anything that happens in a session that another process runs wakes the drain that waits for it. If another process
//! goes on with the answer that a turn here is writing, it has taken the session over, and the turn ends.
//!
//! A session of another process is busy from the step or the command that it starts, and idle when its log says that nothing is left to
//! do: see [`RestReporter`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use everturn_model::request::GivenAnswer;
use everturn_model::{EntryId, Event, RequestId, Session, SessionId, Tree};
use everturn_store::{Committed, FeedItem, ForeignText, PurgedSession, Store, WrittenBy};
use tokio::sync::{mpsc, watch};

use crate::bus::{Bus, Live, SessionUpdate, Signal};
use crate::drains::DrainSlots;
use crate::requests::{RequestAnswer, WaitingCalls};
use crate::worker::is_due;

/// The sessions that other processes run, as far as anybody here was told; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BusyElsewhere {
    /// With the seq of the last event that was told of each; none when it is not known which one that was.
    runs: Arc<Mutex<HashMap<SessionId, Option<u64>>>>,
    /// Where it is asked whether they rest.
    questions: Arc<OnceLock<mpsc::UnboundedSender<RestQuestion>>>,
}

/// Something to look up.
#[derive(Debug)]
enum RestQuestion {
    /// Whether a session rests after the event that was told last.
    Session(SessionId, Option<u64>),
    /// Which sessions there are at all, since events may be missing.
    All,
}

impl BusyElsewhere {
    fn with<T>(&self, use_runs: impl FnOnce(&mut HashMap<SessionId, Option<u64>>) -> T) -> T {
        use_runs(&mut self.runs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the sessions that ran elsewhere when this process started.
    pub(crate) fn begin(&self, running: Vec<SessionId>) {
        for id in running {
            self.add(id, None);
        }
    }

    /// Begins to look whether they rest, for as long as what comes back is held. Some may have come to rest before.
    pub(crate) fn employ(&self, store: Store, bus: Bus) -> Arc<RestReporter> {
        let (questions, asked) = mpsc::unbounded_channel();
        // Only here, once.
        drop(self.questions.set(questions));
        let reporter = Arc::new(RestReporter { store, bus, busy: self.clone() });
        tokio::spawn(answer(Arc::downgrade(&reporter), asked));
        self.review_all();
        reporter
    }

    fn ask(&self, question: RestQuestion) {
        // Nobody may be there any more to answer.
        self.questions.get().map(|questions| questions.send(question).ok());
    }

    /// Whether a session is one of them.
    pub(crate) fn has(&self, id: &SessionId) -> bool {
        self.with(|runs| runs.contains_key(id))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        self.with(|runs| runs.keys().cloned().collect())
    }

    /// Another process runs a session. True when that is news.
    pub(crate) fn add(&self, id: SessionId, last_seq: Option<u64>) -> bool {
        self.with(|runs| {
            let news = !runs.contains_key(&id);
            let known = runs.entry(id).or_default();
            *known = last_seq.or(*known);
            news
        })
    }

    /// This process runs it itself, and says so itself.
    pub(crate) fn remove(&self, id: &SessionId) {
        self.with(|runs| runs.remove(id));
    }

    /// Has it looked up whether a session that another process runs has come to rest.
    pub(crate) fn review(&self, id: &SessionId) {
        if let Some(last_seq) = self.with(|runs| runs.get(id).copied()) {
            self.ask(RestQuestion::Session(id.clone(), last_seq));
        }
    }

    /// The same of all of them.
    pub(crate) fn review_all(&self) {
        for id in self.all() {
            self.review(&id);
        }
    }

    /// An event was told. True when the session is one of them.
    fn follow(&self, id: &SessionId, seq: u64) -> bool {
        self.with(|runs| runs.get_mut(id).map(|known| *known = Some(seq)).is_some())
    }

    /// Events may be missing: what was told last says nothing any more.
    fn doubt(&self) {
        self.with(|runs| runs.values_mut().for_each(|known| *known = None));
        self.ask(RestQuestion::All);
    }

    /// A session rests after the event that was told last. False when others were told since, or somebody said so before.
    pub(crate) fn end(&self, id: &SessionId, last_seq: Option<u64>) -> bool {
        self.with(|runs| runs.get(id).is_some_and(|known| *known == last_seq) && runs.remove(id).is_some())
    }
}

/// Says that sessions of other processes rest.
///
/// Whether anything is left to do is in the rows and in no event: prompts may wait. So it is looked up, each time that an
/// event leaves no turn open and each time that a drain ends here, and holds if what was told last is also the last in
/// the log. If it is not, more will be told, and looked at then. Therefore idle comes after everything that was done, once,
/// whatever the order in which the work ends, the lease is given back, and this process hears of it.
#[derive(Debug)]
pub(crate) struct RestReporter {
    store: Store,
    bus: Bus,
    busy: BusyElsewhere,
}

/// Answers questions until nobody is there to ask or to answer. Between two of them it keeps nothing alive.
async fn answer(reporter: Weak<RestReporter>, mut asked: mpsc::UnboundedReceiver<RestQuestion>) {
    while let Some(question) = asked.recv().await {
        let Some(reporter) = reporter.upgrade() else { return };
        let answered = match question {
            RestQuestion::Session(id, last_seq) => reporter.look(&id, last_seq).await,
            RestQuestion::All => reporter.count().await,
        };
        // A process that ends need not know.
        if let Err(error) = answered
            && !matches!(error, everturn_store::Error::Closed)
        {
            tracing::warn!(error = error.to_string(), "it is not known whether a session is still busy");
        }
    }
}

impl RestReporter {
    async fn count(&self) -> Result<(), everturn_store::Error> {
        let running = self.store.run_elsewhere().await;
        let counted = running.map(|running| self.busy.begin(running));
        self.busy.review_all();
        counted
    }

    async fn look(&self, id: &SessionId, last_seq: Option<u64>) -> Result<(), everturn_store::Error> {
        let Some(now) = self.store.tail(id, 0).await? else {
            self.busy.remove(id);
            return Ok(());
        };
        let mut tree = Tree::new(now.session);
        tree.inbox.extend(now.inbox);
        let trashed = tree.session.time.trashed.is_some();
        if is_due(&tree) {
            return Ok(());
        }
        // Whoever runs what was put into the trash closes its turn first, and says why.
        if trashed && tree.session.is_at_work() && self.store.run_elsewhere().await?.contains(id) {
            return Ok(());
        }
        // Asked last: the rows are not older than what was told, and if nothing came after that, not newer either.
        if last_seq.is_some() && !self.store.events(id, last_seq, 1).await?.is_empty() {
            return Ok(());
        }
        let (bus, busy, session) = (self.bus.clone(), self.busy.clone(), tree.session);
        self.store.tell_after(id, move || {
            if busy.end(&session.id, last_seq) {
                bus.send(signal(&session, Signal::Idle));
            }
        });
        Ok(())
    }
}

/// Takes each item of the feed: puts it on the bus, and lets it take effect here.
#[derive(Debug)]
pub(crate) struct FeedFollower {
    bus: Bus,
    slots: DrainSlots,
    waiting: WaitingCalls,
    busy: BusyElsewhere,
    gaps: watch::Sender<u64>,
}

impl FeedFollower {
    /// A follower for the drains and the calls of this process.
    pub(crate) fn new(bus: Bus, slots: DrainSlots, waiting: WaitingCalls, busy: BusyElsewhere) -> Self {
        Self { bus, slots, waiting, busy, gaps: watch::channel(0).0 }
    }

    /// What is to be done after a gap.
    pub(crate) fn gaps(&self) -> watch::Receiver<u64> {
        self.gaps.subscribe()
    }

    /// Takes one item of the feed.
    pub(crate) fn take(&self, item: FeedItem) {
        match item {
            FeedItem::Committed(committed) => {
                // Who failed here has said so before the event, as clients know it.
                if let WrittenBy::Others { .. } = committed.by
                    && let Event::StepFailed { error, resumes: false, .. } = &committed.record.event
                {
                    let failed = Signal::Failed { error: error.clone() };
                    self.bus.send(signal(&committed.tree.session, failed));
                }
                self.bus.send(SessionUpdate::Committed(Arc::clone(&committed)));
                self.follow(&committed);
            }
            FeedItem::Text(text) => self.bus.send(shown(&text)),
            FeedItem::Purged(purged) => self.forget(&purged),
            FeedItem::Gap => {
                self.bus.send(SessionUpdate::Gap);
                self.slots.notify_all_waiting();
                self.busy.doubt();
                self.gaps.send_modify(|count| *count += 1);
            }
        }
    }

    fn follow(&self, committed: &Committed) {
        let (session, event) = (&committed.tree.session, &committed.record.event);
        // Whoever answered: the call goes on with what is in the log.
        if let Event::RequestAnswered { id, reply, message, answers, follows, .. } = event {
            let (message, answers, follows) = (message.clone(), answers.clone(), follows.clone());
            let given = GivenAnswer { reply: *reply, message, answers, follows };
            self.waiting.answer(id, RequestAnswer::of(given));
        }
        // Whoever asked: this process may have begun to work on the session while it did.
        if let Event::InterruptRequested {} = event {
            self.slots.interrupt(&session.id, session.interrupts);
        }
        self.slots.follow(&session.id, committed.record.seq);
        // Whoever deleted it may have found nothing to stop yet.
        if let Event::SessionTrashed {} = event {
            self.slots.end(&session.id);
        }
        let last = match committed.by {
            WrittenBy::Us => {
                if let Event::StepStarted { .. } | Event::ShellStarted { .. } = event {
                    self.busy.remove(&session.id);
                }
                true
            }
            WrittenBy::Others { newest } => {
                self.follow_other(committed);
                newest
            }
        };
        // Nobody goes on with what is in the trash, however it was left.
        let over = !session.is_at_work() || session.time.trashed.is_some();
        if self.busy.follow(&session.id, committed.record.seq) && last && over {
            self.busy.review(&session.id);
        }
    }

    /// Takes leave of a session of which nothing is left.
    fn forget(&self, purged: &PurgedSession) {
        let PurgedSession { session, project, directory, created, updated } = purged.clone();
        self.slots.notify_waiting(&session);
        let busy = self.busy.with(|runs| runs.remove(&session).is_some());
        for signal in busy.then_some(Signal::Idle).into_iter().chain([Signal::Purged { created, updated }]) {
            let (session, project, directory) = (session.clone(), project.clone(), directory.clone());
            self.bus.send(SessionUpdate::Live(Arc::new(Live { session, project, directory, signal })));
        }
    }

    fn follow_other(&self, committed: &Committed) {
        let (session, event) = (&committed.tree.session, &committed.record.event);
        match event {
            Event::PromptAdmitted { .. } => self.slots.look_again(&session.id),
            Event::RetryScheduled { .. } => {
                if let Some(retry) = &session.retry {
                    self.bus.send(signal(session, retry.into()));
                }
            }
            Event::SessionParked { reason } => {
                self.bus.send(signal(session, Signal::Failed { error: reason.clone() }));
            }
            Event::StepStarted { .. } | Event::ShellStarted { .. }
                if self.busy.add(session.id.clone(), None) =>
            {
                self.bus.send(signal(session, Signal::Busy));
            }
            _ => {}
        }
        if answered(event).is_some_and(|entry| self.slots.lose(&session.id, entry)) {
            self.busy.add(session.id.clone(), None);
        }
        self.slots.notify_waiting(&session.id);
    }
}

/// The answer that an event goes on with. Only the owner of a session writes such events.
fn answered(event: &Event) -> Option<&EntryId> {
    match event {
        Event::PartStarted { entry, .. }
        | Event::PartAdded { entry, .. }
        | Event::PartEnded { entry, .. }
        | Event::RetryScheduled { entry, .. }
        | Event::UsageReported { entry, .. }
        | Event::RecoveryBegun { entry }
        | Event::ToolCalled { entry, .. }
        | Event::ToolBegun { entry, .. }
        | Event::ToolProgress { entry, .. }
        | Event::StepEnded { entry, .. }
        | Event::StepFailed { entry, .. } => Some(entry),
        Event::ToolSettled { assistant, .. } => assistant.as_ref(),
        _ => None,
    }
}

fn signal(session: &Session, signal: Signal) -> SessionUpdate {
    SessionUpdate::Live(Arc::new(Live {
        session: session.id.clone(),
        project: session.project.clone(),
        directory: session.directory.clone(),
        signal,
    }))
}

fn shown(text: &ForeignText) -> SessionUpdate {
    let ForeignText { session, project, directory, entry, part, offset, text } = text.clone();
    let signal = Signal::Delta { entry, part, offset, text };
    SessionUpdate::Live(Arc::new(Live { session, project, directory, signal }))
}

/// Looks once at what may have been missed, after the feed had a gap; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct MissedUpdates {
    store: Store,
    gaps: watch::Receiver<u64>,
}

impl MissedUpdates {
    /// What a store's feed may have missed.
    pub(crate) fn new(store: Store, gaps: watch::Receiver<u64>) -> Self {
        Self { store, gaps }
    }

    /// Waits for a gap. Without a feed there is none.
    async fn gap(gaps: &mut watch::Receiver<u64>) {
        if gaps.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when a request was answered and the feed missed it.
    pub(crate) async fn answered(&self, id: &RequestId) {
        let mut gaps = self.gaps.clone();
        loop {
            Self::gap(&mut gaps).await;
            if let Ok(None) = self.store.request(id).await {
                return;
            }
        }
    }

    /// Says how many interrupts there were each time that the feed may have missed one. It never ends.
    pub(crate) async fn interrupted(&self, id: &SessionId, hear: impl Fn(u64)) -> Infallible {
        let mut gaps = self.gaps.clone();
        loop {
            Self::gap(&mut gaps).await;
            if let Ok(Some(session)) = self.store.session(id).await {
                hear(session.interrupts);
            }
        }
    }
}

#[cfg(test)]
mod tests;
