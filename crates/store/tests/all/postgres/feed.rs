//! The feed of a server: told by notices, and whole across broken connections and restarts.

use std::collections::HashMap;
use std::time::Duration;

use everturn_model::SessionId;
use everturn_store::{Authority, FeedItem, Options, Store, Timing};
use everturn_testkit::deadline::within;
use everturn_testkit::postgres::Shutdown;
use everturn_testkit::{Postgres, Proxy};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_look_asks_does_not_grow_with_the_sessions_that_changed() {
    // Each session took six questions, one after the other: with an answer that is far away, text came seconds late.
    let server = Postgres::shared();
    let place = Place::on(&server);
    let proxy = Proxy::start(server.address());
    let hours = Duration::from_secs(3600);
    let timing = Timing { patience: hours * 2, beat: hours, look: hours };
    let (observer, mut listener) = Listener::new();
    let far = Options::server(&place.database.url_at(proxy.address()), place.folder.path(), "own_far");
    let _far = Store::open(Options { observer: Some(observer), timing, ..far }).await.unwrap();
    let near = place.open("own_near").await;
    let mut asked = Vec::new();
    let mut number = 0;
    // The first prepares the statements.
    for count in [1, 1, 50] {
        // Nothing is answered until all of it has happened.
        proxy.pause();
        for _ in 0..count {
            let id = crate::events::session_id();
            number += 2;
            let events = vec![event(number, created(id.as_str())), titled(number + 1, "x")];
            near.append(&id, Authority::Open, events).await.unwrap();
        }
        proxy.reset();
        proxy.resume();
        assert_eq!(listener.gather(count * 2).await.len(), count);
        asked.push(proxy.messages());
    }
    assert!(asked[2] < asked[1] + 100, "{asked:?} messages");
}

#[tokio::test]
async fn the_server_tells_of_every_purge_before_anybody_looks() {
    // No notice told of purges, and of many between two looks only the newest 64 were told.
    let place = Place::new();
    let slow = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let (observer, mut listener) = Listener::new();
    let options = Options { timing: slow, observer: Some(observer), ..place.options("own_one") };
    let _one = Store::open(options).await.unwrap();
    let two = place.open("own_two").await;
    let id = SessionId::new(ID);
    two.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    listener.event().await;
    assert!(two.purge(&id, 7).await.unwrap());
    let mut purged = async || match listener.next().await {
        FeedItem::Purged(purged) => purged.session.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(purged().await, ID);
    // As a process leaves them that deletes many sessions while the listener is stopped.
    let notes = format!("{}; NOTIFY everturn", purge_notes(1, 200));
    place.client().await.batch_execute(&notes).await.unwrap();
    for number in 1..=200 {
        assert_eq!(purged().await, format!("ses_{number}"));
    }
}

/// Leaves the notes of sessions with these numbers, as whoever deletes them for good does.
fn purge_notes(first: u64, last: u64) -> String {
    format!(
        "INSERT INTO everturn.audit (time, action, detail)
         SELECT 7, 'purge', json_build_object('session', 'ses_' || number, 'events', 1, 'project', 'p',
                                              'directory', '/srv', 'created', 1, 'updated', 2)
         FROM generate_series({first}, {last}) number"
    )
}

#[tokio::test]
async fn a_purge_that_is_committed_after_later_ones_is_told() {
    let place = Place::new();
    let slow = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let (observer, mut listener) = Listener::new();
    let options = Options { timing: slow, observer: Some(observer), ..place.options("own_one") };
    let _one = Store::open(options).await.unwrap();
    let (late, early) = (place.client().await, place.client().await);
    // It has its number, and nobody sees it yet.
    late.batch_execute(&format!("BEGIN; {}", purge_notes(1, 1))).await.unwrap();
    early.batch_execute(&format!("{}; NOTIFY everturn", purge_notes(2, 3))).await.unwrap();
    let mut purged = Vec::new();
    for _ in 0..2 {
        let FeedItem::Purged(next) = listener.next().await else { panic!("only that has happened") };
        purged.push(next.session.to_string());
    }
    late.batch_execute("NOTIFY everturn; COMMIT").await.unwrap();
    let FeedItem::Purged(next) = listener.next().await else { panic!("only that has happened") };
    purged.push(next.session.to_string());
    assert_eq!(purged, ["ses_2", "ses_3", "ses_1"]);
}
