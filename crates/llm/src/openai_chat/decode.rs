//! Chunks of a Chat Completions answer into events.
//!
//! The protocol has no block structure: a chunk may carry text, reasoning and pieces of tool calls, and only a
//! change of kind tells that a block is over. At most one text or reasoning block is open at a time. The answer is
//! complete once a finish reason was seen; usage may follow it, so the step ends with the terminal frame or the
//! end of the body.

use std::borrow::Cow;

use everturn_sse::SseFrame;
use serde_json::{Map, Value, json};

use super::calls::ChatCalls;
use super::wire::{ChatChoice, ChatChunk, ChatDelta};
use crate::protocol::text::{LooseText, WireText, keep};
use crate::protocol::{Decode, DecodeProgress, Events, FrameFault};
use crate::{FinishReason, StreamEvent, Usage};

/// The key under which this protocol keeps its own data in `metadata`.
pub(super) const METADATA: &str = "openai-chat";

/// The frame that ends a stream.
const DONE: &str = "[DONE]";

/// The usual field for reasoning; blocks from it need no metadata.
const REASONING_CONTENT: &str = "reasoning_content";

/// The state of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    open: OpenBlock,
    blocks: usize,
    calls: ChatCalls,
    finish: Option<String>,
    done: bool,
    produced: bool,
    recognised: bool,
    usage: Usage,
    id: Option<String>,
    model: Option<String>,
}

#[derive(Debug)]
enum OpenBlock {
    Nothing,
    Text { id: String },
    Reasoning { id: String, field: &'static str, details: Vec<Value> },
}

impl Decoder {
    /// `call_prefix` begins the ids of tool calls that come without one.
    pub(super) fn new(call_prefix: String) -> Self {
        Self {
            open: OpenBlock::Nothing,
            blocks: 0,
            calls: ChatCalls::new(call_prefix),
            finish: None,
            done: false,
            produced: false,
            recognised: false,
            usage: Usage::default(),
            id: None,
            model: None,
        }
    }

    /// Takes one chunk, or the mark that ends the stream.
    fn chunk(&mut self, data: &str, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        let data = data.trim();
        if data == DONE {
            self.done = true;
            return Ok(DecodeProgress::Done);
        }
        if data.is_empty() {
            return Ok(DecodeProgress::More);
        }
        let chunk: ChatChunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(cause) => return Err(unreadable(data, &cause)),
        };
        if chunk.error.is_some_and(|error| error.is_object() || error.is_string()) {
            return Err(FrameFault::Provider(data.to_owned()));
        }
        keep(&mut self.id, chunk.id);
        keep(&mut self.model, chunk.model);
        let counts = chunk.usage.or_else(|| chunk.x_groq?.usage);
        if let Some(counts) = &counts {
            self.usage = Usage::from(&**counts);
        }
        self.recognised |= chunk.choices.is_some();
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices.into_iter().filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.choice(choice, out)?;
        }
        // Some servers count along; most say it once, behind the end.
        if counts.is_some() && self.finish.is_none() {
            out.push_back(StreamEvent::Usage(self.usage));
        }
        Ok(DecodeProgress::More)
    }

    fn choice(&mut self, choice: ChatChoice<'_>, out: &mut Events) -> Result<(), FrameFault> {
        // A server that sends both says the same in both.
        if let Some(delta) = choice.delta.or(choice.message.map(|message| *message)) {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason);
            self.close(out);
            self.calls.settle_all(out);
        }
        Ok(())
    }

    fn delta(&mut self, delta: ChatDelta<'_>, out: &mut Events) -> Result<(), FrameFault> {
        let details = delta.reasoning_details.unwrap_or_default();
        let reasoning = delta.reasoning.and_then(LooseText::text);
        match (delta.reasoning_content, reasoning) {
            (Some(WireText(text)), _) if !text.is_empty() => {
                self.reasoning(REASONING_CONTENT, text, details, out);
            }
            (_, Some(text)) => self.reasoning("reasoning", text, details, out),
            _ if !details.is_empty() => {
                let text: String = details.iter().filter_map(detail_text).collect();
                self.reasoning("reasoning", text.into(), details, out);
            }
            _ => {}
        }
        match delta.content {
            Some(LooseText::Text(text)) => self.text(text, out),
            Some(LooseText::Other(Value::Array(pieces))) => {
                pieces.iter().for_each(|piece| self.piece(piece, out));
            }
            _ => {}
        }
        if let Some(WireText(refusal)) = delta.refusal {
            self.text(refusal, out);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.close(out);
            self.produced = true;
            self.calls.accept(call, out)?;
        }
        Ok(())
    }

    /// One element of a content list, as Mistral sends it.
    fn piece(&mut self, piece: &Value, out: &mut Events) {
        if let Some(text) = piece.get("text").and_then(Value::as_str) {
            self.text(text.into(), out);
        }
        match piece.get("thinking") {
            Some(Value::String(text)) => self.reasoning(REASONING_CONTENT, text.into(), Vec::new(), out),
            Some(Value::Array(thoughts)) => {
                let text: String =
                    thoughts.iter().filter_map(|thought| thought.get("text")?.as_str()).collect();
                self.reasoning(REASONING_CONTENT, text.into(), Vec::new(), out);
            }
            _ => {}
        }
    }

    fn text(&mut self, text: Cow<'_, str>, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        self.produced = true;
        let id = match &self.open {
            OpenBlock::Text { id } => id.clone(),
            OpenBlock::Nothing | OpenBlock::Reasoning { .. } => {
                self.close(out);
                let id = self.next_id("text");
                out.push_back(StreamEvent::TextStart { id: id.clone() });
                self.open = OpenBlock::Text { id: id.clone() };
                id
            }
        };
        out.push_back(StreamEvent::TextDelta { id, text: text.into_owned() });
    }

    fn reasoning(&mut self, field: &'static str, text: Cow<'_, str>, more: Vec<Value>, out: &mut Events) {
        if text.is_empty() && more.is_empty() {
            return;
        }
        if !matches!(self.open, OpenBlock::Reasoning { .. }) {
            self.close(out);
            let id = self.next_id("reasoning");
            out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
            self.open = OpenBlock::Reasoning { id, field, details: Vec::new() };
        }
        if let OpenBlock::Reasoning { id, details, .. } = &mut self.open {
            more.into_iter().for_each(|detail| merge(details, detail));
            if !text.is_empty() {
                out.push_back(StreamEvent::ReasoningDelta { id: id.clone(), text: text.into_owned() });
            }
        }
    }

    fn close(&mut self, out: &mut Events) {
        match std::mem::replace(&mut self.open, OpenBlock::Nothing) {
            OpenBlock::Nothing => {}
            OpenBlock::Text { id } => out.push_back(StreamEvent::TextEnd { id, metadata: None }),
            OpenBlock::Reasoning { id, field, details } => {
                let mut own = Map::new();
                if field != REASONING_CONTENT {
                    own.insert("field".into(), json!(field));
                }
                if !details.is_empty() {
                    own.insert("reasoning_details".into(), Value::Array(details));
                }
                let metadata = (!own.is_empty()).then(|| json!({METADATA: own}));
                out.push_back(StreamEvent::ReasoningEnd { id, metadata });
            }
        }
    }

    fn next_id(&mut self, kind: &str) -> String {
        let id = format!("{kind}-{}", self.blocks);
        self.blocks = self.blocks.saturating_add(1);
        id
    }

    fn reason(&self) -> FinishReason {
        let reason = match self.finish.as_deref() {
            Some("stop" | "eos" | "end_turn") => FinishReason::Stop,
            Some("length" | "max_tokens") => FinishReason::Length,
            Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
            Some("content_filter") => FinishReason::ContentFilter,
            Some("error") => FinishReason::Error,
            _ => FinishReason::Unknown,
        };
        match reason {
            // Several servers say `stop` although the model waits for its tools.
            FinishReason::Stop | FinishReason::Unknown if !self.calls.is_empty() => FinishReason::ToolCalls,
            other => other,
        }
    }
}

