//! Events for tests, each with ids that nothing else in this process has.

use std::sync::atomic::{AtomicU64, Ordering};

use everturn_model::entry::{Assistant, Body, User};
use everturn_model::event::{Amendment, Cause, SessionChange};
use everturn_model::finish::Finish;
use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::{PartKind, Span};
use everturn_model::request::{Ask, Request};
use everturn_model::session::Revert;
use everturn_model::todo::Todo;
use everturn_model::tool::ToolState;
use everturn_model::{
    Entry, EntryId, Event, EventId, Extra, Map, Millis, Money, Part, PartId, Record, RequestId, Session,
    SessionId, Tokens, Tree,
};
use everturn_store::{Appended, Authority, NewEvent, Store};
use serde_json::Value;

/// The moment of everything that has no other.
pub(crate) const NOW: Millis = 1_794_711_664_171;

/// Where an event stands in the log of its session; none when it is not there.
pub(crate) async fn seq_of(store: &Store, session: &SessionId, event: &EventId) -> Option<u64> {
    log(store, session).await.into_iter().find(|record| record.id == *event).map(|record| record.seq)
}

/// A stamp that is greater than all before it.
pub(crate) fn stamp() -> Stamp {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Stamp::at(NOW, NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn session_id() -> SessionId {
    SessionId::mint(stamp().descending(), [3; RANDOM])
}

pub(crate) fn entry_id() -> EntryId {
    EntryId::mint(stamp(), [7; RANDOM])
}

pub(crate) fn part_id() -> PartId {
    PartId::mint(stamp(), [7; RANDOM])
}

/// An event that happens now.
pub(crate) fn new(event: Event) -> NewEvent {
    at(NOW, event)
}

/// An event that happens at a time.
pub(crate) fn at(time: Millis, event: Event) -> NewEvent {
    NewEvent { id: EventId::mint(stamp(), [1; RANDOM]), time, event }
}

/// An event with an id of its own choice.
pub(crate) fn numbered(number: u64, event: Event) -> NewEvent {
    NewEvent { id: EventId::mint(Stamp::at(NOW, number), [0; RANDOM]), time: NOW, event }
}

/// A stored event as it was when it was new.
pub(crate) fn again(record: &Record) -> NewEvent {
    NewEvent { id: record.id.clone(), time: record.time, event: record.event.clone() }
}

pub(crate) fn session(id: &SessionId) -> Session {
    Session::new(id.clone(), "global", "/srv/demo", "a title", "0.1.0", NOW)
}

pub(crate) fn creation(session: Session) -> NewEvent {
    new(Event::SessionCreated { session: Box::new(session) })
}

pub(crate) fn created(id: &SessionId) -> NewEvent {
    creation(session(id))
}

pub(crate) fn titled(title: &str) -> NewEvent {
    new(Event::TitleChanged { entry: entry_id(), parent: None, title: title.to_owned(), replaces: None })
}

pub(crate) fn text(text: &str) -> Part {
    Part::new(part_id(), PartKind::text(text))
}

pub(crate) fn file(url: &str) -> Part {
    let kind = PartKind::File { mime: "image/png".into(), filename: None, url: url.to_owned(), source: None };
    Part::new(part_id(), kind)
}

/// A prompt.
pub(crate) fn prompt(words: &str) -> InboxItem {
    InboxItem {
        id: entry_id(),
        time: NOW,
        delivery: Delivery::Queue,
        reply: true,
        user: User::default(),
        parts: vec![text(words)],
        extra: Extra::default(),
        resume: true,
        place: None,
        revision: 0,
    }
}

pub(crate) fn admitted(item: &InboxItem) -> NewEvent {
    new(Event::PromptAdmitted { item: Box::new(item.clone()) })
}

pub(crate) fn promoted(item: &InboxItem, parent: Option<&EntryId>) -> NewEvent {
    new(Event::PromptPromoted { id: item.id.clone(), parent: parent.cloned(), revision: Some(0) })
}

/// An entry with a text of its own.
pub(crate) fn note(parent: Option<&EntryId>, words: &str) -> Entry {
    let body = Body::Synthetic { text: Some(words.to_owned()), origin_type: None, display: None };
    Entry::new(entry_id(), parent.cloned(), NOW, body)
}

pub(crate) fn added(entry: &Entry, parts: Vec<Part>) -> NewEvent {
    new(Event::EntryAdded { entry: Box::new(entry.clone()), parts })
}

/// A provider turn.
pub(crate) fn turn(parent: Option<&EntryId>) -> Entry {
    Entry::new(entry_id(), parent.cloned(), NOW, Body::Assistant(Assistant::default()))
}

pub(crate) fn started(turn: &Entry) -> NewEvent {
    new(Event::StepStarted { entry: Box::new(turn.clone()), frame: None })
}

pub(crate) fn ended(turn: &Entry, tokens: Tokens, cost: Money) -> NewEvent {
    new(Event::StepEnded {
        entry: turn.id.clone(),
        finish: Finish::Stop,
        tokens,
        cost,
        snapshot: None,
        files: None,
        parts: Vec::new(),
        declined: false,
        estimated: false,
        error: None,
        structured: None,
    })
}

/// A text that begins to stream.
pub(crate) fn streaming() -> Part {
    let time = Some(Span { start: NOW, end: None });
    let kind = PartKind::Text { text: String::new(), synthetic: None, ignored: None, time, metadata: None };
    Part::new(part_id(), kind)
}

/// A tool call that begins.
pub(crate) fn tool(call: &str) -> Part {
    let state = ToolState::Pending { input: Value::Object(Map::new()), raw: String::new() };
    let (call, tool) = (call.to_owned(), "bash".to_owned());
    Part::new(part_id(), PartKind::Tool { call, tool, state, hosted: false, metadata: None })
}

pub(crate) fn part_started(entry: &EntryId, part: &Part) -> NewEvent {
    new(Event::PartStarted { entry: entry.clone(), part: Box::new(part.clone()) })
}

pub(crate) fn part_ended(entry: &EntryId, part: &Part, words: &str) -> NewEvent {
    new(Event::PartEnded {
        entry: entry.clone(),
        part: part.id.clone(),
        text: words.to_owned(),
        metadata: None,
    })
}

pub(crate) fn amended(entry: &EntryId, part: Option<&PartId>, change: Amendment) -> NewEvent {
    new(Event::EntryAmended { entry: entry.clone(), part: part.cloned(), change })
}

pub(crate) fn leaf_moved(from: Option<&EntryId>, to: Option<&EntryId>) -> NewEvent {
    new(Event::LeafMoved { from: from.cloned(), to: to.cloned(), cause: Cause::Branch })
}

pub(crate) fn staged(message: &EntryId) -> NewEvent {
    new(Event::RevertStaged { revert: Box::new(Revert::new(message.clone())), summary: None })
}

pub(crate) fn permission(id: &str) -> Request {
    let ask = Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["ls *".into()],
        always: Vec::new(),
        metadata: Map::new(),
    };
    Request::new(RequestId::new(id), NOW, ask, None)
}

pub(crate) fn asked(request: &Request) -> NewEvent {
    new(Event::RequestAsked { request: Box::new(request.clone()) })
}

pub(crate) fn answered(request: &Request) -> NewEvent {
    let (id, call) = (request.id.clone(), request.call.clone());
    new(Event::RequestAnswered { id, call, reply: None, message: None, answers: None, follows: None })
}

pub(crate) fn todo(content: &str) -> Todo {
    Todo { content: content.to_owned(), status: "pending".into(), priority: "low".into(), extra: Map::new() }
}

pub(crate) fn changed(change: SessionChange) -> NewEvent {
    new(Event::SessionChanged { changes: vec![change] })
}

pub(crate) fn used(tokens: Tokens, cost: Money) -> NewEvent {
    new(Event::UsageRecorded { source: "title".to_owned(), tokens, cost, model: None, failed: false })
}

/// An event that fits no session: it takes back a prompt that nobody gave.
pub(crate) fn unfit() -> NewEvent {
    new(Event::PromptCancelled { id: entry_id() })
}

/// A new session with nothing in it.
pub(crate) async fn begin(store: &Store) -> SessionId {
    let id = session_id();
    append(store, &id, vec![created(&id)]).await;
    id
}

/// Appends what has to fit, as anybody may.
pub(crate) async fn append(store: &Store, id: &SessionId, events: Vec<NewEvent>) -> Appended {
    store.append(id, Authority::Open, events).await.unwrap()
}

/// The whole log of a session.
pub(crate) async fn log(store: &Store, id: &SessionId) -> Vec<Record> {
    store.events(id, None, usize::MAX).await.unwrap()
}

/// A whole session.
pub(crate) async fn tree(store: &Store, id: &SessionId) -> Tree {
    store.tree(id).await.unwrap().unwrap()
}

/// A chain of entries with a text each, the first without a parent.
pub(crate) async fn chain(store: &Store, id: &SessionId, length: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for number in 0..length {
        let entry = note(entries.last().map(|entry| &entry.id), &format!("note {number}"));
        append(store, id, vec![added(&entry, vec![text(&format!("part {number}"))])]).await;
        entries.push(entry);
    }
    entries
}
