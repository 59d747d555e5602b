//! Disks that fail: whichever call of SQLite fails, and for how long, the store says yes, no or unknown, and is right.
//!
//! A script runs on a disk whose n-th call fails, for every n: once, or from then on until the disk is healed. Then the
//! same handle has to work again, and what a plain store finds afterwards is compared with what was answered: yes is
//! there, no is not there, and nothing is there by half.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use everturn_model::SessionId;
use everturn_store::{Appended, Authority, Error, Lease, NewEvent, Options, Search, Store};
use everturn_testkit::disk::{self, Disk, DiskFault, DiskFaultKind};

use crate::author::Author;
use crate::campaign::{Deed, Ledger, cases, check_integrity, ids, runtime};
use crate::events::seq_of;

/// How many rounds of the script there are; each appends four times.
const ROUNDS: u64 = 16;

/// The script's own view of a run.
struct Script<'r> {
    store: Store,
    ledger: &'r Ledger,
    session: SessionId,
    guest: Author,
    /// What the owner knows; none after a failure, until it can be read again.
    owner: Option<(Author, Lease)>,
    seed: u64,
}

impl Script<'_> {
    /// Appends and notes the answer.
    async fn append(&self, authority: Authority, events: Vec<NewEvent>) -> Result<Appended, Error> {
        let (session, ids) = (self.session.clone(), ids(&events));
        self.ledger.note(Deed::Tried { session: session.clone(), ids: ids.clone() });
        match self.store.append(&session, authority, events).await {
            Ok(appended) => {
                self.ledger.note(Deed::Acked { session, first: appended.first, ids });
                Ok(appended)
            }
            Err(error) => {
                assert!(!matches!(error, Error::Closed), "the writer is gone");
                if !matches!(error, Error::Unknown { .. }) {
                    self.ledger.note(Deed::Refused { session, ids });
                }
                Err(error)
            }
        }
    }

    /// Creates the session, as often as it takes.
    async fn begin(&mut self) -> Result<(), Error> {
        if self.store.session(&self.session).await?.is_none() {
            self.seed += 1;
            let (_, created) = Author::create(&self.session, self.seed);
            self.append(Authority::Open, vec![created]).await?;
        }
        Ok(())
    }

    /// Takes the lease and reads what is there.
    async fn own(&mut self) -> Result<(), Error> {
        if self.owner.is_none() {
            self.seed += 1;
            let lease = self.store.acquire(&self.session).await?;
            let author = Author::resume(&self.store, &self.session, self.seed).await?;
            self.owner = author.map(|author| (author, lease));
        }
        Ok(())
    }

    async fn round(&mut self, number: u64) -> Result<(), Error> {
        self.begin().await?;
        self.own().await?;
        for turn in 0..2 {
            self.guest.large = if number % 7 == 3 && turn == 0 { 2 } else { 0 };
            self.guest.most = 2;
            let events = self.guest.open();
            let Some((mut author, lease)) = self.owner.take() else { continue };
            (author.large, author.most) = (0, 2);
            // At once, so that they can share a commit.
            let (guest, owned, other) = tokio::join!(
                self.append(Authority::Open, events),
                self.append(Authority::Owned(lease.clone()), author.owned()),
                self.store.put_project("global", format!("{{\"round\":{number}}}")),
            );
            assert!(!matches!(other, Err(Error::Closed)), "the writer is gone");
            let appended = owned?;
            guest?;
            other?;
            author.answered(&self.store, &appended).await?;
            if let Some((entry, part)) = author.streaming() {
                self.store.save_stream(&lease, &entry, &part, 0, "some words".to_owned());
            }
            self.owner = Some((author, lease));
        }
        if number.is_multiple_of(5) {
            self.store.tree(&self.session).await?;
            self.store.search(Search { text: "text".into(), limit: 3, ..Search::default() }).await?;
        }
        if number % 6 == 5
            && let Some((_, lease)) = self.owner.take()
        {
            self.store.release(lease).await?;
        }
        Ok(())
    }
}

fn with_disk(folder: &Path, disk: &Disk) -> Options {
    Options { vfs: Some(disk.name().to_owned()), ..Options::folder(folder, "own_test") }
}

/// What came of a run.
#[derive(Default)]
struct Outcome {
    /// How many answers were errors.
    errors: u64,
    /// Whether the store could not be opened.
    refused: bool,
}

