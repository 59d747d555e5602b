//! The folder that a request means: its query, else its header, else the server's own.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everturn_engine::projects::Location;
use percent_encoding::percent_decode;
use serde_json::json;

use crate::App;
use crate::describe::{Describe, Description, ParameterPlace};
use crate::error::{Error, ErrorKind};
use crate::input::value_in;

/// The header that clients put the folder in, encoded as in a URL.
const HEADER: &str = "x-opencode-directory";

/// The folder that a request means, and what it belongs to.
#[derive(Debug)]
pub(crate) struct Workdir(pub(crate) Location);

impl FromRequestParts<App> for Workdir {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let location = app.engine.projects().location(directory(parts).as_deref()).await;
        location.map(Self).map_err(|error| match error {
            everturn_engine::Error::Invalid(message) => Error::Query(message),
            other => other.into(),
        })
    }
}

impl Describe for Workdir {
    fn describe(description: &mut Description<'_>) {
        description.parameter(ParameterPlace::Query, "directory", false, &json!({"type": "string"}));
        description.parameter(ParameterPlace::Header, HEADER, false, &json!({"type": "string"}));
        description.errors.insert(ErrorKind::Query);
    }
}

fn directory(parts: &Parts) -> Option<String> {
    let query = value_in(parts.uri.query().unwrap_or_default(), "directory");
    let header = || {
        let value = parts.headers.get(HEADER)?;
        Some(percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned())
    };
    // A client may leave a slash at the end; a folder has one name.
    query.filter(|text| !text.is_empty()).or_else(header).map(|text| match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    })
}
