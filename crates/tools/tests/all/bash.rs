//! Commands: their output, their end, and what they leave behind.
//!
//! Whether a process has died is told by a named pipe: its reader gets to the end when the last process that
//! holds it open for writing is gone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use everturn_tools::bash::BashTool;
use everturn_tools::process::Launcher;
use everturn_tools::{Failure, Secrets, Tool};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::harness::{Project, names};
use crate::sandbox::{all, enclosed, supervisor};

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The tool with a supervisor.
pub(crate) fn tool() -> BashTool {
    let launcher = Launcher { supervisor: Some(supervisor()), ..Launcher::default() };
    BashTool { launcher, ..BashTool::default() }
}

/// The tool with a supervisor that soon loses patience.
pub(crate) fn quick() -> BashTool {
    with_grace(tool(), Duration::from_millis(200))
}

fn with_grace(mut tool: BashTool, grace: Duration) -> BashTool {
    tool.launcher.grace = grace;
    tool
}

pub(crate) fn command(text: &str) -> Value {
    json!({ "command": text, "description": "a test" })
}

/// Makes a named pipe and waits for its writers to come and go; what they wrote is the result.
pub(crate) fn watch(path: &Path) -> JoinHandle<String> {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap())
}

#[tokio::test]
async fn no_search_path_leads_elsewhere() {
    // With the person's own, `cd src` could go to another project, and what was permitted for this one was done there.
    let project = Project::new();
    let (context, _reports) = project.context();
    let output = tool().run(command("env | grep ^CDPATH="), context).await.unwrap();
    assert_eq!(output.output, "CDPATH=\n");
}

#[tokio::test]
async fn a_command_has_the_recorded_form() {
    let project = Project::new();
    let (context, mut reports) = project.context();
    let output = tool().run(command("echo hi"), context).await.unwrap();
    assert_eq!((&*output.output, &*output.title), ("hi\n", "echo hi"));
    let expected = json!({ "output": "hi\n", "exit": 0, "truncated": false });
    assert_eq!(Value::Object(output.metadata), expected);
    let mut live = Vec::new();
    while let Some(report) = reports.recv().await {
        live.push(Value::Object(report.metadata));
    }
    assert_eq!(live.first(), Some(&json!({ "output": "" })));
    assert_eq!(live.last(), Some(&json!({ "output": "hi\n" })));
}

#[tokio::test]
async fn a_failing_command_is_a_result() {
    let project = Project::new();
    let output = project.run(&tool(), command("exit 3")).await.unwrap();
    assert_eq!(output.output, "(no output)");
    let expected = json!({ "output": "(no output)", "exit": 3, "truncated": false });
    assert_eq!(Value::Object(output.metadata), expected);
    let killed = project.run(&tool(), command("kill -9 $$")).await.unwrap();
    assert_eq!(killed.metadata["exit"], 137);
}

#[tokio::test]
async fn both_outputs_keep_their_order() {
    let project = Project::new();
    let line = "for i in $(seq 300); do echo out $i; echo err $i >&2; done";
    let output = project.run(&tool(), command(line)).await.unwrap();
    let expected: String = (1..=300).map(|n| format!("out {n}\nerr {n}\n")).collect();
    assert_eq!(output.output, expected);
}

#[tokio::test]
async fn there_is_no_input() {
    let project = Project::new();
    let run = project.run(&tool(), command("cat; read x; echo end $?")).await.unwrap();
    assert_eq!(run.output, "end 1\n");
}

#[tokio::test]
async fn the_folder_is_chosen() {
    let project = Project::new();
    project.file("sub/x", "");
    let here = project.run(&tool(), command("pwd")).await.unwrap();
    assert_eq!(here.output.trim(), project.scope.directory.to_str().unwrap());
    let input = json!({ "command": "ls", "description": "list", "workdir": "sub" });
    assert_eq!(project.run(&tool(), input).await.unwrap().output, "x\n");
    let input = json!({ "command": "ls", "description": "list", "workdir": "sub/x" });
    assert!(matches!(project.run(&tool(), input).await, Err(Failure::Failed(_))));
}

#[tokio::test]
async fn arguments_are_checked() {
    let project = Project::new();
    for input in
        [json!({}), json!({ "command": "x", "timeout": 0 }), json!({ "command": "x", "timeout": 600_001 })]
    {
        assert!(matches!(project.run(&tool(), input).await, Err(Failure::InvalidInput(_))));
    }
}

