//! Errors as V1 clients read them: `{"name": …, "data": {"message": …}}`.
//!
//! Errors that OpenCode tags (`_tag`) carry both shapes, because its clients read either.

use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use axum::response::Response;
use everturn_model::Map;
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::{Error, ErrorKind, UnformattedError};
use crate::answer;
use crate::input::BODY_LIMIT;
use crate::logins::{FAILURE_LIMIT, FAILURE_WINDOW};

/// How an error of a kind looks.
struct ErrorForm {
    status: StatusCode,
    name: &'static str,
    /// A field beside the message.
    more: Option<&'static str>,
    /// Whether the fields are outside of `data` too, with the name as `_tag`.
    tagged: bool,
}

fn form(kind: ErrorKind) -> ErrorForm {
    let (status, name, more, tagged) = match kind {
        ErrorKind::Path | ErrorKind::Query | ErrorKind::Header | ErrorKind::Body => {
            (StatusCode::BAD_REQUEST, "BadRequest", Some("kind"), false)
        }
        ErrorKind::Unauthorized => (StatusCode::UNAUTHORIZED, "UnauthorizedError", None, false),
        ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "ForbiddenError", None, false),
        ErrorKind::NotFound | ErrorKind::NoRoute => (StatusCode::NOT_FOUND, "NotFoundError", None, false),
        ErrorKind::NoPermission => {
            (StatusCode::NOT_FOUND, "PermissionNotFoundError", Some("requestID"), true)
        }
        ErrorKind::NoQuestion => (StatusCode::NOT_FOUND, "QuestionNotFoundError", Some("requestID"), true),
        // OpenCode has the server's name where other errors have their own.
        ErrorKind::NoServer => (StatusCode::NOT_FOUND, "McpServerNotFoundError", Some("name"), true),
        ErrorKind::NoMethod => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", None, false),
        ErrorKind::Busy => (StatusCode::CONFLICT, "SessionBusyError", Some("sessionID"), true),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "ConflictError", None, true),
        ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeError", None, false),
        ErrorKind::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaTypeError", None, false),
        ErrorKind::TooManyFailures => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsError", None, false),
        ErrorKind::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", None, false),
        ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", Some("ref"), false),
        ErrorKind::Unanswered => (StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", None, false),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "NotImplementedError", None, false),
    };
    ErrorForm { status, name, more, tagged }
}

/// The status and the shape of an error, for the document.
pub(crate) fn shape(kind: ErrorKind) -> (u16, &'static str, Schema) {
    let ErrorForm { status, name, more, tagged } = form(kind);
    let mut fields = Map::from_iter([("message".to_owned(), json!({"type": "string"}))]);
    let mut needed = vec!["message"];
    if let Some(more) = more {
        let piece = json!({"type": "string", "enum": ["Params", "Query", "Headers", "Body"]});
        let field = if more == "kind" { piece } else { json!({"type": "string"}) };
        fields.insert(more.to_owned(), field);
        // Two errors share a name, and one of them has no reference.
        if more != "ref" {
            needed.push(more);
        }
    }
    let data = json!({"type": "object", "properties": fields.clone(), "required": needed.clone()});
    // The name of an MCP server takes the place of the error's own.
    let own = if more == Some("name") { json!({"type": "string"}) } else { json!({"const": name}) };
    let mut outside = Map::from_iter([("name".to_owned(), own)]);
    let mut required = vec!["name"];
    if tagged {
        outside.insert("_tag".to_owned(), json!({"const": name}));
        outside.extend(fields);
        required.push("_tag");
        required.extend(needed.iter().filter(|field| **field != "name"));
    }
    outside.insert("data".to_owned(), data);
    required.push("data");
    let schema = json_schema!({"type": "object", "properties": outside, "required": required});
    (status.as_u16(), name, schema)
}

/// Writes the error of a response as V1 clients read it, where it has one.
pub(crate) fn format_error(mut response: Response) -> Ready<Response> {
    let Some(UnformattedError(error)) = response.extensions_mut().remove::<UnformattedError>() else {
        return ready(response);
    };
    let (status, body) = body(&error);
    let mut worded = answer::json(status, &body);
    // Headers that came with the error stay.
    for (name, value) in response.headers() {
        worded.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    ready(worded)
}

fn body(error: &Error) -> (StatusCode, Map) {
    let ErrorForm { status, name, more, tagged } = form(error.kind());
    let (message, detail) = explain(error);
    let more: Map =
        more.into_iter().zip(detail).map(|(key, detail)| (key.to_owned(), detail.into())).collect();
    let mut body = Map::from_iter([("name".to_owned(), Value::from(name))]);
    if tagged {
        body.insert("_tag".to_owned(), name.into());
        body.insert("message".to_owned(), message.as_str().into());
        body.extend(more.clone());
    }
    let mut data = Map::from_iter([("message".to_owned(), Value::from(message))]);
    data.extend(more);
    body.insert("data".to_owned(), data.into());
    (status, body)
}

/// The message of an error, and the field beside it.
fn explain(error: &Error) -> (String, Option<String>) {
    match error {
        Error::Unauthorized => {
            ("a token is needed: HTTP Basic with the server's password, or Bearer".to_owned(), None)
        }
        Error::Path(message) => (message.clone(), Some("Params".to_owned())),
        Error::Query(message) => (message.clone(), Some("Query".to_owned())),
        Error::Header(message) => (message.clone(), Some("Headers".to_owned())),
        Error::Body(message) => (message.clone(), Some("Body".to_owned())),
        Error::TooLarge => (format!("the body is larger than {} MiB", BODY_LIMIT / (1024 * 1024)), None),
        Error::TooManyFailures => {
            let message = format!(
                "more than {FAILURE_LIMIT} wrong tokens came from there within {} seconds; the right one is still taken",
                FAILURE_WINDOW.as_secs()
            );
            (message, None)
        }
        Error::Overloaded => (
            "other large requests or answers are under way, and there is no room for this one: try again"
                .to_owned(),
            None,
        ),
        Error::NotJson(found) => (format!("the body must be application/json, not {found}"), None),
        Error::Forbidden(message) | Error::NotFound(message) | Error::Conflict(message) => {
            (message.clone(), None)
        }
        Error::NoPermission(request) | Error::NoQuestion(request) => {
            (format!("request not found: {request}"), Some(request.clone()))
        }
        Error::NoServer(name) => (format!("there is no MCP server named {name}"), Some(name.clone())),
        Error::NoRoute(what) | Error::NoMethod(what) => (format!("no route {what}"), None),
        Error::Busy { session, message } => (message.clone(), Some(session.clone())),
        Error::Unsupported(what) => (format!("{what} is not in this release of Everturn"), None),
        Error::Unanswered => {
            ("the session stopped before it answered; its session.error event says why".to_owned(), None)
        }
        Error::Internal(cause) => {
            let reference = reference();
            tracing::error!(reference, cause, "a request failed");
            let message = "something failed in the server; its log says more under this reference";
            (message.to_owned(), Some(reference))
        }
    }
}

fn reference() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("err_{:08x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
