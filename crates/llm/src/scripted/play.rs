//! A step as a stream: its events in the order of a real answer, at its pace, up to its end or its failure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::stream;
use serde_json::{Map, Value, json};

use super::prompt_text;
use super::script::{ScriptCall, ScriptFailure, ScriptFault, ScriptHostedTool, ScriptStep, ScriptText};
use crate::error::{classify, classify_in_stream};
use crate::{Error, EventStream, FinishReason, HttpFailure, ModelRequest, StreamEvent, Usage, arguments};

/// An answer being played.
#[derive(Debug)]
pub(super) struct ScriptPlayback {
    pause: Duration,
    pace: Duration,
    events: VecDeque<StreamEvent>,
    failure: Option<Error>,
}

impl ScriptPlayback {
    /// The answer to `request`; `pace` is the script's. `tried` is how often the same request was made before.
    pub(super) fn new(mut step: ScriptStep, pace: u64, request: &ModelRequest, tried: u64) -> Self {
        let pause = Duration::from_millis(step.pause);
        let pace = Duration::from_millis(step.pace.unwrap_or(pace));
        let failure = step.error.take().filter(|failure| failure.times.is_none_or(|times| tried < times));
        let mut events = events(step, request);
        let failure = failure.map(|failure| {
            cut(&mut events, &failure);
            error(failure)
        });
        Self { pause, pace, events, failure }
    }

    pub(super) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(self, |mut performance| async move {
            let next = performance.next().await?;
            Some((next, performance))
        }))
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        wait(std::mem::take(&mut self.pause)).await;
        let Some(event) = self.events.pop_front() else { return self.failure.take().map(Err) };
        if is_piece(&event) {
            wait(self.pace).await;
        }
        Some(Ok(event))
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// What a script counts and paces: a word, or the arguments of a call.
fn is_piece(event: &StreamEvent) -> bool {
    matches!(
        event,
        StreamEvent::TextDelta { .. }
            | StreamEvent::ReasoningDelta { .. }
            | StreamEvent::ToolInputDelta { .. }
    )
}

/// Leaves only what comes before the failure.
fn cut(events: &mut VecDeque<StreamEvent>, failure: &ScriptFailure) {
    let before_answer = matches!(failure.fault, ScriptFault::Status { .. } | ScriptFault::Transport);
    let keep = match failure.after {
        None if before_answer => 0,
        None => usize::MAX,
        Some(pieces) => {
            let mut places = events.iter().enumerate().filter(|(_, event)| is_piece(event)).skip(pieces);
            // In front of the next piece, and of what opens its block.
            let next = places.next().map(|(place, _)| place);
            let opens = |event: &StreamEvent| {
                matches!(
                    event,
                    StreamEvent::TextStart { .. }
                        | StreamEvent::ReasoningStart { .. }
                        | StreamEvent::ToolInputStart { .. }
                )
            };
            next.map_or(usize::MAX, |place| {
                let opened = place.checked_sub(1).and_then(|before| events.get(before)).is_some_and(opens);
                place.saturating_sub(usize::from(opened))
            })
        }
    };
    let end = events.iter().position(|event| matches!(event, StreamEvent::StepFinish { .. }));
    events.truncate(keep.min(end.unwrap_or_default()));
}

/// The error that the same thing would be over HTTP.
fn error(failure: ScriptFailure) -> Error {
    let ScriptFailure { fault, message, after, .. } = failure;
    match fault {
        ScriptFault::Status { status, kind, retry_after } => {
            let headers = retry_after.map(|seconds| ("retry-after".to_owned(), seconds.to_string()));
            let mut said = Map::new();
            said.extend(after.map(|_| ("code".to_owned(), json!(status))));
            said.extend(kind.map(|kind| ("type".to_owned(), json!(kind))));
            said.extend(message.map(|message| ("message".to_owned(), json!(message))));
            let http = HttpFailure {
                status,
                headers: BTreeMap::from_iter(headers),
                body: json!({"error": said}).to_string(),
                url: String::new(),
            };
            match after {
                None => classify(http),
                Some(_) => classify_in_stream(HttpFailure { status: 200, ..http }),
            }
        }
        ScriptFault::Transport => Error::Transport {
            before_first_byte: after.is_none(),
            message: message.unwrap_or_else(|| "the script breaks it".to_owned()),
            source: None,
        },
        ScriptFault::Incomplete => Error::Incomplete {
            reason: message.unwrap_or_else(|| "the script ends it before its last event".to_owned()),
        },
        ScriptFault::Malformed => Error::Malformed {
            reason: message.unwrap_or_else(|| "the script spoils a piece of it".to_owned()),
            http: Box::new(HttpFailure { status: 200, ..HttpFailure::default() }),
        },
    }
}

