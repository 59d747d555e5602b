//! OpenAI Responses.

use serde_json::{Value, json};

use super::{
    AnswerFinish, AnswerPiece, AnswerStretch, AnswerUsage, Complaint, EncodeAnswer, MessageRole,
    RequestMessage, gather, list, named, text_of,
};

pub(super) fn said(body: &Value) -> Vec<RequestMessage> {
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        return vec![RequestMessage { role: MessageRole::User, text: text.to_owned(), calls: 0 }];
    }
    let instructions =
        RequestMessage { role: MessageRole::System, text: text_of(body.get("instructions")), calls: 0 };
    let said = |item: &Value| match (item.get("type").and_then(Value::as_str), item.get("role")) {
        (Some("function_call"), _) => {
            RequestMessage { role: MessageRole::Assistant, text: String::new(), calls: 1 }
        }
        (Some("function_call_output"), _) => {
            RequestMessage { role: MessageRole::Tool, text: text_of(item.get("output")), calls: 0 }
        }
        (Some("message") | None, Some(role)) => {
            let role = match role.as_str() {
                Some("assistant") => MessageRole::Assistant,
                Some("system" | "developer") => MessageRole::System,
                _ => MessageRole::User,
            };
            RequestMessage { role, text: text_of(item.get("content")), calls: 0 }
        }
        _ => RequestMessage { role: MessageRole::Assistant, ..RequestMessage::default() },
    };
    std::iter::once(instructions).chain(list(body, "input").iter().map(said)).collect()
}

/// The item that is being told.
#[derive(Debug, Clone)]
enum OpenPart {
    Reasoning { text: String },
    Message { text: String },
    Search { id: String },
    Call { id: String, name: String, input: String },
}

pub(super) struct AnswerEncoder {
    id: String,
    model: Value,
    open: Option<OpenPart>,
    done: Vec<Value>,
    events: u64,
}

impl AnswerEncoder {
    pub(super) fn new(model: Value, number: u64) -> Self {
        Self { id: format!("resp_{number:08}"), model, open: None, done: Vec::new(), events: 0 }
    }

