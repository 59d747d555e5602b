//! Turns the body of an answer into events, in whatever pieces its bytes arrive.
//!
//! Bytes go through the SSE decoder, each frame through the protocol's decoder, and one frame is read only when the
//! events of the one before were taken: what waits here is never more than one piece from the network and the events of
//! one frame. A server that answers a streaming request with one JSON object is understood as well.

use everturn_sse::{SseDecoder, SseFrame};

use crate::StreamEvent;
use crate::protocol::{Decode, DecodeProgress, Events, FrameFault};

/// The largest answer taken as one JSON object.
const JSON_LIMIT: usize = 32 * 1024 * 1024;

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct AnswerBody<D> {
    shape: BodyShape,
    decoder: D,
    ready: Events,
    over: bool,
    /// What went wrong behind the frames that are still to be read.
    behind: Option<BodyError>,
}

/// How the body is to be understood.
#[derive(Debug)]
enum BodyShape {
    /// Not known yet: only white space so far. This is what the server calls it.
    Unknown(String),
    Events(Box<SseDecoder>),
    Json(Vec<u8>),
}

/// Why a body is not the answer that was asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum BodyError {
    /// It has this error object of the provider's in it.
    Provider(String),
    /// It is not in the protocol; `text` is the part that could not be read.
    Malformed { reason: String, text: String },
    /// It ended too early.
    Incomplete { reason: String },
}

impl<D: Decode> AnswerBody<D> {
    /// `media_type` is what the server calls the body.
    pub(crate) fn new(media_type: &str, decoder: D) -> Self {
        let shape = match media_type {
            "text/event-stream" => BodyShape::Events(Box::default()),
            media if media.ends_with("json") => BodyShape::Json(Vec::new()),
            media => BodyShape::Unknown(media.to_owned()),
        };
        Self { shape, decoder, ready: Events::new(), over: false, behind: None }
    }

    /// Whether the terminal event was read: nothing that follows counts.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), BodyError> {
        if let BodyShape::Unknown(media) = &self.shape
            && let Some(shape) = recognise(media, piece)?
        {
            self.shape = shape;
        }
        match &mut self.shape {
            BodyShape::Unknown(_) => Ok(()),
            BodyShape::Events(events) => {
                self.behind = events.push(piece).err().map(|cause| too_large(cause.to_string()));
                Ok(())
            }
            BodyShape::Json(bytes) if bytes.len().saturating_add(piece.len()) > JSON_LIMIT => {
                Err(too_large("the JSON answer is too large".to_owned()))
            }
            BodyShape::Json(bytes) => {
                bytes.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// The next event; `None` when that takes another piece.
    pub(crate) fn next(&mut self) -> Result<Option<StreamEvent>, BodyError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let BodyShape::Events(events) = &mut self.shape else { return Ok(None) };
            let Some(frame) = events.pop().filter(|_| !self.over) else {
                return self.behind.take().filter(|_| !self.over).map_or(Ok(None), Err);
            };
            if self.accept(&frame)? == DecodeProgress::Done {
                self.over = true;
                self.close()?;
            }
        }
    }

    /// Ends the body. More events may be ready then.
    pub(crate) fn end(&mut self) -> Result<(), BodyError> {
        self.over = true;
        match std::mem::replace(&mut self.shape, BodyShape::Json(Vec::new())) {
            BodyShape::Unknown(_) => {}
            BodyShape::Events(mut events) => {
                // A last frame without its blank line may itself be cut short; then the answer is incomplete.
                if let Some(frame) = events.finish().filter(|frame| D::is_whole(&frame.data)) {
                    self.accept(&frame)?;
                }
            }
            BodyShape::Json(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let taken = self.decoder.accept_whole(&text, &mut self.ready);
                taken.map_err(|fault| broken(fault, &text))?;
            }
        }
        self.close()
    }

    fn accept(&mut self, frame: &SseFrame) -> Result<DecodeProgress, BodyError> {
        self.decoder.accept(frame, &mut self.ready).map_err(|fault| broken(fault, &frame.data))
    }

    fn close(&mut self) -> Result<(), BodyError> {
        self.decoder.end(&mut self.ready).map_err(|reason| BodyError::Incomplete { reason })
    }
}

