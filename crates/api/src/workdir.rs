//! The folder that a request means: its query, else its header, else the server's own.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everturn_engine::Config;
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
        let (text, wrong) = directory(parts).unzip();
        let location = app.engine.projects().location(text.as_deref()).await;
        location.map(Self).map_err(|error| match error {
            everturn_engine::Error::Invalid(message) => wrong.unwrap_or(Error::Query)(message),
            other => other.into(),
        })
    }
}

impl Describe for Workdir {
    fn describe(description: &mut Description<'_>) {
        description.parameter(ParameterPlace::Query, "directory", false, &json!({"type": "string"}));
        description.parameter(ParameterPlace::Header, HEADER, false, &json!({"type": "string"}));
        description.errors.extend([ErrorKind::Query, ErrorKind::Header]);
    }
}

/// The folder that a request means, and what is configured there.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) location: Location,
    pub(crate) config: Arc<Config>,
}

impl FromRequestParts<App> for Here {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Workdir(location) = Workdir::from_request_parts(parts, app).await?;
        let config = app.engine.configurations().at(&location.directory).await;
        Ok(Self { location, config })
    }
}

impl Describe for Here {
    fn describe(description: &mut Description<'_>) {
        Workdir::describe(description);
    }
}

/// What is said to be wrong where a folder is none: the piece of the request that named it.
type WrongPiece = fn(String) -> Error;

/// The folder as it was written, and by which piece of the request.
fn directory(parts: &Parts) -> Option<(String, WrongPiece)> {
    let query = value_in(parts.uri.query().unwrap_or_default(), "directory");
    let header = || {
        let value = parts.headers.get(HEADER)?;
        Some(percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned())
    };
    let (text, wrong): (String, WrongPiece) = match query.filter(|text| !text.is_empty()) {
        Some(text) => (text, Error::Query),
        None => (header()?, Error::Header),
    };
    // A client may leave a slash at the end; a folder has one name.
    let trimmed = text.trim_end_matches('/');
    let folder = if trimmed.is_empty() && text.starts_with('/') { "/" } else { trimmed };
    Some((folder.to_owned(), wrong))
}
