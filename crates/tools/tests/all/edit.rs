//! Pieces of files replaced exactly.

use std::sync::Arc;

use everturn_tools::{Failure, Tool, edit::Edit};
use serde_json::{Value, json};

use crate::harness::Project;

async fn edit(before: &str, old: &str, new: &str) -> Result<String, String> {
    let project = Project::new();
    project.file("f", before);
    let input = json!({ "filePath": "f", "oldString": old, "newString": new });
    let result = project.run(&Edit, input).await;
    let after = project.text("f");
    match result {
        Ok(_) => Ok(after),
        Err(failure) => {
            assert_eq!(after, before, "a failed edit changes nothing");
            Err(failure.to_string())
        }
    }
}

#[tokio::test]
async fn an_edit_has_the_recorded_form() {
    let project = Project::new();
    let path = project.file("b.txt", "line1\nline2\n");
    let input = json!({ "filePath": path, "oldString": "line1", "newString": "LINE ONE" });
    let output = project.run(&Edit, input).await.unwrap();
    assert_eq!(project.text("b.txt"), "LINE ONE\nline2\n");
    let file = path.to_str().unwrap();
    let rule = "=".repeat(67);
    let patch = format!(
        "Index: {file}\n{rule}\n--- {file}\n+++ {file}\n@@ -1,2 +1,2 @@\n-line1\n+LINE ONE\n line2\n"
    );
    let expected = json!({
        "diagnostics": {},
        "diff": patch,
        "filediff": { "file": file, "patch": patch, "additions": 1, "deletions": 1 },
        "truncated": false,
    });
    assert_eq!(Value::Object(output.metadata), expected);
    assert_eq!((&*output.output, &*output.title), ("Edit applied successfully.", "b.txt"));
    assert_eq!(output.edited, [path]);
}

#[tokio::test]
async fn matching_is_exact_and_unique() {
    assert_eq!(edit("a b a", "b", "x").await, Ok("a x a".into()));
    assert!(edit("a b a", "a", "x").await.unwrap_err().contains("2 times"));
    assert!(edit("a b a", "c", "x").await.unwrap_err().contains("does not occur"));
    assert!(edit("a  b", "a b", "x").await.unwrap_err().contains("does not occur"));
    assert!(edit("a", "a", "a").await.unwrap_err().contains("same"));
    assert!(edit("a", "", "b").await.unwrap_err().contains("exists"));
    assert_eq!(edit("a $1 \\1", "$1 \\1", "$& \\0").await, Ok("a $& \\0".into()));
}

#[tokio::test]
async fn line_ends_and_marks_are_kept() {
    let dos = "\u{feff}one\r\ntwo\r\nthree\r\n";
    assert_eq!(edit(dos, "one\ntwo", "1\n2").await, Ok("\u{feff}1\r\n2\r\nthree\r\n".into()));
    assert_eq!(edit(dos, "two\r\nthree", "x\ny").await, Ok("\u{feff}one\r\nx\r\ny\r\n".into()));
    assert_eq!(edit("one\ntwo\n", "one\r\ntwo", "x").await, Ok("x\n".into()));
    assert_eq!(edit("a\r\nb\nc\nd\n", "c", "x\ny").await, Ok("a\r\nb\nx\ny\nd\n".into()));
}

#[tokio::test]
async fn every_occurrence_on_request() {
    let project = Project::new();
    project.file("f", "a b a");
    let input = json!({ "filePath": "f", "oldString": "a", "newString": "aa", "replaceAll": true });
    project.run(&Edit, input).await.unwrap();
    assert_eq!(project.text("f"), "aa b aa");
}

#[tokio::test]
async fn an_empty_old_string_makes_a_file() {
    let project = Project::new();
    let input = json!({ "filePath": "x/new", "oldString": "", "newString": "hello\n" });
    let output = project.run(&Edit, input).await.unwrap();
    assert_eq!(project.text("x/new"), "hello\n");
    assert_eq!(output.metadata["filediff"]["additions"], 1);
    let absent = json!({ "filePath": "none", "oldString": "a", "newString": "b" });
    assert!(
        matches!(project.run(&Edit, absent).await, Err(Failure::Failed(text)) if text.contains("not found"))
    );
}

#[tokio::test]
async fn bytes_that_are_not_text_are_left_alone() {
    let project = Project::new();
    project.file("f", b"a \xff b");
    let input = json!({ "filePath": "f", "oldString": "a", "newString": "b" });
    assert!(project.run(&Edit, input).await.is_err());
    assert_eq!(project.content("f"), b"a \xff b");
}

#[test]
fn needs_never_tell_what_a_file_holds() {
    let project = Project::new();
    project.file(".env", "KEY=1\n");
    let input = |old: &str| json!({ "filePath": ".env", "oldString": old, "newString": "x" });
    let hit = Edit.needs(&input("KEY=1"), &project.scope).unwrap();
    let miss = Edit.needs(&input("KEY=2"), &project.scope).unwrap();
    assert!(hit[0].metadata["diff"].as_str().unwrap().contains("-KEY=1"));
    assert_eq!(miss[0].metadata["diff"], "");
    assert!(Edit.forecast(&input("KEY=2"), &project.scope).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_of_one_file_take_turns() {
    let project = Arc::new(Project::new());
    let text: String = (0..40).map(|n| format!("<{n}>\n")).collect();
    project.file("f", text);
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let project = Arc::clone(&project);
            tokio::spawn(async move {
                let input =
                    json!({ "filePath": "f", "oldString": format!("<{n}>"), "newString": format!("[{n}]") });
                project.run(&Edit, input).await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let expected: String = (0..40).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(project.text("f"), expected);
}
