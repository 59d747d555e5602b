//! Whole files put in place.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;

use everturn_tools::read::ReadTool;
use everturn_tools::write::WriteTool;
use everturn_tools::{Failure, ForecastVerdict, SeenFiles, Tool};
use serde_json::{Value, json};

use crate::harness::{Project, names, tree};

/// A session that has read a file.
async fn shown(project: &Project, name: &str) -> Arc<SeenFiles> {
    let seen = Arc::default();
    project.run_in(&seen, &ReadTool, json!({ "filePath": name })).await.unwrap();
    seen
}

#[tokio::test]
async fn a_new_file_has_the_recorded_form() {
    let project = Project::new();
    let path = project.path("deep/er/w.txt");
    let seen = Arc::default();
    let input = |content: &str| json!({ "filePath": path, "content": content });
    let output = project.run_in(&seen, &WriteTool, input("written")).await.unwrap();
    assert_eq!(project.text("deep/er/w.txt"), "written");
    assert_eq!(output.output, "Wrote file successfully.");
    assert_eq!(output.title, "deep/er/w.txt");
    assert_eq!(output.edited, std::slice::from_ref(&path));
    let expected = json!({ "diagnostics": {}, "filepath": path, "exists": false, "truncated": false });
    assert_eq!(Value::Object(output.metadata), expected);
    let again = project.run_in(&seen, &WriteTool, input("again")).await.unwrap();
    assert_eq!(again.metadata["exists"], true);
    assert_eq!(names(&project.path("deep/er")), ["w.txt"], "no half-written file is left");
}

#[tokio::test]
async fn the_file_is_replaced_and_not_rewritten() {
    let project = Project::new();
    let path = project.file("run.sh", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    fs::hard_link(&path, project.path("other")).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let seen = shown(&project, "run.sh").await;
    project.run_in(&seen, &WriteTool, json!({ "filePath": "run.sh", "content": "new" })).await.unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_ne!(meta.ino(), before, "a reader of the old file keeps the old content");
    assert_eq!(project.text("other"), "old");
    assert_eq!(meta.mode() & 0o777, 0o750);
}

#[tokio::test]
async fn links_are_followed() {
    let project = Project::new();
    project.file("real.txt", "old");
    symlink("real.txt", project.path("link")).unwrap();
    symlink("later.txt", project.path("dangling")).unwrap();
    let seen = shown(&project, "link").await;
    project.run_in(&seen, &WriteTool, json!({ "filePath": "link", "content": "new" })).await.unwrap();
    project.run(&WriteTool, json!({ "filePath": "dangling", "content": "made" })).await.unwrap();
    assert_eq!((project.text("real.txt"), project.text("later.txt")), ("new".into(), "made".into()));
    assert!(fs::symlink_metadata(project.path("link")).unwrap().is_symlink());
}

#[tokio::test]
async fn exactly_one_mark_is_kept() {
    let project = Project::new();
    project.file("marked", "\u{feff}old");
    let seen = shown(&project, "marked").await;
    project.run_in(&seen, &WriteTool, json!({ "filePath": "marked", "content": "new" })).await.unwrap();
    assert_eq!(project.text("marked"), "\u{feff}new");
    let newer = json!({ "filePath": "marked", "content": "\u{feff}newer" });
    project.run_in(&seen, &WriteTool, newer).await.unwrap();
    assert_eq!(project.text("marked"), "\u{feff}newer");
}

#[test]
fn the_person_sees_the_diff_first() {
    let project = Project::new();
    let path = project.file("a.txt", "one\ntwo\n");
    let needs =
        WriteTool.needs(&json!({ "filePath": "a.txt", "content": "one\n2" }), &project.scope).unwrap();
    let [need] = &needs[..] else { panic!() };
    assert_eq!((&*need.permission, &need.patterns[..]), ("edit", &["a.txt".to_owned()][..]));
    let path = path.display();
    let rule = "=".repeat(67);
    let diff = format!(
        "Index: {path}\n{rule}\n--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n"
    );
    assert_eq!(need.metadata["diff"], diff);
    assert_eq!(project.text("a.txt"), "one\ntwo\n");
}

#[tokio::test]
async fn a_forecast_tells_what_happened() {
    let project = Project::new();
    let input = json!({ "filePath": "a.txt", "content": "new" });
    let forecast = WriteTool.forecast(&input, &project.scope).unwrap().remove(0);
    assert_eq!(forecast.verdict(), ForecastVerdict::Untouched);
    project.run(&WriteTool, input).await.unwrap();
    assert_eq!(forecast.verdict(), ForecastVerdict::Applied);
    project.file("a.txt", "someone else");
    assert_eq!(forecast.verdict(), ForecastVerdict::Conflict);
}

#[tokio::test]
async fn a_cancelled_call_writes_nothing() {
    let project = Project::new();
    let (context, _reports) = project.context();
    context.cancel.cancel();
    let result = WriteTool.run(json!({ "filePath": "a", "content": "x" }), context).await;
    assert_eq!(result, Err(Failure::Cancelled));
    assert!(!project.path("a").exists());
    let folder = project.run(&WriteTool, json!({ "filePath": ".", "content": "x" })).await;
    assert!(matches!(folder, Err(Failure::Failed(_))));
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_replaced() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    let run = |tool: &'static dyn Tool, input: Value| project.run_in(&seen, tool, input);
    let write = |content: &str| json!({ "filePath": "f", "content": content });
    run(&WriteTool, write("one")).await.unwrap();
    run(&WriteTool, write("two")).await.unwrap();
    project.file("f", "theirs");
    let text = run(&WriteTool, write("three")).await.unwrap_err().to_string();
    assert!(text.contains("changed since it was read: read it again"), "{text}");
    assert_eq!(project.text("f"), "theirs");
    run(&ReadTool, json!({ "filePath": "f" })).await.unwrap();
    run(&WriteTool, write("three")).await.unwrap();
    // A file that is gone holds nothing that could be lost.
    fs::remove_file(project.path("f")).unwrap();
    run(&WriteTool, write("four")).await.unwrap();
    assert_eq!(project.text("f"), "four");
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing_behind() {
    let project = Project::new();
    project.file("file", "x");
    let before = tree(&project.outside());
    for path in ["file/below", "file/deep/er", "/proc/everturn/x", "new/folders/\u{0}"] {
        let result = project.run(&WriteTool, json!({ "filePath": path, "content": "x" })).await;
        assert!(result.is_err(), "{path}");
        assert_eq!(tree(&project.outside()), before, "{path}");
    }
    let long = format!("new/folders/{}", "x".repeat(300));
    assert!(project.run(&WriteTool, json!({ "filePath": long, "content": "x" })).await.is_err());
    assert_eq!(
        tree(&project.outside()),
        before,
        "folders made for a file that could not be put there are gone"
    );
}
