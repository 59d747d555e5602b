//! Following a log: nothing missed, nothing twice, whoever writes.

use everturn_model::SessionId;
use everturn_store::{Authority, Options, Store};

use crate::append::{ID, created, event, titled};

async fn follow(store: &Store, after: Option<u64>, until: u64) -> Vec<u64> {
    let mut watch = store.watch(&SessionId::new(ID), after);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| *last < until) {
        let page = tokio::time::timeout(std::time::Duration::from_secs(30), watch.next()).await;
        seen.extend(page.unwrap().unwrap().into_iter().map(|record| record.seq));
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_every_event_once_while_two_stores_write() {
    let folder = tempfile::tempdir().unwrap();
    let id = SessionId::new(ID);
    let one = Store::open(Options::folder(folder.path(), "own_one")).await.unwrap();
    let two = Store::open(Options::folder(folder.path(), "own_two")).await.unwrap();
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