impl Decode for Decoder {
    fn accept(&mut self, frame: &SseFrame, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        self.chunk(&frame.data, out)
    }

    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), FrameFault> {
        self.chunk(json, out)?;
        if self.recognised {
            return Ok(());
        }
        Err(FrameFault::Malformed("the JSON answer is no chat completion".to_owned()))
    }

    fn end(&mut self, out: &mut Events) -> Result<(), String> {
        if self.finish.is_none() && !(self.done && self.produced) {
            return Err("it ended without a finish reason".to_owned());
        }
        self.close(out);
        self.calls.settle_all(out);
        let metadata = json!({METADATA: {"id": self.id, "model": self.model, "finish_reason": self.finish}});
        out.push_back(StreamEvent::StepFinish {
            reason: self.reason(),
            usage: self.usage,
            metadata: Some(metadata),
        });
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        data.trim() == DONE || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
    }
}

/// A frame that is not a chunk is an error in the form of some servers, or nonsense.
fn unreadable(data: &str, cause: &serde_json::Error) -> FrameFault {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let object = value.get(0).unwrap_or(&value);
    if object.get("error").is_some_and(|error| !error.is_null()) {
        return FrameFault::Provider(object.to_string());
    }
    FrameFault::Malformed(format!("a frame is not a chat completion chunk: {cause}"))
}

fn detail_text(detail: &Value) -> Option<&str> {
    ["text", "summary"].into_iter().find_map(|name| detail.get(name)?.as_str())
}

/// Adds a piece of a reasoning detail to the one it continues, or appends it.
fn merge(details: &mut Vec<Value>, piece: Value) {
    let same = |a: &Value, b: &Value| {
        detail_text(a).is_some()
            && ["type", "index"].into_iter().all(|name| a.get(name).is_some() && a.get(name) == b.get(name))
    };
    let (Some(last), Value::Object(fields)) = (details.last_mut().filter(|last| same(last, &piece)), &piece)
    else {
        details.push(piece);
        return;
    };
    for (name, value) in fields {
        match (last.get_mut(name), value) {
            (Some(Value::String(all)), Value::String(more)) if name == "text" || name == "summary" => {
                all.push_str(more);
            }
            (_, Value::Null) => {}
            (Some(slot), _) => *slot = value.clone(),
            (None, _) => {
                if let Some(target) = last.as_object_mut() {
                    target.insert(name.clone(), value.clone());
                }
            }
        }
    }
}
