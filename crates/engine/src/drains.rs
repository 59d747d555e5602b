//! Drains: the spans in which a session works.
//!
//! Each session has at most one drain in this process, and the lease makes it one among all processes. Wakes that
//! arrive while it works are remembered as one; an interrupt stops it at the next await and lets it settle. What a
//! drain does is in `worker`.
//!
//! A stop closes the turn that is open and holds the prompts that wait. Those stay in the inbox until the next prompt that
//! wants an answer comes, or a person lets them go on; then all of them are answered.

mod slots;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock, Weak};

use everturn_model::{EntryId, Event, Session, SessionId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::bus::Signal;
use crate::delegation::open_tasks;
use crate::feed_follower::BusyElsewhere;
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::worker::Worker;
use slots::DrainSlot;
pub(crate) use slots::DrainSlots;

/// The drains of this process; clones share them.
#[derive(Debug, Clone)]
pub struct Drains {
    slots: DrainSlots,
    elsewhere: BusyElsewhere,
    /// The worker that runs when a session is woken. It needs this service itself, so it is held weakly.
    worker: Arc<OnceLock<Weak<Worker>>>,
    journal: Journal,
    lifecycle: Lifecycle,
}

impl Drains {
    /// No drains yet. Nothing is woken before there is a [worker](Self::set_worker).
    pub(crate) fn new(
        slots: DrainSlots,
        elsewhere: BusyElsewhere,
        journal: Journal,
        lifecycle: Lifecycle,
    ) -> Self {
        Self { slots, elsewhere, worker: Arc::default(), journal, lifecycle }
    }

    /// Sets the worker that runs when a session is woken.
    pub(crate) fn set_worker(&self, worker: &Arc<Worker>) {
        self.worker.get_or_init(|| Arc::downgrade(worker));
    }

    /// The worker, for tests of it.
    #[cfg(test)]
    pub(crate) fn worker(&self) -> Arc<Worker> {
        self.worker.get().and_then(Weak::upgrade).unwrap()
    }

    fn with<T>(&self, use_slots: impl FnOnce(&mut HashMap<SessionId, DrainSlot>) -> T) -> T {
        self.slots.with(use_slots)
    }

    /// True while the session works in this process.
    #[must_use]
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.with(|slots| slots.contains_key(id))
    }

    /// What the sessions at work are doing, here or in another process.
    #[must_use]
    pub fn statuses(&self) -> Vec<(SessionId, Signal)> {
        let mut statuses: HashMap<SessionId, Signal> =
            self.elsewhere.all().into_iter().map(|id| (id, Signal::Busy)).collect();
        self.with(|slots| {
            let all = slots.iter().map(|(id, slot)| (id.clone(), slot.status.borrow().clone()));
            statuses.extend(all.filter(|(_, status)| *status != Signal::Idle));
        });
        statuses.into_iter().collect()
    }

    /// Resolves when something happened in a session that another process has.
    pub(crate) async fn changed_elsewhere(&self, id: &SessionId) {
        match self.with(|slots| slots.get(id).map(|slot| Arc::clone(&slot.changed_elsewhere))) {
            Some(changed_elsewhere) => changed_elsewhere.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Says that this process begins a turn of a session, and how many interrupts there were when it was known what the
    /// turn is about. Those that came since stop it.
    pub(crate) fn begin(&self, id: &SessionId, interrupts: u64) {
        self.elsewhere.remove(id);
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.begun = Some(interrupts);
                slot.stop_if_interrupted();
            }
        });
    }

    /// Others asked for so many interrupts by now. They stop what works here, unless that began after them.
    pub(crate) fn interrupt(&self, id: &SessionId, interrupts: u64) {
        self.slots.interrupt(id, interrupts);
    }

    /// Says which answer a turn begins to write.
    pub(crate) fn begin_answer(&self, id: &SessionId, answer: &EntryId) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.answer = Some(answer.clone());
            }
        });
    }

    /// Fires when somebody stops what works on a session in this process.
    pub(crate) fn cancellation(&self, id: &SessionId) -> CancellationToken {
        self.with(|slots| slots.get(id).map(|slot| slot.cancel.clone()).unwrap_or_default())
    }

    /// Fires when another process has taken over the session that this one works on.
    pub(crate) fn lost(&self, id: &SessionId) -> CancellationToken {
        self.with(|slots| slots.get(id).map(|slot| slot.lost.clone()).unwrap_or_default())
    }

    /// Says that another process has taken a session over, and runs it now. The feed may have said so before: then it may
    /// also have told of everything that the other one did, and that the session rests.
    pub(crate) fn leave(&self, id: &SessionId) {
        self.slots.leave(id, &self.elsewhere);
    }

    /// Says what a session at work is doing.
    pub(crate) fn set_status(&self, id: &SessionId, status: Signal) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.resting = status == Signal::Idle;
                slot.status.send_replace(status);
            }
        });
    }

    /// Resolves at once, unless a drain has told already that its session is idle: then when that one has ended, or has
    /// found that it has more to do.
    pub(crate) async fn rested(&self, id: &SessionId) {
        loop {
            let resting = self.with(|slots| {
                let status = slots.get(id).map(|slot| slot.status.subscribe());
                status.filter(|status| *status.borrow() == Signal::Idle)
            });
            match resting {
                None => return,
                // An error is that the slot is gone, and the drain with it.
                Some(mut status) => drop(status.wait_for(|status| *status != Signal::Idle).await),
            }
        }
    }

    /// Resolves once the session is not at work.
    pub async fn settled(&self, id: &SessionId) {
        loop {
            let ended = self.with(|slots| slots.get(id).map(|slot| slot.ended.clone()));
            match ended {
                None => return,
                // It ends with an error when the sender is gone, and there is no other end.
                Some(mut ended) => drop(ended.changed().await),
            }
        }
    }

    /// Stops the session's work and holds the prompts that wait, and waits until it has settled here. Without either this
    /// does nothing.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn abort(&self, id: &SessionId) -> Result<(), Error> {
        self.journal.session(id).await?;
        // The log says what came before the stop and what after it: so it comes first.
        let (interrupts, open) = match self.journal.append_interrupt(id).await {
            Ok(appended) => (appended.session.interrupts, appended.session.is_at_work()),
            // Only what is to be recorded of its last turn may be left.
            Err(Error::Store(everturn_store::Error::Idle(_))) => (0, false),
            Err(error) => return Err(error),
        };
        let running = self.slots.stop(id, interrupts);
        let here = running.as_ref().is_some_and(|running| running.owned);
        if open && !here {
            // Another process may be at work on it, and hears of this. Or it has died: then nobody waits for the tasks of
            // the session, and somebody may take them over first.
            for task in open_tasks(&self.journal.newest_nodes(id).await?) {
                Box::pin(self.abort_task(id, &task)).await?;
            }
        }
        if let Some(running) = running {
            running.done.cancelled().await;
        }
        if open && !here {
            self.wake(id);
        }
        Ok(())
    }

    /// Lets a session go on that a stop holds, that waits for a person, or that could not go on. False when nothing is left
    /// to do in it.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn resume(&self, id: &SessionId) -> Result<bool, Error> {
        let session = self.journal.session(id).await?;
        let rested = session.held || session.parked;
        if rested {
            self.journal.append(id, vec![Event::SessionResumed {}]).await?;
        }
        self.wake(id);
        Ok(rested || session.has_work())
    }

    /// Interrupts the work of a session on a task of its parent. True when nobody has closed its turn yet.
    pub(crate) async fn abort_task(&self, parent: &SessionId, task: &SessionId) -> Result<bool, Error> {
        if self.child(parent, task).await?.is_none() {
            return Ok(false);
        }
        self.abort(task).await?;
        Ok(self.child(parent, task).await?.is_some_and(|session| session.open))
    }

    /// A session, if it is a child of this parent and was not deleted meanwhile.
    async fn child(&self, parent: &SessionId, id: &SessionId) -> Result<Option<Session>, Error> {
        match self.journal.session(id).await {
            Ok(session) => Ok(Some(session).filter(|session| session.parent.as_ref() == Some(parent))),
            Err(Error::NoSession(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the session does the work that it has.
    pub(crate) fn wake(&self, id: &SessionId) {
        let Some(worker) = self.worker.get().and_then(Weak::upgrade) else { return };
        if self.lifecycle.is_closing() {
            return;
        }
        let started = self.with(|slots| match slots.get_mut(id) {
            Some(slot) => {
                slot.look_again();
                None
            }
            None => {
                let (end, slot) = DrainSlot::new(false);
                let cancel = slot.cancel.clone();
                slots.insert(id.clone(), slot);
                Some((end, cancel))
            }
        });
        if let Some((end, cancel)) = started {
            let id = id.clone();
            self.lifecycle.spawn(async move {
                worker.run(&id, cancel).await;
                drop(end);
            });
        }
    }

    /// Ends a drain. If the session was woken meanwhile, the next one begins at once, and the token that comes back
    /// stops it. None when there is no next one.
    pub(crate) fn next(&self, id: &SessionId) -> Option<CancellationToken> {
        // It may have left the session to another process, which may be done with it.
        self.elsewhere.review(id);
        self.with(|slots| match slots.get_mut(id) {
            Some(slot) if slot.again && !self.lifecycle.is_closing() => {
                slot.again = false;
                slot.done.cancel();
                slot.done = CancellationToken::new();
                slot.cancel = CancellationToken::new();
                slot.begun = None;
                slot.resting = false;
                slot.status.send_replace(Signal::Busy);
                Some(slot.cancel.clone())
            }
            _ => {
                if let Some(slot) = slots.remove(id) {
                    slot.done.cancel();
                }
                None
            }
        })
    }

    /// Has it looked up whether sessions of other processes rest: one that was put into the trash and whose process died
    /// does, and no event says so.
    pub(crate) fn review_elsewhere(&self) {
        self.elsewhere.review_all();
    }

    /// Keeps the session from working while something else changes it.
    ///
    /// # Errors
    /// When it works.
    pub(crate) fn pause(&self, id: &SessionId) -> Result<SessionPause, Error> {
        let (end, slot) = DrainSlot::new(true);
        self.with(|slots| match slots.entry(id.clone()) {
            Entry::Occupied(_) => Err(Error::Busy(id.clone())),
            Entry::Vacant(free) => {
                free.insert(slot);
                Ok(SessionPause { drains: self.clone(), id: id.clone(), _end: end })
            }
        })
    }

    /// True while this process has the right to run the session: its text goes out over the bus as it grows.
    #[must_use]
    pub fn is_owned(&self, id: &SessionId) -> bool {
        self.with(|slots| slots.get(id).is_some_and(|slot| slot.owned))
    }

    /// True while another process runs the session, as far as its events tell.
    pub(crate) fn is_busy_elsewhere(&self, id: &SessionId) -> bool {
        self.elsewhere.has(id)
    }

    /// Says whether this process has the right to run the session.
    pub(crate) fn set_owned(&self, id: &SessionId, owned: bool) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.owned = owned;
                slot.answer = None;
                slot.lost = CancellationToken::new();
            }
        });
    }
}

/// A session that is kept from working; dropping it lets it go on.
#[derive(Debug)]
pub(crate) struct SessionPause {
    drains: Drains,
    id: SessionId,
    _end: watch::Sender<()>,
}

impl Drop for SessionPause {
    fn drop(&mut self) {
        let slot = self.drains.with(|slots| slots.remove(&self.id));
        if let Some(slot) = slot {
            slot.done.cancel();
            if slot.again {
                self.drains.wake(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
