//! Failed logins: whoever guesses at the token is slowed down.
//!
//! Nobody is locked out by it. The right token is taken whatever came before it from the same place, where the person and
//! whoever guesses may both be: a machine, a proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many wrong tokens of one peer are answered at once, within [`FAILURE_WINDOW`].
pub(crate) const FAILURE_LIMIT: usize = 10;

/// For how long wrong tokens are counted.
pub(crate) const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// How long the answer to a further one takes.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_secs(1);

/// How many peers are remembered.
pub(crate) const PEER_LIMIT: usize = 1024;

/// The wrong tokens of late; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedLogins(Arc<Mutex<HashMap<IpAddr, FailureCount>>>);

#[derive(Debug)]
struct FailureCount {
    since: Instant,
    count: usize,
}

impl FailedLogins {
    /// Notes a wrong token, and says whether there were too many.
    pub(crate) fn note(&self, peer: IpAddr) -> bool {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if peers.len() >= PEER_LIMIT && !peers.contains_key(&peer) {
            peers.retain(|_, failures| now - failures.since < FAILURE_WINDOW);
            if peers.len() >= PEER_LIMIT {
                peers.clear();
            }
        }
        let failures = peers.entry(peer).or_insert(FailureCount { since: now, count: 0 });
        if now - failures.since >= FAILURE_WINDOW {
            *failures = FailureCount { since: now, count: 0 };
        }
        failures.count += 1;
        failures.count > FAILURE_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_fails_often_is_noticed_for_a_while() {
        let logins = FailedLogins::default();
        let (one, other) = (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(192, 0, 2, 1).into());
        let noticed: Vec<bool> = (0..FAILURE_LIMIT + 2).map(|_| logins.note(one)).collect();
        assert_eq!(noticed.iter().filter(|noticed| **noticed).count(), 2);
        assert!(!logins.note(other));
        tokio::time::advance(FAILURE_WINDOW).await;
        assert!(!logins.note(one));
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_peers_takes_more_memory() {
        let logins = FailedLogins::default();
        for number in 0..u32::try_from(3 * PEER_LIMIT).unwrap() {
            logins.note(Ipv4Addr::from_bits(number).into());
        }
        assert!(logins.0.lock().unwrap().len() <= PEER_LIMIT);
    }
}
