//! Snapshots while a command runs: what it made at a protected name is not put there again by an undo.

use std::fs;
use std::path::{Path, PathBuf};

use everturn_tools::snapshot::{RestoreReport, SkipReason, SnapshotPlan, Snapshots, TreeId};

use super::overlap::{PausedCommand, project};
use super::require_whole;
use crate::harness::Project;

fn open(project: &Project) -> Snapshots {
    Snapshots::open(project.outside().join("store"), project.path("")).unwrap()
}

/// Puts back what differs between a tree and the files as they are.
fn restore(snapshots: &Snapshots, target: &TreeId) -> RestoreReport {
    let now = snapshots.capture().unwrap();
    let files = snapshots.changed(target, &now).unwrap();
    snapshots.restore(&SnapshotPlan::uniform(now, target, files)).unwrap()
}

/// The files that were not put back because a command may have made them, below the project.
fn unsettled(project: &Project, report: &RestoreReport) -> Vec<PathBuf> {
    let is_aside = |file: &Path| file.display().to_string().contains(".untrusted");
    let skipped = report.skipped.iter().filter(|skipped| skipped.why == SkipReason::Unsettled);
    let skipped = skipped.filter(|skipped| {
        // What was put aside stays: it may be the person's.
        assert!(!is_aside(&skipped.file) || skipped.file.symlink_metadata().is_ok(), "{report:?}");
        !is_aside(&skipped.file)
    });
    assert!(!report.restored.iter().any(|file| is_aside(file)), "{report:?}");
    skipped.map(|skipped| skipped.file.strip_prefix(project.path("")).unwrap().to_owned()).collect()
}

/// A command makes files, a snapshot is taken while it runs, and it ends; then that snapshot is put back.
async fn check(make: &str, refused: &[&str], restored: &[&str]) {
    let project = project();
    let snapshots = open(&project);
    let command = PausedCommand::start(&project, "one", make, "rm -f ordinary").await;
    let during = snapshots.capture().unwrap();
    for file in refused.iter().chain(restored) {
        assert!(snapshots.content(&during, Path::new(file)).unwrap().is_some(), "{make}: {file} is shown");
    }
    command.end().await;
    let report = restore(&snapshots, &during);
    assert_eq!(unsettled(&project, &report), refused.iter().map(PathBuf::from).collect::<Vec<_>>(), "{make}");
    for file in refused {
        assert!(!project.path(file).exists(), "{make}: {file} is not armed again");
    }
    for file in restored {
        assert!(report.restored.contains(&project.path(file)), "{make}: {file} in {report:?}");
        assert!(project.path(file).exists(), "{make}: {file}");
    }
}

#[tokio::test]
async fn what_a_command_made_at_a_protected_name_is_not_put_back() {
    // A snapshot of the next turn had it, so undoing that turn put it where the sandbox had taken it away.
    require_whole();
    for (make, refused) in [
        ("mkdir .vscode; echo {} > .vscode/tasks.json", ".vscode/tasks.json"),
        ("echo x > AGENTS.md", "AGENTS.md"),
        ("mkdir -p new/.zed; echo {} > new/.zed/tasks.json", "new/.zed/tasks.json"),
        ("ln -s sub/file .envrc", ".envrc"),
        (
            "mkdir -p bare/refs bare/objects; echo x > bare/HEAD; printf '[core]\\n\\tfsmonitor = x\\n' > bare/config",
            "bare/config",
        ),
        (
            "echo HEAD > .gitignore; mkdir -p bare/refs bare/objects; echo x > bare/HEAD; \
             printf '[core]\\n\\tfsmonitor = x\\n' > bare/config",
            "bare/config",
        ),
    ] {
        check(&format!("echo x > ordinary; {make}"), &[refused], &["ordinary"]).await;
    }
}

#[tokio::test]
async fn what_something_protected_leads_to_is_not_put_back() {
    // A link that the person made leads to a place that was empty.
    require_whole();
    let project = project();
    std::os::unix::fs::symlink("tools/hooks", project.path(".githooks")).unwrap();
    let snapshots = open(&project);
    let make = "mkdir -p tools/hooks; echo x > tools/hooks/pre-commit; echo x > tools/other";
    let command = PausedCommand::start(&project, "one", make, "rm tools/other").await;
    let during = snapshots.capture().unwrap();
    command.end().await;
    assert!(!project.path("tools/hooks").exists());
    let report = restore(&snapshots, &during);
    assert_eq!(unsettled(&project, &report), [PathBuf::from("tools/hooks/pre-commit")]);
    assert!(!project.path("tools/hooks").exists());
    assert!(project.path("tools/other").exists());
}

