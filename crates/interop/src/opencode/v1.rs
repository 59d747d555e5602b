//! The V1 protocol: sessions, messages with parts, and the events that clients follow.
//!
//! A V1 client sees the path from the root to the leaf as a list of messages, then the prompts that wait. Results are
//! entries of their own in the tree and complete the tool part of their call here; shells and compactions are one
//! entry in the tree and two messages here.
//!
//! # Layout
//! - `session`: the session as clients see it
//! - `info`: the heads of user and assistant messages
//! - `part`, `tool`: parts, and the state of tool parts
//! - `view`: a path as messages
//! - `seed`: messages as entries
//! - `events`: what one durable event shows as

mod events;
pub(super) mod info;
pub(super) mod part;
mod seed;
pub(super) mod session;
pub(super) mod tool;
pub(super) mod view;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::opencode::fault::{FaultView, read_fault};
pub use events::{V1Event, events, shows_whole_session};
pub use info::Selected;
pub use part::{PartInfo, part, read_part};
pub use seed::read_messages;
pub(super) use seed::{ReadMessage, assemble};
pub use session::{SessionInfo, read_session, session_info};
pub use view::{ConversationView, conversation, entry_messages, holder, inbox_message, messages};

/// A message as clients see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct V1Message {
    /// Its head: ids, role, times, model.
    pub info: Value,
    /// Its parts, in order.
    #[serde(default)]
    pub parts: Vec<Value>,
}

/// Whether a record holds its own ids, or its place says them: the database keeps them in columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdPlacement {
    /// `id`, `sessionID` and `messageID` are fields.
    Inside,
    /// They are columns.
    Outside,
}

/// The text that V1 puts before a command the person ran; clients know it by these words.
const SHELL: &str = "The following tool was executed by the user";
