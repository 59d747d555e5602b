//! Patches: what they do, what they refuse, and that they do all of it or nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::read::ReadTool;
use everturn_tools::{Context, Failure, ForecastVerdict, SeenFiles, Tool};
use serde_json::{Value, json};

use crate::harness::{Project, tree};

fn patch(body: &str) -> Value {
    json!({ "patchText": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

async fn apply(project: &Project, body: &str) -> Result<String, String> {
    let before = tree(&project.outside());
    match project.run(&ApplyPatchTool, patch(body)).await {
        Ok(output) => Ok(output.output),
        Err(failure) => {
            assert_eq!(tree(&project.outside()), before, "a failed patch changes nothing");
            Err(failure.to_string())
        }
    }
}

/// What a file becomes by hunks.
async fn update(before: &str, hunks: &str) -> Result<String, String> {
    let project = Project::new();
    project.file("f", before);
    apply(&project, &format!("*** Update File: f\n{hunks}")).await?;
    Ok(project.text("f"))
}

#[tokio::test]
async fn a_patch_has_the_recorded_form() {
    let project = Project::new();
    let changed = project.file("src/a.txt", "one\ntwo\n");
    let moved = project.file("old.sh", "run\n");
    fs::set_permissions(&moved, fs::Permissions::from_mode(0o750)).unwrap();
    let gone = project.file("gone", "x");
    let input = patch(
        "*** Add File: new/file.txt\n+hello\n*** Update File: src/a.txt\n@@\n one\n-two\n+2\n\
         *** Update File: old.sh\n*** Move to: bin/new.sh\n-run\n+walk\n*** Delete File: gone",
    );
    let forecasts = ApplyPatchTool.forecast(&input, &project.scope).unwrap();
    assert_eq!(
        forecasts.iter().map(|each| each.verdict()).collect::<Vec<_>>(),
        [ForecastVerdict::Untouched; 5]
    );
    let output = project.run(&ApplyPatchTool, input).await.unwrap();
    assert_eq!(
        forecasts.iter().map(|each| each.verdict()).collect::<Vec<_>>(),
        [ForecastVerdict::Applied; 5]
    );
    assert_eq!(
        output.output,
        "Success. Updated the following files:\nA new/file.txt\nM src/a.txt\nM bin/new.sh\nD gone"
    );
    assert_eq!(output.title, "4 files");
    let added = project.path("new/file.txt");
    let target = project.path("bin/new.sh");
    let edited = [&added, &changed, &moved, &target, &gone].map(Clone::clone);
    assert_eq!(output.edited, edited);
    let rule = "=".repeat(67);
    let head = |path: &std::path::Path| format!("Index: {0}\n{rule}\n--- {0}\n+++ {0}\n", path.display());
    let diffs = [
        format!("{}@@ -0,0 +1,1 @@\n+hello\n", head(&added)),
        format!("{}@@ -1,2 +1,2 @@\n one\n-two\n+2\n", head(&changed)),
        format!("{}@@ -1,1 +1,1 @@\n-run\n+walk\n", head(&target)),
        format!("{}@@ -1,1 +0,0 @@\n-x\n\\ No newline at end of file\n", head(&gone)),
    ];
    // Clients of today draw `patch`, which was not there.
    let expected = json!({
        "diff": diffs.join("\n"),
        "files": [
            { "filePath": added, "relativePath": "new/file.txt", "type": "add", "patch": diffs[0],
              "diff": diffs[0], "additions": 1, "deletions": 0 },
            { "filePath": changed, "relativePath": "src/a.txt", "type": "update", "patch": diffs[1],
              "diff": diffs[1], "additions": 1, "deletions": 1 },
            { "filePath": moved, "relativePath": "bin/new.sh", "type": "move", "patch": diffs[2],
              "diff": diffs[2], "additions": 1, "deletions": 1, "movePath": target },
            { "filePath": gone, "relativePath": "gone", "type": "delete", "patch": diffs[3],
              "diff": diffs[3], "additions": 0, "deletions": 1 },
        ],
        "diagnostics": {},
        "truncated": false,
    });
    assert_eq!(Value::Object(output.metadata), expected);
    assert_eq!(project.text("src/a.txt"), "one\n2\n");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o750);
    let names: Vec<_> = tree(&project.path("")).into_keys().map(|name| name.display().to_string()).collect();
    assert_eq!(names, ["bin", "bin/new.sh", "new", "new/file.txt", "src", "src/a.txt"]);
}

#[tokio::test]
async fn the_person_sees_every_file_first() {
    let project = Project::new();
    project.file("a", "one\n");
    symlink("a", project.path("link")).unwrap();
    let input = patch(
        "*** Update File: link\n*** Move to: b\n-one\n+two\n*** Add File: ../c\n+x\n*** Add File: ../d\n+x",
    );
    let needs = ApplyPatchTool.needs(&input, &project.scope).unwrap();
    let named: Vec<_> = needs.iter().map(|need| (&*need.permission, need.patterns.clone())).collect();
    let outside = |name: &str| project.outside().join(name).to_str().unwrap().to_owned();
    let patterns = vec!["link".to_owned(), "a".to_owned(), "b".to_owned(), outside("c"), outside("d")];
    assert_eq!(named, [("external_directory", vec![outside("*")]), ("edit", patterns)]);
    let metadata = &needs[1].metadata;
    assert_eq!(metadata["filepath"], "link, b, ../c, ../d");
    assert!(metadata["diff"].as_str().unwrap().contains("-one\n+two"));
    assert_eq!(metadata["files"].as_array().unwrap().len(), 3);
    // A hunk that is not there says nothing about what is.
    let needs = ApplyPatchTool.needs(&patch("*** Update File: a\n-two\n+x"), &project.scope).unwrap();
    assert_eq!((&needs[0].metadata["diff"], &needs[0].metadata["files"]), (&json!(""), &json!([])));
}

#[tokio::test]
async fn hunks_find_their_place() {
    let two = "fn a\n  x\nfn b\n  x\n";
    assert_eq!(update("a\nb\nc\n", " a\n-b\n+B\n c").await, Ok("a\nB\nc\n".into()));
    assert_eq!(update(two, "@@ fn b\n-  x\n+  y").await, Ok("fn a\n  x\nfn b\n  y\n".into()));
    assert_eq!(update(two, "@@ fn a\n-  x\n+  y").await, Ok("fn a\n  y\nfn b\n  x\n".into()));
    assert_eq!(update(two, "@@ fn a\n@@ fn b\n-  x\n+  y").await, Ok("fn a\n  x\nfn b\n  y\n".into()));
    assert_eq!(update(two, "-  x\n+  y\n*** End of File").await, Ok("fn a\n  x\nfn b\n  y\n".into()));
    assert_eq!(update(two, " fn a\n-  x\n@@\n fn b\n-  x").await, Ok("fn a\nfn b\n".into()));
    assert_eq!(update(two, "@@ fn a\n+  w").await, Ok("fn a\n  w\n  x\nfn b\n  x\n".into()));
    assert_eq!(update("a\n", "+b\n*** End of File").await, Ok("a\nb\n".into()));
    assert_eq!(update("", "+b").await, Ok("b\n".into()));
    assert_eq!(update("a\n\nb\n", " a\n\n-b\n+c").await, Ok("a\n\nc\n".into()));
}

#[tokio::test]
async fn whitespace_is_forgiven_and_kept() {
    assert_eq!(update("a  \nb\n", " a\n-b\n+c").await, Ok("a  \nc\n".into()));
    assert_eq!(update("    a\n    b\n", " a\n-b\n+c\n+  d").await, Ok("    a\n    c\n      d\n".into()));
    assert_eq!(update("\ta\n\t\tb\n", "     a\n-        b\n+        c").await, Ok("\ta\n\t\tc\n".into()));
    assert!(update("  a\n    b\n", " a\n b\n+c").await.unwrap_err().contains("indentation"));
}

#[tokio::test]
async fn line_ends_and_marks_are_kept() {
    let dos = "\u{feff}a\r\nb\r\nc\r\n";
    assert_eq!(update(dos, " a\n-b\n+x\n+y").await, Ok("\u{feff}a\r\nx\r\ny\r\nc\r\n".into()));
    assert_eq!(update("a\nb", "-b\n+c").await, Ok("a\nc".into()));
    assert_eq!(update("a\nb", " b\n+c").await, Ok("a\nb\nc".into()));
    assert_eq!(update("a\nb", "-b\n\\ No newline at end of file\n+c").await, Ok("a\nc\n".into()));
    assert_eq!(update("a\nb\n", "-b\n+c\n\\ No newline at end of file").await, Ok("a\nc".into()));
    assert_eq!(update("a\r\nb\nc\n", " b\n-c\n+d").await, Ok("a\r\nb\nd\n".into()));
    let text = "apply_patch <<'EOF'\r\n*** Begin Patch\r\n*** Update File: f\r\n-a\r\n+b\r\n*** End Patch\r\nEOF\r\n";
    let project = Project::new();
    project.file("f", "a\n");
    project.run(&ApplyPatchTool, json!({ "patchText": text })).await.unwrap();
    assert_eq!(project.text("f"), "b\n");
}

#[tokio::test]
async fn a_hunk_without_one_place_is_refused() {
    for (hunks, why) in [
        ("-x\n+y", "not in the file"),
        ("-a\n+y", "in 2 places"),
        ("@@ z\n-a\n+y", "no line like its `@@` line: z"),
        (
            " b\n@@\n-b\n+c",
            "hunk 2 (`b`) does not fit: its lines are not in the file after the hunk before it",
        ),
        ("-b\n+c\n*** End of File", "at the end of the file"),
        ("+c", "nothing says where"),
        ("-a\n\\ No newline at end of file", "ends with a line break"),
        (" b", "changes nothing"),
        ("", "changes nothing"),
    ] {
        let text = update("a\nb\na\n", hunks).await.unwrap_err();
        assert!(text.contains(why) && text.contains("Nothing was changed"), "{hunks}: {text}");
    }
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let project = Project::new();
    project.file("a", "a\n");
    project.file("b", "b\n");
    project.file("dir/x", "x\n");
    project.file("binary", b"\xff\n");
    symlink("a", project.path("link")).unwrap();
    for (body, why) in [
        ("*** Add File: a\n+x", "exists already"),
        ("*** Add File: dir\n+x", "is a folder"),
        ("*** Update File: a\n*** Move to: b\n-a\n+x", "exists already"),
        ("*** Update File: a\n*** Move to: dir", "is a folder"),
        ("*** Update File: a\n*** Move to: a\n-a\n+x", "twice"),
        ("*** Update File: a\n-a\n+x\n*** Delete File: ./a", "twice"),
        ("*** Update File: a\n-a\n+x\n*** Delete File: link", "twice"),
        ("*** Add File: n\n+x\n*** Update File: b\n*** Move to: n", "twice"),
        ("*** Delete File: none", "not found"),
        ("*** Update File: none\n-a\n+b", "not found"),
        ("*** Delete File: dir", "is a folder"),
        ("*** Update File: binary\n-a\n+b", "not UTF-8"),
        ("*** Add File: a/b\n+x", "Not a directory"),
        ("*** Add File: \n+x", "empty"),
        ("*** Update File: a\nnonsense", "Line 3 of the patch"),
    ] {
        for body in
            [body.to_owned(), format!("*** Add File: deep/new\n+x\n*** Update File: dir/x\n-x\n+y\n{body}")]
        {
            let text = apply(&project, &body).await.unwrap_err();
            assert!(text.contains(why) || text.contains("Line 8 of the patch"), "{body}: {text}");
        }
    }
}

#[tokio::test]
async fn a_failure_half_way_is_put_back() {
    let project = Project::new();
    project.file("x", "old\n");
    project.file("moved", "m\n");
    project.file("gone", "g\n");
    fs::set_permissions(project.path("gone"), fs::Permissions::from_mode(0o640)).unwrap();
    // The folder that the last but one file needs is in the way of the last one, which only shows when it is put there.
    let text = apply(
        &project,
        "*** Update File: x\n-old\n+new\n*** Update File: moved\n*** Move to: m/oved\n*** Delete File: gone\n\
         *** Add File: a/b/c\n+x\n*** Add File: a\n+x",
    )
    .await
    .unwrap_err();
    assert!(text.contains(project.path("a").to_str().unwrap()), "{text}");
    assert!(text.contains("othing was written"), "{text}");
}

#[tokio::test]
async fn a_folder_that_takes_no_files_spoils_all_of_it() {
    let project = Project::new();
    project.file("x", "old\n");
    // Nobody can make files there, not even root.
    for place in ["/proc/everturn", "/proc/self/everturn/deep"] {
        let body =
            format!("*** Update File: x\n-old\n+new\n*** Add File: n/ew\n+x\n*** Add File: {place}\n+x");
        let text = apply(&project, &body).await.unwrap_err();
        assert!(text.contains("Could not write"), "{text}");
    }
}

#[tokio::test]
async fn only_what_the_session_has_seen_is_patched() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    project.file("a", "one\n");
    project.file("b", "one\n");
    let run = |tool: &'static dyn Tool, input: Value| project.run_in(&seen, tool, input);
    run(&ReadTool, json!({ "filePath": "a" })).await.unwrap();
    project.file("a", "one\ntwo\n");
    for body in ["*** Update File: a\n-one\n+1", "*** Delete File: a", "*** Update File: a\n*** Move to: c"] {
        let both = patch(&format!("*** Update File: b\n-one\n+1\n{body}"));
        let text = run(&ApplyPatchTool, both).await.unwrap_err().to_string();
        assert!(text.contains("changed since it was read: read it again"), "{text}");
    }
    assert_eq!((project.text("a"), project.text("b")), ("one\ntwo\n".into(), "one\n".into()));
    run(&ReadTool, json!({ "filePath": "a" })).await.unwrap();
    run(&ApplyPatchTool, patch("*** Update File: a\n*** Move to: c\n-one\n+1")).await.unwrap();
    run(&ApplyPatchTool, patch("*** Update File: c\n-1\n+one")).await.unwrap();
    project.file("c", "else\n");
    let text = run(&ApplyPatchTool, patch("*** Update File: c\n-else\n+x")).await.unwrap_err().to_string();
    assert!(text.contains("read it again"), "{text}");
    run(&ApplyPatchTool, patch("*** Add File: a\n+new")).await.unwrap();
    assert_eq!(project.text("a"), "new\n");
}

#[tokio::test]
async fn a_cancelled_patch_does_nothing() {
    let project = Project::new();
    let input = patch("*** Add File: a\n+x");
    let granted = ApplyPatchTool.needs(&input, &project.scope).unwrap().into();
    let context = Context { granted, ..project.context().0 };
    context.cancel.cancel();
    assert_eq!(ApplyPatchTool.run(input, context).await, Err(Failure::Cancelled));
    assert!(tree(&project.outside().join("project")).is_empty());
}

#[tokio::test]
async fn what_is_too_large_to_patch_can_still_go() {
    let project = Project::new();
    fs::File::create(project.path("large")).unwrap().set_len(21 * 1024 * 1024).unwrap();
    let text = apply(&project, "*** Update File: large\n-a\n+b").await.unwrap_err();
    assert!(text.contains("at most"), "{text}");
    apply(&project, "*** Delete File: large").await.unwrap();
    assert!(!project.path("large").exists());
}
