//! Whether something new says the same as something that was there: `git worktree add` and switching branches make it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::aftermath::Identity;
use super::survey::ProjectSurvey;
use super::survey::{Changed, coarse_time};
use crate::project::{Repository, repository};
use crate::protected_home::HomePlace;

/// How many files and folders of each are compared.
const MOST: usize = 1000;

/// The longest file that is compared.
const LONGEST: u64 = 1024 * 1024;

/// What something in a worktree is to be like: what lies at the same path in the main work tree of the same repository, if
/// that is in the project.
pub(super) fn original(survey: &ProjectSurvey, path: &Path) -> Option<PathBuf> {
    let found = repository(path.parent()?).filter(|found| found.root.starts_with(&survey.root))?;
    let is_own = |own: Repository| own.root == survey.root && own.history == found.history;
    let main = match repository(&survey.root).is_some_and(is_own) {
        true => survey.root.as_path(),
        false => found.history.parent().filter(|_| found.history.ends_with(".git"))?,
    };
    // In a home folder it would take effect, and in the project's own work tree.
    let is_elsewhere = survey.home.place(path) == HomePlace::Ordinary && found.root != survey.root;
    let is_main = found.root == main || !main.starts_with(&survey.root);
    let below = path.strip_prefix(&found.root).ok().filter(|_| is_elsewhere && !is_main)?;
    // A folder that was there may be called a worktree of a stranger's repository.
    let is_new = || !survey.folders.iter().any(|folder| survey.root.join(&folder.path) == found.root);
    let may_be = main == survey.root || survey.names.iter().any(|name| name == path) || is_new();
    may_be.then(|| main.join(below))
}

/// Whether both are there and say the same. What is too much to be compared does not, nor does a link: elsewhere it leads
/// elsewhere.
pub(super) fn is_copy(one: &Path, other: &Path) -> bool {
    let same_text = |one: &SizedFile, other: &SizedFile| {
        content(&one.path).is_some_and(|text| content(&other.path) == Some(text))
    };
    Comparison { room: MOST, same_text }.is_same(one, other)
}

/// One comparison, by a way to compare files of the same length.
struct Comparison<F> {
    /// How many more files and folders are compared.
    room: usize,
    same_text: F,
}

/// A file, as it was when it was looked at.
struct SizedFile {
    path: PathBuf,
    mark: FileMark,
}

/// What tells whether a file is the same as before: what it is, when it was changed last, and how long it is.
type FileMark = (Identity, Changed, u64);

impl SizedFile {
    fn mark(meta: &Metadata) -> FileMark {
        ((meta.dev(), meta.ino()), (meta.ctime(), meta.ctime_nsec()), meta.len())
    }
}

impl<F: FnMut(&SizedFile, &SizedFile) -> bool> Comparison<F> {
    fn is_same(&mut self, one: &Path, other: &Path) -> bool {
        let (Ok(first), Ok(second)) = (fs::symlink_metadata(one), fs::symlink_metadata(other)) else {
            return false;
        };
        let Some(rest) = self.room.checked_sub(1).filter(|_| first.file_type() == second.file_type()) else {
            return false;
        };
        self.room = rest;
        if first.is_dir() {
            let names = |path: &Path| {
                let entries = fs::read_dir(path).ok()?.take(MOST);
                let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
                names.sort();
                Some(names)
            };
            let (Some(names), Some(others)) = (names(one), names(other)) else { return false };
            return names == others
                && names.iter().all(|name| self.is_same(&one.join(name), &other.join(name)));
        }
        let file = |path: &Path, meta| SizedFile { path: path.to_owned(), mark: SizedFile::mark(meta) };
        first.is_file()
            && rights(&first) == rights(&second)
            && first.len() == second.len()
            && first.len() <= LONGEST
            && (self.same_text)(&file(one, &first), &file(other, &second))
    }
}

/// What files held, each by its hash, so that the copies in a project are not read anew for each command.
///
/// Only to tell what need not be mounted: a program can change a file through memory without that showing until it ends.
/// What it has left is always read.
#[derive(Debug, Default)]
pub(super) struct ContentMemory {
    hashes: HashMap<FileMark, blake3::Hash>,
    /// How many files were read.
    reads: usize,
}

/// How many files are remembered.
const MOST_REMEMBERED: usize = 65_536;

impl ContentMemory {
    /// The same as [`is_copy`].
    pub(super) fn is_copy(&mut self, one: &Path, other: &Path) -> bool {
        let same_text = |one: &SizedFile, other: &SizedFile| {
            self.hash(one).is_some_and(|hash| self.hash(other) == Some(hash))
        };
        Comparison { room: MOST, same_text }.is_same(one, other)
    }

    fn hash(&mut self, file: &SizedFile) -> Option<blake3::Hash> {
        if let Some(hash) = self.hashes.get(&file.mark) {
            return Some(*hash);
        }
        let now = coarse_time();
        self.reads += 1;
        let hash = blake3::hash(&content(&file.path)?);
        let (_, changed, _) = file.mark;
        // A change in the same tick of the clock would not show, nor one since it was looked at.
        let meta = fs::symlink_metadata(&file.path).ok()?;
        if changed < now && SizedFile::mark(&meta) == file.mark {
            if self.hashes.len() >= MOST_REMEMBERED {
                self.hashes.clear();
            }
            self.hashes.insert(file.mark, hash);
        }
        Some(hash)
    }
}

/// What decides whether a file can be run, and as whom. The rest goes by who makes it.
fn rights(file: &Metadata) -> (bool, u32) {
    (file.mode() & 0o111 != 0, file.mode() & 0o7000)
}

/// What something held, to be compared with what has taken its place: who switches branches and back makes folders anew.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptContent {
    Link(PathBuf),
    File((bool, u32), Vec<u8>),
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
            Some(Self::File(rights(&this), content(path)?))
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

/// The beginning of a file, as long as the longest that is compared.
pub(super) fn content(path: &Path) -> Option<Vec<u8>> {
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

    #[test]
    fn what_was_read_is_remembered_until_it_changes() {
        // Every copy in 150 worktrees was read for each command.
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::write(path(name), text).unwrap();
            let meta = fs::symlink_metadata(path(name)).unwrap();
            // Until the next tick of the clock a change would not show.
            while coarse_time() <= (meta.ctime(), meta.ctime_nsec()) {
                std::thread::yield_now();
            }
        };
        let mut memory = ContentMemory::default();
        ["a", "b", "c"].iter().for_each(|name| write(name, "one"));
        let mut check = |expected: [bool; 2], reads: usize| {
            let found = ["b", "c"].map(|name| memory.is_copy(&path("a"), &path(name)));
            assert_eq!((found, std::mem::take(&mut memory.reads)), (expected, reads));
        };
        check([true, true], 3);
        check([true, true], 0);
        write("c", "two");
        check([true, false], 1);
        check([true, false], 0);
        write("a", "two");
        check([false, true], 1);
    }
}
