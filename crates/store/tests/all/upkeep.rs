//! What the tests of upkeep share: a session with a row in every table, and damage by direct SQL.

use everturn_model::entry::{Assistant, User};
use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::{PartKind, Span};
use everturn_model::request::{Ask, Request};
use everturn_model::todo::Todo;
use everturn_model::{Body, Entry, EntryId, Event, Extra, Map, Part, PartId, RequestId, Session, SessionId};
use everturn_store::{Authority, Durability, NewEvent, Options, Store};
use rusqlite::Connection;

use crate::events::numbered as event;

pub(crate) const TIME: i64 = 1_794_711_664_171;

/// A session with a row in every table; the numbers of its ids begin at `base`.
pub(crate) struct Rich {
    pub(crate) id: SessionId,
    base: u64,
}

impl Rich {
    pub(crate) fn new(base: u64) -> Self {
        Self { id: SessionId::new(format!("ses_{base:012x}aaaaaaaaaaaaaa")), base }
    }

    pub(crate) fn stamp(&self, number: u64) -> Stamp {
        Stamp::at(TIME, self.base + number)
    }

    pub(crate) fn entry(&self, number: u64) -> EntryId {
        EntryId::mint(self.stamp(number), [2; RANDOM])
    }

    pub(crate) fn part(&self, number: u64) -> PartId {
        PartId::mint(self.stamp(number), [3; RANDOM])
    }

    pub(crate) fn event(&self, number: u64, what: Event) -> NewEvent {
        event(self.base + number, what)
    }

    pub(crate) fn title(&self, number: u64, title: &str) -> NewEvent {
        let entry = self.entry(number);
        self.event(number, Event::TitleChanged { entry, parent: None, title: title.into(), replaces: None })
    }

    fn prompt(&self, number: u64, text: &str) -> InboxItem {
        InboxItem {
            id: self.entry(number),
            time: TIME,
            delivery: Delivery::Queue,
            reply: true,
            user: User::default(),
            parts: vec![Part::new(self.part(number), PartKind::text(text.to_owned()))],
            extra: Extra::default(),
            resume: true,
            place: None,
            revision: 0,
        }
    }

    /// The log of it. `word` is in its title, its texts, its task, its request and its waiting prompts, and in a text
    /// so long that it becomes a blob.
    pub(crate) fn log(&self, word: &str) -> Vec<NewEvent> {
        let session = Session::new(self.id.clone(), "global", "/srv/demo", "New session", "0.1.0", TIME);
        let assistant =
            Entry::new(self.entry(20), Some(self.entry(10)), TIME, Body::Assistant(Assistant::default()));
        let open = PartKind::Text {
            text: String::new(),
            synthetic: None,
            ignored: None,
            time: Some(Span { start: TIME, end: None }),
            metadata: None,
        };
        let (entry, part) = (self.entry(20), self.part(21));
        let long = format!("{} {word} {}", "first ".repeat(15_000), "second ".repeat(15_000));
        let todo = Todo {
            content: format!("look at {word}"),
            status: "pending".into(),
            priority: "high".into(),
            extra: Map::new(),
        };
        let ask = Ask::Permission {
            permission: "bash".into(),
            patterns: vec![format!("echo {word}")],
            always: Vec::new(),
            metadata: Map::new(),
        };
        let request = Request::new(RequestId::mint(self.stamp(40), [4; RANDOM]), TIME, ask, None);
        let events = vec![
            Event::SessionCreated { session: Box::new(session) },
            Event::TitleChanged {
                entry: self.entry(5),
                parent: None,
                title: format!("about {word}"),
                replaces: None,
            },
            Event::PromptAdmitted { item: Box::new(self.prompt(10, &format!("please fix {word}"))) },
            Event::PromptPromoted { id: self.entry(10), parent: None, revision: Some(0) },
            Event::StepStarted { entry: Box::new(assistant), frame: None },
            Event::PartStarted {
                entry: entry.clone(),
                part: Box::new(Part::new(part.clone(), open.clone())),
            },
            Event::PartEnded { entry: entry.clone(), part, text: format!("fixed {word}"), metadata: None },
            Event::PartAdded {
                entry: entry.clone(),
                part: Box::new(Part::new(self.part(22), PartKind::text(long))),
            },
            Event::PartStarted { entry, part: Box::new(Part::new(self.part(23), open)) },
            Event::TodoUpdated { todos: vec![todo] },
            Event::RequestAsked { request: Box::new(request) },
            Event::PromptAdmitted { item: Box::new(self.prompt(30, &format!("and then {word}"))) },
        ];
        (100..).zip(events).map(|(number, what)| self.event(number, what)).collect()
    }

    pub(crate) async fn put(&self, store: &Store, word: &str) {
        store.append(&self.id, Authority::Open, self.log(word)).await.unwrap();
    }
}

pub(crate) async fn open(folder: &tempfile::TempDir) -> Store {
    let options = Options::folder(folder.path(), "own_test");
    Store::open(Options { durability: Durability::Process, ..options }).await.unwrap()
}

/// The file as SQLite sees it.
pub(crate) fn file(folder: &tempfile::TempDir) -> Connection {
    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
}

/// Changes the file behind the store's back. `KEY` stands for the key of the session.
pub(crate) fn damage(folder: &tempfile::TempDir, id: &SessionId, sql: &str) {
    let connection = file(folder);
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let key: i64 = connection
        .query_row("SELECT key FROM session WHERE id = ?1", [id.as_str()], |row| row.get(0))
        .unwrap();
    let changed = connection.execute(&sql.replace("KEY", &key.to_string()), []).unwrap();
    assert!(changed > 0, "the damage was done: {sql}");
}

/// How many rows a query counts.
pub(crate) fn count(folder: &tempfile::TempDir, sql: &str) -> i64 {
    file(folder).query_row(sql, [], |row| row.get(0)).unwrap()
}
