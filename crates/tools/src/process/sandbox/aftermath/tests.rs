//! Tests of what is done with what a program left.

use std::fs;

use tempfile::TempDir;

use super::super::search::MOST_NAMES;
use super::*;
use crate::process::sandbox::overlap::look_at;
use crate::process::sandbox::survey::coarse_time;

/// A project with files, each younger than the one before.
fn project(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for (name, text) in files {
        write(&root, name, text);
        while coarse_time() <= changed(&lstat(root.join(name)).unwrap()) {
            std::thread::yield_now();
        }
    }
    (folder, root)
}

fn write(root: &Path, name: &str, text: &str) {
    fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
    fs::write(root.join(name), text).unwrap();
}

fn renamed(name: &str) -> String {
    format!("{name} was renamed to {name}.untrusted")
}

/// What is told about a project in which something was done.
fn after(root: &Path, work: impl FnOnce()) -> Vec<String> {
    after_with(root, |_| {}, work)
}

/// The same, where something else was seen than what is there.
fn after_with(root: &Path, change: impl FnOnce(&mut ProjectSurvey), work: impl FnOnce()) -> Vec<String> {
    after_permitted(root, Vec::new(), change, work)
}

/// The same, where something was permitted.
fn after_permitted(
    root: &Path,
    permitted: Vec<PathBuf>,
    change: impl FnOnce(&mut ProjectSurvey),
    work: impl FnOnce(),
) -> Vec<String> {
    let policy = SandboxPolicy { projects: vec![root.to_owned()], permitted, ..SandboxPolicy::default() };
    let mut projects = look_at(&policy, Vec::new).unwrap();
    change(&mut projects.surveys[0]);
    let watch = ProtectionWatch::begin(&projects, &policy);
    work();
    let base = format!("{}/", root.display());
    watch.end(&[], &MadeFiles::default()).iter().map(|told| told.to_string().replace(&base, "")).collect()
}

#[test]
fn more_folders_than_are_looked_at_get_another_name_and_the_rest_is_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("gone")).unwrap();
    let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
    let told = after_with(
        &root,
        |survey| survey.room = 3,
        || {
            for number in 0..9 {
                make(&format!("many/{number}"));
            }
            make("few/one/.vscode");
            // What is gone makes room.
            fs::remove_dir(root.join("gone")).unwrap();
            make("new/one/.zed");
        },
    );
    assert_eq!(told, ["few/one/.vscode", "many", "new/one/.zed"].map(renamed));
    // It does not count any more.
    assert_eq!(after_with(&root, |survey| survey.room = 1, || make("other")), [""; 0]);
    assert_eq!(after_with(&root, |survey| survey.room = 0, || make("last")), [renamed("last")]);
}

#[test]
fn too_many_folders_in_a_repository_get_another_name_but_for_those_that_were_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
    make(".git/modules/mine");
    fs::write(root.join(".git/modules/mine/HEAD"), "x").unwrap();
    let told = after(&root, || {
        for number in 0..5000 {
            make(&format!(".git/modules/many/{number}"));
        }
        make(".git/worktrees/w/hooks");
        fs::write(root.join(".git/worktrees/w/HEAD"), "x").unwrap();
        fs::write(root.join(".git/worktrees/w/hooks/update"), "x").unwrap();
    });
    assert_eq!(told, [".git/modules/many", ".git/worktrees/w"].map(renamed));
}

#[test]
fn a_folder_that_takes_the_place_of_another_is_looked_into_however_old_it_is() {
    let (_folder, root) =
        project(&[("sub/inner/file", ""), ("node_modules/x/inner/.vscode/tasks.json", "{}")]);
    let told = after(&root, || {
        fs::rename(root.join("sub"), root.join("gone")).unwrap();
        fs::rename(root.join("node_modules/x"), root.join("sub")).unwrap();
    });
    assert_eq!(told, [renamed("sub/inner/.vscode")]);
}

#[test]
fn copies_stay_until_there_are_too_many_protected_names() {
    let (_folder, root) = project(&[(".git/HEAD", "ref: refs/heads/main\n"), ("AGENTS.md", "Be good.\n")]);
    let fill = |survey: &mut ProjectSurvey| survey.names.resize(MOST_NAMES - 1, root.join("sub/CLAUDE.md"));
    let told = after_with(&root, fill, || {
        for tree in ["a", "b"] {
            write(&root, &format!(".git/worktrees/{tree}/HEAD"), "ref: refs/heads/x\n");
            write(&root, &format!(".git/worktrees/{tree}/commondir"), "../..\n");
            write(&root, &format!("{tree}/.git"), &format!("gitdir: ../.git/worktrees/{tree}\n"));
            write(&root, &format!("{tree}/AGENTS.md"), "Be good.\n");
        }
    });
    let one = ["a", "b"].map(|name| vec![renamed(&format!("{name}/AGENTS.md"))]);
    assert!(one.contains(&told), "{told:?}");
}

#[test]
fn a_repository_that_a_file_of_gits_led_to_before_it_was_there_runs_nothing() {
    // In folders that tools fill nothing else looks for one.
    let (_folder, root) = project(&[("tree/.git", "gitdir: ../node_modules/git\n")]);
    let told = after(&root, || {
        write(&root, "node_modules/git/HEAD", "ref: refs/heads/main\n");
        write(&root, "node_modules/git/config", "[core]\n\tfsmonitor = evil\n");
    });
    assert_eq!(told, [renamed("node_modules/git/config")]);
}

#[test]
fn a_copy_that_was_not_changed_stays_whatever_becomes_of_the_original() {
    // It was renamed if the person changed the original while the program changed something beside the copy.
    let files = [("AGENTS.md", "old\n"), ("clone/.git/HEAD", "x"), ("clone/AGENTS.md", "old\n")];
    let (_folder, root) = project(&files);
    let told = after(&root, || {
        write(&root, "AGENTS.md", "new\n");
        write(&root, "clone/file", "");
    });
    assert_eq!(told, [""; 0]);
}

/// Makes a folder with more in it than can be looked at by a path.
fn make_too_deep(root: &Path, name: &str) {
    let half: PathBuf = std::iter::repeat_n("x".repeat(250), 10).collect();
    for part in ["one", "other"] {
        fs::create_dir_all(root.join(part).join(&half)).unwrap();
    }
    fs::rename(root.join("other"), root.join("one").join(&half).join("other")).unwrap();
    fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
    fs::rename(root.join("one"), root.join(name)).unwrap();
}

#[test]
fn a_repository_of_which_not_all_can_be_looked_at_does_not_stay() {
    let (_folder, root) = project(&[("file", "")]);
    let told = after(&root, || {
        write(&root, "new/.git/HEAD", "ref: refs/heads/main\n");
        make_too_deep(&root, "new/.git/modules/deep");
    });
    assert_eq!(told, [renamed("new/.git")]);
    // Of one that was there, what holds others does not.
    let (_folder, root) = project(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/mine/HEAD", "x"),
        (".git/info/x", ""),
    ]);
    let told = after(&root, || make_too_deep(&root, ".git/modules/mine/modules/deep"));
    assert_eq!(told, [renamed(".git/modules")]);
}

#[test]
fn what_was_permitted_stays_also_in_a_folder_of_gits() {
    let (_folder, root) = project(&[(".git/HEAD", "ref: refs/heads/main\n")]);
    let make = |name: &str| write(&root, name, "");
    let told = after_permitted(
        &root,
        vec![root.join(".git/hooks/update")],
        |_| {},
        || {
            make(".git/hooks/update");
            make(".git/info/attributes");
        },
    );
    assert_eq!(told, [renamed(".git/info/attributes")]);
}
