//! What the sandbox kept from a command is told in its result, also where the command itself goes on or says nothing.

use std::fs;

use everturn_model::permission::{Action, Policy, Rule};
use everturn_tools::process::sandbox::{SandboxNetwork, SandboxSettings};

use super::{EnclosedBash, all, enclosed, enclosed_by, require_whole};
use crate::bash::command;
use crate::harness::Project;

/// What a line gives where nothing of it was permitted.
async fn result(project: &Project, tool: &EnclosedBash, line: &str) -> String {
    project.run_with(Vec::new(), tool, command(line)).await.unwrap().output
}

/// A repository in which the branch `other` has another `AGENTS.md` and another file, and `gone` has no `AGENTS.md`. A
/// clone beside it, which is its remote, is ahead by the same change.
fn repository() -> Project {
    let project = Project::new();
    let line = "git init -qb main && git config user.name A && git config user.email a@b && \
                git config pull.rebase false && \
                echo old > AGENTS.md && echo old > code && git add . && git commit -qm one && \
                git checkout -qb other && echo new > AGENTS.md && echo new > code && git commit -qam two && \
                git checkout -qb gone && git rm -q AGENTS.md && git commit -qm three && git checkout -q main && \
                git clone -q . ../remote && git -C ../remote checkout -q -B main origin/other && \
                git remote add origin ../remote && git checkout -qb mine && echo x > mine && git add . && \
                git commit -qm mine && git checkout -q main";
    let mut git = std::process::Command::new("bash");
    let done = git.args(["-c", line]).current_dir(&project.scope.worktree).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    project
}

/// What is said of a protected file that git could not change.
const LEFT: &str = "(git could not change AGENTS.md, because it can only be read in the sandbox: the file in the work \
                    tree is still the old one, and a commit of everything takes the change back, also one that this \
                    line made. To bring it in line, run `git checkout HEAD -- AGENTS.md` (`rm` where it is not \
                    committed), and the person is asked; or `outside_sandbox` asks the person to run it outside.)";

#[tokio::test]
async fn a_protected_file_that_git_leaves_behind_is_told() {
    require_whole();
    for line in [
        "git checkout other",
        "git checkout -q other && git commit -qam x",
        "git switch other",
        "git checkout gone",
        "git merge other",
        "git checkout mine && git rebase other",
        "git checkout mine && git cherry-pick other",
        "git reset --hard other",
        "mkdir sub; cd sub; git switch other",
        "git checkout other && for line in $(seq 3000); do echo $line; done",
    ] {
        let project = repository();
        let output = result(&project, &enclosed(all()), line).await;
        assert!(output.ends_with(LEFT), "{line}: {output}");
        assert_eq!(project.text("AGENTS.md"), "old\n", "{line}");
    }
    let project = repository();
    fs::write(project.path("AGENTS.md"), "mine\n").unwrap();
    for line in ["git stash", "git checkout -f other", "git reset --hard"] {
        let output = result(&project, &enclosed(all()), line).await;
        assert!(output.ends_with(LEFT), "{line}: {output}");
        assert_eq!(project.text("AGENTS.md"), "mine\n", "{line}");
    }
}

#[tokio::test]
async fn a_pull_that_leaves_a_protected_file_behind_is_told() {
    require_whole();
    let project = repository();
    let sandbox = SandboxSettings {
        parts: all(),
        readable: vec![project.outside().join("remote")],
        ..SandboxSettings::default()
    };
    let output = result(&project, &enclosed_by(sandbox), "git pull -q origin main").await;
    assert!(output.ends_with(LEFT), "{output}");
    assert_eq!((project.text("AGENTS.md"), project.text("code")), ("old\n".to_owned(), "new\n".to_owned()));
}

#[tokio::test]
async fn what_was_left_behind_is_brought_in_line_by_the_line_that_is_named() {
    require_whole();
    let project = repository();
    result(&project, &enclosed(all()), "git checkout other").await;
    let output = project.run(&enclosed(all()), command("git checkout HEAD -- AGENTS.md")).await.unwrap();
    assert_eq!(output.metadata["exit"], 0, "{}", output.output);
    assert_eq!(project.text("AGENTS.md"), "new\n");
    assert_eq!(result(&project, &enclosed(all()), "git status --short").await, "(no output)");
}

