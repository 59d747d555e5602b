//! The conversation as a list of messages.
//!
//! Many servers put it through a template that wants the person and the model to take turns, so neighbours of one side
//! are said as one. Results of tools take only text: what else tools showed follows in the person's name, after the
//! last result.

use serde_json::{Map, Value, json};

use super::decode::METADATA;
use super::server::{ServerDemands, ThoughtReplay, ThoughtsDemand};
use crate::attachment::{AttachedFile, AttachmentKind, AttachmentSource};
use crate::call_id::CallIds;
use crate::{Block, Content, Message, ModelRequest, history, protocol};

/// What a model is made to say where it must have spoken before the person does.
const BRIDGE: &str = "Understood.";

/// What a result says that is only shown.
const ATTACHED: &str = "The result is attached.";

/// What stands between two texts that were said apart.
const GAP: &str = "\n\n";

/// All messages of a request whose history has been repaired.
pub(super) fn lower(request: &ModelRequest, demands: &ServerDemands) -> Vec<Value> {
    let system = request.system.iter().filter(|part| !part.trim().is_empty());
    let system: Vec<&str> = system.map(String::as_str).collect();
    let head = (!system.is_empty()).then(|| json!({"role": "system", "content": system.join(GAP)}));
    let mut lowered: Vec<Value> = head.into_iter().collect();
    let mut ids = CallIds::new(demands.call_ids);
    let mut after_tool = false;
    for message in &turns(&request.messages) {
        if demands.bridge && after_tool && matches!(message, Message::User(_)) {
            lowered.push(json!({"role": "assistant", "content": BRIDGE}));
        }
        after_tool = matches!(message, Message::Tool { .. });
        lowered.extend(one(message, demands, &mut ids));
    }
    lowered
}

/// The conversation without instructions in the middle and without neighbours of one side.
fn turns(messages: &[Message]) -> Vec<Message> {
    let mut turns: Vec<Message> = Vec::with_capacity(messages.len());
    let mut shown: Vec<Content> = Vec::new();
    for mut message in history::wrap_system(messages) {
        match &mut message {
            Message::Tool { output, .. } => shown.extend(take_shown(output)),
            // An answer that was cut off in its first thought: an empty message is refused.
            Message::Assistant { blocks, .. } if !blocks.iter().any(speaks) => continue,
            _ => take_turn(&mut turns, Message::User(std::mem::take(&mut shown))),
        }
        take_turn(&mut turns, message);
    }
    take_turn(&mut turns, Message::User(shown));
    turns
}

/// Takes what cannot be said in words out of what a tool gave back.
fn take_shown(output: &mut Vec<Content>) -> Vec<Content> {
    let (mut words, mut shown) = (Vec::new(), Vec::new());
    for content in output.drain(..) {
        match text_of(&piece(&content)) {
            Some(text) => words.push(Content::Text(text.to_owned())),
            None => shown.push(content),
        }
    }
    if words.is_empty() && !shown.is_empty() {
        words.push(Content::Text(ATTACHED.to_owned()));
    }
    *output = words;
    shown
}

fn text_of(piece: &Value) -> Option<&str> {
    piece.get("text")?.as_str()
}

fn speaks(block: &Block) -> bool {
    matches!(block, Block::Text { .. } | Block::ToolCall { .. })
}

/// Adds a message to what the same side said just before, or as a turn of its own.
fn take_turn(turns: &mut Vec<Message>, message: Message) {
    match (turns.last_mut(), message) {
        (_, Message::User(contents)) if contents.is_empty() => {}
        (Some(Message::User(said)), Message::User(more)) => said.extend(more),
        (Some(Message::Assistant { blocks: said, .. }), Message::Assistant { blocks: more, .. }) => {
            let has_text = |blocks: &[Block]| blocks.iter().any(|block| matches!(block, Block::Text { .. }));
            if has_text(said) && has_text(&more) {
                said.push(Block::Text { text: GAP.to_owned(), metadata: None });
            }
            said.extend(more);
        }
        (_, message) => turns.push(message),
    }
}

fn one(message: &Message, demands: &ServerDemands, ids: &mut CallIds) -> Option<Value> {
    match message {
        Message::User(contents) => Some(json!({"role": "user", "content": user(contents)})),
        Message::Assistant { blocks, .. } => Some(assistant(blocks, demands, ids)),
        Message::Tool { call_id, output, .. } => {
            let id = ids.answer(call_id)?;
            Some(json!({"role": "tool", "tool_call_id": id, "content": Content::text_of(output)}))
        }
        // Not reached: most servers take a system message at the front only, so it was wrapped.
        Message::System(_) => None,
    }
}

/// Text stays a string: not every server takes a list.
fn user(contents: &[Content]) -> Value {
    let pieces: Vec<Value> = contents.iter().map(piece).collect();
    let texts: Option<Vec<&str>> = pieces.iter().map(text_of).collect();
    match texts {
        Some(texts) => json!(texts.join(GAP)),
        None => Value::Array(pieces),
    }
}

