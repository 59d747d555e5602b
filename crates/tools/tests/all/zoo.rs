//! Programs that behave badly, under a real supervisor: each call settles in time and nothing lives on.
//!
//! Every program of a test carries a marker in its command line (an argument of `sleep` that no other test has), so the
//! processes of the machine tell whether one is left, whatever it did to its environment, its descriptors and its
//! session. When the call has returned there is nothing to wait for: the check is made at once.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everturn_tools::{Output, Tool};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::bash::{PATIENCE, command, quick, tool, watch};
use crate::harness::Project;

/// What names the folder of a helper process.
const FOLDER: &str = "ZOO_FOLDER";

/// A number of seconds that no other process sleeps for.
fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{:07}.{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The living processes whose command line has the marker.
fn alive(marker: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(marker)
        })
        .collect()
}

/// Waits until a file has a whole line.
async fn line_of(path: PathBuf) -> String {
    let read = async {
        loop {
            match fs::read_to_string(&path) {
                Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    timeout(PATIENCE, read).await.unwrap()
}

/// Runs a line in which `@` stands for the marker, and checks that nothing of it lives on.
async fn check(line: &str, limit: u64) -> Output {
    let project = Project::new();
    let marker = marker();
    let input = json!({ "command": line.replace('@', &marker), "description": "zoo", "timeout": limit });
    let tool = quick();
    let output = timeout(PATIENCE, project.run(&tool, input)).await.unwrap().unwrap();
    assert_eq!(alive(&marker), [0; 0], "after {line}: {}", output.output);
    output
}

fn stopped_by_time(output: &Output) -> bool {
    output.metadata["exit"] == Value::Null && output.output.contains("it ran longer than")
}

fn stopped_leftovers(output: &Output) -> bool {
    output.metadata["exit"] == 0 && output.output.contains("left running were stopped")
}

#[tokio::test]
async fn sleeping_past_the_time() {
    assert!(stopped_by_time(&check("sleep @", 200).await));
    assert!(stopped_by_time(&check("exec sleep @", 200).await));
    assert!(stopped_by_time(&check("sleep @ | sleep @ | sleep @", 200).await));
}

#[tokio::test]
async fn ignoring_signals() {
    let line = "trap '' TERM INT HUP QUIT; echo deaf; sleep @; sleep @";
    let output = check(line, 300).await;
    assert!(stopped_by_time(&output) && output.output.starts_with("deaf\n"));
    assert!(stopped_leftovers(&check("(trap '' TERM INT HUP; sleep @) & true", 60_000).await));
}

/// The marker is in the program's own command line: its environment is empty, its streams are closed, its session is
/// its own, and its parents are gone.
#[tokio::test]
async fn daemons() {
    for line in [
        "setsid sleep @ & true",
        "setsid -f sleep @",
        "(setsid sh -c '(sleep @ &)' &) ",
        "setsid -f env -i sleep @ <&- >&- 2>&-",
        "env -i setsid -f sh -c 'cd /; exec 0<&- 1>&- 2>&-; (trap \"\" TERM HUP; sleep @) & sleep @' >&- 2>&-",
        "nohup setsid sleep @ >/dev/null 2>&1 & disown; true",
    ] {
        let output = check(&format!("{line}\nsleep 0.05"), 60_000).await;
        assert!(stopped_leftovers(&output), "{line}: {}", output.output);
    }
}

#[tokio::test]
async fn a_daemon_that_outlives_a_slow_command() {
    assert!(stopped_by_time(&check("setsid -f env -i sleep @; sleep @", 300).await));
}

#[tokio::test]
async fn flooding() {
    let before = peak();
    let output = check("head -c 1G /dev/zero", 60_000).await;
    assert_eq!(output.metadata["exit"], 0);
    assert!(output.output.contains("1073741824 bytes in all; the first 67108864 bytes are in"));
    assert!(output.output.len() < 60 * 1024 && !output.output.contains('\0'));
    // Peak memory of this process, in KiB; the output is a thousand times as much.
    assert!(peak() - before < 64 * 1024, "{} KiB", peak() - before);
    let without_end = check("exec yes @", 500).await;
    assert!(stopped_by_time(&without_end) && without_end.output.len() < 60 * 1024);
}

/// The most memory that this process has had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn closing_the_output_early() {
    let output = check("echo first; exec >&- 2>&-; sleep 0.1; exit 7", 60_000).await;
    assert_eq!((&*output.output, &output.metadata["exit"]), ("first\n", &json!(7)));
    assert!(stopped_by_time(&check("exec >&- 2>&-; sleep @", 200).await));
}

#[tokio::test]
async fn waiting_for_input() {
    assert_eq!(
        check("cat; read x; echo $?; wc -c; [ -t 0 ] || echo none", 60_000).await.output,
        "1\n0\nnone\n"
    );
    // Nor is there a terminal that a password could be asked on.
    let output = check("(read x < /dev/tty) 2>/dev/null || echo no terminal", 60_000).await;
    assert_eq!(output.output, "no terminal\n");
}

#[tokio::test]
async fn killed_from_outside() {
    let output = check("sleep @ & kill -9 $$", 60_000).await;
    assert_eq!(output.metadata["exit"], 137);
    assert!(output.output.contains("left running were stopped"));
    // Its whole group, as a terminal's key would.
    let output = check("sleep @ & kill -9 0", 60_000).await;
    assert_eq!((&*output.output, &output.metadata["exit"]), ("(no output)", &json!(137)));
}

#[tokio::test]
async fn the_supervisor_killed_from_outside() {
    for line in [
        "sleep @ & kill -9 $PPID; sleep @",
        "setsid -f sleep @; sleep 0.05; kill -9 $PPID; sleep @",
        // Without its mark it was found by nobody, and could answer for the person.
        "env -i setsid -f sleep @; sleep 0.05; kill -9 $PPID; sleep @",
        "env -i setsid -f bash -c 'sleep @ & sleep @'; sleep 0.05; kill -9 $PPID; sleep @",
        // Halted, it says nothing and does nothing.
        "sleep @ & kill -STOP $PPID; sleep @",
    ] {
        let limit = if line.contains("STOP") { 300 } else { 60_000 };
        let output = check(line, limit).await;
        assert_eq!(output.metadata["exit"], Value::Null, "{line}");
        assert!(output.output.starts_with("(The command was stopped"), "{}", output.output);
    }
}

#[tokio::test]
async fn a_supervisor_asked_to_end_stops_everything() {
    let output = check("setsid -f sleep @; sleep 0.05; kill $PPID; sleep @", 60_000).await;
    assert_eq!(output.metadata["exit"], 143);
}

/// A helper process runs the tool and is killed: nothing of what it ran may live on.
#[tokio::test]
async fn the_server_killed() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let marker = marker();
    let line = format!(
        "exec 9>pipe; trap '' TERM; setsid -f sleep {marker}; (sleep {marker} & sleep {marker}) & \
         sleep 0.05; echo ready > ready; sleep {marker}"
    );
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "zoo::helper_that_runs_a_command", "--ignored", "--nocapture"])
        .env(FOLDER, &project.scope.directory)
        .env("ZOO_LINE", line)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(line_of(project.path("ready")).await, "ready");
    assert_ne!(alive(&marker).len(), 0);
    server.kill().unwrap();
    server.wait().unwrap();
    timeout(PATIENCE, gone).await.unwrap().unwrap();
    // Each of them held the pipe, so none is left; the system may still be putting the last one away.
    let none = async {
        while !alive(&marker).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, none).await.unwrap();
}

