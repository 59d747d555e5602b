//! Drains: the spans in which a session works.
//!
//! Each session has at most one drain in this process, and the lease makes it one among all processes. Wakes that
//! arrive while it works are remembered as one; an interrupt stops it at the next await and lets it settle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everturn_model::fault::Fault;
use everturn_model::inbox::Delivery;
use everturn_model::{Event, SessionId, Tree};
use everturn_store::{Authority, Lease};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bus::Signal;
use crate::turn::{End, Turn};
use crate::{Engine, Error};

/// How often failed work is tried again before it waits for the next prompt or start.
const MOST_FAILURES: u32 = 10;

/// How often this process looks at what another one does.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// The longest pause between two tries, in seconds.
const LONGEST_PAUSE: u64 = 60;

/// The drains of this process.
#[derive(Debug, Default)]
pub(crate) struct Drains(Mutex<HashMap<SessionId, Slot>>);

#[derive(Debug)]
struct Slot {
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
    fn with<T>(&self, use_slots: impl FnOnce(&mut HashMap<SessionId, Slot>) -> T) -> T {
        use_slots(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// True while the session works in this process.
    #[must_use]
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.0.drains.with(|slots| slots.contains_key(id))
    }

    /// What the sessions at work are doing.
    #[must_use]
    pub fn statuses(&self) -> Vec<(SessionId, Signal)> {
        self.0.drains.with(|slots| slots.iter().map(|(id, slot)| (id.clone(), slot.status.clone())).collect())
    }

    pub(crate) fn set_status(&self, id: &SessionId, status: Signal) {
        self.0.drains.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.status = status;
            }
        });
    }

    /// Resolves when the session does not work, or not any more.
    pub async fn settled(&self, id: &SessionId) {
        loop {
            let ended = self.0.drains.with(|slots| slots.get(id).map(|slot| slot.ended.clone()));
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
        let session = self.session(id).await?;
        let running = self.0.drains.with(|slots| {
            let slot = slots.get_mut(id)?;
            slot.again = false;
            slot.cancel.cancel();
            Some((slot.owned, slot.done.clone()))
        });
        if session.open && !running.as_ref().is_some_and(|(owned, _)| *owned) {
            // Another process may be at work on it and will see this.
            self.append(id, Authority::Open, vec![Event::InterruptRequested {}]).await?;
        }
        if let Some((_, done)) = running {
            done.cancelled().await;
        }
        Ok(())
    }

    /// Makes sure that the session works off what it has.
    pub(crate) fn wake(&self, id: &SessionId) {
        if self.0.closing.is_cancelled() {
            return;
        }
        let started = self.0.drains.with(|slots| match slots.get_mut(id) {
            Some(slot) => {
                slot.again = true;
                None
            }
            None => {
                let (end, ended) = watch::channel(());
                let cancel = CancellationToken::new();
                let done = CancellationToken::new();
                let slot = Slot {
                    cancel: cancel.clone(),
                    again: false,
                    owned: false,
                    done,
                    status: Signal::Busy,
                    ended,
                };
                slots.insert(id.clone(), slot);
                Some((end, cancel))
            }
        });
        if let Some((end, cancel)) = started {
            let engine = self.clone();
            let id = id.clone();
            self.0.tasks.spawn(async move {
                engine.run(&id, cancel).await;
                drop(end);
            });
        }
    }

    async fn run(&self, id: &SessionId, mut cancel: CancellationToken) {
        let mut failures = 0;
        loop {
            // A panic in a turn is this session's misfortune and nobody else's.
            let engine = self.clone();
            let task = tokio::spawn({
                let (id, cancel) = (id.clone(), cancel.clone());
                async move { engine.drain(&id, &cancel).await }
            });
            let failure = match task.await {
                // Only a person can mend what they have written: it waits for them.
                Ok(Err(error)) => Some((matches!(error, Error::Unavailable(_)), error.to_string())),
                Ok(Ok(())) => None,
                Err(panic) => Some((false, panic.to_string())),
            };
            if let Some((lasts, failure)) = failure {
                // Whoever panicked could not say so.
                self.own(id, false);
                self.report_failure(id, &failure).await;
                // What was accepted is not forgotten because the disk was full for a moment.
                if !lasts && self.pause(&mut failures, &cancel).await {
                    continue;
                }
                if cancel.is_cancelled() && self.drain(id, &cancel).await.is_err() {
                    tracing::error!(session = %id, "the work could not be stopped in the log");
                }
            }
            let again = self.0.drains.with(|slots| match slots.get_mut(id) {
                Some(slot) if slot.again && !self.0.closing.is_cancelled() => {
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
            });
            match again {
                Some(next) => cancel = next,
                None => return,
            }
        }
    }

    /// Waits before failed work is tried again; false when it is not to be.
    async fn pause(&self, failures: &mut u32, cancel: &CancellationToken) -> bool {
        *failures += 1;
        let seconds = 2u64.saturating_pow(*failures).min(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds)) => *failures <= MOST_FAILURES,
            () = cancel.cancelled() => false,
            () = self.0.closing.cancelled() => false,
        }
    }

    /// Tells clients that the work stopped for a reason that is in no log: the disk, most likely.
    async fn report_failure(&self, id: &SessionId, failure: &str) {
        tracing::error!(session = %id, error = failure, "the work on a session failed");
        if let Ok(session) = self.session(id).await {
            self.signal(&session, Signal::Failed { error: Fault::internal(failure) });
            self.signal(&session, Signal::Idle);
        }
    }

    /// Keeps the session from working while something else changes it.
    pub(crate) fn hold(&self, id: &SessionId) -> Result<Hold, Error> {
        let (end, ended) = watch::channel(());
        let (cancel, done) = (CancellationToken::new(), CancellationToken::new());
        let slot = Slot { cancel, again: false, owned: true, done, status: Signal::Busy, ended };
        self.0.drains.with(|slots| match slots.entry(id.clone()) {
            Entry::Occupied(_) => Err(Error::Busy(id.clone())),
            Entry::Vacant(free) => {
                free.insert(slot);
                Ok(Hold { engine: self.clone(), id: id.clone(), _end: end })
            }
        })
    }

    async fn drain(&self, id: &SessionId, cancel: &CancellationToken) -> Result<(), Error> {
        let Some(lease) = self.take_over(id, cancel).await? else { return Ok(()) };
        self.own(id, true);
        let watching = tokio::spawn(self.clone().watch_interrupts(id.clone(), cancel.clone()));
        let result = self.drain_owned(id, &lease, cancel).await;
        watching.abort();
        self.own(id, false);
        if !self.0.closing.is_cancelled() {
            self.0.store.release(lease).await?;
        }
        result
    }

    /// True when the session has something to do.
    pub(crate) async fn has_work(&self, id: &SessionId) -> Result<bool, Error> {
        let now = self.0.store.tail(id, 0).await?.ok_or_else(|| Error::NoSession(id.clone()))?;
        let mut tree = Tree::new(now.session);
        tree.inbox = now.inbox;
        Ok(next_work(&tree).is_some())
    }

    /// True while this process has the right to run the session, and not another one.
    pub(crate) fn owns(&self, id: &SessionId) -> bool {
        self.0.drains.with(|slots| slots.get(id).is_some_and(|slot| slot.owned))
    }

    fn own(&self, id: &SessionId, owned: bool) {
        self.0.drains.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.owned = owned;
            }
        });
    }

    /// Looks for interrupts that were asked for in another process, for as long as the drain lasts.
    async fn watch_interrupts(self, id: SessionId, cancel: CancellationToken) {
        let mut before = None;
        loop {
            // What cannot be read now is looked at again.
            if let Ok(Some(session)) = self.0.store.session(&id).await {
                let before = *before.get_or_insert(session.interrupts);
                if session.interrupts > before {
                    cancel.cancel();
                    return;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes the right to run the session. While another process has it, that one works; what it leaves is ours. None
    /// when there is nothing left to do, or nobody wants it any more.
    async fn take_over(&self, id: &SessionId, cancel: &CancellationToken) -> Result<Option<Lease>, Error> {
        let mut waited = false;
        loop {
            match self.0.store.acquire(id).await {
                Ok(lease) => return Ok(Some(lease)),
                Err(everturn_store::Error::Busy { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if !self.has_work(id).await? {
                if waited {
                    self.signal(&self.session(id).await?, Signal::Idle);
                }
                return Ok(None);
            }
            waited = true;
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = cancel.cancelled() => return Ok(None),
                () = self.0.closing.cancelled() => return Ok(None),
            }
        }
    }

    async fn drain_owned(
        &self,
        id: &SessionId,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let mut tree = self.tree(id).await?;
        if next_work(&tree).is_none() {
            return Ok(());
        }
        let session = tree.session.clone();
        self.signal(&session, Signal::Busy);
        let Some(settled) = self.settle_leftovers(tree, lease, cancel).await? else { return Ok(()) };
        // Prompts may have come while a call waited for a person.
        tree = self.refresh(settled).await?;
        let end = loop {
            let Some(work) = next_work(&tree) else { break End::Done };
            let mut turn = Turn::new(self, lease, cancel, tree, work);
            let end = turn.run().await?;
            tree = self.refresh(turn.tree).await?;
            match end {
                End::Continue => {}
                // What was admitted meanwhile is worked off unless somebody stopped the session.
                End::Done if next_work(&tree).is_some() => {}
                end => break end,
            }
        };
        self.idle(&tree, end, lease).await
    }

    /// The turn's tree with what others did meanwhile: the session row and the inbox. The path is the owner's alone.
    async fn refresh(&self, mut tree: Tree) -> Result<Tree, Error> {
        let id = tree.session.id.clone();
        let now = self.0.store.tail(&id, 0).await?.ok_or(Error::NoSession(id))?;
        tree.session = now.session;
        tree.inbox = now.inbox;
        Ok(tree)
    }

    async fn idle(&self, tree: &Tree, end: End, lease: &Lease) -> Result<(), Error> {
        let session = &tree.session;
        match end {
            // The turn has said so itself, in the order that clients know.
            End::Failed | End::Closing => {}
            End::Done | End::Declined | End::Continue => {
                self.signal(session, Signal::Idle);
                if let Some(event) = crate::turn::summarize(self, tree).await? {
                    self.append(&session.id, Authority::Owned(lease.clone()), vec![event]).await?;
                }
            }
        }
        Ok(())
    }
}

/// A session that is kept from working; dropping it lets it go on.
#[derive(Debug)]
pub(crate) struct Hold {
    engine: Engine,
    id: SessionId,
    _end: watch::Sender<()>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let slot = self.engine.0.drains.with(|slots| slots.remove(&self.id));
        if let Some(slot) = slot {
            slot.done.cancel();
            if slot.again {
                self.engine.wake(&self.id);
            }
        }
    }
}

/// What a session has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// The prompts to promote, in this order.
    pub(crate) promote: Vec<everturn_model::EntryId>,
}

/// Steers are promoted at once, all of them; a queued prompt only when nothing else is left, one at a time.
pub(crate) fn next_work(tree: &Tree) -> Option<Work> {
    // A staged revert is waiting for the person; a parked session for a prompt.
    if tree.session.parked || tree.session.revert.is_some() {
        return None;
    }
    let of = |delivery| {
        tree.inbox.iter().filter(move |item| item.delivery == delivery).map(|item| item.id.clone())
    };
    let mut promote: Vec<_> = of(Delivery::Steer).collect();
    if promote.is_empty() && !tree.session.open {
        promote.extend(of(Delivery::Queue).next());
    }
    (tree.session.open || !promote.is_empty()).then_some(Work { promote })
}
