//! Errors in the shape that V1 clients read: `{"name": …, "data": {"message": …}}`.
//!
//! What the caller can act on is said; what only the operator can act on goes to the log under a reference, and the
//! caller gets the reference. Errors that OpenCode tags (`_tag`) carry both shapes, because its clients read either.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use everturn_model::Map;
use serde_json::Value;

use crate::reply;

/// What a request is answered with when it cannot be done.
#[derive(Debug)]
pub(crate) enum Error {
    /// No token, or a wrong one.
    Unauthorized,
    /// A host or a page that may not speak to the server.
    Forbidden(String),
    /// The request cannot be understood; `kind` says which piece.
    Bad { kind: &'static str, message: String },
    /// The body is too large.
    TooLarge,
    /// The body is not JSON.
    NotJson(String),
    /// There is no such thing.
    NotFound(String),
    /// Nobody waits for an answer to this request.
    NoRequest { tag: &'static str, request: String },
    /// No MCP server of this name is configured.
    NoServer(String),
    /// There is no such route.
    NoRoute(String),
    /// The route has no such method.
    NoMethod(String),
    /// The session is at work.
    Busy { session: String, message: String },
    /// The id is used for something else.
    Conflict(String),
    /// Not in this release.
    Absent(&'static str),
    /// The session stopped before it answered.
    Unanswered,
    /// Something broke here.
    Internal(String),
}

impl Error {
    /// A query that cannot be understood.
    pub(crate) fn query(message: impl Into<String>) -> Self {
        Self::Bad { kind: "Query", message: message.into() }
    }

    /// A path that cannot be understood.
    pub(crate) fn path(message: impl Into<String>) -> Self {
        Self::Bad { kind: "Params", message: message.into() }
    }

    /// A body that cannot be understood.
    pub(crate) fn body(message: impl Into<String>) -> Self {
        Self::Bad { kind: "Body", message: message.into() }
    }

    fn internal(error: &impl Display) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<everturn_engine::Error> for Error {
    fn from(error: everturn_engine::Error) -> Self {
        use everturn_engine::Error as Engine;
        match error {
            Engine::NoSession(_) | Engine::NoMessage(_) | Engine::NoPart(_) => {
                Self::NotFound(error.to_string())
            }
            Engine::NoRequest(id) => {
                let question = id.as_str().starts_with("que");
                let tag = if question { "QuestionNotFoundError" } else { "PermissionNotFoundError" };
                Self::NoRequest { tag, request: id.to_string() }
            }
            Engine::NoServer(name) => Self::NoServer(name),
            Engine::Busy(ref session) => {
                Self::Busy { session: session.to_string(), message: error.to_string() }
            }
            Engine::Conflict(_) => Self::Conflict(error.to_string()),
            Engine::Invalid(_)
            | Engine::NoModel
            | Engine::Model(_)
            | Engine::Connect(_)
            | Engine::Script(_)
            | Engine::Keys(_)
            | Engine::Unavailable(_)
            | Engine::Import(_) => Self::body(error.to_string()),
            other => Self::internal(&other),
        }
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(&error)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let Shape { status, name, message, more, tagged } = self.shape();
        let mut body = Map::new();
        body.insert("name".to_owned(), name.into());
        if tagged {
            body.insert("_tag".to_owned(), name.into());
            body.insert("message".to_owned(), message.as_str().into());
            body.extend(more.clone());
        }
        let mut data = Map::new();
        data.insert("message".to_owned(), message.into());
        data.extend(more);
        body.insert("data".to_owned(), data.into());
        reply::json(status, &body)
    }
}

struct Shape {
    status: StatusCode,
    name: &'static str,
    message: String,
    more: Map,
    tagged: bool,
}

impl Error {
    fn shape(self) -> Shape {
        let plain = |status, name, message: &str| Shape {
            status,
            name,
            message: message.to_owned(),
            more: Map::new(),
            tagged: false,
        };
        match self {
            Self::Unauthorized => {
                let message = "a token is needed: HTTP Basic with the server's password, or Bearer";
                plain(StatusCode::UNAUTHORIZED, "UnauthorizedError", message)
            }
            Self::Forbidden(message) => plain(StatusCode::FORBIDDEN, "ForbiddenError", &message),
            Self::Bad { kind, message } => Shape {
                more: fields([("kind", kind.into())]),
                ..plain(StatusCode::BAD_REQUEST, "BadRequest", &message)
            },
            Self::TooLarge => {
                let message = format!("the body is larger than {} MiB", crate::BODY_LIMIT / (1024 * 1024));
                plain(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeError", &message)
            }
            Self::NotJson(found) => {
                let message = format!("the body must be application/json, not {found}");
                plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaTypeError", &message)
            }
            Self::NotFound(message) => plain(StatusCode::NOT_FOUND, "NotFoundError", &message),
            Self::NoRequest { tag, request } => {
                let shape = plain(StatusCode::NOT_FOUND, tag, &format!("request not found: {request}"));
                Shape { more: fields([("requestID", request.into())]), tagged: true, ..shape }
            }
            Self::NoServer(name) => {
                let message = format!("there is no MCP server named {name}");
                let shape = plain(StatusCode::NOT_FOUND, "McpServerNotFoundError", &message);
                // OpenCode has the server's name where other errors have their own.
                Shape { more: fields([("name", name.into())]), tagged: true, ..shape }
            }
            Self::NoRoute(path) => plain(StatusCode::NOT_FOUND, "NotFoundError", &format!("no route {path}")),
            Self::NoMethod(what) => plain(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", &what),
            Self::Busy { session, message } => {
                let shape = plain(StatusCode::CONFLICT, "SessionBusyError", &message);
                Shape { more: fields([("sessionID", session.into())]), tagged: true, ..shape }
            }
            Self::Conflict(message) => {
                Shape { tagged: true, ..plain(StatusCode::CONFLICT, "ConflictError", &message) }
            }
            Self::Absent(what) => {
                let message = format!("{what} is not in this release of Everturn");
                plain(StatusCode::NOT_IMPLEMENTED, "NotImplementedError", &message)
            }
            Self::Unanswered => {
                let message = "the session stopped before it answered; its session.error event says why";
                plain(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", message)
            }
            Self::Internal(cause) => {
                let reference = reference();
                tracing::error!(reference, cause, "a request failed");
                let message = "something failed in the server; its log says more under this reference";
                let shape = plain(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", message);
                Shape { more: fields([("ref", reference.into())]), ..shape }
            }
        }
    }
}

fn fields<const N: usize>(list: [(&str, Value); N]) -> Map {
    list.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn reference() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("err_{:08x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
