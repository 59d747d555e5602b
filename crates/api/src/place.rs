//! The folder that a request means: its query, else its header, else the server's own.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everturn_engine::projects::Location;

use crate::App;
use crate::error::Error;
use crate::input::{Plus, decode, query_value};

/// The header that clients put the folder in, encoded as in a URL.
const HEADER: &str = "x-opencode-directory";

/// The folder that a request means, and what it belongs to.
#[derive(Debug)]
pub(crate) struct Place(pub(crate) Location);

impl FromRequestParts<App> for Place {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let location = app.engine.projects().location(directory(parts).as_deref()).await;
        location.map(Self).map_err(|error| match error {
            everturn_engine::Error::Invalid(message) => Error::query(message),
            other => other.into(),
        })
    }
}

fn directory(parts: &Parts) -> Option<String> {
    let query = query_value(parts.uri.query().unwrap_or_default(), "directory");
    let header = || {
        let value = parts.headers.get(HEADER)?;
        Some(decode(&String::from_utf8_lossy(value.as_bytes()), Plus::Plus))
    };
    // A client may leave a slash at the end; a folder has one name.
    query.filter(|text| !text.is_empty()).or_else(header).map(|text| match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    })
}
