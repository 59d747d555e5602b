//! Taking in a provider's stream: deltas become parts, calls become work.

use std::collections::HashMap;

use everturn_llm::{FinishReason, StreamEvent as Delta};
use everturn_model::finish::Finish;
use everturn_model::part::{PartKind, Span};
use everturn_model::tool::{HostedResult, Outcome, ToolResult, ToolState};
use everturn_model::{EntryId, Event, Map, Part, PartId, Tokens, json, path};
use serde_json::{Value, json};

use super::Turn;
use super::accounting::{AnswerMeter, tokens};
use crate::Error;
use crate::bus::Signal;
use crate::calls::{SettledCall, ToolCall};

/// Streamed text is saved when this much of it is unsaved, whatever the clock says.
const SAVE_BYTES: usize = 4096;

/// What was taken in so far.
pub(super) struct StreamIntake {
    entry: EntryId,
    /// Whether its parts belong to the second message of a pair.
    second: bool,
    /// Whether it takes anything in.
    shown: bool,
    /// Text and reasoning that is streaming, by the stream's own ids.
    open: HashMap<String, OpenText>,
    /// Calls whose input is arriving or that run, by their ids in this stream.
    calls: HashMap<String, ToolCall>,
    /// Calls that the provider runs itself, by their ids in this stream.
    hosted: HashMap<String, ToolCall>,
    called: bool,
    fresh: bool,
    /// What it has used so far.
    pub(super) meter: AnswerMeter,
    finish: Option<(Finish, Tokens)>,
}

struct OpenText {
    part: PartId,
    reasoning: bool,
    text: String,
    saved: usize,
}

impl StreamIntake {
    pub(super) fn new(entry: EntryId) -> Self {
        Self {
            entry,
            second: false,
            shown: true,
            open: HashMap::new(),
            calls: HashMap::new(),
            hosted: HashMap::new(),
            called: false,
            fresh: true,
            meter: AnswerMeter::default(),
            finish: None,
        }
    }

    /// The answer of a pair: a summary. One that is not shown takes nothing in.
    pub(super) fn of_second(entry: EntryId, shown: bool) -> Self {
        Self { second: true, shown, ..Self::new(entry) }
    }

    /// The entry that it fills.
    pub(super) fn entry(&self) -> &EntryId {
        &self.entry
    }

    /// Whether it takes anything in.
    pub(super) fn is_shown(&self) -> bool {
        self.shown
    }