/// Runs the script. A few rounds after a fault it is over: more would show nothing new.
async fn run(folder: &Path, disk: &Disk, ledger: &Ledger) -> Outcome {
    let mut outcome = Outcome::default();
    let store = match Store::open(with_disk(folder, disk)).await {
        Ok(store) => store,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("everturn.db"), "the error names the file: {error:?} {text}");
            assert!(disk.failed(), "nothing failed, but it does not open: {error}");
            outcome.refused = true;
            disk.heal();
            Store::open(with_disk(folder, disk)).await.unwrap()
        }
    };
    let session = SessionId::new("ses_faultfaultfaultfaultfault0");
    let guest = Author::blind(&session, 77);
    let mut script = Script { store, ledger, session, guest, owner: None, seed: 500 };
    let mut left = 2;
    for number in 0..ROUNDS {
        if let Err(error) = script.round(number).await {
            assert!(disk.failed(), "nothing failed: {error}");
            outcome.errors += 1;
            script.owner = None;
        }
        if disk.failed() {
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    disk.heal();
    // The same handle works again.
    script.owner = None;
    script.round(1).await.unwrap_or_else(|error| panic!("not after healing: {error}"));
    outcome
}

async fn check(folder: &Path, ledger: &Ledger) {
    let store = Store::open(Options::folder(folder, "own_after")).await.unwrap();
    ledger.check(&store).await;
    let session = SessionId::new("ses_faultfaultfaultfaultfault0");
    let events = Author::blind(&session, 78).open();
    store.append(&session, Authority::Open, events).await.unwrap();
    drop(store);
    check_integrity(&folder.join("everturn.db"));
}

/// A folder for a run: empty, or with a store that was made in peace.
fn folder(template: Option<&[u8]>) -> tempfile::TempDir {
    let folder = disk::scratch();
    if let Some(bytes) = template {
        std::fs::write(folder.path().join("everturn.db"), bytes).unwrap();
    }
    folder
}

fn template() -> Vec<u8> {
    let folder = folder(None);
    drop(runtime().block_on(Store::open(Options::folder(folder.path(), "own_test"))).unwrap());
    std::fs::read(folder.path().join("everturn.db")).unwrap()
}

/// Lets every call of a kind fail in turn.
fn campaign(kind: DiskFaultKind, once: bool) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let disk = || Disk::register_without_trace(&format!("faults-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let runtime = runtime();
    let template = template();
    for start in [None, Some(template.as_slice())] {
        let calls = {
            let (folder, disk) = (folder(start), disk());
            if start.is_some() {
                let ledger = Ledger::default();
                runtime.block_on(run(folder.path(), &disk, &ledger));
                runtime.block_on(check(folder.path(), &ledger));
            } else {
                // A new file differs only in its opening.
                drop(runtime.block_on(Store::open(with_disk(folder.path(), &disk))).unwrap());
            }
            disk.calls(kind)
        };
        let step = if start.is_some() { cases(7, 1) } else { cases(3, 1) };
        let (mut fired, mut errors, mut refused) = (0, 0, 0);
        for at in (1..=calls).step_by(usize::try_from(step).unwrap()) {
            let (folder, disk) = (folder(start), disk());
            let ledger = Ledger::default();
            disk.fail(DiskFault { kind, at, once });
            let outcome = runtime.block_on(run(folder.path(), &disk, &ledger));
            fired += u64::from(disk.failed());
            errors += u64::from(outcome.errors > 0);
            refused += u64::from(outcome.refused);
            runtime.block_on(check(folder.path(), &ledger));
        }
        assert!(
            fired > 0 && errors + refused > 0,
            "{kind:?}: {fired} fired, {errors} seen, {refused} refused"
        );
    }
}

#[test]
fn a_device_error_is_never_taken_for_success() {
    campaign(DiskFaultKind::Eio, true);
}

#[test]
fn a_device_that_fails_for_a_while_is_never_taken_for_success() {
    campaign(DiskFaultKind::Eio, false);
}

#[test]
fn a_full_disk_is_never_taken_for_success() {
    campaign(DiskFaultKind::Full, true);
    campaign(DiskFaultKind::Full, false);
}

#[test]
fn half_a_write_is_never_taken_for_success() {
    campaign(DiskFaultKind::ShortWrite, true);
    campaign(DiskFaultKind::ShortWrite, false);
}

#[test]
fn a_failed_sync_is_never_taken_for_success() {
    campaign(DiskFaultKind::FsyncFailed, true);
    campaign(DiskFaultKind::FsyncFailed, false);
}

/// What an append says when a call of the disk fails in its commit, and whether its event is there afterwards.
async fn append_at(fault: DiskFaultKind) -> (Error, bool) {
    let folder = disk::scratch();
    let disk = Disk::register_without_trace(&format!("append-{fault:?}"));
    let session = SessionId::new("ses_faultfaultfaultfaultfault1");
    let store = Store::open(with_disk(folder.path(), &disk)).await.unwrap();
    let (_, created) = Author::create(&session, 1);
    store.append(&session, Authority::Open, vec![created]).await.unwrap();
    let event = Author::blind(&session, 2).open().swap_remove(0);
    disk.fail(DiskFault { kind: fault, at: 1, once: true });
    let error = store.append(&session, Authority::Open, vec![event.clone()]).await.unwrap_err();
    assert!(disk.failed(), "nothing failed: {error}");
    drop(store);
    let store = Store::open(Options::folder(folder.path(), "own_after")).await.unwrap();
    (error, seq_of(&store, &session, &event.id).await.is_some())
}

#[tokio::test]
async fn after_a_failed_sync_nobody_says_that_nothing_was_saved() {
    // What a disk has after a failed sync is anybody's guess. A caller who hears a sure no would send the event again
    // under another id, and could have it twice. Nothing noticed when it was called a refusal.
    let (error, _) = append_at(DiskFaultKind::FsyncFailed).await;
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    assert!(error.to_string().contains("look it up before trying again"), "{error}");
    // A full disk is noticed before anything is complete: that is a sure no.
    let (error, there) = append_at(DiskFaultKind::Full).await;
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    assert!(!there, "what was surely refused is not there");
}
