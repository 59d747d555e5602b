//! Output that is too much, is not text, or cannot be kept: a bounded success each time.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use everturn_tools::{Scope, bound};
use proptest::prelude::*;
use serde_json::json;

use crate::bash::{command, tool};
use crate::harness::{Project, names};

/// What names the folder of a helper process.
const FOLDER: &str = "LIMITS_FOLDER";

#[tokio::test]
async fn invalid_text_is_replaced_wherever_blocks_are_cut() {
    let project = Project::new();
    // Characters of three bytes in pieces that never end with one, and broken bytes between them.
    for shift in 0..3 {
        let line = format!(
            "head -c {shift} /dev/zero | tr '\\0' x; \
             for i in $(seq 400); do printf '\\344\\275'; printf '\\240\\344\\275\\240\\n\\377\\376\\n'; done"
        );
        let output = project.run(&tool(), command(&line)).await.unwrap();
        let expected = format!("{}{}", "x".repeat(shift), "你你\n\u{fffd}\u{fffd}\n".repeat(400));
        assert_eq!(output.output, expected);
    }
    // Longer than what memory keeps: the cut is between characters, the file has the bytes.
    for shift in 0..4 {
        let line = format!("printf '%{shift}s' ''; yes 😀 | head -n 50000 | tr -d '\\n'; printf '\\377'");
        let output = project.run(&tool(), command(&line)).await.unwrap();
        assert!(output.output.ends_with("😀\u{fffd}"));
        assert_eq!(output.output.matches('\u{fffd}').count(), 1, "shift {shift}");
        assert_eq!(output.metadata["output"].as_str().unwrap().matches('\u{fffd}').count(), 1);
        let mut bytes = vec![b' '; shift];
        bytes.extend("😀".repeat(50_000).into_bytes());
        bytes.push(0xff);
        assert_eq!(fs::read(output.output_path.unwrap()).unwrap(), bytes);
    }
}

#[tokio::test]
async fn nul_is_shown_and_never_passed_on() {
    let project = Project::new();
    let output =
        project.run(&tool(), command(r"printf 'a\0b'; head -c 100000 /dev/zero; echo end")).await.unwrap();
    assert!(output.output.starts_with("a\u{2400}b\u{2400}") && output.output.ends_with("\u{2400}end\n"));
    assert!(output.output.len() <= 51_200 + 400);
    assert!(!output.output.contains('\0') && !output.metadata["output"].as_str().unwrap().contains('\0'));
    let kept = fs::read(output.output_path.unwrap()).unwrap();
    assert_eq!((kept.len(), &kept[..4]), (100_007, &b"a\0b\0"[..]));
}

