//! A path as messages.
//!
//! Every entry shows as no message (labels, switches, results), one (prompts, turns, injected text) or two (shells and
//! compactions). Nothing is copied until a message is printed.

use std::borrow::Cow;
use std::collections::HashMap;

use everturn_model::entry::{Assistant, Body, Compaction, Entry, Pair, Shell, User};
use everturn_model::finish::{Finish, Trigger};
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::path;
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Extra, Millis, Part, PartId, Session, SessionId};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::info::{AnswerPurpose, Info, MessagePlace, Selected};
use super::part::{self, PartRef};
use super::stored::{
    CallStage, NodeForm, PartForm, ReadEntry, ReadNode, ShownResult, ShownState, StoredBody, StoredContent,
    StoredKind,
};
use super::tool::CallEnd;
use super::{IdPlacement, V1Message};
use crate::opencode::shape::object;
use crate::opencode::unread::{self, WHOLE};

/// The results on a path, by assistant and call, as far as they are shown.
pub(super) type ShownResults<'a> = HashMap<(&'a EntryId, &'a str), ShownResult<'a>>;

/// The messages of a path, then the prompts that wait.
#[must_use]
pub fn messages<'a>(
    session: &'a SessionId,
    path: &[&'a Node],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> Vec<V1Message> {
    conversation(session, path, inbox).messages()
}

/// The same messages before they are printed: to be counted, cut, and written straight to JSON.
#[must_use]
pub fn conversation<'a>(
    session: &'a SessionId,
    path: &[&'a Node],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> ConversationView<'a> {
    ConversationView { session, list: shown(path, inbox) }
}

/// The same of nodes that were read from what is stored.
#[must_use]
pub fn stored_conversation<'a>(
    session: &'a SessionId,
    path: &'a [ReadNode<'a>],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> ConversationView<'a> {
    let results = results_of(path);
    let mut list = Vec::with_capacity(path.len());
    let mut at = Selected::default();
    for node in path {
        match &node.0 {
            NodeForm::Whole(node) => {
                at.step(&node.entry);
                of_entry(node, &results, at, &mut list);
            }
            NodeForm::Frequent(entry, parts) => of_stored(entry, parts, &results, &mut at, &mut list),
        }
    }
    list.extend(inbox.into_iter().map(|item| of_item(item, at)));
    ConversationView { session, list }
}

/// Messages that are not printed yet. It serializes as the list of messages that [`messages`] gives, without making
/// a value of each, which is most of the work for a long session.
#[derive(Debug)]
pub struct ConversationView<'a> {
    session: &'a SessionId,
    list: Vec<MessageView<'a>>,
}

impl ConversationView<'_> {
    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The ids of the messages, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.list.iter().map(|shown| shown.id.as_ref())
    }

    /// True when nothing outside this piece of a path could show its messages otherwise: each says its agent and its
    /// model by itself, and each call has its end.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        self.list.iter().all(|shown| {
            let says_all = match &shown.head {
                MessageHead::User(user, _) => user.agent.is_some() && user.model.is_some(),
                MessageHead::Assistant(it, ..) => {
                    it.agent.is_some() && it.model.is_some() && it.answers.is_some()
                }
                MessageHead::Whole(_) => true,
            };
            says_all && shown.parts.iter().all(|(part, result)| result.is_some() || !part.is_open_call())
        })
    }

    /// Keeps the message with this id only; false when there is none.
    pub fn keep_one(&mut self, id: &str) -> bool {
        let found = self.ids().position(|own| own == id);
        found.inspect(|at| self.keep(*at..at + 1)).is_some()
    }

    /// The list as JSON of about this many bytes.
    ///
    /// # Errors
    /// When it holds what JSON cannot say.
    pub fn to_json(&self, about: usize) -> Result<Vec<u8>, serde_json::Error> {
        let mut json = Vec::with_capacity(about);
        serde_json::to_writer(&mut json, self)?;
        Ok(json)
    }

    /// The first message.
    #[must_use]
    pub fn first(&self) -> Option<ShownMessage<'_>> {
        self.list.first().map(|shown| ShownMessage { shown, session: self.session })
    }

    /// Keeps these messages only.
    pub fn keep(&mut self, range: std::ops::Range<usize>) {
        self.list.truncate(range.end);
        self.list.drain(..range.start.min(self.list.len()));
    }

    /// The messages, printed.
    #[must_use]
    pub fn messages(&self) -> Vec<V1Message> {
        self.list.iter().map(|shown| shown.write(self.session)).collect()
    }
}

