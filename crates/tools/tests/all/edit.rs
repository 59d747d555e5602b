//! Pieces of files replaced exactly.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::edit::EditTool;
use everturn_tools::read::ReadTool;
use everturn_tools::write::WriteTool;
use everturn_tools::{Context, Failure, SeenFiles, Tool};
use serde_json::{Value, json};

use crate::harness::Project;

async fn edit(before: &str, old: &str, new: &str) -> Result<String, String> {
    let project = Project::new();
    project.file("f", before);
    let input = json!({ "filePath": "f", "oldString": old, "newString": new });
    let result = project.run(&EditTool, input).await;
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
    let output = project.run(&EditTool, input).await.unwrap();
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
async fn occurrences_that_overlap_are_several() {
    // Only those side by side were counted, and the first of two was replaced.
    for (file, old) in [("}\n}\n}\n", "}\n}\n"), ("ééé", "éé"), ("}\r\n}\r\n}\r\n", "}\n}\n")] {
        assert!(edit(file, old, "x").await.unwrap_err().contains("occurs more than once"), "{file:?}");
    }
    assert_eq!(edit("}\n}\n", "}\n}\n", "x").await, Ok("x".into()));
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
    project.run(&EditTool, input).await.unwrap();
    assert_eq!(project.text("f"), "aa b aa");
}

#[tokio::test]
async fn an_empty_old_string_makes_a_file() {
    let project = Project::new();
    let input = json!({ "filePath": "x/new", "oldString": "", "newString": "hello\n" });
    let output = project.run(&EditTool, input).await.unwrap();
    assert_eq!(project.text("x/new"), "hello\n");
    assert_eq!(output.metadata["filediff"]["additions"], 1);
    let absent = json!({ "filePath": "none", "oldString": "a", "newString": "b" });
    assert!(
        matches!(project.run(&EditTool, absent).await, Err(Failure::Failed(text)) if text.contains("not found"))
    );
}

#[tokio::test]
async fn bytes_that_are_not_text_are_left_alone() {
    let project = Project::new();
    project.file("f", b"a \xff b");
    let input = json!({ "filePath": "f", "oldString": "a", "newString": "b" });
    assert!(project.run(&EditTool, input).await.is_err());
    assert_eq!(project.content("f"), b"a \xff b");
}

#[test]
fn needs_never_tell_what_a_file_holds() {
    let project = Project::new();
    project.file(".env", "KEY=1\n");
    let input = |old: &str| json!({ "filePath": ".env", "oldString": old, "newString": "x" });
    let hit = EditTool.needs(&input("KEY=1"), &project.scope).unwrap();
    let miss = EditTool.needs(&input("KEY=2"), &project.scope).unwrap();
    assert!(hit[0].metadata["diff"].as_str().unwrap().contains("-KEY=1"));
    assert_eq!(miss[0].metadata["diff"], "");
    assert!(EditTool.forecast(&input("KEY=2"), &project.scope).is_err());
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
                project.run(&EditTool, input).await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let expected: String = (0..40).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(project.text("f"), expected);
}

#[tokio::test]
async fn whitespace_around_lines_is_forgiven_where_one_place_fits() {
    let code = "fn f() {\n    if a {\n        b();\n    }\n}\n";
    assert_eq!(
        edit(code, "if a {\n    b();\n}", "if c {\n    d();\n    e();\n}").await,
        Ok("fn f() {\n    if c {\n        d();\n        e();\n    }\n}\n".into())
    );
    let dos = "\u{feff}if a  \r\n\tb\r\nend\r\n";
    assert_eq!(
        edit(dos, "if a\n    b\n", "if x\n    y\n").await,
        Ok("\u{feff}if x\r\n\ty\r\nend\r\n".into())
    );
    let twice = edit("  a\n  b\n  a\n  b\n", "a\nb", "x").await.unwrap_err();
    assert!(twice.contains("2 places differ from it only in the whitespace"), "{twice}");
    let unclear = edit("  a\n    b\n", "a\nb", "a\nc\nb").await.unwrap_err();
    assert!(unclear.contains("indentation"), "{unclear}");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_left_alone() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    let run = |tool: &'static dyn Tool, input: Value| project.run_in(&seen, tool, input);
    let change = |old: &str, new: &str| json!({ "filePath": "f", "oldString": old, "newString": new });
    project.file("f", "one\ntwo\n");
    // Whoever has the text to replace needs no reading first.
    run(&EditTool, change("one", "1")).await.unwrap();
    run(&EditTool, change("two", "2")).await.unwrap();
    project.file("f", "1\n2\n3\n");
    let text = run(&EditTool, change("1", "one")).await.unwrap_err().to_string();
    assert!(text.contains("changed since it was read: read it again"), "{text}");
    assert_eq!(project.text("f"), "1\n2\n3\n");
    run(&ReadTool, json!({ "filePath": "f", "limit": 1 })).await.unwrap();
    run(&EditTool, change("1", "one")).await.unwrap();
    assert_eq!(project.text("f"), "one\n2\n3\n");
    // Another session has its own picture.
    project.run(&EditTool, change("2", "two")).await.unwrap();
    assert!(run(&EditTool, change("3", "three")).await.is_err());
}

#[tokio::test]
async fn only_a_file_that_was_shown_is_quoted() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    let run = |tool: &'static dyn Tool, input: Value| project.run_in(&seen, tool, input);
    let change = |old: &str, new: &str| json!({ "filePath": ".env", "oldString": old, "newString": new });
    project.file(".env", "A=1\nTOKEN=abc\n");
    run(&EditTool, change("A=1", "A=2")).await.unwrap();
    let text = run(&EditTool, change("TOKEN=xyz", "x")).await.unwrap_err().to_string();
    assert!(text.contains("does not occur") && !text.contains("abc"), "{text}");
    run(&ReadTool, json!({ "filePath": ".env" })).await.unwrap();
    let text = run(&EditTool, change("TOKEN=xyz", "x")).await.unwrap_err().to_string();
    assert!(text.ends_with("The nearest text in the file is:\n2: TOKEN=abc"), "{text}");
}