fn events(step: ScriptStep, request: &ModelRequest) -> VecDeque<StreamEvent> {
    let mut out = VecDeque::from([StreamEvent::Start]);
    let mut written: usize = 0;
    if let Some(ScriptText { text, metadata }) = step.reasoning.filter(says_something) {
        written = written.saturating_add(text.len());
        let id = "reasoning-0".to_owned();
        out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
        out.extend(words(&text).map(|text| StreamEvent::ReasoningDelta { id: id.clone(), text }));
        out.push_back(StreamEvent::ReasoningEnd { id, metadata: metadata.map(Value::Object) });
    }
    // Unique within a conversation, since it grows from one step to the next, and the same when it is resumed.
    let turn = request.messages.len();
    for (number, hosted) in step.hosted.into_iter().enumerate() {
        host(format!("hosted_scripted_{turn}_{number}"), hosted, &mut out);
    }
    if let Some(ScriptText { text, metadata }) = step.text.filter(says_something) {
        written = written.saturating_add(text.len());
        let id = "text-0".to_owned();
        out.push_back(StreamEvent::TextStart { id: id.clone() });
        out.extend(words(&text).map(|text| StreamEvent::TextDelta { id: id.clone(), text }));
        out.push_back(StreamEvent::TextEnd { id, metadata: metadata.map(Value::Object) });
    }
    let reason = if step.tools.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    for (number, called) in step.tools.into_iter().enumerate() {
        written = written.saturating_add(call(format!("call_scripted_{turn}_{number}"), called, &mut out));
    }
    let usage = step.usage.map_or_else(|| estimate(request, written), Usage::from);
    let reason = step.finish.map_or(reason, FinishReason::from);
    out.push_back(StreamEvent::StepFinish { reason, usage, metadata: None });
    out.push_back(StreamEvent::Finish);
    out
}

fn says_something(spoken: &ScriptText) -> bool {
    !spoken.text.is_empty() || spoken.metadata.is_some()
}

fn host(id: String, hosted: ScriptHostedTool, out: &mut VecDeque<StreamEvent>) {
    let ScriptHostedTool { name, input, output, failed, metadata, result_metadata } = hosted;
    let (input, metadata) = (Value::Object(input), metadata.map(Value::Object));
    out.push_back(StreamEvent::HostedCall { id: id.clone(), name: name.clone(), input, metadata });
    if let Some(output) = output {
        let metadata = result_metadata.map(Value::Object);
        out.push_back(StreamEvent::HostedResult { id, name, output, is_error: failed, metadata });
    }
}

/// Plays a tool call and says how long its arguments are.
fn call(id: String, called: ScriptCall, out: &mut VecDeque<StreamEvent>) -> usize {
    let ScriptCall { name, input, raw, metadata } = called;
    let raw = raw.unwrap_or_else(|| Value::Object(input).to_string());
    let length = raw.len();
    out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
    out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: raw.clone() });
    out.push_back(StreamEvent::ToolInputEnd { id: id.clone() });
    out.push_back(match arguments::parse(&raw) {
        Ok(input) => StreamEvent::ToolCall { id, name, input, raw, metadata: metadata.map(Value::Object) },
        Err(reason) => StreamEvent::ToolCallMalformed { id, name, raw, reason },
    });
    length
}

/// Each word with the white space after it; white space in front stays with the first word.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_gap = false;
    for character in text.chars() {
        match pieces.last_mut() {
            Some(piece) if character.is_whitespace() || !in_gap => piece.push(character),
            _ => pieces.push(character.to_string()),
        }
        in_gap = character.is_whitespace();
    }
    pieces.into_iter()
}

/// A rough count, four bytes to a token, so that what is shown is not zero.
fn estimate(request: &ModelRequest, written: usize) -> Usage {
    let read: usize = request.system.iter().map(String::len).sum::<usize>()
        + request.messages.iter().filter_map(prompt_text).map(|text| text.len()).sum::<usize>();
    let tokens = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX).max(1);
    let (input, output) = (tokens(read), tokens(written));
    Usage { input, output, total: Some(input.saturating_add(output)), ..Usage::default() }
}
