//! Following one log or all of them: each event once and in order, whoever writes and however slowly one reads.

use std::collections::BTreeMap;
use std::time::Duration;

use everturn_model::{Record, SessionId};
use everturn_store::{Feed, Store, Watch};
use everturn_testkit::deadline::within;
use tokio::task::JoinSet;

use crate::events::{append, begin, created, log, session_id, titled};
use crate::place::{Place, contract};

contract![
    a_watch_sees_every_event_once_while_two_stores_write,
    a_watch_goes_on_from_where_it_is_told,
    a_watch_may_begin_before_its_session,
    a_watch_that_is_dropped_while_it_waits_loses_nothing,
    a_slow_reader_gets_everything_in_bounded_pages,
    watches_of_several_sessions_do_not_mix,
    a_watch_is_not_woken_for_good_by_what_others_do,
    a_feed_sees_every_event_of_every_session_once_and_in_order,
    a_feed_has_nothing_from_before_it_was_opened,
    a_feed_that_is_dropped_while_it_waits_loses_nothing,
];

async fn next(watch: &mut Watch) -> Vec<Record> {
    let page = within("the next events", watch.next()).await.unwrap();
    assert!(!page.is_empty(), "at least one");
    page
}

/// Reads on until an event with this seq.
async fn follow(watch: &mut Watch, until: u64) -> Vec<Record> {
    let mut seen: Vec<Record> = Vec::new();
    while seen.last().is_none_or(|last| last.seq < until) {
        seen.extend(next(watch).await);
    }
    seen
}

/// Writes so many events, one by one.
async fn write(store: Store, id: SessionId, count: usize) {
    for number in 0..count {
        append(&store, &id, vec![titled(&format!("title {number}"))]).await;
    }
}

async fn a_watch_sees_every_event_once_while_two_stores_write(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let mut watching = JoinSet::new();
    for store in [&one, &two, &one, &two] {
        let mut watch = store.watch(&id, None);
        watching.spawn(async move { follow(&mut watch, 200).await });
    }
    let writing = [(one.clone(), id.clone()), (two.clone(), id.clone())];
    let writing: JoinSet<()> = writing.into_iter().map(|(store, id)| write(store, id, 100)).collect();
    writing.join_all().await;
    let whole = log(&one, &id).await;
    assert_eq!(whole.len(), 201);
    for seen in watching.join_all().await {
        assert_eq!(seen, whole);
    }
}

async fn a_watch_goes_on_from_where_it_is_told(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    write(one.clone(), id.clone(), 10).await;
    let whole = log(&one, &id).await;
    for store in [&one, &two] {
        for after in 0..10 {
            let seen = follow(&mut store.watch(&id, Some(after)), 10).await;
            assert_eq!(seen, whole[usize::try_from(after).unwrap() + 1..], "after {after}");
        }
        let mut end = store.watch(&id, Some(10));
        let nothing = tokio::time::timeout(Duration::from_millis(300), end.next()).await;
        assert!(nothing.is_err(), "there is nothing yet: {nothing:?}");
    }
}

async fn a_watch_may_begin_before_its_session(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = session_id();
    let (mut here, mut there) = (one.watch(&id, None), two.watch(&id, None));
    for watch in [&mut here, &mut there] {
        let nothing = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
        assert!(nothing.is_err(), "there is nothing yet: {nothing:?}");
    }
    append(&one, &id, vec![created(&id), titled("b")]).await;
    let whole = log(&one, &id).await;
    assert_eq!(follow(&mut here, 1).await, whole);
    assert_eq!(follow(&mut there, 1).await, whole);
}

/// How long a reader waits that gives up at another point each time; sometimes it waits long enough.
fn patience(round: u64) -> Duration {
    if round % 20 == 19 { Duration::from_millis(500) } else { Duration::from_micros(round % 50 * 40) }
}

async fn a_watch_that_is_dropped_while_it_waits_loses_nothing(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let writing = [(one.clone(), id.clone()), (two.clone(), id.clone())];
    let writing: JoinSet<()> = writing.into_iter().map(|(store, id)| write(store, id, 60)).collect();
    let mut watch = one.watch(&id, None);
    let mut seen: Vec<Record> = Vec::new();
    within("all events", async {
        for round in 0_u64.. {
            if seen.last().is_some_and(|last| last.seq == 120) {
                break;
            }
            if let Ok(page) = tokio::time::timeout(patience(round), watch.next()).await {
                seen.extend(page.unwrap());
            }
        }
    })
    .await;
    writing.join_all().await;
    assert_eq!(seen, log(&one, &id).await);
}

async fn a_slow_reader_gets_everything_in_bounded_pages(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let mut watches = [one.watch(&id, None), two.watch(&id, None)];
    for watch in &mut watches {
        assert_eq!(next(watch).await.len(), 1);
    }
    for _ in 0..30 {
        append(&one, &id, (0..20).map(|number| titled(&format!("title {number}"))).collect()).await;
    }
    let whole = log(&one, &id).await;
    for watch in &mut watches {
        let mut seen = Vec::new();
        while seen.len() < 600 {
            let page = next(watch).await;
            assert!(page.len() <= 256, "{}", page.len());
            seen.extend(page);
        }
        assert_eq!(seen, whole[1..]);
    }
    append(&two, &id, vec![titled("last")]).await;
    for watch in &mut watches {
        let [last] = next(watch).await.try_into().unwrap();
        assert_eq!(last.seq, 601);
    }
}

