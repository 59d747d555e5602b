//! Requests that wait for a person: permissions and questions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::BudgetPause;
use crate::permission::Policy;
use crate::tool::FileForecast;
use crate::{EntryId, Map, Millis, PartId, RequestId};

/// The permission under which a person is asked whether a project's configuration is to be trusted. It belongs to no call,
/// and no rule decides about it.
pub const PROJECT_TRUST: &str = "project_trust";

/// The permission under which a person is asked whether a call is made again that was made over and over.
pub const DOOM_LOOP: &str = "doom_loop";

/// The longest rules that are kept with a request, in bytes of their texts.
pub const POLICY_LIMIT: usize = 64 * 1024;

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
    /// What the turn may do that asked: the call goes on by that, whatever agent and rules the session has by then. Requests
    /// of earlier versions have none, and neither have those whose rules would be too long to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Policy>>,
}

impl Request {
    /// A request of a call, or of the session itself.
    #[must_use]
    pub fn new(id: RequestId, time: Millis, ask: Ask, call: Option<CallRef>) -> Self {
        Self { id, time, ask, call, policy: None }
    }

    /// The same, with what the turn may do that asks.
    #[must_use]
    pub fn under(self, policy: &Policy) -> Self {
        let policy = (policy.size() <= POLICY_LIMIT).then(|| Box::new(policy.clone()));
        Self { policy, ..self }
    }

    /// Whether it asks if work shall go on that a guard has stopped: a loop of calls, or a budget that is used up. Whoever
    /// allows whatever is asked for does not mean that.
    #[must_use]
    pub fn is_of_guard(&self) -> bool {
        let loops = matches!(&self.ask, Ask::Permission { permission, .. } if permission == DOOM_LOOP);
        loops && self.call.is_some() || BudgetPause::of(self).is_some()
    }

    /// What a request for trust in a project's configuration is about, as a digest of it; none for every other request.
    #[must_use]
    pub fn trust_digest(&self) -> Option<&str> {
        match &self.ask {
            // A server of another program may have a tool of this name: what it asks for has a call.
            Ask::Permission { permission, metadata, .. }
                if self.call.is_none() && permission == PROJECT_TRUST =>
            {
                metadata.get("digest")?.as_str()
            }
            Ask::Permission { .. } | Ask::Question { .. } => None,
        }
    }
}

/// The call that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRef {
    /// The assistant entry.
    pub entry: EntryId,
    /// The call's id.
    pub call: String,
    /// The call's part, by which it is found at once. Requests of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
}

/// What is known of a call that has not settled, besides the state of its part. It is what a restart needs: a call that
/// asked and has not begun may still be run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// True when it was about to act: after somebody had been asked, or as an edit whose outcome was foreseen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// What it will make of the files that it changes, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecast: Vec<FileForecast>,
    /// The newest request that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<LastRequest>,
}

/// The newest request of a call, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRequest {
    /// The request.
    pub request: Request,
    /// The answer; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<GivenAnswer>,
}

/// What somebody answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The answer to a permission request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// What the person said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answers to questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Value>,
    /// The request that was really answered, where this one was settled together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<RequestId>,
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
