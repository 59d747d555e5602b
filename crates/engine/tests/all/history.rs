//! What of earlier answers is given to the model again.

use everturn_engine::Prompt;
use everturn_model::SessionId;
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;

/// An export of a session with these messages, each a role, an error and parts.
fn export(bench: &Bench, messages: &[(&str, Value, Value)]) -> Vec<u8> {
    let session = "ses_history";
    let began = 1_794_711_664_171_i64;
    let shown = messages.iter().zip(0..).map(|((role, error, parts), number)| {
        let id = format!("msg_{number:03}");
        let time = json!({"created": began + number, "completed": began + number});
        let info = match *role {
            "user" => json!({"id": id, "sessionID": session, "role": role, "time": time, "agent": "build",
                "model": {"providerID": "fake", "modelID": "fake-model"}}),
            _ => json!({"id": id, "sessionID": session, "role": role, "time": time, "parentID": "msg_000",
                "providerID": "fake", "modelID": "fake-model", "mode": "build", "agent": "build", "cost": 0,
                "path": {"cwd": bench.repo.dir(), "root": bench.repo.dir()}, "error": error,
                "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
        };
        let parts = parts.as_array().unwrap().iter().zip(0..).map(|(part, place)| {
            let mut part = part.clone();
            part["id"] = format!("prt_{number:03}{place}").into();
            part["messageID"] = id.clone().into();
            part["sessionID"] = session.into();
            part
        });
        json!({"info": info, "parts": parts.collect::<Vec<_>>()})
    });
    let info = json!({
        "id": session, "slug": "s", "projectID": "global", "directory": bench.repo.dir(), "title": "t",
        "version": "1.0.0", "time": {"created": began, "updated": began},
    });
    json!({"info": info, "messages": shown.collect::<Vec<_>>()}).to_string().into_bytes()
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thought(text: &str) -> Value {
    json!({"type": "reasoning", "text": text, "time": {"start": 1, "end": 2}})
}

fn ran(call: &str, compacted: bool) -> Value {
    let mut time = json!({"start": 1, "end": 2});
    if compacted {
        time["compacted"] = 3.into();
    }
    let image = json!({"id": "prt_x", "messageID": "msg_000", "sessionID": "ses_history", "type": "file",
        "mime": "text/plain", "url": "data:text/plain,attached", "filename": "b.txt"});
    json!({"type": "tool", "callID": call, "tool": "bash", "state": {"status": "completed",
        "input": {"command": "make"}, "output": format!("output of {call}"), "title": "", "metadata": {},
        "time": time, "attachments": [image]}})
}

fn pending(call: &str) -> Value {
    json!({"type": "tool", "callID": call, "tool": "bash",
        "state": {"status": "pending", "input": {}, "raw": "{\"comm"}})
}

/// Imports a session with these messages, goes on in it, and gives what the model was sent of them: the role, the text and
/// the calls of each message behind the system prompt.
async fn sent(messages: &[(&str, Value, Value)]) -> Vec<String> {
    let bench = Bench::new().await;
    let report = bench.engine.imports().export(&export(&bench, messages)).await.unwrap();
    assert_eq!((report.problems.as_slice(), report.imported.len()), (&[][..], 1));
    let id = SessionId::new("ses_history");
    bench.engine.inbox().admit(&id, Prompt::text("SAY:on")).await.unwrap();
    within("the session to settle", bench.engine.drains().settled(&id)).await;
    let request = bench.model.prompts().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: String = calls.map(|call| format!(" ({})", text(&call["id"]))).collect();
        format!("{}: {}{calls}", text(&message["role"]), text(&message["content"]))
    };
    messages[1..].iter().map(line).collect()
}

fn aborted() -> Value {
    json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
}

fn failed() -> Value {
    json!({"name": "APIError", "data": {"message": "no", "isRetryable": false}})
}

#[tokio::test]
async fn an_answer_that_failed_is_not_given_to_the_model_again() {
    // Half an answer stood there as if it had been one, and the model went on from it.
    let found = sent(&[
        ("user", Value::Null, json!([said("first")])),
        ("assistant", failed(), json!([thought("hm"), said("half an ans")])),
        ("user", Value::Null, json!([said("second")])),
        ("assistant", Value::Null, json!([said("whole")])),
    ])
    .await;
    assert_eq!(found, ["user: first\n\nsecond", "assistant: whole", "user: SAY:on"]);
}

#[tokio::test]
async fn calls_of_a_failed_answer_that_ran_are_known_to_the_model() {
    let found = sent(&[
        ("user", Value::Null, json!([said("first")])),
        ("assistant", failed(), json!([said("I run it"), ran("call_ran", false), pending("call_never")])),
    ])
    .await;
    assert_eq!(
        found,
        [
            "user: first",
            "assistant: null (call_ran)",
            "tool: output of call_ran\nAttached file b.txt:\nattached",
            "user: SAY:on"
        ]
    );
}

#[tokio::test]
async fn an_answer_that_was_stopped_counts_if_it_says_something() {
    let found = sent(&[
        ("user", Value::Null, json!([said("first")])),
        ("assistant", aborted(), json!([thought("hm"), said("as far as")])),
        ("user", Value::Null, json!([said("second")])),
        ("assistant", aborted(), json!([thought("only a thought")])),
    ])
    .await;
    assert_eq!(found, ["user: first", "assistant: as far as", "user: second\n\nSAY:on"]);
}

#[tokio::test]
async fn an_output_that_was_cleared_goes_out_as_a_placeholder() {
    // It went out whole, with its attachments.
    let found = sent(&[
        ("user", Value::Null, json!([said("first")])),
        ("assistant", Value::Null, json!([ran("call_old", true), ran("call_new", false)])),
        ("assistant", Value::Null, json!([said("done")])),
    ])
    .await;
    assert_eq!(
        found,
        [
            "user: first",
            "assistant: null (call_old) (call_new)",
            "tool: [Old tool result content cleared]",
            "tool: output of call_new\nAttached file b.txt:\nattached",
            "assistant: done",
            "user: SAY:on"
        ]
    );
}

#[tokio::test]
async fn half_an_answer_of_this_program_is_left_out_too() {
    let bench = Bench::new().await;
    bench.say("FAIL:invalid_request_error ERRTEXT:no\nSAY:one two three four five six").await;
    bench.say("SAY:whole").await;
    let request = bench.model.prompts().pop().unwrap();
    let roles: Vec<&Value> =
        request["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user"], "the two prompts are one message: {request}");
}
