//! Requests that wait for a person: permissions and questions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EntryId, Map, Millis, RequestId};

/// A request that is waiting for an answer. It survives restarts under its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its id, `per_…` or `que_…`.
    pub id: RequestId,
    /// When it was asked.
    pub time: Millis,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
    /// The call that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
}

/// The call that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRef {
    /// The assistant entry.
    pub entry: EntryId,
    /// The call's id.
    pub call: String,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// May this be done?
    Permission {
        /// The kind of action.
        permission: String,
        /// On what.
        patterns: Vec<String>,
        /// What `always` would allow from now on.
        #[serde(default)]
        always: Vec<String>,
        /// What helps to decide.
        #[serde(default)]
        metadata: Map,
    },
    /// Questions with options.
    Question {
        /// The questions as the tool gave them.
        questions: Value,
    },
}

/// An answer to a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// This time.
    Once,
    /// From now on, for this project.
    Always,
    /// No.
    Reject,
}
