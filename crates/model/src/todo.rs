//! The task list of a session.

use serde::{Deserialize, Serialize};

use crate::Map;

/// One task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// Fields of other versions, such as `id`.
    #[serde(flatten)]
    pub extra: Map,
}

impl Todo {
    /// True while there is something left to do.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.status.as_str(), "completed" | "cancelled")
    }
}
