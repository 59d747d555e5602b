//! Frames of a `generateContent` answer into events.
//!
//! Every frame is an answer of its own with the parts that are new. Text parts of one kind that follow each other are
//! one block; a signature ends the block it belongs to. A call comes whole. There is no terminal frame, and older
//! models name a finish reason in every frame: the answer is complete if one was named by the time the body ends.

use std::borrow::Cow;
use std::collections::HashSet;

use everturn_sse::SseFrame;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::METADATA;
use super::wire::{AnswerFrame, Candidate, GeminiPart, TokenCounts};
use crate::protocol::text::{LooseText, WireText};
use crate::protocol::{Decode, DecodeProgress, Events, FrameFault};
use crate::{FinishReason, StreamEvent, Usage, arguments};

/// The name of the tool that runs code at the provider.
const CODE: &str = "code_execution";

/// The name under which pictures and sound that the model made are kept.
const MEDIA: &str = "inline_data";

/// The state of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    open: Option<OpenBlock>,
    blocks: usize,
    prefix: String,
    ids: HashSet<String>,
    /// How many ids were made here.
    made: usize,
    called: bool,
    /// The run of code whose result is still to come.
    running: Option<String>,
    finish: Option<String>,
    blocked: bool,
    recognised: bool,
    counts: TokenCounts,
    /// What was told of them.
    told: Usage,
    /// What is said about the whole answer, as the provider names it.
    about: Map<String, Value>,
}

#[derive(Debug)]
struct OpenBlock {
    id: String,
    is_thought: bool,
}

impl Decoder {
    /// `prefix` begins the ids of calls that come without one.
    pub(super) fn new(prefix: String) -> Self {
        let about = ["responseId", "modelVersion", "finishReason"];
        Self {
            open: None,
            blocks: 0,
            prefix,
            ids: HashSet::new(),
            made: 0,
            called: false,
            running: None,
            finish: None,
            blocked: false,
            recognised: false,
            counts: TokenCounts::default(),
            told: Usage::default(),
            about: about.into_iter().map(|name| (name.to_owned(), Value::Null)).collect(),
        }
    }

