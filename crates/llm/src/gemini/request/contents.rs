//! A conversation as `contents`.
//!
//! The API wants turns of `user` and `model` that alternate and begin with the user, and after a turn with calls at
//! once one with as many responses. A repaired conversation has its results in place, so all that is left is to join
//! what belongs to one turn and to open a conversation that a model began.

use serde_json::{Map, Value, json};

use crate::attachment::{AttachedFile, AttachmentSource};
use crate::call_id::OpenCalls;
use crate::gemini::{METADATA, model};
use crate::{Block, Content, Message, ModelRequest, history, protocol};

/// What the user is made to say where the model would have the first word.
const OPENING: &str = "Let us begin.";

/// Stands in for the signature of a call that another model made. Models that check signatures take this word of
/// Google's own for exactly that case, and refuse the conversation without it.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The turns of a repaired request.
pub(super) fn lower(request: &ModelRequest) -> Vec<Value> {
    let mut turns = Turns::default();
    let mut calls = OpenGeminiCalls::default();
    let checks_signatures = model::is_third_generation(&request.model);
    // What tools showed: it follows when all responses of the turn are given.
    let mut shown: Vec<Value> = Vec::new();
    for message in &history::wrap_system(&request.messages) {
        if let Message::Tool { call_id, name, output, is_error } = message {
            turns.push("user", [response(calls.settle(call_id).flatten(), name, output, *is_error)]);
            shown.extend(output.iter().filter(|one| matches!(one, Content::Media { .. })).map(content));
            continue;
        }
        turns.push("user", shown.drain(..));
        match message {
            Message::User(contents) => {
                turns.push("user", contents.iter().filter(|one| !is_blank(one)).map(content));
            }
            Message::Assistant { blocks, .. } => {
                turns.push("model", answer(blocks, &mut calls, checks_signatures));
            }
            // Not reached: instructions were wrapped, and results are dealt with above.
            Message::System(_) | Message::Tool { .. } => {}
        }
    }
    turns.push("user", shown);
    turns.into_contents()
}

#[derive(Default)]
struct Turns(Vec<(&'static str, Vec<Value>)>);

impl Turns {
    /// Adds parts to the last turn if it is of the same role, and else as a new turn. No parts, no turn.
    fn push(&mut self, role: &'static str, parts: impl IntoIterator<Item = Value>) {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return;
        }
        match self.0.last_mut() {
            Some((last, known)) if *last == role => known.extend(parts),
            _ => self.0.push((role, parts.collect())),
        }
    }

    fn into_contents(mut self) -> Vec<Value> {
        if self.0.first().is_none_or(|(role, _)| *role != "user") {
            self.0.insert(0, ("user", vec![json!({"text": OPENING})]));
        }
        self.0.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
    }
}

/// Calls without a response yet, each with the provider's own id. One that the provider did not give it does not want
/// back: it then tells calls apart by their order.
type OpenGeminiCalls = OpenCalls<Option<String>>;

/// The parts of an answer, each with the signature it came with.
fn answer(blocks: &[Block], calls: &mut OpenGeminiCalls, checks_signatures: bool) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    let mut called = false;
    for block in blocks {
        match block {
            Block::Text { text, metadata } => {
                let signature = own(metadata.as_ref(), "thoughtSignature");
                if !text.trim().is_empty() {
                    parts.push(signed(json!({"text": text}), signature));
                }
            }
            Block::Reasoning { text, metadata } => {
                // A thought without a signature is for people to read; the model has no use for it.
                if let Some(signature) = own(metadata.as_ref(), "thoughtSignature") {
                    let silent = own(metadata.as_ref(), "silent").is_some();
                    let part =
                        if silent { json!({"text": ""}) } else { json!({"text": text, "thought": true}) };
                    parts.push(signed(part, Some(signature)));
                }
            }
            Block::ToolCall { id, name, input, metadata } => {
                let given = own(metadata.as_ref(), "id").and_then(Value::as_str);
                calls.begin(id, given.map(str::to_owned));
                let mut call = Map::new();
                call.extend(given.map(|id| ("id".to_owned(), json!(id))));
                call.insert("name".into(), json!(name));
                call.insert("args".into(), if input.is_object() { input.clone() } else { json!({}) });
                // Of calls made at once only the first is signed.
                let stand_in = json!(UNSIGNED);
                let stand_in = (checks_signatures && !called).then_some(&stand_in);
                let signature = own(metadata.as_ref(), "thoughtSignature").or(stand_in);
                parts.push(signed(json!({"functionCall": call}), signature));
                called = true;
            }
            Block::HostedCall { metadata, .. } | Block::HostedResult { metadata, .. } => {
                parts.extend(own(metadata.as_ref(), "part").filter(|part| part.is_object()).cloned());
            }
        }
    }
    parts
}

fn own<'a>(metadata: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    protocol::own_field(metadata, METADATA, name)
}

fn signed(mut part: Value, signature: Option<&Value>) -> Value {
    if let (Some(signature), Some(fields)) = (signature, part.as_object_mut()) {
        fields.insert("thoughtSignature".into(), signature.clone());
    }
    part
}

fn response(id: Option<String>, name: &str, output: &[Content], is_error: bool) -> Value {
    let text = Content::text_of(output);
    let shows = output.iter().any(|one| matches!(one, Content::Media { .. }));
    let text = if text.is_empty() && shows { "The result is attached.".to_owned() } else { text };
    let mut response = Map::new();
    response.extend(id.map(|id| ("id".to_owned(), json!(id))));
    response.insert("name".into(), json!(name));
    let field = if is_error { "error" } else { "output" };
    response.insert("response".into(), json!({field: text}));
    json!({"functionResponse": response})
}

fn is_blank(content: &Content) -> bool {
    matches!(content, Content::Text(text) if text.trim().is_empty())
}

fn content(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({"text": text}),
        Content::Media { mime, url, filename } => media(&AttachedFile::of(mime, url, filename.as_deref())),
    }
}

/// An attachment. Text goes as text, as the API knows few of its many media types.
fn media(attachment: &AttachedFile<'_>) -> Value {
    let mime = &attachment.mime;
    let taken = TAKEN.contains(&mime.as_str());
    match &attachment.source {
        AttachmentSource::Inline(data) if taken => {
            json!({"inlineData": {"mimeType": mime, "data": data}})
        }
        AttachmentSource::Remote(url) if taken => {
            json!({"fileData": {"mimeType": mime, "fileUri": url}})
        }
        AttachmentSource::Elsewhere(url) if taken && url.starts_with("gs://") => {
            json!({"fileData": {"mimeType": mime, "fileUri": url}})
        }
        _ => json!({"text": attachment.in_words()}),
    }
}

/// The media types that the API names. It refuses any other.
const TAKEN: &[&str] = &[
    "application/pdf",
    "audio/aac",
    "audio/aiff",
    "audio/flac",
    "audio/m4a",
    "audio/mp3",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "audio/x-aac",
    "audio/x-wav",
    "image/heic",
    "image/heif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "video/3gpp",
    "video/avi",
    "video/mov",
    "video/mp4",
    "video/mpeg",
    "video/mpg",
    "video/quicktime",
    "video/webm",
    "video/wmv",
    "video/x-flv",
];
