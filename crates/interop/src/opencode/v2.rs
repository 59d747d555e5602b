//! The V2 protocol: durable events, and messages that are their fold.
//!
//! OpenCode's V2 log and ours say the same things in other words, one event for one event, so a log comes in with its
//! own numbers and ids and goes out again unchanged. What a V2 event says beyond our words rides along under `v2` in
//! the entry, part or result that it makes.
//!
//! # Layout
//! - `log`: our record from a V2 event
//! - `event`: a V2 event from our record
//! - `prompt`: a prompt as text, files and agents, and as parts
//! - `tool`: calls and their ends
//! - `message`: a path as V2 messages

mod event;
mod log;
mod message;
mod prompt;
mod tool;

pub use event::{IncompleteRecord, V2Event, write_event, write_session_event};
pub use log::read_events;
pub use message::{input, messages};
pub use prompt::{prompt, read_prompt};

use everturn_model::entry::Body;
use everturn_model::{Fault, Map};
use serde_json::Value;

use super::fault;
use super::rows::OpenCodeEpochRow;
use super::shape::{object, text};

/// The fields kept for V2.
const V2: &str = "v2";
/// What the events of V2's engine begin with; the others are V1's and not in a session's public history.
const NEXT: &str = "session.next.";
/// The name of an entry that keeps an event without a meaning here.
const FOREIGN: &str = "opencode.v2";

/// The Context Epoch of a row, as an entry keeps it.
#[must_use]
pub fn epoch(row: &OpenCodeEpochRow) -> Body {
    let snapshot = serde_json::from_str(&row.snapshot).unwrap_or_else(|_| row.snapshot.as_str().into());
    Body::Epoch { baseline: row.baseline.clone(), snapshot, directory: None }
}

// V2 knows an error by its message only; a later version's dotted types are names here.
fn read_error(error: &Value) -> Fault {
    let empty = Map::new();
    let map = error.as_object().unwrap_or(&empty);
    let message = text(map, "message").unwrap_or_default();
    match text(map, "type") {
        None | Some("unknown") => Fault::internal(message),
        Some(other) => fault::imported(other, message),
    }
}

fn error(fault: &Fault) -> Value {
    let name = fault::full_name(fault);
    let kind = if name.contains('.') { name } else { "unknown" };
    unknown(kind, fault.message.as_deref().unwrap_or(name))
}

fn unknown(kind: &str, message: &str) -> Value {
    object([("type", kind.into()), ("message", message.into())]).into()
}