    /// True while nothing came that anybody saw: the request may be made again.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.fresh
    }

    /// True while text is streaming.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True when the model called a tool of this machine.
    pub(super) fn called(&self) -> bool {
        self.called
    }

    /// Why the model stopped and what it used, once it said so.
    pub(super) fn finish(&self) -> Option<(Finish, Tokens)> {
        self.finish.clone()
    }

    /// A call has its result.
    pub(super) fn settled(&mut self, part: &PartId) {
        self.calls.retain(|_, call| &call.part != part);
    }

    /// Takes out the calls without a result.
    pub(super) fn take_unsettled(&mut self) -> Vec<ToolCall> {
        let all = self.calls.drain().chain(self.hosted.drain());
        let mut calls: Vec<ToolCall> = all.map(|(_, call)| call).collect();
        calls.sort_by(|a, b| a.part.cmp(&b.part));
        calls
    }

    /// Takes one delta; calls that are complete come back, recorded and ready to run.
    pub(super) async fn take(&mut self, turn: &mut Turn<'_>, delta: Delta) -> Result<Vec<ToolCall>, Error> {
        self.fresh = false;
        match delta {
            Delta::TextStart { id } => self.start(turn, id, false).await?,
            Delta::ReasoningStart { id } => self.start(turn, id, true).await?,
            Delta::TextDelta { id, text } | Delta::ReasoningDelta { id, text } => self.add(turn, &id, &text),
            Delta::TextEnd { id, metadata } | Delta::ReasoningEnd { id, metadata } => {
                self.end(turn, &id, metadata);
            }
            Delta::ToolInputStart { id, name } => self.start_call(turn, id, name).await?,
            Delta::ToolInputDelta { .. } | Delta::ToolInputEnd { .. } => {}
            Delta::Usage(_) | Delta::Start | Delta::Finish => {}
            Delta::ToolCall { id, name, input, raw, metadata } => {
                return match too_deep(&input) {
                    Some(reason) => {
                        let text = format!("The input of {name} {reason}");
                        self.refuse_call(turn, &id, &name, &text, raw).await
                    }
                    None => self.complete_call(turn, &id, input, raw, metadata).await,
                };
            }
            Delta::ToolCallMalformed { id, name, raw, reason } => {
                let text = format!("The input of {name} is not valid JSON: {reason}");
                return self.refuse_call(turn, &id, &name, &text, raw).await;
            }
            Delta::HostedCall { id, name, input, metadata } => {
                self.host(turn, id, name, input, metadata).await?;
            }
            Delta::HostedResult { id, output, is_error, metadata, .. } => {
                self.settle_hosted(turn, &id, &output, is_error, metadata).await?;
            }
            Delta::StepFinish { reason, usage, .. } => {
                let tokens = tokens(&usage);
                self.finish = Some((reason_of(reason), tokens));
            }
        }
        Ok(Vec::new())
    }

    async fn start(&mut self, turn: &mut Turn<'_>, id: String, reasoning: bool) -> Result<(), Error> {
        let part = turn.services.journal.mint().part(turn.session());
        let time = Some(Span { start: turn.services.journal.mint().now(), end: None });
        let text = String::new();
        let kind = if reasoning {
            PartKind::Reasoning { text, time, metadata: None }
        } else {
            PartKind::Text { text, synthetic: None, ignored: None, time, metadata: None }
        };
        let begun = Box::new(Part { second: self.second, ..Part::new(part.clone(), kind) });
        let event = Event::PartStarted { entry: self.entry.clone(), part: begun };
        self.open.insert(id, OpenText { part, reasoning, text: String::new(), saved: 0 });
        turn.commit(vec![event]).await
    }

    fn add(&mut self, turn: &Turn<'_>, id: &str, text: &str) {
        let Some(open) = self.open.get_mut(id) else { return };
        let (entry, part, offset) = (self.entry.clone(), open.part.clone(), open.text.len());
        open.text.push_str(text);
        let delta = Signal::Delta { entry, part, offset, text: text.to_owned() };
        turn.signal(delta);
        if open.text.len() - open.saved >= SAVE_BYTES {
            save(&self.entry, open, turn);
        }
    }

    /// Saves what is unsaved of the open text.
    pub(super) fn save(&mut self, turn: &Turn<'_>) {
        for open in self.open.values_mut() {
            if open.text.len() > open.saved {
                save(&self.entry, open, turn);
            }
        }
    }

    /// Has the end of a text recorded with what follows, which mostly comes at once.
    fn end(&mut self, turn: &mut Turn<'_>, id: &str, metadata: Option<Value>) {
        let Some(open) = self.open.remove(id) else { return };
        let metadata = object(metadata);
        // A signature holds for a thought as it was, to its last space.
        let text = if open.reasoning { open.text } else { open.text.trim_end().to_owned() };
        turn.record_later(Event::PartEnded { entry: self.entry.clone(), part: open.part, text, metadata });
    }

    async fn start_call(&mut self, turn: &mut Turn<'_>, id: String, tool: String) -> Result<(), Error> {
        let part = turn.services.journal.mint().part(turn.session());
        let state = ToolState::Pending { input: Value::Object(Map::new()), raw: String::new() };
        let (call, name) = (id.clone(), tool.clone());
        let kind = PartKind::Tool { call, tool: name, state, hosted: false, metadata: None };
        let event =
            Event::PartStarted { entry: self.entry.clone(), part: Box::new(Part::new(part.clone(), kind)) };
        let call = ToolCall {
            entry: self.entry.clone(),
            part,
            id: id.clone(),
            tool,
            input: Value::Null,
            start: turn.services.journal.mint().now(),
            waiting: None,
            again: false,
            by_person: false,
        };
        self.calls.insert(id, call);
        turn.commit(vec![event]).await
    }

    /// Records a call that cannot be run; its answer tells the model why.
    async fn refuse_call(
        &mut self,
        turn: &mut Turn<'_>,
        id: &str,
        name: &str,
        text: &str,
        raw: String,
    ) -> Result<Vec<ToolCall>, Error> {
        let input = everturn_tools::invalid::input(name, text);
        if let Some(call) = self.calls.get_mut(id) {
            "invalid".clone_into(&mut call.tool);
        }
        self.complete_call(turn, id, input, raw, None).await
    }

    async fn complete_call(
        &mut self,
        turn: &mut Turn<'_>,
        id: &str,
        input: Value,
        raw: String,
        metadata: Option<Value>,
    ) -> Result<Vec<ToolCall>, Error> {
        let Some(call) = self.calls.get_mut(id) else { return Ok(Vec::new()) };
        self.called = true;
        call.input = input.clone();
        call.start = turn.services.journal.mint().now();
        let call = call.clone();
        let metadata = object(metadata);
        let (entry, part) = (self.entry.clone(), call.part.clone());
        turn.commit(vec![
            Event::PartEnded { entry: entry.clone(), part: part.clone(), text: raw, metadata: None },
            Event::ToolCalled { entry, part, input, hosted: false, metadata, progress: None },
        ])
        .await?;
        Ok(vec![call])
    }

    /// Records a call that the provider runs itself. It is marked as such, and nobody here runs it.
    async fn host(
        &mut self,
        turn: &mut Turn<'_>,
        id: String,
        tool: String,
        input: Value,
        metadata: Option<Value>,
    ) -> Result<(), Error> {
        let (entry, part) = (self.entry.clone(), turn.services.journal.mint().part(turn.session()));
        let start = turn.services.journal.mint().now();
        let metadata = object(metadata);
        let state = ToolState::Pending { input: Value::Object(Map::new()), raw: String::new() };
        let (own, name) = (id.clone(), tool.clone());
        let kind = PartKind::Tool { call: own, tool: name, state, hosted: true, metadata: metadata.clone() };
        let call = ToolCall {
            entry: entry.clone(),
            part: part.clone(),
            id: id.clone(),
            tool,
            input: input.clone(),
            start,
            waiting: None,
            again: false,
            by_person: false,
        };
        self.hosted.insert(id, call);
        let text = input.to_string();
        // It ran already, so it is kept as far as it can be read again.
        let input = too_deep(&input).map_or(input, |reason| json!({ "note": format!("The input {reason}") }));
        turn.commit(vec![
            Event::PartStarted { entry: entry.clone(), part: Box::new(Part::new(part.clone(), kind)) },
            Event::PartEnded { entry: entry.clone(), part: part.clone(), text, metadata: None },
            Event::ToolCalled { entry, part, input, hosted: true, metadata, progress: None },
        ])
        .await
    }

    /// Records what came of a call that the provider ran itself.
    async fn settle_hosted(
        &mut self,
        turn: &mut Turn<'_>,
        id: &str,
        output: &Value,
        is_error: bool,
        metadata: Option<Value>,
    ) -> Result<(), Error> {
        let earlier = || left_running(turn, id);
        let Some(call) = self.hosted.remove(id).or_else(earlier) else { return Ok(()) };
        let outcome = if is_error { Outcome::Error } else { Outcome::Completed };
        let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
        let place = turn.tree.node(&call.entry).map_or(0, |node| node.parts.len());
        let result = ToolResult {
            start: Some(call.start),
            end: Some(turn.services.journal.mint().now()),
            hosted: Some(Box::new(HostedResult { place, metadata: object(metadata) })),
            ..ToolResult::new(&call.id, &call.tool, outcome, &text)
        };
        turn.settle(SettledCall { call, result, declined: false, edited: Vec::new() }).await
    }

    /// The events that keep what was streamed when the rest will not come.
    pub(super) fn abandon(&mut self) -> Vec<Event> {
        let mut open: Vec<OpenText> = self.open.drain().map(|(_, open)| open).collect();
        open.sort_by(|a, b| a.part.cmp(&b.part));
        open.into_iter()
            .map(|open| Event::PartEnded {
                entry: self.entry.clone(),
                part: open.part,
                text: open.text,
                metadata: None,
            })
            .collect()
    }
}

