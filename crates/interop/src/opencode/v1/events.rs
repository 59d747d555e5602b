//! What one durable event shows as on a V1 event stream.
//!
//! Deltas, status and errors of the moment are live only and not made here. The order inside one event is the order
//! in which OpenCode sends: a client that applies them one by one never sees a part before its message.

use everturn_model::entry::{Assistant, Body, Entry};
use everturn_model::event::{Amendment, Record};
use everturn_model::part::PartKind;
use everturn_model::path;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::tree::{Node, Tree};
use everturn_model::{EntryId, Event, Map, Millis, Part, PartId, RequestId, Session, SessionId};
use serde_json::Value;

use super::IdPlacement;
use super::info::Selected;
use super::part::{self, PartRef, part};
use super::session::session_info;
use super::stored::ShownResult;
use super::tool::CallEnd;
use super::view::{self, MessageView, ShownResults};
use crate::opencode::shape::{self, object, put, put_some};
use crate::opencode::unread;

/// An event as V1 clients see it; its id and place are the server's.
#[derive(Debug, Clone, PartialEq)]
pub struct V1Event {
    /// Its type, such as `message.updated`.
    pub kind: &'static str,
    /// What it says.
    pub properties: Value,
}

/// What a durable event shows as. `before` is the session row before it; `tree` holds the row after it and at least
/// the rows that it touches (everything, when it says so).
#[must_use]
pub fn events(before: Option<&Session>, record: &Record, tree: &Tree) -> Vec<V1Event> {
    let mut out = EventBuilder { session: &tree.session, tree, time: record.time, list: Vec::new() };
    out.record(before, record);
    out.list
}

/// Whether [`events`] needs the whole session to show an event.
#[must_use]
pub fn shows_whole_session(event: &Event) -> bool {
    matches!(event, Event::SessionForked { .. } | Event::LeafMoved { .. })
}

struct EventBuilder<'a> {
    session: &'a Session,
    tree: &'a Tree,
    time: Millis,
    list: Vec<V1Event>,
}

