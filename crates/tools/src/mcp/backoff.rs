//! Pauses between attempts: longer each time, never the same for two servers, and not forever.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

/// The pauses of one server.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    patience: Duration,
    next: Duration,
    since: Option<Instant>,
}

impl Backoff {
    /// Pauses from `first` to `longest`, for `patience` in all.
    pub(super) fn new(first: Duration, longest: Duration, patience: Duration) -> Self {
        Self { first, longest, patience, next: first, since: None }
    }

    /// The next pause; none when there were enough of them.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.patience {
            return None;
        }
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        // Between three quarters and all of it, so that servers that went down together do not come back together.
        let part = u32::try_from(RandomState::new().build_hasher().finish() % 251).unwrap_or_default();
        Some(pause - pause * part / 1000)
    }

    /// Starts over.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 60, second * 300);
        let mut pauses = Vec::new();
        while let Some(pause) = backoff.pause() {
            pauses.push(pause);
            tokio::time::advance(pause).await;
        }
        for (pause, expected) in pauses.iter().zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            let expected = second * expected;
            assert!(*pause <= expected && *pause >= expected * 3 / 4, "{pauses:?}");
        }
        assert!((9..=13).contains(&pauses.len()), "{pauses:?}");
        backoff.reset();
        assert!(backoff.pause().is_some_and(|pause| pause <= second));
    }
}
