//! Messages as entries.
//!
//! Messages are ordered by time, then id: ids wrap. The end of a local call becomes an entry of its own after its
//! turn, so that a branch can have the call without the result; a command and its output, or a compaction and its
//! summary, are one entry.

use std::collections::HashSet;

use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Assistant, Body, Compaction, Entry, Pair, Shell, User};
use everturn_model::event::Seed;
use everturn_model::finish::Trigger;
use everturn_model::ids::Stamp;
use everturn_model::part::PartKind;
use everturn_model::tool::{ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Extra, Millis, Part, SessionId};
use serde_json::Value;

use super::info::{self, MessagePlace, ReadHead, Role};
use super::part;
use super::{IdPlacement, SHELL, V1Message, tool};
use crate::opencode::shape::{object, text};
use crate::opencode::unread::{V1, WHOLE};

/// The entries that messages of a session stand for.
#[must_use]
pub fn read_messages(session: &SessionId, messages: Vec<V1Message>, mint: &mut DerivedIds) -> Seed {
    let messages = messages.into_iter().map(|message| {
        let head = info::read(message.info, session, IdPlacement::Inside);
        ReadMessage::new(session, head, message.parts, IdPlacement::Inside, mint)
    });
    let messages = messages.collect();
    assemble(messages, mint)
}

/// A message that was read, before it has its place.
#[derive(Debug)]
pub(in crate::opencode) struct ReadMessage {
    head: ReadHead,
    parts: Vec<Part>,
    time: Millis,
}

impl ReadMessage {
    /// A message from its head and parts.
    pub(in crate::opencode) fn new(
        session: &SessionId,
        head: ReadHead,
        parts: Vec<Value>,
        ids: IdPlacement,
        mint: &mut DerivedIds,
    ) -> Self {
        let time = head.created.unwrap_or_default();
        let message = head.id.as_deref().unwrap_or_default();
        let place = MessagePlace { session: session.as_str(), message, time, ids };
        let parts = parts.into_iter().map(|value| part::read(value, place, None, mint)).collect();
        Self { head, parts, time }
    }

    /// A message whose parts were read already.
    pub(in crate::opencode) fn of(head: ReadHead, parts: Vec<Part>) -> Self {
        let time = head.created.unwrap_or_default();
        Self { head, parts, time }
    }

    fn id(&self) -> &str {
        self.head.id.as_deref().unwrap_or_default()
    }
}

/// The entries of messages.
pub(in crate::opencode) fn assemble(mut messages: Vec<ReadMessage>, mint: &mut DerivedIds) -> Seed {
    find_times(&mut messages);
    messages.sort_by(|a, b| (a.time, a.id()).cmp(&(b.time, b.id())));
    part_ids(&mut messages, mint);
    let mut chain =
        Chain { nodes: Vec::with_capacity(messages.len() * 2), leaf: None, used: HashSet::new(), mint };
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        match messages.next_if(|next| pairs(&message, next)) {
            Some(next) => chain.pair(message, next),
            None => chain.single(message),
        }
    }
    Seed { nodes: chain.nodes, leaf: chain.leaf, ..Seed::default() }
}

// A message that does not say when it was made says so by its id, near the time of the others.
fn find_times(messages: &mut [ReadMessage]) {
    let reference = messages.iter().filter_map(|message| message.head.created).max().unwrap_or_default();
    for message in messages.iter_mut().filter(|message| message.head.created.is_none()) {
        message.time = Stamp::of(message.id()).map_or(reference, |stamp| stamp.time(reference));
    }
}

// Part ids are unique in a session; a copy that is not gets a new one here and keeps its own on the wire.
fn part_ids(messages: &mut [ReadMessage], mint: &mut DerivedIds) {
    let count = messages.iter().map(|message| message.parts.len()).sum();
    let mut seen = HashSet::with_capacity(count);
    let unique = messages.iter().flat_map(|message| &message.parts).all(|part| seen.insert(part.id.as_str()));
    if unique {
        return;
    }
    let mut seen = HashSet::new();
    for message in messages {
        for part in &mut message.parts {
            if !seen.insert(part.id.clone()) {
                let own = std::mem::replace(&mut part.id, mint.part(message.time));
                if part.extra.field(V1, "id").is_none() && part.extra.get(WHOLE).is_none() {
                    part.extra.put(V1, "id", own.as_str().into());
                }
            }
        }
    }
}

fn pairs(first: &ReadMessage, second: &ReadMessage) -> bool {
    let (Role::User(_), Role::Assistant(assistant)) = (&first.head.role, &second.head.role) else {
        return false;
    };
    if first.head.id.is_none() || second.head.id.is_none() || assistant.answers != first.head.id {
        return false;
    }
    match first.parts.as_slice() {
        [Part { kind: PartKind::Compaction { .. }, .. }] => second.head.summary,
        [Part { kind: PartKind::Text { text, synthetic: Some(true), .. }, .. }] if text == SHELL => {
            matches!(second.parts.as_slice(), [one] if command(one).is_some())
        }
        _ => false,
    }
}

fn command(part: &Part) -> Option<&str> {
    match &part.kind {
        PartKind::Tool { tool, state, .. } if tool == "bash" => {
            state.input().as_object().and_then(|input| text(input, "command"))
        }
        _ => None,
    }
}

struct Chain<'m> {
    nodes: Vec<Node>,
    leaf: Option<EntryId>,
    used: HashSet<String>,
    mint: &'m mut DerivedIds,
}

