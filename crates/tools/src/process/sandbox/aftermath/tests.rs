//! Tests of what is done with what a program left.

use std::fs;
use std::os::unix::fs::symlink;

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
    after_seen(root, Vec::new(), |projects| change(&mut projects.surveys[0]), work)
}

/// The same, where something was permitted.
fn after_seen(
    root: &Path,
    permitted: Vec<PathBuf>,
    change: impl FnOnce(&mut SurveyedProjects),
    work: impl FnOnce(),
) -> Vec<String> {
    let policy = SandboxPolicy { projects: vec![root.to_owned()], permitted, ..SandboxPolicy::default() };
    let mut projects = look_at(&policy, Vec::new).unwrap();
    change(&mut projects);
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
    // Nor does it count for those that are looked into later.
    let told = after_with(
        &root,
        |survey| survey.room = 30,
        || {
            (0..10).for_each(|number| make(&format!("small-{number}/inner")));
            (0..100).for_each(|number| make(&format!("large-{}/{number}", number % 2)));
        },
    );
    assert_eq!(told, ["large-0", "large-1"].map(renamed));
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
    let told = after(&root, || {
        write(&root, "node_modules/other/HEAD", "ref: refs/heads/main\n");
        write(&root, "node_modules/other/config", "[core]\n\tfsmonitor = evil\n");
        write(&root, "new/.git", "gitdir: ../node_modules/other\n");
    });
    assert_eq!(told, [renamed("node_modules/other/config")]);
}

#[test]
fn what_a_file_of_gits_led_to_before_is_looked_at_where_nothing_else_does() {
    // What was there runs what it ran, also where it was moved with the folder that it lies in.
    let files = [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/m/HEAD", "x"),
        (".git/modules/m/config", "[core]\n\tfsmonitor = mine\n"),
        ("m/.git", "gitdir: ../.git/modules/m\n"),
        ("nested/.git/HEAD", "x"),
        ("nested/.git/config", "[core]\n\tfsmonitor = mine\n"),
        ("linked/.git", "gitdir: ../nested/.git\n"),
    ];
    let (_folder, root) = project(&files);
    assert_eq!(after(&root, || {}), [""; 0]);
    let move_it = || {
        fs::rename(root.join("nested"), root.join("moved")).unwrap();
        symlink("moved", root.join("nested")).unwrap();
    };
    assert_eq!(after(&root, move_it), [""; 0]);
    let (_folder, root) = project(&files);
    let told = after(&root, || {
        fs::rename(root.join("nested"), root.join("moved")).unwrap();
        write(&root, "linked/.git", "gitdir: ../moved/.git\n");
    });
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_file_of_gits_leads_to_nothing_that_was_put_aside_and_to_nothing_elsewhere() {
    let (_folder, root) = project(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/m/HEAD", "x"),
        ("m/.git", "gitdir: ../.git/modules/m\n"),
        ("nested/.git/HEAD", "x"),
    ]);
    let told = after(&root, || {
        write(&root, ".git/modules/evil.untrusted/HEAD", "x");
        write(&root, ".git/modules/evil.untrusted/config", "[core]\n\tfsmonitor = evil\n");
        write(&root, "sub/.git", "gitdir: ../.git/modules/evil.untrusted\n");
        // Where a folder was there is none any more.
        fs::remove_dir_all(root.join("nested/.git")).unwrap();
        write(&root, "nested/.git", "gitdir: /usr\n");
        // And where a file was, a folder is a new one.
        fs::remove_file(root.join("m/.git")).unwrap();
        write(&root, "m/.git/HEAD", "x");
        write(&root, "m/.git/config", "[core]\n\tfsmonitor = evil\n");
    });
    assert_eq!(told, ["m/.git/config", "nested/.git", "sub/.git"].map(renamed));
}

#[test]
fn a_folder_of_gits_is_known_by_the_number_of_none_that_can_be_removed() {
    // A file of git's is not mounted. What was made when it was gone had its number, was taken for old and kept its hooks.
    let (_folder, root) = project(&[
        (".git/HEAD", "x"),
        (".git/modules/m/HEAD", "x"),
        ("m/.git", "gitdir: ../.git/modules/m\n"),
        ("nested/.git/HEAD", "x"),
        ("nested/.git/config", "[core]\n\tfsmonitor = mine\n"),
        ("loose/.git/HEAD", "x"),
        ("sub/AGENTS.md", ""),
    ]);
    let policy = SandboxPolicy { projects: vec![root.clone()], ..SandboxPolicy::default() };
    let mut projects = look_at(&policy, Vec::new).unwrap();
    let check = |projects: &SurveyedProjects, expected: [bool; 5]| {
        let watch = ProtectionWatch::begin(projects, &policy);
        let names = [".git", "nested/.git", "loose/.git", "m/.git", "sub/AGENTS.md"];
        assert_eq!(names.map(|name| watch.projects[0].is_known(&root.join(name))), expected);
    };
    check(&projects, [true, true, false, false, false]);
    // Nor is one that another program may have made.
    projects.settled.remove(&root.join("nested/.git"));
    check(&projects, [true, false, false, false, false]);
}