/// A helper runs commands under a limit for the size of files, which is how a disk fills up for an ordinary user.
fn in_little_room(kilobytes: u32, folder: &Scope) -> String {
    // The limit holds for the helper alone, and its signal is ignored: writing then fails as on a full disk.
    let line = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$0\" \"$@\"");
    let output = Command::new("bash")
        .args(["-c", &line])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "limits::helper_in_little_room", "--ignored", "--nocapture"])
        .env(FOLDER, folder.worktree.parent().unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_full_disk_costs_only_the_rest() {
    let project = Project::new();
    let said = in_little_room(300, &project.scope);
    assert!(said.contains("all as it should be"), "{said}");
    // Of the three outputs only that of the job is there, and it says that it is not whole.
    let files = names(&project.scope.output_dir);
    assert_eq!(files.len(), 1, "{files:?}");
    let job = fs::read_to_string(project.scope.output_dir.join(&files[0])).unwrap();
    assert!(job.contains("[the rest could not be kept: "), "{}", &job[job.len().saturating_sub(300)..]);
}

#[tokio::test]
#[ignore = "a process that another test starts with little room for files"]
#[expect(clippy::print_stdout, reason = "how the helper answers")]
async fn helper_in_little_room() {
    #[expect(clippy::disallowed_methods, reason = "how the test speaks to its helper")]
    let base = std::path::PathBuf::from(std::env::var(FOLDER).unwrap());
    let worktree = base.join("project");
    let scope = std::sync::Arc::new(Scope {
        directory: worktree.clone(),
        worktree,
        output_dir: base.join("output"),
        home: base.join("home"),
        sandbox: None,
    });
    let context = || everturn_tools::Context::new(std::sync::Arc::clone(&scope)).0;
    // More than the limit, through the spool of a command.
    let output = everturn_tools::Tool::run(&tool(), command("seq 1 200000"), context()).await.unwrap();
    assert_eq!((&output.output_path, &output.metadata["exit"]), (&None, &json!(0)));
    assert!(output.output.contains("the rest could not be kept and is lost"));
    assert!(output.output.starts_with("1\n2\n") && output.output.ends_with("199999\n200000\n"));
    assert!(output.output.len() <= 51_200 + 400);
    assert!(output.metadata.get("outputPath").is_none());
    // More than the limit, as the text of any tool.
    let text = "line\n".repeat(200_000);
    let bounded = bound::bound(text, bound::OutputLimits::default(), &scope.output_dir);
    assert!(bounded.truncated && bounded.path.is_none() && bounded.text.contains("is lost"));
    assert_eq!(names(&scope.output_dir), Vec::<String>::new(), "no part of a file is left");
    // A job goes on; its file ends with what happened.
    let tool = tool();
    let input =
        json!({ "command": "seq 1 200000; echo done > done", "description": "x", "background": true });
    let job = everturn_tools::Tool::run(&tool, input, context()).await.unwrap();
    let path = job.output_path.unwrap();
    while tool.jobs.running() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(fs::read_to_string(scope.directory.join("done")).unwrap(), "done\n");
    assert!(fs::metadata(path).unwrap().len() <= 300 * 1024);
    println!("all as it should be");
}

#[tokio::test]
async fn the_file_of_a_dropped_call_is_removed() {
    let project = Project::new();
    let (context, mut reports) = project.context();
    let run = tokio::spawn(async move {
        everturn_tools::Tool::run(&tool(), command("seq 1 200000; echo ready; sleep 1000"), context).await
    });
    while !reports.recv().await.unwrap().metadata["output"].as_str().unwrap().ends_with("ready\n") {}
    assert_eq!(names(&project.scope.output_dir).len(), 1);
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert_eq!(names(&project.scope.output_dir), Vec::<String>::new());
}

#[tokio::test]
async fn outputs_are_private_and_have_names_of_their_own() {
    let project = Project::new();
    let tool = tool();
    let runs = (0..8).map(|_| project.run(&tool, command("seq 1 30000")));
    let outputs = futures_util::future::join_all(runs).await;
    let mut paths: Vec<_> = outputs.into_iter().map(|output| output.unwrap().output_path.unwrap()).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 8);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert!(paths.iter().all(|path| mode(path) == 0o600));
    assert_eq!(mode(&project.scope.output_dir), 0o700);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a text is made, what goes to the model fits, and the file has all of it.
    #[test]
    fn any_text_is_bounded(
        pieces in prop::collection::vec(prop::sample::select(vec!["word ", "\n", "😀", "ä\n"]), 0..300),
        lines in 4usize..40,
        bytes in 40usize..600,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let text = pieces.concat();
        let bounded = bound::bound(text.clone(), bound::OutputLimits { lines, bytes }, dir.path());
        let count = |text: &str| text.split_inclusive('\n').count();
        prop_assert_eq!(bounded.truncated, text.len() > bytes || count(&text) > lines);
        match bounded.path {
            None => prop_assert_eq!(bounded.text, text),
            Some(path) => {
                prop_assert_eq!(fs::read_to_string(&path).unwrap(), text);
                prop_assert!(bounded.text.len() <= bytes + 200 + path.to_str().unwrap().len());
                prop_assert!(count(&bounded.text) <= lines + 5);
            }
        }
    }
}
