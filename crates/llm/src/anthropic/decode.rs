//! Events of a Messages answer into ours.
//!
//! The answer is a list of content blocks, each opened, filled and closed by events that name its index. An answer that
//! comes in one piece is read as blocks that are complete when they open, so both ways give the same. The answer is
//! complete with `message_stop` and not before. The protocol grows: events, blocks and deltas that are not known here
//! are passed over.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use everturn_sse::SseFrame;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::METADATA;
use super::wire::{
    BlockDelta, BlockStart, BlockStop, DeltaContent, JsonFields, MessageDelta, MessageStart, TokenCounts,
    text,
};
use crate::protocol::{Decode, DecodeProgress, Events, FrameFault};
use crate::{FinishReason, StreamEvent, Usage, arguments};

/// The name of a frame with more of a block.
const DELTA: &str = "content_block_delta";

/// The state of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    open: BTreeMap<u64, OpenBlock>,
    /// Begins the ids of tool calls that come without one.
    call_prefix: String,
    called: bool,
    /// Names of the provider's own tools, by call id: a result does not repeat them.
    hosted: HashMap<String, String>,
    about: JsonFields,
    counts: TokenCounts,
    stopped: bool,
}

/// A block that has begun.
#[derive(Debug)]
enum OpenBlock {
    /// It is announced with its first word, for some have none.
    Text {
        id: String,
        announced: bool,
        citations: Vec<Value>,
    },
    Thinking {
        id: String,
        signature: String,
    },
    Call {
        id: String,
        name: String,
        raw: String,
        given: Option<Value>,
        fields: JsonFields,
    },
    Hosted {
        block: JsonFields,
        raw: String,
    },
    /// Nothing more is expected of it.
    Passed,
}

impl Decoder {
    /// `call_prefix` begins the ids of tool calls that come without one.
    pub(super) fn new(call_prefix: String) -> Self {
        Self {
            open: BTreeMap::new(),
            call_prefix,
            called: false,
            hosted: HashMap::new(),
            about: JsonFields::new(),
            counts: TokenCounts::default(),
            stopped: false,
        }
    }