#[tokio::test]
async fn a_protected_file_is_told_by_its_bare_name() {
    require_whole();
    let project = repository();
    project.file("change", "echo x >> AGENTS.md");
    for line in ["bash change", "bash change || true", "sed -i s/old/new/ AGENTS.md"] {
        let output = result(&project, &enclosed(all()), line).await;
        let told = format!("{}/AGENTS.md can only be read in it", project.scope.worktree.display());
        assert!(output.contains(&told), "{line}: {output}");
    }
}

#[tokio::test]
async fn names_that_git_could_change_are_no_reason_for_a_note() {
    require_whole();
    let project = repository();
    for line in [
        "echo \"error: unable to unlink old 'code': Device or resource busy\"",
        "echo \"AGENTS.md is fine\"; echo 'sda: Device or resource busy'",
        "git diff main other",
    ] {
        let output = result(&project, &enclosed(all()), line).await;
        assert!(!output.contains("sandbox"), "{line}: {output}");
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_seen_is_told_however_it_is_named() {
    require_whole();
    let project = Project::new();
    fs::create_dir_all(&project.scope.home).unwrap();
    for folder in [project.outside(), project.scope.home.clone()] {
        fs::write(folder.join("secret"), "canary").unwrap();
    }
    let (home, outside) = (project.scope.home.display().to_string(), project.outside().display().to_string());
    project.file("look", "cat ../secret");
    project.file("deep/look", "cd deep && cat ../../secret");
    project.file("home", format!("HOME={home}; cat $HOME/secret"));
    for (line, place) in [
        ("bash look", format!("{outside}/secret")),
        ("bash look || true", format!("{outside}/secret")),
        ("bash look; echo on", format!("{outside}/secret")),
        ("bash home", format!("{home}/secret")),
        ("bash home || true", format!("{home}/secret")),
        (&format!("HOME={home}; cat $HOME/secret"), format!("{home}/secret")),
        (&format!("HOME={home}; cat \"$HOME/secret\" || true"), format!("{home}/secret")),
    ] {
        let output = result(&project, &enclosed(all()), line).await;
        let told = format!("(The command ran in a sandbox: {place} cannot be seen in it. ");
        assert!(output.contains(&told) && !output.contains("canary"), "{line}: {output}");
    }
    // A script that works elsewhere names the place by a path that is not ours to resolve; something is said all the same.
    let output = result(&project, &enclosed(all()), "bash deep/look").await;
    assert!(output.contains("cannot be seen in it"), "{output}");
    // What is merely not there is not the sandbox's doing.
    for line in ["cat nothing", "cat ./nothing || true", "ls src/../nothing"] {
        let output = result(&project, &enclosed(all()), line).await;
        assert!(!output.contains("sandbox"), "{line}: {output}");
    }
}

#[tokio::test]
async fn a_network_that_is_not_there_is_told_also_where_nothing_is_printed() {
    require_whole();
    let project = Project::new();
    project.file("reach", "curl -s http://127.0.0.1:9");
    project.file("silent", "exit 7");
    let tool = |action: Action, outside: Action| {
        let rules = vec![Rule::new("network", "*", action), Rule::new("outside_sandbox", "*", outside)];
        let rules = Some(Policy::new(rules));
        let network = SandboxNetwork::Own;
        enclosed_by(SandboxSettings { parts: all(), network, rules, ..SandboxSettings::default() })
    };
    let asking = tool(Action::Ask, Action::Ask);
    for line in [
        "curl -s http://127.0.0.1:9",
        "curl -s http://127.0.0.1:9 || true",
        "bash reach",
        "bash silent",
        "echo 'curl: (6) Could not resolve host: x' || true",
    ] {
        let output = result(&project, &asking, line).await;
        assert!(
            output
                .contains("(The command ran in a sandbox: it has no network (set `network` to ask for it). "),
            "{line}: {output}"
        );
    }
    for line in ["false", "exit 7 | cat", "echo http://x"] {
        let output = result(&project, &asking, line).await;
        assert!(!output.contains("sandbox"), "{line}: {output}");
    }
    // What is denied is not offered.
    let line = "curl -s http://127.0.0.1:9";
    let denied = result(&project, &tool(Action::Deny, Action::Ask), line).await;
    assert_eq!(
        denied,
        "(The command ran in a sandbox: it has no network (a rule is against it). If that is why it failed, find \
         another way.)"
    );
    let kept = result(&project, &tool(Action::Allow, Action::Deny), "cat /srv/x/y").await;
    assert_eq!(
        kept,
        "cat: /srv/x/y: No such file or directory\n\n(The command ran in a sandbox: /srv/x/y cannot be seen in it. If \
         that is why it failed, find another way: a rule is against running it outside.)"
    );
}
