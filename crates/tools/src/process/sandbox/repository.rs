//! Folders of git's that belong to a project: its worktrees and submodules, and the repository of a worktree.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::git_settings::NamedPlaces;
use super::put_aside_name::is_put_aside;
use crate::project::{Repository, first_line, repository};

/// How many folders of git's one repository may have. More than anybody has, and few enough to be quick.
const MOST: usize = 1024;

/// How many folders are looked at for them.
const MOST_LOOKED_AT: usize = 4096;

/// Where the folders of git's of worktrees and submodules are, in that of the repository.
pub(super) const INNER: [&str; 2] = ["modules", "worktrees"];

/// The repository that a project is a worktree of, or whose folder of git's belongs to the project alone, as that of a
/// submodule does, if it lies elsewhere: its folder of git's.
///
/// What a project says about that counts only if the repository says the same. Any file can name any folder, and what
/// is named here can be changed by commands.
pub(crate) fn repository_elsewhere(project: &Path) -> Option<PathBuf> {
    let Repository { root, git, .. } = repository(project)?;
    let git = fs::canonicalize(git).ok()?;
    if root != project || git.starts_with(project) {
        return None;
    }
    let Some(back) = first_line(&git.join("gitdir")) else {
        let tree = NamedPlaces::of(&git.join("config"), None).ok()?.work_tree?;
        let belongs = fs::canonicalize(git.join(tree)).ok()? == fs::canonicalize(project).ok()?;
        return belongs.then_some(git);
    };
    let back = git.join(back.trim());
    let (worktrees, entry) = (git.parent()?, fs::canonicalize(project.join(".git")).ok()?);
    let belongs = worktrees.ends_with("worktrees") && fs::canonicalize(back).ok()? == entry;
    belongs.then(|| worktrees.parent().map(Path::to_owned)).flatten()
}

/// A folder of git's, and those of its worktrees and submodules. Nothing if they are too many, or one cannot be read:
/// then it is not known what git would run there.
pub(super) fn git_folders(git: &Path) -> Option<Vec<PathBuf>> {
    let mut found = vec![git.to_owned()];
    let (mut at, mut room) = (0, MOST_LOOKED_AT);
    while let Some(folder) = found.get(at).cloned() {
        at += 1;
        for kind in INNER {
            look_into(folder.join(kind), &mut found, &mut room)?;
        }
    }
    Some(found)
}

/// Adds the folders of git's in a folder. The name of a submodule may have slashes.
fn look_into(folder: PathBuf, found: &mut Vec<PathBuf>, room: &mut usize) -> Option<()> {
    let mut next = vec![folder];
    while let Some(folder) = next.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(_) => return None,
        };
        for entry in entries {
            let entry = entry.ok()?;
            if !entry.file_type().ok()?.is_dir() || is_put_aside(&entry.file_name()) {
                continue;
            }
            *room = room.checked_sub(1)?;
            match fs::symlink_metadata(entry.path().join("HEAD")) {
                Ok(_) if found.len() < MOST => found.push(entry.path()),
                Ok(_) => return None,
                Err(error) if error.kind() == ErrorKind::NotFound => next.push(entry.path()),
                Err(_) => return None,
            }
        }
    }
    Some(())
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
    fn a_submodule_belongs_to_the_folder_that_names_it() {
        // Git was dead in one that was opened by itself.
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            fs::write(base.join(name), text).unwrap();
        };
        let git = base.join("top/.git/modules/lib");
        write("top/.git/modules/lib/HEAD", "ref: refs/heads/main\n");
        write("top/.git/modules/lib/config", "[core]\n\tworktree = ../../../lib\n");
        write("top/lib/.git", "gitdir: ../.git/modules/lib\n");
        assert_eq!(repository_elsewhere(&base.join("top/lib")), Some(git.clone()));
        write("evil/.git", &format!("gitdir: {}\n", git.display()));
        assert_eq!(repository_elsewhere(&base.join("evil")), None);
        write("apart/HEAD", "ref: refs/heads/main\n");
        write("apart/config", "[core]\n\tbare = false\n");
        write("tree/.git", &format!("gitdir: {}\n", base.join("apart").display()));
        assert_eq!(repository_elsewhere(&base.join("tree")), None, "it says nothing of the folder");
        write("apart/config", &format!("[core]\n\tworktree = {}\n", base.join("tree").display()));
        assert_eq!(repository_elsewhere(&base.join("tree")), Some(base.join("apart")));
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
            git_folders(&git).unwrap().iter().map(|path| path.components().collect()).collect();
        let mut expected: Vec<PathBuf> = all.iter().map(|path| path.components().collect()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn too_many_folders_are_not_looked_through() {
        // Each command looked at all of them, and those without a sign of git's were not counted.
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MOST_LOOKED_AT {
            fs::create_dir_all(folder.path().join(format!("modules/{}/{number}", number % 2))).unwrap();
        }
        assert_eq!(git_folders(folder.path()), None);
        fs::rename(folder.path().join("modules/0"), folder.path().join("modules/0.untrusted")).unwrap();
        assert_eq!(git_folders(folder.path()), Some(vec![folder.path().to_owned()]));
    }
}
