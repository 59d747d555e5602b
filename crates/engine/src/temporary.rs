//! The temporary files of commands: a folder for each session, which its commands have as `/tmp`.
//!
//! They are kept for a while, within a bound for all of them, and go with their session. What is in them was made by
//! commands, which may have made it hard to remove.

use std::fs::{self, DirEntry, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use everturn_model::SessionId;
use rustix::fs::{FlockOperation, flock};

use crate::confinement::folder_name;

/// How many bytes all of them may have when they are looked at. What was changed last stays.
const TEMPORARY_LIMIT: u64 = 4 * 1024 * 1024 * 1024;

/// How often a folder is looked through to remove all that is in it: once for each level.
const MOST_LEVELS: usize = 100_000;

/// Where they are, below a data folder.
pub(crate) fn temporary_in(data: &Path) -> PathBuf {
    data.join("temporary")
}

/// The temporary folders of all sessions.
#[derive(Debug, Clone)]
pub(crate) struct TemporaryFolders {
    folder: PathBuf,
}

/// One of them, as it was found.
#[derive(Debug)]
struct FoundFolder {
    path: PathBuf,
    changed: SystemTime,
    bytes: u64,
}

impl TemporaryFolders {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: temporary_in(data) }
    }

    /// Removes the folders in which nothing was changed since a moment, and of the others while they have more than is
    /// allowed: those that have more by themselves, then the oldest. It says how many. What a program uses stays, and does not
    /// count.
    pub(crate) fn sweep(&self, cutoff: SystemTime) -> usize {
        self.sweep_to(cutoff, TEMPORARY_LIMIT)
    }

    fn sweep_to(&self, cutoff: SystemTime, limit: u64) -> usize {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<FoundFolder> = entries.filter_map(|entry| look_at(&entry).ok()).collect();
        found.sort_by_key(|folder| (folder.bytes <= limit, folder.changed));
        let mut bytes: u128 = found.iter().map(|folder| u128::from(folder.bytes)).sum();
        let mut removed = 0;
        for folder in found {
            if (folder.changed < cutoff || bytes > limit.into()) && remove_unused(&folder.path).is_ok() {
                bytes = bytes.saturating_sub(folder.bytes.into());
                removed += 1;
            }
        }
        removed
    }

    /// Removes the folder of a session that is deleted for good, whoever uses it.
    pub(crate) fn forget(&self, session: &SessionId) -> io::Result<()> {
        let path = self.folder.join(folder_name(session));
        match remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// How large a folder is that no program has, and when something in it was changed last. One that cannot be measured is
/// larger than any.
fn look_at(entry: &DirEntry) -> io::Result<FoundFolder> {
    let path = entry.path();
    let mut changed = fs::symlink_metadata(&path)?.modified()?;
    // Not for as long as it is measured: a program that begins meanwhile could not hold it.
    drop(hold(&path)?);
    for inner in fs::read_dir(&path).into_iter().flatten().flatten() {
        let modified = fs::symlink_metadata(inner.path()).and_then(|meta| meta.modified());
        changed = modified.map_or(changed, |time| time.max(changed));
    }
    let bytes = size(&path).unwrap_or(u64::MAX);
    Ok(FoundFolder { path, changed, bytes })
}

/// Keeps a folder from programs, which hold theirs for as long as they run, until the result is dropped.
fn hold(folder: &Path) -> io::Result<File> {
    open_to_owner(folder)?;
    let held = File::open(folder)?;
    flock(&held, FlockOperation::NonBlockingLockExclusive)?;
    Ok(held)
}

fn remove_unused(folder: &Path) -> io::Result<()> {
    let _held = hold(folder)?;
    remove(folder)
}

fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            // Of a file with holes, what it takes.
            bytes += meta.blocks() * 512;
            if meta.is_dir() {
                next.push(path);
            }
        }
    }
    Ok(bytes)
}

