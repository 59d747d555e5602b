//! Folders of git's that belong to a project: its worktrees and submodules, and the repository of a worktree.

use std::fs;
use std::path::{Path, PathBuf};

use crate::project::{Repository, first_line, repository};

/// How many folders of git's are protected in one repository. More than anybody has, and few enough to be quick.
const MOST: usize = 64;

/// The repository that a project is a worktree of, if it lies elsewhere: its folder of git's.
///
/// What a project says about that counts only if the repository says the same. Any file can name any folder, and what
/// is named here can be changed by commands.
pub(super) fn repository_elsewhere(project: &Path) -> Option<PathBuf> {
    let Repository { root, git, .. } = repository(project)?;
    let git = fs::canonicalize(git).ok()?;
    if root != project || git.starts_with(project) {
        return None;
    }
    let back = git.join(first_line(&git.join("gitdir"))?.trim());
    let (worktrees, entry) = (git.parent()?, fs::canonicalize(project.join(".git")).ok()?);
    let belongs = worktrees.ends_with("worktrees") && fs::canonicalize(back).ok()? == entry;
    belongs.then(|| worktrees.parent().map(Path::to_owned)).flatten()
}

/// A folder of git's, and those of its worktrees and submodules.
pub(super) fn git_folders(git: &Path) -> Vec<PathBuf> {
    let mut found = vec![git.to_owned()];
    let mut at = 0;
    while let Some(folder) = found.get(at).cloned() {
        at += 1;
        for kind in ["modules", "worktrees"] {
            look_into(&folder.join(kind), &mut found);
        }
    }
    found
}

/// Adds the folders of git's in a folder. The name of a submodule may have slashes.
fn look_into(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if found.len() >= MOST {
            return;
        }
        let path = entry.path();
        if fs::symlink_metadata(path.join("HEAD")).is_ok() {
            found.push(path);
        } else if path.components().count() < 64 {
            look_into(&path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_belongs_to_a_repository_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            fs::write(base.join(name), text).unwrap();
        };
        let main = base.join("main/.git");
        write("main/.git/HEAD", "ref: refs/heads/main\n");
        write("main/.git/worktrees/tree/HEAD", "ref: refs/heads/side\n");
        write("main/.git/worktrees/tree/commondir", "../..\n");
        write("main/.git/worktrees/tree/gitdir", &format!("{}\n", base.join("tree/.git").display()));
        write("tree/.git", &format!("gitdir: {}/worktrees/tree\n", main.display()));
        assert_eq!(repository_elsewhere(&base.join("tree")), Some(main.clone()));
        assert_eq!(repository_elsewhere(&base.join("main")), None, "it is in the project");

        // A repository of a stranger's names that of somebody else.
        write("evil/.git", &format!("gitdir: {}/worktrees/tree\n", main.display()));
        assert_eq!(repository_elsewhere(&base.join("evil")), None);
        write("evil/.git", &format!("gitdir: {}\n", main.display()));
        assert_eq!(repository_elsewhere(&base.join("evil")), None);
    }

    #[test]
    fn folders_of_submodules_and_worktrees_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        let all =
            ["", "modules/a", "modules/b/c", "worktrees/w", "modules/a/modules/d"].map(|name| git.join(name));
        for path in &all {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("HEAD"), "").unwrap();
        }
        fs::create_dir_all(git.join("modules/none")).unwrap();
        let mut found: Vec<PathBuf> =
            git_folders(&git).iter().map(|path| path.components().collect()).collect();
        let mut expected: Vec<PathBuf> = all.iter().map(|path| path.components().collect()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}
