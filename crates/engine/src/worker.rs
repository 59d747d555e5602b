//! The work of a drain: takes the session, closes what was left open, and runs one turn after the other until nothing is
//! left to do.

mod failure;
mod next;

use std::sync::Arc;
use std::time::Duration;

use everturn_model::{Session, SessionId, Tree};
use everturn_store::Lease;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::Error;
use crate::bus::Signal;
use crate::drains::Drains;
use crate::feed_follower::MissedUpdates;
use crate::journal::Journal;
use crate::leases::{LeaseEnd, Leases};
use crate::lifecycle::Lifecycle;
use crate::requests::trust::TrustRequests;
use crate::shell;
use crate::turn::{ClosedLeftovers, ProviderTurns, TurnEnd};
use crate::work_span::WorkSpan;
use failure::{DrainFailure, is_deleted};
pub(crate) use next::{NextWork, WantedCompaction, is_due, next_work};

/// How often failed work is tried again before it waits for the next prompt or start.
const MOST_FAILURES: u32 = 10;

/// How often a session that another process has is tried to be taken: that a lease was given back, or that its owner died,
/// is in no log.
const TRY_LEASE: Duration = Duration::from_millis(250);

/// The longest pause between two tries, in seconds.
const LONGEST_PAUSE: u64 = 60;

/// How many sessions are read at once: after a restart many go on together, and nobody else must wait for all of them.
const READINGS: usize = 8;

/// Works off what sessions have.
#[derive(Debug)]
pub(crate) struct Worker {
    journal: Journal,
    drains: Drains,
    leases: Leases,
    turns: ProviderTurns,
    trust: TrustRequests,
    missed: MissedUpdates,
    lifecycle: Lifecycle,
    /// Whose permits those need who read a whole session.
    readings: Semaphore,
}

impl Worker {
    /// A worker for the drains of this process.
    pub(crate) fn new(
        journal: Journal,
        drains: Drains,
        leases: Leases,
        turns: ProviderTurns,
        trust: TrustRequests,
        missed: MissedUpdates,
        lifecycle: Lifecycle,
    ) -> Self {
        let readings = Semaphore::new(READINGS);
        Self { journal, drains, leases, turns, trust, missed, lifecycle, readings }
    }

    /// Runs the drain of a session, and the next one for as long as it is woken.
    pub(crate) async fn run(self: Arc<Self>, id: &SessionId, mut cancel: CancellationToken) {
        let mut failures = 0;
        loop {
            // A panic in a turn is this session's misfortune and nobody else's.
            let task = tokio::spawn({
                let (worker, id, cancel) = (Arc::clone(&self), id.clone(), cancel.clone());
                async move { worker.drain(&id, &cancel).await }
            });
            let failure = match task.await {
                Ok(Err(failure)) => Some(failure),
                Ok(Ok(())) => None,
                Err(panic) => {
                    let owned = self.drains.is_owned(id);
                    Some(DrainFailure { reason: panic.to_string(), lasts: false, owned })
                }
            };
            if let Some(failure) = failure {
                // It may have told that it is idle, and then could not record it.
                self.drains.set_status(id, Signal::Busy);
                // Whoever panicked could not say so.
                self.drains.set_owned(id, false);
                tracing::error!(session = %id, error = failure.reason, "the work on a session failed");
                self.report(id, failure.signals()).await;
                // What was accepted is not forgotten because the disk was full for a moment.
                if !failure.lasts && self.back_off(&mut failures, &cancel).await {
                    continue;
                }
                if !failure.owned && !self.drains.is_busy_elsewhere(id) {
                    self.report(id, vec![Signal::Idle]).await;
                }
                if cancel.is_cancelled() && self.drain(id, &cancel).await.is_err() {
                    tracing::error!(session = %id, "the work could not be stopped in the log");
                }
            }
            if cancel.is_cancelled() {
                self.wake_for_later(id).await;
            }
            match self.drains.next(id) {
                Some(next) => cancel = next,
                None => return,
            }
        }
    }

    /// Has a session that was stopped look again if there is work that came after that. Whoever accepted it may have woken
    /// the session before the stop was heard. A turn that is still open is another process's.
    async fn wake_for_later(&self, id: &SessionId) {
        if let Ok(now) = self.journal.outline(id).await
            && !now.session.open
            && next_work(&now).is_some()
        {
            self.drains.wake(id);
        }
    }

