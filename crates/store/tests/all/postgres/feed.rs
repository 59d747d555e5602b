//! The feed of a server: told by notices, and whole across broken connections and restarts.

use std::collections::HashMap;
use std::time::Duration;

use everturn_model::SessionId;
use everturn_store::{Authority, FeedItem, Options, Store, Timing};
use everturn_testkit::Postgres;
use everturn_testkit::deadline::within;
use everturn_testkit::postgres::Shutdown;

use super::Place;
use crate::listener::Listener;
use crate::postgres::{ID, created, event, titled};

#[tokio::test]
async fn the_server_tells_of_other_processes_before_anybody_looks() {
    let place = Place::new();
    let slow = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let (observer, mut listener) = Listener::new();
    let options = Options { timing: slow, observer: Some(observer), ..place.options("own_one") };
    let _one = Store::open(options).await.unwrap();
    let two = place.open("own_two").await;
    let id = SessionId::new(ID);
    two.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    assert_eq!(listener.event().await.record.seq, 0);
    for number in 2..6 {
        two.append(&id, Authority::Open, vec![titled(number, "x")]).await.unwrap();
        assert_eq!(listener.event().await.record.seq, number - 1);
    }
}

/// Both write and both listen while the server is disturbed: each event comes once and in order all the same.
async fn disturb(server: &Postgres, disturbance: impl Fn(&Place)) {
    let place = Place::on(server);
    let mut stores = Vec::new();
    let mut listeners = Vec::new();
    for name in ["own_one", "own_two"] {
        let (observer, listener) = Listener::new();
        let options = Options { observer: Some(observer), ..place.options(name) };
        stores.push(Store::open(options).await.unwrap());
        listeners.push(listener);
    }
    let id = SessionId::new(ID);
    stores[0].append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    for round in 1..=3 {
        for number in 0..20 {
            for (writer, store) in (1..).zip(&stores) {
                let new = titled(writer * 1_000_000 + round * 1_000 + number, "x");
                store.append(&id, Authority::Open, vec![new]).await.unwrap();
            }
        }
        tokio::task::block_in_place(|| disturbance(&place));
    }
    for store in &stores {
        let new = titled(u64::from(store.owner() == "own_one") + 9_000_000, "last");
        store.append(&id, Authority::Open, vec![new]).await.unwrap();
    }
    for listener in &mut listeners {
        let mut seen: HashMap<SessionId, Vec<u64>> = HashMap::new();
        within("all events", async {
            while seen.values().map(Vec::len).sum::<usize>() < 123 {
                match listener.next().await {
                    FeedItem::Committed(committed) => {
                        let record = &committed.record;
                        seen.entry(record.session.clone()).or_default().push(record.seq);
                    }
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        assert_eq!(seen[&id], (0..=122).collect::<Vec<u64>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_leave_no_hole_and_no_echo() {
    let server = Postgres::shared();
    disturb(&server, |place| assert_ne!(server.terminate_backends(place.database.name()), 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_leave_no_hole_and_no_echo() {
    let server = Postgres::start();
    disturb(&server, |_| server.restart(Shutdown::Fast)).await;
}
