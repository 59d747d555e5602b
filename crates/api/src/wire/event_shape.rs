//! What the event streams tell.

#![expect(dead_code, reason = "these types describe what interop and the hub print")]

use everturn_model::{EntryId, EventId, Millis, PartId, RequestId, SessionId};
use schemars::JsonSchema;

use super::message::{MessageError, MessageShape};
use super::part::PartShape;
use super::request::{PermissionRequest, QuestionRequest};
use super::session::{FileDiffShape, SessionShape, SessionStatus, TodoShape};
use crate::input::{Id, QuestionId};

/// An event.
#[derive(JsonSchema)]
#[schemars(rename = "Event")]
pub(crate) struct EventShape {
    id: Id<EventId>,
    #[serde(flatten)]
    content: EventContent,
}

/// An event and where it happened. What the server says of itself happened nowhere.
#[derive(JsonSchema)]
pub(crate) struct GlobalEvent {
    directory: Option<String>,
    project: Option<String>,
    payload: EventShape,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(tag = "type", content = "properties")]
enum EventContent {
    #[serde(rename = "server.connected")]
    Connected(NoFields),
    #[serde(rename = "server.heartbeat")]
    Heartbeat(NoFields),
    #[serde(rename = "session.created")]
    SessionCreated(SessionAndInfo<SessionShape>),
    #[serde(rename = "session.updated")]
    SessionUpdated(SessionAndInfo<SessionShape>),
    #[serde(rename = "session.deleted")]
    SessionDeleted(SessionAndInfo<SessionShape>),
    #[serde(rename = "message.updated")]
    MessageUpdated(SessionAndInfo<MessageShape>),
    #[serde(rename = "message.removed")]
    MessageRemoved {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "messageID")]
        message: Id<EntryId>,
    },
    #[serde(rename = "message.part.updated")]
    PartUpdated {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        part: PartShape,
        time: Millis,
    },
    #[serde(rename = "message.part.removed")]
    PartRemoved {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "messageID")]
        message: Id<EntryId>,
        #[serde(rename = "partID")]
        part: Id<PartId>,
    },
    #[serde(rename = "message.part.delta")]
    PartDelta {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "messageID")]
        message: Id<EntryId>,
        #[serde(rename = "partID")]
        part: Id<PartId>,
        field: String,
        delta: String,
    },
    #[serde(rename = "session.diff")]
    Diff {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        diff: Vec<FileDiffShape>,
    },
    #[serde(rename = "session.error")]
    Failed {
        #[serde(rename = "sessionID")]
        session: Option<Id<SessionId>>,
        error: Option<MessageError>,
    },
    #[serde(rename = "session.status")]
    Status {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        status: SessionStatus,
    },
    #[serde(rename = "session.idle")]
    Idle {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
    },
    #[serde(rename = "session.compacted")]
    Compacted {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
    },
    #[serde(rename = "command.executed")]
    CommandExecuted {
        name: String,
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        arguments: String,
        #[serde(rename = "messageID")]
        message: Id<EntryId>,
    },
    #[serde(rename = "file.edited")]
    FileEdited { file: String },
    #[serde(rename = "todo.updated")]
    Todos {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        todos: Vec<TodoShape>,
    },
    #[serde(rename = "permission.asked")]
    PermissionAsked(PermissionRequest<'static>),
    #[serde(rename = "permission.replied")]
    PermissionReplied {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "requestID")]
        request: Id<RequestId>,
        reply: PermissionAnswer,
    },
    #[serde(rename = "question.asked")]
    QuestionAsked(QuestionRequest<'static>),
    #[serde(rename = "question.replied")]
    QuestionReplied {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "requestID")]
        request: Id<QuestionId>,
        answers: Vec<Vec<String>>,
    },
    #[serde(rename = "question.rejected")]
    QuestionRejected {
        #[serde(rename = "sessionID")]
        session: Id<SessionId>,
        #[serde(rename = "requestID")]
        request: Id<QuestionId>,
    },
}

/// Nothing more.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

#[derive(JsonSchema)]
#[schemars(inline)]
struct SessionAndInfo<T> {
    #[serde(rename = "sessionID")]
    session: Id<SessionId>,
    info: T,
}

/// The answers to a permission request.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PermissionAnswer {
    Once,
    Always,
    Reject,
}
