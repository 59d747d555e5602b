//! Files that tools made while programs run. A person has permitted them, so what is at a protected name because of them
//! is not those programs'.
//!
//! They are written down in a file without a name that the supervisor of each program holds as well: it reads them when
//! nothing of the program runs any more, also where nobody is left to be asked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FileType, MemfdFlags, lstat, memfd_create};
use serde::{Deserialize, Serialize};

use super::aftermath::{changed, identity};
use super::exact_path;
use super::likeness::content;
use super::watched::{SeenThing, Sight, all_in, is_as_seen};

/// Such a file, as it was when it had been made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeFile {
    #[serde(with = "exact_path")]
    path: PathBuf,
    seen: SeenThing,
    /// A hash of what it held: whoever had mapped it can change that without its showing otherwise.
    held: [u8; 32],
}

impl MadeFile {
    /// What is at a path. A program can have changed it already, so it must hold what was written.
    fn of(path: &Path, written: &[u8]) -> Option<Self> {
        let seen = Sight::new().see(path);
        let is_whole = content(path).is_some_and(|held| held == written) && is_as_seen(path, seen);
        let held = blake3::hash(written).into();
        seen.filter(|_| is_whole).map(|seen| Self { path: path.to_owned(), seen, held })
    }
}

/// Where they are written down: one JSON value on each line.
#[derive(Debug)]
pub(in crate::process) struct MadeRecord(Mutex<File>);

impl MadeRecord {
    pub(in crate::process) fn new() -> io::Result<Self> {
        let file = memfd_create("everturn-made", MemfdFlags::CLOEXEC)?;
        Ok(Self(Mutex::new(file.into())))
    }

    /// What the supervisor is given.
    pub(in crate::process) fn share(&self) -> io::Result<OwnedFd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_clone().map(OwnedFd::from)
    }

    /// Adds what is at a path.
    pub(super) fn add(&self, path: &Path, written: &[u8]) {
        let line = MadeFile::of(path, written).and_then(|made| serde_json::to_vec(&made).ok());
        let Some(mut line) = line else { return };
        line.push(b'\n');
        // Without room for it, the file gets another name in the end.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).ok();
    }
}

/// Files that tools made, each as it was then.
#[derive(Debug, Default)]
pub(in crate::process) struct MadeFiles(HashMap<PathBuf, MadeFile>);

impl MadeFiles {
    /// What is written down. Nothing if it cannot be read.
    pub(in crate::process) fn read(record: OwnedFd) -> Self {
        let record = File::from(record);
        let length = record.metadata().map_or(0, |meta| usize::try_from(meta.len()).unwrap_or_default());
        let mut text = vec![0; length];
        // Not from where whoever writes is.
        if record.read_exact_at(&mut text, 0).is_err() {
            return Self::default();
        }
        let lines = text.split(|byte| *byte == b'\n');
        let made = lines.filter_map(|line| serde_json::from_slice::<MadeFile>(line).ok());
        Self(made.map(|made| (made.path.clone(), made)).collect())
    }

    /// Whether something is one of them as it was, or a folder in which there is nothing else.
    pub(super) fn are_all_at(&self, path: &Path) -> bool {
        let see = |path: &Path| {
            let this = lstat(path).ok()?;
            let seen = (identity(&this), changed(&this));
            let is_made = || {
                let made = self.0.get(path).filter(|made| made.seen == seen)?;
                (blake3::hash(&content(path)?) == made.held).then_some(())
            };
            (FileType::from_raw_mode(this.st_mode).is_dir() || is_made().is_some()).then_some(seen)
        };
        self.0.keys().any(|made| made.starts_with(path)) && all_in(path, see).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_count_as_long_as_they_are_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("made/inner")).unwrap();
        fs::create_dir_all(path("empty")).unwrap();
        let made = MadeRecord::new().unwrap();
        for (name, held) in [("made/inner/one", "mine"), ("made/two", "mine"), ("other", "a program's")] {
            fs::write(path(name), held).unwrap();
            made.add(&path(name), b"mine");
        }
        let check = |expected: [bool; 4]| {
            let names = ["made", "made/two", "other", "empty"];
            assert_eq!(
                names.map(|name| MadeFiles::read(made.share().unwrap()).are_all_at(&path(name))),
                expected
            );
        };
        check([true, true, false, false]);
        fs::write(path("made/inner/one"), "mine").unwrap();
        check([false, true, false, false]);
        fs::remove_file(path("made/inner/one")).unwrap();
        check([true, true, false, false]);
        std::os::unix::fs::symlink("two", path("made/link")).unwrap();
        check([false, true, false, false]);
    }
}
