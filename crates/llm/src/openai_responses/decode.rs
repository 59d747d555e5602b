//! Frames of a Responses answer into events.
//!
//! The terminal frame carries the whole answer again. It is used to fill in what the stream left out, so an answer
//! that came as one object is simply a terminal frame without a stream before it.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::METADATA;
use super::items::{Items, Section};
use super::wire::{Kind, Notice, Response, text};
use crate::protocol::text::Text;
use crate::protocol::{Decode, Events, Fault, Progress};
use crate::sse::Frame;
use crate::{Event, FinishReason, Usage};

/// The frame that some servers send last.
const DONE: &str = "[DONE]";

/// The state of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    items: Items,
    ending: Option<Ending>,
    usage: Usage,
    id: Option<String>,
    model: Option<String>,
    service_tier: Option<String>,
}

/// How the provider said that the answer ended.
#[derive(Debug)]
struct Ending {
    status: String,
    incomplete: Option<String>,
}

impl Decoder {
    /// `prefix` begins the ids of calls that come without one.
    pub(super) fn new(prefix: String) -> Self {
        Self {
            items: Items::new(prefix),
            ending: None,
            usage: Usage::default(),
            id: None,
            model: None,
            service_tier: None,
        }
    }

    fn notice(&mut self, data: &str, out: &mut Events) -> Result<Progress, Fault> {
        let mut notice: Notice<'_> = match serde_json::from_str(data) {
            Ok(notice) => notice,
            Err(cause) => return unreadable(data, &cause),
        };
        let Some(name) = &notice.kind else { return untyped(data) };
        let Some(kind) = Kind::of(name) else { return Ok(Progress::More) };
        match kind {
            Kind::ItemAdded => {
                let (place, item) = notice.whole().ok_or_else(no_item)?;
                self.items.added(place, item, out);
            }
            Kind::ItemDone => {
                let (place, item) = notice.whole().ok_or_else(no_item)?;
                self.items.done(place, item, out);
            }
            Kind::Begun | Kind::Completed | Kind::Incomplete | Kind::Failed => {
                let response = notice.response.take().unwrap_or_default();
                match kind {
                    Kind::Completed => return self.conclude(&response, "completed", out),
                    Kind::Incomplete => return self.conclude(&response, "incomplete", out),
                    Kind::Failed => return Err(failure(&response)),
                    _ => self.learn(&response),
                }
            }
            Kind::Error => return Err(Fault::Provider(data.to_owned())),
            piece => self.piece(piece, notice, out),
        }
        Ok(Progress::More)
    }

    fn piece(&mut self, kind: Kind, mut piece: Notice<'_>, out: &mut Events) {
        let items = &mut self.items;
        let delta = said(piece.delta.take());
        let whole = said(piece.text.take());
        match kind {
            Kind::TextDelta => items.text(piece.place(), piece.content(), false, delta, out),
            Kind::RefusalDelta => items.text(piece.place(), piece.content(), true, delta, out),
            Kind::TextDone => items.whole_text(piece.place(), piece.content(), false, &whole, out),
            Kind::RefusalDone => {
                let whole = said(piece.refusal.take());
                items.whole_text(piece.place(), piece.content(), true, &whole, out);
            }
            Kind::PartDone => {
                let part = piece.part.as_deref().unwrap_or(&Value::Null);
                items.whole_part(piece.place(), piece.content(), part, out);
            }
            Kind::Annotation => items.annotate(piece.place(), piece.content(), piece.annotation.as_deref()),
            Kind::SummaryDelta => items.thought(piece.place(), Section::Summary(piece.summary()), delta, out),
            Kind::SummaryDone => {
                items.whole_thought(piece.place(), Section::Summary(piece.summary()), &whole, out);
            }
            Kind::SummaryPartDone => {
                let whole = piece.part.as_deref().and_then(|part| text(part, "text")).unwrap_or_default();
                items.whole_thought(piece.place(), Section::Summary(piece.summary()), whole, out);
            }
            Kind::ThoughtDelta => items.thought(piece.place(), Section::Content(piece.content()), delta, out),
            Kind::ThoughtDone => {
                items.whole_thought(piece.place(), Section::Content(piece.content()), &whole, out);
            }
            Kind::ArgumentsDelta => items.arguments(piece.place(), delta, out),
            Kind::ArgumentsDone => {
                items.whole_arguments(piece.place(), piece.name.as_deref(), piece.arguments.as_deref(), out);
            }
            // The rest is about the whole answer.
            _ => {}
        }
    }

    fn learn(&mut self, response: &Response) {
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
    fn conclude(&mut self, response: &Response, kind: &str, out: &mut Events) -> Result<Progress, Fault> {
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
        self.ending = Some(Ending { status: status.to_owned(), incomplete });
        Ok(Progress::Done)
    }

    fn reason(&self, ending: &Ending) -> FinishReason {
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
    fn accept(&mut self, frame: &Frame, out: &mut Events) -> Result<Progress, Fault> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if data == DONE {
            return Ok(Progress::Done);
        }
        self.notice(data, out)
    }

    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), Fault> {
        let response: Response = serde_json::from_str(json)
            .map_err(|cause| Fault::Malformed(format!("the JSON answer is no response: {cause}")))?;
        if response.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(failure(&response));
        }
        if response.output.is_none() && response.object.as_deref() != Some("response") {
            return Err(Fault::Malformed("the JSON answer is no response".to_owned()));
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
        out.push_back(Event::StepFinish { reason, usage: self.usage, metadata: Some(metadata) });
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        data.trim() == DONE || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
    }
}

fn said(text: Option<Text<'_>>) -> Cow<'_, str> {
    text.map_or(Cow::Borrowed(""), |Text(text)| text)
}

fn no_item() -> Fault {
    Fault::Malformed("a frame about an item has none".to_owned())
}

fn failure(response: &Response) -> Fault {
    let error = response.error.clone().filter(|error| !error.is_null());
    let error = error.unwrap_or_else(|| json!({"message": "the provider gave up without a reason"}));
    Fault::Provider(json!({"error": error}).to_string())
}

/// A frame without a type is an error object from some servers, and else of no concern.
fn untyped(data: &str) -> Result<Progress, Fault> {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let object = value.get(0).unwrap_or(&value);
    if object.get("error").is_some_and(|error| error.is_object() || error.is_string()) {
        return Err(Fault::Provider(object.to_string()));
    }
    Ok(Progress::More)
}

/// A frame of a kind that this protocol knows and that still cannot be read is nonsense, and so is one that is no
/// object.
fn unreadable(data: &str, cause: &serde_json::Error) -> Result<Progress, Fault> {
    untyped(data)?;
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let known =
        value.get("type").is_some_and(|kind| kind.as_str().is_none_or(|name| Kind::of(name).is_some()));
    if value.is_object() && !known {
        return Ok(Progress::More);
    }
    Err(Fault::Malformed(format!("a frame is no event of a response: {cause}")))
}
