//! Who is alive on this machine.
//!
//! Each process holds a lock on a file of its own for as long as it lives. The kernel drops the lock when the process
//! dies, however it dies, so whoever finds the lock free knows at once that the owner is gone. A process that is
//! stopped keeps its lock; it is known by its silence, because while it runs it writes the time into its file every
//! few seconds. Neither decides who may write: that is the epoch in the session's row.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use everturn_model::Millis;
use rustix::fs::{major, minor};
use rustix::time::{ClockId, clock_gettime};

use crate::Error;
use crate::options::Timing;

/// How often a lock that somebody holds is tried before the name counts as taken.
const TRIES: u32 = 100;

/// How long is waited in between.
const PAUSE: Duration = Duration::from_millis(5);

/// Where Linux lists who holds which lock. Other systems do not.
const LOCKS: &str = "/proc/locks";

/// The folder with a file for each process.
const OWNERS: &str = "owners";

/// This process, as leases know it.
#[derive(Debug, Clone)]
pub(crate) struct Owner(Arc<OwnerClaim>);

#[derive(Debug)]
struct OwnerClaim {
    name: String,
    folder: PathBuf,
    patience: Duration,
    // Held for its lock.
    _file: Arc<File>,
    beat: Option<(Sender<()>, JoinHandle<()>)>,
    /// When processes that are dead last said that they live, in milliseconds since the Unix epoch: their files go.
    last_beats: Mutex<HashMap<String, Millis>>,
}

impl Drop for OwnerClaim {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.beat.take() {
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("the store's heartbeat ended with a panic");
            }
        }
        // Only tidiness: a file without a lock means the same.
        drop(std::fs::remove_file(self.folder.join(&self.name)));
    }
}

impl Owner {
    /// Makes this process known in `folder` under a name.
    pub(crate) fn claim(folder: &Path, name: &str, timing: Timing) -> Result<Self, Error> {
        let folder = folder.join(OWNERS);
        std::fs::create_dir_all(&folder).map_err(|source| Error::io(&folder, source))?;
        let unusable =
            || std::io::Error::new(ErrorKind::InvalidInput, "the name of a process is one file name");
        let path = lock_file(&folder, name).ok_or_else(|| Error::io(folder.join(name), unusable()))?;
        let io = |source| Error::io(&path, source);
        let file = lock(&path).map_err(io)?;
        match write_time(&file) {
            // The lock says enough, and whoever wants to free space must be able to look at what is there.
            Err(error) if is_full(&error) => {
                tracing::warn!(error = error.to_string(), "the heartbeat cannot be written");
            }
            written => written.map_err(io)?,
        }
        let file = Arc::new(file);
        let (stop, stopped) = channel::<()>();
        let beating = Arc::clone(&file);
        let thread = std::thread::Builder::new()
            .name("store-heartbeat".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(timing.beat) == Err(RecvTimeoutError::Timeout) {
                    if let Err(error) = write_time(&beating) {
                        tracing::warn!(error = error.to_string(), "the heartbeat cannot be written");
                    }
                }
            })
            .map_err(io)?;
        let beat = Some((stop, thread));
        let patience = timing.patience;
        let last_beats = Mutex::default();
        Ok(Self(Arc::new(OwnerClaim {
            name: name.to_owned(),
            folder,
            patience,
            _file: file,
            beat,
            last_beats,
        })))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// True when the process of that name is surely gone.
    pub(crate) fn is_dead(&self, name: &str) -> bool {
        let beat = lock_file(&self.0.folder, name).and_then(|path| written(&path));
        let dead = is_nobody(&self.0.folder, name);
        if let (true, Some(beat)) = (dead, beat) {
            self.last_beats().entry(name.to_owned()).or_insert(beat);
        }
        dead
    }

    /// When a process that was found dead or silent last said that it lives.
    pub(crate) fn last_beat(&self, name: &str) -> Option<Millis> {
        let known = self.last_beats().get(name).copied();
        known.or_else(|| written(&lock_file(&self.0.folder, name)?))
    }

    fn last_beats(&self) -> MutexGuard<'_, HashMap<String, Millis>> {
        self.0.last_beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the process of that name is gone, or stopped and silent for too long.
    pub(crate) fn has_lost(&self, name: &str) -> bool {
        self.is_dead(name) || self.is_silent(name)
    }

    fn is_silent(&self, name: &str) -> bool {
        let Some(path) = lock_file(&self.0.folder, name) else { return false };
        let Ok(text) = std::fs::read_to_string(path) else { return false };
        let Ok(beat) = text.trim().parse::<u128>() else { return false };
        now().saturating_sub(beat) > self.0.patience.as_millis()
    }
}

/// Whether the process of that name, which uses the same folder, is surely gone.
pub(crate) fn is_dead(folder: &Path, name: &str) -> bool {
    is_nobody(&folder.join(OWNERS), name)
}

/// The file by which a process of that name is known. None for a name that leads elsewhere: names come out of a database,
/// which may be damaged or somebody else's.
fn lock_file(owners: &Path, name: &str) -> Option<PathBuf> {
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(first)) if first == name);
    (plain && components.next().is_none()).then(|| owners.join(name))
}