#[tokio::test]
#[ignore = "a process that another test starts and kills"]
async fn helper_that_runs_a_command() {
    #[expect(clippy::disallowed_methods, reason = "how the test speaks to its helper")]
    let (folder, line) = (std::env::var(FOLDER).unwrap(), std::env::var("ZOO_LINE").unwrap());
    let project = Project::new();
    let input = json!({ "command": line, "description": "zoo", "workdir": folder });
    project.run(&quick(), input).await.unwrap();
}

#[tokio::test]
async fn a_fork_bomb() {
    // Each process starts two more, six generations deep, faster than they can be listed.
    let bomb = "bomb() { if [ $1 -gt 0 ]; then bomb $(($1-1)) & bomb $(($1-1)) & fi; \
                trap '' TERM; sleep @; }; bomb 6";
    assert!(stopped_by_time(&check(bomb, 300).await));
}

/// Each process starts its successor and ends, so none was there when somebody looked, and the supervisor left them
/// running.
#[tokio::test]
async fn a_relay_that_never_stands_still() {
    for start in ["relay &", "(exec setsid bash -c \"$code\") &"] {
        let project = Project::new();
        let gone = watch(&project.path("pipe"));
        let code = format!("relay() {{ trap '' TERM; {start} }}; relay");
        let line = format!(
            "exec 9>pipe; export code='{}'; bash -c \"$code\"; sleep 0.1",
            code.replace('\'', "'\\''")
        );
        let input = json!({ "command": line, "description": "zoo", "timeout": 60_000 });
        let output = timeout(PATIENCE, project.run(&quick(), input)).await.unwrap().unwrap();
        assert!(stopped_leftovers(&output), "{}", output.output);
        // Every runner holds the pipe.
        timeout(PATIENCE, gone).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn halted_children() {
    assert!(stopped_by_time(&check("kill -STOP $$; sleep @", 200).await));
    let output = check("sleep @ & kill -STOP $!; echo on", 60_000).await;
    assert!(stopped_leftovers(&output));
    // A halted child that would clean up when asked gets the chance to.
    let output =
        check("(trap 'echo cleaned; exit' TERM; kill -STOP $BASHPID; sleep @) & sleep 0.05", 60_000).await;
    assert!(output.output.starts_with("cleaned\n"), "{}", output.output);
}

#[tokio::test]
async fn a_dropped_call_stops_daemons() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let (context, mut reports) = project.context();
    let input = command("exec 9>pipe; setsid -f env -i sleep 1000; echo ready; sleep 1000");
    let run = tokio::spawn(async move { tool().run(input, context).await });
    while reports.recv().await.unwrap().metadata["output"] != "ready\n" {}
    run.abort();
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}
