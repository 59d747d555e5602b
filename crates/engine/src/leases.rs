//! The one way to work under a lease: take the session, do the work, give it back, however the work ends.
//!
//! A lease keeps other processes away. Within this process a session's drain does that, so whoever changes a session
//! that rests also pauses its drain.
//!
//! - After success and failure the session is given back before the result is. A drain whose last commit has given it back
//!   already says so.
//! - After a panic it is given back before the panic goes on.
//! - If nobody waits for the work any more, it is given back in the background.
//! - While the engine closes it is kept: the session of a process that is gone is what other processes look for.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;

use everturn_model::SessionId;
use everturn_store::{Lease, Store};
use futures_util::FutureExt as _;

use crate::Error;
use crate::drains::{Drains, SessionPause};
use crate::lifecycle::Lifecycle;

/// What has become of a lease when the work under it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// It holds still.
    Held,
    /// The last commit of the work has given the session back.
    GivenBack,
}

/// Takes sessions and gives them back; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Leases {
    store: Store,
    drains: Drains,
    lifecycle: Lifecycle,
}

impl Leases {
    /// Leases of a store.
    pub(crate) fn new(store: Store, drains: Drains, lifecycle: Lifecycle) -> Self {
        Self { store, drains, lifecycle }
    }

    /// Works on a session that rests.
    ///
    /// # Errors
    /// When it is at work, here or elsewhere, or the work fails.
    pub(crate) async fn at_rest<T, F>(
        &self,
        id: &SessionId,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.try_at_rest(id, work).await?.ok_or_else(|| Error::Busy(id.clone()))
    }

    /// The same; none when the session is at work, here or elsewhere.
    pub(crate) async fn try_at_rest<T, F>(
        &self,
        id: &SessionId,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<Option<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        // What it records of its turn, and giving the session back, come after it has told that it is idle.
        self.drains.rested(id).await;
        let Ok(pause) = self.drains.pause(id) else { return Ok(None) };
        let work = |lease| {
            let done = work(lease);
            async { Ok((done.await?, LeaseEnd::Held)) }
        };
        self.own(id, Some(pause), work).await
    }

