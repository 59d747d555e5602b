//! Paths and bodies of requests, with errors that say what is wrong.
//!
//! # Layout
//! - `id`: ids in paths, queries and bodies
//! - `query`: queries

mod id;
mod query;

use axum::body::Bytes;
use axum::extract::path::ErrorKind as PathErrorKind;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use everturn_model::{EntryId, PartId, RequestId, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use id::{Id, QuestionId};
pub(crate) use query::{FlagParameter, Limit, MomentParameter, Query, TextParameter, value_in};

use crate::describe::{Describe, Description, ParameterPlace};
use crate::error::{Error, ErrorKind};

/// The parameters of a path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        found.map(|path| Self(path.0)).map_err(|rejection| Error::Path(unfit(rejection)))
    }
}

fn unfit(rejection: PathRejection) -> String {
    let PathRejection::FailedToDeserializePathParams(error) = rejection else { return rejection.to_string() };
    match error.into_kind() {
        PathErrorKind::DeserializeError { message, .. } | PathErrorKind::Message(message) => message,
        other => other.to_string(),
    }
}

impl<T: JsonSchema> Describe for Path<T> {
    fn describe(description: &mut Description<'_>) {
        description.parameters::<T>(ParameterPlace::Path);
        description.errors.insert(ErrorKind::Path);
    }
}

/// A session in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SessionPath {
    #[serde(rename = "sessionID")]
    pub(crate) session: Id<SessionId>,
}

/// A message in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct MessagePath {
    #[serde(rename = "sessionID")]
    pub(crate) session: Id<SessionId>,
    #[serde(rename = "messageID")]
    pub(crate) message: Id<EntryId>,
}

/// A part in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PartPath {
    #[serde(rename = "sessionID")]
    pub(crate) session: Id<SessionId>,
    #[serde(rename = "messageID")]
    pub(crate) message: Id<EntryId>,
    #[serde(rename = "partID")]
    pub(crate) part: Id<PartId>,
}

/// A permission request in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PermissionPath {
    #[serde(rename = "requestID")]
    pub(crate) request: Id<RequestId>,
}

/// A permission request in the path, below its session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SessionPermissionPath {
    #[serde(rename = "sessionID")]
    pub(crate) session: Id<SessionId>,
    #[serde(rename = "permissionID")]
    pub(crate) request: Id<RequestId>,
}

/// A question in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct QuestionPath {
    #[serde(rename = "requestID")]
    pub(crate) request: Id<QuestionId>,
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let bytes = read(request, state).await?;
        if bytes.is_empty() {
            return Err(Error::Body("the body is missing".to_owned()));
        }
        parse(&bytes).map(Self)
    }
}

impl<T: JsonSchema> Describe for Json<T> {
    fn describe(description: &mut Description<'_>) {
        description.body::<T>(true);
        description.errors.extend([ErrorKind::Body, ErrorKind::TooLarge, ErrorKind::NotJson]);
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let bytes = read(request, state).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

impl<T: JsonSchema> Describe for OptionalJson<T> {
    fn describe(description: &mut Description<'_>) {
        description.body::<T>(false);
        description.errors.extend([ErrorKind::Body, ErrorKind::TooLarge, ErrorKind::NotJson]);
    }
}

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Error> {
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let bytes = Bytes::from_request(request, state).await.map_err(|error| refused(&error))?;
    if let (false, Some(kind)) = (bytes.is_empty(), kind) {
        let kind = kind.to_str().unwrap_or("something unreadable");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Error::NotJson(kind.to_owned()));
        }
    }
    Ok(bytes)
}

fn refused(error: &BytesRejection) -> Error {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        Error::TooLarge
    } else {
        Error::Body(format!("the body cannot be read: {error}"))
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Body(format!("the body cannot be understood: {error}")))
}
