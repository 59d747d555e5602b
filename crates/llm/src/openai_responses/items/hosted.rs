//! Items of tools that the provider runs itself, and any other item that is not text, reasoning or a function call.
//!
//! There are many kinds and there will be more. One item is both the call and its result, so both are handed out when
//! it is complete, and the item is kept as it came.

use serde_json::{Map, Value, json};

use super::super::wire::text;
use super::ReplayIds;
use crate::StreamEvent;
use crate::protocol::Events;

/// Fields of an item that say how the tool fared.
const OUTCOME: &[&str] = &["status", "output", "outputs", "result", "results", "error", "tools"];

/// Fields that name the item.
const NAMES: &[&str] = &["id", "type", "call_id", "name"];

/// Hands out a complete item. `fallback` is its id if it has none.
pub(super) fn hand_out(item: &Value, tie: ReplayIds, fallback: String, out: &mut Events) {
    let id = tie.id.clone().or_else(|| text(item, "call_id").map(str::to_owned)).unwrap_or(fallback);
    let kind = text(item, "type").unwrap_or_default();
    let name = text(item, "name").unwrap_or_else(|| kind.strip_suffix("_call").unwrap_or(kind)).to_owned();
    let (mut input, mut output) = (Map::new(), Map::new());
    for (field, value) in item.as_object().into_iter().flatten() {
        if OUTCOME.contains(&field.as_str()) {
            output.insert(field.clone(), value.clone());
        } else if !NAMES.contains(&field.as_str()) {
            input.insert(field.clone(), value.clone());
        }
    }
    let failed = matches!(text(item, "status"), Some("failed" | "incomplete"));
    let is_error = failed || item.get("error").is_some_and(|error| !error.is_null());
    // The id stays in the item alone: it goes back as a whole or not at all.
    let tie = ReplayIds { id: None, ..tie };
    let more = Map::from_iter([("item".to_owned(), item.clone())]);
    let metadata = tie.metadata(more);
    out.push_back(StreamEvent::HostedCall {
        id: id.clone(),
        name: name.clone(),
        input: json!(input),
        metadata,
    });
    out.push_back(StreamEvent::HostedResult { id, name, output: json!(output), is_error, metadata: None });
}