    fn event(&mut self, event: Value, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => {
                self.note(read::<MessageStart>(event)?.message);
                self.tell(out);
            }
            "content_block_start" => {
                let start: BlockStart = read(event)?;
                self.begin(start.index, start.content_block, out);
            }
            // One that could not be read is nonsense, unless its kind is new.
            DELTA if !is_new(&event) => {
                return Err(FrameFault::Malformed("a content block delta is not in the protocol".to_owned()));
            }
            "content_block_stop" => {
                let stop: BlockStop = read(event)?;
                self.close(stop.index, out);
            }
            "message_delta" => {
                let more: MessageDelta = read(event)?;
                self.note(more.delta.unwrap_or_default());
                self.counts.update(more.usage.unwrap_or_default());
                self.tell(out);
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(DecodeProgress::Done);
            }
            _ => {}
        }
        Ok(DecodeProgress::More)
    }

    /// Tells what was counted so far, if there is anything.
    fn tell(&self, out: &mut Events) {
        let (usage, _) = self.counts.split();
        if usage != Usage::default() {
            out.push_back(StreamEvent::Usage(usage));
        }
    }

    /// Keeps what is said about the answer as a whole; what comes later wins.
    fn note(&mut self, mut said: JsonFields) {
        if let Some(Value::Object(usage)) = said.remove("usage") {
            self.counts.update(usage);
        }
        let content = ["type", "role", "content"];
        let kept =
            said.into_iter().filter(|(name, value)| !value.is_null() && !content.contains(&name.as_str()));
        self.about.extend(kept);
    }

    fn begin(&mut self, index: u64, block: JsonFields, out: &mut Events) {
        // A server that does not close its blocks.
        self.close(index, out);
        let open = match text(&block, "type") {
            "text" => {
                let citations = block.get("citations").and_then(Value::as_array).cloned();
                let id = format!("text-{index}");
                let mut open =
                    OpenBlock::Text { id, announced: false, citations: citations.unwrap_or_default() };
                open.say(text(&block, "text").into(), out);
                open
            }
            "thinking" => {
                let id = format!("reasoning-{index}");
                out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
                let mut open = OpenBlock::Thinking { id, signature: text(&block, "signature").to_owned() };
                open.think(text(&block, "thinking").into(), out);
                open
            }
            "redacted_thinking" => {
                let id = format!("reasoning-{index}");
                let metadata = json!({METADATA: {"redacted": text(&block, "data")}});
                out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
                out.push_back(StreamEvent::ReasoningEnd { id, metadata: Some(metadata) });
                OpenBlock::Passed
            }
            "tool_use" => self.begin_call(index, block, out),
            "server_tool_use" | "mcp_tool_use" => OpenBlock::Hosted { block, raw: String::new() },
            kind if kind.ends_with("_tool_result") => {
                self.hosted_result(kind, &block, out);
                OpenBlock::Passed
            }
            _ => OpenBlock::Passed,
        };
        self.open.insert(index, open);
    }

    fn begin_call(&mut self, index: u64, mut block: JsonFields, out: &mut Events) -> OpenBlock {
        self.called = true;
        let mut id = text(&block, "id").to_owned();
        if id.is_empty() {
            id = format!("{}_{index}", self.call_prefix);
        }
        let name = text(&block, "name").to_owned();
        out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        let given =
            block.remove("input").filter(|input| input.as_object().is_some_and(|all| !all.is_empty()));
        let caller = block.get("caller").and_then(|caller| caller.get("type")?.as_str());
        let direct = caller == Some("direct");
        // What remains has to come back with the call. That the model called it itself goes without saying.
        block.retain(|name, value| {
            let known = matches!(name.as_str(), "type" | "id" | "name") || (direct && name == "caller");
            !known && !value.is_null()
        });
        OpenBlock::Call { id, name, raw: String::new(), given, fields: block }
    }

    fn hosted_result(&mut self, kind: &str, block: &JsonFields, out: &mut Events) {
        let id = text(block, "tool_use_id").to_owned();
        let unnamed = || kind.strip_suffix("_tool_result").unwrap_or(kind).to_owned();
        let name = self.hosted.get(&id).cloned().unwrap_or_else(unnamed);
        let output = block.get("content").cloned().unwrap_or_default();
        let failed = output.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("_error"));
        let is_error = failed || block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let metadata = Some(json!({METADATA: {"block": block}}));
        out.push_back(StreamEvent::HostedResult { id, name, output, is_error, metadata });
    }

    /// Takes a `content_block_delta`; `None` if the frame is another one.
    fn delta(&mut self, data: &str, out: &mut Events) -> Option<Result<(), FrameFault>> {
        let frame: BlockDelta<'_> = serde_json::from_str(data).ok()?;
        if &*frame.kind != DELTA || frame.error.is_some() {
            return None;
        }
        Some(match frame.delta.more() {
            Some(more) => self.extend(frame.index, more, out),
            None => {
                Err(FrameFault::Malformed(format!("a delta of content block {} adds nothing", frame.index)))
            }
        })
    }

    fn extend(&mut self, index: u64, delta: DeltaContent<'_>, out: &mut Events) -> Result<(), FrameFault> {
        let Some(open) = self.open.get_mut(&index) else {
            return Err(FrameFault::Malformed(format!("content block {index} goes on without having begun")));
        };
        match (open, delta) {
            (open @ OpenBlock::Text { .. }, DeltaContent::Text(text)) => open.say(text, out),
            (OpenBlock::Text { citations, .. }, DeltaContent::Citation(citation)) => citations.push(citation),
            (open @ OpenBlock::Thinking { .. }, DeltaContent::Thinking(text)) => open.think(text, out),
            (OpenBlock::Thinking { signature, .. }, DeltaContent::Signature(more)) => {
                signature.push_str(&more);
            }
            (OpenBlock::Call { id, raw, .. }, DeltaContent::Input(more)) => {
                raw.push_str(&more);
                if !more.is_empty() {
                    out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: more.into_owned() });
                }
            }
            (OpenBlock::Hosted { raw, .. }, DeltaContent::Input(more)) => raw.push_str(&more),
            (OpenBlock::Passed, _) | (_, DeltaContent::Unknown) => {}
            (_, delta) => {
                return Err(FrameFault::Malformed(format!("content block {index} cannot take {delta:?}")));
            }
        }
        Ok(())
    }

    fn close(&mut self, index: u64, out: &mut Events) {
        match self.open.remove(&index) {
            None | Some(OpenBlock::Passed) => {}
            Some(OpenBlock::Text { id, announced, citations }) => {
                if announced {
                    let cited = !citations.is_empty();
                    let metadata = cited.then(|| json!({METADATA: {"citations": citations}}));
                    out.push_back(StreamEvent::TextEnd { id, metadata });
                }
            }
            Some(OpenBlock::Thinking { id, signature }) => {
                let signed = !signature.is_empty();
                let metadata = signed.then(|| json!({METADATA: {"signature": signature}}));
                out.push_back(StreamEvent::ReasoningEnd { id, metadata });
            }
            Some(OpenBlock::Call { id, name, raw, given, fields }) => {
                let raw = whole_input(raw, given, &id, out);
                out.push_back(StreamEvent::ToolInputEnd { id: id.clone() });
                let input = if name.is_empty() {
                    Err("the call names no tool".to_owned())
                } else {
                    arguments::parse(&raw)
                };
                out.push_back(match input {
                    Ok(input) => {
                        let metadata = (!fields.is_empty()).then(|| json!({METADATA: {"fields": fields}}));
                        StreamEvent::ToolCall { id, name, input, raw, metadata }
                    }
                    Err(reason) => StreamEvent::ToolCallMalformed { id, name, raw, reason },
                });
            }
            Some(OpenBlock::Hosted { mut block, raw }) => {
                if !raw.is_empty() {
                    block.insert("input".into(), arguments::parse(&raw).unwrap_or_else(|_| json!({})));
                }
                let id = text(&block, "id").to_owned();
                let name = text(&block, "name").to_owned();
                let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
                self.hosted.insert(id.clone(), name.clone());
                let metadata = Some(json!({METADATA: {"block": block}}));
                out.push_back(StreamEvent::HostedCall { id, name, input, metadata });
            }
        }
    }

    fn reason(&self) -> FinishReason {
        let reason = match text(&self.about, "stop_reason") {
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "pause_turn" => FinishReason::Paused,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "tool_use" => FinishReason::ToolCalls,
            "refusal" => FinishReason::ContentFilter,
            _ => FinishReason::Unknown,
        };
        match reason {
            // Other makers' servers do not always say that the model waits for its tools.
            FinishReason::Stop | FinishReason::Paused | FinishReason::Unknown if self.called => {
                FinishReason::ToolCalls
            }
            other => other,
        }
    }
}