#[tokio::test]
async fn what_the_person_had_is_put_back_although_a_command_runs() {
    // An edit with permission of a protected file can be undone, also while a server runs in the background.
    require_whole();
    let project = project();
    project.file(".vscode/settings.json", "{}");
    let snapshots = open(&project);
    let command = PausedCommand::start(&project, "one", "mkdir .zed; echo {} > .zed/tasks.json", "").await;
    // The person saves while it runs.
    project.file("sub/AGENTS.md", "Be better.\n");
    let before = snapshots.capture().unwrap();
    project.file("sub/AGENTS.md", "changed");
    fs::remove_file(project.path(".vscode/settings.json")).unwrap();
    let report = restore(&snapshots, &before);
    assert_eq!(report.skipped, []);
    assert_eq!(project.text("sub/AGENTS.md"), "Be better.\n");
    assert_eq!(project.text(".vscode/settings.json"), "{}");
    command.end().await;
    // A snapshot that was taken when nothing ran has no doubts.
    let after = snapshots.capture().unwrap();
    project.file("CLAUDE.md", "new");
    let with_it = snapshots.capture().unwrap();
    restore(&snapshots, &after);
    assert!(!project.path("CLAUDE.md").exists());
    assert_eq!(restore(&snapshots, &with_it).skipped, []);
    assert_eq!(project.text("CLAUDE.md"), "new");
}

#[tokio::test]
async fn what_git_would_run_is_not_put_into_a_folder_that_is_one_of_its_on_the_disk() {
    // What made it one was ignored, so no tree said so: an undo armed it, and `git status` above it ran a program.
    let evil = "[core]\n\tfsmonitor = evil\n";
    let plain = "[core]\n\tbare = true\n";
    let check = |ignored: &str, before: &[(&str, &str)], now: &[(&str, &str)], refused: &[&str]| {
        let project = Project::new();
        let write = |files: &[(&str, &str)]| {
            for (name, text) in files {
                project.file(name, text);
            }
        };
        write(&[(".gitignore", ignored), ("kept", "")]);
        write(before);
        let snapshots = open(&project);
        let target = snapshots.capture().unwrap();
        fs::remove_dir_all(project.path("sub.git")).unwrap();
        write(now);
        let report = restore(&snapshots, &target);
        assert_eq!(unsettled(&project, &report), refused.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(report.skipped.len(), refused.len(), "{report:?}");
        for (name, text) in before.iter().filter(|(name, _)| !refused.contains(name)) {
            assert_eq!(project.text(name), *text);
        }
        for name in refused {
            assert!(
                !fs::read_to_string(project.path(name)).is_ok_and(|text| text.contains("evil")),
                "{name}"
            );
        }
    };
    let head = ("sub.git/HEAD", "ref: refs/heads/main\n");
    let repository = [head, ("sub.git/objects/x", ""), ("sub.git/refs/x", "")];
    let armed =
        [("sub.git/config", evil), ("sub.git/hooks/pre-push", "evil"), ("sub.git/hooks/x.sample", "")];
    let ignored = "sub.git/*\n!sub.git/config\n!sub.git/hooks\n";
    let refused = ["sub.git/config", "sub.git/hooks/pre-push"];
    check(ignored, &armed, &repository, &refused);
    check(ignored, &armed, &[&repository[..], &[("sub.git/config", plain)]].concat(), &refused);
    check("", &[&repository[..], &armed[..]].concat(), &[], &refused);
    // The other way round: what makes it one.
    check("sub.git/config\n", &repository, &[("sub.git/config", evil)], &["sub.git/refs/x"]);
    let elsewhere = [head, ("sub.git/commondir", "../other\n")];
    check("", &elsewhere, &[], &["sub.git/commondir"]);
    // What runs nothing comes back.
    check("", &[&repository[..], &[("sub.git/config", plain), armed[2]]].concat(), &[], &[]);
    check("", &armed, &[], &[]);
}
