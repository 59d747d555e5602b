//! Power loss: what was acknowledged is on the disk, whatever of the rest is lost, torn or out of order.
//!
//! A workload runs once on a simulated disk that records every write and every sync, with a mark after each
//! acknowledgement. Then folders are built as a power loss at some moment could have left them, and each is opened as
//! usual: right after acknowledgements with everything lost that was not synced, and at random moments with random
//! loss. The same with the weaker durability has to lose something, or this could not fail.

use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use everturn_model::{EventId, SessionId};
use everturn_store::{Authority, Durability, Options, Store};
use everturn_testkit::disk::{self, Disk, Loss};

use crate::author::{Author, Chance};
use crate::campaign::{Deed, append, cases, check_integrity, check_session, runtime, write};

const SESSIONS: u64 = 3;

/// What was acknowledged, by the number of its mark, and when.
#[derive(Default)]
struct Acks {
    events: Vec<(SessionId, u64, Vec<EventId>)>,
    cuts: Vec<usize>,
}

/// A workload that is over, and the disk that saw it.
struct Run {
    disk: Disk,
    acks: Acks,
    _live: tempfile::TempDir,
}

fn session(number: u64) -> SessionId {
    SessionId::new(format!("ses_powernumber{number:015}"))
}

impl Run {
    fn new(name: &str, durability: Durability) -> Self {
        let live = disk::scratch();
        let disk = Disk::register(name);
        let acks = Mutex::new(Acks::default());
        let note = |deed: &Deed| {
            if let Deed::Acked { session, first, ids } = deed {
                let mut acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
                disk.mark(u64::try_from(acks.events.len()).unwrap());
                acks.events.push((session.clone(), *first, ids.clone()));
                acks.cuts.push(disk.len());
            }
        };
        let vfs = Some(disk.name().to_owned());
        let options = Options { vfs, durability, ..Options::folder(live.path(), "own_test") };
        runtime().block_on(async {
            let store = Store::open(options).await.unwrap();
            let workers = (0..SESSIONS).map(|number| work(&store, number, &note));
            let mut workers: Vec<_> = workers.map(Box::pin).collect();
            // All of them at once on this task, so that commits are shared.
            std::future::poll_fn(|context| {
                workers.retain_mut(|worker| worker.as_mut().poll(context).is_pending());
                if workers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            let pages = std::fs::metadata(live.path().join("everturn.db")).unwrap().len() / 4096;
            assert!(pages > 1000, "the log was moved into the file while it grew: {pages} pages");
        });
        let acks = acks.into_inner().unwrap_or_else(PoisonError::into_inner);
        Self { disk, acks, _live: live }
    }

    /// Opens what a power loss leaves. Gives the number of acknowledged events that are not there, and fails when what
    /// is there is not whole.
    async fn lost(&self, cut: usize, loss: Loss) -> usize {
        let image = disk::scratch();
        self.disk.image(cut, loss, image.path());
        let when = format!("cut {cut} after {}, {loss:?}", self.disk.describe(cut));
        let store = Store::open(Options::folder(image.path(), "own_after")).await;
        let store = store.unwrap_or_else(|error| panic!("{when}: {error}"));
        let mut logs = Vec::new();
        for number in 0..SESSIONS {
            logs.push((session(number), check_session(&store, &session(number)).await));
        }
        let mut lost = 0;
        for mark in self.disk.marks_before(cut) {
            let Some(number) = mark.number() else { continue };
            let (session, first, ids) = &self.acks.events[usize::try_from(number).unwrap()];
            let log = logs.iter().find(|(id, _)| id == session).map(|(_, log)| log).unwrap();
            for (seq, id) in (usize::try_from(*first).unwrap()..).zip(ids) {
                lost += usize::from(log.get(seq).is_none_or(|record| record.id != *id));
            }
        }
        // It goes on from here.
        let (mut author, created) = Author::create(&SessionId::new("ses_afterafterafterafterafter0"), 5);
        append(&store, &author.session(), Authority::Open, vec![created], &|_| {}).await.unwrap();
        write(&store, &mut author, Authority::Open, &|_| {}).await.unwrap();
        drop(store);
        check_integrity(&image.path().join("everturn.db"));
        lost
    }
}

async fn work(store: &Store, number: u64, note: &impl Fn(&Deed)) {
    let session = session(number);
    let (mut author, created) = Author::create(&session, number);
    let mut guest = Author::blind(&session, 100 + number);
    (author.large, guest.large) = (5, 5);
    append(store, &session, Authority::Open, vec![created], note).await.unwrap();
    let lease = store.acquire(&session).await.unwrap();
    for _ in 0..cases(30, 60) {
        write(store, &mut author, Authority::Owned(lease.clone()), note).await.unwrap();
        if let Some((entry, part)) = author.streaming() {
            store.save_stream(&lease, &entry, &part, 0, "some words".to_owned());
        }
        write(store, &mut guest, Authority::Open, note).await.unwrap();
    }
    store.release(lease).await.unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes() {
    let run = Run::new("power-full", Durability::Full);
    let runtime = runtime();
    let mut images = 0;
    let mut check = |cut: usize, loss: Loss| {
        let lost = runtime.block_on(run.lost(cut, loss));
        assert_eq!(lost, 0, "cut {cut} of {} after {}, {loss:?}", run.disk.len(), run.disk.describe(cut));
        images += 1;
    };
    let every = usize::try_from(cases(8, 1)).unwrap();
    run.acks.cuts.iter().step_by(every).for_each(|cut| check(*cut, Loss::Everything));
    let mut chance = Chance::new(3);
    for seed in 0..cases(35, 350) {
        let cut = usize::try_from(chance.below(u64::try_from(run.disk.len()).unwrap() + 1)).unwrap();
        check(cut, Loss::Random(seed));
    }
    assert!(images >= cases(50, 500), "{images} images");
}

/// Shows that the test above can fail: the weaker durability promises less, and keeps only that.
#[test]
fn the_weaker_durability_loses_acknowledged_events_and_stays_whole() {
    let run = Run::new("power-process", Durability::Process);
    let runtime = runtime();
    let every = usize::try_from(cases(8, 1)).unwrap();
    let cuts = run.acks.cuts.iter().step_by(every);
    let lost: Vec<usize> = cuts.map(|cut| runtime.block_on(run.lost(*cut, Loss::Everything))).collect();
    assert!(lost.iter().any(|lost| *lost > 0), "no image of {} lost anything", lost.len());
}
