//! PostgreSQL under fire: the server is restarted, killed and cut off while two stores write to it.
//!
//! A caller may be told that the server cannot be reached, or that it is not known whether a change was saved. What was
//! acknowledged is there all the same, what was refused is not, what is not known is there once or not at all; and the
//! same stores work again afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Store};
use everturn_testkit::postgres::{Postgres, Shutdown};

use crate::author::Author;
use crate::campaign::{Deed, Ledger, Where, append, cases, ids, runtime};

/// What the writers of a test have in common.
#[derive(Default)]
struct Load {
    ledger: Ledger,
    acked: AtomicU64,
    unknown: AtomicU64,
    failed: AtomicU64,
    over: AtomicBool,
}

impl Load {
    /// Appends and notes the answer; false when there was an error that a server under fire may cause.
    async fn append(&self, store: &Store, author: &mut Author) -> bool {
        let (session, events) = (author.session(), author.open());
        let ids = ids(&events);
        self.ledger.note(Deed::Tried { session: session.clone(), ids: ids.clone() });
        match store.append(&session, Authority::Open, events).await {
            Ok(appended) => {
                self.acked.fetch_add(1, Ordering::SeqCst);
                self.ledger.note(Deed::Acked { session, first: appended.first, ids });
                true
            }
            Err(Error::Unknown { .. }) => {
                self.unknown.fetch_add(1, Ordering::SeqCst);
                false
            }
            Err(Error::Unreachable { .. } | Error::Server(_)) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                self.ledger.note(Deed::Refused { session, ids });
                false
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn write(self: Arc<Self>, store: Store, mut author: Author) {
        while !self.over.load(Ordering::SeqCst) {
            if !self.append(&store, &mut author).await {
                // A caller that tries again does not do so without end and pause.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// How many appends were answered with an error.
    fn troubled(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst) + self.failed.load(Ordering::SeqCst)
    }

    /// Waits until so many appends more were acknowledged: the stores work.
    async fn progress(&self, appends: u64) {
        let (start, before) = (Instant::now(), self.acked.load(Ordering::SeqCst));
        while self.acked.load(Ordering::SeqCst) < before + appends {
            assert!(start.elapsed() < Duration::from_secs(60), "the stores do not work again");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn session(number: u64) -> SessionId {
    SessionId::new(format!("ses_servernumber{number:014}"))
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_and_restarted() {
    let server = Postgres::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Where::Server { url: database.url(), folder: folder.path().to_owned() };
    let load = Arc::new(Load::default());
    let runtime = runtime();
    runtime.block_on(async {
        let stores = [place.open("own_one").await, place.open("own_two").await];
        let tell = |deed: &Deed| load.ledger.note(deed.clone());
        for number in 0..3 {
            let created = Author::create(&session(number), 900 + number).1;
            append(&stores[0], &session(number), Authority::Open, vec![created], &tell).await.unwrap();
        }
        let mut writers = tokio::task::JoinSet::new();
        for (seed, store) in (0..).zip(stores.iter().flat_map(|store| [store; 3])) {
            // Each session is written by both stores.
            writers.spawn(Arc::clone(&load).write(store.clone(), Author::blind(&session(seed % 3), seed)));
        }
        load.progress(20).await;
        for round in 0..cases(6, 40) {
            // These wait without an executor, and the writers go on meanwhile.
            tokio::task::block_in_place(|| match round % 4 {
                0 => drop(server.terminate_backends(database.name())),
                1 => server.restart(Shutdown::Immediate),
                2 => {
                    server.kill();
                    server.start_again();
                }
                _ => server.restart(Shutdown::Fast),
            });
            load.progress(20).await;
        }
        // Away for so long that callers hear of it.
        tokio::task::block_in_place(|| server.stop());
        let start = Instant::now();
        while load.troubled() == 0 {
            assert!(start.elapsed() < Duration::from_secs(90), "nobody is told that the server is away");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::task::block_in_place(|| server.start_again());
        load.progress(20).await;
        for _ in 0..cases(10, 50) {
            tokio::task::block_in_place(|| server.terminate_backends(database.name()));
            load.progress(5).await;
        }
        load.over.store(true, Ordering::SeqCst);
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        // Without reopening, in both.
        for store in &stores {
            load.ledger.check(store).await;
        }
        drop(stores);
        load.ledger.check(&place.open("own_after").await).await;
    });
    assert!(load.acked.load(Ordering::SeqCst) > 100);
}
