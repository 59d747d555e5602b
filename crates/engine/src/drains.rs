//! Drains: the spans in which a session works.
//!
//! Each session has at most one drain in this process, and the lease makes it one among all processes. Wakes that
//! arrive while it works are remembered as one; an interrupt stops it at the next await and lets it settle. What a
//! drain does is the [`worker`](crate::worker)'s.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use everturn_model::{Event, SessionId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::bus::Signal;
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::worker::Worker;

/// The drains of this process; clones share them.
#[derive(Debug, Clone)]
pub struct Drains {
    slots: Arc<Mutex<HashMap<SessionId, DrainSlot>>>,
    /// Who works when a session is woken. It needs this room itself and outlives none of its clones.
    worker: Arc<OnceLock<Weak<Worker>>>,
    journal: Journal,
    lifecycle: Lifecycle,
}

#[derive(Debug)]
struct DrainSlot {
    cancel: CancellationToken,
    again: bool,
    // Whether this process has the lease, or waits for another one that has it.
    owned: bool,
    // Fires when the drain that runs now has ended; the next one has another.
    done: CancellationToken,
    status: Signal,
    // Dropped when the drain ends, which wakes those who wait for it.
    ended: watch::Receiver<()>,
}

impl Drains {
    /// No drains yet. Nothing is woken before somebody [works](Self::employ).
    pub(crate) fn new(journal: Journal, lifecycle: Lifecycle) -> Self {
        Self { slots: Arc::default(), worker: Arc::default(), journal, lifecycle }
    }

    /// Says who works when a session is woken.
    pub(crate) fn employ(&self, worker: &Arc<Worker>) {
        self.worker.get_or_init(|| Arc::downgrade(worker));
    }

    fn with<T>(&self, use_slots: impl FnOnce(&mut HashMap<SessionId, DrainSlot>) -> T) -> T {
        use_slots(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True while the session works in this process.
    #[must_use]
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.with(|slots| slots.contains_key(id))
    }

    /// What the sessions at work are doing.
    #[must_use]
    pub fn statuses(&self) -> Vec<(SessionId, Signal)> {
        self.with(|slots| slots.iter().map(|(id, slot)| (id.clone(), slot.status.clone())).collect())
    }

    /// Says what a session at work is doing.
    pub(crate) fn set_status(&self, id: &SessionId, status: Signal) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.status = status;
            }
        });
    }

    /// Resolves when the session does not work, or not any more.
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

    /// Interrupts the session's work and waits until it has settled. Without work this does nothing.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn abort(&self, id: &SessionId) -> Result<(), Error> {
        let session = self.journal.session(id).await?;
        let running = self.with(|slots| {
            let slot = slots.get_mut(id)?;
            slot.again = false;
            slot.cancel.cancel();
            Some((slot.owned, slot.done.clone()))
        });
        if session.open && !running.as_ref().is_some_and(|(owned, _)| *owned) {
            // Another process may be at work on it and will see this.
            self.journal.append(id, vec![Event::InterruptRequested {}]).await?;
        }
        if let Some((_, done)) = running {
            done.cancelled().await;
        }
        Ok(())
    }

    /// Makes sure that the session works off what it has.
    pub(crate) fn wake(&self, id: &SessionId) {
        let Some(worker) = self.worker.get().and_then(Weak::upgrade) else { return };
        if self.lifecycle.is_closing() {
            return;
        }
        let started = self.with(|slots| match slots.get_mut(id) {
            Some(slot) => {
                slot.again = true;
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

    /// Ends a drain: the next one begins at once if the session was woken meanwhile, and can be stopped by what comes
    /// back. None when there is no next one.
    pub(crate) fn next(&self, id: &SessionId) -> Option<CancellationToken> {
        self.with(|slots| match slots.get_mut(id) {
            Some(slot) if slot.again && !self.lifecycle.is_closing() => {
                slot.again = false;
                slot.done.cancel();
                slot.done = CancellationToken::new();
                slot.cancel = CancellationToken::new();
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

    /// True while this process has the right to run the session, and not another one.
    pub(crate) fn owns(&self, id: &SessionId) -> bool {
        self.with(|slots| slots.get(id).is_some_and(|slot| slot.owned))
    }

    /// Says whether this process has the right to run the session.
    pub(crate) fn set_owned(&self, id: &SessionId, owned: bool) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.owned = owned;
            }
        });
    }
}

impl DrainSlot {
    fn new(owned: bool) -> (watch::Sender<()>, Self) {
        let (end, ended) = watch::channel(());
        let (cancel, done) = (CancellationToken::new(), CancellationToken::new());
        (end, Self { cancel, again: false, owned, done, status: Signal::Busy, ended })
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
