//! Two commands at once: what one of them made is nothing old to the other.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::write::WriteTool;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use super::depth::told;
use super::excess::open_all;
use super::{all, enclosed_by, require_whole};
use crate::bash::{command, watch};
use crate::harness::{Project, names as names_in};

/// A command that waits in the middle. What it says about protected names in the end is the result.
pub(super) struct PausedCommand {
    go_on: PathBuf,
    running: JoinHandle<Vec<String>>,
}

impl PausedCommand {
    /// Starts one, and returns when it waits.
    pub(super) async fn start(project: &Arc<Project>, name: &str, before: &str, after: &str) -> Self {
        Self::start_in(project, &SandboxSettings::default(), name, before, after).await
    }

    /// The same in a sandbox with settings.
    async fn start_in(
        project: &Arc<Project>,
        settings: &SandboxSettings,
        name: &str,
        before: &str,
        after: &str,
    ) -> Self {
        let arrived = watch(&project.path(&format!("{name}.arrived")));
        let go_on = project.path(&format!("{name}.go"));
        assert!(Command::new("mkfifo").arg(&go_on).status().unwrap().success());
        let line = format!("{before}\necho > {name}.arrived; read x < {name}.go\n{after}");
        let project = Arc::clone(project);
        let tool = enclosed_by(SandboxSettings { parts: all(), ..settings.clone() });
        let running = tokio::spawn(async move {
            let output = project.run_with(Vec::new(), &tool, command(&line)).await.unwrap();
            assert_eq!(output.metadata["exit"], 0, "{line}: {}", output.output);
            told(&project, &output)
        });
        arrived.await.unwrap();
        Self { go_on, running }
    }

    /// Lets it go on, until it has ended.
    pub(super) async fn end(self) -> Vec<String> {
        let go_on = self.go_on;
        spawn_blocking(move || fs::write(go_on, "\n")).await.unwrap().unwrap();
        self.running.await.unwrap()
    }
}

/// A project with a repository of its own, one in a folder in which nothing runs, and protected names.
pub(super) fn project() -> Arc<Project> {
    let project = Project::new();
    for (name, text) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", "[core]\n\tbare = false\n"),
        ("clone/.git/HEAD", "ref: refs/heads/main\n"),
        ("clone/.git/hooks/x.sample", ""),
        ("sub/AGENTS.md", "Be good.\n"),
        ("sub/file", ""),
    ] {
        project.file(name, text);
    }
    std::os::unix::fs::symlink("sub/file", project.path("GEMINI.md")).unwrap();
    std::os::unix::fs::symlink("later/tasks", project.path(".zed")).unwrap();
    Arc::new(project)
}

/// What one command makes and takes away, at which name the other finds it, and what becomes of that.
const MADE: [(&str, &str, &str); 12] = [
    ("mkdir .git/hooks; echo x > .git/hooks/pre-commit", "rm -r .git/hooks", ".git/hooks"),
    ("mkdir .vscode; echo {} > .vscode/tasks.json", "rm -r .vscode", ".vscode"),
    ("echo ../sub > .git/commondir", "rm .git/commondir", ".git/commondir"),
    ("mkdir -p .git/info; echo x > .git/info/attributes", "rm -r .git/info", ".git/info/attributes"),
    ("ln -s sub/file AGENTS.md", "rm AGENTS.md", "AGENTS.md"),
    ("mkdir -p new/.zed", "rm -r new", "new/.zed"),
    ("mv sub gone; mkdir sub; echo x > sub/AGENTS.md", "rm -r sub; mv gone sub", "sub/AGENTS.md"),
    (
        "mkdir -p clone/.git/hooks; echo x > clone/.git/hooks/pre-push",
        "rm -r clone/.git/hooks",
        "clone/.git/hooks",
    ),
    (
        "mkdir -p new/.git/hooks; echo x > new/.git/HEAD; echo x > new/.git/hooks/update",
        "rm -r new",
        "new/.git/hooks",
    ),
    (
        "mkdir -p .git/worktrees/w; echo x > .git/worktrees/w/HEAD; echo ../../../sub > .git/worktrees/w/commondir",
        "rm -r .git/worktrees",
        ".git/worktrees/w/commondir",
    ),
    (
        "mkdir -p bare/refs bare/objects; echo x > bare/HEAD; printf '[core]\\n\\tfsmonitor = x\\n' > bare/config",
        "rm -r bare",
        "bare/config",
    ),
    // Where a protected link leads.
    ("mkdir -p later/tasks", "rm -r later", "later/tasks"),
];

