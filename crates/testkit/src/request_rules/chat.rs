//! Chat Completions: the rules of OpenAI's own service, and those of the templates behind which others run: instructions
//! first, and sides that take turns.

use std::collections::HashSet;

use serde_json::Value;

use super::{BrokenRules, check_tools, list, says, word};

/// The longest id of a call.
const ID: usize = 40;

pub(super) fn check(body: &Value, faults: &mut BrokenRules) {
    faults.rule(says(body, "model"), || "no model".to_owned());
    let streams = body["stream"] == true;
    faults.rule(streams || body.get("stream_options").is_none(), || {
        "options of a stream without one".to_owned()
    });
    faults.rule(
        body.get("tools").is_none_or(|tools| tools.as_array().is_some_and(|all| !all.is_empty())),
        || "an empty list of tools".to_owned(),
    );
    faults.rule(list(body, "tools").iter().all(|tool| tool["type"] == "function"), || {
        "a tool of no type".to_owned()
    });
    check_tools(list(body, "tools").iter().map(|tool| (&tool["function"], "parameters")), 64, faults);
    faults.rule(body.get("tools").is_some() || body.get("tool_choice").is_none(), || {
        "a choice between no tools".to_owned()
    });
    let messages = list(body, "messages");
    let mut ids = HashSet::new();
    let mut owed: Vec<&str> = Vec::new();
    let mut last = "";
    for (index, message) in messages.iter().enumerate() {
        let role = word(message, "role");
        faults.rule(owed.is_empty() || role == "tool", || {
            format!("messages.{index}: results are missing: {owed:?}")
        });
        if role != "tool" {
            owed.clear();
        }
        match role {
            "system" | "developer" => {
                faults.rule(index == 0, || format!("messages.{index}: an instruction in the middle"));
                faults.rule(has_content(message), || format!("messages.{index}: an empty instruction"));
            }
            "user" => {
                faults.rule(last != "user", || format!("messages.{index}: the person speaks twice"));
                faults.rule(has_content(message), || format!("messages.{index}: the person says nothing"));
            }
            "assistant" => {
                faults.rule(last != "assistant", || format!("messages.{index}: the model speaks twice"));
                let calls = list(message, "tool_calls");
                faults.rule(message.get("tool_calls").is_none() || !calls.is_empty(), || {
                    format!("messages.{index}: an empty list of calls")
                });
                let silent = message["content"].is_null() && !calls.is_empty();
                faults.rule(silent || has_content(message), || format!("messages.{index}: an empty answer"));
                for call in calls {
                    check_call(call, index, faults);
                    let id = word(call, "id");
                    faults.rule(ids.insert(id), || format!("messages.{index}: the id {id} is used twice"));
                    owed.push(id);
                }
            }
            "tool" => {
                let id = word(message, "tool_call_id");
                let at = owed.iter().position(|owed| *owed == id);
                faults.rule(at.is_some(), || format!("messages.{index}: a result without a call: {id}"));
                at.map(|at| owed.remove(at));
                let text = match &message["content"] {
                    Value::String(_) => true,
                    Value::Array(parts) => {
                        parts.iter().all(|part| part["type"] == "text" && says(part, "text"))
                    }
                    _ => false,
                };
                faults.rule(text, || format!("messages.{index}: a result that is no text"));
            }
            other => faults.rule(false, || format!("messages.{index}: nobody is called {other:?}")),
        }
        last = role;
    }
    faults.rule(owed.is_empty(), || format!("results are missing at the end: {owed:?}"));
    faults.rule(matches!(last, "user" | "tool"), || format!("the last word has {last:?}"));
}

fn check_call(call: &Value, index: usize, faults: &mut BrokenRules) {
    let (id, function) = (word(call, "id"), &call["function"]);
    faults.rule((1..=ID).contains(&id.len()), || format!("messages.{index}: {id:?} is no id"));
    faults.rule(call["type"] == "function", || format!("messages.{index}: a call of no type"));
    faults.rule(super::is_name(word(function, "name"), 64), || {
        format!("messages.{index}: {} is no name for a tool", function["name"])
    });
    let arguments = serde_json::from_str::<Value>(word(function, "arguments"));
    faults.rule(arguments.is_ok_and(|input| input.is_object()), || {
        format!("messages.{index}: arguments that are no object: {}", function["arguments"])
    });
}

fn has_content(message: &Value) -> bool {
    match &message["content"] {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => {
            !parts.is_empty()
                && parts.iter().all(|part| match word(part, "type") {
                    "text" => says(part, "text"),
                    "image_url" => says(&part["image_url"], "url"),
                    "input_audio" => says(&part["input_audio"], "data"),
                    "file" => part["file"].is_object(),
                    "refusal" => says(part, "refusal"),
                    _ => false,
                })
        }
        _ => false,
    }
}
