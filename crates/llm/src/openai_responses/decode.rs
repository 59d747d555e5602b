//! Frames of a Responses answer into events.
//!
//! The terminal frame carries the whole answer again. It is used to fill in what the stream left out, so an answer
//! that came as one object is simply a terminal frame without a stream before it.

use std::borrow::Cow;

use everturn_sse::SseFrame;
use serde_json::{Value, json};

use super::METADATA;
use super::items::{OutputItems, Section};
use super::wire::{FrameKind, ResponseFrame, ResponseInfo, text};
use crate::protocol::text::WireText;
use crate::protocol::{Decode, DecodeProgress, Events, FrameFault};
use crate::{FinishReason, StreamEvent, Usage};

/// The frame that some servers send last.
const DONE: &str = "[DONE]";

/// The state of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    items: OutputItems,
    ending: Option<AnswerEnding>,
    usage: Usage,
    id: Option<String>,
    model: Option<String>,
    service_tier: Option<String>,
}

/// How the provider said that the answer ended.
#[derive(Debug)]
struct AnswerEnding {
    status: String,
    incomplete: Option<String>,
}

impl Decoder {
    /// `prefix` begins the ids of calls that come without one.
    pub(super) fn new(prefix: String) -> Self {
        Self {
            items: OutputItems::new(prefix),
            ending: None,
            usage: Usage::default(),
            id: None,
            model: None,
            service_tier: None,
        }
    }

    fn notice(&mut self, data: &str, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        let mut notice: ResponseFrame<'_> = match serde_json::from_str(data) {
            Ok(notice) => notice,
            Err(cause) => return unreadable(data, &cause),
        };
        let Some(name) = &notice.kind else { return untyped(data) };
        let Some(kind) = FrameKind::of(name) else { return Ok(DecodeProgress::More) };
        match kind {
            FrameKind::ItemAdded => {
                let (place, item) = notice.whole().ok_or_else(no_item)?;
                self.items.added(place, item, out);
            }
            FrameKind::ItemDone => {
                let (place, item) = notice.whole().ok_or_else(no_item)?;
                self.items.done(place, item, out);
            }
            FrameKind::Begun | FrameKind::Completed | FrameKind::Incomplete | FrameKind::Failed => {
                let response = notice.response.take().unwrap_or_default();
                match kind {
                    FrameKind::Completed => return self.conclude(&response, "completed", out),
                    FrameKind::Incomplete => return self.conclude(&response, "incomplete", out),
                    FrameKind::Failed => return Err(failure(&response)),
                    _ => {
                        self.learn(&response);
                        if let Some(counts) = &response.usage {
                            out.push_back(StreamEvent::Usage(Usage::from(counts)));
                        }
                    }
                }
            }
            FrameKind::Error => return Err(FrameFault::Provider(data.to_owned())),
            piece => self.piece(piece, notice, out),
        }
        Ok(DecodeProgress::More)
    }

    fn piece(&mut self, kind: FrameKind, mut piece: ResponseFrame<'_>, out: &mut Events) {
        let items = &mut self.items;
        let delta = said(piece.delta.take());
        let whole = said(piece.text.take());
        match kind {
            FrameKind::TextDelta => items.text(piece.place(), piece.content(), false, delta, out),
            FrameKind::RefusalDelta => items.text(piece.place(), piece.content(), true, delta, out),
            FrameKind::TextDone => items.whole_text(piece.place(), piece.content(), false, &whole, out),
            FrameKind::RefusalDone => {
                let whole = said(piece.refusal.take());
                items.whole_text(piece.place(), piece.content(), true, &whole, out);
            }
            FrameKind::PartDone => {
                let part = piece.part.as_deref().unwrap_or(&Value::Null);
                items.whole_part(piece.place(), piece.content(), part, out);
            }
            FrameKind::Annotation => {
                items.annotate(piece.place(), piece.content(), piece.annotation.as_deref());
            }
            FrameKind::SummaryDelta => {
                items.thought(piece.place(), Section::Summary(piece.summary()), delta, out);
            }
            FrameKind::SummaryDone => {
                items.whole_thought(piece.place(), Section::Summary(piece.summary()), &whole, out);
            }
            FrameKind::SummaryPartDone => {
                let whole = piece.part.as_deref().and_then(|part| text(part, "text")).unwrap_or_default();
                items.whole_thought(piece.place(), Section::Summary(piece.summary()), whole, out);
            }
            FrameKind::ThoughtDelta => {
                items.thought(piece.place(), Section::Content(piece.content()), delta, out);
            }
            FrameKind::ThoughtDone => {
                items.whole_thought(piece.place(), Section::Content(piece.content()), &whole, out);
            }
            FrameKind::ArgumentsDelta => items.arguments(piece.place(), delta, out),
            FrameKind::ArgumentsDone => {
                items.whole_arguments(piece.place(), piece.name.as_deref(), piece.arguments.as_deref(), out);
            }
            // The rest is about the whole answer.
            _ => {}
        }
    }

    fn learn(&mut self, response: &ResponseInfo) {
        let keep = |slot: &mut Option<String>, new: &Option<String>| {
            if new.is_some() {
                slot.clone_from(new);
            }
        };
        keep(&mut self.id, &response.id);
        keep(&mut self.model, &response.model);
        keep(&mut self.service_tier, &response.service_tier);
    }

    /// Takes the terminal frame. Its kind says how the answer ended, unless the answer itself has worse to tell.
    fn conclude(
        &mut self,
        response: &ResponseInfo,
        kind: &str,
        out: &mut Events,
    ) -> Result<DecodeProgress, FrameFault> {
        let status = match response.status.as_deref() {
            Some("failed") => return Err(failure(response)),
            Some("incomplete") => "incomplete",
            _ => kind,
        };
        self.learn(response);
        if let Some(counts) = &response.usage {
            self.usage = Usage::from(counts);
        }
        let details = response.incomplete_details.as_ref();
        let incomplete = details.and_then(|details| text(details, "reason")).map(str::to_owned);
        self.items.settle(response.output.as_deref().unwrap_or_default(), status == "incomplete", out);
        self.ending = Some(AnswerEnding { status: status.to_owned(), incomplete });
        Ok(DecodeProgress::Done)
    }

    fn reason(&self, ending: &AnswerEnding) -> FinishReason {
        match (ending.status.as_str(), ending.incomplete.as_deref()) {
            ("incomplete", Some("max_output_tokens")) => FinishReason::Length,
            ("incomplete", Some("content_filter")) => FinishReason::ContentFilter,
            ("completed", _) if self.items.has_calls() => FinishReason::ToolCalls,
            ("completed", _) => FinishReason::Stop,
            _ => FinishReason::Unknown,
        }
    }
}