async fn watches_of_several_sessions_do_not_mix(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let ids = [begin(&one).await, begin(&one).await, begin(&two).await];
    let mut watching = JoinSet::new();
    for id in ids.clone() {
        for store in [&one, &two] {
            let mut watch = store.watch(&id, None);
            watching.spawn(async move { follow(&mut watch, 30).await });
        }
    }
    let writers = ids.clone().into_iter().zip([one.clone(), two.clone(), one.clone()]);
    let writing: JoinSet<()> = writers.map(|(id, store)| write(store, id, 30)).collect();
    writing.join_all().await;
    let mut logs = BTreeMap::new();
    for id in ids {
        let log = log(&one, &id).await;
        logs.insert(id, log);
    }
    for seen in watching.join_all().await {
        assert_eq!(&seen, &logs[&seen[0].session]);
    }
}

async fn a_watch_is_not_woken_for_good_by_what_others_do(place: &Place) {
    let store = place.open("own_a").await;
    let (quiet, busy) = (begin(&store).await, begin(&store).await);
    let mut watch = store.watch(&quiet, Some(0));
    write(store.clone(), busy, 20).await;
    let nothing = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(nothing.is_err(), "nothing happened in its session: {nothing:?}");
    append(&store, &quiet, vec![titled("b")]).await;
    assert_eq!(next(&mut watch).await.len(), 1);
}

/// Reads a feed until it had so many events; those of each session.
async fn gather(feed: &mut Feed, count: usize) -> BTreeMap<SessionId, Vec<Record>> {
    let mut seen: BTreeMap<SessionId, Vec<Record>> = BTreeMap::new();
    let mut left = count;
    while left > 0 {
        let page = within("the next events of the feed", feed.next()).await.unwrap();
        let id = page[0].session.clone();
        assert!(page.iter().all(|record| record.session == id), "a page is of one session");
        left = left.checked_sub(page.len()).unwrap();
        seen.entry(id).or_default().extend(page);
    }
    seen
}

/// Nothing more comes from a feed.
async fn check_quiet(feed: &mut Feed) {
    let nothing = tokio::time::timeout(Duration::from_millis(300), feed.next()).await;
    assert!(nothing.is_err(), "nothing happened: {nothing:?}");
}

async fn a_feed_sees_every_event_of_every_session_once_and_in_order(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await];
    let mut feeds = [stores[0].feed().await.unwrap(), stores[1].feed().await.unwrap()];
    let ids: Vec<SessionId> = (0..20).map(|_| session_id()).collect();
    let mut writing = JoinSet::new();
    for (number, id) in ids.iter().enumerate() {
        let (one, two, id) = (stores[number % 2].clone(), stores[(number + 1) % 2].clone(), id.clone());
        writing.spawn(async move {
            append(&one, &id, vec![created(&id)]).await;
            // Both write to it at once.
            let both = [(one, id.clone()), (two, id)];
            both.into_iter().map(|(store, id)| write(store, id, 7)).collect::<JoinSet<()>>().join_all().await;
        });
    }
    let (first, second) = feeds.split_at_mut(1);
    let (here, there) = tokio::join!(gather(&mut first[0], 300), gather(&mut second[0], 300));
    writing.join_all().await;
    let mut logs = BTreeMap::new();
    for id in &ids {
        logs.insert(id.clone(), log(&stores[0], id).await);
    }
    assert_eq!(here, logs);
    assert_eq!(there, logs);
    for feed in &mut feeds {
        check_quiet(feed).await;
    }
}

async fn a_feed_has_nothing_from_before_it_was_opened(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let ids = [begin(&one).await, begin(&one).await];
    write(one.clone(), ids[0].clone(), 5).await;
    write(two.clone(), ids[1].clone(), 5).await;
    let mut feeds = [one.feed().await.unwrap(), two.feed().await.unwrap()];
    for feed in &mut feeds {
        check_quiet(feed).await;
    }
    append(&one, &ids[0], vec![titled("b"), titled("c")]).await;
    let late = begin(&two).await;
    let mut expected = BTreeMap::new();
    expected.insert(ids[0].clone(), log(&one, &ids[0]).await.split_off(6));
    expected.insert(late.clone(), log(&one, &late).await);
    for feed in &mut feeds {
        assert_eq!(gather(feed, 3).await, expected);
        check_quiet(feed).await;
    }
}

async fn a_feed_that_is_dropped_while_it_waits_loses_nothing(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let mut feed = one.feed().await.unwrap();
    let ids = [begin(&one).await, begin(&two).await];
    let writers = ids.clone().into_iter().zip([two.clone(), one.clone()]);
    let writing: JoinSet<()> = writers.map(|(id, store)| write(store, id, 50)).collect();
    let mut seen: BTreeMap<SessionId, Vec<Record>> = BTreeMap::new();
    within("all events", async {
        for round in 0_u64.. {
            if seen.values().map(Vec::len).sum::<usize>() == 102 {
                break;
            }
            if let Ok(page) = tokio::time::timeout(patience(round), feed.next()).await {
                let page = page.unwrap();
                seen.entry(page[0].session.clone()).or_default().extend(page);
            }
        }
    })
    .await;
    writing.join_all().await;
    let mut logs = BTreeMap::new();
    for id in ids {
        let log = log(&one, &id).await;
        logs.insert(id, log);
    }
    assert_eq!(seen, logs);
}