fn renamed(name: &str, to: &str) -> Vec<String> {
    vec![format!("{name} was renamed to {name}.{to}")]
}

#[tokio::test]
async fn what_one_command_made_and_took_away_another_does_not_make_for_good() {
    // It was taken for old, because it was there when the other began.
    require_whole();
    for (make, remove, name) in MADE {
        let project = project();
        let one = PausedCommand::start(&project, "one", make, remove).await;
        let other = PausedCommand::start(&project, "other", "", make).await;
        assert_eq!(one.end().await, [""; 0], "{make}");
        assert_eq!(other.end().await, renamed(name, "untrusted"), "{make}");
    }
}

#[tokio::test]
async fn what_another_makes_again_in_a_folder_that_it_closes_does_not_stay() {
    // Root is not kept out, so this says more where it runs as an ordinary user.
    require_whole();
    let project = project();
    let settings = SandboxSettings { hidden: vec![project.path("own/data")], ..SandboxSettings::default() };
    let start =
        async |name, before, after| PausedCommand::start_in(&project, &settings, name, before, after).await;
    let one = start("one", "mkdir -p own/data", "rm -r own").await;
    let other = start("other", "", "mkdir -p own/data; chmod 0 own").await;
    assert_eq!(one.end().await, [""; 0]);
    let told = other.end().await;
    open_all(&project);
    assert_eq!(told, renamed("own/data", "untrusted"));
}

#[tokio::test]
async fn what_one_command_made_is_not_renamed_by_another_but_by_itself() {
    require_whole();
    for (make, _, name) in MADE {
        let project = project();
        let one = PausedCommand::start(&project, "one", make, "").await;
        let other = PausedCommand::start(&project, "other", "", "").await;
        assert_eq!(other.end().await, [""; 0], "{make}");
        assert!(project.path(name).symlink_metadata().is_ok(), "{make}");
        assert_eq!(one.end().await, renamed(name, "untrusted"), "{make}");
    }
}

#[tokio::test]
async fn what_was_renamed_for_one_command_another_does_not_make_again() {
    require_whole();
    for (make, _, name) in MADE.into_iter().filter(|(make, ..)| !make.contains("mv ")) {
        let project = project();
        let one = PausedCommand::start(&project, "one", make, "").await;
        let other = PausedCommand::start(&project, "other", "", &format!("{make}; true")).await;
        assert_eq!(one.end().await, renamed(name, "untrusted"), "{make}");
        assert_eq!(other.end().await, renamed(name, "untrusted-2"), "{make}");
    }
}

#[tokio::test]
async fn a_link_that_one_command_changed_is_not_put_back_by_another() {
    require_whole();
    let project = project();
    let one = PausedCommand::start(&project, "one", "ln -sf /usr GEMINI.md; ln -s /usr CLAUDE.md", "").await;
    let other = PausedCommand::start(&project, "other", "", "").await;
    let expected = ["CLAUDE.md", "GEMINI.md"].map(|name| renamed(name, "untrusted").remove(0));
    assert_eq!(one.end().await, expected);
    assert_eq!(other.end().await, [""; 0]);
    assert_eq!(fs::read_link(project.path("GEMINI.md")).unwrap(), PathBuf::from("sub/file"));
    assert!(!project.path("CLAUDE.md").is_symlink());
}

