//! Appending: order, idempotency, refusals, groups, and what an observer sees.

use std::sync::{Arc, Mutex};

use everturn_model::{EntryId, Event, SessionId};
use everturn_store::{Authority, Error, FeedItem, Options, Store};
use tokio::task::JoinSet;

use super::Place;
use crate::postgres::{ID, created, event, titled};

#[tokio::test]
async fn an_event_appended_twice_is_there_once() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let first = store.append(&id, Authority::Open, vec![titled(2, "b")]).await.unwrap();
    let again = store.append(&id, Authority::Open, vec![titled(2, "b")]).await.unwrap();
    assert_eq!((first.first, first.fresh), (1, true));
    assert_eq!((again.first, again.fresh), (1, false));
    let other = store.append(&id, Authority::Open, vec![titled(2, "c")]).await;
    assert!(matches!(other, Err(Error::Unfit { .. })), "{other:?}");
    assert_eq!(store.events(&id, None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_same_event_twice_in_one_group_is_there_once() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    let creates = || store.append(&id, Authority::Open, vec![event(1, created(ID))]);
    let titles = || store.append(&id, Authority::Open, vec![titled(2, "b")]);
    let (a, b, c, d) = tokio::join!(creates(), creates(), titles(), titles());
    assert_eq!([a, b, c, d].map(|done| done.unwrap().fresh), [true, false, true, false]);
    assert_eq!(store.events(&id, None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing_and_does_not_disturb_others() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    let missing = || Event::PromptCancelled { id: EntryId::new("msg_nowhere") };
    let start = store.append(&id, Authority::Open, vec![event(1, created(ID))]);
    let bad = store.append(&id, Authority::Open, vec![titled(2, "lost"), event(3, missing())]);
    let good = store.append(&id, Authority::Open, vec![titled(4, "kept")]);
    let worse = store.append(&id, Authority::Open, vec![titled(5, "lost too"), event(6, missing())]);
    let (start, bad, good, worse) = tokio::join!(start, bad, good, worse);
    assert_eq!(start.unwrap().first, 0);
    assert!(matches!(bad, Err(Error::Unfit { .. })), "{bad:?}");
    assert!(matches!(worse, Err(Error::Unfit { .. })), "{worse:?}");
    assert_eq!(good.unwrap().first, 1);
    assert_eq!(store.session(&id).await.unwrap().unwrap().title, "kept");
    assert_eq!(store.tree(&id).await.unwrap().unwrap().nodes().len(), 1);
}

#[tokio::test]
async fn what_the_server_refuses_fails_alone() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let mut group = JoinSet::new();
    for number in 0..20 {
        let store = store.clone();
        let id = id.clone();
        group.spawn(async move {
            // The server takes no NUL in an id.
            let entry = if number == 7 { "msg_\0".to_owned() } else { format!("msg_{number}") };
            let new = Event::TitleChanged {
                entry: EntryId::new(entry),
                parent: None,
                title: "t".into(),
                replaces: None,
            };
            (number, store.append(&id, Authority::Open, vec![event(number + 10, new)]).await)
        });
    }
    for (number, done) in group.join_all().await {
        match done {
            Err(Error::Server(_)) => assert_eq!(number, 7),
            done => assert!(done.is_ok() && number != 7, "{number}: {done:?}"),
        }
    }
    let log = store.events(&id, None, 100).await.unwrap();
    assert_eq!(log.iter().map(|record| record.seq).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_session_begins_with_its_creation_and_only_there() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    let early = store.append(&id, Authority::Open, vec![titled(1, "x")]).await;
    assert!(matches!(early, Err(Error::NoSession(_))), "{early:?}");
    store.append(&id, Authority::Open, vec![event(2, created(ID))]).await.unwrap();
    let twice = store.append(&id, Authority::Open, vec![event(3, created(ID))]).await;
    assert!(matches!(twice, Err(Error::Exists(_))), "{twice:?}");
}

#[tokio::test]
async fn two_stores_that_create_the_same_session_agree() {
    let place = Place::new();
    let (one, two) = (place.open("own_one").await, place.open("own_two").await);
    for number in 0..20 {
        let name = format!("ses_{number}");
        let id = SessionId::new(&name);
        let make = |store: Store| {
            let (id, new) = (id.clone(), event(1_000 + number, created(&name)));
            async move { store.append(&id, Authority::Open, vec![new]).await.unwrap().fresh }
        };
        let (a, b) = tokio::join!(make(one.clone()), make(two.clone()));
        assert!(a != b, "{name}: one made it and the other found it");
    }
}

#[tokio::test]
async fn the_observer_hears_of_events_in_order_before_their_appender() {
    let place = Place::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let heard = Arc::clone(&heard);
        Arc::new(move |item| match item {
            FeedItem::Committed(committed) => {
                let title = committed.tree.session.title.clone();
                heard.lock().unwrap().push((committed.record.seq, title));
            }
            other => panic!("{other:?}"),
        })
    };
    let options = Options { observer: Some(observer), ..place.options("own_test") };
    let store = Store::open(options).await.unwrap();
    let id = SessionId::new(ID);
    let batch = vec![event(1, created(ID)), titled(2, "b"), titled(3, "c")];
    store.append(&id, Authority::Open, batch).await.unwrap();
    let expected = [(0, "a title"), (1, "b"), (2, "c")].map(|(seq, title)| (seq, title.to_owned()));
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn large_events_are_kept_as_blobs_and_come_back_whole() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    // A long string, and a payload that is long without one.
    let title = "x".repeat(1 << 20);
    let many: Vec<String> = (0..40_000).map(|number| format!("word{number}")).collect();
    let body = everturn_model::entry::Body::Custom {
        custom_type: "t".into(),
        data: Some(serde_json::json!({ "many": many, "long": "y".repeat(200_000) })),
    };
    let entry = everturn_model::Entry::new(EntryId::new("msg_large"), None, 5, body);
    let added = Event::EntryAdded { entry: Box::new(entry.clone()), parts: Vec::new() };
    let batch = vec![event(1, created(ID)), titled(2, &title), event(3, added.clone())];
    store.append(&id, Authority::Open, batch.clone()).await.unwrap();
    let log = store.events(&id, None, 10).await.unwrap();
    assert!(log.iter().map(|record| &record.event).eq(batch.iter().map(|new| &new.event)));
    assert_eq!(store.node(&id, &entry.id).await.unwrap().unwrap().entry, entry);
    let client = place.client().await;
    let count = |table: &'static str| {
        let client = &client;
        async move {
            let sql = format!("SELECT count(*) FROM everturn.{table}");
            client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0)
        }
    };
    assert!(count("blob").await >= 3);
    assert_eq!(count("blob").await, count("blob_use").await);
    // Appended again, the events have to be read back to be compared.
    assert!(!store.append(&id, Authority::Open, batch).await.unwrap().fresh);
}

#[tokio::test]
async fn text_with_nul_is_kept() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    let batch = vec![event(1, created(ID)), titled(2, "a\0b")];
    store.append(&id, Authority::Open, batch).await.unwrap();
    assert_eq!(store.session(&id).await.unwrap().unwrap().title, "a\0b");
}
