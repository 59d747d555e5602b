//! The locks on SQLite's files, which nothing else in this process can drop.
//!
//! SQLite locks its files with POSIX record locks. Those belong to the process: all of them on a file are gone as soon as the
//! process closes any descriptor of that file, whoever had opened it and for whatever. A search or a snapshot of a folder
//! with a database in it is enough. Then the next process takes the database for unused and deletes the write-ahead log
//! under whoever works with it, and what is committed from then on is lost.
//!
//! So what SQLite asks for becomes locks of an open file description, which go with that alone: each file of a database has
//! one, and all connections of this process lock by it. Other programs see these locks as they see the usual ones.

#![allow(unsafe_code, reason = "SQLite takes its system calls only as C functions")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rusqlite::ffi;

/// A file: its device and its inode.
type FileId = (libc::dev_t, libc::ino_t);

/// The description that has this process's locks on a file.
struct LockedFile {
    description: OwnedFd,
    /// SQLite's descriptors of the file that have asked for a lock and are open still.
    users: BTreeSet<RawFd>,
}

static LOCKED: Mutex<BTreeMap<FileId, LockedFile>> = Mutex::new(BTreeMap::new());

static INSTALLED: Once = Once::new();

type Call = unsafe extern "C" fn();

/// Has SQLite lock its files this way, from its next connection on. Every place that opens one calls this before.
pub(crate) fn install() {
    INSTALLED.call_once(|| {
        let calls: [(&CStr, Call); 2] = [
            // SAFETY: SQLite calls both with the arguments of the system calls of these names. On the systems that this is
            // built for, the third argument of `fcntl` is passed as that of any other function.
            (c"fcntl", unsafe {
                transmute::<unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int, Call>(fcntl)
            }),
            // SAFETY: as above.
            (c"close", unsafe { transmute::<unsafe extern "C" fn(c_int) -> c_int, Call>(close) }),
        ];
        // SAFETY: the first call starts SQLite, and its default VFS lives as long as the process.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        // SAFETY: see above; it is null where there is none.
        let set = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall);
        for (name, call) in calls {
            // SAFETY: the function is of this VFS, the name ends with a zero, and the call is there for ever.
            let code = set.map(|set| unsafe { set(vfs, name.as_ptr(), Some(call)) });
            if code != Some(ffi::SQLITE_OK) {
                tracing::error!(
                    ?code,
                    "SQLite does not take the locks that are safe from other users of its files"
                );
            }
        }
    });
}

fn locked() -> MutexGuard<'static, BTreeMap<FileId, LockedFile>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// SQLite's `fcntl`.
unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let own = match command {
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_GETLK => libc::F_OFD_GETLK,
        // SAFETY: passed on as it came.
        _ => return unsafe { libc::fcntl(descriptor, command, argument) },
    };
    let mut files = locked();
    let Some(description) = description(&mut files, descriptor) else {
        // SAFETY: passed on as it came.
        return unsafe { libc::fcntl(descriptor, command, argument) };
    };
    let lock = argument.cast::<libc::flock>();
    // SAFETY: with these commands SQLite passes a lock of its own, in which no process may be named. The description is open
    // while the table is held.
    unsafe {
        (*lock).l_pid = 0;
        libc::fcntl(description, own, lock)
    }
}

/// SQLite's `close`. It closes no file on which this process still needs a lock.
unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    locked().retain(|_, file| {
        if file.users.remove(&descriptor) && file.users.is_empty() {
            release(&file.description);
            return false;
        }
        true
    });
    // SAFETY: passed on as it came. After the table, because the number may be another file's from then on.
    unsafe { libc::close(descriptor) }
}

/// Drops all locks of a description: a child that is about to be another program may have it too for a moment.
fn release(description: &OwnedFd) {
    // SAFETY: a lock is plain numbers, and zeros are all of the file.
    let mut all: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    all.l_type = UNLOCK;
    // SAFETY: the description is open, and the lock is ours.
    unsafe { libc::fcntl(description.as_raw_fd(), libc::F_OFD_SETLK, ptr::from_mut(&mut all)) };
}

/// That there is no lock, in the type in which a lock has that.
#[expect(clippy::cast_possible_truncation, reason = "small constants, of another type in each header")]
const UNLOCK: libc::c_short = libc::F_UNLCK as libc::c_short;

/// The description that has the locks on the file of a descriptor.
fn description(files: &mut BTreeMap<FileId, LockedFile>, descriptor: RawFd) -> Option<RawFd> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: SQLite's descriptor is open, and there is room for the answer.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was filled in.
    let status = unsafe { status.assume_init() };
    let id = (status.st_dev, status.st_ino);
    if let Some(file) = files.get_mut(&id) {
        file.users.insert(descriptor);
        return Some(file.description.as_raw_fd());
    }
    let description = reopened(descriptor).or_else(|| duplicate(descriptor))?;
    let raw = description.as_raw_fd();
    files.insert(id, LockedFile { description, users: BTreeSet::from([descriptor]) });
    Some(raw)
}

/// The same file, so that it can be locked for reading and for writing, whatever the first descriptor was opened for.
fn reopened(descriptor: RawFd) -> Option<OwnedFd> {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{descriptor}")).ok()?;
    // SAFETY: the path ends with a zero.
    let opened = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    // SAFETY: nobody else has it.
    (opened >= 0).then(|| unsafe { OwnedFd::from_raw_fd(opened) })
}

fn duplicate(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: SQLite's descriptor is open.
    let duplicate = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: nobody else has it.
    (duplicate >= 0).then(|| unsafe { OwnedFd::from_raw_fd(duplicate) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rusqlite::Connection;

    use super::*;

    /// Whether a description that nobody else has may lock a byte of a file.
    fn is_free(path: &std::path::Path, byte: libc::off_t) -> bool {
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: plain numbers.
        let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
        (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK.try_into().unwrap(), byte, 1);
        // SAFETY: the file is open, and the lock is ours.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, ptr::from_mut(&mut lock)) == 0 }
    }

    /// A byte of the file that everybody who uses a database in WAL mode locks, and one of its shared memory.
    const SHARED: libc::off_t = 0x4000_0000 + 2;
    const DEAD_MAN: libc::off_t = 128;

    #[test]
    fn no_other_use_of_the_files_drops_a_lock_and_the_last_connection_does() {
        install();
        let folder = tempfile::tempdir().unwrap();
        let (database, memory) = (folder.path().join("a.db"), folder.path().join("a.db-shm"));
        let open = || {
            let connection = Connection::open(&database).unwrap();
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
            connection
        };
        let first = open();
        first.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1);").unwrap();
        let second = open();
        second.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        let held = || [is_free(&database, SHARED), is_free(&memory, DEAD_MAN)];
        assert_eq!(held(), [false, false]);
        for file in [&database, &memory] {
            drop(File::open(file).unwrap());
            drop(std::fs::read(file).unwrap());
        }
        assert_eq!(held(), [false, false]);
        drop(first);
        assert_eq!(held(), [false, false], "another connection has them");
        second.execute_batch("INSERT INTO t VALUES (2);").unwrap();
        drop(second);
        assert!(is_free(&database, SHARED) && !memory.exists(), "the last one has cleaned up");
        let id = {
            use std::os::unix::fs::MetadataExt as _;
            let found = std::fs::metadata(&database).unwrap();
            (found.dev(), found.ino())
        };
        assert!(!locked().contains_key(&id), "nothing is kept of it");
    }
}
