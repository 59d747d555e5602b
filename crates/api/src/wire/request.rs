//! Permission requests, questions and their answers.

use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{EntryId, Map, RequestId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event_shape::PermissionAnswer;
use crate::answer::shaped;
use crate::input::{Id, QuestionId};

/// A permission request that waits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PermissionRequest<'a> {
    #[schemars(with = "Id<RequestId>")]
    id: &'a RequestId,
    #[serde(rename = "sessionID")]
    #[schemars(with = "Id<SessionId>")]
    session: &'a SessionId,
    permission: &'a str,
    patterns: &'a [String],
    metadata: &'a Map,
    /// What `always` would allow from now on.
    always: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<WaitingCall<'a>>,
}

/// The call that waits for a request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct WaitingCall<'a> {
    #[serde(rename = "messageID")]
    #[schemars(with = "Id<EntryId>")]
    message: &'a EntryId,
    #[serde(rename = "callID")]
    call: &'a str,
}

impl<'a> WaitingCall<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        request.call.as_ref().map(|call| Self { message: &call.entry, call: &call.call })
    }
}

impl<'a> PermissionRequest<'a> {
    /// A request as clients see it, when it is one for a permission.
    pub(crate) fn of((session, request): &'a (SessionId, Request)) -> Option<Self> {
        match &request.ask {
            Ask::Permission { permission, patterns, always, metadata } => Some(Self {
                id: &request.id,
                session,
                permission,
                patterns,
                metadata,
                always,
                tool: WaitingCall::of(request),
            }),
            Ask::Question { .. } => None,
        }
    }
}

/// Questions that wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionRequest<'a> {
    #[schemars(with = "Id<QuestionId>")]
    id: &'a RequestId,
    #[serde(rename = "sessionID")]
    #[schemars(with = "Id<SessionId>")]
    session: &'a SessionId,
    #[schemars(with = "Vec<QuestionInfo>")]
    questions: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<WaitingCall<'a>>,
}

/// A question.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes what the tool was given")]
struct QuestionInfo {
    question: String,
    header: String,
    options: Vec<QuestionOption>,
    multiple: Option<bool>,
    custom: Option<bool>,
}

/// One of the answers to choose from.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes what the tool was given")]
struct QuestionOption {
    label: String,
    description: String,
}

impl<'a> QuestionRequest<'a> {
    /// A request as clients see it, when it asks questions.
    pub(crate) fn of((session, request): &'a (SessionId, Request)) -> Option<Self> {
        match &request.ask {
            Ask::Question { questions } => {
                Some(Self { id: &request.id, session, questions, tool: WaitingCall::of(request) })
            }
            Ask::Permission { .. } => None,
        }
    }
}

shaped! {
    PermissionRequest<'_> as PermissionRequest<'static>,
    QuestionRequest<'_> as QuestionRequest<'static>,
}

/// An answer to a permission request.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Decision {
    /// The answer; older clients say `response`.
    #[serde(alias = "response")]
    #[schemars(with = "PermissionAnswer")]
    pub(crate) reply: Reply,
    /// Why, for the model to read.
    pub(crate) message: Option<String>,
}

/// An answer to a permission request, as older clients give it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct OlderDecision {
    /// The answer; newer clients say `reply`.
    #[serde(alias = "reply")]
    #[schemars(with = "PermissionAnswer")]
    response: Reply,
    message: Option<String>,
}

impl From<OlderDecision> for Decision {
    fn from(old: OlderDecision) -> Self {
        Self { reply: old.response, message: old.message }
    }
}

/// The answers to questions.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct QuestionAnswers {
    /// For each question the chosen labels, or what the person typed.
    pub(crate) answers: Vec<Vec<String>>,
}
