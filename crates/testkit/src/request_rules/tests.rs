//! The rules notice what breaks them: each of these requests is valid, and not any more with one change.

use serde_json::{Value, json};

use super::broken;
use crate::model_server::ArrivedRequest;

fn arrived(path: &str, body: &Value) -> ArrivedRequest {
    ArrivedRequest {
        method: "POST".into(),
        path: path.into(),
        query: String::new(),
        headers: Default::default(),
        body: body.clone(),
    }
}

/// Expects a body to be valid, and every change of it to be noticed: a place and what is put there; nothing takes out
/// what is there.
#[track_caller]
fn check(path: &str, body: &Value, changes: &[(&str, Value)]) {
    assert_eq!(broken(&arrived(path, body)), Vec::<String>::new());
    for (place, value) in changes {
        let mut changed = body.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = changed.pointer_mut(parent).unwrap_or_else(|| panic!("{place} is nowhere"));
        match (parent, value) {
            (Value::Array(all), Value::Null) => drop(all.remove(key.parse().unwrap())),
            (Value::Object(all), Value::Null) => drop(all.remove(key).unwrap()),
            (Value::Object(all), value) => drop(all.insert(key.to_owned(), value.clone())),
            (parent, value) => parent[key.parse::<usize>().unwrap()] = value.clone(),
        }
        assert_ne!(broken(&arrived(path, &changed)), Vec::<String>::new(), "{place} as {value}");
    }
}

#[test]
fn of_chat_completions() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let tool = json!({"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}});
    let body = json!({"model": "m", "stream": true, "tools": [tool], "messages": [
        {"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": ""}, {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "more"}]}]});
    let changes = [
        ("/model", json!("")),
        ("/tools", json!([])),
        ("/tools/0/function/name", json!("with space")),
        ("/messages/0/content", json!(" ")),
        ("/messages/0/role", json!("critic")),
        ("/messages/1/content", Value::Null),
        ("/messages/2/tool_calls/0/id", json!("x".repeat(41))),
        ("/messages/2/tool_calls/0/function/arguments", json!("[")),
        ("/messages/2/tool_calls", Value::Null),
        ("/messages/3", Value::Null),
        ("/messages/3/tool_call_id", json!("b")),
        ("/messages/4/content", json!("")),
        ("/messages/4", json!({"role": "system", "content": "late"})),
        ("/messages/5", Value::Null),
        ("/messages/5/content/0/text", json!("")),
    ];
    check("/v1/chat/completions", &body, &changes);
}

#[test]
fn of_anthropic() {
    let tool = json!({"name": "read", "input_schema": {"type": "object"}});
    let body = json!({"model": "m", "max_tokens": 4096, "system": [{"type": "text", "text": "be kind"}],
        "thinking": {"type": "enabled", "budget_tokens": 2048}, "tools": [tool], "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"},
            {"type": "text", "text": "more"}]}]});
    let changes = [
        ("/max_tokens", json!(0)),
        ("/thinking/budget_tokens", json!(5000)),
        ("/temperature", json!(0.5)),
        ("/system/0/text", json!("")),
        ("/tools", Value::Null),
        ("/messages/0", Value::Null),
        ("/messages/0/content", json!("")),
        ("/messages/1/content/0/signature", json!("")),
        ("/messages/1/content/1/id", json!("a b")),
        ("/messages/1/content/1", json!({"type": "text", "text": ""})),
        ("/messages/2/content/0", Value::Null),
        ("/messages/2/content/1", json!({"type": "tool_result", "tool_use_id": "a", "content": "x"})),
        ("/messages/2/content/0/tool_use_id", json!("b")),
        ("/messages/2", Value::Null),
    ];
    check("/v1/messages", &body, &changes);
}

#[test]
fn of_gemini() {
    let call = json!({"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "s"});
    let response = json!({"functionResponse": {"name": "read", "response": {"output": "x"}}});
    let body = json!({"systemInstruction": {"parts": [{"text": "be kind"}]}, "contents": [
        {"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]}]});
    let changes = [
        ("/systemInstruction/parts", json!([])),
        ("/contents/0/parts/0/text", json!("")),
        ("/contents/0", Value::Null),
        ("/contents/1/parts", json!([])),
        ("/contents/1/parts/0/thoughtSignature", json!("")),
        ("/contents/1/parts/0/functionCall/args", json!("{}")),
        ("/contents/2/parts/0/functionResponse/name", json!("write")),
        ("/contents/2/parts/0/thoughtSignature", json!("s")),
        ("/contents/2", Value::Null),
    ];
    check("/v1/models/m:streamGenerateContent", &body, &changes);
}

#[test]
fn of_openai_responses() {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    let call =
        json!({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": "{}"});
    let body = json!({"model": "m", "store": false, "instructions": "be kind", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, thought, call,
        {"type": "function_call_output", "call_id": "a", "output": ""}]});
    let changes = [
        ("/instructions", json!(" ")),
        ("/input/0/content/0/text", json!("")),
        ("/input/0/content/0/type", json!("output_text")),
        ("/input/1/encrypted_content", json!("")),
        ("/input/1/id", json!("fc_1")),
        ("/input/2", Value::Null),
        ("/input/2/id", json!("call_1")),
        ("/input/2/call_id", json!("x".repeat(65))),
        ("/input/2/arguments", json!("")),
        ("/input/3/call_id", json!("b")),
        ("/input/3", json!({"role": "user", "content": "more"})),
        ("/input/3", Value::Null),
    ];
    check("/v1/responses", &body, &changes);
}
