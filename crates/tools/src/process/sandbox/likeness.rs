//! Whether something new is a copy of something that was there: `git worktree add` and `cp -r` make them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How many files and folders of each are compared.
const MOST: usize = 1000;

/// The longest file that is compared.
const LONGEST: u64 = 1024 * 1024;

/// Whether both are there and have the same content. What is too much to be compared is not the same.
pub(super) fn is_copy(one: &Path, other: &Path) -> bool {
    let mut room = MOST;
    is_same(one, other, &mut room)
}

fn is_same(one: &Path, other: &Path, room: &mut usize) -> bool {
    let (Ok(first), Ok(second)) = (fs::symlink_metadata(one), fs::symlink_metadata(other)) else {
        return false;
    };
    let Some(rest) = room.checked_sub(1).filter(|_| first.file_type() == second.file_type()) else {
        return false;
    };
    *room = rest;
    if first.is_symlink() {
        return fs::read_link(one).ok() == fs::read_link(other).ok();
    }
    if first.is_dir() {
        let names = |path: &Path| {
            let entries = fs::read_dir(path).ok()?.take(MOST);
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            Some(names)
        };
        let (Some(names), Some(others)) = (names(one), names(other)) else { return false };
        return names == others && names.iter().all(|name| is_same(&one.join(name), &other.join(name), room));
    }
    first.is_file()
        && first.len() == second.len()
        && first.len() <= LONGEST
        && content(one).is_some_and(|text| content(other) == Some(text))
}

/// What something held, to be compared with what has taken its place: who switches branches and back makes folders anew.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptContent {
    Link(PathBuf),
    File(Vec<u8>),
    Folder(BTreeMap<OsString, Self>),
}

/// How much is kept of all things together, in bytes, and how much each counts for at least.
pub(super) const MOST_KEPT: usize = 256 * 1024;
const LEAST: usize = 4096;

impl KeptContent {
    /// What is at a path, if there is room for it.
    pub(super) fn of(path: &Path, room: &mut usize) -> Option<Self> {
        let this = fs::symlink_metadata(path).ok()?;
        let length = usize::try_from(this.len()).ok()?.max(LEAST);
        *room = room.checked_sub(length)?;
        if this.is_symlink() {
            Some(Self::Link(fs::read_link(path).ok()?))
        } else if this.is_file() {
            content(path).map(Self::File)
        } else if this.is_dir() {
            let entries = fs::read_dir(path).ok()?.take(MOST).map(|entry| {
                let entry = entry.ok()?;
                Some((entry.file_name(), Self::of(&entry.path(), room)?))
            });
            entries.collect::<Option<_>>().map(Self::Folder)
        } else {
            None
        }
    }

    /// Whether the same is at a path now.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        Self::of(path, &mut MOST_KEPT.clone()).is_some_and(|now| now == *self)
    }
}

fn content(path: &Path) -> Option<Vec<u8>> {
    let file =
        File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/.vscode", "b/.vscode", "c/.vscode", "d/.vscode"] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(name).join("tasks.json"), "{}").unwrap();
        }
        fs::write(path("c/.vscode/tasks.json"), "{ }").unwrap();
        fs::write(path("d/.vscode/more"), "").unwrap();
        for (name, expected) in [("b", true), ("c", false), ("d", false), ("e", false)] {
            assert_eq!(is_copy(&path("a/.vscode"), &path(name).join(".vscode")), expected, "{name}");
        }
        let kept = KeptContent::of(&path("a/.vscode"), &mut MOST_KEPT.clone()).unwrap();
        let like = ["a", "b", "c", "d", "e"].map(|name| kept.is_at(&path(name).join(".vscode")));
        assert_eq!(like, [true, true, false, false, false]);
        assert_eq!(KeptContent::of(&path("a/.vscode"), &mut LEAST.clone()), None);
        std::os::unix::fs::symlink("a/.vscode", path("link")).unwrap();
        assert!(!is_copy(&path("a/.vscode"), &path("link")));
    }
}
