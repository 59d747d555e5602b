//! Putting files back as a tree has them.
//!
//! A restore must never take away what a person did. So each file is compared with what the plan expects
//! right before it is touched, and left alone, with the reason, when it differs. A file that is already as it
//! should be counts as restored, which makes a restore safe to repeat.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::manifest::ManifestEntry;
use super::store::SnapshotStore;
use super::{FileTree, SnapshotError, TreeId, walk};
use crate::replacement::{STAGED, lock, stage};

/// What to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPlan {
    /// The tree that the files are expected to be as in now.
    pub expected: TreeId,
    /// The files, absolute or relative to the worktree, each with the tree to take it from. A file that its
    /// tree lacks is removed.
    pub files: Vec<(PathBuf, TreeId)>,
}

impl SnapshotPlan {
    /// A plan that takes every file from the same tree.
    #[must_use]
    pub fn uniform(expected: TreeId, target: &TreeId, files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { expected, files: files.into_iter().map(|file| (file, target.clone())).collect() }
    }
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Files that are now as planned, as absolute paths.
    pub restored: Vec<PathBuf>,
    /// Files that were left alone.
    pub skipped: Vec<SkippedFile>,
}

/// A file that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The file, as an absolute path.
    pub file: PathBuf,
    /// Why.
    pub why: SkipReason,
}

/// Why a file was left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// It is not as the plan expects.
    #[error("it was changed since")]
    Changed,
    /// It would be removed, but the ignore rules of the restored state leave it out of trees, so the tree's
    /// lack of it says nothing.
    #[error("it is ignored and may have been there before")]
    Ignored,
    /// It does not lie in the worktree, or a link leads out of it.
    #[error("it does not lie in the worktree")]
    Outside,
    /// The file system refused.
    #[error("{0}")]
    Refused(String),
}

/// Carries out a plan.
pub(super) fn restore(
    store: &SnapshotStore,
    worktree: &Path,
    plan: &SnapshotPlan,
) -> Result<RestoreReport, SnapshotError> {
    let expected = store.tree(&plan.expected)?;
    let mut trees: HashMap<&TreeId, FileTree> = HashMap::new();
    let mut work = Vec::new();
    for (file, id) in &plan.files {
        if !trees.contains_key(id) {
            trees.insert(id, store.tree(id)?);
        }
        let relative = file.strip_prefix(worktree).unwrap_or(file);
        let target = trees.get(id).and_then(|tree| tree.get(relative.as_os_str().as_bytes()));
        work.push((relative, target.copied()));
    }
    // Removals make room for folders, but wait for the ignore rules that say which of them to spare.
    work.sort_by_key(|(file, target)| match target {
        _ if file.file_name() == Some(OsStr::new(".gitignore")) => 0,
        None => 1,
        Some(_) => 2,
    });
    let mut report = RestoreReport::default();
    for (relative, target) in work {
        let file = worktree.join(relative);
        let expected = expected.get(relative.as_os_str().as_bytes()).copied();
        let put = RestoredFile { worktree, relative, file: &file, expected };
        let done = match target.map(|target| store.blob(target.hash)).transpose() {
            Ok(content) => put.apply(target.zip(content)),
            Err(error) => Err(SkipReason::Refused(error.to_string())),
        };
        match done {
            Ok(()) => report.restored.push(file),
            Err(why) => report.skipped.push(SkippedFile { file, why }),
        }
    }
    report.restored.sort_unstable();
    report.skipped.sort_unstable_by(|a, b| a.file.cmp(&b.file));
    Ok(report)
}

/// One file to put in place.
#[derive(Debug, Clone, Copy)]
struct RestoredFile<'a> {
    worktree: &'a Path,
    relative: &'a Path,
    file: &'a Path,
    expected: Option<ManifestEntry>,
}

