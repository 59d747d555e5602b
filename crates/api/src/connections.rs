//! Who is connected: how many at once, and who has to leave when there are too many.
//!
//! Each connection takes a descriptor, and without those nothing works: no database, no command, no next client. Whoever
//! has shown the token stays; of the others, who have nothing to lose here, the oldest leaves first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How many connections there are at once.
pub(crate) const CONNECTION_LIMIT: usize = 512;

/// How long a connection stays that shows no token.
pub(crate) const STRANGER_TIME: Duration = Duration::from_secs(10);

/// How long a connection stays on which nothing is asked: from the end of an answer to the end of the next headers.
pub(crate) const IDLE_TIME: Duration = Duration::from_secs(90);

/// How many bytes the headers of a request have.
pub(crate) const HEADER_LIMIT: usize = 64 * 1024;

/// How connections are bounded.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// How many there are at once.
    pub count: usize,
    /// How long one stays that shows no token.
    pub stranger_time: Duration,
    /// How long one stays on which nothing is asked.
    pub idle_time: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { count: CONNECTION_LIMIT, stranger_time: STRANGER_TIME, idle_time: IDLE_TIME }
    }
}

/// One connection, as the gate knows it.
#[derive(Debug)]
pub(crate) struct Visitor {
    peer: IpAddr,
    known: AtomicBool,
    person: AtomicBool,
    requests: AtomicUsize,
    leave: CancellationToken,
}

impl Visitor {
    fn new(peer: IpAddr) -> Self {
        Self {
            peer: network_of(peer),
            known: AtomicBool::new(false),
            person: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            leave: CancellationToken::new(),
        }
    }

    /// Where it comes from.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// It has shown the token.
    pub(crate) fn let_in(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    /// Whether it has shown the token.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// No program of an agent has made it.
    pub(crate) fn note_person(&self) {
        self.person.store(true, Ordering::Relaxed);
    }

    /// Whether it is known that no program of an agent has made it.
    pub(crate) fn is_person(&self) -> bool {
        self.person.load(Ordering::Relaxed)
    }

    /// Resolves when it has to make room.
    pub(crate) async fn asked_to_leave(&self) {
        self.leave.cancelled().await;
    }

    /// A request begins; it goes on until what comes back is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> OngoingRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        OngoingRequest(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

/// Whoever has an IPv6 address usually has a whole network of them.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A request that is not answered to its end yet.
#[derive(Debug)]
pub(crate) struct OngoingRequest(Arc<Visitor>);

impl Drop for OngoingRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All connections, by their age; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    limit: usize,
    next: Arc<AtomicU64>,
    present: Arc<Mutex<BTreeMap<u64, Arc<Visitor>>>>,
}

impl Connections {
    /// None yet, and never more than so many.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, next: Arc::default(), present: Arc::default() }
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Visitor>>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new one in, for which another one may have to leave; none when nobody can.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Presence> {
        if self.present().len() >= self.limit && !self.make_room() {
            return None;
        }
        let visitor = Arc::new(Visitor::new(peer));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.present().insert(number, Arc::clone(&visitor));
        Some(Presence { number, visitor, connections: self.clone() })
    }

    /// Sends away the oldest stranger, or else the oldest of those who ask for nothing now.
    pub(crate) fn make_room(&self) -> bool {
        let mut present = self.present();
        let oldest = |may: fn(&Visitor) -> bool| {
            present.iter().find(|(_, visitor)| may(visitor)).map(|(number, _)| *number)
        };
        let leaves = oldest(|visitor| !visitor.is_known()).or_else(|| oldest(Visitor::is_idle));
        let left = leaves.and_then(|number| present.remove(&number));
        left.is_some_and(|visitor| {
            visitor.leave.cancel();
            true
        })
    }

    /// Sends everybody away.
    pub(crate) fn close(&self) {
        for visitor in std::mem::take(&mut *self.present()).into_values() {
            visitor.leave.cancel();
        }
    }
}

/// One connection's place among the others; dropping it makes it free.
#[derive(Debug)]
pub(crate) struct Presence {
    number: u64,
    pub(crate) visitor: Arc<Visitor>,
    connections: Connections,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.connections.present().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn enter(connections: &Connections) -> Presence {
        connections.enter(Ipv4Addr::LOCALHOST.into()).unwrap()
    }

    fn left(visitors: &[&Presence]) -> Vec<bool> {
        visitors.iter().map(|presence| presence.visitor.leave.is_cancelled()).collect()
    }

    #[test]
    fn strangers_leave_first_then_those_who_ask_for_nothing_then_nobody() {
        let connections = Connections::new(3);
        let (known, stranger, busy) = (enter(&connections), enter(&connections), enter(&connections));
        known.visitor.let_in();
        busy.visitor.let_in();
        let ongoing = busy.visitor.begin();
        let second = enter(&connections);
        assert_eq!(left(&[&known, &stranger, &busy, &second]), [false, true, false, false]);
        second.visitor.let_in();
        let third = enter(&connections);
        assert_eq!(left(&[&known, &busy, &second, &third]), [true, false, false, false]);
        third.visitor.let_in();
        let (_two, _three) = (second.visitor.begin(), third.visitor.begin());
        assert!(connections.enter(Ipv4Addr::LOCALHOST.into()).is_none());
        drop(ongoing);
        let fourth = enter(&connections);
        assert_eq!(left(&[&busy, &second, &third, &fourth]), [true, false, false, false]);
    }

    #[test]
    fn a_server_is_bounded_as_it_is_written_down() {
        let ConnectionLimits { count, stranger_time, idle_time } = ConnectionLimits::default();
        assert_eq!((count, stranger_time.as_secs(), idle_time.as_secs()), (512, 10, 90));
    }

    #[test]
    fn a_place_is_free_when_its_connection_ends() {
        let connections = Connections::new(1);
        drop(enter(&connections));
        let only = enter(&connections);
        assert_eq!(left(&[&only]), [false]);
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
