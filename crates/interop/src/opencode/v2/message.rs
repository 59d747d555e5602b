//! A path as V2 messages.

use everturn_model::entry::{Assistant, Body, Entry};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::path::{self, ResultsByCall};
use everturn_model::tree::Node;
use everturn_model::{Map, Millis, Part, SessionId};
use serde_json::Value;

use super::{error, prompt, tool};
use crate::opencode::shape::{self, ModelKey, object, put, put_some};

/// The messages of a path. Prompts that wait are not among them: see [`input`].
#[must_use]
pub fn messages(session: &SessionId, path: &[&Node]) -> Vec<Value> {
    let results = path::results(path);
    let nodes = path.iter().filter(|node| !node.entry.hidden);
    nodes.filter_map(|node| message(session, node, &results)).map(Value::Object).collect()
}

/// An Admitted Prompt, without the place in the log at which it was admitted.
#[must_use]
pub fn input(session: &SessionId, item: &InboxItem) -> Map {
    object([
        ("id", item.id.as_str().into()),
        ("sessionID", session.as_str().into()),
        ("prompt", prompt(&item.parts, &item.extra).into()),
        ("delivery", delivery(item.delivery).into()),
        ("timeCreated", item.time.into()),
    ])
}

pub(super) fn delivery(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Steer => "steer",
        Delivery::Queue => "queue",
    }
}

fn message(session: &SessionId, node: &Node, results: &ResultsByCall<'_>) -> Option<Map> {
    let entry = &node.entry;
    let plain = |kind: &str| head(entry, kind, entry.time, None);
    let map = match &entry.body {
        Body::User(_) => {
            let mut map = plain("user");
            map.extend(prompt(&node.parts, &entry.extra));
            map
        }
        Body::Assistant(assistant) => answer(node, assistant, results),
        Body::System { text, .. } => {
            let mut map = plain("system");
            put(&mut map, "text", text.as_str());
            map
        }
        Body::Synthetic { .. } | Body::BranchSummary { .. } => {
            let mut map = plain("synthetic");
            put(&mut map, "sessionID", session.as_str());
            put(&mut map, "text", synthetic(&entry.body, &node.parts));
            map
        }
        Body::Shell(shell) => {
            let mut map = head(entry, "shell", entry.time, shell.completed);
            put(&mut map, "callID", shell.call.as_deref().unwrap_or(entry.wire_id()));
            put(&mut map, "command", shell.command.as_str());
            put(&mut map, "output", shell.output.as_deref().unwrap_or_default());
            map
        }
        Body::Compaction(compaction) => {
            // It is a message once there is a summary, and then it is as old as that.
            let summary = compaction.summary.as_deref()?;
            let mut map = head(entry, "compaction", compaction.completed.unwrap_or(entry.time), None);
            put(&mut map, "reason", shape::trigger(compaction.reason.as_ref()));
            put(&mut map, "summary", summary);
            put(&mut map, "recent", compaction.recent.as_deref().unwrap_or_default());
            map
        }
        Body::AgentSwitch { agent } => {
            let mut map = plain("agent-switched");
            put(&mut map, "agent", agent.as_str());
            map
        }
        Body::ModelSwitch { model } => {
            let mut map = plain("model-switched");
            put(&mut map, "model", shape::model(model, ModelKey::Id));
            map
        }
        Body::ToolResult { .. }
        | Body::ThinkingSwitch { .. }
        | Body::Epoch { .. }
        | Body::Title { .. }
        | Body::Label { .. }
        | Body::Custom { .. }
        | Body::Foreign { .. } => return None,
    };
    Some(map)
}

fn head(entry: &Entry, kind: &str, created: Millis, completed: Option<Millis>) -> Map {
    let mut time = object([("created", created.into())]);
    put_some(&mut time, "completed", completed);
    object([("id", entry.wire_id().into()), ("time", time.into()), ("type", kind.into())])
}

/// The text of an entry that a program put in.
pub(super) fn synthetic(body: &Body, parts: &[Part]) -> String {
    match body {
        Body::Synthetic { text: Some(text), .. } => text.clone(),
        Body::BranchSummary { summary, .. } => summary.clone(),
        _ => {
            let texts = parts.iter().filter(|part| !part.hidden).filter_map(|part| match &part.kind {
                PartKind::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn answer(node: &Node, assistant: &Assistant, results: &ResultsByCall<'_>) -> Map {
    let entry = &node.entry;
    let mut map = head(entry, "assistant", entry.time, assistant.completed);
    put(&mut map, "agent", assistant.agent.as_deref().unwrap_or("build"));
    let model = assistant.model.as_ref().map(|model| shape::model(model, ModelKey::Id));
    put(
        &mut map,
        "model",
        model.unwrap_or_else(|| object([("id", "".into()), ("providerID", "".into())]).into()),
    );
    let parts = node.parts.iter().filter(|part| !part.hidden);
    let content = parts.filter_map(|part| content(node, part, assistant.completed, results));
    put(&mut map, "content", content.map(Value::Object).collect::<Vec<_>>());
    let mut snapshot = Map::new();
    put_some(&mut snapshot, "start", assistant.snapshot_start.as_deref());
    put_some(&mut snapshot, "end", assistant.snapshot_end.as_deref());
    put_some(&mut snapshot, "files", assistant.files.clone());
    if !snapshot.is_empty() {
        put(&mut map, "snapshot", snapshot);
    }
    match (&assistant.finish, &assistant.error) {
        (Some(finish), _) => {
            put(&mut map, "finish", shape::finish(finish));
            put(&mut map, "cost", shape::money(assistant.cost));
            put(&mut map, "tokens", tokens(&assistant.tokens));
        }
        (None, Some(_)) => put(&mut map, "finish", "error"),
        (None, None) => {}
    }
    put_some(&mut map, "error", assistant.error.as_ref().map(error));
    map
}

/// Tokens without the provider's total, which V2 does not tell.
pub(super) fn tokens(tokens: &everturn_model::Tokens) -> Value {
    shape::tokens(&everturn_model::Tokens { total: None, ..*tokens })
}

/// The id under which V2 knows a text or a thought.
pub(super) fn part_name(part: &Part) -> &str {
    part.wire.as_deref().unwrap_or(part.id.as_str())
}

fn content(node: &Node, part: &Part, closed: Option<Millis>, results: &ResultsByCall<'_>) -> Option<Map> {
    match &part.kind {
        PartKind::Text { text, .. } => Some(object([
            ("type", "text".into()),
            ("id", part_name(part).into()),
            ("text", text.as_str().into()),
        ])),
        PartKind::Reasoning { text, time, metadata } => {
            let mut map = object([
                ("type", "reasoning".into()),
                ("id", part_name(part).into()),
                ("text", text.as_str().into()),
            ]);
            put_some(&mut map, "providerMetadata", metadata.clone());
            let time = time.map(|span| {
                let mut time = object([("created", span.start.into())]);
                put_some(&mut time, "completed", span.end);
                time
            });
            put_some(&mut map, "time", time);
            Some(map)
        }
        PartKind::Tool { call, .. } => {
            let result = results.get(&(&node.entry.id, call.as_str())).copied();
            tool::content_part(part, result, node.entry.time, closed)
        }
        _ => None,
    }
}