impl Chain<'_> {
    fn single(&mut self, message: ReadMessage) {
        let ReadMessage { head: ReadHead { id, role, mut extra, .. }, mut parts, time } = message;
        let (id, wire) = self.name(id, time);
        let mut results = Vec::new();
        let body = match role {
            Role::User(user) => Body::User(*user),
            Role::Assistant(assistant) => {
                close(&mut parts, &assistant);
                results = split(&mut parts, time);
                Body::Assistant(*assistant)
            }
            Role::Other(info) => {
                let role = info.get("role").and_then(Value::as_str).unwrap_or("message").to_owned();
                extra.set(WHOLE, object([("info", info)]));
                Body::Foreign { foreign_type: role }
            }
        };
        self.push(id, wire, time, body, extra, parts);
        for result in results {
            let time = result.end.unwrap_or(time);
            let id = self.mint.entry(time);
            self.push(id, None, time, Body::ToolResult { result }, Extra::default(), Vec::new());
        }
    }

    fn pair(&mut self, first: ReadMessage, second: ReadMessage) {
        let (Role::User(user), Role::Assistant(assistant)) = (first.head.role, second.head.role) else {
            return;
        };
        let (mut parts, mut told) = (first.parts, second.parts);
        close(&mut told, &assistant);
        told.iter_mut().for_each(|part| part.second = true);
        let body = PairedHeads {
            user: *user,
            user_extra: first.head.extra,
            second: second.head.id.unwrap_or_default(),
            second_time: second.time,
            assistant: *assistant,
            second_extra: second.head.extra,
        }
        .body(&parts, &told);
        parts.append(&mut told);
        let (id, wire) = self.name(first.head.id, first.time);
        self.push(id, wire, first.time, body, Extra::default(), parts);
    }

    // The message's own id where it is free, else a new one, with the own id kept for the wire.
    fn name(&mut self, id: Option<String>, time: Millis) -> (EntryId, Option<String>) {
        match id {
            Some(id) if self.used.insert(id.clone()) => (EntryId::new(id), None),
            own => (self.mint.entry(time), own),
        }
    }

    fn push(
        &mut self,
        id: EntryId,
        wire: Option<String>,
        time: Millis,
        body: Body,
        extra: Extra,
        parts: Vec<Part>,
    ) {
        let mut entry = Entry::new(id.clone(), self.leaf.replace(id), time, body);
        (entry.wire, entry.extra) = (wire, extra);
        self.nodes.push(Node::new(entry, parts));
    }
}

struct PairedHeads {
    user: User,
    user_extra: Extra,
    second: String,
    second_time: Millis,
    assistant: Assistant,
    second_extra: Extra,
}

impl PairedHeads {
    fn body(self, asked: &[Part], told: &[Part]) -> Body {
        let completed = self.assistant.completed;
        let failed = self.assistant.error.is_some();
        let pair = Some(Box::new(Pair {
            user: self.user,
            user_extra: self.user_extra,
            second: self.second,
            second_time: self.second_time,
            assistant: self.assistant,
            second_extra: self.second_extra,
        }));
        match (asked, told) {
            ([Part { kind: PartKind::Compaction { auto }, extra, .. }], told) => {
                let kept = extra.field(V1, "tail_start_id").and_then(Value::as_str);
                Body::Compaction(Compaction {
                    summary: if failed { None } else { summary(told) },
                    first_kept: kept.map(EntryId::new),
                    reason: Some(if *auto { Trigger::Auto } else { Trigger::Manual }),
                    pair,
                    ..Compaction::default()
                })
            }
            (_, told) => {
                let tool = told.first();
                let result = tool.and_then(|tool| match &tool.kind {
                    PartKind::Tool {
                        state: ToolState::Completed { result, .. } | ToolState::Error { result, .. },
                        ..
                    } => Some(result),
                    _ => None,
                });
                let exit = result.and_then(|result| result.metadata.as_ref()?.get("exit")?.as_i64());
                Body::Shell(Shell {
                    command: tool.and_then(command).unwrap_or_default().to_owned(),
                    output: result.map(|result| result.output.clone()),
                    exit,
                    call: tool.and_then(|tool| tool.kind.call()).map(str::to_owned),
                    completed,
                    pair,
                })
            }
        }
    }
}

fn summary(parts: &[Part]) -> Option<String> {
    let texts = parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(text)
}

// Takes the ends of local calls out of a turn. A call id that repeats in it could not be told apart, so such calls
// keep their ends.
#[expect(clippy::vec_box, reason = "each goes into an entry as it is")]
fn split(parts: &mut [Part], time: Millis) -> Vec<Box<ToolResult>> {
    let repeated = repeated(parts);
    let mut results = Vec::new();
    for part in parts {
        let hosted = part.kind.is_hosted();
        let PartKind::Tool { call, state, .. } = &mut part.kind else { continue };
        if hosted || repeated.contains(call) || !state.is_settled() {
            continue;
        }
        let running = ToolState::Running { input: Value::Null, title: None, metadata: None, start: time };
        let settled = std::mem::replace(state, running);
        if let (
            ToolState::Running { input: slot, start, .. },
            ToolState::Completed { input, result } | ToolState::Error { input, result },
        ) = (state, settled)
        {
            *slot = input;
            *start = result.start.unwrap_or(time);
            results.push(result);
        }
    }
    results
}

fn repeated(parts: &[Part]) -> HashSet<String> {
    let mut seen = HashSet::new();
    let calls = parts.iter().filter_map(|part| part.kind.call());
    calls.filter(|call| !seen.insert(*call)).map(str::to_owned).collect()
}

// In a closed turn a call without an end would show as interrupted; the source shows it as it is.
fn close(parts: &mut [Part], assistant: &Assistant) {
    if assistant.completed.is_some() {
        parts.iter_mut().for_each(tool::keep_closed);
    }
}
