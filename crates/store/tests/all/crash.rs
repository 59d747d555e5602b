//! `kill -9`: whatever a process was doing, what it acknowledged is there, and the next one goes on at once.
//!
//! A child writes to several sessions at once and tells of each attempt and each acknowledgement through a pipe. It is
//! killed at a random moment: after some acknowledgements and a little while, or while it opens the store. Then the
//! place is opened here and compared with what the child told; and the next child takes the sessions over.

use std::time::Duration;

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Lease, Store};
use everturn_testkit::postgres::Postgres;
use serde::{Deserialize, Serialize};

use crate::author::{Author, Chance};
use crate::campaign::{Child, Deed, Ledger, Where, append, cases, runtime, say_deed, task, write};

/// How many kills the same sessions live through.
const LIVES: u64 = 5;

/// How many kills the same place lives through.
const HALL: u64 = 20;

#[derive(Serialize, Deserialize)]
struct Task {
    place: Where,
    owner: String,
    sessions: Vec<SessionId>,
    seed: u64,
}

async fn own(store: Store, mut author: Author, lease: Lease) -> Result<(), Error> {
    loop {
        write(&store, &mut author, Authority::Owned(lease.clone()), &say_deed).await?;
        if let Some((entry, part)) = author.streaming() {
            store.save_stream(&lease, &entry, &part, 0, "the first words ".to_owned());
            store.save_stream(&lease, &entry, &part, 16, "and some more".to_owned());
        }
    }
}

async fn join_in(store: Store, mut author: Author) -> Result<(), Error> {
    loop {
        write(&store, &mut author, Authority::Open, &say_deed).await?;
    }
}

/// Does nothing unless it is started by the campaign.
#[test]
fn child() {
    let Some(Task { place, owner, sessions, seed }) = task() else { return };
    runtime().block_on(async {
        let store = place.open(&owner).await;
        let mut work = tokio::task::JoinSet::new();
        for (number, session) in (0..).zip(sessions) {
            let seed = seed.wrapping_add(number << 32);
            let (mut author, created) = Author::create(&session, seed);
            match Author::resume(&store, &session, seed).await.unwrap() {
                Some(found) => author = found,
                None => {
                    append(&store, &session, Authority::Open, vec![created], &say_deed).await.unwrap();
                }
            }
            // The one before us is dead, so nobody is in the way.
            let lease = store.acquire(&session).await.unwrap();
            work.spawn(own(store.clone(), author, lease));
            work.spawn(join_in(store.clone(), Author::blind(&session, !seed)));
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), work.join_next()).await;
        panic!("nobody killed us: {ended:?}");
    });
}

/// Kills a child at a moment that chance chooses, and notes all that it told.
fn live_and_die(task: &Task, chance: &mut Chance, ledger: &Ledger) {
    let mut child = Child::start("crash::child", task);
    let mut acked = 0;
    let mut note = |line: String| {
        let deed: Deed = serde_json::from_str(&line).unwrap();
        acked += u64::from(matches!(deed, Deed::Acked { .. }));
        ledger.note(deed);
        acked
    };
    if chance.below(8) == 0 {
        std::thread::sleep(Duration::from_micros(chance.below(40_000)));
    } else {
        let enough = 1 + chance.below(200);
        while let Some(line) = child.line() {
            if note(line) >= enough {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(chance.below(3_000)));
    }
    child.kill();
    while let Some(line) = child.line() {
        note(line);
    }
    child.was_killed();
}

fn campaign(kills: u64, mut new_place: impl FnMut() -> (Box<dyn std::any::Any>, Where)) {
    let runtime = runtime();
    let ledger = Ledger::default();
    let mut chance = Chance::new(7);
    let mut kill = 0;
    let mut total = 0;
    while kill < kills {
        let (_keep, place) = new_place();
        // Now and then the place stays open here meanwhile, so that the file is not recovered but shared.
        let mut open = None;
        for life in 0..HALL.min(kills - kill) {
            let generation = life / LIVES;
            if life % LIVES == 0 {
                total += ledger.acked();
                ledger.clear();
            }
            let session =
                |number: u64| SessionId::new(format!("ses_generation{generation}number{number:08}"));
            let sessions = (0..3).map(session).collect();
            let owner = format!("own_{kill}");
            let task = Task { place: place.clone(), owner, sessions, seed: kill };
            live_and_die(&task, &mut chance, &ledger);
            let store = runtime.block_on(place.open(&format!("own_parent{kill}")));
            runtime.block_on(ledger.check(&store));
            place.check_file();
            open = (chance.below(3) == 0).then_some(store);
            kill += 1;
        }
        total += ledger.acked();
        ledger.clear();
        drop(open);
    }
    assert!(total > usize::try_from(kills).unwrap() * 20, "only {total} events were acknowledged");
}

#[test]
fn nothing_acknowledged_is_lost_when_a_process_is_killed() {
    campaign(cases(40, 500), || {
        let folder = tempfile::tempdir().unwrap();
        let place = Where::Folder(folder.path().to_owned());
        (Box::new(folder), place)
    });
}

#[test]
fn nothing_acknowledged_is_lost_on_a_server_when_a_process_is_killed() {
    let server = Postgres::shared();
    campaign(cases(40, 500), || {
        let (database, folder) = (server.database(), tempfile::tempdir().unwrap());
        let place = Where::Server { url: database.url(), folder: folder.path().to_owned() };
        (Box::new((database, folder)), place)
    });
}
