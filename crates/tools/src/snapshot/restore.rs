//! Putting files back as a tree has them.
//!
//! A restore must never take away what a person did. So each file is compared with what the plan expects
//! right before it is touched, and left alone, with the reason, when it differs. A file that is already as it
//! should be counts as restored, which makes a restore safe to repeat.
//!
//! Programs of agents may run meanwhile. So the worktree is opened once, folders are reached and made from there without
//! following a link, and files are compared, written and removed by their names in them: nothing outside is touched,
//! whatever a path leads to by then.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode};
use serde::{Deserialize, Serialize};

use super::manifest::ManifestEntry;
use super::store::SnapshotStore;
use super::{FileTree, SnapshotError, TreeId, walk};
use crate::folder::OpenFolder;
use crate::process::sandbox::is_put_aside;
#[cfg(target_os = "linux")]
use crate::process::sandbox::{may_run, would_run};
use crate::replacement::lock;

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
    /// It lies in a folder that is recorded no more.
    #[error("it belongs to the program that records")]
    Private,
    /// It is protected, and a program of an agent may have made it: nobody has agreed to it.
    #[error("it is protected, and a command of the agent may have made it")]
    Unsettled,
    /// The file system refused.
    #[error("{0}")]
    Refused(String),
}

/// Carries out a plan.
pub(super) fn restore(
    store: &SnapshotStore,
    worktree: &Path,
    private: &[PathBuf],
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
        #[cfg(target_os = "linux")]
        Some(_) if may_run(file) => 3,
        Some(_) => 2,
    });
    let root = OpenFolder::at(worktree).map_err(SnapshotError::io(worktree))?;
    let mut report = RestoreReport::default();
    for (relative, target) in work {
        let file = worktree.join(relative);
        let expected = expected.get(relative.as_os_str().as_bytes()).map(|entry| entry.unmarked());
        let put = RestoredFile { root: &root, worktree, relative, file: &file, expected };
        let done = match target.map(|target| store.blob(target.hash)).transpose() {
            _ if private.iter().any(|folder| file.starts_with(folder)) => Err(SkipReason::Private),
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
    root: &'a OpenFolder,
    worktree: &'a Path,
    relative: &'a Path,
    file: &'a Path,
    expected: Option<ManifestEntry>,
}

impl RestoredFile<'_> {
    fn apply(self, target: Option<(ManifestEntry, Vec<u8>)>) -> Result<(), SkipReason> {
        let _lock = lock(self.file);
        let place = self.place()?;
        let now = match (&place, &target) {
            (Placement::In(folder), _) => walk::present(folder, self.name()).map_err(refused)?,
            // Where a folder stands, or a file has taken a folder's place, there is no such file.
            (Placement::Missing, _) | (Placement::Taken, None) => None,
            (Placement::Taken, Some(_)) => return Err(SkipReason::Changed),
        };
        if now == target.as_ref().map(|(entry, _)| entry.unmarked()) {
            return Ok(());
        }
        if target.as_ref().is_some_and(|(entry, _)| entry.is_unsettled()) {
            return Err(SkipReason::Unsettled);
        }
        if now != self.expected {
            return Err(SkipReason::Changed);
        }
        #[cfg(target_os = "linux")]
        if let Some((entry, content)) = &target {
            let content = Some(content.as_slice()).filter(|_| !entry.is_link());
            if would_run(self.worktree, self.relative, content) {
                return Err(SkipReason::Unsettled);
            }
        }
        match (target, place) {
            (None, _) if walk::ignored(self.root, self.relative) => Err(SkipReason::Ignored),
            // It may be the person's, who made it while a command ran, and is put back nowhere else.
            (None, _) if self.relative.iter().any(is_put_aside) => Err(SkipReason::Unsettled),
            (None, Placement::In(folder)) => self.remove(&folder),
            (None, _) => Ok(()),
            (Some((entry, content)), Placement::In(folder)) => self.write(&folder, entry, &content),
            (Some((entry, content)), _) => {
                let folder = self.root.make_beneath(self.parent()).map_err(refused)?;
                self.write(&folder, entry, &content)
            }
        }
    }

    fn name(&self) -> &OsStr {
        self.relative.file_name().unwrap_or_default()
    }

    fn parent(&self) -> &Path {
        self.relative.parent().unwrap_or(Path::new(""))
    }

    fn remove(self, folder: &OpenFolder) -> Result<(), SkipReason> {
        folder.remove(self.name()).map_err(refused)?;
        // Folders that are empty now came with the file; one that is not refuses to go.
        for empty in self.parent().ancestors() {
            let (Some(above), Some(name)) = (empty.parent(), empty.file_name()) else { break };
            if self.root.beneath(above).and_then(|above| above.remove_folder(name)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn write(self, folder: &OpenFolder, entry: ManifestEntry, content: &[u8]) -> Result<(), SkipReason> {
        let staged = stage(folder, entry, content).map_err(refused)?;
        let renamed =
            self.unchanged(folder).and_then(|()| folder.rename(&staged, self.name()).map_err(refused));
        if renamed.is_err() {
            folder.remove(&staged).ok();
        }
        renamed
    }

    /// Looks once more, right before the rename.
    fn unchanged(self, folder: &OpenFolder) -> Result<(), SkipReason> {
        let now = walk::present(folder, self.name()).map_err(refused)?;
        if now == self.expected { Ok(()) } else { Err(SkipReason::Changed) }
    }

    /// Goes to the folder of the file, refusing a way that leaves the worktree as written or through a link.
    fn place(self) -> Result<Placement, SkipReason> {
        let plain = self.relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || self.relative.as_os_str().is_empty() {
            return Err(SkipReason::Outside);
        }
        let Ok(folder) = self.root.beneath(self.parent()) else { return self.obstacle() };
        let is_folder = folder.kind(self.name()).is_ok_and(|kind| kind.is_dir());
        Ok(if is_folder { Placement::Taken } else { Placement::In(folder) })
    }

    /// What is in the way where the folder of the file cannot be reached.
    fn obstacle(self) -> Result<Placement, SkipReason> {
        let mut folder = self.root.beneath(Path::new("")).map_err(refused)?;
        for name in self.parent() {
            match folder.kind(name) {
                Ok(FileType::Directory) => folder = folder.beneath(Path::new(name)).map_err(refused)?,
                Ok(FileType::Symlink) => return Err(SkipReason::Outside),
                Ok(_) => return Ok(Placement::Taken),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Placement::Missing),
                Err(error) => return Err(refused(error)),
            }
        }
        // It was made meanwhile, or is a place that changes: whoever looks again may see more.
        Err(SkipReason::Changed)
    }
}

/// Where a file can be.
#[derive(Debug)]
enum Placement {
    /// In this folder.
    In(OpenFolder),
    /// In a folder that is not there.
    Missing,
    /// Something else is in the way.
    Taken,
}

/// A file or link as a tree has it, under a name that nobody uses.
fn stage(folder: &OpenFolder, entry: ManifestEntry, content: &[u8]) -> io::Result<OsString> {
    if entry.is_link() {
        return folder.stage_link(content);
    }
    // Nobody else can look into it before it is whole.
    let (mut file, name) = folder.stage(Mode::RUSR | Mode::WUSR)?;
    // Once more, because the process's mask takes bits away at creation.
    let permissions = std::fs::Permissions::from_mode(entry.permissions());
    let written = file.write_all(content).and_then(|()| file.set_permissions(permissions));
    if let Err(error) = written {
        folder.remove(&name).ok();
        return Err(error);
    }
    Ok(name)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn refused(error: io::Error) -> SkipReason {
    SkipReason::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A file as a tree has it, with its content.
    fn recorded(make: impl FnOnce(&Path)) -> (ManifestEntry, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recorded");
        make(&path);
        let entry =
            walk::present(&OpenFolder::at(folder.path()).unwrap(), OsStr::new("recorded")).unwrap().unwrap();
        let content = fs::read_link(&path).map(|link| link.into_os_string().into_encoded_bytes());
        (entry, content.or_else(|_| fs::read(&path)).unwrap())
    }

    fn written(text: &'static str) -> impl FnOnce(&Path) {
        move |path| fs::write(path, text).unwrap()
    }

    #[test]
    fn what_changes_while_a_restore_prepares_is_left_alone() {
        // Without the second look, right before the rename, a change made since the first one was lost unnoticed.
        let targets = [recorded(written("restored")), recorded(|path| symlink("restored", path).unwrap())];
        let expected = recorded(written("expected")).0;
        for (entry, content) in targets {
            let worktree = tempfile::tempdir().unwrap();
            let root = OpenFolder::at(worktree.path()).unwrap();
            let (relative, file) = (Path::new("a.txt"), worktree.path().join("a.txt"));
            let put = RestoredFile {
                root: &root,
                worktree: worktree.path(),
                relative,
                file: &file,
                expected: Some(expected),
            };
            // The first look is behind us; now the person saves.
            for change in [Some("mine"), None] {
                fs::write(&file, "expected").unwrap();
                change.map_or_else(|| fs::remove_file(&file), |text| fs::write(&file, text)).unwrap();
                assert_eq!(put.write(&root, entry, &content), Err(SkipReason::Changed), "{change:?}");
                assert_eq!(fs::read_to_string(&file).ok().as_deref(), change);
                let left: Vec<_> = fs::read_dir(worktree.path()).unwrap().flatten().collect();
                assert_eq!(left.len(), usize::from(change.is_some()), "nothing else stays behind: {left:?}");
            }
            // Unchanged, it is replaced.
            fs::write(&file, "expected").unwrap();
            assert_eq!(put.write(&root, entry, &content), Ok(()));
            assert_eq!(walk::present(&root, OsStr::new("a.txt")).unwrap(), Some(entry));
        }
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_folder_lets_nothing_be_touched_outside() {
        // What followed the look at the way went by path: files outside were removed and replaced.
        let (entry, content) = recorded(written("restored"));
        let expected = recorded(written("expected")).0;
        for removes in [true, false] {
            let base = tempfile::tempdir().unwrap();
            let (worktree, outside) = (base.path().join("worktree"), base.path().join("outside"));
            for folder in [&worktree.join("d"), &outside] {
                fs::create_dir_all(folder).unwrap();
                fs::write(folder.join("a.txt"), "expected").unwrap();
            }
            let root = OpenFolder::at(&worktree).unwrap();
            let (relative, file) = (Path::new("d/a.txt"), worktree.join("d/a.txt"));
            let put = RestoredFile {
                root: &root,
                worktree: &worktree,
                relative,
                file: &file,
                expected: Some(expected),
            };
            let Placement::In(folder) = put.place().unwrap() else { panic!("the folder is there") };
            fs::rename(worktree.join("d"), worktree.join("moved")).unwrap();
            symlink(&outside, worktree.join("d")).unwrap();
            let done = if removes { put.remove(&folder) } else { put.write(&folder, entry, &content) };
            assert_eq!(done, Ok(()));
            let left: Vec<_> =
                fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
            assert_eq!(left, ["a.txt"]);
            assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "expected");
            let moved = fs::read_to_string(worktree.join("moved/a.txt")).ok();
            assert_eq!(moved.as_deref(), (!removes).then_some("restored"));
            // Whoever begins now is refused, also where the folder would have to be made.
            assert_eq!(put.apply(None), Err(SkipReason::Outside));
            let deeper = RestoredFile { relative: Path::new("d/new/b.txt"), expected: None, ..put };
            assert_eq!(deeper.apply(Some((entry, content.clone()))), Err(SkipReason::Outside));
        }
    }
}
