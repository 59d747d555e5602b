//! Files that tools made while programs run. A person has permitted them, so what is at a protected name because of them
//! is not those programs'.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, lstat};
use serde::{Deserialize, Serialize};

use super::aftermath::{changed, identity};
use super::exact_path;
use super::likeness::content;
use super::watched::{SeenThing, Sight, all_in, is_as_seen};

/// Such files, each as it was when it had been made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct MadeFiles(#[serde(with = "exact_path::map")] HashMap<PathBuf, SeenThing>);

impl MadeFiles {
    /// Adds what is at a path. A program can have changed it already, so it must hold what was written.
    pub(super) fn add(&mut self, path: &Path, written: &[u8]) {
        let seen = Sight::new().see(path);
        if content(path).is_some_and(|held| held == written) && is_as_seen(path, seen) {
            self.0.extend(seen.map(|seen| (path.to_owned(), seen)));
        }
    }

    /// Whether something is one of them as it was, or a folder in which there is nothing else.
    pub(super) fn are_all_at(&self, path: &Path) -> bool {
        let see = |path: &Path| {
            let this = lstat(path).ok()?;
            let seen = (identity(&this), changed(&this));
            let is_folder = FileType::from_raw_mode(this.st_mode).is_dir();
            (is_folder || self.0.get(path) == Some(&seen)).then_some(seen)
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
        let mut made = MadeFiles::default();
        for (name, held) in [("made/inner/one", "mine"), ("made/two", "mine"), ("other", "a program's")] {
            fs::write(path(name), held).unwrap();
            made.add(&path(name), b"mine");
        }
        let check = |expected: [bool; 4]| {
            let names = ["made", "made/two", "other", "empty"];
            assert_eq!(names.map(|name| made.are_all_at(&path(name))), expected);
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
