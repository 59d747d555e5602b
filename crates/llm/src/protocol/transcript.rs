//! Transcripts of answers into events, for tests: each one whole, byte by byte, and cut at every offset.

use super::{Decode, Events, Fault, Progress};
use crate::{Event, sse};

/// How an answer ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Complete,
    Incomplete,
    Provider(String),
    Malformed,
}

fn run<'a, D: Decode>(mut decoder: D, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Outcome) {
    let mut frames = sse::Decoder::default();
    let mut out = Events::new();
    let mut outcome = None;
    let mut take = |decoder: &mut D, frame: &sse::Frame, outcome: &mut Option<Outcome>| match decoder
        .accept(frame, &mut out)
    {
        Ok(Progress::More) => {}
        Ok(Progress::Done) => *outcome = Some(Outcome::Complete),
        Err(Fault::Provider(object)) => *outcome = Some(Outcome::Provider(object)),
        Err(Fault::Malformed(_)) => *outcome = Some(Outcome::Malformed),
    };
    for piece in pieces {
        frames.push(piece).unwrap();
        while let (None, Some(frame)) = (&outcome, frames.pop()) {
            take(&mut decoder, &frame, &mut outcome);
        }
    }
    if let (None, Some(frame)) = (&outcome, frames.finish().filter(|frame| D::is_whole(&frame.data))) {
        take(&mut decoder, &frame, &mut outcome);
    }
    if matches!(outcome, None | Some(Outcome::Complete)) {
        let ended = decoder.end(&mut out);
        outcome = Some(if ended.is_ok() { Outcome::Complete } else { Outcome::Incomplete });
    }
    (out.into(), outcome.unwrap())
}

/// Expects the same events and the same end however the bytes arrive.
#[track_caller]
pub(crate) fn check<D: Decode>(make: impl Fn() -> D, text: &str, expected: &[Event], outcome: &Outcome) {
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
pub(crate) fn whole<D: Decode>(mut decoder: D, json: &str) -> (Vec<Event>, Outcome) {
    let mut out = Events::new();
    let outcome = match decoder.accept_whole(json, &mut out) {
        Ok(()) if decoder.end(&mut out).is_ok() => Outcome::Complete,
        Ok(()) => Outcome::Incomplete,
        Err(Fault::Provider(object)) => Outcome::Provider(object),
        Err(Fault::Malformed(_)) => Outcome::Malformed,
    };
    (out.into(), outcome)
}
