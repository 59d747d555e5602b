//! `opencode run --attach`: one prompt from the command line, answered by our server.

use everturn_testkit::within;
use serde_json::Value;

use crate::opencode;
use crate::stage::Stage;

struct Answer {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

async fn run(stage: &Stage, arguments: &[&str]) -> Answer {
    let home = tempfile::tempdir().unwrap();
    let mut command = opencode::command(home.path());
    command.args(["run", "--attach", stage.server.base_url()]).args(arguments);
    command.current_dir(stage.repo.path());
    let output = within("opencode run", command.output()).await.unwrap();
    Answer {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: without_colours(&String::from_utf8(output.stderr).unwrap()),
    }
}

/// The text without the escape sequences that colour it.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').map_or(piece, |(_, rest)| rest))
}

#[tokio::test]
async fn a_tool_call() {
    let stage = Stage::new().await;
    let answer = run(&stage, &["TOOL:bash:echo hi"]).await;
    // The program puts a prompt with spaces into quotation marks.
    let said = "Hello from the fake model. You said: \"TOOL:bash:echo hi\"\n";
    assert_eq!((answer.status, answer.stdout.as_str()), (Some(0), said), "{}", answer.stderr);
    assert_eq!(answer.stderr, "\n> build · fake-1\n\n$ echo hi\nhi\n\n");
}

#[tokio::test]
async fn events_as_json() {
    let stage = Stage::new().await;
    let answer = run(&stage, &["--format", "json", "THINK SAY:as json"]).await;
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let events: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step_start", "text", "step_finish"]);
    assert_eq!(events[1]["part"]["text"], "as json\"");
}

#[tokio::test]
async fn a_session_goes_on() {
    let stage = Stage::new().await;
    let session = stage.session("kept").await;
    let answer = run(&stage, &["--session", &session, "SAY:again"]).await;
    assert_eq!((answer.status, answer.stdout.as_str()), (Some(0), "again\n"), "{}", answer.stderr);
    let messages = stage.messages(&session).await;
    let texts: Vec<&str> = messages
        .iter()
        .flat_map(|message| message["parts"].as_array().unwrap())
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(texts, ["SAY:again", "again"]);
}