#[tokio::test]
async fn a_slow_command_is_stopped_with_all_it_started() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    // The shell, a child and a grandchild all refuse to end when asked to.
    let line = "trap '' TERM; exec 9>pipe; echo before; (sleep 1000 & wait) & wait; sleep 1000";
    let input = json!({ "command": line, "description": "hang", "timeout": 1000 });
    let output = timeout(PATIENCE, project.run(&quick(), input)).await.unwrap().unwrap();
    assert_eq!(output.output, "before\n\n(The command was stopped: it ran longer than 1000 ms.)");
    assert_eq!(output.metadata["exit"], Value::Null);
    assert_eq!(output.metadata["output"], output.output);
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cancelled_command_may_clean_up() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let (context, mut reports) = project.context();
    let cancel = context.cancel.clone();
    let line = "exec 9>pipe; trap 'echo cleaned >&9; echo bye; exit' TERM; echo ready; \
                while :; do read -t 1 -u 8 x; done 8<>own; true";
    let input = command(&format!("mkfifo own; {line}"));
    let tool = with_grace(tool(), PATIENCE);
    let run = tokio::spawn(async move { tool.run(input, context).await });
    while let Some(report) = reports.recv().await {
        if report.metadata["output"] == "ready\n" {
            cancel.cancel();
            break;
        }
    }
    let output = timeout(PATIENCE, run).await.unwrap().unwrap().unwrap();
    assert_eq!(output.output, "ready\nbye\n\n(The command was stopped: the call was cancelled.)");
    assert_eq!(timeout(PATIENCE, gone).await.unwrap().unwrap(), "cleaned\n");
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_running() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let (context, mut reports) = project.context();
    let input = command("exec 9>pipe; echo ready; sleep 1000 & sleep 1000");
    let run = tokio::spawn(async move { tool().run(input, context).await });
    while reports.recv().await.unwrap().metadata["output"] != "ready\n" {}
    run.abort();
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_cancelled_early_starts_nothing() {
    let project = Project::new();
    let (context, _reports) = project.context();
    context.cancel.cancel();
    assert_eq!(tool().run(command("touch x"), context).await, Err(Failure::Cancelled));
    assert!(!project.path("x").exists());
}

/// What the model is told about programs that were left running.
const LEFTOVERS: &str =
    "(Programs that the command left running were stopped. To keep one running, use background: true.)";

#[tokio::test]
async fn what_a_command_leaves_running_is_stopped_and_told() {
    for tool in
        [quick().into(), enclosed(all()), with_grace(BashTool::default(), Duration::from_millis(200)).into()]
    {
        let project = Project::new();
        let gone = watch(&project.path("pipe"));
        let line = "exec 9>pipe; sleep 1000 & echo started";
        let output = timeout(PATIENCE, project.run(&tool, command(line))).await.unwrap().unwrap();
        assert_eq!(output.output, format!("started\n\n{LEFTOVERS}"));
        assert_eq!(output.metadata["exit"], 0);
        timeout(PATIENCE, gone).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_busy_background_process_does_not_hold_up_the_call() {
    for tool in [tool().into(), enclosed(all()), BashTool::default().into()] {
        let project = Project::new();
        let run = project.run(&tool, command("yes & echo started"));
        let output = timeout(PATIENCE, run).await.unwrap().unwrap();
        assert_eq!(output.metadata["exit"], 0);
        assert!(output.output.ends_with(LEFTOVERS));
    }
}

/// Shells do not wait for what they substitute, and its output must not be lost.
#[tokio::test]
async fn a_process_that_ends_soon_after_the_shell_may_finish() {
    let mut tool = tool();
    tool.launcher.linger = PATIENCE;
    let project = Project::new();
    let line = "echo done > >(while read x; do echo late $x; done; sleep 0.05; echo last)";
    let output = project.run(&tool, command(line)).await.unwrap();
    assert_eq!(output.output, "late done\nlast\n");
}

#[tokio::test]
async fn keys_are_kept_from_commands() {
    let project = Project::new();
    // What cargo sets for tests stands for a key: the environment of this process is not ours to change.
    for mut tool in [tool(), BashTool::default()] {
        let shown = project.run(&tool, command("echo ${CARGO_PKG_NAME-none}")).await.unwrap();
        assert_eq!(shown.output, "everturn-tools\n");
        tool.launcher.secrets = Secrets::found_by(|| vec!["CARGO_PKG_NAME".to_owned()]);
        let hidden = project.run(&tool, command("echo ${CARGO_PKG_NAME-none}")).await.unwrap();
        assert_eq!(hidden.output, "none\n");
    }
}

#[tokio::test]
async fn long_output_is_kept_whole_in_a_file() {
    let project = Project::new();
    let output = project.run(&tool(), command("seq 1 200000")).await.unwrap();
    let full: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let path = output.output_path.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), full);
    assert!(output.output.starts_with("1\n2\n") && output.output.ends_with("\n199999\n200000\n"));
    assert!(output.output.contains(path.to_str().unwrap()));
    assert!(output.output.contains(&format!("200000 lines, {} bytes", full.len())));
    assert!(output.output.lines().count() <= 2005 && output.output.len() < 51_200 + 400);
    assert_eq!(output.metadata["truncated"], true);
    assert_eq!(output.metadata["outputPath"], path.to_str().unwrap());
    let live = output.metadata["output"].as_str().unwrap();
    assert!(live.chars().count() <= 30_000 && live.starts_with("...\n") && live.ends_with("200000\n"));
    // Larger than the limits but not than memory: the same, without a spool.
    let middle = project.run(&tool(), command("seq 1 3000")).await.unwrap();
    assert_eq!(fs::read_to_string(middle.output_path.unwrap()).unwrap().lines().count(), 3000);
    let edge = project.run(&tool(), command("head -c 70000 /dev/zero | tr '\\0' '#'")).await.unwrap();
    assert_eq!(fs::metadata(edge.output_path.unwrap()).unwrap().len(), 70_000);
    assert_eq!(edge.output.matches('#').count(), 51_200);
    assert_eq!(names(&project.scope.output_dir).len(), 3);
}

