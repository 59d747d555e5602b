//! From the path to what a provider is given.
//!
//! Each message names the model that said it: `llm` leaves out what only another model understands, and repairs what a
//! crash or an edit left open.

use everturn_llm::catalogue::{Modalities, Modality};
use everturn_llm::{AnswerOrigin, Block, Content, Message};
use everturn_model::entry::{Assistant, Body, Compaction, Shell};
use everturn_model::part::PartKind;
use everturn_model::path::{self, ResultsByCall};
use everturn_model::tool::{HostedResult, Outcome, ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{FaultKind, Map, Part};
use serde_json::Value;

use crate::compaction::question;
use crate::data_url;
use crate::shell::EXECUTED;

/// What stands for an output that was cleared from the model's view.
const CLEARED: &str = "[Old tool result content cleared]";

/// What a model takes in; nothing when nobody described it.
pub(crate) type AcceptedContent = Option<Modalities>;

/// The messages of a path, for a model that takes these kinds of content.
pub(crate) fn messages(path: &[&Node], accepted: AcceptedContent) -> Vec<Message> {
    let (cut, indices) = path::visible(path);
    let results = path::results(path);
    let mut messages = Vec::new();
    if let Some(Body::Compaction(Compaction { summary: Some(summary), recent, carried, .. })) =
        cut.and_then(|cut| path.get(cut)).map(|node| &node.entry.body)
    {
        messages.extend(question::told(summary, recent.as_deref(), carried.as_deref()));
    }
    // What the model was told has changed is in the baseline of the next epoch. Where a compaction has ended an epoch and
    // no other could begin yet, it still counts.
    let epoch = path.iter().rposition(|node| matches!(node.entry.body, Body::Epoch { .. })).unwrap_or(0);
    let is_update =
        |node: &Node| matches!(node.entry.body, Body::System { snapshot: Some(_), .. }) && !node.entry.hidden;
    let is_past = |index: usize, node: &Node| index < epoch && is_update(node);
    let kept = indices.first().copied().or(cut).unwrap_or(0);
    for node in path.iter().take(kept).skip(epoch).filter(|node| is_update(node)) {
        lower(node, &results, accepted, &mut messages);
    }
    for (index, node) in indices.into_iter().filter_map(|index| Some((index, path.get(index)?))) {
        if !node.entry.hidden && !is_past(index, node) {
            lower(node, &results, accepted, &mut messages);
        }
    }
    messages
}

fn user_text(text: String) -> Message {
    Message::User(vec![Content::Text(text)])
}

fn lower(node: &Node, results: &ResultsByCall<'_>, accepted: AcceptedContent, out: &mut Vec<Message>) {
    match &node.entry.body {
        Body::User(_) => {
            let content: Vec<Content> =
                shown(node).filter_map(|part| content(&part.kind, accepted)).collect();
            if !content.is_empty() {
                out.push(Message::User(content));
            }
        }
        Body::Assistant(assistant) => lower_assistant(node, assistant, results, accepted, out),
        Body::System { text, .. } => out.push(Message::System(text.clone())),
        Body::Synthetic { text, .. } => {
            let parts = shown(node).filter_map(|part| content(&part.kind, accepted));
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
    node.parts.iter().filter(|part| is_shown(part))
}

fn is_shown(part: &Part) -> bool {
    !part.hidden && !part.second
}

fn content(kind: &PartKind, accepted: AcceptedContent) -> Option<Content> {
    match kind {
        PartKind::Text { text, ignored, .. } if *ignored != Some(true) && !text.is_empty() => {
            Some(Content::Text(text.clone()))
        }
        PartKind::File { mime, filename, url, .. } if data_url::is_one(url) => {
            if mime.starts_with("text/") {
                return Some(Content::Text(data_url::words(filename.as_deref(), url)));
            }
            // A model that gets what it does not take refuses the whole conversation, from now on.
            if let (Some(accepted), Some(kind)) = (accepted, modality(mime))
                && !accepted.contains(kind)
            {
                let name = filename.as_deref().unwrap_or("an attachment");
                return Some(Content::Text(format!(
                    "[{name} ({mime}) is not shown: this model takes no {}.]",
                    kind.as_str()
                )));
            }
            Some(Content::Media { mime: mime.clone(), url: url.clone(), filename: filename.clone() })
        }
        // What came of it follows.
        PartKind::Subtask { .. } => Some(Content::Text(EXECUTED.to_owned())),
        PartKind::Agent { name, .. } => Some(Content::Text(format!(
            "The person wants the agent `{name}` for this: call the tool `task` with `subagent_type` \"{name}\", and write \
             its prompt from the message above and from what it has to know of this conversation."
        ))),
        _ => None,
    }
}

/// The kind of content that a media type is, where models differ in whether they take it.
fn modality(mime: &str) -> Option<Modality> {
    match mime.split_once('/')? {
        ("image", _) => Some(Modality::Image),
        ("audio", _) => Some(Modality::Audio),
        ("video", _) => Some(Modality::Video),
        ("application", "pdf") => Some(Modality::Pdf),
        _ => None,
    }
}

/// What of an answer is given to the model again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerReplay {
    /// All of it, with what only its model understands.
    Whole,
    /// Its words and its calls: somebody stopped it, or it broke off, and what it had said by then was read.
    Words,
    /// Its calls that ran: what they did has happened, but the answer itself is none.
    Effects,
}

impl AnswerReplay {
    fn of(node: &Node, assistant: &Assistant) -> Self {
        let Some(fault) = &assistant.error else { return Self::Whole };
        let said = |part: &Part| match &part.kind {
            PartKind::Text { text, ignored, .. } => *ignored != Some(true) && !text.is_empty(),
            PartKind::Tool { .. } => true,
            _ => false,
        };
        match fault.kind {
            // Its end is missing and nothing else.
            FaultKind::OutputLength => Self::Words,
            FaultKind::Aborted | FaultKind::CutOff | FaultKind::CutStream | FaultKind::TimedOut { .. }
                if shown(node).any(said) =>
            {
                Self::Words
            }
            _ => Self::Effects,
        }
    }

    /// Whether a part of the answer goes to the model again.
    fn takes(self, kind: &PartKind) -> bool {
        match self {
            Self::Whole => true,
            // The provider takes back what it did itself only as a whole.
            Self::Words => !kind.is_hosted(),
            Self::Effects => {
                let ran = |state: &ToolState| !matches!(state, ToolState::Pending { .. });
                matches!(kind, PartKind::Tool { state, hosted: false, .. } if ran(state))
            }
        }
    }
}

fn lower_assistant(
    node: &Node,
    assistant: &Assistant,
    results: &ResultsByCall<'_>,
    accepted: AcceptedContent,
    out: &mut Vec<Message>,
) {
    let origin = assistant
        .model
        .as_ref()
        .map(|model| AnswerOrigin { provider: model.provider.clone(), model: model.model.clone() });
    let replay = AnswerReplay::of(node, assistant);
    // Metadata of a failed turn is not replayed: providers refuse signatures of answers they did not finish.
    let metadata = |map: &Option<Map>| match replay {
        AnswerReplay::Whole => map.clone().map(Value::Object),
        AnswerReplay::Words | AnswerReplay::Effects => None,
    };
    let mut blocks = Vec::new();
    let mut settled = Vec::new();
    // What the provider's own tools gave, and how many parts come before it.
    let mut hosted: Vec<(usize, Block)> = Vec::new();
    for (place, part) in node.parts.iter().enumerate() {
        blocks.extend(hosted.extract_if(.., |(after, _)| *after <= place).map(|(_, block)| block));
        if !is_shown(part) || !replay.takes(&part.kind) {
            continue;
        }
        match &part.kind {
            PartKind::Text { text, ignored, metadata: map, .. }
                if *ignored != Some(true) && !text.is_empty() =>
            {
                blocks.push(Block::Text { text: text.clone(), metadata: metadata(map) });
            }
            PartKind::Reasoning { text, metadata: map, .. } => {
                blocks.push(Block::Reasoning { text: text.clone(), metadata: metadata(map) });
            }
            PartKind::Tool { call, tool, state, hosted: true, metadata: map } => {
                let result = find_result(node, call, state, results);
                let came = result.and_then(|result| Some((result, result.hosted.as_ref()?)));
                // A result that is not from the provider says that the call failed.
                if result.is_none() || came.is_some() {
                    let (id, name, input) = (call.clone(), tool.clone(), state.input().clone());
                    blocks.push(Block::HostedCall { id, name, input, metadata: given(map.as_ref()) });
                }
                hosted.extend(came.map(|(result, came)| (came.place, hosted_result(result, came))));
            }
            PartKind::Tool { call, tool, state, metadata: map, .. } => {
                let input = if state.input().is_object() {
                    state.input().clone()
                } else {
                    Value::Object(Default::default())
                };
                let (id, name) = (call.clone(), tool.clone());
                blocks.push(Block::ToolCall { id, name, input, metadata: metadata(map) });
                if let Some(result) = find_result(node, call, state, results) {
                    settled.push(Message::Tool {
                        call_id: call.clone(),
                        name: tool.clone(),
                        output: output(result, accepted),
                        is_error: result.outcome != Outcome::Completed,
                    });
                }
            }
            _ => {}
        }
    }
    blocks.extend(hosted.into_iter().map(|(_, block)| block));
    if !blocks.is_empty() {
        out.push(Message::Assistant { blocks, origin });
        out.extend(settled);
    }
}

/// What the model reads of a result.
fn output(result: &ToolResult, accepted: AcceptedContent) -> Vec<Content> {
    if result.compacted.is_some() {
        return vec![Content::Text(CLEARED.to_owned())];
    }
    let attached = result.attachments.iter().flatten();
    let attached = attached.filter_map(|part| content(&part.kind, accepted));
    std::iter::once(Content::Text(result.output.clone())).chain(attached).collect()
}

/// The result of a call: on the path, or in its part.
fn find_result<'a>(
    node: &'a Node,
    call: &'a str,
    state: &'a ToolState,
    results: &ResultsByCall<'a>,
) -> Option<&'a ToolResult> {
    let inline = match state {
        ToolState::Completed { result, .. } | ToolState::Error { result, .. } => Some(result.as_ref()),
        ToolState::Pending { .. } | ToolState::Running { .. } => None,
    };
    results.get(&(&node.entry.id, call)).copied().or(inline)
}

/// What the provider gave with a call that it ran itself.
fn given(metadata: Option<&Map>) -> Option<Value> {
    metadata.filter(|metadata| !metadata.is_empty()).cloned().map(Value::Object)
}

/// What a tool gave that the provider ran itself.
fn hosted_result(result: &ToolResult, came: &HostedResult) -> Block {
    let text = || Value::String(result.output.clone());
    Block::HostedResult {
        id: result.call.clone(),
        name: result.tool.clone(),
        output: serde_json::from_str(&result.output).unwrap_or_else(|_| text()),
        metadata: came.metadata.clone().map(Value::Object),
    }
}
