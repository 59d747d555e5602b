//! One model call over HTTP.
//!
//! The request is sent when the stream is first polled. The body goes piece by piece through the SSE decoder, each
//! frame through the protocol's decoder, and events are handed out as they come. A server that answers a streaming
//! request with one JSON object is understood as well.

use std::time::Duration;

use futures_util::stream;

use crate::http::{Answer, Post};
use crate::protocol::{Decode, Events, Fault, Progress};
use crate::{Error, Event, EventStream, sse};

/// How long the end of the body may take after the terminal event.
const DRAIN: Duration = Duration::from_millis(250);

/// The largest answer taken as one JSON object.
const JSON_LIMIT: usize = 32 * 1024 * 1024;

/// A model call under way.
pub(crate) struct Exchange<D> {
    phase: Phase,
    decoder: D,
    ready: Events,
}

enum Phase {
    Unsent(Box<Post>),
    Reading(Box<Answer>, Body),
    Draining(Box<Answer>),
    Ended,
}

/// How the body is to be understood.
enum Body {
    /// Not known yet: nothing but white space so far.
    Unknown,
    Events(Box<sse::Decoder>),
    Json(Vec<u8>),
}

impl<D: Decode + Send + 'static> Exchange<D> {
    pub(crate) fn new(post: Post, decoder: D) -> Self {
        Self { phase: Phase::Unsent(Box::new(post)), decoder, ready: Events::new() }
    }

    pub(crate) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(self, |mut exchange| async move {
            exchange.next().await.map(|item| (item, exchange))
        }))
    }

    async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ended => return None,
                Phase::Unsent(post) => self.open(*post).await,
                Phase::Reading(answer, body) => self.read(answer, body).await,
                Phase::Draining(answer) => {
                    answer.drain(DRAIN).await;
                    self.ready.push_back(Event::Finish);
                    Ok(Phase::Ended)
                }
            };
            match step {
                Ok(phase) => self.phase = phase,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn open(&mut self, post: Post) -> Result<Phase, Error> {
        let answer = post.send().await?;
        self.ready.push_back(Event::Start);
        let body = match answer.media_type().as_str() {
            "text/event-stream" => Body::Events(Box::default()),
            media if media.ends_with("json") => Body::Json(Vec::new()),
            _ => Body::Unknown,
        };
        Ok(Phase::Reading(Box::new(answer), body))
    }

    /// Makes one step: takes one frame that is there, or else reads one piece of the body.
    async fn read(&mut self, mut answer: Box<Answer>, mut body: Body) -> Result<Phase, Error> {
        if let Body::Events(events) = &mut body
            && let Some(frame) = events.pop()
        {
            return match self.accept(&answer, &frame)? {
                Progress::More => Ok(Phase::Reading(answer, body)),
                Progress::Done => {
                    self.end()?;
                    Ok(Phase::Draining(answer))
                }
            };
        }
        let Some(piece) = answer.chunk().await? else {
            self.end_of_body(&answer, body)?;
            self.ready.push_back(Event::Finish);
            return Ok(Phase::Ended);
        };
        if matches!(body, Body::Unknown) {
            body = recognise(&answer, &piece)?;
        }
        match &mut body {
            Body::Unknown => {}
            Body::Events(events) => {
                events.push(&piece).map_err(|cause| answer.malformed(cause.to_string(), ""))?;
            }
            Body::Json(bytes) => {
                bytes.extend_from_slice(&piece);
                if bytes.len() > JSON_LIMIT {
                    return Err(answer.malformed("the JSON answer is too large", ""));
                }
            }
        }
        Ok(Phase::Reading(answer, body))
    }

    fn end_of_body(&mut self, answer: &Answer, body: Body) -> Result<(), Error> {
        match body {
            Body::Unknown => {}
            Body::Events(mut events) => {
                // A last frame without its blank line may itself be cut short; then the answer is incomplete.
                if let Some(frame) = events.finish().filter(|frame| D::is_whole(&frame.data)) {
                    self.accept(answer, &frame)?;
                }
            }
            Body::Json(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let taken = self.decoder.accept_whole(&text, &mut self.ready);
                taken.map_err(|fault| refused(answer, fault, &text))?;
            }
        }
        self.end()
    }

    fn accept(&mut self, answer: &Answer, frame: &sse::Frame) -> Result<Progress, Error> {
        let taken = self.decoder.accept(frame, &mut self.ready);
        taken.map_err(|fault| refused(answer, fault, &frame.data))
    }

    fn end(&mut self) -> Result<(), Error> {
        self.decoder.end(&mut self.ready).map_err(|reason| Error::Incomplete { reason })
    }
}

fn refused(answer: &Answer, fault: Fault, data: &str) -> Error {
    match fault {
        Fault::Provider(object) => answer.in_stream_error(&object),
        Fault::Malformed(reason) => answer.malformed(reason, data),
    }
}

/// Tells events from a JSON object by the first character, for servers that do not label their answer.
fn recognise(answer: &Answer, piece: &[u8]) -> Result<Body, Error> {
    match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Ok(Body::Unknown),
        Some(b'{' | b'[') => Ok(Body::Json(Vec::new())),
        // A field name, a comment or a byte order mark.
        Some(b'd' | b'e' | b'i' | b'r' | b':' | 0xef) => Ok(Body::Events(Box::default())),
        Some(_) => {
            let media = answer.media_type();
            let kind = if media.is_empty() { "an unlabelled text" } else { media.as_str() };
            Err(answer
                .malformed(format!("expected events, received {kind}"), &String::from_utf8_lossy(piece)))
        }
    }
}
