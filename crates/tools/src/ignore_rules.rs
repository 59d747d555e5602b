//! Which files of ignore rules are read: ordinary ones, and no more than people write.
//!
//! The library that walks folders opens them by itself and reads them to their end. A pipe would be waited for, a device
//! has no end, and each line becomes a pattern that takes many times its size in memory.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};

/// The files that hold ignore rules.
const FILES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// The most bytes of rules that are read for one file: those of all folders above it together.
const RULES_MAX: u64 = 64 * 1024;

/// Whether the rules of a folder, and with them those of the folders above it, can be read without waiting and without
/// taking much memory. `below` is its path from `root`, which is a path from the folder that is open.
pub(crate) fn are_readable(open: impl AsFd, root: &Path, below: &Path) -> bool {
    match bytes(&open, &root.join(below)) {
        None => false,
        Some(0) => true,
        Some(_) => {
            let all = below.ancestors().map(|folder| bytes(&open, &root.join(folder)));
            all.sum::<Option<u64>>().is_some_and(|all| all <= RULES_MAX)
        }
    }
}

/// How many bytes of rules a folder has; nothing if one of its files is no ordinary one.
fn bytes(open: impl AsFd, folder: &Path) -> Option<u64> {
    let size = |name: &&str| match rustix::fs::statat(&open, folder.join(name), AtFlags::empty()) {
        Ok(found) if FileType::from_raw_mode(found.st_mode).is_file() => u64::try_from(found.st_size).ok(),
        Ok(_) => None,
        Err(_) => Some(0),
    };
    FILES.iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rules_are_ordinary_files_of_no_great_size() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let check = |below: &str| are_readable(rustix::fs::CWD, folder.path(), Path::new(below));
        fs::write(folder.path().join(".gitignore"), "x\n".repeat(20_000)).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true; 3]);
        // Those above count too.
        fs::write(inner.join(".ignore"), "x\n".repeat(20_000)).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true, true, false]);
        fs::remove_file(inner.join(".ignore")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", inner.join(".gitignore")).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true, true, false]);
    }
}