#[tokio::test]
async fn a_link_that_was_put_back_for_one_command_is_not_renamed_by_another() {
    // It was missing when the other began, and was taken for new.
    require_whole();
    let project = project();
    fs::create_dir(project.path("hooks")).unwrap();
    std::os::unix::fs::symlink("../hooks", project.path(".git/hooks")).unwrap();
    let one = PausedCommand::start(&project, "one", "rm GEMINI.md .git/hooks", "echo mine > GEMINI.md").await;
    let other = PausedCommand::start(&project, "other", "", "").await;
    let renamed_first = renamed("GEMINI.md", "untrusted").remove(0);
    assert_eq!(one.end().await, [".git/hooks was put back".to_owned(), renamed_first]);
    assert_eq!(other.end().await, [""; 0]);
    let links = ["GEMINI.md", ".git/hooks"].map(|name| fs::read_link(project.path(name)).unwrap());
    assert_eq!(links, ["sub/file", "../hooks"].map(PathBuf::from));
    // What leads elsewhere is not what was there.
    let one = PausedCommand::start(&project, "third", "rm GEMINI.md", "ln -s /usr GEMINI.md").await;
    let other = PausedCommand::start(&project, "fourth", "", "ln -sf /etc GEMINI.md").await;
    assert_eq!(other.end().await, renamed("GEMINI.md", "untrusted-2"));
    one.end().await;
    assert_eq!(fs::read_link(project.path("GEMINI.md")).unwrap(), PathBuf::from("sub/file"));
}

#[tokio::test]
async fn what_a_link_leads_to_stays_while_another_command_has_taken_the_link_away() {
    require_whole();
    let project = project();
    for instead in ["", "; ln -s sub/AGENTS.md GEMINI.md"] {
        let remove = format!("rm GEMINI.md{instead}");
        let one = PausedCommand::start(&project, &format!("one{}", instead.len()), &remove, "").await;
        let change = "echo evil > sub/file; mv sub/file x; ln -sf sub/file GEMINI.md";
        let other = PausedCommand::start(&project, &format!("other{}", instead.len()), "", change).await;
        other.end().await;
        one.end().await;
        assert_eq!((project.text("sub/file"), project.text("GEMINI.md")), (String::new(), String::new()));
    }
}

#[tokio::test]
async fn copies_stay_when_a_person_changes_the_original() {
    // They were compared with the original as it was in the end.
    require_whole();
    let project = project();
    for (name, text) in [
        (".git/worktrees/w/HEAD", "x"),
        (".git/worktrees/w/commondir", "../..\n"),
        ("tree/.git", "gitdir: ../.git/worktrees/w\n"),
    ] {
        project.file(name, text);
    }
    let copy = || {
        for name in ["AGENTS.md", ".vscode/tasks.json"] {
            project.file(name, "old\n");
            project.file(&format!("tree/{name}"), "old\n");
        }
    };
    copy();
    let one = PausedCommand::start(&project, "one", "", "").await;
    project.file("AGENTS.md", "new\n");
    project.file(".vscode/tasks.json", "new\n");
    assert_eq!(one.end().await, [""; 0]);
    copy();
    // What was changed must be a copy still.
    let line = "echo x > tree/AGENTS.md; echo x > tree/.vscode/tasks.json";
    let one = PausedCommand::start(&project, "other", line, "").await;
    let expected = ["tree/.vscode", "tree/AGENTS.md"].map(|name| renamed(name, "untrusted").remove(0));
    assert_eq!(one.end().await, expected);
}

#[tokio::test]
async fn what_a_person_makes_again_as_it_was_stays() {
    // Who switches branches and back makes folders anew, with the same in them.
    require_whole();
    let project = project();
    project.file("sub/.vscode/tasks.json", "{}\n");
    project.file("sub/.zed/tasks.json", "{}\n");
    let one = PausedCommand::start(&project, "one", "", "").await;
    fs::rename(project.path("sub"), project.path("away")).unwrap();
    project.file("sub/AGENTS.md", "Be good.\n");
    project.file("sub/.vscode/tasks.json", "{}\n");
    project.file("sub/.zed/tasks.json", "{ }\n");
    fs::remove_dir_all(project.path("away")).unwrap();
    assert_eq!(one.end().await, renamed("sub/.zed", "untrusted"));
}

