//! Content-addressed pictures of a worktree: capture, diff, restore.
//!
//! It is our own code: no git process, and folders without git work as well. Every write is a new file renamed to
//! its place, blobs before the manifest that names them, so a process killed at any moment leaves a store
//! that is complete up to its last tree, and two processes may capture at the same time.
//!
//! An unchanged file costs one `stat`. The index of known files carries the time it was taken; a file whose
//! change time is not older than that is read again, because it may have changed within the clock's tick.
//!
//! Nothing is flushed to the disk on the way: after a power cut the newest tree may be unreadable. Contents
//! are checked against their hash on the way out, so such a loss shows as [`SnapshotError::Corrupt`], never as wrong
//! bytes.
//!
//! All of it blocks; async callers use a blocking thread.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use self::index::FileIndex;
use self::manifest::ManifestEntry;
pub use self::restore::{RestoreReport, SkipReason, SkippedFile, SnapshotPlan};
use self::store::SnapshotStore;
use crate::patch::{FileStatus, PatchHeader, unified};
#[cfg(target_os = "linux")]
use crate::process::sandbox::{ProjectRecording, UnsettledPlaces};

mod index;
mod manifest;
mod restore;
mod rules;
mod store;
mod walk;

/// The longest patch that is handed out; a longer one is left empty, like that of a binary file.
const PATCH_BYTES: usize = 1024 * 1024;

/// How far into a file a NUL makes it binary.
const SNIFF: usize = 8000;

/// Why a snapshot operation did not work.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder concerned.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store has no such tree.
    #[error("no snapshot {0}")]
    Unknown(TreeId),
    /// A file of the store does not hold what its name says.
    #[error("the snapshot store is damaged: {}", .0.display())]
    Corrupt(PathBuf),
    /// The worktree has more files than a snapshot takes.
    #[error("the worktree has more than {0} files, too many for snapshots")]
    TooMany(usize),
    /// The ignore rules of the worktree are no ordinary files, or more than is read.
    #[error("the ignore rules in {} are no ordinary files, or too long", .0.display())]
    Rules(PathBuf),
    /// The root of the file system is not a project.
    #[error("the root of the file system is never captured")]
    Root,
    /// A tree id that is not 40 lower-case hex digits.
    #[error("{0:?} is not a snapshot id")]
    Id(String),
}

impl SnapshotError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// The name of one tree: 40 hex digits made from its content, so equal trees have equal names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TreeId(String);

impl TreeId {
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TreeId {
    type Err = SnapshotError;

    fn from_str(text: &str) -> Result<Self, SnapshotError> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 40 && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SnapshotError::Id(text.to_owned()))
        }
    }
}

impl TryFrom<String> for TreeId {
    type Error = SnapshotError;

    fn try_from(text: String) -> Result<Self, SnapshotError> {
        text.parse()
    }
}

impl From<TreeId> for String {
    fn from(id: TreeId) -> Self {
        id.0
    }
}

/// One file's difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDiff {
    /// The file, relative to the worktree.
    pub file: String,
    /// The patch; empty for binary files and for very long patches.
    pub patch: String,
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// What became of the file.
    pub status: FileStatus,
}

/// What a capture leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// A file larger than this is passed over, unless an earlier capture has it.
    pub file_bytes: u64,
    /// A worktree with more files than this is refused.
    pub files: usize,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { file_bytes: 2 * 1024 * 1024, files: 100_000 }
    }
}

/// The files of a tree by their path relative to the worktree, as bytes, in order.
type FileTree = BTreeMap<Vec<u8>, ManifestEntry>;

/// The snapshots of one worktree.
#[derive(Debug)]
pub struct Snapshots {
    store: SnapshotStore,
    worktree: PathBuf,
    bounds: CaptureLimits,
    /// Folders that are never part of a tree, nor put back: the store's own, and one of whoever uses this.
    private: Vec<PathBuf>,
    index: Mutex<FileIndex>,
}

impl Snapshots {
    /// Opens the store in `dir`, making it if it does not exist, for one worktree.
    ///
    /// A store serves one worktree; several processes may have it open.
    pub fn open(dir: impl Into<PathBuf>, worktree: impl Into<PathBuf>) -> Result<Self, SnapshotError> {
        Self::with_bounds(dir, worktree, CaptureLimits::default())
    }

    /// The same with other bounds than the usual ones.
    pub fn with_bounds(
        dir: impl Into<PathBuf>,
        worktree: impl Into<PathBuf>,
        bounds: CaptureLimits,
    ) -> Result<Self, SnapshotError> {
        let worktree: PathBuf = worktree.into();
        if worktree.parent().is_none() {
            return Err(SnapshotError::Root);
        }
        let store = SnapshotStore::open(dir.into())?;
        let index = FileIndex::load(&store);
        let private = vec![store.dir().to_owned()];
        Ok(Self { store, worktree, bounds, private, index: Mutex::new(index) })
    }

