//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{
    AnswerFinish, AnswerPiece, AnswerStretch, AnswerUsage, Complaint, EncodeAnswer, MessageRole,
    RequestMessage, gather, list, plain, text_of,
};
use crate::model_server::json_text::dumps;

/// When an answer was made, for the wire; nobody depends on it.
const CREATED: u64 = 1_767_225_600;

pub(super) fn said(body: &Value) -> Vec<RequestMessage> {
    let said = |message: &Value| {
        let role = match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => MessageRole::System,
            Some("assistant") => MessageRole::Assistant,
            Some("tool") => MessageRole::Tool,
            _ => MessageRole::User,
        };
        let calls = message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
        RequestMessage { role, text: text_of(message.get("content")), calls }
    };
    list(body, "messages").iter().map(said).collect()
}

pub(super) struct AnswerEncoder {
    id: String,
    model: Value,
    calls: usize,
}

impl AnswerEncoder {
    pub(super) fn new(model: Value, number: u64) -> Self {
        Self { id: format!("chatcmpl-{number}"), model, calls: 0 }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": CREATED, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }
}

impl EncodeAnswer for AnswerEncoder {
    fn begin(&mut self) -> Vec<String> {
        vec![plain(&self.chunk(&json!({"role": "assistant", "content": ""}), None))]
    }

    fn piece(&mut self, piece: &AnswerPiece) -> Vec<String> {
        let delta = match piece {
            AnswerPiece::Thought(text) => json!({"reasoning_content": text}),
            AnswerPiece::Hosted(_) => return Vec::new(),
            AnswerPiece::Text(text) => json!({"content": text}),
            AnswerPiece::Call { id, name } => {
                self.calls += 1;
                let function = json!({"name": name, "arguments": ""});
                json!({"tool_calls": [{"index": self.calls - 1, "id": id, "type": "function", "function": function}]})
            }
            AnswerPiece::Input(text) => {
                json!({"tool_calls": [{"index": self.calls.saturating_sub(1), "function": {"arguments": text}}]})
            }
        };
        vec![plain(&self.chunk(&delta, None))]
    }

    fn fail(&mut self, complaint: &Complaint) -> Vec<String> {
        let Complaint { kind, code, message, .. } = complaint;
        vec![plain(&json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))]
    }

    fn end(&mut self, finish: AnswerFinish, used: AnswerUsage) -> Vec<String> {
        let mut last = self.chunk(&json!({}), Some(word(finish)));
        if let Some(fields) = last.as_object_mut() {
            fields.insert("usage".to_owned(), usage(used));
        }
        vec![plain(&last), "data: [DONE]\n\n".to_owned()]
    }

    fn whole(&self, pieces: &[AnswerPiece], finish: AnswerFinish, used: AnswerUsage) -> Value {
        let mut message = json!({"role": "assistant", "content": null});
        for stretch in gather(pieces) {
            let Some(fields) = message.as_object_mut() else { continue };
            match stretch {
                AnswerStretch::Thought(text) => {
                    drop(fields.insert("reasoning_content".to_owned(), json!(text)));
                }
                AnswerStretch::Hosted(_) => {}
                AnswerStretch::Text(text) => drop(fields.insert("content".to_owned(), json!(text))),
                AnswerStretch::Call { id, name, input } => {
                    let function = json!({"name": name, "arguments": input});
                    let calls = fields.entry("tool_calls").or_insert_with(|| json!([]));
                    if let Some(calls) = calls.as_array_mut() {
                        calls.push(json!({"id": id, "type": "function", "function": function}));
                    }
                }
            }
        }
        json!({"id": self.id, "object": "chat.completion", "created": CREATED, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": word(finish)}], "usage": usage(used)})
    }
}

fn word(finish: AnswerFinish) -> &'static str {
    match finish {
        AnswerFinish::Stop => "stop",
        AnswerFinish::Tools => "tool_calls",
        AnswerFinish::Length => "length",
        AnswerFinish::Refused => "content_filter",
    }
}

/// Details only where there are any: the recorded answers have none.
fn usage(used: AnswerUsage) -> Value {
    let mut usage = json!({"prompt_tokens": used.input, "completion_tokens": used.output,
        "total_tokens": used.input + used.output});
    if let Some(fields) = usage.as_object_mut() {
        if used.cached > 0 {
            fields.insert("prompt_tokens_details".to_owned(), json!({"cached_tokens": used.cached}));
        }
        if used.reasoning > 0 {
            fields
                .insert("completion_tokens_details".to_owned(), json!({"reasoning_tokens": used.reasoning}));
        }
    }
    usage
}

/// How many tokens a body is taken to have.
pub(in crate::model_server) fn tokens(body: &Value) -> u64 {
    u64::try_from(dumps(body).len() / 4).unwrap_or(0)
}