#[tokio::test]
async fn what_a_person_replaces_while_commands_run_stays() {
    require_whole();
    let project = project();
    let replace = |name: &str, text: &str| {
        fs::write(project.path("editor"), text).unwrap();
        fs::rename(project.path("editor"), project.path(name)).unwrap();
    };
    let one = PausedCommand::start(&project, "one", "", "").await;
    replace("sub/AGENTS.md", "Be better.\n");
    replace(".git/config", "[core]\n\teditor = mine\n");
    let other = PausedCommand::start(&project, "other", "", "").await;
    replace("sub/AGENTS.md", "Be best.\n");
    replace(".git/config", "[core]\n\teditor = other\n");
    assert_eq!(other.end().await, [""; 0]);
    assert_eq!(one.end().await, [""; 0]);
    assert_eq!(
        (project.text("sub/AGENTS.md").as_str(), project.text(".git/config").as_str()),
        ("Be best.\n", "[core]\n\teditor = other\n")
    );
}

#[tokio::test]
async fn what_was_made_while_nothing_ran_is_old_again() {
    // The one before has ended, and counted as running as long as anybody remembered it.
    require_whole();
    let project = project();
    let one = PausedCommand::start(&project, "one", "", "").await;
    assert_eq!(one.end().await, [""; 0]);
    project.file("AGENTS.md", "Be good.\n");
    let other = PausedCommand::start(&project, "other", "", "").await;
    fs::write(project.path("editor"), "Be better.\n").unwrap();
    fs::rename(project.path("editor"), project.path("AGENTS.md")).unwrap();
    assert_eq!(other.end().await, [""; 0]);
    assert_eq!(project.text("AGENTS.md"), "Be better.\n");
}

#[tokio::test]
async fn what_one_command_wrote_into_a_rebase_another_does_not_write_again() {
    require_whole();
    let project = project();
    project.file(".git/rebase-merge/git-rebase-todo", "exec mine\n");
    let add = "echo exec evil >> .git/rebase-merge/git-rebase-todo";
    let one =
        PausedCommand::start(&project, "one", add, "echo exec mine > .git/rebase-merge/git-rebase-todo")
            .await;
    let other = PausedCommand::start(&project, "other", "", add).await;
    assert_eq!(one.end().await, [""; 0]);
    assert_eq!(other.end().await, renamed(".git/rebase-merge/git-rebase-todo", "untrusted"));
    // Nor where one has put it out of the way.
    let project = self::project();
    project.file(".git/rebase-merge/git-rebase-todo", "exec mine\n");
    let one = PausedCommand::start(&project, "one", "mv .git/rebase-merge away", "").await;
    let back = format!("mv away .git/rebase-merge; {add}");
    let other = PausedCommand::start(&project, "other", "", &back).await;
    assert_eq!(one.end().await, [""; 0]);
    assert_eq!(other.end().await, renamed(".git/rebase-merge/git-rebase-todo", "untrusted"));
}

#[tokio::test]
async fn what_has_another_name_keeps_it() {
    // Of some protected names any end is protected, and so was the one that they got.
    require_whole();
    let project = project();
    let one = PausedCommand::start(&project, "one", "touch .drone.x Jenkinsfile.x", "").await;
    let other = PausedCommand::start(&project, "other", "", "touch file").await;
    let expected = [".drone.x", "Jenkinsfile.x"].map(|name| renamed(name, "untrusted").remove(0));
    assert_eq!(one.end().await, expected);
    assert_eq!(other.end().await, [""; 0]);
}

