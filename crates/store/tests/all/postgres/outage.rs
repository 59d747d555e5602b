//! Outages: broken connections, cut answers and restarts under load lose nothing that was acknowledged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use everturn_model::{EventId, SessionId};
use everturn_store::{Authority, Error, Options, Store};
use everturn_testkit::postgres::Shutdown;
use everturn_testkit::{Postgres, Proxy, within};
use tokio::task::JoinHandle;

use super::Place;
use crate::postgres::{ID, created, event, titled};

/// How many appends each writer gets acknowledged between two disturbances.
const PROGRESS: u64 = 5;

/// A writer at work.
struct Writer {
    acked: Arc<AtomicU64>,
    /// What was acknowledged.
    kept: JoinHandle<Vec<(SessionId, EventId, u64)>>,
}

impl Writer {
    /// Waits until it has got on: the store works.
    async fn progress(&self) {
        let wanted = self.acked.load(Ordering::SeqCst) + PROGRESS;
        within("a writer to get on", async {
            while self.acked.load(Ordering::SeqCst) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// Appends to a session of its own until told to stop.
fn load(store: &Store, writer: u64, stop: &Arc<AtomicBool>) -> Writer {
    let (store, stop) = (store.clone(), Arc::clone(stop));
    let acked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&acked);
    let kept = tokio::spawn(async move {
        let name = format!("ses_{writer}");
        let id = SessionId::new(&name);
        let start = event(writer * 1_000_000, created(&name));
        store.append(&id, Authority::Open, vec![start]).await.unwrap();
        let mut kept = Vec::new();
        let mut number = writer * 1_000_000;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let new = titled(number, &format!("title {number}"));
            match store.append(&id, Authority::Open, vec![new.clone()]).await {
                Ok(appended) => {
                    kept.push((id.clone(), new.id, appended.first));
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                Err(Error::Unreachable { .. } | Error::Unknown { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        kept
    });
    Writer { acked, kept }
}

/// Everything acknowledged is there, once, in its place, and nothing has a gap.
async fn check(store: &Store, kept: Vec<(SessionId, EventId, u64)>) {
    let mut sessions: HashMap<SessionId, Vec<(EventId, u64)>> = HashMap::new();
    for (session, event, seq) in kept {
        sessions.entry(session).or_default().push((event, seq));
    }
    for (session, kept) in sessions {
        let log = store.events(&session, None, usize::MAX).await.unwrap();
        let seqs: HashMap<&EventId, u64> = log.iter().map(|record| (&record.id, record.seq)).collect();
        assert!(kept.iter().all(|(event, seq)| seqs.get(event) == Some(seq)), "{session}: {kept:?}");
        assert!(log.iter().map(|record| record.seq).eq(0..u64::try_from(log.len()).unwrap()));
        let tree = everturn_model::fold::replay(&log).unwrap().unwrap();
        assert_eq!(store.tree(&session).await.unwrap().unwrap(), tree);
    }
}

async fn disturb(server: &Postgres, disturbance: impl Fn(&Place), times: usize) {
    let place = Place::on(server);
    let store = place.open("own_test").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=6).map(|writer| load(&store, writer, &stop)).collect();
    for _ in 0..times {
        for writer in &writers {
            writer.progress().await;
        }
        tokio::task::block_in_place(|| disturbance(&place));
    }
    for writer in &writers {
        writer.progress().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut kept = Vec::new();
    for writer in writers {
        kept.extend(writer.kept.await.unwrap());
    }
    check(&store, kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_lose_nothing() {
    let server = Postgres::shared();
    disturb(
        &server,
        |place| {
            server.terminate_backends(place.database.name());
        },
        6,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_lose_nothing() {
    let server = Postgres::start();
    disturb(&server, |_| server.restart(Shutdown::Fast), 2).await;
    disturb(&server, |_| server.restart(Shutdown::Immediate), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_loses_nothing() {
    let server = Postgres::start();
    let crash = |_: &Place| {
        server.kill();
        server.start_again();
    };
    disturb(&server, crash, 2).await;
}

/// A store behind a proxy that can cut it off.
async fn behind(server: &Postgres) -> (Place, Proxy, Store) {
    let place = Place::on(server);
    let proxy = Proxy::start(server.address());
    let url = place.database.url_at(proxy.address());
    let store = Store::open(Options::server(&url, place.folder.path(), "own_test")).await.unwrap();
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    (place, proxy, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_cut_is_found_in_the_log() {
    let (_place, proxy, store) = behind(&Postgres::shared()).await;
    let id = SessionId::new(ID);
    for number in 2..6 {
        proxy.cut_after_sent("COMMIT");
        // Readers commit too, so the cut is set where only the writer is at work.
        let done = store.append(&id, Authority::Open, vec![titled(number, "cut")]).await.unwrap();
        assert!(proxy.fired());
        assert_eq!((done.first, done.fresh), (number - 1, true));
    }
    assert_eq!(store.events(&id, None, 100).await.unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrives_is_made_again() {
    let (_place, proxy, store) = behind(&Postgres::shared()).await;
    let id = SessionId::new(ID);
    for (number, text) in (2..).zip(["COMMIT", "FOR UPDATE", "BEGIN", "INSERT INTO event"]) {
        proxy.cut_before(text);
        let done = store.append(&id, Authority::Open, vec![titled(number, "cut")]).await.unwrap();
        assert!(proxy.fired(), "{text}");
        assert_eq!((done.first, done.fresh), (number - 1, true));
    }
    assert_eq!(store.events(&id, None, 100).await.unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_whose_answer_is_cut_is_found_in_the_log() {
    let (_place, proxy, store) = behind(&Postgres::shared()).await;
    for (number, how) in [(10, true), (11, false)] {
        let name = format!("ses_{number}");
        if how {
            proxy.cut_after_sent("COMMIT");
        } else {
            proxy.cut_before("COMMIT");
        }
        let new = vec![event(number, created(&name))];
        let done = store.append(&SessionId::new(&name), Authority::Open, new).await.unwrap();
        assert!(done.fresh && proxy.fired());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_may_break_at_any_message() {
    let (_place, proxy, store) = behind(&Postgres::shared()).await;
    let id = SessionId::new(ID);
    for number in 2..42 {
        proxy.reset();
        proxy.cut_at(number - 1);
        let done = store.append(&id, Authority::Open, vec![titled(number, "cut")]).await.unwrap();
        assert_eq!((done.first, done.fresh), (number - 1, true));
    }
    proxy.reset();
    let log = store.events(&id, None, 100).await.unwrap();
    assert_eq!(log.len(), 41);
    assert_eq!(
        store.tree(&id).await.unwrap(),
        everturn_model::fold::replay(&log).unwrap(),
        "the rows are the fold of the log"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_over_a_broken_connection_is_made_again() {
    let server = Postgres::shared();
    let (place, _proxy, store) = behind(&server).await;
    let id = SessionId::new(ID);
    for _ in 0..5 {
        let mut reads = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (store, id) = (store.clone(), id.clone());
            reads.spawn(async move { store.session(&id).await.unwrap().unwrap() });
        }
        reads.join_all().await;
        server.terminate_backends(place.database.name());
        store.session(&id).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_away_is_said_to_be_unreachable() {
    let server = Postgres::start();
    let place = Place::on(&server);
    let store = place.open("own_test").await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    tokio::task::block_in_place(|| server.stop());
    let read = store.session(&id).await;
    assert!(matches!(read, Err(Error::Unreachable { .. })), "{read:?}");
    let lost = store.append(&id, Authority::Open, vec![titled(2, "lost")]).await;
    assert!(matches!(lost, Err(Error::Unreachable { .. })), "{lost:?}");
    tokio::task::block_in_place(|| server.start_again());
    let done = store.append(&id, Authority::Open, vec![titled(3, "kept")]).await.unwrap();
    assert_eq!(done.first, 1);
}
