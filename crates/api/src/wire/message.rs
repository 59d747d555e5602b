//! Messages as clients see them.

#![expect(dead_code, reason = "these types describe what interop prints")]

use everturn_interop::opencode::v1;
use everturn_model::{EntryId, Map, Millis, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::event_shape::NoFields;
use super::part::PartShape;
use super::session::{FileDiffShape, MessageTokens};
use crate::answer::shaped;
use crate::input::Id;

/// A message with its parts.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct MessageWithParts {
    info: MessageShape,
    parts: Vec<PartShape>,
}

shaped! {
    v1::V1Message as MessageWithParts,
    v1::ShownMessage<'_> as MessageWithParts,
    v1::ConversationView<'_> as Vec<MessageWithParts>,
}

/// The head of a message.
#[derive(JsonSchema)]
#[schemars(rename = "Message")]
#[serde(untagged)]
pub(crate) enum MessageShape {
    User(Box<UserMessage>),
    Assistant(Box<AssistantMessage>),
}

#[derive(JsonSchema)]
pub(crate) struct UserMessage {
    id: Id<EntryId>,
    #[serde(rename = "sessionID")]
    session: Id<SessionId>,
    #[schemars(extend("const" = "user"))]
    role: String,
    time: CreatedAt,
    format: Option<OutputFormat>,
    summary: Option<UserSummaryShape>,
    agent: String,
    model: UserModel,
    system: Option<String>,
    #[schemars(with = "Option<std::collections::BTreeMap<String, bool>>")]
    tools: Option<Map>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CreatedAt {
    created: Millis,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct UserSummaryShape {
    title: Option<String>,
    body: Option<String>,
    diffs: Vec<FileDiffShape>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct UserModel {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
    variant: Option<String>,
}

#[derive(JsonSchema)]
pub(crate) struct AssistantMessage {
    id: Id<EntryId>,
    #[serde(rename = "sessionID")]
    session: Id<SessionId>,
    #[schemars(extend("const" = "assistant"))]
    role: String,
    time: CreatedAndCompleted,
    error: Option<MessageError>,
    #[serde(rename = "parentID")]
    parent: Id<EntryId>,
    #[serde(rename = "modelID")]
    model: String,
    #[serde(rename = "providerID")]
    provider: String,
    mode: String,
    agent: String,
    path: MessageFolders,
    summary: Option<bool>,
    cost: f64,
    tokens: MessageTokens,
    structured: Option<Value>,
    variant: Option<String>,
    finish: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CreatedAndCompleted {
    created: Millis,
    completed: Option<Millis>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct MessageFolders {
    cwd: String,
    root: String,
}

/// How an answer is to look.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum OutputFormat {
    Text,
    JsonSchema {
        schema: Map,
        #[serde(rename = "retryCount")]
        retries: Option<u32>,
    },
}

/// Why an answer is not complete.
#[derive(JsonSchema)]
#[serde(tag = "name", content = "data")]
pub(crate) enum MessageError {
    #[serde(rename = "ProviderAuthError")]
    Auth {
        #[serde(rename = "providerID")]
        provider: String,
        message: String,
    },
    #[serde(rename = "UnknownError")]
    Unknown {
        message: String,
        #[serde(rename = "ref")]
        reference: Option<String>,
    },
    #[serde(rename = "MessageOutputLengthError")]
    OutputLength(NoFields),
    #[serde(rename = "MessageAbortedError")]
    Aborted { message: String },
    #[serde(rename = "StructuredOutputError")]
    StructuredOutput { message: String, retries: u32 },
    #[serde(rename = "ContextOverflowError")]
    ContextOverflow {
        message: String,
        #[serde(rename = "responseBody")]
        body: Option<String>,
    },
    #[serde(rename = "ContentFilterError")]
    ContentFilter { message: String },
    #[serde(rename = "APIError")]
    Api(ApiErrorData),
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiErrorData {
    message: String,
    status_code: Option<u16>,
    is_retryable: bool,
    #[schemars(with = "Option<std::collections::BTreeMap<String, String>>")]
    response_headers: Option<Map>,
    response_body: Option<String>,
    #[schemars(with = "Option<std::collections::BTreeMap<String, String>>")]
    metadata: Option<Map>,
}