fn broken(fault: FrameFault, text: &str) -> BodyError {
    match fault {
        FrameFault::Provider(object) => BodyError::Provider(object),
        FrameFault::Malformed(reason) => BodyError::Malformed { reason, text: text.to_owned() },
    }
}

fn too_large(reason: String) -> BodyError {
    BodyError::Malformed { reason, text: String::new() }
}

/// Tells events from a JSON object by the first character, for servers that do not label their answer.
fn recognise(media: &str, piece: &[u8]) -> Result<Option<BodyShape>, BodyError> {
    match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Ok(None),
        Some(b'{' | b'[') => Ok(Some(BodyShape::Json(Vec::new()))),
        // A field name, a comment or a byte order mark.
        Some(b'd' | b'e' | b'i' | b'r' | b':' | 0xef) => Ok(Some(BodyShape::Events(Box::default()))),
        Some(_) => {
            let kind = if media.is_empty() { "an unlabelled text" } else { media };
            let reason = format!("expected events, received {kind}");
            Err(BodyError::Malformed { reason, text: String::from_utf8_lossy(piece).into_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::WireProtocol;
    use crate::{anthropic, gemini, openai_chat, openai_responses};

    #[test]
    fn what_came_before_a_frame_that_is_too_large_is_handed_out() {
        let decoder = openai_chat::Chat { dialect: openai_chat::ChatDialect::Compatible }.decoder();
        let mut body = AnswerBody::new("text/event-stream", decoder);
        let hello = json!({"choices": [{"delta": {"content": "hello"}}]});
        let endless = "x".repeat(everturn_sse::EVENT_MAX);
        body.push(format!("data: {hello}\n\ndata: {endless}").as_bytes()).unwrap();
        let mut next = || body.next();
        assert_eq!(next(), Ok(Some(StreamEvent::TextStart { id: "text-0".into() })));
        assert_eq!(next(), Ok(Some(StreamEvent::TextDelta { id: "text-0".into(), text: "hello".into() })));
        let reason = "a server-sent event is larger than 16777216 bytes".to_owned();
        assert_eq!(next(), Err(BodyError::Malformed { reason, text: String::new() }));
    }

    /// After the beginning of an answer, as much is kept after many deltas as after few.
    #[track_caller]
    fn check<P: WireProtocol>(protocol: &P, begin: &[Value], delta: &Value)
    where
        P::Decoder: std::fmt::Debug,
    {
        let mut body = AnswerBody::new("text/event-stream", protocol.decoder());
        let take = |body: &mut AnswerBody<P::Decoder>, payload: &Value| {
            body.push(format!("data: {payload}\n\n").as_bytes()).unwrap();
            while body.next().unwrap().is_some() {}
        };
        begin.iter().for_each(|payload| take(&mut body, payload));
        let mut kept = |deltas: usize| {
            (0..deltas).for_each(|_| take(&mut body, delta));
            format!("{body:?}").len()
        };
        let (few, many) = (kept(10), kept(20_000));
        // A count may have more digits in the end.
        assert!(many <= few + 16, "{few} and then {many}: {body:?}");
    }

    #[test]
    fn nothing_is_kept_of_what_was_handed_out() {
        let text = "some words of an answer";
        let chat = openai_chat::Chat { dialect: openai_chat::ChatDialect::Compatible };
        for field in ["content", "reasoning_content"] {
            check(&chat, &[], &json!({"id": "c", "model": "m", "choices": [{"delta": {field: text}}]}));
        }
        for (kind, field) in [("text", "text"), ("thinking", "thinking")] {
            let begin = json!({"type": "content_block_start", "index": 0, "content_block": {"type": kind}});
            let delta = json!({"type": format!("{kind}_delta"), field: text});
            let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            check(&anthropic::Messages, &[begin], &delta);
        }
        for kind in ["output_text", "refusal", "reasoning_summary_text", "reasoning_text"] {
            let delta = json!({"type": format!("response.{kind}.delta"), "item_id": "i", "delta": text});
            check(&openai_responses::Responses, &[], &delta);
        }
        for thought in [false, true] {
            let content = json!({"parts": [{"text": text, "thought": thought}]});
            let counts = json!({"promptTokenCount": 7});
            let frame =
                json!({"candidates": [{"content": content}], "usageMetadata": counts, "responseId": "r"});
            check(&gemini::GenerateContent, &[], &frame);
        }
    }
}
