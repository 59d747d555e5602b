//! Which files of ignore rules are read: ordinary ones, and no more than people write.
//!
//! The library that walks folders opens them by itself and reads them to their end. A pipe would be waited for, a device
//! has no end, and each line becomes a pattern that takes many times its size in memory.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

/// The files that hold ignore rules.
const FILES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// The most bytes of rules that are read for one file: those of all folders above it together.
pub(crate) const RULES_MAX: u64 = 64 * 1024;

/// The longest file in which git says where something is.
const POINTER_MAX: u64 = 4096;

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

/// How many bytes of rules a folder has; nothing if one of the files that are read for it is no ordinary one.
fn bytes(open: impl AsFd, folder: &Path) -> Option<u64> {
    let own = FILES.iter().map(|name| size(&open, &folder.join(name))).sum::<Option<u64>>()?;
    Some(own + elsewhere(&open, &folder.join(".git"))?)
}

/// The rules of a worktree or a submodule, whose `.git` is a file that leads to them.
fn elsewhere(open: impl AsFd, git: &Path) -> Option<u64> {
    led_to(open, git)?.map_or(Some(0), |exclude| size(CWD, &exclude))
}

/// Where the rules of a worktree or a submodule are, whose `.git` is a file that leads to them; nothing at all if what
/// says so is not short or not ordinary.
pub(crate) fn led_to(open: impl AsFd, git: &Path) -> Option<Option<PathBuf>> {
    let is_file = |found: rustix::fs::Stat| FileType::from_raw_mode(found.st_mode).is_file();
    if !rustix::fs::statat(&open, git, AtFlags::empty()).is_ok_and(is_file) {
        return Some(None);
    }
    let led = |text: String| text.lines().next()?.strip_prefix("gitdir: ").map(PathBuf::from);
    let Some(led) = pointer(&open, git)?.and_then(led) else { return Some(None) };
    let common = |text: String| text.lines().next().map(|line| led.join(line));
    let common = pointer(CWD, &led.join("commondir"))?.and_then(common);
    Some(common.map(|common| common.join("info/exclude")))
}

/// The rules in a file, none if there is no such file; nothing at all if it is no ordinary one, or has more bytes than
/// `most`. Links are followed: nobody is shown what is read, and people have their rules elsewhere.
pub(crate) fn read(open: impl AsFd, path: &Path, most: u64) -> Option<Vec<u8>> {
    if size(&open, path)? == 0 {
        return Some(Vec::new());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::openat(&open, path, flags, Mode::empty()) else { return Some(Vec::new()) };
    // It may be another one by now.
    let is_file = rustix::fs::fstat(&file).is_ok_and(|now| FileType::from_raw_mode(now.st_mode).is_file());
    let mut rules = Vec::new();
    let read = is_file.then(|| File::from(file).take(most + 1).read_to_end(&mut rules))?;
    (read.is_ok() && rules.len() as u64 <= most).then_some(rules)
}

/// What is in a short file, if there is one; nothing at all if it is not short or not ordinary.
fn pointer(open: impl AsFd, path: &Path) -> Option<Option<String>> {
    if size(&open, path)? > POINTER_MAX {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::openat(&open, path, flags, Mode::empty()) else { return Some(None) };
    let mut text = String::new();
    let read = File::from(file).take(POINTER_MAX).read_to_string(&mut text);
    Some(read.is_ok().then_some(text))
}

/// How large a file is, if there is one; nothing if it is no ordinary one.
fn size(open: impl AsFd, path: &Path) -> Option<u64> {
    match rustix::fs::statat(&open, path, AtFlags::empty()) {
        Ok(found) if FileType::from_raw_mode(found.st_mode).is_file() => u64::try_from(found.st_size).ok(),
        Ok(_) => None,
        Err(_) => Some(0),
    }
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
        let check = |below: &str| are_readable(CWD, folder.path(), Path::new(below));
        fs::write(folder.path().join(".gitignore"), "x\n".repeat(20_000)).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true; 3]);
        // Those above count too.
        fs::write(inner.join(".ignore"), "x\n".repeat(20_000)).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true, true, false]);
        fs::remove_file(inner.join(".ignore")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", inner.join(".gitignore")).unwrap();
        assert_eq!(["", "a", "a/b"].map(check), [true, true, false]);
    }

    #[test]
    fn what_leads_to_rules_is_short() {
        // The first line of a `.git` that is a file was read to its end.
        let folder = tempfile::tempdir().unwrap();
        let (git, led) = (folder.path().join(".git"), folder.path().join("led"));
        let check = || are_readable(CWD, folder.path(), Path::new(""));
        fs::write(&git, format!("gitdir: {}\n", led.display())).unwrap();
        assert!(check());
        fs::create_dir_all(led.join("info")).unwrap();
        fs::write(led.join("commondir"), ".\n").unwrap();
        fs::write(led.join("info/exclude"), "x\n").unwrap();
        assert!(check());
        fs::write(led.join("info/exclude"), "x\n".repeat(50_000)).unwrap();
        assert!(!check());
        fs::write(led.join("commondir"), "x".repeat(5000)).unwrap();
        assert!(!check());
        File::create(&git).unwrap().set_len(1 << 40).unwrap();
        assert!(!check());
    }
}
