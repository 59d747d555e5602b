//! Other names of protected files.
//!
//! A mount protects a name, and through another one the same file can be changed. So other names of something protected are
//! protected too, as far as they are in the project.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::survey::ProjectSurvey;
use crate::protected::IN_GIT;

/// How many files in protected folders are looked at.
const MOST_FILES: usize = 4096;

/// Other names in a project of what is protected there. The folders are read only if there is a file with more than one.
pub(super) fn other_names(survey: &ProjectSurvey) -> Vec<PathBuf> {
    let in_git = survey.git.iter().flat_map(|git| {
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten();
        IN_GIT.map(|name| git.join(name)).into_iter().chain(hooks.map(|hook| hook.path()))
    });
    let files = survey.names.iter().cloned().chain(survey.protected_files.iter().take(MOST_FILES).cloned());
    let shared: HashSet<(u64, u64)> = files.chain(in_git).filter_map(|path| shared(&path)).collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let inodes: HashSet<u64> = shared.iter().map(|(_, inode)| *inode).collect();
    let protected: HashSet<&Path> = survey.names.iter().map(PathBuf::as_path).collect();
    let folders = survey.folders.iter().map(|folder| survey.root.join(&folder.path));
    let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let like = entries.filter(|entry| inodes.contains(&entry.ino())).map(|entry| entry.path());
    let other = like.filter(|path| !protected.contains(path.as_path()));
    other.filter(|path| self::shared(path).is_some_and(|this| shared.contains(&this))).collect()
}

/// What a file is, if it has more than one name.
fn shared(path: &Path) -> Option<(u64, u64)> {
    let this = fs::symlink_metadata(path).ok()?;
    (this.is_file() && this.nlink() > 1).then(|| (this.dev(), this.ino()))
}