/// Removes a folder, however deep what is in it lies and whatever rights it has: what is two levels down comes up one,
/// so that no path gets long.
fn remove(top: &Path) -> io::Result<()> {
    open_to_owner(top)?;
    let mut number = 0_u64;
    for _ in 0..MOST_LEVELS {
        let mut is_empty = true;
        for entry in fs::read_dir(top)? {
            let entry = entry?;
            is_empty = false;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            open_to_owner(&entry.path())?;
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.file_type()?.is_dir() {
                    open_to_owner(&inner.path())?;
                    lift(&inner.path(), top, &mut number)?;
                } else {
                    fs::remove_file(inner.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if is_empty {
            break;
        }
    }
    fs::remove_dir(top)
}

/// Gives a folder a name in another one that nothing has.
fn lift(folder: &Path, top: &Path, number: &mut u64) -> io::Result<()> {
    loop {
        *number += 1;
        let taken =
            [io::ErrorKind::DirectoryNotEmpty, io::ErrorKind::AlreadyExists, io::ErrorKind::NotADirectory];
        match fs::rename(folder, top.join(format!(".removed-{number}"))) {
            Err(error) if taken.contains(&error.kind()) => {}
            other => return other,
        }
    }
}

/// Gives the owner all rights to a folder.
fn open_to_owner(folder: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(folder)?;
    if meta.is_dir() && meta.mode() & 0o700 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Folders with so many bytes each, the oldest first.
    fn folders(sizes: &[(&str, usize)]) -> (tempfile::TempDir, TemporaryFolders) {
        let data = tempfile::tempdir().unwrap();
        let folders = TemporaryFolders::new(data.path());
        for (age, (name, bytes)) in sizes.iter().enumerate() {
            let folder = folders.folder.join(name);
            fs::create_dir_all(folder.join("inner")).unwrap();
            fs::write(folder.join("inner/file"), vec![1; *bytes]).unwrap();
            let time = UNIX_EPOCH + Duration::from_secs(1000 + age as u64);
            for path in [folder.join("inner"), folder] {
                File::open(path).unwrap().set_modified(time).unwrap();
            }
        }
        (data, folders)
    }

    fn left(folders: &TemporaryFolders) -> Vec<String> {
        let entries = fs::read_dir(&folders.folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_while_all_are_too_large_and_those_in_use_stay() {
        let (_data, folders) = folders(&[("a", 300_000), ("b", 300_000), ("c", 300_000), ("d", 300_000)]);
        assert_eq!(folders.sweep_to(UNIX_EPOCH, 10_000_000), 0);
        let used = File::open(folders.folder.join("a")).unwrap();
        flock(&used, FlockOperation::LockShared).unwrap();
        assert_eq!(folders.sweep_to(UNIX_EPOCH, 700_000), 1);
        assert_eq!(left(&folders), ["a", "c", "d"]);
        assert_eq!(folders.sweep_to(UNIX_EPOCH + Duration::from_secs(1003), 10_000_000), 1);
        assert_eq!(left(&folders), ["a", "d"]);
        drop(used);
        assert_eq!(folders.sweep_to(UNIX_EPOCH, 400_000), 1);
        assert_eq!(left(&folders), ["d"]);
    }

    #[test]
    fn what_cannot_be_measured_is_too_large_and_is_removed_all_the_same() {
        let (_data, folders) = folders(&[("deep", 1), ("small", 1)]);
        let deep = folders.folder.join("deep");
        let long: PathBuf = std::iter::repeat_n("x".repeat(200), 12).collect();
        for _ in 0..3 {
            let below = folders.folder.join("made");
            fs::create_dir_all(below.join(&long)).unwrap();
            fs::rename(deep.join("inner"), below.join(&long).join("inner")).unwrap();
            fs::rename(below, deep.join("inner")).unwrap();
        }
        fs::create_dir_all(deep.join(".removed-1/closed/x")).unwrap();
        fs::set_permissions(deep.join(".removed-1/closed"), Permissions::from_mode(0o0)).unwrap();
        assert!(size(&deep).is_err());
        assert_eq!((folders.sweep_to(UNIX_EPOCH, 1_000_000), left(&folders)), (1, vec!["small".to_owned()]));
    }

    #[test]
    fn the_folder_of_a_session_goes_with_it() {
        let name = |id: &str| folder_name(&SessionId::from(id));
        let (_data, folders) = folders(&[(&name("ses_1"), 1), (&name("ses_2"), 1)]);
        folders.forget(&SessionId::from("ses_1")).unwrap();
        folders.forget(&SessionId::from("ses_3")).unwrap();
        assert_eq!(left(&folders), [name("ses_2")]);
    }
}