impl Serialize for ConversationView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().map(|shown| ShownMessage { shown, session: self.session }))
    }
}

/// One of the messages, not printed yet.
#[derive(Debug)]
pub struct ShownMessage<'a> {
    shown: &'a MessageView<'a>,
    session: &'a SessionId,
}

impl Serialize for ShownMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("info", &self.shown.head(self.session, IdPlacement::Inside))?;
        map.serialize_entry("parts", &WrittenParts(self))?;
        map.end()
    }
}

struct WrittenParts<'a>(&'a ShownMessage<'a>);

impl Serialize for WrittenParts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.shown.own_parts(self.0.session, IdPlacement::Inside))
    }
}

/// A waiting prompt as a message.
#[must_use]
pub fn inbox_message(session: &SessionId, item: &InboxItem, at: Selected<'_>) -> V1Message {
    of_item(item, at).write(session)
}

/// The id of the message that holds a part of an entry.
#[must_use]
pub fn holder<'a>(entry: &'a Entry, part: &Part) -> Cow<'a, str> {
    if part.second { second_id(entry) } else { entry.wire_id().into() }
}

impl<'a> Selected<'a> {
    /// What a session row selects.
    #[must_use]
    pub fn of(session: &'a Session) -> Self {
        Self { agent: session.agent.as_deref(), model: session.model.as_ref(), user: None }
    }

    fn prompted(&mut self, id: &'a str, user: &'a User) {
        self.user = Some(id);
        self.select(user.agent.as_deref(), user.model.as_ref());
    }

    fn select(&mut self, agent: Option<&'a str>, model: Option<&'a ModelRef>) {
        self.agent = agent.or(self.agent);
        self.model = model.or(self.model);
    }

    fn step(&mut self, entry: &'a Entry) {
        let (agent, model): (Option<&str>, Option<&ModelRef>) = match &entry.body {
            Body::User(user) => return self.prompted(entry.wire_id(), user),
            Body::Assistant(assistant) => (None, assistant.model.as_ref()),
            Body::AgentSwitch { agent } => (Some(agent), None),
            Body::ModelSwitch { model } => (None, Some(model)),
            Body::Synthetic { .. } | Body::BranchSummary { .. } => {
                self.user = Some(entry.wire_id());
                (None, None)
            }
            _ => (None, None),
        };
        self.select(agent, model);
    }
}

/// A message before it is printed.
#[derive(Debug)]
pub(in crate::opencode) struct MessageView<'a> {
    /// Its id on the wire.
    pub(in crate::opencode) id: Cow<'a, str>,
    /// When it was made.
    pub(in crate::opencode) time: Millis,
    head: MessageHead<'a>,
    parts: Vec<ShownPart<'a>>,
    at: Selected<'a>,
}

/// A part with the result of its call on the path.
type ShownPart<'a> = (PartSource<'a>, Option<ShownResult<'a>>);

#[derive(Debug)]
enum PartSource<'a> {
    Read(&'a Part),
    Made(Box<Part>),
    Stored(&'a StoredContent<'a>),
}

impl PartSource<'_> {
    fn as_ref(&self) -> PartRef<'_> {
        match self {
            Self::Read(part) => PartRef::Read(part),
            Self::Made(part) => PartRef::Read(part),
            Self::Stored(part) => PartRef::Stored(part),
        }
    }

    /// True for a call that has no end of its own.
    fn is_open_call(&self) -> bool {
        let state: ShownState<'_> = match self.as_ref() {
            PartRef::Read(part) => match &part.kind {
                PartKind::Tool { state, .. } => state.into(),
                _ => return false,
            },
            PartRef::Stored(part) => match &part.kind {
                StoredKind::Tool { state, .. } => state.into(),
                _ => return false,
            },
        };
        !matches!(state.stage, CallStage::Ended(_))
    }
}

#[derive(Debug)]
enum MessageHead<'a> {
    User(Cow<'a, User>, Cow<'a, Extra>),
    Assistant(Cow<'a, Assistant>, Cow<'a, Extra>, AnswerPurpose),
    Whole(&'a Value),
}

