//! OpenAI's responses: a list of items.

use std::collections::HashSet;

use serde_json::Value;

use super::{BrokenRules, check_tools, is_name, list, says, word};

/// The longest id of a call and of an item.
const ID: usize = 64;

pub(super) fn check(body: &Value, faults: &mut BrokenRules) {
    faults.rule(says(body, "model"), || "no model".to_owned());
    faults.rule(body.get("instructions").is_none() || says(body, "instructions"), || {
        "empty instructions".to_owned()
    });
    let functions = list(body, "tools").iter().filter(|tool| tool["type"] == "function");
    check_tools(functions.map(|tool| (tool, "parameters")), 64, faults);
    let items = list(body, "input");
    faults.rule(!items.is_empty(), || "no input".to_owned());
    let (mut ids, mut calls) = (HashSet::new(), HashSet::new());
    let mut owed: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let fault = |what: &str| format!("input.{index}: {what}: {item}");
        let kind = item["type"].as_str().unwrap_or("message");
        if let Some(id) = item.get("id") {
            let id = id.as_str().unwrap_or_default();
            let fits =
                (1..=ID).contains(&id.len()) && prefix(kind).is_none_or(|prefix| id.starts_with(prefix));
            faults.rule(fits, || fault("no id of such an item"));
            faults.rule(ids.insert(id), || fault("an id that stands twice"));
        }
        faults.rule(owed.is_empty() || !is_of_person(item, kind), || {
            fault(&format!("outputs are missing: {owed:?}"))
        });
        match kind {
            "message" => faults.rule(is_message(item), || fault("a message that is not taken")),
            "reasoning" => {
                let next = items.get(index + 1);
                let led = next.is_some_and(|next| {
                    let kind = next["type"].as_str().unwrap_or("message");
                    !is_of_person(next, kind) && !kind.ends_with("_output")
                });
                faults.rule(led, || fault("a thought that led to nothing"));
                faults.rule(item["summary"].is_array(), || fault("a thought without a summary"));
                let kept = body["store"] != false || says(item, "encrypted_content");
                faults.rule(kept, || fault("a thought that nobody has kept"));
            }
            "function_call" => {
                let id = word(item, "call_id");
                faults.rule((1..=ID).contains(&id.len()) && calls.insert(id), || fault("no id of a call"));
                faults.rule(is_name(word(item, "name"), 64), || fault("no name of a tool"));
                let input = serde_json::from_str::<Value>(word(item, "arguments"));
                faults.rule(input.is_ok_and(|input| input.is_object()), || {
                    fault("arguments that are no object")
                });
                owed.push(id);
            }
            "function_call_output" => {
                let at = owed.iter().position(|owed| *owed == word(item, "call_id"));
                faults.rule(at.is_some(), || fault("an output without a call"));
                at.map(|at| owed.remove(at));
                let output = match &item["output"] {
                    Value::String(_) => true,
                    Value::Array(parts) => {
                        !parts.is_empty() && parts.iter().all(|part| is_part(part, "user"))
                    }
                    _ => false,
                };
                faults.rule(output, || fault("an output that says nothing"));
            }
            kind => faults.rule(kind.ends_with("_call"), || fault("an item of no type")),
        }
    }
    faults.rule(owed.is_empty(), || format!("outputs are missing at the end: {owed:?}"));
    let by_model = items.last().is_some_and(|last| {
        let kind = last["type"].as_str().unwrap_or("message");
        !is_of_person(last, kind) && !kind.ends_with("_output")
    });
    faults.rule(!by_model, || "the model has the last word".to_owned());
}

/// How the ids of an item begin.
fn prefix(kind: &str) -> Option<&'static str> {
    match kind {
        "message" => Some("msg_"),
        "reasoning" => Some("rs_"),
        "function_call" => Some("fc_"),
        _ => None,
    }
}

fn is_of_person(item: &Value, kind: &str) -> bool {
    kind == "message" && item["role"] != "assistant"
}

fn is_message(item: &Value) -> bool {
    let role = word(item, "role");
    matches!(role, "system" | "developer" | "user" | "assistant")
        && match &item["content"] {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(parts) => !parts.is_empty() && parts.iter().all(|part| is_part(part, role)),
            _ => false,
        }
}

fn is_part(part: &Value, role: &str) -> bool {
    match (word(part, "type"), role) {
        ("output_text", "assistant") => says(part, "text"),
        ("refusal", "assistant") => says(part, "refusal"),
        (_, "assistant") => false,
        ("input_text", _) => says(part, "text"),
        ("input_image", _) => says(part, "image_url") || says(part, "file_id"),
        ("input_file", _) => ["file_data", "file_url", "file_id"].iter().any(|key| says(part, key)),
        _ => false,
    }
}
