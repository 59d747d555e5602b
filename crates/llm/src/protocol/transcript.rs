//! Transcripts of answers into events, for tests: each one whole, byte by byte, and cut at every offset.

use super::{Decode, Events, FrameFault};
use crate::StreamEvent;
use crate::body::{AnswerBody, BodyError};

/// How an answer ended.
#[derive(Debug, PartialEq)]
pub(crate) enum TranscriptEnd {
    Complete,
    Incomplete,
    Provider(String),
    Malformed,
}

fn run<'a, D: Decode>(
    decoder: D,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, TranscriptEnd) {
    let mut body = AnswerBody::new("text/event-stream", decoder);
    let mut pieces = pieces.into_iter();
    let mut events = Vec::new();
    let mut advance = || -> Result<(), BodyError> {
        while !body.is_over() {
            match pieces.next() {
                Some(piece) => body.push(piece)?,
                None => body.end()?,
            }
            while let Some(event) = body.next()? {
                // What is counted on the way has tests of its own.
                events.extend(Some(event).filter(|event| !matches!(event, StreamEvent::Usage(_))));
            }
        }
        Ok(())
    };
    let outcome = match advance() {
        Ok(()) => TranscriptEnd::Complete,
        Err(BodyError::Incomplete { .. }) => TranscriptEnd::Incomplete,
        Err(BodyError::Provider(object)) => TranscriptEnd::Provider(object),
        Err(BodyError::Malformed { .. }) => TranscriptEnd::Malformed,
    };
    (events, outcome)
}

/// Expects the same events and the same end however the bytes arrive.
#[track_caller]
pub(crate) fn check<D: Decode>(
    make: impl Fn() -> D,
    text: &str,
    expected: &[StreamEvent],
    outcome: &TranscriptEnd,
) {
    let bytes = text.as_bytes();
    let whole = run(make(), [bytes]);
    assert_eq!((whole.0.as_slice(), &whole.1), (expected, outcome));
    assert_eq!(run(make(), bytes.chunks(1)), whole, "byte by byte");
    for cut in 0..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(run(make(), [head, tail]), whole, "cut at {cut}");
    }
}

/// The events of an answer that came as one JSON object, and how it ended.
pub(crate) fn whole<D: Decode>(mut decoder: D, json: &str) -> (Vec<StreamEvent>, TranscriptEnd) {
    let mut out = Events::new();
    let outcome = match decoder.accept_whole(json, &mut out) {
        Ok(()) if decoder.end(&mut out).is_ok() => TranscriptEnd::Complete,
        Ok(()) => TranscriptEnd::Incomplete,
        Err(FrameFault::Provider(object)) => TranscriptEnd::Provider(object),
        Err(FrameFault::Malformed(_)) => TranscriptEnd::Malformed,
    };
    out.retain(|event| !matches!(event, StreamEvent::Usage(_)));
    (out.into(), outcome)
}
