//! Paths and bodies of requests, with errors that say what is wrong.
//!
//! # Layout
//! - `body`: bodies, in bounded memory and time
//! - `id`: ids in paths, queries and bodies
//! - `query`: queries

mod body;
mod id;
mod query;

use axum::extract::path::ErrorKind as PathErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use everturn_model::json::{self, DEPTH_LIMIT, VALUE_LIMIT};
use everturn_model::{EntryId, PartId, RequestId, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use body::{BODY_LIMIT, BodyLimits};
pub(crate) use body::{BodyRoom, ReadBody};
pub(crate) use id::{Id, QuestionId};
pub(crate) use query::{
    FlagParameter, Limit, MomentParameter, NumberParameter, Query, TextParameter, value_in,
};

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

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let body = read(request).await?;
        if body.bytes.is_empty() {
            return Err(Error::Body("the body is missing".to_owned()));
        }
        parse(&body).map(Self)
    }
}

impl<T: JsonSchema> Describe for Json<T> {
    fn describe(description: &mut Description<'_>) {
        description.body::<T>(true);
        description.errors.extend(BODY_ERRORS);
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let body = read(request).await?;
        if body.bytes.is_empty() { Ok(Self(T::default())) } else { parse(&body).map(Self) }
    }
}

impl<T: JsonSchema> Describe for OptionalJson<T> {
    fn describe(description: &mut Description<'_>) {
        description.body::<T>(false);
        description.errors.extend(BODY_ERRORS);
    }
}

/// How a body can be refused.
const BODY_ERRORS: [ErrorKind; 4] =
    [ErrorKind::Body, ErrorKind::TooLarge, ErrorKind::NotJson, ErrorKind::Overloaded];

async fn read(request: Request) -> Result<ReadBody, Error> {
    let (parts, body) = request.into_parts();
    let room = parts.extensions.get::<BodyRoom>().ok_or_else(ungated)?;
    let body = room.read(&parts.headers, body).await?;
    if let (false, Some(kind)) = (body.bytes.is_empty(), parts.headers.get(CONTENT_TYPE)) {
        let kind = kind.to_str().unwrap_or("something unreadable");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Error::NotJson(kind.to_owned()));
        }
    }
    Ok(body)
}

fn ungated() -> Error {
    Error::Internal("the request did not come through the gate".to_owned())
}

/// What a body says. It is refused here where it is nested so deep that what is stored of it could not be read again, or
/// would take more memory than there was room for.
fn parse<T: DeserializeOwned>(body: &ReadBody) -> Result<T, Error> {
    let depth = json::depth(&body.bytes);
    if depth > DEPTH_LIMIT {
        return Err(Error::Body(format!(
            "the body is nested {depth} levels deep; at most {DEPTH_LIMIT} are allowed"
        )));
    }
    let values = json::values(&body.bytes);
    if values > VALUE_LIMIT {
        return Err(Error::Body(format!("the body has {values} values; at most {VALUE_LIMIT} are allowed")));
    }
    serde_json::from_slice(&body.bytes)
        .map_err(|error| Error::Body(format!("the body cannot be understood: {error}")))
}