/// Writes files as `write` does with permission.
async fn write(project: &Project, names: &[&str]) {
    for name in names {
        let input = json!({ "filePath": project.path(name), "content": "mine\n" });
        project.run(&WriteTool, input).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_tool_makes_with_permission_while_a_command_runs_stays() {
    // It was renamed when the command ended, although a person had permitted it.
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let project = project();
        let one = PausedCommand::start(&project, "one", "", line).await;
        let names = [
            "AGENTS.md",
            ".vscode/tasks.json",
            "sub/CLAUDE.md",
            "new/.zed/a/b",
            "later/tasks",
            ".git/hooks/a",
        ];
        write(&project, &names).await;
        let expected: Vec<String> =
            expected.iter().map(|name| renamed(name, "untrusted").remove(0)).collect();
        assert_eq!(one.end().await, expected, "{line}");
    };
    check("", &[]).await;
    // What the command does to it, or beside it, does not.
    check("echo x >> sub/CLAUDE.md; echo x > .vscode/launch.json", &[".vscode", "sub/CLAUDE.md"]).await;
    check("cp AGENTS.md x; mv x AGENTS.md; mv .vscode y; cp -r y .vscode", &[".vscode", "AGENTS.md"]).await;
    check("ln -s evil new/.zed/c; chmod +x later/tasks", &["later/tasks", "new/.zed"]).await;
    check("mkdir .idea other; mv AGENTS.md other/", &[".idea", "other/AGENTS.md"]).await;
}

#[tokio::test]
async fn what_a_tool_puts_in_the_place_of_something_stays() {
    require_whole();
    let project = project();
    // A copy, which is younger.
    project.file("clone/AGENTS.md", "Be good.\n");
    let changed = |name: &str| {
        let meta = fs::metadata(project.path(name)).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    while changed("clone/AGENTS.md") <= changed("sub/AGENTS.md") {
        project.file("clone/AGENTS.md", "Be good.\n");
    }
    let made = "mkdir later; echo x > later/tasks; echo x > sub/CLAUDE.md";
    let one = PausedCommand::start(&project, "one", made, "").await;
    let other = PausedCommand::start(&project, "other", "", "touch sub/other").await;
    let names = ["clone/AGENTS.md", "later/tasks", "sub/CLAUDE.md"];
    names.iter().for_each(|name| fs::remove_file(project.path(name)).unwrap());
    write(&project, &names).await;
    assert_eq!(one.end().await, [""; 0]);
    assert_eq!(other.end().await, [""; 0]);
    assert_eq!(names.map(|name| project.text(name)), ["mine\n"; 3]);
}

/// The processes that watch over what runs in a project.
fn supervisors(project: &Project) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let children = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            if fs::read_link(format!("/proc/{child}/cwd")).is_ok_and(|folder| folder == project.path("")) {
                let child = Pid::from_raw(child.parse().unwrap()).unwrap();
                found.push(pidfd_open(child, PidfdFlags::empty()).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn what_a_tool_made_with_permission_stays_where_nobody_is_left_to_be_asked() {
    // It was renamed, without a word, when everything ended at once: a server in the background and who had started it.
    require_whole();
    let project = project();
    let one = PausedCommand::start(&project, "one", "echo x > .envrc; mkdir .vscode", "").await;
    let supervisors = supervisors(&project);
    assert_eq!(supervisors.len(), 1);
    write(&project, &["AGENTS.md", ".github/workflows/ci.yml", ".vscode/tasks.json"]).await;
    fs::write(project.path(".vscode/other.json"), "x").unwrap();
    one.running.abort();
    one.running.await.unwrap_err();
    for supervisor in supervisors {
        // Somebody else may have taken note of its end.
        let ended = spawn_blocking(move || {
            waitid(WaitId::PidFd(supervisor.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()
        });
        ended.await.unwrap();
    }
    let there = |name: &str| fs::symlink_metadata(project.path(name)).is_ok();
    let names = ["AGENTS.md", ".github/workflows/ci.yml", ".envrc.untrusted", ".vscode.untrusted"];
    assert_eq!(names.map(there), [true; 4], "{:?}", names_in(&project.path("")));
    assert_eq!([".envrc", ".vscode", "AGENTS.md.untrusted"].map(there), [false; 3]);
}