    fn say(&mut self, mut event: Value, out: &mut Vec<String>) {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("sequence_number".to_owned(), json!(self.events));
        }
        self.events += 1;
        out.push(named(&event));
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.id, self.done.len())
    }

    /// An item as it stands, complete or not.
    fn item(&self, open: &OpenPart, status: &str) -> Value {
        match open {
            OpenPart::Reasoning { text } => {
                let summary =
                    if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
                let secret = (status == "completed").then(|| format!("enc-{}", self.id));
                json!({"type": "reasoning", "id": self.item_id("rs"), "summary": summary, "encrypted_content": secret})
            }
            OpenPart::Message { text } => {
                let content = if status == "completed" {
                    json!([{"type": "output_text", "text": text, "annotations": []}])
                } else {
                    json!([])
                };
                json!({"type": "message", "id": self.item_id("msg"), "status": status, "role": "assistant", "content": content})
            }
            OpenPart::Search { id } => {
                let action = json!({"type": "search", "query": format!("about {id}"), "sources": [{"type": "url",
                    "url": "https://example.org/"}]});
                json!({"type": "web_search_call", "id": self.item_id("ws"), "status": status, "action": action})
            }
            OpenPart::Call { id, name, input } => {
                json!({"type": "function_call", "id": self.item_id("fc"), "status": status, "call_id": id, "name": name,
                    "arguments": input})
            }
        }
    }

    fn start(&mut self, open: OpenPart, out: &mut Vec<String>) {
        self.stop(out);
        let (at, item) = (self.done.len(), self.item(&open, "in_progress"));
        let id = item.get("id").cloned().unwrap_or_default();
        self.say(json!({"type": "response.output_item.added", "output_index": at, "item": item}), out);
        match &open {
            OpenPart::Reasoning { .. } => self.say(
                json!({"type": "response.reasoning_summary_part.added", "item_id": id, "output_index": at,
                    "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
                out,
            ),
            OpenPart::Message { .. } => self.say(
                json!({"type": "response.content_part.added", "item_id": id, "output_index": at, "content_index": 0,
                    "part": {"type": "output_text", "text": "", "annotations": []}}),
                out,
            ),
            OpenPart::Search { .. } | OpenPart::Call { .. } => {}
        }
        self.open = Some(open);
    }

    fn stop(&mut self, out: &mut Vec<String>) {
        let Some(open) = self.open.take() else { return };
        let (at, item) = (self.done.len(), self.item(&open, "completed"));
        let id = item.get("id").cloned().unwrap_or_default();
        match &open {
            OpenPart::Reasoning { text } => {
                let place = json!({"item_id": id, "output_index": at, "summary_index": 0});
                let part = json!({"type": "summary_text", "text": text});
                self.say(merged("response.reasoning_summary_text.done", &place, "text", json!(text)), out);
                self.say(merged("response.reasoning_summary_part.done", &place, "part", part), out);
            }
            OpenPart::Message { text } => {
                let place = json!({"item_id": id, "output_index": at, "content_index": 0, "logprobs": []});
                let part = json!({"type": "output_text", "text": text, "annotations": []});
                self.say(merged("response.output_text.done", &place, "text", json!(text)), out);
                let place = json!({"item_id": id, "output_index": at, "content_index": 0});
                self.say(merged("response.content_part.done", &place, "part", part), out);
            }
            OpenPart::Search { .. } => {}
            OpenPart::Call { input, .. } => {
                let place = json!({"item_id": id, "output_index": at});
                self.say(
                    merged("response.function_call_arguments.done", &place, "arguments", json!(input)),
                    out,
                );
            }
        }
        self.say(json!({"type": "response.output_item.done", "output_index": at, "item": item}), out);
        self.done.push(item);
    }

    /// More of the open item.
    fn delta(&mut self, more: &str, out: &mut Vec<String>) {
        let at = self.done.len();
        let Some(mut open) = self.open.take() else { return };
        let item = self.item(&open, "in_progress");
        let id = item.get("id").cloned().unwrap_or_default();
        let (kind, place) = match &mut open {
            OpenPart::Search { .. } => return,
            OpenPart::Reasoning { text } => {
                text.push_str(more);
                let place = json!({"item_id": id, "output_index": at, "summary_index": 0});
                ("response.reasoning_summary_text.delta", place)
            }
            OpenPart::Message { text } => {
                text.push_str(more);
                let place = json!({"item_id": id, "output_index": at, "content_index": 0, "logprobs": []});
                ("response.output_text.delta", place)
            }
            OpenPart::Call { input, .. } => {
                input.push_str(more);
                ("response.function_call_arguments.delta", json!({"item_id": id, "output_index": at}))
            }
        };
        self.open = Some(open);
        self.say(merged(kind, &place, "delta", json!(more)), out);
    }

    fn response(
        &self,
        status: &str,
        output: &[Value],
        finish: Option<AnswerFinish>,
        used: Option<AnswerUsage>,
    ) -> Value {
        let reason = match finish {
            Some(AnswerFinish::Length) => json!({"reason": "max_output_tokens"}),
            Some(AnswerFinish::Refused) => json!({"reason": "content_filter"}),
            _ => Value::Null,
        };
        json!({"id": self.id, "object": "response", "created_at": 1_767_225_600, "status": status, "error": null,
            "incomplete_details": reason, "model": self.model, "output": output, "parallel_tool_calls": true,
            "instructions": null, "metadata": {}, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
            "usage": used.map(usage)})
    }
}

/// An event with its place and one more field.
fn merged(kind: &str, place: &Value, field: &str, value: Value) -> Value {
    let mut event = json!({"type": kind});
    if let (Some(fields), Some(place)) = (event.as_object_mut(), place.as_object()) {
        fields.extend(place.clone());
        fields.insert(field.to_owned(), value);
    }
    event
}

impl EncodeAnswer for AnswerEncoder {
    fn begin(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        let response = self.response("in_progress", &[], None, None);
        self.say(json!({"type": "response.created", "response": response}), &mut out);
        self.say(json!({"type": "response.in_progress", "response": response}), &mut out);
        out
    }

    fn piece(&mut self, piece: &AnswerPiece) -> Vec<String> {
        let mut out = Vec::new();
        match piece {
            AnswerPiece::Thought(text) => {
                if !matches!(self.open, Some(OpenPart::Reasoning { .. })) {
                    self.start(OpenPart::Reasoning { text: String::new() }, &mut out);
                }
                self.delta(text, &mut out);
            }
            AnswerPiece::Hosted(ids) => {
                for id in ids {
                    self.start(OpenPart::Search { id: id.clone() }, &mut out);
                }
            }
            AnswerPiece::Text(text) => {
                if !matches!(self.open, Some(OpenPart::Message { .. })) {
                    self.start(OpenPart::Message { text: String::new() }, &mut out);
                }
                self.delta(text, &mut out);
            }
            AnswerPiece::Call { id, name } => {
                let (id, name) = (id.clone(), name.clone());
                self.start(OpenPart::Call { id, name, input: String::new() }, &mut out);
            }
            AnswerPiece::Input(text) => self.delta(text, &mut out),
        }
        out
    }

    fn fail(&mut self, complaint: &Complaint) -> Vec<String> {
        let Complaint { kind, message, .. } = complaint;
        let mut out = Vec::new();
        self.say(json!({"type": "error", "code": kind, "message": message, "param": null}), &mut out);
        out
    }

    fn end(&mut self, finish: AnswerFinish, used: AnswerUsage) -> Vec<String> {
        let mut out = Vec::new();
        self.stop(&mut out);
        let status = status(finish);
        let response = self.response(status, &self.done, Some(finish), Some(used));
        self.say(json!({"type": format!("response.{status}"), "response": response}), &mut out);
        out
    }

    fn whole(&self, pieces: &[AnswerPiece], finish: AnswerFinish, used: AnswerUsage) -> Value {
        let mut encoder = Self::new(self.model.clone(), 0);
        encoder.id.clone_from(&self.id);
        let opens = |stretch: AnswerStretch| match stretch {
            AnswerStretch::Thought(text) => vec![OpenPart::Reasoning { text }],
            AnswerStretch::Hosted(ids) => ids.into_iter().map(|id| OpenPart::Search { id }).collect(),
            AnswerStretch::Text(text) => vec![OpenPart::Message { text }],
            AnswerStretch::Call { id, name, input } => vec![OpenPart::Call { id, name, input }],
        };
        for open in gather(pieces).into_iter().flat_map(opens) {
            let item = encoder.item(&open, "completed");
            encoder.done.push(item);
        }
        encoder.response(status(finish), &encoder.done, Some(finish), Some(used))
    }
}

fn status(finish: AnswerFinish) -> &'static str {
    match finish {
        AnswerFinish::Stop | AnswerFinish::Tools => "completed",
        AnswerFinish::Length | AnswerFinish::Refused => "incomplete",
    }
}

fn usage(used: AnswerUsage) -> Value {
    json!({"input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": 0},
        "output_tokens": used.output, "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.input + used.output})
}
