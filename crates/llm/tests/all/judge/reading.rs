//! What our provider makes of an answer, in the shape in which the SDKs' side tells it.
//!
//! An answer that came to its end has its id, model, reason to stop in the protocol's words and in ours, content and
//! usage. One that failed has its error. Both have the pieces in which the content came.

use everturn_llm::{Content, Error, FinishReason, Message, ModelRequest, Provider, StreamEvent, Usage};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::Protocol;

/// Asks `prompt` and tells what came of it.
pub(super) async fn read(protocol: Protocol, provider: &dyn Provider, prompt: &str) -> Value {
    let messages = vec![Message::User(vec![Content::Text(prompt.into())])];
    let mut stream =
        provider.stream(ModelRequest { model: "fake-1".into(), messages, ..ModelRequest::default() });
    let mut reading = Reading { protocol, begun: false, pieces: Vec::new(), content: Vec::new(), end: None };
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => reading.take(event),
            Err(error) => return json!({"pieces": reading.pieces, "error": reading.failure(&error)}),
        }
    }
    json!({"pieces": reading.pieces, "answer": reading.answer()})
}

struct Reading {
    protocol: Protocol,
    begun: bool,
    pieces: Vec<Value>,
    content: Vec<Map<String, Value>>,
    end: Option<(FinishReason, Usage, Value)>,
}

impl Reading {
    fn take(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Start => self.begun = true,
            StreamEvent::ReasoningStart { .. } => self.begin("reasoning"),
            StreamEvent::TextStart { .. } => self.begin("text"),
            StreamEvent::ReasoningDelta { text, .. } => self.more("reasoning", &text),
            StreamEvent::TextDelta { text, .. } => self.more("text", &text),
            StreamEvent::ReasoningEnd { metadata, .. } => {
                let own = self.own(metadata.as_ref());
                let signature = signature(&own);
                self.finish(&own, [("signature", signature)]);
            }
            StreamEvent::TextEnd { metadata, .. } => {
                let own = self.own(metadata.as_ref());
                self.finish(&own, []);
            }
            // Gemini gives arguments all at once, and not as text.
            StreamEvent::ToolInputDelta { .. } if self.protocol == Protocol::Gemini => {}
            StreamEvent::ToolInputDelta { text, .. } => self.pieces.push(json!(["input", text])),
            StreamEvent::ToolCall { id, name, input, metadata, .. } => {
                let own = self.own(metadata.as_ref());
                self.content.push(Map::from_iter([("kind".to_owned(), json!("call"))]));
                let fields = [("id", json!(id)), ("name", json!(name)), ("input", input)];
                self.finish(&own, fields);
                // Gemini signs its calls.
                if self.protocol == Protocol::Gemini {
                    self.finish(&own, [("signature", signature(&own))]);
                }
            }
            StreamEvent::StepFinish { reason, usage, metadata } => {
                let own = self.own(metadata.as_ref());
                self.end = Some((reason, usage, own));
            }
            StreamEvent::Usage(_)
            | StreamEvent::ToolInputStart { .. }
            | StreamEvent::ToolInputEnd { .. }
            | StreamEvent::Finish => {}
            StreamEvent::ToolCallMalformed { .. }
            | StreamEvent::HostedCall { .. }
            | StreamEvent::HostedResult { .. } => {
                panic!("nothing in the script leads to {event:?}")
            }
        }
    }

    /// What the protocol keeps for itself.
    fn own(&self, metadata: Option<&Value>) -> Value {
        let name = match self.protocol {
            Protocol::Anthropic => "anthropic",
            Protocol::Responses => "openai-responses",
            Protocol::Chat => "openai-chat",
            Protocol::Gemini => "gemini",
        };
        metadata.and_then(|all| all.get(name)).cloned().unwrap_or_default()
    }

    fn begin(&mut self, kind: &str) {
        self.content.push(Map::from_iter([("kind".to_owned(), json!(kind)), ("text".to_owned(), json!(""))]));
    }

    fn more(&mut self, kind: &str, more: &str) {
        self.pieces.push(json!([kind, more]));
        if let Some(Value::String(text)) = self.content.last_mut().and_then(|last| last.get_mut("text")) {
            text.push_str(more);
        }
    }

    /// Adds what is known at the end of a block. A block of Responses is an item with an id of its own.
    fn finish<const N: usize>(&mut self, own: &Value, fields: [(&str, Value); N]) {
        let item = (self.protocol == Protocol::Responses).then(|| ("item", own["id"].clone()));
        let fields = fields.into_iter().chain(item).map(|(name, value)| (name.to_owned(), value));
        self.content.last_mut().expect("a block").extend(fields);
    }

    fn answer(self) -> Value {
        let (reason, usage, own) = self.end.expect("an answer that does not fail has an end");
        let [id, model, stop] = match self.protocol {
            Protocol::Anthropic => ["id", "model", "stop_reason"],
            Protocol::Responses if own["incomplete_reason"].is_null() => ["id", "model", "status"],
            Protocol::Responses => ["id", "model", "incomplete_reason"],
            Protocol::Chat => ["id", "model", "finish_reason"],
            Protocol::Gemini => ["responseId", "modelVersion", "finishReason"],
        };
        let Usage { input, output, reasoning, cache_read, cache_write, total } = usage;
        json!({
            "id": own[id],
            "model": own[model],
            "stop": own[stop],
            "finish": reason.as_str(),
            "content": self.content,
            "usage": {"input": input, "output": output, "reasoning": reasoning, "cache_read": cache_read,
                "cache_write": cache_write, "total": total},
        })
    }

    /// The SDKs tell kinds of errors apart by the status only. In mid-stream there is none, except that Gemini repeats
    /// it in the error itself.
    fn failure(&self, error: &Error) -> Value {
        let kind = match error {
            Error::Transport { .. } => {
                return json!({"kind": "connection", "status": null, "type": null, "message": null});
            }
            Error::Authentication { .. } => "authentication",
            Error::RateLimit { .. } => "rate-limit",
            Error::InvalidRequest { .. } => "invalid-request",
            // Only this SDK tells an overload apart.
            Error::Overloaded { .. } if self.protocol == Protocol::Anthropic => "overloaded",
            Error::Server { .. } | Error::Overloaded { .. } => "server",
            other => panic!("nothing in the script leads to {other:?}"),
        };
        let http = error.http().expect("what the provider said");
        let body: Value = serde_json::from_str(&http.body).expect("a JSON body");
        let told = body.get("error").unwrap_or(&body);
        let word = ["type", "status", "code"].into_iter().find_map(|name| {
            let word = told.get(name)?.as_str()?;
            (word != "error").then_some(word)
        });
        let status = (!self.begun || self.protocol == Protocol::Gemini).then_some(http.status);
        let kind = (!self.begun).then_some(kind);
        json!({"kind": kind, "status": status, "type": word, "message": error.provider_message()})
    }
}

fn signature(own: &Value) -> Value {
    let names = ["signature", "encrypted_content", "thoughtSignature"];
    names.into_iter().find_map(|name| own.get(name)).cloned().unwrap_or_default()
}
