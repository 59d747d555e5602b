//! Calls and their ends.
//!
//! V2 tells a result as structured data and content for the model; here that is metadata and output, and the V2
//! content rides along only where it is more than the output.

use everturn_model::part::PartKind;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{Map, Millis, Part};
use serde_json::Value;

use super::{V2, unknown};
use crate::opencode::shape::{object, put, put_some, text};

/// The content of a tool's progress, besides its structured data.
const CONTENT: &str = "$content";
/// What a call without a result shows once its turn is closed.
const INTERRUPTED: &str = "The call was interrupted before it ended";

/// What V2 says of the provider of a call: whether that runs it itself, and its metadata.
pub(super) fn read_provider(provider: Option<&Value>) -> (bool, Option<Map>) {
    let Some(provider) = provider.and_then(Value::as_object) else { return (false, None) };
    let executed = provider.get("executed") == Some(&Value::Bool(true));
    let metadata = provider.get("metadata").and_then(Value::as_object).cloned();
    (executed, metadata.filter(|metadata| !executed || !metadata.is_empty()))
}

/// V2's word on the provider of a call.
pub(super) fn provider(executed: bool, metadata: Option<&Map>) -> Map {
    let mut map = object([("executed", executed.into())]);
    put_some(&mut map, "metadata", metadata.filter(|rest| !executed || !rest.is_empty()).cloned());
    map
}

/// A result from the end of a call.
pub(super) fn read_result(
    call: &str,
    tool: &str,
    data: &Map,
    failed: bool,
    start: Option<Millis>,
    end: Millis,
) -> ToolResult {
    let outcome = if failed { Outcome::Error } else { Outcome::Completed };
    let mut result = ToolResult::new(call, tool, outcome, "");
    (result.start, result.end) = (start, Some(end));
    let mut kept = Map::new();
    if failed {
        let error = data.get("error");
        let message = error.and_then(|error| error.get("message")).and_then(Value::as_str);
        result.output = message.unwrap_or_default().to_owned();
        put_some(&mut kept, "error", error.filter(|error| **error != failure(&result)).cloned());
    } else {
        result.metadata = data.get("structured").and_then(Value::as_object).cloned();
        result.output = output(data);
        put_some(
            &mut kept,
            "content",
            data.get("content").filter(|list| **list != content(&result)).cloned(),
        );
        put_some(&mut kept, "outputPaths", data.get("outputPaths").cloned());
    }
    put_some(&mut kept, "result", data.get("result").cloned());
    let plain = provider(false, None);
    let own = data.get("provider").filter(|own| own.as_object() != Some(&plain));
    put_some(&mut kept, "provider", own.cloned());
    result.extra.set(V2, kept);
    result
}

fn output(data: &Map) -> String {
    let list = data.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = list.filter_map(|item| item.get("text")?.as_str()).collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    let told = data.get("structured").and_then(Value::as_object).and_then(|told| text(told, "content"));
    told.unwrap_or_default().to_owned()
}

fn content(result: &ToolResult) -> Value {
    if let Some(kept) = result.extra.field(V2, "content") {
        return kept.clone();
    }
    let text = object([("type", "text".into()), ("text", result.output.as_str().into())]);
    Value::Array(vec![text.into()])
}

fn failure(result: &ToolResult) -> Value {
    result.extra.field(V2, "error").cloned().unwrap_or_else(|| unknown("unknown", &result.output))
}

fn structured(result: &ToolResult) -> Map {
    result.metadata.clone().unwrap_or_default()
}

/// The end of a call as an event tells it: whether it failed, and the fields.
pub(super) fn settled(result: &ToolResult) -> (bool, Map) {
    let kept = |key: &str| result.extra.field(V2, key).cloned();
    let mut map = Map::new();
    let failed = result.outcome != Outcome::Completed;
    if failed {
        put(&mut map, "error", failure(result));
    } else {
        put(&mut map, "structured", structured(result));
        put(&mut map, "content", content(result));
        put_some(&mut map, "outputPaths", kept("outputPaths"));
    }
    put_some(&mut map, "result", kept("result"));
    put(&mut map, "provider", giver(result).unwrap_or_else(|| provider(false, None).into()));
    (failed, map)
}

/// V2's word on who gave a result, where it is not the tool of this machine.
fn giver(result: &ToolResult) -> Option<Value> {
    let kept = result.extra.field(V2, "provider").cloned();
    kept.or_else(|| {
        let hosted = result.hosted.as_ref()?;
        let mut map = object([("executed", true.into())]);
        put_some(&mut map, "metadata", hosted.metadata.clone());
        Some(map.into())
    })
}

