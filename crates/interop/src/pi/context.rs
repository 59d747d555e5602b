//! The context that pi builds from a path.

use everturn_model::path;
use everturn_model::tree::Node;
use everturn_model::{Body, Map};
use serde_json::{Value, json};

use super::javascript;
use super::view::PiView;

/// Messages, thinking level and model at the end of a path.
pub(super) fn build(view: &PiView<'_>, path: &[&Node]) -> Value {
    let mut thinking = Some(Value::from("off"));
    let mut model = Value::Null;
    for node in path {
        // Only these can change a setting; the others need not be written for it.
        match node.entry.body {
            Body::ThinkingSwitch { .. }
            | Body::ModelSwitch { .. }
            | Body::Assistant(_)
            | Body::Foreign { .. } => {}
            _ => continue,
        }
        let Some(entry) = view.encode(node) else { continue };
        match entry.get("type").and_then(Value::as_str) {
            Some("thinking_level_change") => thinking = entry.get("thinkingLevel").cloned(),
            Some("model_change") => {
                model = pick(&entry, &[("provider", "provider"), ("modelId", "modelId")]).into();
            }
            Some("message") => {
                let message = entry.get("message").unwrap_or(&Value::Null);
                if message.get("role").and_then(Value::as_str) == Some("assistant") {
                    model = pick(message, &[("provider", "provider"), ("model", "modelId")]).into();
                }
            }
            _ => {}
        }
    }

    let mut messages = Vec::new();
    let (cut, rest) = path::visible(path);
    if let Some(entry) = cut.and_then(|cut| path.get(cut)).and_then(|node| view.encode(node)) {
        messages.push(compaction(&entry).into());
    }
    let rest = rest.into_iter().filter_map(|at| path.get(at));
    messages.extend(rest.filter_map(|node| message(view.encode(node)?)));

    let mut context = Map::new();
    context.insert("messages".to_owned(), messages.into());
    if let Some(thinking) = thinking {
        context.insert("thinkingLevel".to_owned(), thinking);
    }
    context.insert("model".to_owned(), model);
    context.into()
}

/// The message that a compaction becomes.
pub(super) fn compaction(entry: &Value) -> Map {
    let mut message = Map::new();
    message.insert("role".to_owned(), "compactionSummary".into());
    message.extend(pick(entry, &[("summary", "summary"), ("tokensBefore", "tokensBefore")]));
    message.insert("timestamp".to_owned(), time(entry));
    message
}

/// The message that an entry becomes; none for entries that the model does not see.
pub(super) fn message(mut entry: Value) -> Option<Value> {
    let kind = entry.get("type")?.as_str()?.to_owned();
    let (role, fields): (&str, &[(&str, &str)]) = match kind.as_str() {
        "message" => return entry.get_mut("message").map(Value::take),
        "custom_message" => (
            "custom",
            &[
                ("customType", "customType"),
                ("content", "content"),
                ("display", "display"),
                ("details", "details"),
            ],
        ),
        "branch_summary" if entry.get("summary").is_some_and(is_truthy) => {
            ("branchSummary", &[("summary", "summary"), ("fromId", "fromId")])
        }
        _ => return None,
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), role.into());
    message.extend(pick(&entry, fields));
    message.insert("timestamp".to_owned(), time(&entry));
    Some(message.into())
}

/// The named fields under new names, where they are there.
pub(super) fn pick(value: &Value, names: &[(&str, &str)]) -> Map {
    names.iter().filter_map(|(from, to)| Some(((*to).to_owned(), value.get(from)?.clone()))).collect()
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// An entry's time in milliseconds; a date that cannot be read is null, as JavaScript prints it.
fn time(entry: &Value) -> Value {
    json!(entry.get("timestamp").and_then(Value::as_str).and_then(javascript::moment))
}
