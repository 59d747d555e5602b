//! Following: nothing missed, nothing twice, whoever writes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use everturn_model::SessionId;
use everturn_store::{Authority, Options, Store, Timing};

use super::Place;
use crate::append::{ID, created, event, titled};

async fn follow(store: &Store, after: Option<u64>, until: u64) -> Vec<u64> {
    let mut watch = store.watch(&SessionId::new(ID), after);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| *last < until) {
        let page = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        seen.extend(page.unwrap().unwrap().into_iter().map(|record| record.seq));
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_every_event_once_while_two_stores_write() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let (one, two) = (place.open("own_one").await, place.open("own_two").await);
    one.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let watching = tokio::spawn({
        let one = one.clone();
        async move { follow(&one, None, 400).await }
    });
    let write = |store: Store, start: u64| {
        let id = id.clone();
        tokio::spawn(async move {
            for number in 0..200 {
                let new = titled(start + number, &format!("title {number}"));
                store.append(&id, Authority::Open, vec![new]).await.unwrap();
            }
        })
    };
    let (first, second) = (write(one, 1_000), write(two.clone(), 2_000));
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(watching.await.unwrap(), (0..=400).collect::<Vec<u64>>());
    assert_eq!(follow(&two, Some(397), 400).await, [398, 399, 400]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_sees_each_event_of_two_stores_once_and_in_order() {
    let place = Place::new();
    let (one, two) = (place.open("own_one").await, place.open("own_two").await);
    let old = SessionId::new("ses_0");
    let before = vec![event(1, created("ses_0")), titled(2, "before")];
    one.append(&old, Authority::Open, before).await.unwrap();
    let mut feed = two.feed().await.unwrap();
    let write = |store: Store, start: u64| {
        tokio::spawn(async move {
            for number in 0..300 {
                let name = format!("ses_{}", number % 7);
                let id = SessionId::new(&name);
                // Whoever comes first makes it.
                let make = event(10 + number % 7, created(&name));
                if number % 7 > 0 && number < 7 {
                    store.append(&id, Authority::Open, vec![make]).await.unwrap();
                }
                let new = titled(start + number, &format!("title {number}"));
                store.append(&id, Authority::Open, vec![new]).await.unwrap();
            }
        })
    };
    let (first, second) = (write(one, 1_000), write(two.clone(), 2_000));
    let mut last: HashMap<SessionId, u64> = HashMap::from([(old, 1)]);
    let mut left = 600 + 6;
    while left > 0 {
        let page = tokio::time::timeout(Duration::from_secs(30), feed.next()).await.unwrap().unwrap();
        for record in page {
            let expected = last.get(&record.session).map_or(0, |last| last + 1);
            assert_eq!(record.seq, expected, "{}", record.session);
            last.insert(record.session, record.seq);
            left -= 1;
        }
    }
    first.await.unwrap();
    second.await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(500), feed.next()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn the_server_tells_of_other_processes_before_anybody_looks() {
    let place = Place::new();
    let slow = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let one = Store::open(Options { timing: slow, ..place.options("own_one") }).await.unwrap();
    let two = place.open("own_two").await;
    let id = SessionId::new(ID);
    two.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let mut watch = one.watch(&id, None);
    assert_eq!(watch.next().await.unwrap().len(), 1);
    for number in 2..6 {
        let began = Instant::now();
        two.append(&id, Authority::Open, vec![titled(number, "x")]).await.unwrap();
        let page = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        assert_eq!(page.unwrap().unwrap().len(), 1);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
