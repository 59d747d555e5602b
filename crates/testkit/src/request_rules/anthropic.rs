//! Anthropic's messages.

use std::collections::HashSet;

use serde_json::Value;

use super::{BrokenRules, check_tools, is_name, list, says, word};

/// How many places of a request may be marked for the cache.
const MARKS: usize = 4;

pub(super) fn check(body: &Value, faults: &mut BrokenRules) {
    faults.rule(says(body, "model"), || "no model".to_owned());
    let most = body["max_tokens"].as_u64().unwrap_or_default();
    faults.rule(most > 0, || "no limit of the output".to_owned());
    let thinking = body.get("thinking").unwrap_or(&Value::Null);
    let thinks = word(thinking, "type") == "enabled";
    if thinks {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default();
        faults.rule((1024..most).contains(&budget), || format!("{budget} is no budget for thoughts"));
        faults.rule(body.get("temperature").is_none(), || "a temperature for one who thinks".to_owned());
    }
    let system = match &body["system"] {
        Value::Null => true,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(blocks) => blocks.iter().all(|block| block["type"] == "text" && says(block, "text")),
        _ => false,
    };
    faults.rule(system, || format!("no instructions: {}", body["system"]));
    let own = list(body, "tools").iter().filter(|tool| tool.get("input_schema").is_some());
    check_tools(own.map(|tool| (tool, "input_schema")), 128, faults);
    let has_tools = !list(body, "tools").is_empty();
    faults.rule(has_tools || body.get("tool_choice").is_none(), || "a choice between no tools".to_owned());
    faults.rule(marks(body) <= MARKS, || format!("{} places are marked", marks(body)));
    let messages = list(body, "messages");
    let mut ids = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let fault = |what: &str| format!("messages.{index}: {what}: {message}");
        let side = if index % 2 == 0 { "user" } else { "assistant" };
        faults.rule(message["role"] == side, || fault("not the turn of this side"));
        let content = list(message, "content");
        let is_text = message["content"].as_str().is_some_and(|text| !text.trim().is_empty());
        faults.rule(is_text || !content.is_empty(), || fault("says nothing"));
        for block in content {
            faults.rule(is_block(block, side), || fault("a block that is not taken here"));
        }
        let calls: Vec<&str> = named(content, "tool_use", "id");
        faults.rule(calls.is_empty() || has_tools, || fault("a call where no tools are offered"));
        for id in &calls {
            faults.rule(is_name(id, usize::MAX), || fault("no id of a call"));
            faults.rule(ids.insert(*id), || fault("an id that was used before"));
        }
        let before = index.checked_sub(1).and_then(|before| messages.get(before));
        let mut asked =
            before.map(|before| named(list(before, "content"), "tool_use", "id")).unwrap_or_default();
        let mut given = named(content, "tool_result", "tool_use_id");
        let first = content.iter().take_while(|block| block["type"] == "tool_result").count();
        faults.rule(first == given.len(), || fault("results that do not come first"));
        asked.sort_unstable();
        given.sort_unstable();
        if side == "user" {
            faults.rule(asked == given, || fault("not one result for each call before"));
        }
        check_hosted(content, index + 1 == messages.len(), &fault, faults);
    }
    let last = messages.last().map(|last| word(last, "role"));
    faults.rule(last == Some("user"), || format!("the last word has {last:?}"));
}

/// The values of a field of all blocks of a type.
fn named<'a>(content: &'a [Value], kind: &str, field: &str) -> Vec<&'a str> {
    content.iter().filter(|block| block["type"] == kind).map(|block| word(block, field)).collect()
}

/// The provider's own tools: results have calls, and calls have results but where the answer goes on.
fn check_hosted(content: &[Value], is_last: bool, fault: &dyn Fn(&str) -> String, faults: &mut BrokenRules) {
    let calls = named(content, "server_tool_use", "id");
    let results: Vec<&str> = content
        .iter()
        .filter(|block| block["type"] != "tool_result" && word(block, "type").ends_with("_tool_result"))
        .map(|block| word(block, "tool_use_id"))
        .collect();
    faults
        .rule(results.iter().all(|id| calls.contains(id)), || fault("a result of a call that is not there"));
    faults.rule(is_last || calls.iter().all(|id| results.contains(id)), || {
        fault("an own call without a result")
    });
}

fn is_block(block: &Value, side: &str) -> bool {
    let marked = block.get("cache_control").is_some();
    let model = side == "assistant";
    match word(block, "type") {
        "text" => says(block, "text"),
        "thinking" => model && !marked && says(block, "signature") && block["thinking"].is_string(),
        "redacted_thinking" => model && !marked && says(block, "data"),
        "tool_use" => model && is_name(word(block, "name"), 128) && block["input"].is_object(),
        "server_tool_use" => model && block["input"].is_object(),
        "tool_result" => {
            let content = match &block["content"] {
                Value::Null => !marked,
                Value::String(text) => !text.trim().is_empty(),
                Value::Array(blocks) => {
                    !blocks.is_empty() && blocks.iter().all(|block| is_block(block, "user"))
                }
                _ => false,
            };
            !model && content
        }
        "image" | "document" => !model && block["source"].is_object(),
        kind => model && kind.ends_with("_tool_result"),
    }
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key("cache_control")) + fields.values().map(marks).sum::<usize>()
        }
        Value::Array(all) => all.iter().map(marks).sum(),
        _ => 0,
    }
}