impl MessageView<'_> {
    fn write(&self, session: &SessionId) -> V1Message {
        let parts =
            self.own_parts(session, IdPlacement::Inside).map(|part| unread::to_value(&part)).collect();
        V1Message { info: self.info(session, IdPlacement::Inside), parts }
    }

    /// Its head, printed.
    pub(in crate::opencode) fn info(&self, session: &SessionId, ids: IdPlacement) -> Value {
        unread::to_value(&self.head(session, ids))
    }

    fn head<'b>(&'b self, session: &'b SessionId, ids: IdPlacement) -> Info<'b> {
        let place = MessagePlace { session: session.as_str(), message: &self.id, time: self.time, ids };
        match &self.head {
            MessageHead::User(user, extra) => Info::User(place, user, extra, self.at),
            MessageHead::Assistant(assistant, extra, purpose) => {
                Info::Assistant(place, assistant, extra, self.at, *purpose)
            }
            MessageHead::Whole(value) => Info::Whole(value),
        }
    }

    fn own_parts<'b>(
        &'b self,
        session: &'b SessionId,
        ids: IdPlacement,
    ) -> impl Iterator<Item = part::PartView<'b>> + use<'b> {
        let closed = match &self.head {
            MessageHead::Assistant(assistant, ..) => assistant.completed,
            MessageHead::User(..) | MessageHead::Whole(_) => None,
        };
        self.parts.iter().map(move |(own, result)| part::PartView {
            session: session.as_str(),
            message: &self.id,
            part: own.as_ref(),
            call: CallEnd { result: *result, closed },
            ids,
        })
    }

    /// Its parts, printed, with their ids on the wire.
    pub(in crate::opencode) fn parts(
        &self,
        session: &SessionId,
        ids: IdPlacement,
    ) -> impl Iterator<Item = (&str, Value)> {
        let printed: Vec<_> = self.own_parts(session, ids).map(|part| unread::to_value(&part)).collect();
        self.parts.iter().map(|(own, _)| own.as_ref().id()).zip(printed)
    }
}

/// The messages of a path and an inbox, before they are printed.
pub(in crate::opencode) fn shown<'a>(
    path: &[&'a Node],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> Vec<MessageView<'a>> {
    let results = path::results(path).into_iter().map(|(key, result)| (key, result.into())).collect();
    let mut list = Vec::with_capacity(path.len());
    let mut at = Selected::default();
    for node in path {
        at.step(&node.entry);
        of_entry(node, &results, at, &mut list);
    }
    list.extend(inbox.into_iter().map(|item| of_item(item, at)));
    list
}

pub(super) fn of_item<'a>(item: &'a InboxItem, at: Selected<'a>) -> MessageView<'a> {
    MessageView {
        id: item.id.as_str().into(),
        time: item.time,
        head: MessageHead::User(Cow::Borrowed(&item.user), Cow::Borrowed(&item.extra)),
        parts: item
            .parts
            .iter()
            .filter(|part| !part.hidden)
            .map(|part| (PartSource::Read(part), None))
            .collect(),
        at,
    }
}

pub(super) fn of_entry<'a>(
    node: &'a Node,
    results: &ShownResults<'a>,
    at: Selected<'a>,
    list: &mut Vec<MessageView<'a>>,
) {
    let entry = &node.entry;
    if entry.hidden {
        return;
    }
    let first = |head, parts| MessageView { id: entry.wire_id().into(), time: entry.time, head, parts, at };
    match &entry.body {
        Body::User(user) => {
            let head = MessageHead::User(Cow::Borrowed(user), Cow::Borrowed(&entry.extra));
            list.push(first(head, own_parts(node, results, |_| true)));
        }
        Body::Assistant(assistant) => {
            let head = MessageHead::Assistant(
                Cow::Borrowed(assistant),
                Cow::Borrowed(&entry.extra),
                AnswerPurpose::Answer,
            );
            list.push(first(head, own_parts(node, results, |_| true)));
        }
        Body::Synthetic { text, .. } => {
            let mut parts = own_parts(node, results, |_| true);
            parts.iter_mut().for_each(|(part, _)| mark_synthetic(part));
            if let Some(text) = text.as_deref().filter(|_| parts.is_empty()) {
                parts.push(made(entry, 0, synthetic(text)));
            }
            list.push(first(MessageHead::User(Cow::Owned(User::default()), Cow::default()), parts));
        }
        Body::BranchSummary { summary, .. } => {
            let parts = vec![made(entry, 0, synthetic(summary))];
            list.push(first(MessageHead::User(Cow::Owned(User::default()), Cow::default()), parts));
        }
        Body::Shell(Shell { pair: Some(pair), .. }) => {
            of_pair(node, pair, AnswerPurpose::Answer, results, at, list);
        }
        Body::Compaction(Compaction { pair: Some(pair), .. }) => {
            of_pair(node, pair, AnswerPurpose::Summary, results, at, list);
        }
        Body::Shell(shell) => of_shell(entry, shell, at, list),
        Body::Compaction(compaction) => of_compaction(entry, compaction, at, list),
        Body::Foreign { .. } => {
            if let Some(whole) = entry.extra.field(WHOLE, "info") {
                list.push(first(MessageHead::Whole(whole), own_parts(node, results, |_| true)));
            }
        }
        Body::ToolResult { .. }
        | Body::System { .. }
        | Body::AgentSwitch { .. }
        | Body::ModelSwitch { .. }
        | Body::ThinkingSwitch { .. }
        | Body::Epoch { .. }
        | Body::Title { .. }
        | Body::Label { .. }
        | Body::Custom { .. } => {}
    }
}

