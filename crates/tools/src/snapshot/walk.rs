//! The walk over a worktree that a capture is made of.
//!
//! Programs of agents may run meanwhile and put links where folders were. So the worktree is opened once, every folder
//! is opened from there without following a link, and its files are looked at and read by their names in it: what is
//! recorded lay in the worktree, whatever a path leads to by then.
//!
//! Gitignore rules hold whether or not the folder is a git repository; `.git` itself, our own half-written
//! files and private folders inside the worktree are never part of a tree. Files come and go while the walk goes on:
//! one that vanishes was not there, one that changes under the reader is read again.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::index::{FileIndex, FileStat};
use super::manifest::ManifestEntry;
use super::rules::{FolderRules, GITIGNORE, RuleFiles};
use super::store::SnapshotStore;
use super::{CaptureLimits, FileTree, SnapshotError, manifest};
use crate::folder::OpenFolder;
use crate::regular_file::OpenError;
use crate::replacement::STAGED;

/// How often a file that changes while it is read is tried.
const TRIES: usize = 3;

/// Captures every file into the store and returns the tree; `index` becomes that of this capture.
pub(super) fn capture(
    store: &SnapshotStore,
    worktree: &Path,
    private: &[PathBuf],
    bounds: CaptureLimits,
    index: &mut FileIndex,
) -> Result<FileTree, SnapshotError> {
    let mut next = FileIndex::new(store.now()?, index.len());
    let mut tree = FileTree::new();
    let mut reused = 0_usize;
    let mut walk = WorktreeWalk::begin(worktree, private)?;
    while let Some(found) = walk.next_folder()? {
        for name in &found.files {
            let Ok(stat) = found.folder.stat(name).map(|stat| FileStat::of(&stat)) else { continue };
            if manifest::mode(stat.mode).is_none() {
                continue;
            }
            let path = found.below.join(name).into_os_string().into_encoded_bytes();
            if let Some(entry) = index.unchanged(&path, &stat) {
                reused += 1;
                next.insert(path.clone(), stat, entry);
                tree.insert(path, entry);
            } else if (stat.size <= bounds.file_bytes || index.knows(&path))
                && let Some((stat, entry)) = take(store, &found.folder, name)?
            {
                next.insert(path.clone(), stat, entry);
                tree.insert(path, entry);
            }
            if tree.len() > bounds.files {
                return Err(SnapshotError::TooMany(bounds.files));
            }
        }
    }
    let same = reused == index.len() && reused == next.len();
    if !same {
        next.save(store);
    }
    *index = next;
    Ok(tree)
}

/// Stores one file as it is now; nothing if it vanished, cannot be read, or does not hold still.
fn take(
    store: &SnapshotStore,
    folder: &OpenFolder,
    name: &OsStr,
) -> Result<Option<(FileStat, ManifestEntry)>, SnapshotError> {
    for _ in 0..TRIES {
        let Ok((stat, content)) = read(folder, name) else { return Ok(None) };
        let Some(mode) = manifest::mode(stat.mode) else { return Ok(None) };
        let still = folder.stat(name).is_ok_and(|now| FileStat::of(&now) == stat);
        if still {
            let hash = store.put_blob(&content)?;
            return Ok(Some((stat, ManifestEntry { mode, size: content.len() as u64, hash })));
        }
    }
    tracing::debug!(name = %name.display(), "kept changing during a snapshot");
    Ok(None)
}

/// What `stat` says of a file, and the content that went with it.
fn read(folder: &OpenFolder, name: &OsStr) -> io::Result<(FileStat, Vec<u8>)> {
    let stat = FileStat::of(&folder.stat(name)?);
    if manifest::is_link(stat.mode) {
        return Ok((stat, folder.read_link(name)?));
    }
    let (file, _) = folder.open(name).map_err(|error| match error {
        OpenError::Io(error) => error,
        OpenError::Special(_) | OpenError::TooLarge(_) => io::ErrorKind::InvalidInput.into(),
    })?;
    let mut content = Vec::new();
    // Of a file that grows meanwhile no more is needed to see that it does not hold still.
    file.take(stat.size + 1).read_to_end(&mut content)?;
    Ok((stat, content))
}

