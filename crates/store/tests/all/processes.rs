//! Many processes on one database: nobody sees an error, nothing is lost, and whoever was away too long is fenced.
//!
//! The processes are children of this test. Ten of them write to sessions of their own and to sessions that they
//! share. For the fence one is stopped while it holds a lease, so that it neither writes nor says that it lives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everturn_model::SessionId;
use everturn_store::{ArchivedSessions, Authority, Error, Filter, Options, Store, Timing};
use everturn_testkit::postgres::Postgres;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::author::Author;
use crate::campaign::{Child, Deed, Ledger, Where, append, cases, runtime, say, say_deed, task, write};
use crate::listener::Listener;

const PROCESSES: u64 = 10;
const SHARED: u64 = 3;

/// Long enough for a loaded machine to keep a living owner alive, short enough to wait for.
const TIMING: Timing = Timing {
    patience: Duration::from_millis(1500),
    beat: Duration::from_millis(100),
    look: Duration::from_millis(100),
};

#[derive(Serialize, Deserialize)]
enum Task {
    /// Append so often, in turns to a session of its own and to shared ones.
    Write { place: Where, number: u64, appends: u64 },
    /// Take a session, say so, and go on when a file appears.
    Hold { place: Where, session: SessionId, go: PathBuf },
}

fn shared(number: u64) -> SessionId {
    SessionId::new(format!("ses_sharednumber{number:014}"))
}

/// Does nothing unless it is started by a test here.
#[test]
fn child() {
    match task() {
        Some(Task::Write { place, number, appends }) => runtime().block_on(write_all(place, number, appends)),
        Some(Task::Hold { place, session, go }) => runtime().block_on(hold(place, session, go)),
        None => {}
    }
}

async fn write_all(place: Where, number: u64, appends: u64) {
    let store = place.open(&format!("own_{number}")).await;
    let mine = SessionId::new(format!("ses_ownsession{number:016}"));
    let (mut author, created) = Author::create(&mine, number);
    append(&store, &mine, Authority::Open, vec![created], &say_deed).await.unwrap();
    let lease = store.acquire(&mine).await.unwrap();
    let mut guests: Vec<Author> =
        (0..SHARED).map(|session| Author::blind(&shared(session), 1000 * (1 + number) + session)).collect();
    author.large = 100;
    for turn in 1..appends {
        if turn % 2 == 0 {
            write(&store, &mut author, Authority::Owned(lease.clone()), &say_deed).await.unwrap();
        } else {
            let guest = usize::try_from((turn / 2) % SHARED).unwrap();
            guests[guest].large = 100;
            write(&store, &mut guests[guest], Authority::Open, &say_deed).await.unwrap();
        }
    }
    store.release(lease).await.unwrap();
}

fn write_together(place: &Where) {
    let runtime = runtime();
    let ledger = Ledger::default();
    let (observer, mut listener) = Listener::new();
    let options = Options { observer: Some(observer), ..place.options("own_parent") };
    let store = runtime.block_on(Store::open(options)).unwrap();
    for number in 0..SHARED {
        let session = shared(number);
        let created = Author::create(&session, 500 + number).1;
        let tell = |deed: &Deed| ledger.note(deed.clone());
        runtime.block_on(append(&store, &session, Authority::Open, vec![created], &tell)).unwrap();
    }
    let appends = cases(2_000, 20_000) / PROCESSES;
    std::thread::scope(|scope| {
        for number in 0..PROCESSES {
            let (place, ledger) = (place.clone(), &ledger);
            scope.spawn(move || {
                let mut child = Child::start("processes::child", &Task::Write { place, number, appends });
                let mut acked = 0;
                while let Some(line) = child.line() {
                    let deed: Deed = serde_json::from_str(&line).unwrap();
                    acked += u64::from(matches!(deed, Deed::Acked { .. }));
                    ledger.note(deed);
                }
                child.succeed();
                assert_eq!(acked, appends, "child {number} did all its work");
            });
        }
    });
    runtime.block_on(ledger.check(&store));
    runtime.block_on(check_feed(&store, &mut listener));
    place.check_file();
}

/// The parent was told of everything that its children wrote, once and in order.
async fn check_feed(store: &Store, listener: &mut Listener) {
    let everything = Filter { archived: ArchivedSessions::Included, ..Filter::default() };
    let mut logs = BTreeMap::new();
    for session in store.sessions(everything).await.unwrap() {
        let log = store.events(&session.id, None, usize::MAX).await.unwrap();
        logs.insert(session.id, log);
    }
    let count = logs.values().map(Vec::len).sum();
    assert_eq!(listener.gather(count).await, logs);
}