impl<'a> EventBuilder<'a> {
    fn record(&mut self, before: Option<&Session>, record: &'a Record) {
        match &record.event {
            Event::SessionCreated { .. } => self.session("session.created"),
            Event::SessionForked { .. } => self.all_messages(),
            Event::SessionImported { .. }
            | Event::SessionChanged { .. }
            | Event::SessionMoved { .. }
            | Event::SessionRestored {}
            | Event::TitleChanged { .. }
            | Event::SessionParked { .. }
            | Event::RevertCleared {} => self.session("session.updated"),
            Event::SessionTrashed {} => self.session("session.deleted"),
            Event::PromptAdmitted { item } => {
                let selection = |session: &Session| (session.agent.clone(), session.model.clone());
                if before.is_some_and(|before| selection(before) != selection(self.session)) {
                    self.session("session.updated");
                }
                self.message(&view::of_item(item, self.selected()));
                self.session("session.updated");
            }
            Event::PromptEdited { item } => self.message(&view::of_item(item, self.selected())),
            Event::PromptCancelled { id } => self.removed(id.as_str()),
            Event::EntryAdded { entry, .. } => {
                self.entry(&entry.id);
                if matches!(entry.body, Body::AgentSwitch { .. } | Body::ModelSwitch { .. }) {
                    self.session("session.updated");
                }
            }
            Event::ShellStarted { entry, .. }
            | Event::CompactionStarted { entry, .. }
            | Event::StepStarted { entry, .. } => self.entry(&entry.id),
            Event::ShellEnded { entry, part, .. } => {
                self.assistant(entry, |_| {});
                if let Some(part) = part {
                    self.part(entry, &part.id);
                }
            }
            Event::StepEnded { entry, parts, .. } => self.step_ended(entry, parts),
            Event::StepFailed { entry, remains, .. } => {
                for part in &remains.parts {
                    self.part(entry, &part.id);
                }
                self.assistant(entry, |_| {});
            }
            Event::CompactionFailed { entry, remains, .. } => {
                for part in &remains.parts {
                    self.part(entry, &part.id);
                }
                self.assistant(entry, |_| {});
            }
            Event::TurnSummarized { entry, .. } => self.summarized(entry),
            Event::PartStarted { entry, part }
            | Event::PartAdded { entry, part }
            | Event::RetryScheduled { entry, part, .. } => self.part(entry, &part.id),
            Event::PartEnded { entry, part, .. } => {
                let kind = self.tree.node(entry).and_then(|node| node.part(part)).map(|part| &part.kind);
                // Clients learn the input with the call.
                if !matches!(kind, Some(PartKind::Tool { .. })) {
                    self.part(entry, part);
                }
            }
            Event::ToolCalled { entry, part, .. } | Event::ToolProgress { entry, part, .. } => {
                self.part(entry, part);
            }
            Event::ToolSettled { entry, assistant: Some(assistant), part: Some(part) } => {
                self.settled(entry, assistant, part);
            }
            Event::CompactionEnded { entry, remains, .. } => {
                // One of an earlier version says nothing of its answer.
                if !remains.is_empty() {
                    self.step_ended(entry, &remains.parts);
                }
                let properties = object([("sessionID", self.session.id.as_str().into())]);
                self.push("session.compacted", properties);
            }
            Event::LeafMoved { from, to, .. } => self.moved(from.as_ref(), to.as_ref()),
            // Clients hear of a revert when its files are done.
            Event::RevertStaged { revert, .. } if revert.pending => {}
            Event::RevertStaged { summary, .. } => {
                let diffs = summary.as_ref().and_then(|summary| summary.diffs.as_deref());
                self.diff(shape::diffs(diffs.unwrap_or_default()));
                self.session("session.updated");
            }
            Event::EntryAmended { entry, part, change } => self.amended(entry, part.as_ref(), change),
            Event::TodoUpdated { todos } => {
                let todos = serde_json::to_value(todos).unwrap_or_default();
                let id = self.session.id.as_str();
                self.push("todo.updated", object([("sessionID", id.into()), ("todos", todos)]));
            }
            Event::RequestAsked { request } => self.asked(request),
            Event::RequestAnswered { id, reply, answers, .. } => {
                self.answered(id, *reply, answers.as_ref());
            }
            Event::ToolSettled { .. }
            | Event::PromptRerouted { .. }
            | Event::InboxReordered { .. }
            | Event::PromptPromoted { .. }
            | Event::Labeled { .. }
            | Event::UsageRecorded { .. }
            | Event::ToolBegun { .. }
            | Event::UsageReported { .. }
            | Event::RecoveryBegun { .. }
            | Event::RecoveryLeft {}
            | Event::SessionResumed {}
            | Event::InterruptRequested {} => {}
        }
    }

    fn push(&mut self, kind: &'static str, properties: Map) {
        self.list.push(V1Event { kind, properties: properties.into() });
    }

    fn session(&mut self, kind: &'static str) {
        let id = self.session.id.as_str();
        self.push(kind, object([("sessionID", id.into()), ("info", session_info(self.session))]));
    }

