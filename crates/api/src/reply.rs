//! JSON answers.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::Error;

/// What a handler gives.
pub(crate) type Result<T = Response, E = Error> = std::result::Result<T, E>;

/// A value as an answer.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = status;
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            // Answers hold people's conversations; no cache on the way may keep them.
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => {
            tracing::error!(error = error.to_string(), "an answer cannot be printed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A value as a success.
#[expect(clippy::unnecessary_wraps, reason = "handlers end with it")]
pub(crate) fn ok(value: &impl Serialize) -> Result {
    Ok(json(StatusCode::OK, value))
}
