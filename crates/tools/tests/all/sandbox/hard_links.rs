//! Files with more than one name: what is protected under one of them is not changed by the other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::scope::PathAccess;

use super::places::run;
use super::require_whole;
use crate::harness::{Project, names};

#[tokio::test]
async fn what_was_renamed_has_no_other_name() {
    require_whole();
    let project = Project::new();
    let line = "echo good > AGENTS.md; chmod 640 AGENTS.md; ln AGENTS.md notes.txt; mkdir -p .vscode/in; \
                echo {} > .vscode/in/tasks.json; ln .vscode/in/tasks.json t.json";
    let (said, told) = run(&project, &SandboxSettings::default(), line).await;
    let renamed = [".vscode", "AGENTS.md"].map(|name| format!("{name} was renamed to {name}.untrusted"));
    assert_eq!(told, renamed, "{said}");
    // The person has looked at it and takes it.
    for name in ["AGENTS.md", ".vscode"] {
        fs::rename(project.path(&format!("{name}.untrusted")), project.path(name)).unwrap();
    }
    run(&project, &SandboxSettings::default(), "echo E >> notes.txt; echo E >> t.json").await;
    let texts = ["AGENTS.md", ".vscode/in/tasks.json", "notes.txt", "t.json"].map(|name| project.text(name));
    assert_eq!(texts, ["good\n", "{}\n", "good\nE\n", "{}\nE\n"]);
    assert_eq!(fs::metadata(project.path("AGENTS.md")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&project.scope.worktree), [".vscode", "AGENTS.md", "notes.txt", "t.json"]);
}

#[tokio::test]
async fn other_names_of_something_protected_are_protected() {
    require_whole();
    let project = Project::new();
    for (name, other) in [
        ("AGENTS.md", "docs/guide.md"),
        (".vscode/in/tasks.json", "tasks.json"),
        (".git/hooks/pre-commit", "scripts/hook.sh"),
        (".git/hooks/lib/inner", "inner"),
        (".git/modules/m/hooks/pre-commit", "module"),
        ("own/pre-push", "push"),
        ("real.md", "led"),
    ] {
        project.file(name, "old\n");
        fs::create_dir_all(project.path(other).parent().unwrap()).unwrap();
        fs::hard_link(project.path(name), project.path(other)).unwrap();
    }
    project.file(".git/HEAD", "ref: refs/heads/main\n");
    project.file(".git/modules/m/HEAD", "ref: refs/heads/main\n");
    project.file(".git/config", "[core]\n\thooksPath = own\n");
    std::os::unix::fs::symlink("real.md", project.path("CLAUDE.md")).unwrap();
    project.file("docs/other.md", "old\n");
    let line = "for f in docs/guide.md tasks.json scripts/hook.sh inner module push led; do echo E >> $f; done; \
                echo E >> docs/other.md";
    let (said, _) = run(&project, &SandboxSettings::default(), line).await;
    let texts = ["AGENTS.md", ".vscode/in/tasks.json", ".git/hooks/pre-commit", "docs/other.md"];
    assert_eq!(texts.map(|name| project.text(name)), ["old\n", "old\n", "old\n", "old\nE\n"], "{said}");
    let texts = [".git/hooks/lib/inner", ".git/modules/m/hooks/pre-commit", "own/pre-push", "real.md"];
    assert_eq!(texts.map(|name| project.text(name)), ["old\n"; 4], "{said}");
    let needs = project.scope.external(&project.path("docs/guide.md"), PathAccess::Write);
    let asked: Vec<&str> = needs.iter().map(|need| need.permission.as_str()).collect();
    assert_eq!(asked, ["protected_file"]);
}
