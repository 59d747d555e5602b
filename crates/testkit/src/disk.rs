//! A simulated disk for SQLite: it loses power at any moment, and fails when told to.
//!
//! It is a VFS that passes every call on to the real files, so that locks, several connections and the WAL index work
//! as always. On the way it notes what is written and what is synced. From that it makes images: folders as a power
//! loss could have left them. Killing a process shows none of this, because the system still writes what the process
//! had written.
//!
//! ```
//! use everturn_testkit::disk::{self, Disk, Loss};
//! use rusqlite::{Connection, OpenFlags};
//!
//! let live = disk::scratch();
//! let disk = Disk::register("example");
//! let path = live.path().join("a.db");
//! let connection = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), disk.name())?;
//! connection.execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE t (n)")?;
//! disk.mark("created");
//!
//! let image = disk::scratch();
//! disk.image(disk.len(), Loss::Everything, image.path());
//! let after = Connection::open(image.path().join("a.db"))?;
//! assert_eq!(after.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u64>(0))?, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A trace sees only what goes through its VFS: not what other processes do to the files, and not the `-shm` file,
//! which SQLite makes again after a power loss. All files of one trace are in one folder.
//!
//! # Layout
//!
//! * `vfs`: the calls that SQLite makes
//! * `trace`: what happened, in one order
//! * `image`: what a power loss leaves of it
//! * `fault`: calls that fail on purpose
//! * `chance`: numbers from a seed

mod chance;
mod fault;
mod image;
mod trace;
mod vfs;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

pub use fault::{DiskFault, DiskFaultKind};
pub use image::Loss;
pub use trace::TraceMark;

use fault::{CallVerdict, DiskCall, Faults};
use trace::{DiskStep, Trace};

/// What the VFS and the test share. It is never freed, as SQLite may call it as long as a connection is open.
#[derive(Debug)]
struct SharedDisk {
    recording: AtomicBool,
    trace: Mutex<Trace>,
    faults: Mutex<Faults>,
}

impl SharedDisk {
    /// The trace, if there is one. Whoever changes a file holds it meanwhile: otherwise a sync could be noted after a
    /// write of another connection that it did not cover.
    fn recorder(&self) -> Option<MutexGuard<'_, Trace>> {
        self.recording.load(Ordering::Acquire).then(|| lock(&self.trace))
    }

    fn judge(&self, call: DiskCall) -> CallVerdict {
        lock(&self.faults).judge(call)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder, in memory if the system has a place for that. Nothing of the simulation needs a real disk, and
/// real syncs take most of the time of a test with many images.
///
/// # Panics
///
/// When no folder can be made.
pub fn scratch() -> TempDir {
    let memory = TempDir::with_prefix_in("everturn-disk-", "/dev/shm");
    memory.or_else(|_| TempDir::with_prefix("everturn-disk-")).expect("a temporary folder")
}

/// A VFS under a name of its own. Clones are the same disk.
///
/// With the last clone the name becomes free and the trace goes away; connections that are still open keep working.
#[derive(Clone)]
pub struct Disk {
    registration: Arc<vfs::VfsRegistration>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the trace, which may be large.
        out.debug_struct("Disk").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Disk {
    /// Registers a disk that records. It is not SQLite's default: name it when you open a database, with
    /// `Connection::open_with_flags_and_vfs` or as `file:…?vfs=NAME`.
    ///
    /// # Panics
    ///
    /// When there is a VFS of this name already, or the name has a zero byte.
    #[must_use]
    pub fn register(name: &str) -> Self {
        Self::new(name, true)
    }

    /// Registers a disk that only fails: without a trace, which would keep all that is written in memory.
    ///
    /// # Panics
    ///
    /// As [`Disk::register`] does.
    #[must_use]
    pub fn register_without_trace(name: &str) -> Self {
        Self::new(name, false)
    }

    fn new(name: &str, recording: bool) -> Self {
        let shared = SharedDisk {
            recording: AtomicBool::new(recording),
            trace: Mutex::default(),
            faults: Mutex::default(),
        };
        Self { registration: Arc::new(vfs::VfsRegistration::new(name, shared)) }
    }

    fn shared(&self) -> &'static SharedDisk {
        self.registration.shared()
    }

    /// The name that it is registered with.
    pub fn name(&self) -> &str {
        self.registration.name()
    }

    /// Notes something between two steps of the disk, for example that an event was acknowledged. It is a step too.
    pub fn mark(&self, mark: impl Into<TraceMark>) {
        if let Some(mut trace) = self.shared().recorder() {
            trace.record(DiskStep::Mark(mark.into()));
        }
    }

    /// How many steps there are so far.
    pub fn len(&self) -> usize {
        lock(&self.shared().trace).steps().len()
    }

    /// Whether nothing happened yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The marks among the first `cut` steps, in order.
    pub fn marks_before(&self, cut: usize) -> Vec<TraceMark> {
        let trace = lock(&self.shared().trace);
        let mark = |step: &DiskStep| if let DiskStep::Mark(mark) = step { Some(mark.clone()) } else { None };
        trace.steps().iter().take(cut).filter_map(mark).collect()
    }

    /// The step that a cut comes right after, in words; cut 0 comes before everything.
    pub fn describe(&self, cut: usize) -> String {
        let trace = lock(&self.shared().trace);
        let step = cut.checked_sub(1).and_then(|last| trace.steps().get(last));
        step.map_or_else(|| "nothing".to_owned(), |step| trace.describe(step))
    }

    /// Makes in the folder `into` what could be there if power were lost right after the first `cut` steps. A number
    /// for `loss` is the seed of [`Loss::Random`]; the same numbers give the same image.
    ///
    /// # Panics
    ///
    /// When the folder is not empty or cannot be written, when the disk does not record, or when there are fewer steps.
    pub fn image(&self, cut: usize, loss: impl Into<Loss>, into: &Path) {
        std::fs::create_dir_all(into).expect("a folder for the image");
        let occupied = std::fs::read_dir(into).expect("the folder for the image").next().is_some();
        assert!(!occupied, "{}: an image needs an empty folder", into.display());
        let shared = self.shared();
        assert!(shared.recording.load(Ordering::Acquire), "{}: registered without a trace", self.name());
        let files = image::build(&lock(&shared.trace), cut, loss.into());
        for (name, content) in files {
            std::fs::write(into.join(name), content).expect("a file of the image");
        }
    }

    /// Lets a call fail. Faults add up until [`Disk::heal`].
    ///
    /// # Panics
    ///
    /// When `at` is 0: calls are counted from 1.
    pub fn fail(&self, fault: DiskFault) {
        assert!(fault.at > 0, "calls are counted from 1");
        lock(&self.shared().faults).arm(fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        lock(&self.shared().faults).heal();
    }

    /// Whether a call has failed on purpose since the last [`Disk::fail`].
    pub fn failed(&self) -> bool {
        lock(&self.shared().faults).fired()
    }

    /// How many calls there were that count for this kind, since [`Disk::reset_calls`].
    pub fn calls(&self, kind: DiskFaultKind) -> u64 {
        lock(&self.shared().faults).calls(kind)
    }

    /// Counts calls from zero. Faults that are waiting have their own count.
    pub fn reset_calls(&self) {
        lock(&self.shared().faults).reset_calls();
    }
}
