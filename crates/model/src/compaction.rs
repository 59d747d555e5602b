//! Compactions: what one carries over word for word, what a person has pinned for all of them, and one that is being made.

use serde::{Deserialize, Serialize};

use crate::EntryId;
use crate::todo::Todo;

/// The longest instructions for a compaction, in bytes.
pub const INSTRUCTIONS_LIMIT: usize = 16 * 1024;

/// The longest goal or fact, in bytes.
pub const PIN_SIZE_LIMIT: usize = 4 * 1024;

/// How many facts a session has pinned at most.
pub const PIN_LIMIT: usize = 50;

/// What a person wants every compaction to keep word for word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// What the session is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// What must not be forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
}

impl Pins {
    /// True when nothing is pinned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a compaction carries over word for word, beside its summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CarriedContext {
    /// The task list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// What a person has pinned.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub pins: Pins,
    /// Files that were read and not changed, since the session began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Files that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
}

impl CarriedContext {
    /// True when there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A compaction that is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCompaction {
    /// Its entry.
    pub entry: EntryId,
    /// Whether the conversation goes on after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}