#[test]
fn ten_processes_write_to_one_file_and_nobody_sees_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write_together(&Where::Folder(folder.path().to_owned()));
    let connection = rusqlite::Connection::open(folder.path().join("everturn.db")).unwrap();
    let count = "SELECT value FROM meta WHERE name = 'commits'";
    let commits: u64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
    assert!(commits >= cases(2_000, 20_000), "{commits} commits");
}

fn with_timing(place: &Where, owner: &str) -> Options {
    Options { timing: TIMING, ..place.options(owner) }
}

async fn hold(place: Where, session: SessionId, go: PathBuf) {
    let store = Store::open(with_timing(&place, "own_holder")).await.unwrap();
    let (mut author, created) = Author::create(&session, 1);
    append(&store, &session, Authority::Open, vec![created], &|_| {}).await.unwrap();
    let lease = store.acquire(&session).await.unwrap();
    write(&store, &mut author, Authority::Owned(lease.clone()), &|_| {}).await.unwrap();
    say("holding");
    let start = Instant::now();
    while !go.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody said go");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let renewed = store.renew(&lease).await;
    let owned = store.append(&session, Authority::Owned(lease), author.owned()).await;
    let open = Author::blind(&session, 2).open();
    let open = store.append(&session, Authority::Open, open).await;
    let fenced = matches!((&renewed, &owned), (Err(Error::Fenced(_)), Err(Error::Fenced(_))));
    assert!(fenced, "{renewed:?} {owned:?}");
    open.unwrap();
    say("fenced");
}

/// Stops the process that holds a session, takes the session over, and lets the process go on.
fn take_over(holder: &Where, taker: &Where) {
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let session = SessionId::new("ses_heldheldheldheldheldheldhe");
    let go = folder.path().join("go");
    let task = Task::Hold { place: holder.clone(), session: session.clone(), go: go.clone() };
    let mut child = Child::start("processes::child", &task);
    assert_eq!(child.line().as_deref(), Some("holding"));
    let store = runtime.block_on(Store::open(with_timing(taker, "own_taker"))).unwrap();
    let acquire = || runtime.block_on(store.acquire(&session));
    // Alive for longer than anybody's patience: its heartbeat keeps it.
    let start = Instant::now();
    while start.elapsed() < TIMING.patience + TIMING.beat {
        let busy = acquire();
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
        std::thread::sleep(TIMING.beat);
    }
    child.signal(Signal::STOP);
    let start = Instant::now();
    let busy = acquire();
    assert!(matches!(busy, Err(Error::Busy { .. })), "a silence that has just begun is none: {busy:?}");
    let lease = loop {
        match acquire() {
            Ok(lease) => break lease,
            Err(Error::Busy { .. }) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < Duration::from_secs(20), "nobody may take it over");
    };
    // A machine under load may have let it speak late before it was stopped; `contract::leases` has the exact time.
    assert!(start.elapsed() > TIMING.patience / 2, "patience had an end too soon");
    let mut author = runtime.block_on(Author::resume(&store, &session, 3)).unwrap().unwrap();
    let owned = || Authority::Owned(lease.clone());
    runtime.block_on(write(&store, &mut author, owned(), &|_| {})).unwrap();
    std::fs::write(&go, "").unwrap();
    child.signal(Signal::CONT);
    assert_eq!(child.line().as_deref(), Some("fenced"), "{:?}", child.end());
    child.succeed();
    runtime.block_on(store.renew(&lease)).unwrap();
    runtime.block_on(async { write(&store, &mut author, owned(), &|_| {}).await }).unwrap();
    runtime.block_on(crate::campaign::check_session(&store, &session));
}

#[test]
fn a_process_that_was_stopped_for_too_long_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let place = Where::Folder(folder.path().to_owned());
    take_over(&place, &place);
}

/// Two hosts do not see each other's locks: only what they tell the server counts.
#[test]
fn a_host_that_was_silent_for_too_long_is_fenced() {
    let server = Postgres::shared();
    let (database, here, there) =
        (server.database(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place =
        |folder: &tempfile::TempDir| Where::Server { url: database.url(), folder: folder.path().to_owned() };
    take_over(&place(&there), &place(&here));
}

#[test]
fn ten_processes_write_to_one_server_and_nobody_sees_an_error() {
    let server = Postgres::shared();
    let (database, folder) = (server.database(), tempfile::tempdir().unwrap());
    write_together(&Where::Server { url: database.url(), folder: folder.path().to_owned() });
}
