//! Appending: order, idempotency, refusals, and what an observer sees.

use std::sync::{Arc, Mutex};

use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::{EntryId, Event, EventId, Session, SessionId};
use everturn_store::{Authority, Error, NewEvent, Options, Store};

pub(crate) const ID: &str = "ses_e22d949d4ffea45SRailGCTWbN";

pub(crate) fn event(number: u64, event: Event) -> NewEvent {
    let time = 1_794_711_664_171;
    NewEvent { id: EventId::mint(Stamp::at(time, number), [1; RANDOM]), time, event }
}

pub(crate) fn created(id: &str) -> Event {
    let session =
        Session::new(SessionId::new(id), "global", "/srv/demo", "a title", "0.1.0", 1_794_711_664_171);
    Event::SessionCreated { session: Box::new(session) }
}

pub(crate) fn titled(number: u64, title: &str) -> NewEvent {
    let entry = EntryId::mint(Stamp::at(1_794_711_664_171, number), [2; RANDOM]);
    event(number, Event::TitleChanged { entry, parent: None, title: title.into() })
}

pub(crate) async fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap();
    (folder, store)
}

#[tokio::test]
async fn an_event_appended_twice_is_there_once() {
    let (_folder, store) = open().await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let first = store.append(&id, Authority::Open, vec![titled(2, "b")]).await.unwrap();
    let again = store.append(&id, Authority::Open, vec![titled(2, "b")]).await.unwrap();
    assert_eq!((first.first, first.fresh), (1, true));
    assert_eq!((again.first, again.fresh), (1, false));
    assert_eq!(store.events(&id, None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing_and_does_not_disturb_others() {
    let (_folder, store) = open().await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let missing = Event::PromptCancelled { id: EntryId::new("msg_nowhere") };
    let bad = store.append(&id, Authority::Open, vec![titled(2, "lost"), event(3, missing)]);
    let good = store.append(&id, Authority::Open, vec![titled(4, "kept")]);
    let (bad, good) = tokio::join!(bad, good);
    assert!(matches!(bad, Err(Error::Unfit { .. })), "{bad:?}");
    assert_eq!(good.unwrap().first, 1);
    assert_eq!(store.session(&id).await.unwrap().unwrap().title, "kept");
}

#[tokio::test]
async fn a_session_begins_with_its_creation_and_only_there() {
    let (_folder, store) = open().await;
    let id = SessionId::new(ID);
    let early = store.append(&id, Authority::Open, vec![titled(1, "x")]).await;
    assert!(matches!(early, Err(Error::NoSession(_))), "{early:?}");
    store.append(&id, Authority::Open, vec![event(2, created(ID))]).await.unwrap();
    let twice = store.append(&id, Authority::Open, vec![event(3, created(ID))]).await;
    assert!(matches!(twice, Err(Error::Exists(_))), "{twice:?}");
}

#[tokio::test]
async fn the_observer_hears_of_events_in_order_before_their_appender() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let heard = Arc::clone(&heard);
        Arc::new(move |committed: Arc<everturn_store::Committed>| {
            heard.lock().unwrap().push((committed.record.seq, committed.tree.session.title.clone()));
        })
    };
    let options = Options { observer: Some(observer), ..Options::folder(folder.path(), "own_test") };
    let store = Store::open(options).await.unwrap();
    let id = SessionId::new(ID);
    let batch = vec![event(1, created(ID)), titled(2, "b"), titled(3, "c")];
    store.append(&id, Authority::Open, batch).await.unwrap();
    let expected = [(0, "a title"), (1, "b"), (2, "c")].map(|(seq, title)| (seq, title.to_owned()));
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_large_event_is_kept_compressed_and_comes_back_whole() {
    let (folder, store) = open().await;
    let id = SessionId::new(ID);
    let title = "x".repeat(1 << 20);
    store.append(&id, Authority::Open, vec![event(1, created(ID)), titled(2, &title)]).await.unwrap();
    let log = store.events(&id, Some(0), 10).await.unwrap();
    let Event::TitleChanged { title: kept, .. } = &log[0].event else { panic!("{:?}", log[0].event) };
    assert_eq!(kept, &title);
    drop(store);
    Store::open(Options::folder(folder.path(), "own_test")).await.unwrap();
}