    /// Takes a frame, or a list of frames.
    fn take(&mut self, data: &str, out: &mut Events) -> Result<(), FrameFault> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if !data.starts_with('[') {
            return self.frame(data, out);
        }
        let frames: Vec<&RawValue> = serde_json::from_str(data).map_err(|cause| unreadable(&cause))?;
        frames.into_iter().try_for_each(|frame| self.frame(frame.get(), out))
    }

    fn frame(&mut self, frame: &str, out: &mut Events) -> Result<(), FrameFault> {
        let answer: AnswerFrame<'_> = serde_json::from_str(frame).map_err(|cause| unreadable(&cause))?;
        if answer.error.is_some_and(|error| error.is_object() || error.is_string()) {
            return Err(FrameFault::Provider(frame.to_owned()));
        }
        self.recognised |= answer.candidates.is_some()
            || answer.prompt_feedback.is_some()
            || answer.usage_metadata.is_some();
        self.name("responseId", answer.response_id);
        self.name("modelVersion", answer.model_version);
        if let Some(counts) = answer.usage_metadata {
            self.counts.update(counts);
        }
        let blocked = answer
            .prompt_feedback
            .filter(|feedback| feedback.get("blockReason").is_some_and(Value::is_string));
        self.blocked |= blocked.is_some();
        self.note("promptFeedback", blocked.map(|feedback| *feedback));
        let candidates = answer.candidates.unwrap_or_default();
        for candidate in candidates.into_iter().filter(|candidate| candidate.index.unwrap_or(0) == 0) {
            self.candidate(candidate, out);
        }
        let usage = Usage::from(&self.counts);
        if self.finish.is_none() && std::mem::replace(&mut self.told, usage) != usage {
            out.push_back(StreamEvent::Usage(usage));
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: Candidate<'_>, out: &mut Events) {
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(part, out);
        }
        let named = |reason: &String| !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED";
        if let Some(reason) = candidate.finish_reason.filter(named) {
            self.note("finishReason", Some(json!(reason)));
            self.finish = Some(reason);
        }
        self.note("finishMessage", candidate.finish_message.map(Value::from));
        self.note("groundingMetadata", candidate.grounding_metadata.map(|metadata| *metadata));
        if let Some(Value::Object(citations)) = candidate.citation_metadata.map(|metadata| *metadata) {
            self.cite(citations);
        }
    }

    fn note(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            self.about.insert(name.to_owned(), value);
        }
    }

    /// Notes a text, which nearly always is the same in all frames.
    fn name(&mut self, name: &str, said: Option<WireText<'_>>) {
        if let Some(WireText(text)) = said
            && self.about.get(name).is_none_or(|known| known != &*text)
        {
            self.about.insert(name.to_owned(), Value::String(text.into_owned()));
        }
    }

    /// Adds citations: each frame has those of its own text.
    fn cite(&mut self, more: Map<String, Value>) {
        let known = self.about.entry("citationMetadata").or_insert_with(|| json!({}));
        let Some(known) = known.as_object_mut() else { return };
        for (name, value) in more {
            match (known.get_mut(&name), value) {
                (Some(Value::Array(listed)), Value::Array(more)) => listed.extend(more),
                (_, value) => {
                    known.insert(name, value);
                }
            }
        }
    }

    /// One part. Those of an unknown kind are passed over.
    fn part(&mut self, raw: &RawValue, out: &mut Events) {
        let Ok(part) = serde_json::from_str::<GeminiPart<'_>>(raw.get()) else { return };
        let signature = part.thought_signature.and_then(LooseText::text).filter(|text| !text.is_empty());
        if let Some(call) = part.function_call {
            self.call(&call, signature.as_deref(), out);
        } else if let Some(code) = part.executable_code {
            self.close(None, out);
            let id = self.id_of(&code);
            self.running = Some(id.clone());
            let metadata = Some(verbatim(raw));
            out.push_back(StreamEvent::HostedCall { id, name: CODE.into(), input: *code, metadata });
        } else if let Some(output) = part.code_execution_result {
            self.close(None, out);
            let id = self.id_of_run(&output);
            let is_error = output.get("outcome").is_none_or(|outcome| outcome != "OUTCOME_OK");
            let metadata = Some(verbatim(raw));
            out.push_back(StreamEvent::HostedResult {
                id,
                name: CODE.into(),
                output: *output,
                is_error,
                metadata,
            });
        } else if let Some(output) = part.inline_data {
            self.close(None, out);
            let id = self.fresh_id();
            let name = MEDIA.to_owned();
            let input = json!({"mimeType": output.get("mimeType")});
            // A result needs a call to belong to. This one is not replayed: the part is the result.
            out.push_back(StreamEvent::HostedCall {
                id: id.clone(),
                name: name.clone(),
                input,
                metadata: None,
            });
            let metadata = Some(verbatim(raw));
            out.push_back(StreamEvent::HostedResult { id, name, output: *output, is_error: false, metadata });
        } else if let Some(text) = part.text.and_then(LooseText::text) {
            let is_thought = part.thought == Some(LooseText::Other(json!(true)));
            self.text(text, is_thought, signature.as_deref(), out);
        } else if signature.is_some() {
            self.text(Cow::Borrowed(""), false, signature.as_deref(), out);
        }
    }

    fn text(&mut self, text: Cow<'_, str>, is_thought: bool, signature: Option<&str>, out: &mut Events) {
        if text.is_empty() && signature.is_none() {
            return;
        }
        let continues = self.open.as_ref().is_some_and(|open| open.is_thought == is_thought);
        if !continues {
            self.close(None, out);
            // A signature on its own: an empty text would not be kept, but an empty thought is.
            let silent = text.is_empty() && !is_thought;
            self.begin(is_thought || silent, out);
            if silent {
                return self
                    .close(signature.map(|text| json!({"thoughtSignature": text, "silent": true})), out);
            }
        }
        if let Some(OpenBlock { id, is_thought }) = self.open.as_ref().filter(|_| !text.is_empty()) {
            let (id, text) = (id.clone(), text.into_owned());
            out.push_back(if *is_thought {
                StreamEvent::ReasoningDelta { id, text }
            } else {
                StreamEvent::TextDelta { id, text }
            });
        }
        if let Some(signature) = signature {
            self.close(Some(json!({"thoughtSignature": signature})), out);
        }
    }

    fn begin(&mut self, is_thought: bool, out: &mut Events) {
        let id = format!("{}-{}", if is_thought { "reasoning" } else { "text" }, self.blocks);
        self.blocks = self.blocks.saturating_add(1);
        out.push_back(if is_thought {
            StreamEvent::ReasoningStart { id: id.clone() }
        } else {
            StreamEvent::TextStart { id: id.clone() }
        });
        self.open = Some(OpenBlock { id, is_thought });
    }

    /// Ends the open block, if there is one. `own` is what this protocol wants back with it.
    fn close(&mut self, own: Option<Value>, out: &mut Events) {
        let Some(OpenBlock { id, is_thought }) = self.open.take() else { return };
        let metadata = own.map(|own| json!({METADATA: own}));
        out.push_back(if is_thought {
            StreamEvent::ReasoningEnd { id, metadata }
        } else {
            StreamEvent::TextEnd { id, metadata }
        });
    }

    fn call(&mut self, call: &Value, signature: Option<&str>, out: &mut Events) {
        self.close(None, out);
        self.called = true;
        let id = self.id_of(call);
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let raw = match call.get("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(args) => args.to_string(),
        };
        out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: raw.clone() });
        out.push_back(StreamEvent::ToolInputEnd { id: id.clone() });
        let input =
            if name.is_empty() { Err("the call names no tool".to_owned()) } else { arguments::parse(&raw) };
        out.push_back(match input {
            Ok(input) => {
                let mut own = Map::new();
                // Whether the id is the provider's: only then it wants it back.
                if call.get("id").and_then(Value::as_str) == Some(id.as_str()) {
                    own.insert("id".into(), json!(id));
                }
                own.extend(signature.map(|text| ("thoughtSignature".to_owned(), json!(text))));
                let metadata = (!own.is_empty()).then(|| json!({METADATA: own}));
                StreamEvent::ToolCall { id, name, input, raw, metadata }
            }
            Err(reason) => StreamEvent::ToolCallMalformed { id, name, raw, reason },
        });
    }

    /// The id that the provider gave, or a new one if there is none or it was used before.
    fn id_of(&mut self, call: &Value) -> String {
        let given = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        match given {
            Some(id) if self.ids.insert(id.to_owned()) => id.to_owned(),
            _ => self.fresh_id(),
        }
    }

    /// The run that a result belongs to: the one that it names, or the last one without a result.
    fn id_of_run(&mut self, result: &Value) -> String {
        let running = self.running.take();
        let named = result.get("id").and_then(Value::as_str).filter(|id| self.ids.contains(*id));
        match named.map(str::to_owned).or(running) {
            Some(id) => id,
            None => self.fresh_id(),
        }
    }

    fn fresh_id(&mut self) -> String {
        let id = format!("{}_{}", self.prefix, self.made);
        self.made = self.made.saturating_add(1);
        id
    }

    /// A call that the provider could not read is its failure: nothing of it arrives, so nobody else can repair it.
    fn reason(&self) -> FinishReason {
        match self.finish.as_deref() {
            Some("STOP") if self.called => FinishReason::ToolCalls,
            Some("STOP") => FinishReason::Stop,
            Some("MAX_TOKENS") => FinishReason::Length,
            Some(
                "SAFETY"
                | "RECITATION"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION",
            ) => FinishReason::ContentFilter,
            Some(
                "MALFORMED_FUNCTION_CALL"
                | "UNEXPECTED_TOOL_CALL"
                | "TOO_MANY_TOOL_CALLS"
                | "MALFORMED_RESPONSE"
                | "MISSING_THOUGHT_SIGNATURE",
            ) => FinishReason::Error,
            None if self.blocked => FinishReason::ContentFilter,
            _ => FinishReason::Unknown,
        }
    }
}

impl Decode for Decoder {
    fn accept(&mut self, frame: &SseFrame, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        self.take(&frame.data, out)?;
        Ok(DecodeProgress::More)
    }

    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), FrameFault> {
        self.take(json, out)?;
        if self.recognised {
            return Ok(());
        }
        Err(FrameFault::Malformed("the JSON answer is no generated answer".to_owned()))
    }

    fn end(&mut self, out: &mut Events) -> Result<(), String> {
        if self.finish.is_none() && !self.blocked {
            return Err("it ended without a finish reason".to_owned());
        }
        self.close(None, out);
        let metadata = json!({METADATA: std::mem::take(&mut self.about)});
        out.push_back(StreamEvent::StepFinish {
            reason: self.reason(),
            usage: Usage::from(&self.counts),
            metadata: Some(metadata),
        });
        Ok(())
    }
}

fn unreadable(cause: &serde_json::Error) -> FrameFault {
    FrameFault::Malformed(format!("a frame is not a generated answer: {cause}"))
}

/// A part that has to come back as it is.
fn verbatim(part: &RawValue) -> Value {
    let part = serde_json::from_str::<Value>(part.get()).unwrap_or_default();
    json!({METADATA: {"part": part}})
}
