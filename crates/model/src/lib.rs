//! Pure data and rules of a session.
//!
//! Each session is an append-only log of [`Event`]s. Folding the log gives a [`Tree`] of [`Entry`]s; the conversation
//! is the path from a root to the session's leaf. Every dialect (OpenCode V1 and V2, pi, omp) is a view of that tree.
//! This crate holds the words and the rules and nothing else: no I/O, no clock, no randomness, so that everything
//! here can be tested by calling it.
//!
//! # Layout
//! - [`ids`]: identifiers, their order and the wrap of their clock
//! - [`session`]: the session row with every field that any dialect knows
//! - [`entry`], [`part`], [`tool`]: what the tree is made of, and the tool state machine
//! - [`fault`], [`finish`]: why something failed, and small words with a meaning
//! - [`frame`]: what a model is given besides the conversation
//! - [`inbox`], [`request`], [`mod@todo`]: prompts waiting for promotion, questions waiting for a person, the task list
//! - [`event`]: the durable event catalogue with versions
//! - [`subject`]: what an event is about, kept with it
//! - [`json`]: what is stored, read from JSON and written as JSON
//! - `earlier`: shapes of earlier versions, which logs still hold
//! - [`tree`], [`fold`]: the state and the one function that changes it
//! - [`path`]: what a path means: its entries, its selections, its compaction cut, its results
//! - [`copy`], [`derived_ids`]: copying entries into another session, and ids that follow from a name
//! - [`compaction`]: what compactions carry over, and what is pinned for them
//! - [`usage`], [`money`]: tokens, prices, decimal cost
//! - [`bill`]: what a session has spent, line by line
//! - [`secret_name`]: what is a secret because of its name
//! - [`secret_shape`]: what looks like a secret in a text that is shown or logged
//! - [`permission`]: rules, wildcards and their evaluation
//! - [`budget`]: what may be used up before a person is asked

pub mod bill;
pub mod budget;
pub mod compaction;
pub mod copy;
pub mod derived_ids;
mod earlier;
pub mod entry;
pub mod event;
pub mod fault;
pub mod finish;
pub mod fold;
pub mod frame;
pub mod ids;
pub mod inbox;
pub mod json;
pub mod money;
pub mod part;
pub mod path;
pub mod permission;
pub mod request;
pub mod secret_name;
pub mod secret_shape;
pub mod session;
pub mod subject;
pub mod todo;
pub mod tool;
pub mod tree;
pub mod usage;

pub use entry::{Body, Entry};
pub use event::{Event, Record};
pub use fault::{Fault, FaultKind};
pub use finish::Finish;
pub use fold::{Changes, apply};
pub use ids::{EntryId, EventId, PartId, RequestId, SessionId};
pub use json::{FromJson, ToJson};
pub use money::Money;
pub use part::{Part, PartKind};
pub use session::Session;
pub use tree::Tree;
pub use usage::Tokens;

/// A JSON object whose key order is kept.
pub type Map = serde_json::Map<String, serde_json::Value>;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// Fields of other programs that have no word here, by dialect (`v1`, `v2`, `pi`, …), so that they leave as they came.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Extra(Map);

impl Extra {
    /// True when nothing rides along.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields kept for a dialect.
    #[must_use]
    pub fn get(&self, dialect: &str) -> Option<&Map> {
        self.0.get(dialect).and_then(serde_json::Value::as_object)
    }

    /// One field kept for a dialect.
    #[must_use]
    pub fn field(&self, dialect: &str, name: &str) -> Option<&serde_json::Value> {
        self.get(dialect).and_then(|fields| fields.get(name))
    }

    /// Keeps `fields` for a dialect; an empty map keeps nothing.
    pub fn set(&mut self, dialect: &str, fields: Map) {
        if fields.is_empty() {
            self.0.remove(dialect);
        } else {
            self.0.insert(dialect.to_owned(), serde_json::Value::Object(fields));
        }
    }

    /// Keeps one field for a dialect.
    pub fn put(&mut self, dialect: &str, name: &str, value: serde_json::Value) {
        let slot = self.0.entry(dialect.to_owned()).or_insert_with(|| Map::new().into());
        if let Some(fields) = slot.as_object_mut() {
            fields.insert(name.to_owned(), value);
        }
    }

    /// Takes one field of a dialect out.
    pub(crate) fn take(&mut self, dialect: &str, name: &str) -> Option<serde_json::Value> {
        let fields = self.0.get_mut(dialect)?.as_object_mut()?;
        let taken = fields.shift_remove(name);
        if fields.is_empty() {
            self.0.shift_remove(dialect);
        }
        taken
    }

    /// An extra that holds one dialect's fields.
    #[must_use]
    pub fn of(dialect: &str, fields: Map) -> Self {
        let mut extra = Self::default();
        extra.set(dialect, fields);
        extra
    }
}
