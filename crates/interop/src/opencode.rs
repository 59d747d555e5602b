//! OpenCode's shapes as views of the tree, and the tree from OpenCode's shapes.
//!
//! V1 is what shipping clients speak: messages with parts. V2 is the later engine's durable events and messages. The
//! JSON file tree, the database and the export file all hold V1 (and, in the database, V2) data. Every reader keeps
//! what it has no word for, so that data leaves as it came.
//!
//! # Layout
//! - [`v1`]: sessions, messages, parts and events of the V1 protocol
//! - [`v2`]: durable events and messages of the V2 protocol
//! - [`export`]: the file that `opencode export` prints
//! - [`files`]: the JSON file tree of OpenCode 1.1
//! - [`rows`]: the tables of OpenCode's database
//! - `fault`: what OpenCode calls a fault
//! - `shape`: values that several shapes share; `unread`: what a reader has no word for, so that it leaves as it came

use everturn_model::Session;
use everturn_model::event::Seed;
use serde_json::Value;

pub mod export;
mod fault;
pub mod files;
pub mod rows;
mod shape;
mod unread;
pub mod v1;
pub mod v2;

/// A session that came in, ready for `session.created` and `session.imported`.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The project it belongs to, as OpenCode keeps it, where that is known.
    pub project: Option<Value>,
    /// The session.
    pub session: Session,
    /// Its entries.
    pub seed: Seed,
}

/// Something that could not be read, and was left out. The rest was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ImportProblem {
    /// Where: a path, or a table and an id.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

impl ImportProblem {
    /// A problem at a place.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}
