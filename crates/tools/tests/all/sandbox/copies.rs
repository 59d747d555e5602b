//! What says the same in the same place stays; a copy elsewhere is something new.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::Arc;

use everturn_tools::process::sandbox::SandboxSettings;

use super::places::run;
use super::require_whole;
use crate::harness::Project;

/// A project with a repository, files of its own and of a stranger's, and links.
fn project() -> Project {
    let project = Project::new();
    for (name, text) in [
        (".envrc", "mine"),
        (".husky/pre-commit", "mine"),
        ("docs/guide.md", "mine"),
        ("AGENTS.md", "mine"),
        ("other/AGENTS.md", "mine"),
        ("pkg/file", ""),
        ("strange/.envrc", "evil"),
        ("strange/.vscode/tasks.json", "evil"),
        ("strange/scripts/env.sh", "harmless there"),
    ] {
        project.file(name, text);
    }
    for (link, target) in [
        ("GEMINI.md", "docs/guide.md"),
        ("pkg/AGENTS.md", "../docs/guide.md"),
        ("pkg/.claude/commands", "../../docs"),
        ("strange/.mise.toml", "scripts/env.sh"),
        ("other/CLAUDE.md", "AGENTS.md"),
    ] {
        fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
        symlink(target, project.path(link)).unwrap();
    }
    person(&project, "git init -qb main && git config user.name n && git config user.email e");
    person(&project, "git add -A && git commit -qm one");
    project
}

fn person(project: &Project, line: &str) {
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", line]).current_dir(&project.scope.worktree).status().unwrap().success());
}

/// The links of the project in a worktree or clone.
const LINKS: [&str; 5] =
    ["GEMINI.md", "other/CLAUDE.md", "pkg/.claude", "pkg/AGENTS.md", "strange/.mise.toml"];

/// Runs lines one after the other, and compares what is told about names in the end.
async fn check(project: &Project, lines: &[&str], renamed: &[&str]) {
    let mut all = Vec::new();
    for line in lines {
        let (said, mut told) = run(project, &SandboxSettings::default(), line).await;
        assert!(!said.contains("fatal"), "{line}: {said}");
        all.append(&mut told);
    }
    let renamed: Vec<String> =
        renamed.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
    assert_eq!(all, renamed, "{lines:?}");
}

#[tokio::test]
async fn what_a_worktree_has_from_its_repository_stays() {
    require_whole();
    let check = async |lines: &[&str], renamed: &[&str]| {
        let project = project();
        for link in LINKS {
            person(&project, &format!("git rm -rq {link}"));
        }
        person(&project, "git commit -qm two; cp -r . ../copy; mv ../copy nested");
        check(&project, lines, renamed).await;
    };
    let add = "git worktree add -q -b side tree";
    check(&[add, "git worktree remove tree"], &[]).await;
    check(&[add, "rm tree/.envrc; git -C tree checkout -q .envrc AGENTS.md"], &[]).await;
    check(
        &[
            "cd nested; git worktree add -q -b side ../tree; git worktree list",
            "cd nested; git worktree remove ../tree",
        ],
        &[],
    )
    .await;
    // What is not the same any more does not, whether it is made or changed by a later command.
    let evil = "echo x >> tree/.envrc; chmod +x tree/.husky/pre-commit";
    let renamed = ["tree/.envrc", "tree/.husky"];
    check(&[&format!("{add}; {evil}")], &renamed).await;
    check(&[add, evil], &renamed).await;
    // Nor what lies elsewhere in it.
    check(&[add, "cp strange/.envrc tree/docs"], &["tree/docs/.envrc"]).await;
    // What was there is no worktree of a stranger's repository.
    let forge = "cd nested; git worktree add -q --no-checkout -b side ../tree; mv ../tree/.git ../docs";
    check(&[forge, "cp nested/.envrc docs"], &["docs/.envrc"]).await;
}