    /// The same without a folder: what is in it is neither recorded nor put back.
    #[must_use]
    pub fn without(mut self, folder: impl Into<PathBuf>) -> Self {
        self.private.push(folder.into());
        self
    }

    /// Stores the worktree as it is now.
    ///
    /// Ignored files, `.git` and files too large are left out. A file that cannot be read is left out too. What a
    /// program of an agent that still runs may have made at a protected place is marked, and never put back.
    pub fn capture(&self) -> Result<TreeId, SnapshotError> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(target_os = "linux")]
        let recording = ProjectRecording::begin(&self.worktree);
        #[allow(unused_mut, reason = "elsewhere nothing runs in a sandbox")]
        let mut tree = walk::capture(&self.store, &self.worktree, &self.private, self.bounds, &mut index)?;
        #[cfg(target_os = "linux")]
        mark_unsettled(&mut tree, &recording.end());
        self.store.put_tree(&tree)
    }

    /// The files that differ between two trees, as absolute paths in order.
    pub fn changed(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathBuf>, SnapshotError> {
        if from == to {
            return Ok(Vec::new());
        }
        let changes = changes(self.store.tree(from)?, self.store.tree(to)?);
        Ok(changes.iter().map(|change| self.worktree.join(OsStr::from_bytes(&change.path))).collect())
    }

    /// The differences between two trees, in the order of their paths.
    pub fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<TreeDiff>, SnapshotError> {
        if from == to {
            return Ok(Vec::new());
        }
        changes(self.store.tree(from)?, self.store.tree(to)?)
            .iter()
            .map(|change| self.file_diff(change))
            .collect()
    }

    /// The content of one file in a tree: its bytes, or a link's target. Nothing if the tree lacks it.
    pub fn content(&self, tree: &TreeId, file: &Path) -> Result<Option<Vec<u8>>, SnapshotError> {
        let file = file.strip_prefix(&self.worktree).unwrap_or(file);
        let tree = self.store.tree(tree)?;
        tree.get(file.as_os_str().as_bytes()).map(|entry| self.store.blob(entry.hash)).transpose()
    }

    /// Puts files back as a plan says, and reports what it did.
    ///
    /// Only files that are still as the plan expects are touched: what a person changed since stays. What a program
    /// may have made at a protected place is not put there again. Doing the same plan again after a crash completes it.
    pub fn restore(&self, plan: &SnapshotPlan) -> Result<RestoreReport, SnapshotError> {
        restore::restore(&self.store, &self.worktree, &self.private, plan)
    }

    fn file_diff(&self, change: &TreeChange) -> Result<TreeDiff, SnapshotError> {
        let status = match (&change.from, &change.to) {
            (None, _) => FileStatus::Added,
            (_, None) => FileStatus::Deleted,
            _ => FileStatus::Modified,
        };
        let side = |entry: &Option<ManifestEntry>| match entry {
            Some(entry) => self.store.blob(entry.hash),
            None => Ok(Vec::new()),
        };
        let file = String::from_utf8_lossy(&change.path).into_owned();
        let (from, to) = (side(&change.from)?, side(&change.to)?);
        if binary(&from) || binary(&to) {
            return Ok(TreeDiff { file, patch: String::new(), additions: 0, deletions: 0, status });
        }
        let (from, to) = (String::from_utf8_lossy(&from), String::from_utf8_lossy(&to));
        let patch = unified(&file, &from, &to, PatchHeader::Tabbed);
        let text = if patch.text.len() > PATCH_BYTES { String::new() } else { patch.text };
        Ok(TreeDiff { file, patch: text, additions: patch.additions, deletions: patch.deletions, status })
    }
}

/// Marks what programs of agents that still run may have made at protected places.
#[cfg(target_os = "linux")]
fn mark_unsettled(tree: &mut FileTree, places: &UnsettledPlaces) {
    if places.is_empty() {
        return;
    }
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    let marked: Vec<Vec<u8>> = tree.keys().filter(|file| places.has(path(file))).cloned().collect();
    for file in marked {
        tree.entry(file).and_modify(|entry| *entry = entry.unsettled());
    }
}

/// A file that differs between two trees.
#[derive(Debug)]
struct TreeChange {
    path: Vec<u8>,
    from: Option<ManifestEntry>,
    to: Option<ManifestEntry>,
}

fn changes(from: FileTree, mut to: FileTree) -> Vec<TreeChange> {
    let mut changes: Vec<TreeChange> = from
        .into_iter()
        .filter_map(|(path, from)| {
            let to = to.remove(&path);
            (to.map(ManifestEntry::unmarked) != Some(from.unmarked())).then_some(TreeChange {
                path,
                from: Some(from),
                to,
            })
        })
        .collect();
    changes.extend(to.into_iter().map(|(path, to)| TreeChange { path, from: None, to: Some(to) }));
    changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    changes
}

fn binary(content: &[u8]) -> bool {
    content.iter().take(SNIFF).any(|byte| *byte == 0)
}