impl Decode for Decoder {
    fn accept(&mut self, frame: &SseFrame, out: &mut Events) -> Result<DecodeProgress, FrameFault> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(DecodeProgress::More);
        }
        if data == DONE {
            return Ok(DecodeProgress::Done);
        }
        self.notice(data, out)
    }

    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), FrameFault> {
        let response: ResponseInfo = serde_json::from_str(json)
            .map_err(|cause| FrameFault::Malformed(format!("the JSON answer is no response: {cause}")))?;
        if response.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(failure(&response));
        }
        if response.output.is_none() && response.object.as_deref() != Some("response") {
            return Err(FrameFault::Malformed("the JSON answer is no response".to_owned()));
        }
        // An answer that is still being made, or was given up, has no end yet.
        if !matches!(response.status.as_deref(), Some("in_progress" | "queued" | "cancelled")) {
            self.conclude(&response, "completed", out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Events) -> Result<(), String> {
        let Some(ending) = &self.ending else {
            return Err("it ended without its terminal event".to_owned());
        };
        let metadata = json!({METADATA: {
            "id": self.id,
            "model": self.model,
            "status": ending.status,
            "incomplete_reason": ending.incomplete,
            "service_tier": self.service_tier,
        }});
        let reason = self.reason(ending);
        out.push_back(StreamEvent::StepFinish { reason, usage: self.usage, metadata: Some(metadata) });
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        data.trim() == DONE || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
    }
}

fn said(text: Option<WireText<'_>>) -> Cow<'_, str> {
    text.map_or(Cow::Borrowed(""), |WireText(text)| text)
}

fn no_item() -> FrameFault {
    FrameFault::Malformed("a frame about an item has none".to_owned())
}

fn failure(response: &ResponseInfo) -> FrameFault {
    let error = response.error.clone().filter(|error| !error.is_null());
    let error = error.unwrap_or_else(|| json!({"message": "the provider gave up without a reason"}));
    FrameFault::Provider(json!({"error": error}).to_string())
}

/// A frame without a type is an error object from some servers, and else of no concern.
fn untyped(data: &str) -> Result<DecodeProgress, FrameFault> {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let object = value.get(0).unwrap_or(&value);
    if object.get("error").is_some_and(|error| error.is_object() || error.is_string()) {
        return Err(FrameFault::Provider(object.to_string()));
    }
    Ok(DecodeProgress::More)
}

/// A frame of a kind that this protocol knows and that still cannot be read is nonsense, and so is one that is no
/// object.
fn unreadable(data: &str, cause: &serde_json::Error) -> Result<DecodeProgress, FrameFault> {
    untyped(data)?;
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let known =
        value.get("type").is_some_and(|kind| kind.as_str().is_none_or(|name| FrameKind::of(name).is_some()));
    if value.is_object() && !known {
        return Ok(DecodeProgress::More);
    }
    Err(FrameFault::Malformed(format!("a frame is no event of a response: {cause}")))
}
