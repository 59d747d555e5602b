//! Places for turns: how many answers stream at once in this process.
//!
//! Whoever comes first gets the next place, and a turn has one only while its answer streams: not while its tools run, and
//! not while it waits for a person or for a subagent. So each step of a session queues anew behind those of all others, and a
//! session cannot wait for itself.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of this process; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct TurnPlaces(Arc<Semaphore>);

/// A place; dropping it gives it to the next one.
#[derive(Debug)]
pub(crate) struct TurnPlace {
    _permit: OwnedSemaphorePermit,
}

impl TurnPlaces {
    /// So many places, and at least one.
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Queues for a place until it has one, from the moment that it is first waited for. Whoever drops it leaves the queue.
    pub(crate) async fn take(&self) -> Option<TurnPlace> {
        // Nobody closes the semaphore.
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        Some(TurnPlace { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn whoever_came_first_is_next() {
        let places = TurnPlaces::new(1);
        let [mut first, mut second, mut third, mut gone] = [(); 4].map(|()| Box::pin(places.take()));
        let held = first.as_mut().now_or_never().unwrap();
        assert!(gone.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        // It came later, and is asked first.
        assert!(third.as_mut().now_or_never().is_none());
        drop((held, gone));
        assert!(third.as_mut().now_or_never().is_none());
        drop(second.as_mut().now_or_never().unwrap());
        assert!(third.as_mut().now_or_never().is_some());
    }

    #[test]
    fn there_is_always_a_place() {
        assert!(TurnPlaces::new(0).take().now_or_never().is_some());
        assert!(TurnPlaces::new(usize::MAX).take().now_or_never().is_some());
    }
}
