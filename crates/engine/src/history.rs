//! From the path to what a provider is given.
//!
//! Who said what is told with it: a provider leaves behind what only another model understands, and repairs what a
//! crash or an edit left open.

use std::collections::HashMap;

use base64::Engine as _;
use everturn_llm::{Block, Content, Message, Origin};
use everturn_model::entry::{Assistant, Body, Compaction, Shell};
use everturn_model::part::PartKind;
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Part, path};
use serde_json::Value;

type Results<'a> = HashMap<(&'a EntryId, &'a str), &'a ToolResult>;

/// The messages of a path.
pub(crate) fn messages(path: &[&Node]) -> Vec<Message> {
    let (cut, indices) = path::visible(path);
    let results = path::results(path);
    let mut messages = Vec::new();
    if let Some(Body::Compaction(Compaction { summary: Some(summary), recent, .. })) =
        cut.and_then(|cut| path.get(cut)).map(|node| &node.entry.body)
    {
        let mut text = format!("Summary of the conversation so far:\n\n{summary}");
        if let Some(recent) = recent {
            text.push_str(&format!("\n\nThe most recent exchanges, word for word:\n\n{recent}"));
        }
        messages.push(user_text(text));
    }
    for node in indices.into_iter().filter_map(|index| path.get(index)) {
        if !node.entry.hidden {
            lower(node, &results, &mut messages);
        }
    }
    messages
}

fn user_text(text: String) -> Message {
    Message::User(vec![Content::Text(text)])
}

fn lower(node: &Node, results: &Results<'_>, out: &mut Vec<Message>) {
    match &node.entry.body {
        Body::User(_) => {
            let content: Vec<Content> = shown(node).filter_map(|part| content(&part.kind)).collect();
            if !content.is_empty() {
                out.push(Message::User(content));
            }
        }
        Body::Assistant(assistant) => lower_assistant(node, assistant, results, out),
        Body::System { text, .. } => out.push(Message::System(text.clone())),
        Body::Synthetic { text, .. } => {
            let parts = shown(node).filter_map(|part| content(&part.kind));
            let content: Vec<Content> = text.iter().cloned().map(Content::Text).chain(parts).collect();
            if !content.is_empty() {
                out.push(Message::User(content));
            }
        }
        Body::Shell(Shell { command, output, exit, .. }) => {
            let output = output.as_deref().filter(|text| !text.is_empty()).unwrap_or("(no output)");
            let exit = exit.filter(|code| *code != 0).map(|code| format!("\nIt ended with status {code}."));
            let exit = exit.unwrap_or_default();
            out.push(user_text(format!("The person ran `{command}` and got:\n\n{output}{exit}")));
        }
        Body::BranchSummary { summary, .. } if !summary.is_empty() => {
            out.push(user_text(format!("Summary of another attempt that was left:\n\n{summary}")));
        }
        _ => {}
    }
}

fn shown(node: &Node) -> impl Iterator<Item = &Part> {
    node.parts.iter().filter(|part| !part.hidden && !part.second)
}

fn content(kind: &PartKind) -> Option<Content> {
    match kind {
        PartKind::Text { text, ignored, .. } if *ignored != Some(true) && !text.is_empty() => {
            Some(Content::Text(text.clone()))
        }
        PartKind::File { mime, filename, url, .. } if url.starts_with("data:") => {
            if mime.starts_with("text/") {
                let text = data_text(url)?;
                let name = filename.as_deref().unwrap_or("attachment");
                return Some(Content::Text(format!("Attached file {name}:\n{text}")));
            }
            Some(Content::Media { mime: mime.clone(), url: url.clone(), filename: filename.clone() })
        }
        _ => None,
    }
}

fn data_text(url: &str) -> Option<String> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    if !head.ends_with(";base64") {
        return Some(data.to_owned());
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn lower_assistant(node: &Node, assistant: &Assistant, results: &Results<'_>, out: &mut Vec<Message>) {
    let origin = assistant
        .model
        .as_ref()
        .map(|model| Origin { provider: model.provider.clone(), model: model.model.clone() });
    // Metadata of a failed turn is not replayed: providers refuse signatures of answers they did not finish.
    let replay = assistant.error.is_none();
    let metadata =
        |map: &Option<everturn_model::Map>| if replay { map.clone().map(Value::Object) } else { None };
    let mut blocks = Vec::new();
    let mut settled = Vec::new();
    for part in shown(node) {
        match &part.kind {
            PartKind::Text { text, ignored, metadata: map, .. }
                if *ignored != Some(true) && !text.is_empty() =>
            {
                blocks.push(Block::Text { text: text.clone(), metadata: metadata(map) });
            }
            PartKind::Reasoning { text, metadata: map, .. } => {
                blocks.push(Block::Reasoning { text: text.clone(), metadata: metadata(map) });
            }
            PartKind::Tool { call, tool, state, metadata: map } => {
                let input = if state.input().is_object() {
                    state.input().clone()
                } else {
                    Value::Object(Default::default())
                };
                let (id, name) = (call.clone(), tool.clone());
                blocks.push(Block::ToolCall { id, name, input, metadata: metadata(map) });
                let inline = match state {
                    everturn_model::tool::ToolState::Completed { result, .. }
                    | everturn_model::tool::ToolState::Error { result, .. } => Some(result.as_ref()),
                    _ => None,
                };
                if let Some(result) = results.get(&(&node.entry.id, call.as_str())).copied().or(inline) {
                    settled.push(Message::Tool {
                        call_id: call.clone(),
                        name: tool.clone(),
                        output: vec![Content::Text(result.output.clone())],
                        is_error: result.outcome != Outcome::Completed,
                    });
                }
            }
            _ => {}
        }
    }
    if !blocks.is_empty() {
        out.push(Message::Assistant { blocks, origin });
        out.extend(settled);
    }
}
