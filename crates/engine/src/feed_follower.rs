//! What other processes do to the sessions of this one, and what they run themselves: all of it comes by the store's feed.
//!
//! The feed tells under the store's own order, so everything here only sets marks and wakes: a prompt for a session that
//! works here wakes its drain, an interrupt stops it, an answer goes to the call that waits, and anything that happens in
//! a session that another process runs wakes the drain that waits for it. Whether those sessions are busy follows from
//! their events.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::{Event, RequestId, Session, SessionId};
use everturn_store::{Committed, FeedItem, ForeignText, Store, WrittenBy};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, Live, SessionUpdate, Signal};
use crate::drains::DrainSlots;
use crate::requests::{RequestAnswer, WaitingCalls};

/// The sessions that other processes run; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BusyElsewhere(Arc<Mutex<HashSet<SessionId>>>);

impl BusyElsewhere {
    fn with<T>(&self, use_set: impl FnOnce(&mut HashSet<SessionId>) -> T) -> T {
        use_set(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what was running when this process came.
    pub(crate) fn begin(&self, running: Vec<SessionId>) {
        self.with(|set| set.extend(running));
    }

    /// Whether a session is one of them.
    pub(crate) fn has(&self, id: &SessionId) -> bool {
        self.with(|set| set.contains(id))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        self.with(|set| set.iter().cloned().collect())
    }
}

/// Takes in what the feed tells: it is put on the bus, and takes effect here.
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

    /// Takes in one thing that the feed tells.
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
            FeedItem::Gap => {
                self.bus.send(SessionUpdate::Gap);
                self.slots.notify_all_waiting();
                self.gaps.send_modify(|count| *count += 1);
            }
        }
    }

    fn follow(&self, committed: &Committed) {
        let session = &committed.tree.session;
        match &committed.record.event {
            // Whoever answered: the call goes on with what is in the log.
            Event::RequestAnswered { id, reply, message, answers, .. } => {
                self.waiting.answer(id, RequestAnswer::of(*reply, message.as_deref(), answers.as_ref()));
            }
            Event::StepStarted { .. } if committed.by == WrittenBy::Us => {
                self.busy.with(|set| set.remove(&session.id));
            }
            _ => {}
        }
        let WrittenBy::Others { newest } = committed.by else { return };
        match &committed.record.event {
            Event::PromptAdmitted { .. } => self.slots.look_again(&session.id),
            Event::InterruptRequested {} => self.slots.interrupt(&session.id, session.interrupts),
            Event::StepStarted { .. } if self.busy.with(|set| set.insert(session.id.clone())) => {
                self.bus.send(signal(session, Signal::Busy));
            }
            _ => {}
        }
        // A drain that waits for the session says itself when nothing is left to do.
        let waits = self.slots.notify_waiting(&session.id);
        if newest && !session.open && self.busy.with(|set| set.remove(&session.id)) && !waits {
            self.bus.send(signal(session, Signal::Idle));
        }
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

    /// Resolves when a request is answered and the feed did not tell of it.
    pub(crate) async fn answered(&self, id: &RequestId) {
        let mut gaps = self.gaps.clone();
        loop {
            Self::gap(&mut gaps).await;
            if let Ok(None) = self.store.request(id).await {
                return;
            }
        }
    }

    /// Fires `cancel` when somebody asked for an interrupt since `before` and the feed did not tell of it. It never ends.
    pub(crate) async fn interrupted(
        &self,
        id: &SessionId,
        before: u64,
        cancel: &CancellationToken,
    ) -> Infallible {
        let mut gaps = self.gaps.clone();
        loop {
            Self::gap(&mut gaps).await;
            if let Ok(Some(session)) = self.store.session(id).await
                && session.interrupts > before
            {
                cancel.cancel();
            }
        }
    }
}
