//! Frames of a Responses answer into events.
//!
//! The terminal frame carries the whole answer again. It is used to fill in what the stream left out, so an answer
//! that came as one object is simply a terminal frame without a stream before it.

use serde_json::{Value, json};

use super::METADATA;
use super::items::{Items, Section};
use super::wire::{Notice, Response, text};
use crate::protocol::{Decode, Events, Fault, Progress};
use crate::sse::Frame;
use crate::{Event, FinishReason, Usage};

/// The frame that some servers send last.
const DONE: &str = "[DONE]";

/// The state of one answer.
#[derive(Debug)]
pub(super) struct Decoder {
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
        let notice: Notice = match serde_json::from_str(data) {
            Ok(notice) => notice,
            Err(cause) => return unreadable(data, &cause),
        };
        match notice {
            Notice::Begun(envelope) => self.learn(&envelope.response),
            Notice::ItemAdded(whole) => self.items.added(whole.place(), &whole.item, out),
            Notice::ItemDone(whole) => self.items.done(whole.place(), &whole.item, out),
            Notice::Completed(envelope) => return self.conclude(&envelope.response, "completed", out),
            Notice::Incomplete(envelope) => return self.conclude(&envelope.response, "incomplete", out),
            Notice::Failed(envelope) => return Err(failure(&envelope.response)),
            Notice::Error => return Err(Fault::Provider(data.to_owned())),
            other => self.piece(other, out),
        }
        Ok(Progress::More)
    }

    fn piece(&mut self, notice: Notice, out: &mut Events) {
        let items = &mut self.items;
        match notice {
            Notice::TextDelta(piece) => {
                items.text(piece.place(), piece.content(), false, said(piece.delta.as_ref()), out);
            }
            Notice::RefusalDelta(piece) => {
                items.text(piece.place(), piece.content(), true, said(piece.delta.as_ref()), out);
            }
            Notice::TextDone(piece) => {
                items.whole_text(piece.place(), piece.content(), false, said(piece.text.as_ref()), out);
            }
            Notice::RefusalDone(piece) => {
                items.whole_text(piece.place(), piece.content(), true, said(piece.refusal.as_ref()), out);
            }
            Notice::PartDone(piece) => {
                let part = piece.part.as_ref().unwrap_or(&Value::Null);
                items.whole_part(piece.place(), piece.content(), part, out);
            }
            Notice::Annotation(piece) => {
                items.annotate(piece.place(), piece.content(), piece.annotation.as_ref());
            }
            Notice::SummaryDelta(piece) => {
                let section = Section::Summary(piece.summary());
                items.thought(piece.place(), section, said(piece.delta.as_ref()), out);
            }
            Notice::SummaryDone(piece) => {
                let section = Section::Summary(piece.summary());
                items.whole_thought(piece.place(), section, said(piece.text.as_ref()), out);
            }
            Notice::SummaryPartDone(piece) => {
                let section = Section::Summary(piece.summary());
                let whole = piece.part.as_ref().and_then(|part| text(part, "text")).unwrap_or_default();
                items.whole_thought(piece.place(), section, whole, out);
            }
            Notice::ThoughtDelta(piece) => {
                let section = Section::Content(piece.content());
                items.thought(piece.place(), section, said(piece.delta.as_ref()), out);
            }
            Notice::ThoughtDone(piece) => {
                let section = Section::Content(piece.content());
                items.whole_thought(piece.place(), section, said(piece.text.as_ref()), out);
            }
            Notice::ArgumentsDelta(piece) => {
                items.arguments(piece.place(), said(piece.delta.as_ref()), out);
            }
            Notice::ArgumentsDone(piece) => {
                let name = piece.name.as_deref();
                items.whole_arguments(piece.place(), name, piece.arguments.as_ref(), out);
            }
            // The rest is about the whole answer or of no use here.
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

fn said(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}

fn failure(response: &Response) -> Fault {
    let error = response.error.clone().filter(|error| !error.is_null());
    let error = error.unwrap_or_else(|| json!({"message": "the provider gave up without a reason"}));
    Fault::Provider(json!({"error": error}).to_string())
}

/// A frame without a type is an error object from some servers, and else of no concern. One that has a type this
/// protocol knows and still cannot be read is nonsense, and so is one that is no object.
fn unreadable(data: &str, cause: &serde_json::Error) -> Result<Progress, Fault> {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let object = value.get(0).unwrap_or(&value);
    if object.get("error").is_some_and(|error| error.is_object() || error.is_string()) {
        return Err(Fault::Provider(object.to_string()));
    }
    if value.is_object() && value.get("type").is_none() {
        return Ok(Progress::More);
    }
    Err(Fault::Malformed(format!("a frame is no event of a response: {cause}")))
}