/// A call that the provider ran when it made a pause: its result comes with a later answer.
fn left_running(turn: &Turn<'_>, id: &str) -> Option<ToolCall> {
    let path = path::to(&turn.tree, turn.session().leaf.as_ref());
    let settled = path::results(&path);
    let node = path.iter().rev().skip(1).find(|node| {
        let paused = node.entry.body.assistant().is_some_and(|answer| answer.finish == Some(Finish::Paused));
        paused && node.parts.iter().any(|part| part.kind.is_hosted() && part.kind.call() == Some(id))
    })?;
    if settled.contains_key(&(&node.entry.id, id)) {
        return None;
    }
    let part = node.parts.iter().find(|part| part.kind.call() == Some(id))?;
    let PartKind::Tool { tool, state: ToolState::Running { input, start, .. }, .. } = &part.kind else {
        return None;
    };
    Some(ToolCall {
        entry: node.entry.id.clone(),
        part: part.id.clone(),
        id: id.to_owned(),
        tool: tool.clone(),
        input: input.clone(),
        start: *start,
        waiting: None,
        again: false,
        by_person: false,
    })
}

/// Why a model stopped.
pub(super) fn reason_of(reason: FinishReason) -> Finish {
    match reason {
        FinishReason::Stop => Finish::Stop,
        FinishReason::Paused => Finish::Paused,
        FinishReason::Length => Finish::Length,
        FinishReason::ToolCalls => Finish::ToolCalls,
        FinishReason::ContentFilter => Finish::ContentFilter,
        FinishReason::Error => Finish::Error,
        FinishReason::Unknown => Finish::Unknown,
    }
}

/// Metadata as parts keep it; none where it could never be read again.
fn object(metadata: Option<Value>) -> Option<Map> {
    match metadata.filter(|metadata| too_deep(metadata).is_none()) {
        Some(Value::Object(map)) => Some(map),
        _ => None,
    }
}

/// What is wrong with a value that is nested too deep to be stored.
fn too_deep(value: &Value) -> Option<String> {
    let depth = json::depth(value.to_string().as_bytes());
    (depth > json::DEPTH_LIMIT)
        .then(|| format!("is nested {depth} levels deep; at most {} are allowed", json::DEPTH_LIMIT))
}

/// Saves the piece that is not saved yet.
fn save(entry: &EntryId, open: &mut OpenText, turn: &Turn<'_>) {
    let Some(piece) = open.text.get(open.saved..) else { return };
    turn.services.store.save_stream(turn.lease, entry, &open.part, open.saved, piece.to_owned());
    open.saved = open.text.len();
}
