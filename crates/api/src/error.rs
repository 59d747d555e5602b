//! What can go wrong with a request, whatever the protocol.
//!
//! What the caller can act on is said; what only the operator can act on goes to the log under a reference, and the
//! caller gets the reference. How an error looks to a client is the business of the protocol that the client speaks:
//! an [`Error`] travels inside its response until the protocol puts it into words, which is `v1` for all there is now.
//!
//! # Layout
//! - `v1`: in the words of OpenCode's V1 protocol

pub(crate) mod v1;

use std::fmt::Display;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Why a request cannot be done.
#[derive(Debug)]
pub(crate) enum Error {
    /// No token, or a wrong one.
    Unauthorized,
    /// A host or a page that may not speak to the server.
    Forbidden(String),
    /// The path cannot be understood.
    Path(String),
    /// The query cannot be understood.
    Query(String),
    /// A header cannot be understood.
    Header(String),
    /// The body cannot be understood.
    Body(String),
    /// The body is too large.
    TooLarge,
    /// The body is not JSON.
    NotJson(String),
    /// There is no such session, message, part or project.
    NotFound(String),
    /// Nobody waits for an answer to this permission request.
    NoPermission(String),
    /// Nobody waits for an answer to this question.
    NoQuestion(String),
    /// No MCP server of this name is configured.
    NoServer(String),
    /// There is no such route.
    NoRoute(String),
    /// The route has no such method.
    NoMethod(String),
    /// Too many wrong tokens came from one place.
    TooManyFailures,
    /// There is no room for another large body, or another large answer, now.
    Overloaded,
    /// The session is at work.
    Busy { session: String, message: String },
    /// The id is used for something else.
    Conflict(String),
    /// Not in this release.
    Unsupported(&'static str),
    /// The session stopped before it answered.
    Unanswered,
    /// Something broke here.
    Internal(String),
}

/// The same without the details: what an operation declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorKind {
    /// See [`Error::Path`].
    Path,
    /// See [`Error::Query`].
    Query,
    /// See [`Error::Header`].
    Header,
    /// See [`Error::Body`].
    Body,
    /// See [`Error::Unauthorized`].
    Unauthorized,
    /// See [`Error::Forbidden`].
    Forbidden,
    /// See [`Error::NotFound`].
    NotFound,
    /// See [`Error::NoPermission`].
    NoPermission,
    /// See [`Error::NoQuestion`].
    NoQuestion,
    /// See [`Error::NoServer`].
    NoServer,
    /// See [`Error::NoRoute`].
    NoRoute,
    /// See [`Error::NoMethod`].
    NoMethod,
    /// See [`Error::Busy`].
    Busy,
    /// See [`Error::Conflict`].
    Conflict,
    /// See [`Error::TooLarge`].
    TooLarge,
    /// See [`Error::NotJson`].
    NotJson,
    /// See [`Error::TooManyFailures`].
    TooManyFailures,
    /// See [`Error::Internal`].
    Internal,
    /// See [`Error::Unanswered`].
    Unanswered,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::Overloaded`].
    Overloaded,
}

impl Error {
    fn internal(error: &impl Display) -> Self {
        Self::Internal(error.to_string())
    }

    /// What it is, without the details.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Unauthorized => ErrorKind::Unauthorized,
            Self::Forbidden(_) => ErrorKind::Forbidden,
            Self::Path(_) => ErrorKind::Path,
            Self::Query(_) => ErrorKind::Query,
            Self::Header(_) => ErrorKind::Header,
            Self::Body(_) => ErrorKind::Body,
            Self::TooLarge => ErrorKind::TooLarge,
            Self::NotJson(_) => ErrorKind::NotJson,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::NoPermission(_) => ErrorKind::NoPermission,
            Self::NoQuestion(_) => ErrorKind::NoQuestion,
            Self::NoServer(_) => ErrorKind::NoServer,
            Self::NoRoute(_) => ErrorKind::NoRoute,
            Self::NoMethod(_) => ErrorKind::NoMethod,
            Self::TooManyFailures => ErrorKind::TooManyFailures,
            Self::Overloaded => ErrorKind::Overloaded,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::Unanswered => ErrorKind::Unanswered,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

impl From<everturn_engine::Error> for Error {
    fn from(error: everturn_engine::Error) -> Self {
        use everturn_engine::Error as Engine;
        match error {
            Engine::NoSession(_) | Engine::NoMessage(_) | Engine::NoPart(_) => {
                Self::NotFound(error.to_string())
            }
            Engine::NoRequest(id) if id.as_str().starts_with("que") => Self::NoQuestion(id.to_string()),
            Engine::NoRequest(id) => Self::NoPermission(id.to_string()),
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
            | Engine::Import(_) => Self::Body(error.to_string()),
            other => Self::internal(&other),
        }
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(&error)
    }
}

/// An error that no protocol has written yet.
#[derive(Debug, Clone)]
pub(crate) struct UnformattedError(Arc<Error>);

impl UnformattedError {
    /// What went wrong, where something did.
    pub(crate) fn of(response: &Response) -> Option<ErrorKind> {
        response.extensions().get::<Self>().map(|word| word.0.kind())
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(UnformattedError(Arc::new(self)));
        response
    }
}
