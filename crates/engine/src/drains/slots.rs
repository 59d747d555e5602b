//! What is known of each drain of this process, and what the feed tells them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::{EntryId, SessionId};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::bus::Signal;
use crate::feed_follower::BusyElsewhere;

/// What is known of each drain of this process; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DrainSlots(Arc<Mutex<HashMap<SessionId, DrainSlot>>>);

impl DrainSlots {
    pub(super) fn with<T>(&self, use_slots: impl FnOnce(&mut HashMap<SessionId, DrainSlot>) -> T) -> T {
        use_slots(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another process gave a session a prompt. If the session works here, it looks again before it rests.
    pub(crate) fn look_again(&self, id: &SessionId) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.look_again();
            }
        });
    }

    /// Somebody asked for an interrupt; the session now has had `interrupts` of them. It stops what works here, unless
    /// that began after it.
    pub(crate) fn interrupt(&self, id: &SessionId, interrupts: u64) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.interrupts = slot.interrupts.max(interrupts);
                slot.stop_if_interrupted();
            }
        });
    }

    /// Somebody here asked for an interrupt. The same, and a drain that waits for another process waits no longer, nor
    /// does what pauses the drain go on where it can be stopped.
    pub(super) fn stop(&self, id: &SessionId, interrupts: u64) -> Option<StoppedDrain> {
        self.interrupt(id, interrupts);
        self.with(|slots| {
            let slot = slots.get_mut(id)?;
            if !slot.owned || slot.paused {
                slot.cancel.cancel();
            }
            Some(StoppedDrain { owned: slot.owned, done: slot.done.clone() })
        })
    }

    /// A session was put into the trash: what works here stops.
    pub(crate) fn end(&self, id: &SessionId) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id).filter(|slot| slot.owned) {
                slot.again = false;
                slot.cancel.cancel();
            }
        });
    }

    /// An event of a session was told.
    pub(crate) fn follow(&self, id: &SessionId, seq: u64) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(id) {
                slot.last_seq = Some(seq);
            }
        });
    }

    /// Something happened in a session elsewhere, for which a drain here may wait.
    pub(crate) fn notify_waiting(&self, id: &SessionId) {
        self.with(|slots| {
            if let Some(slot) = slots.get(id).filter(|slot| !slot.owned) {
                slot.changed_elsewhere.notify_one();
            }
        });
    }

    /// Another process has gone on with an answer. If it is the one that is written here, the session is lost, and this is
    /// true.
    pub(crate) fn lose(&self, id: &SessionId, answer: &EntryId) -> bool {
        self.with(|slots| {
            let slot = slots.get(id).filter(|slot| slot.owned && slot.answer.as_ref() == Some(answer));
            slot.map(|slot| slot.lost.cancel()).is_some()
        })
    }

    /// Notes that another process has a session that worked here, unless the feed has noted it.
    pub(super) fn leave(&self, id: &SessionId, elsewhere: &BusyElsewhere) {
        self.with(|slots| {
            let Some(slot) = slots.get_mut(id) else { return };
            slot.owned = false;
            if !slot.lost.is_cancelled() {
                elsewhere.add(id.clone(), slot.last_seq);
            }
        });
    }

    /// Something may have happened anywhere.
    pub(crate) fn notify_all_waiting(&self) {
        self.with(|slots| {
            for slot in slots.values_mut() {
                slot.again |= slot.owned;
                slot.changed_elsewhere.notify_one();
            }
        });
    }
}

/// A drain that somebody stopped.
#[derive(Debug)]
pub(super) struct StoppedDrain {
    /// Whether it had the session, or waited for another process that has it.
    pub(super) owned: bool,
    /// Fires when it has ended.
    pub(super) done: CancellationToken,
}

/// What is known of one drain.
#[derive(Debug)]
pub(super) struct DrainSlot {
    pub(super) cancel: CancellationToken,
    pub(super) again: bool,
    /// Whether this process has the lease, or waits for another one that has it.
    pub(super) owned: bool,
    /// Whether it is no drain, but something that keeps one from beginning.
    pub(super) paused: bool,
    /// The answer that a turn is writing, and whether another process has taken the session over from it.
    pub(super) answer: Option<EntryId>,
    pub(super) lost: CancellationToken,
    /// The seq of the last event that the feed told of.
    pub(super) last_seq: Option<u64>,
    /// How many interrupts others had asked for when the turn began; none before that is known.
    pub(super) begun: Option<u64>,
    /// How many the feed told of.
    pub(super) interrupts: u64,
    /// Something happened in the session while another process has it.
    pub(super) changed_elsewhere: Arc<Notify>,
    /// Fires when the drain that runs now has ended; the next one has another.
    pub(super) done: CancellationToken,
    /// Whether the last turn is over, and only what is to be recorded of it is left.
    pub(super) resting: bool,
    /// What the session is doing. Gone with the slot.
    pub(super) status: watch::Sender<Signal>,
    /// Dropped when the drain ends, which wakes those who wait for it.
    pub(super) ended: watch::Receiver<()>,
}

impl DrainSlot {
    /// The slot of a drain that begins, or of what keeps one from beginning.
    pub(super) fn new(paused: bool) -> (watch::Sender<()>, Self) {
        let (end, ended) = watch::channel(());
        let (cancel, done) = (CancellationToken::new(), CancellationToken::new());
        let slot = Self {
            cancel,
            again: false,
            owned: paused,
            paused,
            answer: None,
            lost: CancellationToken::new(),
            last_seq: None,
            begun: None,
            interrupts: 0,
            changed_elsewhere: Arc::default(),
            done,
            resting: false,
            status: watch::Sender::new(Signal::Busy),
            ended,
        };
        (end, slot)
    }

    /// Has the drain look for work again before it ends. A session that has told that it is idle is busy by that.
    pub(super) fn look_again(&mut self) {
        self.again = true;
        if self.resting {
            self.status.send_replace(Signal::Busy);
        }
    }

    /// Stops the work if somebody asked for that after it began. What woke the session before is forgotten: a drain that was
    /// stopped looks into the log when it ends, which says what the stop holds and what came after it.
    pub(super) fn stop_if_interrupted(&mut self) {
        if self.owned && self.begun.is_some_and(|begun| self.interrupts > begun) {
            self.again = false;
            self.cancel.cancel();
        }
    }
}