#[tokio::test]
async fn output_that_cannot_be_kept_does_not_fail_the_command() {
    let project = Project::new();
    fs::write(&project.scope.output_dir, "in the way").unwrap();
    let output = project.run(&tool(), command("seq 1 200000")).await.unwrap();
    assert_eq!((output.output_path, &output.metadata["exit"]), (None, &json!(0)));
    assert!(output.output.contains("lost") && output.output.ends_with("200000\n"));
}

#[tokio::test]
async fn bytes_that_are_not_text_are_replaced() {
    let project = Project::new();
    let output = project.run(&tool(), command(r"printf 'a\377b\0c'")).await.unwrap();
    assert_eq!(output.output, "a\u{fffd}b\u{2400}c");
}

#[tokio::test]
async fn a_command_that_the_system_does_not_take_is_refused_in_words() {
    // It was asked about first, and then the system's own words were all that was said.
    let project = Project::new();
    let long = |bytes: usize| format!("echo hi #{}", "x".repeat(bytes - 9));
    for (line, why) in [
        (long(128 * 1024), "The command has 131072 bytes, and the system takes 131071 at most"),
        ("echo a\0b".to_owned(), "The command holds a NUL, which no command can"),
    ] {
        let expected = Failure::InvalidInput(format!("{why}: write it to a script file and run that."));
        assert_eq!(tool().needs(&command(&line), &project.scope), Err(expected));
    }
    for tool in [tool(), BashTool::default()] {
        let output = project.run(&tool, command(&long(128 * 1024 - 1))).await.unwrap();
        assert_eq!(output.output, "hi\n");
    }
}

#[tokio::test]
async fn a_shell_that_left_its_group_holds_nothing_up() {
    // Without a supervisor, the group was killed and the shell, which was no member any more, waited for without end.
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let script = "
import os, signal, time
pipe = open('pipe', 'w')
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
os.setpgid(0, os.getpgid(os.getppid()))
print('ready', flush=True)
time.sleep(1000)";
    project.file("leave.py", script);
    let (context, mut reports) = project.context();
    let cancel = context.cancel.clone();
    let tool = with_grace(BashTool::default(), Duration::from_millis(100));
    let run = tool.run(command("exec python3 leave.py"), context);
    let cancelling = async {
        while let Some(report) = reports.recv().await {
            if report.metadata["output"].as_str().unwrap().contains("ready") {
                cancel.cancel();
            }
        }
    };
    let (output, ()) = timeout(PATIENCE, async { tokio::join!(run, cancelling) }).await.unwrap();
    assert!(output.unwrap().output.starts_with("ready\n"));
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn no_other_shell_takes_the_place_of_bash() {
    // `sh` did, and a quotation that bash and `sh` read differently hid a command from those who permitted it.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", folder.path().join("sh")).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bash::helper_without_bash", "--ignored", "--nocapture"])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "a process that another test starts where there is no bash"]
async fn helper_without_bash() {
    let project = Project::new();
    for tool in [tool(), BashTool::default()] {
        let result = project.run(&tool, command(r"echo $'\'; echo > touched #'")).await;
        let text = result.unwrap_err().to_string();
        assert!(text.contains("commands need bash, and there is none on the PATH"), "{text}");
        assert_eq!(names(&project.path("")), [""; 0]);
    }
}