    /// Works on a session as its drain in this process; none when another process has it.
    pub(crate) async fn in_drain<F>(
        &self,
        id: &SessionId,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<Option<()>, Error>
    where
        F: Future<Output = Result<LeaseEnd, Error>>,
    {
        let work = |lease| {
            let done = work(lease);
            async { Ok(((), done.await?)) }
        };
        self.own(id, None, work).await
    }

    async fn own<T, F>(
        &self,
        id: &SessionId,
        pause: Option<SessionPause>,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<Option<T>, Error>
    where
        F: Future<Output = Result<(T, LeaseEnd), Error>>,
    {
        let lease = match self.store.acquire(id).await {
            Ok(lease) => lease,
            Err(everturn_store::Error::Busy { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let owned = OwnedSession { leases: self.clone(), lease: Some(lease.clone()), pause };
        // The work is all that a session does: on the stack it would be copied from one poll to the next.
        let work: Pin<Box<F>> = Box::pin(work(lease));
        let done = AssertUnwindSafe(work).catch_unwind().await;
        let given_back = matches!(&done, Ok(Ok((_, LeaseEnd::GivenBack))));
        let released = if given_back { owned.leave() } else { owned.give_back().await };
        let (value, _) = done.unwrap_or_else(|panic| resume_unwind(panic))?;
        released?;
        Ok(Some(value))
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        if self.lifecycle.is_closing() {
            return Ok(());
        }
        Ok(self.store.release(lease).await?)
    }
}

/// A session that this process has. The pause outlasts the lease: a drain that began before the release would have its
/// own lease taken away.
struct OwnedSession {
    leases: Leases,
    lease: Option<Lease>,
    pause: Option<SessionPause>,
}

impl OwnedSession {
    /// Ends what was given back already.
    fn leave(mut self) -> Result<(), Error> {
        self.lease = None;
        Ok(())
    }

    async fn give_back(mut self) -> Result<(), Error> {
        let Some(lease) = self.lease.clone() else { return Ok(()) };
        let released = self.leases.release(lease).await;
        // Only now: if this is dropped before this line, the session is given back in the background.
        self.lease = None;
        released
    }
}

impl Drop for OwnedSession {
    fn drop(&mut self) {
        let (Some(lease), Ok(runtime)) = (self.lease.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (leases, pause) = (self.leases.clone(), self.pause.take());
        runtime.spawn(async move {
            if let Err(error) = leases.release(lease).await {
                tracing::error!(
                    error = error.to_string(),
                    "a session that nobody works on was not given back"
                );
            }
            drop(pause);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::path::Path;
    use std::sync::Arc;

    use everturn_model::{Event, Session};
    use everturn_store::Options;
    use tokio::sync::Notify;

    use super::*;
    use crate::bus::Bus;
    use crate::drains::DrainSlots;
    use crate::feed_follower::BusyElsewhere;
    use crate::journal::Journal;
    use crate::mint::Mint;
    use crate::world::System;

    /// A session, and the store as another process has it.
    struct Bench {
        leases: Leases,
        id: SessionId,
        other: Store,
        _data: tempfile::TempDir,
    }

    impl Bench {
        async fn new() -> Self {
            let data = tempfile::tempdir().unwrap();
            let mint = Mint::new(Arc::new(System));
            let open =
                async |folder: &Path| Store::open(Options::folder(folder, &mint.other("own"))).await.unwrap();
            let (store, other) = (open(data.path()).await, open(data.path()).await);
            let journal = Journal::new(store.clone(), mint.clone(), Bus::default());
            let id = mint.session();
            let session = Session::new(id.clone(), "global", "/srv/demo", "t", "1", mint.now());
            journal.append(&id, vec![Event::SessionCreated { session: Box::new(session) }]).await.unwrap();
            let lifecycle = Lifecycle::default();
            let drains =
                Drains::new(DrainSlots::default(), BusyElsewhere::default(), journal, lifecycle.clone());
            Self { leases: Leases::new(store, drains, lifecycle), id, other, _data: data }
        }

        async fn check_free(&self) {
            // Before anything else can run: what is given back in the background is not yet.
            assert!(!self.leases.drains.is_running(&self.id), "the session may work again");
            let lease = self.other.acquire(&self.id).await.expect("the session was given back");
            self.other.release(lease).await.unwrap();
        }

        async fn check_taken(&self) {
            assert!(matches!(self.other.acquire(&self.id).await, Err(everturn_store::Error::Busy { .. })));
        }
    }

    #[tokio::test]
    async fn a_session_is_given_back_after_success_failure_and_panic() {
        let bench = &Bench::new().await;
        let done = bench.leases.at_rest(&bench.id, |lease| async move {
            assert_eq!(lease.session, bench.id);
            bench.check_taken().await;
            let again = bench.leases.at_rest(&bench.id, |_| async { Ok(()) }).await;
            assert!(matches!(again, Err(Error::Busy(_))), "{again:?}");
            Ok(3)
        });
        assert_eq!(done.await.unwrap(), 3);
        bench.check_free().await;
        let failed = bench.leases.at_rest(&bench.id, |_| async { Err::<(), _>(Error::NoModel) }).await;
        assert!(matches!(failed, Err(Error::NoModel)), "{failed:?}");
        bench.check_free().await;
        let (leases, id) = (bench.leases.clone(), bench.id.clone());
        let panics = async move {
            leases.at_rest(&id, |_| async { if true { panic!("at work") } else { Ok(()) } }).await
        };
        assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
        bench.check_free().await;
    }

    #[tokio::test]
    async fn a_session_that_nobody_waits_for_is_given_back() {
        let bench = Bench::new().await;
        let begun = Arc::new(Notify::new());
        let task = tokio::spawn({
            let (leases, id, begun) = (bench.leases.clone(), bench.id.clone(), Arc::clone(&begun));
            async move {
                let wait = |_| async move {
                    begun.notify_one();
                    pending::<Result<(), Error>>().await
                };
                leases.at_rest(&id, wait).await
            }
        });
        begun.notified().await;
        bench.check_taken().await;
        task.abort();
        // It rests once it was given back, not before.
        bench.leases.drains.settled(&bench.id).await;
        bench.check_free().await;
    }

    #[tokio::test]
    async fn a_session_of_an_engine_that_closes_is_left_to_the_next_one() {
        let bench = Bench::new().await;
        let done = bench.leases.in_drain(&bench.id, |_| async {
            bench.leases.lifecycle.close().await;
            Ok(LeaseEnd::Held)
        });
        assert_eq!(done.await.unwrap(), Some(()));
        bench.check_taken().await;
    }

    #[tokio::test]
    async fn a_session_of_another_process_is_left_alone() {
        let bench = Bench::new().await;
        let lease = bench.other.acquire(&bench.id).await.unwrap();
        let mine = bench.leases.in_drain(&bench.id, |_| async { Ok(LeaseEnd::Held) }).await.unwrap();
        assert_eq!(mine, None);
        let mine = bench.leases.try_at_rest(&bench.id, |_| async { Ok(()) }).await.unwrap();
        assert_eq!(mine, None);
        bench.other.release(lease).await.unwrap();
        bench.check_free().await;
    }
}
