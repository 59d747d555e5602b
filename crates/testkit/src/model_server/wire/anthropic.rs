//! Anthropic Messages.

use serde_json::{Value, json};

use super::{
    AnswerFinish, AnswerPiece, AnswerStretch, AnswerUsage, Complaint, EncodeAnswer, MessageRole,
    RequestMessage, WireFormat, gather, list, named, text_of,
};
use crate::model_server::json_text::dumps;

pub(super) fn said(body: &Value) -> Vec<RequestMessage> {
    let system = RequestMessage { role: MessageRole::System, text: text_of(body.get("system")), calls: 0 };
    let said = |message: &Value| {
        let parts = message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let count = |kind: &str| {
            parts.iter().filter(|part| part.get("type").and_then(Value::as_str) == Some(kind)).count()
        };
        let role = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => MessageRole::Assistant,
            Some("system") => MessageRole::System,
            _ if count("tool_result") > 0 && count("text") == 0 => MessageRole::Tool,
            _ => MessageRole::User,
        };
        RequestMessage { role, text: text_of(message.get("content")), calls: count("tool_use") }
    };
    std::iter::once(system).chain(list(body, "messages").iter().map(said)).collect()
}

/// Which block is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenPart {
    Thinking,
    Text,
    Call,
}

pub(super) struct AnswerEncoder {
    id: String,
    model: Value,
    open: Option<OpenPart>,
    blocks: usize,
}

impl AnswerEncoder {
    pub(super) fn new(model: Value, number: u64) -> Self {
        Self { id: format!("msg_{number:08}"), model, open: None, blocks: 0 }
    }

    fn index(&self) -> usize {
        self.blocks.saturating_sub(1)
    }

    fn start(&mut self, open: OpenPart, block: &Value, out: &mut Vec<String>) {
        self.stop(out);
        self.open = Some(open);
        self.blocks += 1;
        out.push(named(
            &json!({"type": "content_block_start", "index": self.index(), "content_block": block}),
        ));
    }

    fn delta(&self, delta: &Value, out: &mut Vec<String>) {
        out.push(named(&json!({"type": "content_block_delta", "index": self.index(), "delta": delta})));
    }

    fn stop(&mut self, out: &mut Vec<String>) {
        if self.open == Some(OpenPart::Thinking) {
            let signature = format!("sig-{}", self.id);
            self.delta(&json!({"type": "signature_delta", "signature": signature}), out);
        }
        if self.open.take().is_some() {
            out.push(named(&json!({"type": "content_block_stop", "index": self.index()})));
        }
    }

    fn message(&self, content: &Value, stop: Option<&str>, used: &Value) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "container": null, "diagnostics": null, "stop_reason": stop, "stop_sequence": null, "stop_details": null,
            "usage": used})
    }
}

impl EncodeAnswer for AnswerEncoder {
    fn begin(&mut self) -> Vec<String> {
        // What was used is not known yet. Later counts replace these.
        let mut used = usage(AnswerUsage { output: 1, ..AnswerUsage::default() });
        if let Some(fields) = used.as_object_mut() {
            for name in ["cache_creation", "inference_geo", "service_tier", "speed"] {
                fields.insert(name.to_owned(), Value::Null);
            }
        }
        let message = self.message(&json!([]), None, &used);
        vec![named(&json!({"type": "message_start", "message": message})), named(&json!({"type": "ping"}))]
    }

    fn piece(&mut self, piece: &AnswerPiece) -> Vec<String> {
        let mut out = Vec::new();
        match piece {
            AnswerPiece::Thought(text) => {
                if self.open != Some(OpenPart::Thinking) {
                    let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                    self.start(OpenPart::Thinking, &block, &mut out);
                }
                self.delta(&json!({"type": "thinking_delta", "thinking": text}), &mut out);
            }
            AnswerPiece::Hosted(ids) => {
                for mut block in hosted(ids) {
                    let input = block.get_mut("input").map(|input| std::mem::replace(input, json!({})));
                    self.start(OpenPart::Call, &block, &mut out);
                    if let Some(input) = input {
                        let delta = json!({"type": "input_json_delta", "partial_json": dumps(&input)});
                        self.delta(&delta, &mut out);
                    }
                }
            }
            AnswerPiece::Text(text) => {
                if self.open != Some(OpenPart::Text) {
                    self.start(
                        OpenPart::Text,
                        &json!({"type": "text", "text": "", "citations": null}),
                        &mut out,
                    );
                }
                self.delta(&json!({"type": "text_delta", "text": text}), &mut out);
            }
            AnswerPiece::Call { id, name } => {
                let block = call(id, name, json!({}));
                self.start(OpenPart::Call, &block, &mut out);
            }
            AnswerPiece::Input(text) => {
                self.delta(&json!({"type": "input_json_delta", "partial_json": text}), &mut out);
            }
        }
        out
    }

    fn fail(&mut self, complaint: &Complaint) -> Vec<String> {
        vec![named(&WireFormat::Anthropic.error(500, complaint))]
    }

    fn end(&mut self, finish: AnswerFinish, used: AnswerUsage) -> Vec<String> {
        let mut out = Vec::new();
        self.stop(&mut out);
        let delta = json!({"container": null, "stop_reason": word(finish), "stop_sequence": null, "stop_details": null});
        out.push(named(&json!({"type": "message_delta", "delta": delta, "usage": usage(used)})));
        out.push(named(&json!({"type": "message_stop"})));
        out
    }

    fn whole(&self, pieces: &[AnswerPiece], finish: AnswerFinish, used: AnswerUsage) -> Value {
        let blocks = |stretch: AnswerStretch| match stretch {
            AnswerStretch::Thought(text) => {
                vec![json!({"type": "thinking", "thinking": text, "signature": format!("sig-{}", self.id)})]
            }
            AnswerStretch::Hosted(ids) => hosted(&ids),
            AnswerStretch::Text(text) => vec![json!({"type": "text", "text": text, "citations": null})],
            AnswerStretch::Call { id, name, input } => vec![call(&id, &name, AnswerStretch::json(&input))],
        };
        let content: Vec<Value> = gather(pieces).into_iter().flat_map(blocks).collect();
        self.message(&json!(content), Some(word(finish)), &usage(used))
    }
}

/// Searches made at once: first all calls, then all results.
fn hosted(ids: &[String]) -> Vec<Value> {
    let call = |id: &String| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": format!("about {id}")}});
    let result = |id: &String| {
        let found = json!({"type": "web_search_result", "url": "https://example.org/", "title": "Example",
            "encrypted_content": format!("enc-{id}"), "page_age": null});
        json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [found]})
    };
    ids.iter().map(call).chain(ids.iter().map(result)).collect()
}

fn word(finish: AnswerFinish) -> &'static str {
    match finish {
        AnswerFinish::Stop => "end_turn",
        AnswerFinish::Tools => "tool_use",
        AnswerFinish::Length => "max_tokens",
        AnswerFinish::Refused => "refusal",
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a value made in place")]
fn call(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input, "caller": {"type": "direct"}})
}

/// Here the cached tokens are counted apart from the others.
fn usage(used: AnswerUsage) -> Value {
    json!({"input_tokens": used.input.saturating_sub(used.cached), "cache_read_input_tokens": used.cached,
        "cache_creation_input_tokens": 0, "output_tokens": used.output,
        "output_tokens_details": {"thinking_tokens": used.reasoning}, "server_tool_use": null})
}