fn own_parts<'a>(
    node: &'a Node,
    results: &ShownResults<'a>,
    which: impl Fn(&Part) -> bool,
) -> Vec<ShownPart<'a>> {
    let parts = node.parts.iter().filter(|part| !part.hidden && which(part));
    parts
        .map(|part| {
            let call = part.kind.call();
            let result = call.and_then(|call| results.get(&(&node.entry.id, call)).copied());
            (PartSource::Read(part), result)
        })
        .collect()
}

fn of_stored<'a>(
    entry: &'a ReadEntry<'a>,
    parts: &'a [PartForm<'a>],
    results: &ShownResults<'a>,
    at: &mut Selected<'a>,
    list: &mut Vec<MessageView<'a>>,
) {
    let extra = Cow::Borrowed(&entry.extra);
    let head = match &entry.body {
        StoredBody::User(user) => {
            at.prompted(entry.wire_id(), user);
            MessageHead::User(Cow::Borrowed(user), extra)
        }
        StoredBody::Assistant(assistant) => {
            at.select(None, assistant.model.as_ref());
            MessageHead::Assistant(Cow::Borrowed(assistant), extra, AnswerPurpose::Answer)
        }
        StoredBody::ToolResult { .. } => return,
    };
    if entry.hidden {
        return;
    }
    let shown = |part: &'a PartForm<'a>| {
        let result = part.call().and_then(|call| results.get(&(&entry.id, call)).copied());
        let source = match part {
            PartForm::Whole(part) => PartSource::Read(part),
            PartForm::Frequent(part) => PartSource::Stored(part),
        };
        (source, result)
    };
    let parts = parts.iter().filter(|part| !part.is_hidden()).map(shown).collect();
    list.push(MessageView { id: entry.wire_id().into(), time: entry.time, head, parts, at: *at });
}

/// The results among these nodes, found as [`path::results`] finds them.
fn results_of<'a>(path: &'a [ReadNode<'a>]) -> ShownResults<'a> {
    let mut holder: HashMap<&str, &EntryId> = HashMap::new();
    let mut results = HashMap::new();
    for node in path {
        if let Some((call, result)) = node.result() {
            if let Some(assistant) = holder.get(call) {
                results.insert((*assistant, call), result);
            }
        } else {
            holder.extend(node.calls().into_iter().map(|call| (call, node.id())));
        }
    }
    results
}

fn of_pair<'a>(
    node: &'a Node,
    pair: &'a Pair,
    purpose: AnswerPurpose,
    results: &ShownResults<'a>,
    at: Selected<'a>,
    list: &mut Vec<MessageView<'a>>,
) {
    let entry = &node.entry;
    list.push(MessageView {
        id: entry.wire_id().into(),
        time: entry.time,
        head: MessageHead::User(Cow::Borrowed(&pair.user), Cow::Borrowed(&pair.user_extra)),
        parts: own_parts(node, results, |part| !part.second),
        at,
    });
    list.push(MessageView {
        id: pair.second.as_str().into(),
        time: pair.second_time,
        head: MessageHead::Assistant(
            Cow::Borrowed(&pair.assistant),
            Cow::Borrowed(&pair.second_extra),
            purpose,
        ),
        parts: own_parts(node, results, |part| part.second),
        at: Selected { user: Some(entry.wire_id()), ..at },
    });
}