fn piece(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Media { mime, url, filename } => media(&AttachedFile::of(mime, url, filename.as_deref())),
    }
}

fn media(attachment: &AttachedFile<'_>) -> Value {
    let format = match attachment.mime.as_str() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    match (attachment.kind, &attachment.source, format) {
        (AttachmentKind::Image, AttachmentSource::Inline(data), _) => {
            json!({"type": "image_url", "image_url": {"url": attachment.data_url(data)}})
        }
        (AttachmentKind::Image, AttachmentSource::Remote(url), _) => {
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        (AttachmentKind::Audio, AttachmentSource::Inline(data), Some(format)) => {
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
        (AttachmentKind::Pdf, AttachmentSource::Inline(data), _) => {
            let file = json!({"filename": attachment.name(), "file_data": attachment.data_url(data)});
            json!({"type": "file", "file": file})
        }
        _ => json!({"type": "text", "text": attachment.in_words()}),
    }
}

fn assistant(blocks: &[Block], demands: &ServerDemands, ids: &mut CallIds) -> Value {
    let mut spoken = AnswerFields::default();
    for block in blocks {
        match block {
            Block::Text { text, .. } => spoken.say(text),
            Block::Reasoning { text, metadata } => spoken.think(text, metadata.as_ref(), demands.thoughts),
            Block::ToolCall { id, name, input, metadata } => {
                let arguments = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                let mut call = json!({"id": ids.call(id), "type": "function",
                    "function": {"name": name, "arguments": arguments}});
                let extra = protocol::own_field(metadata.as_ref(), METADATA, "extra_content");
                if let (Some(extra), Some(fields)) = (extra, call.as_object_mut()) {
                    fields.insert("extra_content".into(), extra.clone());
                }
                spoken.calls.push(call);
            }
            // The protocol has no word for tools that the provider runs.
            Block::HostedCall { .. } | Block::HostedResult { .. } => {}
        }
    }
    if let ThoughtReplay::Required(filler, among) = demands.thoughts
        && (among == ThoughtsDemand::Answers || !spoken.calls.is_empty())
    {
        spoken.fill(filler);
    }
    spoken.into_message()
}

/// One answer, sorted into the fields of a message.
#[derive(Debug, Default)]
struct AnswerFields {
    text: String,
    /// The thoughts that have a field of their own.
    thoughts: Map<String, Value>,
    /// The content as a list, where thoughts are pieces of it.
    pieces: Vec<Value>,
    calls: Vec<Value>,
}

impl AnswerFields {
    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        self.pieces.push(json!({"type": "text", "text": text}));
    }

    /// Puts a thought where it came from, and else where the server wants it.
    fn think(&mut self, text: &str, metadata: Option<&Value>, wanted: ThoughtReplay) {
        if wanted == ThoughtReplay::Never {
            return;
        }
        let own = protocol::own(metadata, METADATA);
        if let Some(Value::Array(details)) = own.and_then(|own| own.get("reasoning_details")) {
            let slot = self.thoughts.entry("reasoning_details").or_insert_with(|| json!([]));
            if let Value::Array(list) = slot {
                list.extend(details.iter().cloned());
            }
            return;
        }
        let seen = own.and_then(|own| own.get("field")?.as_str());
        let field = match (seen, wanted) {
            (Some(seen @ ("reasoning" | "reasoning_content")), _) => seen,
            (_, ThoughtReplay::Field(field)) => field,
            (_, ThoughtReplay::Required(..)) => "reasoning_content",
            // A thought without a mark came in the usual field. One with another protocol's mark came from elsewhere.
            (_, ThoughtReplay::AsSeen) if metadata.is_none() || own.is_some() => "reasoning_content",
            (_, ThoughtReplay::Pieces) => {
                let thinking = json!([{"type": "text", "text": text}]);
                self.pieces.push(json!({"type": "thinking", "thinking": thinking, "closed": true}));
                return;
            }
            (_, ThoughtReplay::AsSeen | ThoughtReplay::Never) => return,
        };
        let slot = self.thoughts.entry(field).or_insert_with(|| json!(""));
        if let Value::String(all) = slot {
            all.push_str(text);
        }
    }

    /// Gives an answer without thoughts something in their place.
    fn fill(&mut self, filler: &str) {
        let thinks = |thought: &Value| thought.as_str().is_none_or(|text| !text.is_empty());
        if !self.thoughts.values().any(thinks) {
            self.thoughts.insert("reasoning_content".into(), json!(filler));
        }
    }

    fn into_message(self) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), json!("assistant"));
        let content = match self.pieces.iter().any(|piece| piece.get("thinking").is_some()) {
            true => Value::Array(self.pieces),
            false if self.text.is_empty() && !self.calls.is_empty() => Value::Null,
            false => json!(self.text),
        };
        message.insert("content".into(), content);
        message.extend(self.thoughts);
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), Value::Array(self.calls));
        }
        Value::Object(message)
    }
}

#[cfg(test)]
mod tests;