#[tokio::test]
async fn links_are_copied_nowhere() {
    require_whole();
    let renamed = LINKS.map(|name| format!("tree/{name}"));
    check(&project(), &["git worktree add -q -b side tree"], &renamed.each_ref().map(String::as_str)).await;
    // Who switches branches and back has them again.
    check(&project(), &["rm -r pkg; git checkout -q pkg; touch file; git stash -qu"], &[]).await;
}

#[tokio::test]
async fn what_is_copied_to_another_place_does_not_stay() {
    // A file of a stranger's did nothing where it lay, and was taken for nothing new where it runs.
    require_whole();
    check(&project(), &["cp -r strange/.vscode ."], &[".vscode"]).await;
    check(
        &project(),
        &["mkdir sub; cp strange/.envrc sub; cp AGENTS.md sub"],
        &["sub/.envrc", "sub/AGENTS.md"],
    )
    .await;
    check(
        &project(),
        &["git clone -q . clone"],
        &[
            "clone/.envrc",
            "clone/.husky",
            "clone/AGENTS.md",
            "clone/GEMINI.md",
            "clone/other/AGENTS.md",
            "clone/other/CLAUDE.md",
            "clone/pkg/.claude",
            "clone/pkg/AGENTS.md",
            "clone/strange/.envrc",
            "clone/strange/.mise.toml",
            "clone/strange/.vscode",
        ],
    )
    .await;
    // Nor from what says that it is a worktree.
    let forge = "mkdir -p .git/worktrees/w; echo ../.. > .git/worktrees/w/commondir; cp .git/HEAD .git/worktrees/w; \
                 echo \"$PWD/strange/.git\" > .git/worktrees/w/gitdir; echo gitdir: ../.git/worktrees/w > strange/.git";
    check(&project(), &[forge, "cp -r strange/.vscode ."], &[".vscode"]).await;
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_does_not_stay() {
    require_whole();
    // Copied, with something else at the end.
    let line = "mkdir -p scripts; echo evil > scripts/env.sh; ln -s scripts/env.sh .mise.toml";
    check(&project(), &[line], &[".mise.toml"]).await;
    let line = "mkdir -p sub/docs; echo evil > sub/docs/guide.md; ln -s docs/guide.md sub/AGENTS.md";
    check(&project(), &[line], &["sub/AGENTS.md"]).await;
    // Moved with the folder that it lies in.
    let line = "mkdir -p away/docs; echo evil > away/docs/guide.md; mv pkg away/";
    check(&project(), &[line], &["away/pkg/.claude", "away/pkg/AGENTS.md"]).await;
    check(&project(), &["mkdir away; mv other away/; mv pkg moved"], &[]).await;
}

#[tokio::test]
async fn a_link_of_a_repository_that_was_moved_leads_where_it_did() {
    require_whole();
    let project = project();
    for (name, text) in [("nested/.git/HEAD", "x"), ("shared/hook", "mine")] {
        project.file(name, text);
    }
    fs::create_dir(project.path("nested/.git/hooks")).unwrap();
    symlink("../../../shared/hook", project.path("nested/.git/hooks/pre-commit")).unwrap();
    check(&project, &["mv nested moved; mv moved nested"], &[]).await;
    let line = "mkdir -p away/shared; echo evil > away/shared/hook; mv nested away/";
    check(&project, &[line], &["away/nested/.git/hooks"]).await;
}

#[tokio::test]
async fn nothing_is_copied_into_a_home_folder() {
    require_whole();
    let mut project = project();
    let home = project.scope.worktree.clone();
    Arc::get_mut(&mut project.scope).unwrap().home = home;
    project.file("strange/.bash_profile", "evil");
    fs::set_permissions(project.path("strange"), fs::Permissions::from_mode(0o700)).unwrap();
    check(
        &project,
        &["cp strange/.bash_profile .; cp strange/.bash_profile .profile"],
        &[".bash_profile", ".profile"],
    )
    .await;
}
