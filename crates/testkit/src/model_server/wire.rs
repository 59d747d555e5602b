//! The protocols that the server speaks.
//!
//! A script is made of neutral [`AnswerPiece`]s. A voice says them in its protocol, as a stream of frames or as one
//! object, and knows how a request of that protocol tells what was said before.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::plan::Complaint;
pub(super) use chat::tokens;

/// What an answer is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerPiece {
    /// More reasoning.
    Thought(String),
    /// Tools that the provider runs itself, by their ids.
    Hosted(Vec<String>),
    /// More text.
    Text(String),
    /// A tool call begins.
    Call { id: String, name: String },
    /// More of the arguments of the call that began last.
    Input(String),
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerFinish {
    Stop,
    Tools,
    Length,
    Refused,
}

/// What an answer used. The cached tokens are part of the input, the reasoning is part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AnswerUsage {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
}

/// One message of a request, as far as a script looks at it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RequestMessage {
    pub(super) role: MessageRole,
    pub(super) text: String,
    /// How many tools were called in it.
    pub(super) calls: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MessageRole {
    System,
    #[default]
    User,
    Assistant,
    /// The result of a tool.
    Tool,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireFormat {
    Chat,
    Anthropic,
    Responses,
    Gemini,
}

/// An answer being told.
pub(super) trait EncodeAnswer {
    /// How the stream begins.
    fn begin(&mut self) -> Vec<String>;

    /// The frames of a piece.
    fn piece(&mut self, piece: &AnswerPiece) -> Vec<String>;

    /// An error in the middle of the stream.
    fn fail(&mut self, complaint: &Complaint) -> Vec<String>;

    /// How the stream ends.
    fn end(&mut self, finish: AnswerFinish, used: AnswerUsage) -> Vec<String>;

    /// The whole answer as one object.
    fn whole(&self, pieces: &[AnswerPiece], finish: AnswerFinish, used: AnswerUsage) -> Value;
}

impl WireFormat {
    /// The protocol of a path.
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("/messages") => Some(Self::Anthropic),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.contains(":streamGenerateContent") || path.contains(":generateContent") => {
                Some(Self::Gemini)
            }
            _ => None,
        }
    }

    /// Whether a request wants a stream.
    pub(super) fn streams(self, path: &str, body: &Value) -> bool {
        match self {
            Self::Gemini => path.contains(":streamGenerateContent"),
            _ => body.get("stream").and_then(Value::as_bool) == Some(true),
        }
    }

    /// What was said before.
    pub(super) fn said(self, body: &Value) -> Vec<RequestMessage> {
        match self {
            Self::Chat => chat::said(body),
            Self::Anthropic => anthropic::said(body),
            Self::Responses => responses::said(body),
            Self::Gemini => gemini::said(body),
        }
    }

    /// An answer; `number` makes its ids unlike those of all others.
    pub(super) fn encoder(self, model: &Value, number: u64) -> Box<dyn EncodeAnswer + Send> {
        let model = model.clone();
        match self {
            Self::Chat => Box::new(chat::AnswerEncoder::new(model, number)),
            Self::Anthropic => Box::new(anthropic::AnswerEncoder::new(model, number)),
            Self::Responses => Box::new(responses::AnswerEncoder::new(model, number)),
            Self::Gemini => Box::new(gemini::AnswerEncoder::new(model, number)),
        }
    }

    /// The body of an HTTP error, in the shape that the protocol's own service gives it.
    pub(super) fn error(self, status: u64, complaint: &Complaint) -> Value {
        let Complaint { kind, code, message, details } = complaint;
        match (self, code) {
            (Self::Chat | Self::Responses, Some(code)) => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            // As it was recorded.
            (Self::Chat | Self::Responses, None) => {
                json!({"error": {"message": message, "type": kind, "code": status.to_string()}})
            }
            (Self::Anthropic, _) => json!({"type": "error", "error": {"type": kind, "message": message}}),
            (Self::Gemini, _) => match details {
                Some(details) => {
                    json!({"error": {"code": status, "message": message, "status": kind, "details": details}})
                }
                None => json!({"error": {"code": status, "message": message, "status": kind}}),
            },
        }
    }
}

/// The status that Google's services give with a word.
fn google_status(word: &str) -> u64 {
    match word {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "RESOURCE_EXHAUSTED" => 429,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => 500,
    }
}

/// A stretch of an answer, with all its pieces put together.
#[derive(Debug, Clone, PartialEq)]
enum AnswerStretch {
    Thought(String),
    Hosted(Vec<String>),
    Text(String),
    Call { id: String, name: String, input: String },
}

impl AnswerStretch {
    /// The arguments as JSON.
    fn json(input: &str) -> Value {
        serde_json::from_str(input).unwrap_or_default()
    }
}

/// The pieces of an answer put together.
fn gather(pieces: &[AnswerPiece]) -> Vec<AnswerStretch> {
    let mut stretches: Vec<AnswerStretch> = Vec::new();
    for piece in pieces {
        match (piece, stretches.last_mut()) {
            (AnswerPiece::Thought(more), Some(AnswerStretch::Thought(text)))
            | (AnswerPiece::Text(more), Some(AnswerStretch::Text(text)))
            | (AnswerPiece::Input(more), Some(AnswerStretch::Call { input: text, .. })) => {
                text.push_str(more);
            }
            (AnswerPiece::Thought(text), _) => stretches.push(AnswerStretch::Thought(text.clone())),
            (AnswerPiece::Hosted(ids), _) => stretches.push(AnswerStretch::Hosted(ids.clone())),
            (AnswerPiece::Text(text), _) => stretches.push(AnswerStretch::Text(text.clone())),
            (AnswerPiece::Call { id, name }, _) => {
                stretches.push(AnswerStretch::Call {
                    id: id.clone(),
                    name: name.clone(),
                    input: String::new(),
                });
            }
            (AnswerPiece::Input(_), _) => {}
        }
    }
    stretches
}

/// A frame without a name.
fn plain(value: &Value) -> String {
    format!("data: {}\n\n", super::json_text::dumps(value))
}

/// A frame with its type as its name.
fn named(value: &Value) -> String {
    let name = value.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\n{}", plain(value))
}

/// The texts in a list of parts, or the text itself.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The items of a list in a body.
fn list<'v>(body: &'v Value, name: &str) -> &'v [Value] {
    body.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
