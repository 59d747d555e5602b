//! A provider that plays a script, without network.
//!
//! It serves trials, demonstrations and tests of whatever sits above: the events have the shape and order of a real
//! answer. Which step is played follows from the conversation alone (how many assistant turns stand after the last
//! user message), so a session that was killed and resumed goes on where it was.

mod demo;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Content, Event, EventStream, FinishReason, Message, Provider, Request, Usage};

/// What is said when the conversation goes on after the last step.
const EXHAUSTED: &str = "The script has no further steps.";

/// One model step.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// What the model thinks first.
    pub reasoning: Option<String>,
    /// What it says.
    pub text: Option<String>,
    /// The tools it calls then.
    pub tools: Vec<Call>,
}

/// A tool call in a step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub input: Map<String, Value>,
}

/// The value given is not a script.
#[derive(Debug, thiserror::Error)]
#[error("not a script: {0}")]
pub struct InvalidScript(#[from] serde_json::Error);

/// A provider that plays a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    source: Source,
    pace: Duration,
}

#[derive(Debug, Clone)]
enum Source {
    Steps(Vec<Step>),
    Demo,
}

impl Scripted {
    /// Plays `steps` from the first one after each user message.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { source: Source::Steps(steps), pace: Duration::ZERO }
    }

    /// Reads a script: a list of steps, or an object with the list under `steps`.
    ///
    /// # Errors
    ///
    /// [`InvalidScript`] when the value has another shape.
    pub fn from_value(mut script: Value) -> Result<Self, InvalidScript> {
        let steps = script.get_mut("steps").map(Value::take).unwrap_or(script);
        Ok(Self::new(serde_json::from_value(steps)?))
    }

    /// The model of `everturn demo`: it changes the greeting in the `greeting.txt` named by the prompt.
    pub fn demo() -> Self {
        Self { source: Source::Demo, pace: Duration::from_millis(15) }
    }

    /// Waits `pace` before each piece of text, as a real model would.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    fn step(&self, request: &Request) -> Step {
        let turn = turns_since_prompt(&request.messages);
        match &self.source {
            Source::Demo => demo::step(request, turn),
            Source::Steps(steps) => steps
                .get(turn)
                .cloned()
                .unwrap_or_else(|| Step { text: Some(EXHAUSTED.to_owned()), ..Step::default() }),
        }
    }
}

impl Provider for Scripted {
    fn stream(&self, request: Request) -> EventStream {
        let request = request.repaired();
        let events = events(self.step(&request), &request);
        Box::pin(stream::unfold((events, self.pace), |(mut events, pace)| async move {
            let event = events.pop_front()?;
            let is_text = matches!(event, Event::TextDelta { .. } | Event::ReasoningDelta { .. });
            if is_text && !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            Some((Ok(event), (events, pace)))
        }))
    }
}

/// Assistant messages after the last thing the user said.
fn turns_since_prompt(messages: &[Message]) -> usize {
    let since = messages.iter().rev().take_while(|message| prompt_text(message).is_none());
    since.filter(|message| matches!(message, Message::Assistant { .. })).count()
}

/// The text of a user message; reminders the runtime injects are not prompts.
fn prompt_text(message: &Message) -> Option<String> {
    let Message::User(contents) = message else { return None };
    let text = Content::text_of(contents);
    (!text.trim_start().starts_with("<system-reminder>")).then_some(text)
}

fn events(step: Step, request: &Request) -> VecDeque<Event> {
    let mut out = VecDeque::from([Event::Start]);
    let mut written: usize = 0;
    if let Some(text) = step.reasoning.filter(|text| !text.is_empty()) {
        written = written.saturating_add(text.len());
        let id = "reasoning-0".to_owned();
        out.push_back(Event::ReasoningStart { id: id.clone() });
        out.extend(words(&text).map(|text| Event::ReasoningDelta { id: id.clone(), text }));
        out.push_back(Event::ReasoningEnd { id, metadata: None });
    }
    if let Some(text) = step.text.filter(|text| !text.is_empty()) {
        written = written.saturating_add(text.len());
        let id = "text-0".to_owned();
        out.push_back(Event::TextStart { id: id.clone() });
        out.extend(words(&text).map(|text| Event::TextDelta { id: id.clone(), text }));
        out.push_back(Event::TextEnd { id, metadata: None });
    }
    let reason = if step.tools.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    // Unique within a conversation, since it grows from one step to the next, and the same when it is resumed.
    let turn = request.messages.len();
    for (number, Call { name, input }) in step.tools.into_iter().enumerate() {
        let id = format!("call_scripted_{turn}_{number}");
        let input = Value::Object(input);
        let raw = input.to_string();
        written = written.saturating_add(raw.len());
        out.push_back(Event::ToolInputStart { id: id.clone(), name: name.clone() });
        out.push_back(Event::ToolInputDelta { id: id.clone(), text: raw.clone() });
        out.push_back(Event::ToolInputEnd { id: id.clone() });
        out.push_back(Event::ToolCall { id, name, input, raw, metadata: None });
    }
    let usage = usage(request, written);
    out.push_back(Event::StepFinish { reason, usage, metadata: None });
    out.push_back(Event::Finish);
    out
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
fn usage(request: &Request, written: usize) -> Usage {
    let read: usize = request.system.iter().map(String::len).sum::<usize>()
        + request.messages.iter().filter_map(prompt_text).map(|text| text.len()).sum::<usize>();
    let tokens = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX).max(1);
    let (input, output) = (tokens(read), tokens(written));
    Usage { input, output, total: Some(input.saturating_add(output)), ..Usage::default() }
}