/// What a tree would record of a file now, without storing it; nothing if there is none.
pub(super) fn present(folder: &OpenFolder, name: &OsStr) -> io::Result<Option<ManifestEntry>> {
    match read(folder, name) {
        Ok((stat, content)) => Ok(manifest::mode(stat.mode).map(|mode| ManifestEntry {
            mode,
            size: content.len() as u64,
            hash: blake3::hash(&content),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the ignore rules, as they are now, leave a file out of trees.
pub(super) fn ignored(root: &OpenFolder, relative: &Path) -> bool {
    let mut folders: Vec<&Path> = relative.ancestors().skip(1).collect();
    folders.reverse();
    let mut rules = FolderRules::default();
    for (depth, below) in folders.iter().enumerate() {
        let folder = match root.beneath(below) {
            Ok(folder) => folder,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        // No capture has looked into a folder whose rules cannot be read.
        let Some(here) = rules.enter(&folder, below, RuleFiles { own: true, git: true }) else { return true };
        rules = here;
        // A folder that is left out takes everything below with it.
        let (child, is_folder) = folders.get(depth + 1).map_or((relative, false), |next| (*next, true));
        if rules.leave_out(child, is_folder) {
            return true;
        }
    }
    false
}

/// A worktree that is being walked.
#[derive(Debug)]
struct WorktreeWalk<'a> {
    worktree: &'a Path,
    /// Folders that are not looked into.
    private: &'a [PathBuf],
    root: OpenFolder,
    /// The folders that are still to be looked into, below the worktree, with the rules above each.
    ahead: Vec<(PathBuf, FolderRules)>,
}

/// A folder of the worktree, with its files that are not left out.
#[derive(Debug)]
struct WalkedFolder {
    below: PathBuf,
    folder: OpenFolder,
    files: Vec<OsString>,
}

impl<'a> WorktreeWalk<'a> {
    fn begin(worktree: &'a Path, private: &'a [PathBuf]) -> Result<Self, SnapshotError> {
        let root = OpenFolder::at(worktree).map_err(SnapshotError::io(worktree))?;
        Ok(Self { worktree, private, root, ahead: vec![(PathBuf::new(), FolderRules::default())] })
    }

    /// The next folder; none when all were looked into.
    fn next_folder(&mut self) -> Result<Option<WalkedFolder>, SnapshotError> {
        while let Some((below, above)) = self.ahead.pop() {
            let is_root = below.as_os_str().is_empty();
            let listed = self.root.beneath(&below).and_then(|folder| Ok((folder.names()?, folder)));
            let (names, folder) = match listed {
                Ok(listed) => listed,
                // Without the worktree itself there is nothing to capture; any other folder is passed over.
                Err(source) if is_root => {
                    return Err(SnapshotError::Io { path: self.worktree.to_owned(), source });
                }
                Err(error) => {
                    tracing::debug!(folder = %below.display(), %error, "passed over in a snapshot");
                    continue;
                }
            };
            let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted);
            let rule_files = RuleFiles { own: has(GITIGNORE), git: has(".git") };
            let Some(rules) = above.enter(&folder, &below, rule_files) else {
                if is_root {
                    return Err(SnapshotError::Rules(self.worktree.to_owned()));
                }
                continue;
            };
            let mut files = Vec::new();
            for (name, is_folder) in names {
                let path = below.join(&name);
                if name == ".git"
                    || name.as_bytes().starts_with(STAGED.as_bytes())
                    || rules.leave_out(&path, is_folder)
                {
                    continue;
                }
                if !is_folder {
                    files.push(name);
                } else if !self.private.contains(&self.worktree.join(&path)) {
                    self.ahead.push((path, rules.clone()));
                }
            }
            return Ok(Some(WalkedFolder { below, folder, files }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A worktree with `d/key`, and a folder outside that has another `key`.
    fn worktree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let (worktree, outside) = (base.path().join("worktree"), base.path().join("outside"));
        fs::create_dir_all(worktree.join("d")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(worktree.join("d/key"), "own").unwrap();
        fs::write(outside.join("key"), "secret").unwrap();
        (base, worktree, outside)
    }

    /// Puts a link in the place of a folder.
    fn swap(worktree: &Path, outside: &Path) {
        fs::rename(worktree.join("d"), worktree.join("moved")).unwrap();
        symlink(outside, worktree.join("d")).unwrap();
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_listed_folder_leads_nowhere() {
        // Files were read by path after their folder was listed, so the file of the same name outside was recorded.
        let (base, worktree, outside) = worktree();
        let store = SnapshotStore::open(base.path().join("store")).unwrap();
        let private = [store.dir().to_owned()];
        let mut walk = WorktreeWalk::begin(&worktree, &private).unwrap();
        assert_eq!(walk.next_folder().unwrap().unwrap().files, [] as [&str; 0]);
        let found = walk.next_folder().unwrap().unwrap();
        assert_eq!((found.below.as_path(), &*found.files), (Path::new("d"), &["key".into()] as &[OsString]));
        swap(&worktree, &outside);
        let (_, entry) = take(&store, &found.folder, OsStr::new("key")).unwrap().unwrap();
        assert_eq!(entry.hash, blake3::hash(b"own"));
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_folder_ahead_is_passed_over() {
        let (base, worktree, outside) = worktree();
        let store = base.path().join("store");
        let private = [store];
        let mut walk = WorktreeWalk::begin(&worktree, &private).unwrap();
        walk.next_folder().unwrap().unwrap();
        swap(&worktree, &outside);
        assert!(walk.next_folder().unwrap().is_none());
        // The same for the rules that say whether a file may be removed.
        assert!(ignored(&walk.root, Path::new("d/key")));
        assert!(!ignored(&walk.root, Path::new("moved/key")));
    }
}