impl Decode for Decoder {
    fn accept(&mut self, frame: &SseFrame, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(DecodeProgress::More);
        }
        if let Some(taken) = self.delta(data, out) {
            return taken.map(|()| DecodeProgress::More);
        }
        self.event(parse(data)?, out)
    }

    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), FrameFault> {
        let Value::Object(mut message) = parse(json.trim())? else {
            return Err(FrameFault::Malformed("the JSON answer is no object".to_owned()));
        };
        let Some(Value::Array(blocks)) = message.remove("content") else {
            return Err(FrameFault::Malformed("the JSON answer is no message".to_owned()));
        };
        self.note(message);
        for (index, block) in (0..).zip(blocks) {
            if let Value::Object(block) = block {
                self.begin(index, block, out);
                self.close(index, out);
            }
        }
        self.stopped = true;
        Ok(())
    }

    fn end(&mut self, out: &mut Events) -> Result<(), String> {
        if !self.stopped {
            return Err("it ended without a message_stop".to_owned());
        }
        while let Some(index) = self.open.keys().next().copied() {
            self.close(index, out);
        }
        let (usage, details) = self.counts.split();
        let mut about = JsonFields::new();
        for name in ["id", "model", "stop_reason", "stop_sequence"] {
            about.insert(name.into(), Value::Null);
        }
        about.extend(self.about.clone());
        if !details.is_empty() {
            about.insert("usage".into(), Value::Object(details));
        }
        let metadata = Some(json!({METADATA: about}));
        out.push_back(StreamEvent::StepFinish { reason: self.reason(), usage, metadata });
        Ok(())
    }
}

impl OpenBlock {
    fn say(&mut self, more: Cow<'_, str>, out: &mut Events) {
        let Self::Text { id, announced, .. } = self else { return };
        if more.is_empty() {
            return;
        }
        if !std::mem::replace(announced, true) {
            out.push_back(StreamEvent::TextStart { id: id.clone() });
        }
        out.push_back(StreamEvent::TextDelta { id: id.clone(), text: more.into_owned() });
    }

    fn think(&mut self, more: Cow<'_, str>, out: &mut Events) {
        let Self::Thinking { id, .. } = self else { return };
        if !more.is_empty() {
            out.push_back(StreamEvent::ReasoningDelta { id: id.clone(), text: more.into_owned() });
        }
    }
}

/// The arguments as text: as they were streamed, or else as they stood in the block from its beginning.
fn whole_input(raw: String, given: Option<Value>, id: &str, out: &mut Events) -> String {
    match given {
        Some(given) if raw.is_empty() => {
            let text = given.to_string();
            out.push_back(StreamEvent::ToolInputDelta { id: id.to_owned(), text: text.clone() });
            text
        }
        _ => raw,
    }
}

/// JSON that is not an error of the provider's.
fn parse(data: &str) -> Result<Value, FrameFault> {
    let value: Value = serde_json::from_str(data)
        .map_err(|cause| FrameFault::Malformed(format!("an event is not JSON: {cause}")))?;
    let failed = value.get("error").is_some_and(|error| !error.is_null());
    if failed || value.get("type").is_some_and(|kind| kind == "error") {
        return Err(FrameFault::Provider(data.to_owned()));
    }
    Ok(value)
}

/// Whether a delta is of a kind that is not known here.
fn is_new(event: &Value) -> bool {
    let kind = event.get("delta").and_then(|delta| delta.get("type")?.as_str());
    let known = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"];
    kind.is_some_and(|kind| !known.contains(&kind))
}

fn read<T: DeserializeOwned>(event: Value) -> Result<T, FrameFault> {
    serde_json::from_value(event)
        .map_err(|cause| FrameFault::Malformed(format!("an event is not in the protocol: {cause}")))
}