/// What a running tool shows.
pub(super) fn read_progress(data: &Map) -> Map {
    let mut map = data.get("structured").and_then(Value::as_object).cloned().unwrap_or_default();
    let content = data.get("content").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    put_some(&mut map, CONTENT, content.cloned());
    map
}

/// What a running tool shows, as structured data and content.
pub(super) fn progress(metadata: Option<&Map>) -> [(&'static str, Value); 2] {
    let mut structured = metadata.cloned().unwrap_or_default();
    let content = structured.shift_remove(CONTENT).unwrap_or_else(|| Value::Array(Vec::new()));
    [("structured", structured.into()), ("content", content)]
}

/// A call as part of an assistant message.
pub(super) fn content_part(
    part: &Part,
    result: Option<&ToolResult>,
    made: Millis,
    closed: Option<Millis>,
) -> Option<Map> {
    let PartKind::Tool { call, tool, state, hosted, metadata } = &part.kind else { return None };
    let inline = match state {
        ToolState::Completed { result, .. } | ToolState::Error { result, .. } => Some(result.as_ref()),
        _ => None,
    };
    let result = result.or(inline);
    let ran = match state {
        ToolState::Running { start, .. } => Some(*start),
        _ => result.and_then(|result| result.start),
    };
    let mut map =
        object([("type", "tool".into()), ("id", call.as_str().into()), ("name", tool.as_str().into())]);
    if ran.is_some() {
        let mut told = provider(*hosted, metadata.as_ref());
        let own = result.and_then(giver);
        put_some(&mut told, "resultMetadata", own.and_then(|own| own.get("metadata").cloned()));
        put(&mut map, "provider", told);
    }
    put(&mut map, "state", own_state(state, result, closed));
    let created = part.extra.field(V2, "created").and_then(Value::as_i64).or(ran).unwrap_or(made);
    let mut time = object([("created", created.into())]);
    put_some(&mut time, "ran", ran);
    put_some(&mut time, "completed", result.map(|result| result.end.unwrap_or(made)).or(closed));
    put(&mut map, "time", time);
    Some(map)
}

fn own_state(state: &ToolState, result: Option<&ToolResult>, closed: Option<Millis>) -> Map {
    let shown = match state {
        ToolState::Running { metadata, .. } => metadata.as_ref(),
        _ => None,
    };
    let input = || match state.input() {
        Value::Null => Map::new().into(),
        input => input.clone(),
    };
    match (result, state) {
        (Some(result), _) if result.outcome == Outcome::Completed => {
            let kept = |key: &str| result.extra.field(V2, key).cloned();
            let mut map =
                object([("status", "completed".into()), ("input", input()), ("content", content(result))]);
            put_some(&mut map, "outputPaths", kept("outputPaths"));
            put(&mut map, "structured", structured(result));
            put_some(&mut map, "result", kept("result"));
            map
        }
        (None, ToolState::Pending { raw, .. }) if closed.is_none() => {
            object([("status", "pending".into()), ("input", raw.as_str().into())])
        }
        (None, ToolState::Running { .. }) if closed.is_none() => {
            let mut map = object([("status", "running".into()), ("input", input())]);
            map.extend(progress(shown).map(|(key, value)| (key.to_owned(), value)));
            map
        }
        (result, _) => {
            let mut map = object([("status", "error".into()), ("input", input())]);
            let [structured, content] = progress(shown);
            map.extend([content, structured].map(|(key, value)| (key.to_owned(), value)));
            let error = result.map_or_else(|| unknown("unknown", INTERRUPTED), failure);
            put(&mut map, "error", error);
            put_some(&mut map, "result", result.and_then(|result| result.extra.field(V2, "result")).cloned());
            map
        }
    }
}

#[cfg(test)]
mod tests {
    use everturn_model::tool::HostedResult;

    use super::*;

    #[test]
    fn a_result_of_the_providers_own_tool_says_so() {
        let metadata = object([("anthropic", object([("block", 1.into())]).into())]);
        let hosted = Some(Box::new(HostedResult { place: 1, metadata: Some(metadata.clone()) }));
        let result = ToolResult { hosted, ..ToolResult::new("c", "web_search", Outcome::Completed, "found") };
        let (failed, told) = settled(&result);
        assert!(!failed);
        let expected = object([("executed", true.into()), ("metadata", metadata.into())]);
        assert_eq!(told.get("provider"), Some(&expected.into()));
    }
}
