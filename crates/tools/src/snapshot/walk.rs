//! The walk over a worktree that a capture is made of.
//!
//! Gitignore rules hold whether or not the folder is a git repository; `.git` itself, our own half-written
//! files and a store inside the worktree are never part of a tree. Files come and go while the walk goes on:
//! one that vanishes was not there, one that changes under the reader is read again.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::{fs, io};

use ignore::gitignore::GitignoreBuilder;
use ignore::{DirEntry, WalkBuilder};

use super::index::{FileIndex, FileStat};
use super::manifest::ManifestEntry;
use super::store::SnapshotStore;
use super::{CaptureLimits, FileTree, SnapshotError, manifest};
use crate::ignore_rules;
use crate::regular_file::{self, OpenError};
use crate::replacement::STAGED;

/// How often a file that changes while it is read is tried.
const TRIES: usize = 3;

/// Captures every file into the store and returns the tree; `index` becomes that of this capture.
pub(super) fn capture(
    store: &SnapshotStore,
    worktree: &Path,
    bounds: CaptureLimits,
    index: &mut FileIndex,
) -> Result<FileTree, SnapshotError> {
    if !ignore_rules::are_readable(rustix::fs::CWD, worktree, Path::new("")) {
        return Err(SnapshotError::Rules(worktree.to_owned()));
    }
    let mut next = FileIndex::new(store.now()?, index.len());
    let mut tree = FileTree::new();
    let mut reused = 0_usize;
    for found in walker(worktree, store.dir()) {
        let file = match found {
            Ok(file) => file,
            // Without the worktree itself there is nothing to capture; any other folder is passed over.
            Err(error) if error.depth() == Some(0) => {
                let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::NotFound.into());
                return Err(SnapshotError::Io { path: worktree.to_owned(), source });
            }
            Err(error) => {
                tracing::debug!(%error, "passed over in a snapshot");
                continue;
            }
        };
        let Ok(relative) = file.path().strip_prefix(worktree) else { continue };
        let Ok(meta) = fs::symlink_metadata(file.path()) else { continue };
        let stat = FileStat::of(&meta);
        if manifest::mode(stat.mode).is_none() {
            continue;
        }
        let path = relative.as_os_str().as_bytes();
        if let Some(entry) = index.unchanged(path, &stat) {
            reused += 1;
            next.insert(path.to_vec(), stat, entry);
            tree.insert(path.to_vec(), entry);
        } else if (meta.len() <= bounds.file_bytes || index.knows(path))
            && let Some((stat, entry)) = take(store, file.path())?
        {
            next.insert(path.to_vec(), stat, entry);
            tree.insert(path.to_vec(), entry);
        }
        if tree.len() > bounds.files {
            return Err(SnapshotError::TooMany(bounds.files));
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
fn take(store: &SnapshotStore, path: &Path) -> Result<Option<(FileStat, ManifestEntry)>, SnapshotError> {
    for _ in 0..TRIES {
        let Ok((stat, content)) = read(path) else { return Ok(None) };
        let Some(mode) = manifest::mode(stat.mode) else { return Ok(None) };
        let still = fs::symlink_metadata(path).is_ok_and(|meta| FileStat::of(&meta) == stat);
        if still {
            let hash = store.put_blob(&content)?;
            return Ok(Some((stat, ManifestEntry { mode, size: content.len() as u64, hash })));
        }
    }
    tracing::debug!(path = %path.display(), "kept changing during a snapshot");
    Ok(None)
}

/// What `stat` says of a file, and the content that went with it.
fn read(path: &Path) -> io::Result<(FileStat, Vec<u8>)> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok((FileStat::of(&meta), fs::read_link(path)?.into_os_string().into_vec()));
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    let (file, _) = regular_file::open(path).map_err(|error| match error {
        OpenError::Io(error) => error,
        OpenError::Special(_) | OpenError::TooLarge(_) => io::ErrorKind::InvalidInput.into(),
    })?;
    // Of a file that grows meanwhile no more is needed to see that it does not hold still.
    file.take(meta.len() + 1).read_to_end(&mut content)?;
    Ok((FileStat::of(&meta), content))
}

/// What a tree would record of a file now, without storing it; nothing if there is none.
pub(super) fn present(path: &Path) -> io::Result<Option<ManifestEntry>> {
    match read(path) {
        Ok((stat, content)) => Ok(manifest::mode(stat.mode).map(|mode| ManifestEntry {
            mode,
            size: content.len() as u64,
            hash: blake3::hash(&content),
        })),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the ignore rules, as they are now, leave a file out of trees.
pub(super) fn ignored(worktree: &Path, relative: &Path) -> bool {
    let full = worktree.join(relative);
    let mut folders: Vec<&Path> =
        full.ancestors().skip(1).take_while(|dir| dir.starts_with(worktree)).collect();
    folders.reverse();
    // The rules of a deeper folder win; a folder that is left out takes everything below with it.
    let mut verdict = false;
    let mut builders = Vec::new();
    for (depth, folder) in folders.iter().enumerate() {
        let below = folder.strip_prefix(worktree).unwrap_or(folder);
        if !ignore_rules::are_readable(rustix::fs::CWD, worktree, below) {
            // No capture has looked into it.
            return true;
        }
        let mut builder = GitignoreBuilder::new(folder);
        if depth == 0 {
            builder.add(folder.join(".git/info/exclude"));
        }
        builder.add(folder.join(".gitignore"));
        builders.extend(builder.build());
        let (child, is_dir) = folders.get(depth + 1).map_or((&*full, false), |next| (*next, true));
        let decided = builders.iter().rev().map(|rules| rules.matched(child, is_dir)).find(|m| !m.is_none());
        verdict = decided.is_some_and(|m| m.is_ignore());
        if verdict {
            break;
        }
    }
    verdict
}

fn walker(worktree: &Path, store: &Path) -> impl Iterator<Item = Result<DirEntry, ignore::Error>> {
    let (store, root) = (store.to_owned(), worktree.to_owned());
    let is_unreadable = move |entry: &DirEntry| {
        let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        entry.file_type().is_some_and(|kind| kind.is_dir())
            && !ignore_rules::are_readable(rustix::fs::CWD, &root, below)
    };
    let skip = move |entry: &DirEntry| {
        let name = entry.file_name();
        entry.depth() > 0
            && (name == OsStr::new(".git")
                || name.as_bytes().starts_with(STAGED.as_bytes())
                || entry.path() == store
                || is_unreadable(entry))
    };
    WalkBuilder::new(worktree)
        .hidden(false)
        .parents(false)
        .ignore(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(move |entry| !skip(entry))
        .build()
        .filter(|found| !found.as_ref().is_ok_and(|file| file.file_type().is_none_or(|kind| kind.is_dir())))
}