/// Whether no process of that name lives. A name that no process can have is nobody's.
fn is_nobody(owners: &Path, name: &str) -> bool {
    lock_file(owners, name).is_none_or(|path| is_free(&path))
}

/// A process that uses the folder, if there is one.
pub(crate) fn living(folder: &Path) -> Result<Option<String>, Error> {
    let folder = folder.join(OWNERS);
    let io = |source| Error::io(&folder, source);
    let files = match std::fs::read_dir(&folder) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    for file in files {
        let file = file.map_err(io)?;
        // Others may look at the same time, and hold the lock for a moment.
        let mut left = TRIES;
        while !is_free(&file.path()) {
            if left == 0 {
                return Ok(Some(file.file_name().to_string_lossy().into_owned()));
            }
            left -= 1;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(None)
}

/// The process of that name, which uses the same folder, in words by which a person finds it: its number, or else its
/// lock.
pub(crate) fn describe(folder: &Path, name: &str) -> String {
    let path = folder.join(OWNERS).join(name);
    let holder = std::fs::metadata(&path).ok().and_then(|file| {
        let locks = std::fs::read_to_string(LOCKS).ok()?;
        find_holder(&locks, &format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino()))
    });
    match holder {
        Some(pid) => format!("process {pid}, {name}"),
        None => format!("{name}, the process that holds a lock on {}", path.display()),
    }
}

/// The number of the process that holds the lock of a file, in the kernel's list of locks. A process that cannot be seen
/// from here is not in it, and some file systems give their files other numbers there.
fn find_holder(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, place, ..] if *place == file => pid.parse().ok().filter(|pid| *pid != 0),
            _ => None,
        }
    })
}

/// Whether nobody holds the lock of that file. One that nobody needs any more is removed.
fn is_free(path: &Path) -> bool {
    match OpenOptions::new().write(true).open(path) {
        // A name that no file can have is no process's either.
        Err(error) => matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::InvalidInput
                | ErrorKind::InvalidFilename
                | ErrorKind::IsADirectory
        ),
        Ok(file) => {
            let free = file.try_lock().is_ok();
            if free {
                drop(std::fs::remove_file(path));
            }
            free
        }
    }
}

/// Makes the file and locks it. Whoever looks whether the process is dead may hold the lock for a moment, or remove the
/// file between the two steps: then it is made again.
fn lock(path: &Path) -> std::io::Result<File> {
    let mut left = TRIES;
    loop {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                let own = file.metadata()?;
                if std::fs::metadata(path)
                    .is_ok_and(|found| found.dev() == own.dev() && found.ino() == own.ino())
                {
                    return Ok(file);
                }
            }
            Err(TryLockError::WouldBlock) if left > 0 => {
                left -= 1;
                std::thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let text = "another process has this name; choose another one";
                return Err(std::io::Error::new(ErrorKind::AddrInUse, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Milliseconds of a clock that all processes of the machine share, that nobody can set, and that stands still while
/// the machine sleeps: then nobody could have spoken.
fn now() -> u128 {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
        .as_millis()
}

/// When a file was last written to.
fn written(path: &Path) -> Option<Millis> {
    let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Whether there is no room for what was to be written.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn write_time(file: &File) -> std::io::Result<()> {
    // Always the same length, so that a reader never sees half of an older one.
    file.write_all_at(format!("{:020}\n", now()).as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_although_the_disk_is_full() {
        // No command opened a store then, so nothing could be looked at to make room.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OWNERS).join("one");
        std::fs::create_dir(folder.path().join(OWNERS)).unwrap();
        // Whatever is written there finds no room.
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let timing = Timing { beat: Duration::from_secs(1000), ..Timing::default() };
        let owner = Owner::claim(folder.path(), "one", timing).unwrap();
        assert_eq!((owner.name(), is_free(&path)), ("one", false));
        drop(owner);
        assert!(!path.is_symlink());
    }

    #[test]
    fn who_holds_a_lock_is_found_by_the_place_of_its_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:00:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fe:00:79 0 EOF\n";
        assert_eq!(find_holder(locks, "fe:00:77"), Some(13));
        for unknown in ["fe:00:7", "fe:00:78", "fe:00:79"] {
            assert_eq!(find_holder(locks, unknown), None, "{unknown}");
        }
    }
    #[test]
    fn a_name_that_leads_elsewhere_is_nobodys() {
        // The file that it led to was removed as the lock of a dead process, the database among them.
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(OWNERS)).unwrap();
        let other = folder.path().join("everturn.db");
        let absolute = other.display().to_string();
        for name in [
            "../everturn.db",
            absolute.as_str(),
            "../owners/../everturn.db",
            "./../everturn.db",
            "",
            ".",
            "..",
        ] {
            std::fs::write(&other, "kept").unwrap();
            assert!(is_dead(folder.path(), name), "{name}");
            assert!(other.exists(), "{name}");
            assert!(Owner::claim(folder.path(), name, Timing::default()).is_err(), "{name}");
        }
        let lock = folder.path().join(OWNERS).join("own_1");
        std::fs::write(&lock, "").unwrap();
        assert!(is_dead(folder.path(), "own_1"));
        assert!(!lock.exists(), "nobody needs it any more");
    }
}
