//! Other names of protected files.
//!
//! A mount protects a name, and through another one the same file can be changed. So other names of something protected are
//! protected too, as far as they are in the project.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::repository::git_folders;
use super::survey::ProjectSurvey;
use crate::protected::IN_GIT;

/// How many files in protected folders are looked at.
const MOST_FILES: usize = 4096;

/// Other names in a project of what is protected there. The folders are read only if there is a file with more than one.
pub(super) fn other_names(survey: &ProjectSurvey) -> Vec<PathBuf> {
    // Where the folders of git's cannot be told, no program starts.
    let git = survey.git.iter().filter_map(|git| git_folders(git)).flatten();
    let in_git = git.flat_map(|git| IN_GIT.map(|name| git.join(name)));
    let inner = in_git.chain(survey.leads.iter().cloned()).flat_map(files_in);
    let files = survey.names.iter().cloned().chain(survey.protected_files.iter().take(MOST_FILES).cloned());
    let shared: HashSet<(u64, u64)> = files.chain(inner).filter_map(|path| shared(&path)).collect();
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

/// The files in a folder, or the file itself; as many as are looked at.
fn files_in(path: PathBuf) -> Vec<PathBuf> {
    let (mut next, mut files) = (vec![path], Vec::new());
    while let Some(path) = next.pop().filter(|_| files.len() < MOST_FILES) {
        match fs::symlink_metadata(&path) {
            Ok(this) if this.is_dir() => {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                next.extend(entries.take(MOST_FILES).map(|entry| entry.path()));
            }
            Ok(_) => files.push(path),
            Err(_) => {}
        }
    }
    files
}

/// What a file is, if it has more than one name.
fn shared(path: &Path) -> Option<(u64, u64)> {
    let this = fs::symlink_metadata(path).ok()?;
    (this.is_file() && this.nlink() > 1).then(|| (this.dev(), this.ino()))
}
