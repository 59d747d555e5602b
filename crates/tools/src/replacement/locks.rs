//! Locks on files: calls that change the same file do so one after the other within the process.
//!
//! A lock holds exactly its own paths. A call that hangs, on a file system that no longer answers, keeps nobody from
//! other files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static GIVEN_BACK: Condvar = Condvar::new();

/// A lock on some files, until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(BTreeSet<PathBuf>);

impl Drop for FileLock {
    fn drop(&mut self) {
        held().retain(|path| !self.0.contains(path));
        GIVEN_BACK.notify_all();
    }
}

/// Waits for the lock on a file. `real` has its links followed.
pub(crate) fn lock(real: &Path) -> FileLock {
    lock_all([real])
}

/// Waits for the lock on several files. They are taken all at once, so that nobody holds some of them while waiting
/// for someone who holds the others.
pub(crate) fn lock_all<'a>(reals: impl IntoIterator<Item = &'a Path>) -> FileLock {
    let wanted: BTreeSet<PathBuf> = reals.into_iter().map(Path::to_path_buf).collect();
    let mut held = GIVEN_BACK
        .wait_while(held(), |held| !held.is_disjoint(&wanted))
        .unwrap_or_else(PoisonError::into_inner);
    held.extend(wanted.iter().cloned());
    FileLock(wanted)
}

fn held() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_call_that_hangs_keeps_nobody_from_other_files() {
        // Paths fell on 64 locks: of 200 other files about three had to wait as well.
        let hanging = lock(Path::new("/locks/hangs"));
        for at in 0..200 {
            drop(lock(Path::new(&format!("/locks/{at}"))));
        }
        drop(hanging);
    }

    #[test]
    fn one_file_is_changed_by_one_call_at_a_time() {
        let (a, b, c) = (Path::new("/locks/a"), Path::new("/locks/b"), Path::new("/locks/c"));
        let first = lock_all([a, b, a]);
        let (tell, told) = mpsc::channel();
        let waiting = thread::spawn(move || {
            let _lock = lock_all([b, c]);
            tell.send("second").unwrap();
        });
        // What the waiting call wants besides is not held by it.
        drop(lock(c));
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(first);
        assert_eq!(told.recv(), Ok("second"));
        waiting.join().unwrap();
    }
}