#[test]
fn a_copy_of_what_another_program_may_have_made_does_not_stay() {
    let (_folder, root) = project(&[(".git/HEAD", "ref: refs/heads/main\n"), ("AGENTS.md", "Be good.\n")]);
    let make = || {
        write(&root, ".git/worktrees/tree/HEAD", "ref: refs/heads/x\n");
        write(&root, ".git/worktrees/tree/commondir", "../..\n");
        write(&root, "tree/.git", "gitdir: ../.git/worktrees/tree\n");
        write(&root, "tree/AGENTS.md", "Be good.\n");
    };
    let forget = |projects: &mut SurveyedProjects| projects.settled.remove(&root.join("AGENTS.md"));
    assert_eq!(after_seen(&root, Vec::new(), forget, make), [renamed("tree/AGENTS.md")]);
    fs::remove_dir_all(root.join("tree")).unwrap();
    assert_eq!(after(&root, make), [""; 0]);
}

#[test]
fn a_copy_that_is_moved_with_its_folder_does_not_stay() {
    let (_folder, root) = project(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/worktrees/tree/HEAD", "ref: refs/heads/x\n"),
        (".git/worktrees/tree/commondir", "../..\n"),
        ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
        ("sub/AGENTS.md", "Be good.\n"),
        ("tree/sub/AGENTS.md", "Be good.\n"),
    ]);
    let told = after(&root, || fs::rename(root.join("tree/sub"), root.join("moved")).unwrap());
    assert_eq!(told, [renamed("moved/AGENTS.md")]);
    // What is none stays.
    let told = after(&root, || fs::rename(root.join("sub"), root.join("other")).unwrap());
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_link_to_a_folder_of_plans_is_no_folder_of_plans() {
    // Whatever is put beside them later is in it.
    let (_folder, root) = project(&[("file", "")]);
    let told = after(&root, || {
        fs::create_dir_all(root.join("sub/plans")).unwrap();
        symlink("sub", root.join(".opencode")).unwrap();
    });
    assert_eq!(told, [renamed(".opencode")]);
}

#[test]
fn what_changed_in_the_moment_in_which_the_look_began_is_looked_into() {
    let (_folder, root) = project(&[("sub/file", "")]);
    let make = |projects: &mut SurveyedProjects| {
        fs::create_dir(root.join("sub/.vscode")).unwrap();
        projects.since = changed(&lstat(root.join("sub")).unwrap());
    };
    assert_eq!(after_seen(&root, Vec::new(), make, || {}), [renamed("sub/.vscode")]);
}

#[test]
fn a_copy_that_was_not_changed_stays_whatever_becomes_of_the_original() {
    // It was renamed if the person changed the original while the program changed something beside the copy.
    let files = [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/worktrees/tree/HEAD", "ref: refs/heads/x\n"),
        (".git/worktrees/tree/commondir", "../..\n"),
        ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
        ("AGENTS.md", "old\n"),
        ("tree/AGENTS.md", "old\n"),
    ];
    let (_folder, root) = project(&files);
    // Nor do other names count against what was there.
    let fill = |survey: &mut ProjectSurvey| survey.names.resize(MOST_NAMES, root.join("sub/CLAUDE.md"));
    let change = || {
        write(&root, "AGENTS.md", "new\n");
        write(&root, "tree/file", "");
    };
    assert_eq!(after_with(&root, fill, change), [""; 0]);
    let (_folder, root) = project(&files);
    let told = after(&root, || write(&root, "tree/AGENTS.md", "new\n"));
    assert_eq!(told, [renamed("tree/AGENTS.md")]);
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
        (".git/modules/old.untrusted/x", ""),
        (".git/info/x", ""),
    ]);
    let told = after(&root, || make_too_deep(&root, ".git/modules/mine/modules/deep"));
    assert_eq!(told, [renamed(".git/modules")]);
}

#[test]
fn what_was_permitted_stays_also_in_a_folder_of_gits() {
    let (_folder, root) = project(&[(".git/HEAD", "ref: refs/heads/main\n")]);
    let make = |name: &str| write(&root, name, "");
    let told = after_seen(
        &root,
        vec![root.join(".git/hooks/update"), root.join(".git/config.worktree")],
        |_| {},
        || {
            make(".git/config.worktree");
            make(".git/hooks/update");
            make(".git/info/attributes");
        },
    );
    assert_eq!(told, [renamed(".git/info/attributes")]);
}