impl RestoredFile<'_> {
    fn apply(self, target: Option<(ManifestEntry, Vec<u8>)>) -> Result<(), SkipReason> {
        let place = self.place()?;
        let _lock = lock(self.file);
        let now = match (place, &target) {
            (Placement::Free, _) => walk::present(self.file).map_err(refused)?,
            // Where a folder stands, or a file has taken a folder's place, there is no such file.
            (Placement::Taken, None) => None,
            (Placement::Taken, Some(_)) => return Err(SkipReason::Changed),
        };
        if now == target.as_ref().map(|(entry, _)| *entry) {
            return Ok(());
        }
        if now != self.expected {
            return Err(SkipReason::Changed);
        }
        match target {
            None if walk::ignored(self.worktree, self.relative) => Err(SkipReason::Ignored),
            None => self.remove(),
            Some((entry, content)) => self.write(entry, &content),
        }
    }

    fn remove(self) -> Result<(), SkipReason> {
        fs::remove_file(self.file).map_err(refused)?;
        // Folders that are empty now came with the file; one that is not refuses to go.
        for folder in self.file.ancestors().skip(1).take_while(|dir| *dir != self.worktree) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn write(self, entry: ManifestEntry, content: &[u8]) -> Result<(), SkipReason> {
        let parent = self.file.parent().unwrap_or(self.worktree);
        fs::create_dir_all(parent).map_err(refused)?;
        if entry.is_link() {
            let folder = tempfile::Builder::new().prefix(STAGED).tempdir_in(parent).map_err(refused)?;
            let link = folder.path().join("link");
            symlink(OsStr::from_bytes(content), &link).map_err(refused)?;
            self.unchanged()?;
            return fs::rename(&link, self.file).map_err(refused);
        }
        let staged = stage(parent, content, Some(entry.permissions())).map_err(refused)?;
        self.unchanged()?;
        staged.persist(self.file).map_err(|error| refused(error.error))?;
        Ok(())
    }

    /// Looks once more, right before the rename.
    fn unchanged(self) -> Result<(), SkipReason> {
        let now = walk::present(self.file).map_err(refused)?;
        if now == self.expected { Ok(()) } else { Err(SkipReason::Changed) }
    }

    /// Looks at the way to the file, refusing one that leaves the worktree as written or through a link.
    fn place(self) -> Result<Placement, SkipReason> {
        let plain = self.relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || self.relative.as_os_str().is_empty() {
            return Err(SkipReason::Outside);
        }
        let mut place = Placement::Free;
        for folder in self.file.ancestors().skip(1).take_while(|dir| *dir != self.worktree) {
            match fs::symlink_metadata(folder) {
                Ok(meta) if meta.is_symlink() => return Err(SkipReason::Outside),
                Ok(meta) if !meta.is_dir() => place = Placement::Taken,
                _ => {}
            }
        }
        let folder = fs::symlink_metadata(self.file).is_ok_and(|meta| meta.is_dir());
        Ok(if folder { Placement::Taken } else { place })
    }
}

/// Whether a file can be where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// It is there, or could be.
    Free,
    /// Something else is in the way.
    Taken,
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn refused(error: io::Error) -> SkipReason {
    SkipReason::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as a tree has it, with its content.
    fn recorded(folder: &Path, make: impl FnOnce(&Path)) -> (ManifestEntry, Vec<u8>) {
        let path = folder.join("recorded");
        make(&path);
        let entry = walk::present(&path).unwrap().unwrap();
        let content = fs::read_link(&path).map(|link| link.into_os_string().into_encoded_bytes());
        (entry, content.or_else(|_| fs::read(&path)).unwrap())
    }

    fn written(text: &'static str) -> impl FnOnce(&Path) {
        move |path| fs::write(path, text).unwrap()
    }

    #[test]
    fn what_changes_while_a_restore_prepares_is_left_alone() {
        // Without the second look, right before the rename, a change made since the first one was lost unnoticed.
        let targets = [
            recorded(tempfile::tempdir().unwrap().path(), written("restored")),
            recorded(tempfile::tempdir().unwrap().path(), |path| symlink("restored", path).unwrap()),
        ];
        let expected = recorded(tempfile::tempdir().unwrap().path(), written("expected")).0;
        for (entry, content) in targets {
            let worktree = tempfile::tempdir().unwrap();
            let (relative, file) = (Path::new("a.txt"), worktree.path().join("a.txt"));
            let put =
                RestoredFile { worktree: worktree.path(), relative, file: &file, expected: Some(expected) };
            // The first look is behind us; now the person saves.
            for change in [Some("mine"), None] {
                fs::write(&file, "expected").unwrap();
                change.map_or_else(|| fs::remove_file(&file), |text| fs::write(&file, text)).unwrap();
                assert_eq!(put.write(entry, &content), Err(SkipReason::Changed), "{change:?}");
                assert_eq!(fs::read_to_string(&file).ok().as_deref(), change);
                let left: Vec<_> = fs::read_dir(worktree.path()).unwrap().flatten().collect();
                assert_eq!(left.len(), usize::from(change.is_some()), "nothing else stays behind: {left:?}");
            }
            // Unchanged, it is replaced.
            fs::write(&file, "expected").unwrap();
            assert_eq!(put.write(entry, &content), Ok(()));
            assert_eq!(walk::present(&file).unwrap(), Some(entry));
        }
    }
}