    /// Waits before failed work is tried again; false when it is not to be.
    async fn back_off(&self, failures: &mut u32, cancel: &CancellationToken) -> bool {
        *failures += 1;
        let seconds = 2u64.saturating_pow(*failures).min(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds)) => *failures <= MOST_FAILURES,
            () = cancel.cancelled() => false,
            () = self.lifecycle.closing() => false,
        }
    }

    /// Tells clients what became of work that failed.
    async fn report(&self, id: &SessionId, signals: Vec<Signal>) {
        let session = match self.journal.session(id).await {
            Ok(session) => session,
            Err(Error::NoSession(_)) => return,
            // Whoever waits for the session is told also where nothing of it can be read any more.
            Err(_) => Session::new(id.clone(), "", "", "", "", 0),
        };
        for signal in signals {
            self.journal.signal(&session, signal);
        }
    }

    /// Works on a session once it is free. While another process has it, that one works; what it leaves is ours. Does
    /// nothing when nothing is left to do, or nobody wants it any more.
    async fn drain(&self, id: &SessionId, cancel: &CancellationToken) -> Result<(), DrainFailure> {
        loop {
            let mut owned = false;
            let work = |lease| {
                owned = true;
                self.drain_owned(lease, cancel)
            };
            match self.leases.in_drain(id, work).await {
                Ok(Some(())) => return Ok(()),
                Ok(None) => {}
                // Taken over: that is no failure. What was begun here is in the log, and the other process goes on.
                Err(Error::Busy(lost)) if lost == *id => {
                    tracing::warn!(session = %id, "another process has taken over a session that was at work here");
                }
                // Nobody wants the work of a deleted session any more, and whoever deleted it has said so.
                Err(error) if is_deleted(&error, id) => return Ok(()),
                Err(error) => return Err(DrainFailure::of(&error, owned)),
            }
            match self.wait_for_lease(id, cancel).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if is_deleted(&error, id) => return Ok(()),
                Err(error) => return Err(DrainFailure::of(&error, false)),
            }
        }
    }

    /// Waits until a session that another process has may be free; false when nothing is left to do there, or nobody
    /// wants it any more.
    async fn wait_for_lease(&self, id: &SessionId, cancel: &CancellationToken) -> Result<bool, Error> {
        let lease = tokio::time::sleep(TRY_LEASE);
        tokio::pin!(lease);
        let mut changed_elsewhere = false;
        loop {
            let now = self.journal.outline(id).await?;
            if next_work(&now).is_none() {
                return Ok(false);
            }
            // While a turn is open its owner is at work, and what it does is no reason to try.
            if changed_elsewhere && !now.session.open {
                return Ok(true);
            }
            tokio::select! {
                () = self.drains.changed_elsewhere(id) => changed_elsewhere = true,
                () = &mut lease => return Ok(true),
                () = cancel.cancelled() => return Ok(false),
                () = self.lifecycle.closing() => return Ok(false),
            }
        }
    }

    async fn drain_owned(&self, lease: Lease, cancel: &CancellationToken) -> Result<LeaseEnd, Error> {
        let id = &lease.session;
        // Not before: while another process has the session, nothing is done here.
        let mut span = WorkSpan::session(id);
        self.drains.set_owned(id, true);
        let done = self.work_off(&lease, cancel).instrument(span.span()).await;
        let left = done.as_ref().map_or(LeaseEnd::Held, |(_, left)| *left);
        let end = done.map(|(end, _)| end);
        if let Err(Error::Busy(lost)) = &end
            && lost == id
        {
            self.drains.leave(id);
        }
        self.drains.set_owned(id, false);
        span.end(TurnEnd::outcome(&end, cancel));
        end.map(|_| left)
    }

    async fn work_off(
        &self,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<(TurnEnd, LeaseEnd), Error> {
        let reading = self.readings.acquire().await;
        let tree = self.journal.tree(&lease.session).await?;
        drop(reading);
        if !is_due(&tree) {
            return Ok((TurnEnd::Done, LeaseEnd::Held));
        }
        let id = lease.session.clone();
        self.drains.begin(&id, tree.session.interrupts);
        let lost = self.drains.lost(&id);
        tokio::select! {
            biased;
            // At once: whatever the turn still says or does, the log has something else.
            () = lost.cancelled() => Err(Error::Busy(id)),
            result = self.work_off_tree(tree, lease, cancel) => result,
            never = self.missed.interrupted(&id, |count| self.drains.interrupt(&id, count)) => match never {},
        }
    }

    async fn work_off_tree(
        &self,
        mut tree: Tree,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<(TurnEnd, LeaseEnd), Error> {
        let session = tree.session.clone();
        self.journal.signal(&session, Signal::Busy);
        // Before everything else, which may take long. The work does not wait for an answer, nor for the question.
        if !cancel.is_cancelled()
            && let Err(error) = self.trust.review(&session, tree.requests.values().collect()).await
        {
            tracing::warn!(session = %session.id, %error, "nobody was asked whether the project is trusted");
        }
        if let Some(cut_off) = shell::cut_off(&tree, self.journal.mint().now()) {
            self.journal.append_owned(lease, vec![cut_off]).await?;
            tree = self.journal.tree(&session.id).await?;
        }
        let left_open = tree.session.open;
        let settled = match self.turns.settle_leftovers(tree, lease, cancel).await? {
            ClosedLeftovers::Settled(settled) => settled,
            ClosedLeftovers::Stopped(settled) => {
                let settled = self.refresh(settled).await?;
                if cancel.is_cancelled() || next_work(&settled).is_none() {
                    return Ok((TurnEnd::Failed, LeaseEnd::Held));
                }
                self.drains.set_status(&session.id, Signal::Busy);
                self.journal.signal(&session, Signal::Busy);
                settled
            }
            ClosedLeftovers::Closing => return Ok((TurnEnd::Closing, LeaseEnd::Held)),
        };
        // Prompts may have come while a call waited for a person.
        tree = if left_open { self.refresh(settled).await? } else { settled };
        let mut model = None;
        let end = loop {
            let Some(mut work) = next_work(&tree) else { break TurnEnd::Done };
            work.model = model;
            self.drains.begin(&session.id, tree.session.interrupts);
            // A stop that no process was there to hear is heard now.
            if tree.session.stopping && work.promote.is_empty() && !work.asks_for_compaction() {
                cancel.cancel();
            }
            if cancel.is_cancelled() && !tree.session.open {
                break TurnEnd::Done;
            }
            if cancel.is_cancelled() {
                // What came since is for the next drain.
                work.promote.clear();
                work.compaction =
                    work.compaction.filter(|wanted| matches!(wanted, WantedCompaction::Begun(_)));
            }
            let (end, after, answering) = self.turns.run(tree, work, lease, cancel).await?;
            model = answering;
            tree = self.refresh(after).await?;
            match end {
                TurnEnd::Continue | TurnEnd::Stale => {}
                // What was admitted meanwhile is worked off unless somebody stopped the session.
                TurnEnd::Done if next_work(&tree).is_some() => {}
                end => break end,
            }
        };
        let left = self.rest(&tree, end, lease).await?;
        // What waits behind a failure has not failed.
        if end == TurnEnd::Failed && !cancel.is_cancelled() && next_work(&tree).is_some() {
            self.drains.wake(&session.id);
        }
        Ok((end, left))
    }

    /// The turn's tree with what others did meanwhile: the session row and the inbox. The path is the owner's alone.
    async fn refresh(&self, mut tree: Tree) -> Result<Tree, Error> {
        let now = self.journal.outline(&tree.session.id).await?;
        tree.session = now.session;
        tree.inbox = now.inbox;
        Ok(tree)
    }

    /// Says that the session is idle, and records what its prompt changed. With that it is given back, in one commit.
    async fn rest(&self, tree: &Tree, end: TurnEnd, lease: &Lease) -> Result<LeaseEnd, Error> {
        let id = &tree.session.id;
        match end {
            // The turn has said so itself, in the order that clients know.
            TurnEnd::Failed | TurnEnd::Closing => return Ok(LeaseEnd::Held),
            TurnEnd::Done | TurnEnd::Declined | TurnEnd::Continue | TurnEnd::Stale => {
                self.drains.set_status(id, Signal::Idle);
                self.journal.signal(&tree.session, Signal::Idle);
            }
        }
        let Some(event) = self.turns.summarize(tree).await? else { return Ok(LeaseEnd::Held) };
        if self.lifecycle.is_closing() {
            // The session of a process that is gone is what others look for.
            self.journal.append_owned(lease, vec![event]).await?;
            return Ok(LeaseEnd::Held);
        }
        // Before it is another's: what that one says is not to be taken for our own.
        self.drains.set_owned(id, false);
        self.journal.append_leaving(lease, vec![event]).await?;
        Ok(LeaseEnd::GivenBack)
    }
}

#[cfg(test)]
mod tests;