    fn selected(&self) -> Selected<'a> {
        Selected::of(self.session)
    }

    fn id(&self) -> &'a SessionId {
        &self.session.id
    }

    fn updated(&mut self, info: Value) {
        let id = self.session.id.as_str();
        self.push("message.updated", object([("sessionID", id.into()), ("info", info)]));
    }

    fn part_updated(&mut self, part: Value) {
        let (id, time) = (self.session.id.as_str(), self.time);
        let properties = object([("sessionID", id.into()), ("part", part), ("time", time.into())]);
        self.push("message.part.updated", properties);
    }

    fn removed(&mut self, message: &str) {
        let id = self.session.id.as_str();
        self.push("message.removed", object([("sessionID", id.into()), ("messageID", message.into())]));
    }

    fn diff(&mut self, diff: Value) {
        let id = self.session.id.as_str();
        self.push("session.diff", object([("sessionID", id.into()), ("diff", diff)]));
    }

    fn message(&mut self, shown: &MessageView<'_>) {
        self.updated(shown.info(self.id(), IdPlacement::Inside));
        for (_, part) in shown.parts(self.id(), IdPlacement::Inside) {
            self.part_updated(part);
        }
    }

    fn entry(&mut self, id: &EntryId) {
        let Some(node) = self.tree.node(id) else { return };
        for shown in self.shown(node) {
            self.message(&shown);
        }
    }

    fn shown(&self, node: &'a Node) -> Vec<MessageView<'a>> {
        let mut list = Vec::new();
        view::of_entry(node, &ShownResults::new(), self.selected(), &mut list);
        list
    }

    fn all_messages(&mut self) {
        let path = path::to(self.tree, self.session.leaf.as_ref());
        for shown in view::shown(&path, &self.tree.inbox) {
            self.message(&shown);
        }
    }

    fn assistant(&mut self, id: &EntryId, change: impl FnOnce(&mut Assistant)) {
        let Some(entry) = self.tree.node(id).map(|node| &node.entry) else { return };
        let Some(mut assistant) = entry.body.assistant().cloned() else { return };
        change(&mut assistant);
        self.updated(view::assistant_info(self.id(), entry, &assistant, self.selected()));
    }

    fn part(&mut self, entry: &EntryId, id: &PartId) {
        let Some(node) = self.tree.node(entry) else { return };
        let Some(own) = node.part(id).filter(|part| !part.hidden) else { return };
        let part = part(self.id(), &view::holder(&node.entry, own), own, None);
        self.part_updated(part);
    }

    fn settled(&mut self, entry: &Entry, assistant: &EntryId, id: &PartId) {
        let Body::ToolResult { result } = &entry.body else { return };
        let Some(node) = self.tree.node(assistant) else { return };
        let Some(own) = node.part(id).filter(|part| !part.hidden) else { return };
        let part = part(self.id(), &view::holder(&node.entry, own), own, Some(result));
        self.part_updated(part);
    }

    // The turn's numbers come with the step's end, what it changed after that, and only then is it closed.
    fn step_ended(&mut self, entry: &EntryId, parts: &[Part]) {
        let (finish, rest): (Vec<_>, Vec<_>) =
            parts.iter().partition(|part| matches!(part.kind, PartKind::StepFinish { .. }));
        for part in finish {
            self.part(entry, &part.id);
        }
        self.assistant(entry, |assistant| assistant.completed = None);
        for part in rest {
            self.part(entry, &part.id);
        }
        self.assistant(entry, |_| {});
    }

    fn summarized(&mut self, id: &EntryId) {
        self.session("session.updated");
        self.diff(Value::Array(Vec::new()));
        if let Some(item) = self.tree.waiting(id) {
            self.updated(view::of_item(item, self.selected()).info(self.id(), IdPlacement::Inside));
        } else if let Some(node) = self.tree.node(id)
            && let Some(first) = self.shown(node).first()
        {
            self.updated(first.info(self.id(), IdPlacement::Inside));
        }
    }

    fn moved(&mut self, from: Option<&EntryId>, to: Option<&EntryId>) {
        let (old, new) = (path::to(self.tree, from), path::to(self.tree, to));
        let common = old.iter().zip(&new).take_while(|(a, b)| a.entry.id == b.entry.id).count();
        let left = old.get(common..).unwrap_or_default();
        let joined = new.get(common..).unwrap_or_default();
        for node in left {
            for shown in self.shown(node) {
                self.removed(&shown.id);
            }
        }
        self.completed_otherwise(&old, &new, common);
        let kept = new.get(..common).unwrap_or_default();
        let skip = view::shown(kept, &[]).len();
        if !joined.is_empty() {
            for shown in view::shown(&new, &[]).iter().skip(skip) {
                self.message(shown);
            }
        }
        self.session("session.updated");
    }

    // A result that left or joined changes a call that stayed.
    fn completed_otherwise(&mut self, old: &[&'a Node], new: &[&'a Node], common: usize) {
        let (before, after) = (path::results(old), path::results(new));
        for node in new.get(..common).unwrap_or_default().iter().filter(|node| !node.entry.hidden) {
            for own in node.parts.iter().filter(|part| !part.hidden) {
                let Some(call) = own.kind.call() else { continue };
                let key = (&node.entry.id, call);
                let result = after.get(&key).copied();
                if before.get(&key).copied() == result {
                    continue;
                }
                let closed = node.entry.body.assistant().and_then(|assistant| assistant.completed);
                let holder = view::holder(&node.entry, own);
                let call = CallEnd { result: result.map(ShownResult::from), closed };
                let (session, part) = (self.session.id.as_str(), PartRef::Read(own));
                let shown =
                    part::PartView { session, message: &holder, part, call, ids: IdPlacement::Inside };
                self.part_updated(unread::to_value(&shown));
            }
        }
    }

    fn amended(&mut self, id: &EntryId, part: Option<&PartId>, change: &Amendment) {
        let Some(node) = self.tree.node(id) else { return };
        match (part, change) {
            (Some(part), Amendment::Hide) => {
                let holder = node.part(part).map(|own| view::holder(&node.entry, own));
                let message = holder.unwrap_or_else(|| node.entry.wire_id().into());
                let properties = object([
                    ("sessionID", self.session.id.as_str().into()),
                    ("messageID", message.as_ref().into()),
                    ("partID", part.as_str().into()),
                ]);
                self.push("message.part.removed", properties);
            }
            (Some(part), Amendment::Unhide) => self.part(id, part),
            (_, Amendment::ReplacePart { part }) => self.part(id, &part.id),
            (None, Amendment::Hide) => {
                let mut list = Vec::new();
                let mut visible = node.clone();
                visible.entry.hidden = false;
                view::of_entry(&visible, &ShownResults::new(), self.selected(), &mut list);
                for shown in &list {
                    self.removed(&shown.id);
                }
            }
            (None, Amendment::Unhide) => self.entry(id),
            (_, Amendment::ReplaceEntry { .. }) => {
                for shown in self.shown(node) {
                    self.updated(shown.info(self.id(), IdPlacement::Inside));
                }
            }
        }
    }

    fn asked(&mut self, request: &Request) {
        let mut map =
            object([("id", request.id.as_str().into()), ("sessionID", self.session.id.as_str().into())]);
        let kind = match &request.ask {
            Ask::Permission { permission, patterns, always, metadata } => {
                put(&mut map, "permission", permission.as_str());
                put(&mut map, "patterns", patterns.clone());
                put(&mut map, "metadata", metadata.clone());
                put(&mut map, "always", always.clone());
                "permission.asked"
            }
            Ask::Question { questions } => {
                put(&mut map, "questions", questions.clone());
                "question.asked"
            }
        };
        let call = request.call.as_ref().map(|call| {
            object([("messageID", call.entry.as_str().into()), ("callID", call.call.as_str().into())])
        });
        put_some(&mut map, "tool", call);
        self.push(kind, map);
    }

    fn answered(&mut self, id: &RequestId, reply: Option<Reply>, answers: Option<&Value>) {
        let mut map =
            object([("sessionID", self.session.id.as_str().into()), ("requestID", id.as_str().into())]);
        let question = id.as_str().starts_with("que");
        match (answers, reply) {
            (Some(answers), _) => {
                put(&mut map, "answers", answers.clone());
                self.push("question.replied", map);
            }
            (None, _) if question => self.push("question.rejected", map),
            (None, reply) => {
                let reply = serde_json::to_value(reply.unwrap_or(Reply::Reject)).unwrap_or_default();
                put(&mut map, "reply", reply);
                self.push("permission.replied", map);
            }
        }
    }
}
