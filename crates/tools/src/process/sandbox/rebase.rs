//! A rebase that was under way when a program began: what git would run when it goes on.
//!
//! Its list of what is left to do can hold commands (`exec`), and git runs them when the person goes on with their rebase. A
//! command must be able to go on with it as well, so the list is not mounted: one that has commands which it had not
//! before gets another name in the end, and git goes on with nothing.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, lstat};

use super::access::{FolderAccess, is_gone, open_folder};
use super::aftermath::put_folder_aside;
use super::new_repository::content;
use super::report::DisplacedName;

/// Where git keeps the list, in its folder.
const FOLDER: &str = "rebase-merge";
const LIST: &str = "git-rebase-todo";

/// The commands in the lists of all rebases that were under way, by the folder of git's.
#[derive(Debug, Default)]
pub(super) struct RebaseLists(HashMap<PathBuf, BTreeSet<String>>);

impl RebaseLists {
    /// What there is in folders of git's.
    pub(super) fn of<'a>(git: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let lists = git.into_iter().filter_map(|git| {
            let folder = open_folder(CWD, &git.join(FOLDER)).ok()?;
            lstat(git.join(FOLDER).join(LIST)).ok()?;
            Some((git.clone(), content(&folder, LIST).map(|list| commands(&list)).unwrap_or_default()))
        });
        Self(lists.collect())
    }

    /// Gives another name to the lists that have other commands now.
    pub(super) fn judge(&self, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let each = self.0.iter().map(|(git, known)| judge_one(git, known, access));
        each.collect::<Vec<_>>().concat()
    }
}

fn judge_one(git: &Path, known: &BTreeSet<String>, access: &mut FolderAccess) -> Vec<DisplacedName> {
    let above = git.join(FOLDER);
    match lstat(&above) {
        // Git would follow a link.
        Ok(found) if !FileType::from_raw_mode(found.st_mode).is_dir() => {
            return put_folder_aside(&above, access);
        }
        _ => {}
    }
    let folder = match access.open(CWD, &above) {
        Err(error) if is_gone(error) => return Vec::new(),
        Err(_) => return put_folder_aside(&above, access),
        Ok(folder) => folder,
    };
    let list = above.join(LIST);
    match content(&folder, LIST) {
        Some(text) if commands(&text).is_subset(known) => Vec::new(),
        None if lstat(&list).is_err() => Vec::new(),
        _ => put_folder_aside(&list, access),
    }
}

/// The lines of a list that are commands.
fn commands(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim);
    let is_command = |line: &&str| matches!(line.split([' ', '\t']).next(), Some("exec" | "x"));
    lines.filter(is_command).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_commits() {
        let found =
            commands("pick 1a exec x\n  exec make\nx\ttouch y\n# exec no\nxylophone\nbreak\nexecute\n");
        assert_eq!(found, ["exec make", "x\ttouch y"].map(str::to_owned).into());
    }
}
