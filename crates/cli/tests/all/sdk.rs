//! OpenCode's JavaScript SDK on our server; `sdk.mjs` is the program.

use std::path::Path;
use std::process::Stdio;

use everturn_testkit::within;
use serde_json::{Value, json};

use crate::opencode;
use crate::stage::Stage;

async fn run(stage: &Stage) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/sdk.mjs");
    let mut command = tokio::process::Command::new("node");
    command.arg(script).arg(opencode::package("@opencode-ai/sdk/dist/index.js"));
    command.args([stage.server.base_url(), &stage.server.auth_header().unwrap(), stage.repo.dir()]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the program that uses the SDK", command.output()).await;
    let output = output.expect("node runs: install node 18 or newer, or run ./test, which installs it");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}\n{}", stage.server.stderr());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Who says what: role, finish or error, and the parts' types with their text or status.
fn summary(messages: &Value) -> Value {
    let part = |part: &Value| {
        let more = part.get("text").or_else(|| part.pointer("/state/status"));
        more.map_or_else(|| json!([part["type"]]), |more| json!([part["type"], more]))
    };
    let message = |message: &Value| {
        let info = &message["info"];
        let end = info.pointer("/error/name").or_else(|| info.get("finish")).cloned().unwrap_or_default();
        let parts: Vec<Value> = message["parts"].as_array().unwrap().iter().map(part).collect();
        json!([info["role"], end, parts])
    };
    messages.as_array().unwrap().iter().map(message).collect()
}

#[tokio::test]
async fn a_program_with_the_sdk() {
    let stage = Stage::new().await;
    let got = run(&stage).await;

    assert_eq!(got["created"]["title"], "by the SDK");
    assert_eq!(got["created"]["directory"], stage.repo.dir());
    let last = json!([["assistant", "stop", [["step-start"], ["text", "all done"], ["step-finish"]]]]);
    assert_eq!(summary(&json!([got["answered"]])), last);
    let first_turn = json!([
        ["user", null, [["text", "TOOL:bash:echo hi\nSAY:all done"]]],
        ["assistant", "tool-calls", [["step-start"], ["tool", "completed"], ["step-finish"]]],
        last[0],
    ]);
    let second_turn = json!([
        ["user", null, [["text", "HOLD:forever SAY:one two"]]],
        ["assistant", "MessageAbortedError", [["step-start"], ["text", "one "]]],
    ]);
    let both = first_turn.as_array().unwrap().iter().chain(second_turn.as_array().unwrap());
    assert_eq!(summary(&got["messages"]), both.cloned().collect::<Value>());
    assert_eq!((&got["status"], &got["aborted"]), (&json!({"type": "busy"}), &json!(true)));

    assert_eq!(got["forked"]["title"], "by the SDK (fork #1)");
    assert_eq!(summary(&got["forkedMessages"]), first_turn);
    let ids = |sessions: &Value| -> Vec<Value> {
        sessions.as_array().unwrap().iter().map(|session| session["id"].clone()).collect()
    };
    let (created, forked) = (&got["created"]["id"], &got["forked"]["id"]);
    let mut listed = ids(&got["listed"]);
    listed.sort_by_key(|id| id != created);
    assert_eq!(listed, [created.clone(), forked.clone()]);
    assert_eq!((&got["updated"]["title"], &got["deleted"]), (&json!("renamed"), &json!(true)));
    assert_eq!(ids(&got["left"]), std::slice::from_ref(created));
    assert_eq!(got["missing"], "NotFoundError");

    assert_eq!(summary(&json!([got["ran"]])), json!([["assistant", null, [["tool", "completed"]]]]));
    assert_eq!(got["ran"].pointer("/parts/0/state/output"), Some(&json!("by the person\n")));

    let events = got["events"].as_array().unwrap();
    let of_tool = |event: &&Value| event.pointer("/properties/part/type") == Some(&json!("tool"));
    let mut states: Vec<&Value> =
        events.iter().filter(of_tool).map(|event| &event["properties"]["part"]["state"]["status"]).collect();
    states.dedup();
    // The second is the person's command.
    assert_eq!(states, ["pending", "running", "completed", "running", "completed"]);
    let deltas = events.iter().filter(|event| event["type"] == "message.part.delta");
    let text: String = deltas.filter_map(|event| event["properties"]["delta"].as_str()).collect();
    assert_eq!(text, "all doneone ");
}