#[tokio::test]
async fn a_cancelled_edit_changes_nothing_and_a_mode_is_kept() {
    let project = Project::new();
    let path = project.file("f", "one");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let input = json!({ "filePath": "f", "oldString": "one", "newString": "two" });
    let granted = EditTool.needs(&input, &project.scope).unwrap().into();
    let context = Context { granted, ..project.context().0 };
    context.cancel.cancel();
    assert_eq!(EditTool.run(input.clone(), context).await, Err(Failure::Cancelled));
    assert_eq!(project.text("f"), "one");
    project.run(&EditTool, input).await.unwrap();
    assert_eq!(project.text("f"), "two");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
}

/// Access control lists and other attributes of a file were lost with its first edit.
#[tokio::test]
async fn attributes_are_kept_by_every_change() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    let path = project.file("f", "one");
    // The owner, one other account, the group, the most that both may do, and everybody else.
    let entries = [(1, 6, u32::MAX), (2, 4, 12345), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, account) in entries {
        list.extend([tag, 0, rights, 0]);
        list.extend(u32::to_le_bytes(account));
    }
    let mut given = vec![("user.note", b"kept".to_vec()), ("system.posix_acl_access", list)];
    // Not every file system has both.
    given.retain(|(name, value)| {
        match rustix::fs::setxattr(&path, *name, value, rustix::fs::XattrFlags::empty()) {
            Err(rustix::io::Errno::OPNOTSUPP) => false,
            set => set.is_ok() || panic!("{name}: {set:?}"),
        }
    });
    assert_ne!(given, [], "the temporary folder has no attributes; set TMPDIR to one that has");
    let values = |path: &Path| -> Vec<(&str, Vec<u8>)> {
        let value = |name: &'static str| {
            let mut value = vec![0; 256];
            let size = rustix::fs::getxattr(path, name, &mut value[..]).unwrap_or_default();
            value.truncate(size);
            (name, value)
        };
        given.iter().map(|(name, _)| value(name)).collect()
    };
    let before = (values(&path), fs::metadata(&path).unwrap().permissions().mode());
    assert_eq!(before.0, given);
    let edit = json!({ "filePath": "f", "oldString": "one", "newString": "two" });
    project.run_in(&seen, &EditTool, edit).await.unwrap();
    assert_eq!((values(&path), fs::metadata(&path).unwrap().permissions().mode()), before);
    project.run_in(&seen, &ReadTool, json!({ "filePath": "f" })).await.unwrap();
    project.run_in(&seen, &WriteTool, json!({ "filePath": "f", "content": "three" })).await.unwrap();
    assert_eq!((values(&path), fs::metadata(&path).unwrap().permissions().mode()), before);
    let patch = "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch";
    project.run_in(&seen, &ApplyPatchTool, json!({ "patchText": patch })).await.unwrap();
    let moved = project.path("g");
    assert_eq!((values(&moved), fs::metadata(&moved).unwrap().permissions().mode()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_edits_of_one_session_all_land() {
    let project = Arc::new(Project::new());
    let seen = Arc::<SeenFiles>::default();
    project.file("f", (0..16).map(|n| format!("<{n}>\n")).collect::<String>());
    project.run_in(&seen, &ReadTool, json!({ "filePath": "f" })).await.unwrap();
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let (project, seen) = (Arc::clone(&project), Arc::clone(&seen));
            tokio::spawn(async move {
                let input =
                    json!({ "filePath": "f", "oldString": format!("<{n}>"), "newString": format!("[{n}]") });
                project.run_in(&seen, &EditTool, input).await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(project.text("f"), (0..16).map(|n| format!("[{n}]\n")).collect::<String>());
}
