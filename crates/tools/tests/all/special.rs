//! Pipes, devices, sockets and files too large: refused at once, never waited for. Files that are protected or have
//! several names.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::edit::EditTool;
use everturn_tools::read::ReadTool;
use everturn_tools::write::WriteTool;
use everturn_tools::{Forecast, ForecastVerdict, SeenFiles, Tool};
use serde_json::{Value, json};

use crate::harness::{Project, tree};

const EDIT_MAX: u64 = 20 * 1024 * 1024;
const HASH_MAX: u64 = 256 * 1024 * 1024;

fn input(path: &Path) -> Value {
    json!({ "filePath": path, "content": "new", "oldString": "old", "newString": "new" })
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn sparse(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

/// Runs a tool that must fail soon, and returns what it says.
async fn refusal(project: &Project, tool: &dyn Tool, path: &Path) -> String {
    let call = project.run(tool, input(path));
    tokio::time::timeout(Duration::from_secs(10), call).await.unwrap().unwrap_err().to_string()
}

#[tokio::test]
async fn what_is_no_ordinary_file_is_named_and_left_alone() {
    let project = Project::new();
    fifo(&project.path("pipe"));
    symlink("pipe", project.path("link")).unwrap();
    let _listener = UnixListener::bind(project.path("socket")).unwrap();
    for (path, what) in [
        (project.path("pipe"), "is a named pipe, not an ordinary file"),
        (project.path("link"), "is a named pipe, not an ordinary file"),
        (project.path("socket"), "is a socket, not an ordinary file"),
        ("/dev/zero".into(), "is a device, not an ordinary file"),
        ("/dev/null".into(), "is a device, not an ordinary file"),
    ] {
        for tool in [&ReadTool as &dyn Tool, &WriteTool, &EditTool] {
            let needs = tool.needs(&input(&path), &project.scope).unwrap();
            let shown = needs.last().unwrap().metadata.get("diff");
            assert!(shown.is_none_or(|diff| diff == ""), "{} {shown:?}", tool.name());
            let text = refusal(&project, tool, &path).await;
            assert!(text.contains(what) && text.contains("`bash`"), "{} {text}", tool.name());
        }
        for tool in [&WriteTool as &dyn Tool, &EditTool] {
            let text = tool.forecast(&input(&path), &project.scope).unwrap_err().to_string();
            assert!(text.contains(what), "{text}");
        }
        let forecast = Forecast { path, before: None, after: Some(String::new()) };
        assert_eq!(forecast.verdict(), ForecastVerdict::Conflict);
    }
    assert!(fs::metadata(project.path("pipe")).unwrap().file_type().is_fifo());
}

#[tokio::test]
async fn a_creation_over_a_pipe_shows_and_does_nothing() {
    let project = Project::new();
    fifo(&project.path("pipe"));
    let input = json!({ "filePath": "pipe", "oldString": "", "newString": "x" });
    assert_eq!(EditTool.needs(&input, &project.scope).unwrap()[0].metadata["diff"], "");
    let text = project.run(&EditTool, input).await.unwrap_err().to_string();
    assert!(text.contains("named pipe"), "{text}");
}

#[test]
fn a_folder_has_no_diff() {
    let project = Project::new();
    project.file("folder/a", "a");
    for tool in [&WriteTool as &dyn Tool, &EditTool] {
        let needs = tool.needs(&input(&project.path("folder")), &project.scope).unwrap();
        assert_eq!(needs[0].metadata["diff"], "");
        assert!(tool.forecast(&input(&project.path("folder")), &project.scope).is_err());
    }
}

#[tokio::test]
async fn a_file_too_large_to_edit_says_so_and_can_be_replaced() {
    let project = Project::new();
    for size in [EDIT_MAX + 1, HASH_MAX + 1] {
        let path = project.path("large");
        sparse(&path, size);
        for tool in [&WriteTool as &dyn Tool, &EditTool] {
            let needs = tool.needs(&input(&path), &project.scope).unwrap();
            assert_eq!(needs[0].metadata["diff"], "");
        }
        let text = refusal(&project, &EditTool, &path).await;
        assert!(text.contains(&format!("has {size} bytes")) && text.contains("`bash`"), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().len(), size);
        let forecast = WriteTool.forecast(&input(&path), &project.scope).unwrap().remove(0);
        assert_eq!(forecast.verdict(), ForecastVerdict::Untouched);
        let unread = project.run(&WriteTool, input(&path)).await.unwrap_err().to_string();
        assert!(unread.contains("has not read"), "{unread}");
        let seen = std::sync::Arc::new(SeenFiles::default());
        seen.record(&path, forecast.before.clone().unwrap());
        let output = project.run_in(&seen, &WriteTool, input(&path)).await.unwrap();
        assert_eq!(output.metadata["exists"], true);
        assert_eq!(forecast.verdict(), ForecastVerdict::Applied);
        assert_eq!(project.text("large"), "new");
    }
}

#[tokio::test]
async fn replacing_everywhere_cannot_fill_the_memory() {
    let project = Project::new();
    project.file("f", "a".repeat(100_000));
    let input =
        json!({ "filePath": "f", "oldString": "a", "newString": "b".repeat(100_000), "replaceAll": true });
    assert_eq!(EditTool.needs(&input, &project.scope).unwrap()[0].metadata["diff"], "");
    let text = project.run(&EditTool, input).await.unwrap_err().to_string();
    assert!(text.contains("10000000000 bytes"), "{text}");
    assert_eq!(project.content("f").len(), 100_000);
}

#[tokio::test]
async fn files_without_a_size_are_read_all_the_same() {
    let project = Project::new();
    let path = Path::new("/proc/self/status");
    if path.exists() {
        let output = project.run(&ReadTool, json!({ "filePath": path })).await.unwrap();
        assert!(output.output.contains("1: Name:"), "{}", output.output);
    }
}

#[tokio::test]
async fn a_file_of_line_breaks_costs_no_more_than_its_size() {
    // Each line became a text of its own and the diff a table of all of them: gigabytes for twenty megabytes.
    let project = Project::new();
    let breaks = "\n".repeat(usize::try_from(EDIT_MAX).unwrap() - 2);
    project.file("f", format!("{breaks}x\n"));
    let patch = json!({ "patchText": "*** Begin Patch\n*** Update File: f\n-x\n+y\n*** End Patch" });
    let text = project.run(&ApplyPatchTool, patch).await.unwrap_err().to_string();
    assert!(text.contains("f has 20971519 lines; at most 1000000 can be patched"), "{text}");
    let edit = |old: &str| json!({ "filePath": "f", "oldString": old, "newString": "y" });
    let output = project.run(&EditTool, edit("x")).await.unwrap();
    let diff = &output.metadata["filediff"];
    assert_eq!((&diff["patch"], &diff["additions"], &diff["deletions"]), (&json!(""), &json!(1), &json!(1)));
    project.file("f", "\n".repeat(1_000_001));
    let text = project.run(&EditTool, edit(" y z")).await.unwrap_err().to_string();
    assert!(text.contains("more than 1000000 lines is not looked through"), "{text}");
}

/// A change of `f` by each tool, and a change on the way to another name.
fn changes() -> [(&'static dyn Tool, Value); 4] {
    let patch =
        |head: &str| json!({ "patchText": format!("*** Begin Patch\n{head}\n-old\n+new\n*** End Patch") });
    [
        (&WriteTool, json!({ "filePath": "f", "content": "new\n" })),
        (&EditTool, json!({ "filePath": "f", "oldString": "old", "newString": "new" })),
        (&ApplyPatchTool, patch("*** Update File: f")),
        (&ApplyPatchTool, patch("*** Update File: f\n*** Move to: g")),
    ]
}

#[tokio::test]
async fn what_is_write_protected_is_left_alone() {
    // A file is replaced by another one, which the system allows without a look at its mode.
    for (tool, input) in changes() {
        let project = Project::new();
        let path = project.file("f", "old\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let before = tree(&project.path(""));
        let seen = std::sync::Arc::default();
        project.run_in(&seen, &ReadTool, json!({ "filePath": "f" })).await.unwrap();
        let text = project.run_in(&seen, tool, input.clone()).await.unwrap_err().to_string();
        assert!(text.contains("f is write-protected") && text.contains("`chmod u+w`"), "{text}");
        assert_eq!(tree(&project.path("")), before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        project.run_in(&seen, tool, input).await.unwrap();
    }
    let project = Project::new();
    let path = project.file("f", "old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let moved = json!({ "patchText": "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch" });
    project.run(&ApplyPatchTool, moved).await.unwrap();
    assert_eq!(fs::metadata(project.path("g")).unwrap().permissions().mode() & 0o777, 0o444);
}

#[tokio::test]
async fn other_names_of_a_replaced_file_are_told_of() {
    // They kept the old content, and nobody was told.
    for (tool, input) in changes() {
        let project = Project::new();
        fs::hard_link(project.file("f", "old\n"), project.path("other")).unwrap();
        let seen = std::sync::Arc::default();
        project.run_in(&seen, &ReadTool, json!({ "filePath": "f" })).await.unwrap();
        let output = project.run_in(&seen, tool, input).await.unwrap().output;
        assert!(
            output.ends_with("(It had other names, as hard links: those keep the old content.)"),
            "{output}"
        );
        assert_eq!(project.text("other"), "old\n");
    }
}
