//! Commands in the background.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use everturn_tools::bash::{BashTool, Jobs};
use everturn_tools::{Failure, Output};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::bash::{PATIENCE, quick, tool, watch};
use crate::harness::{Project, names};
use crate::sandbox::{all, enclosed};

fn background(line: &str) -> Value {
    json!({ "command": line, "description": "a job", "background": true })
}

/// Waits until the output file of a job says what it should.
async fn until(path: &PathBuf, wanted: impl Fn(&str) -> bool) -> String {
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
            if wanted(&text) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, read).await.unwrap()
}

fn stop_line(output: &Output) -> String {
    output.output.rsplit_once(": ").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_job_goes_on_and_can_be_stopped_as_told() {
    for tool in [quick().into(), enclosed(all()), BashTool::default().into()] {
        let project = Project::new();
        let gone = watch(&project.path("pipe"));
        let line = "exec 9>pipe; echo one; mkfifo go; read x < go; echo two; sleep 1000 & sleep 1000";
        let output = project.run(&tool, background(line)).await.unwrap();
        let path = output.output_path.clone().unwrap();
        let pid = output.metadata["pid"].as_i64().unwrap();
        let expected = json!({
            "pid": pid, "output": output.output, "exit": null, "truncated": false, "background": true,
            "outputPath": path.to_str().unwrap(),
        });
        assert_eq!(Value::Object(output.metadata.clone()), expected);
        assert!(output.output.contains(path.to_str().unwrap()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(tool.jobs.running(), 1);
        until(&path, |text| text == "one\n").await;
        fs::write(project.path("go"), "now\n").unwrap();
        until(&path, |text| text == "one\ntwo\n").await;
        // Another call stops it, the way the model was told.
        let kill = json!({ "command": stop_line(&output), "description": "stop" });
        assert_eq!(project.run(&tool, kill).await.unwrap().metadata["exit"], 0);
        timeout(PATIENCE, gone).await.unwrap().unwrap();
        let text = until(&path, |text| text.ends_with("]\n")).await;
        // Without a supervisor, what has ended but was not taken note of counts as left running.
        assert!(text.starts_with("one\ntwo\n\n[the command was ended by signal 15"), "{text}");
        let none = async {
            while tool.jobs.running() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, none).await.unwrap();
    }
}

#[tokio::test]
async fn a_job_that_fails_at_once_is_told() {
    let project = Project::new();
    let output = project.run(&tool(), background("echo no such thing >&2; exit 3")).await.unwrap();
    let expected = "The command has already ended with exit code 3.\n\n\
                    no such thing\n\n[the command ended with exit code 3]\n";
    assert_eq!((&*output.output, &output.metadata["exit"]), (expected, &json!(3)));
}

#[tokio::test]
async fn jobs_end_with_their_tool() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let tool = quick();
    let line = "exec 9>pipe; trap '' TERM; setsid -f sleep 1000; sleep 1000";
    project.run(&tool, background(line)).await.unwrap();
    let clone = tool.clone();
    drop(tool);
    assert_eq!(clone.jobs.running(), 1);
    drop(clone);
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cancelled_call_stops_its_job() {
    let project = Project::new();
    let pipe = project.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (context, _reports) = project.context();
    context.cancel.cancel();
    let tool = quick();
    let refused = everturn_tools::Tool::run(&tool, background("true"), context).await;
    assert_eq!(refused, Err(Failure::Cancelled));
    let (context, _reports) = project.context();
    let cancel = context.cancel.clone();
    let line = "exec 9>pipe; echo up >&9; sleep 1000";
    // The call looks at its job for a while, and is cancelled within that time: the clock stands still while a thread
    // waits for the job to come and go.
    tokio::time::pause();
    let gone = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(fs::File::open(pipe).unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "up");
        cancel.cancel();
        assert!(lines.next().is_none(), "it says nothing more and is gone");
    });
    let output = everturn_tools::Tool::run(&tool, background(line), context).await;
    gone.await.unwrap();
    assert_eq!(output.unwrap().metadata["exit"], 143);
    assert_eq!(tool.jobs.running(), 0);
}

#[tokio::test]
async fn there_is_a_limit_to_jobs() {
    let project = Project::new();
    let tool = BashTool { jobs: Jobs::with_limits(1, 1000), ..quick() };
    project.run(&tool, background("sleep 1000")).await.unwrap();
    let Err(Failure::Failed(text)) = project.run(&tool, background("sleep 1000")).await else {
        panic!("one more than allowed");
    };
    assert!(text.starts_with("1 commands are running in the background"), "{text}");
}

#[tokio::test]
async fn the_output_of_a_job_is_limited() {
    let project = Project::new();
    let tool = BashTool { jobs: Jobs::with_limits(4, 100_000), ..quick() };
    // It prints far more than is kept, and is not held up by that.
    let output = project.run(&tool, background("yes | head -c 50M; echo end > end")).await.unwrap();
    let path = output.output_path.unwrap();
    let text = until(&path, |text| text.ends_with("exit code 0]\n")).await;
    let (kept, notes) = text.split_at(100_000);
    assert_eq!(kept, "y\n".repeat(50_000));
    assert_eq!(notes, "\n[more output came and is not kept]\n\n[the command ended with exit code 0]\n");
    assert_eq!(project.text("end"), "end\n");
}

#[tokio::test]
async fn a_job_without_a_file_still_runs() {
    let project = Project::new();
    fs::write(&project.scope.output_dir, "in the way").unwrap();
    let output = project.run(&tool(), background("exit 0")).await.unwrap();
    let expected =
        "The command has already ended with exit code 0. Its output could not be kept and is lost.";
    assert_eq!((&*output.output, output.output_path), (expected, None));
}

#[tokio::test]
async fn a_job_that_cannot_start_leaves_no_file() {
    // The file for its output stayed behind, empty, and nobody knew of it.
    let project = Project::new();
    let mut tool = quick();
    tool.launcher.supervisor = Some(project.path("no-such-program"));
    assert!(matches!(project.run(&tool, background("true")).await, Err(Failure::Failed(_))));
    assert_eq!(names(&project.scope.output_dir), [""; 0]);
}