fn of_shell<'a>(entry: &'a Entry, shell: &Shell, at: Selected<'a>, list: &mut Vec<MessageView<'a>>) {
    let call = shell.call.clone().unwrap_or_else(|| entry.wire_id().to_owned());
    let input: Value = object([("command", shell.command.as_str().into())]).into();
    let state = match &shell.output {
        None => ToolState::Running { input, title: None, metadata: None, start: entry.time },
        Some(output) => {
            let mut result = Box::new(ToolResult::new(&call, "bash", Outcome::Completed, output));
            let mut metadata = object([("output", output.as_str().into())]);
            if let Some(exit) = shell.exit {
                metadata.insert("exit".to_owned(), exit.into());
            }
            result.metadata = Some(metadata);
            (result.start, result.end) = (Some(entry.time), Some(shell.completed.unwrap_or(entry.time)));
            ToolState::Completed { input, result }
        }
    };
    let completed = shell.output.as_ref().map(|_| shell.completed.unwrap_or(entry.time));
    let tool = PartKind::Tool { call, tool: "bash".to_owned(), state, hosted: false, metadata: None };
    let parts = [synthetic(super::SHELL), tool];
    two(entry, parts, Assistant { completed, ..Assistant::default() }, AnswerPurpose::Answer, at, list);
}

fn of_compaction<'a>(
    entry: &'a Entry,
    compaction: &Compaction,
    at: Selected<'a>,
    list: &mut Vec<MessageView<'a>>,
) {
    let auto = compaction.reason != Some(Trigger::Manual);
    let done = compaction.summary.is_some();
    let assistant = Assistant {
        completed: done.then(|| compaction.completed.unwrap_or(entry.time)),
        finish: done.then_some(Finish::Stop),
        ..Assistant::default()
    };
    let text = PartKind::text(compaction.summary.as_deref().unwrap_or_default());
    two(entry, [PartKind::Compaction { auto }, text], assistant, AnswerPurpose::Summary, at, list);
}

// An entry of another program has no second message: its ids follow from the entry's.
fn two<'a>(
    entry: &'a Entry,
    [asked, told]: [PartKind; 2],
    assistant: Assistant,
    purpose: AnswerPurpose,
    at: Selected<'a>,
    list: &mut Vec<MessageView<'a>>,
) {
    list.push(MessageView {
        id: entry.wire_id().into(),
        time: entry.time,
        head: MessageHead::User(Cow::Owned(User::default()), Cow::default()),
        parts: vec![made(entry, 0, asked)],
        at,
    });
    let told = made(entry, 1, told);
    list.push(MessageView {
        id: second_id(entry),
        time: entry.time,
        head: MessageHead::Assistant(Cow::Owned(assistant), Cow::default(), purpose),
        parts: vec![told],
        at: Selected { user: Some(entry.wire_id()), ..at },
    });
}

/// The id of the second message of an entry that shows as two.
pub(in crate::opencode) fn second_id(entry: &Entry) -> Cow<'_, str> {
    match &entry.body {
        Body::Shell(Shell { pair: Some(pair), .. })
        | Body::Compaction(Compaction { pair: Some(pair), .. }) => pair.second.as_str().into(),
        // Sorts after the first and before whatever has a later stamp.
        _ => format!("{}z", entry.wire_id()).into(),
    }
}

fn synthetic(text: &str) -> PartKind {
    PartKind::Text { text: text.to_owned(), synthetic: Some(true), ignored: None, time: None, metadata: None }
}

fn mark_synthetic(source: &mut PartSource<'_>) {
    if let PartSource::Read(part) = source
        && let PartKind::Text { synthetic: None, .. } = &part.kind
    {
        let mut part = Box::new(part.clone());
        if let PartKind::Text { synthetic, .. } = &mut part.kind {
            *synthetic = Some(true);
        }
        *source = PartSource::Made(part);
    }
}

fn made(entry: &Entry, at: usize, kind: PartKind) -> ShownPart<'static> {
    let wire = entry.wire_id();
    let rest = wire.split_once('_').map_or(wire, |(_, rest)| rest);
    (PartSource::Made(Box::new(Part::new(PartId::new(format!("prt_{rest}{at}")), kind))), None)
}

/// The second message of an entry, or the one message of a turn, where the entry has an assistant.
pub(in crate::opencode) fn assistant_info(
    session: &SessionId,
    entry: &Entry,
    assistant: &Assistant,
    at: Selected<'_>,
) -> Value {
    let (id, time, extra, purpose) = match &entry.body {
        Body::Shell(Shell { pair: Some(pair), .. }) => {
            (pair.second.as_str(), pair.second_time, &pair.second_extra, AnswerPurpose::Answer)
        }
        Body::Compaction(Compaction { pair: Some(pair), .. }) => {
            (pair.second.as_str(), pair.second_time, &pair.second_extra, AnswerPurpose::Summary)
        }
        _ => (entry.wire_id(), entry.time, &entry.extra, AnswerPurpose::Answer),
    };
    let place = MessagePlace { session: session.as_str(), message: id, time, ids: IdPlacement::Inside };
    unread::to_value(&Info::Assistant(place, assistant, extra, at, purpose))
}
