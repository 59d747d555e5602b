//! What handlers answer with. The type of an answer tells the [document](crate::document) its shape.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LINK};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::describe::{Describe, Description};
use crate::error::Error;
use crate::large::LargeBody;

/// What a handler gives.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A value that prints in a known shape: its own, or that of a type which describes it.
pub(crate) trait Shaped: Serialize {
    /// The shape.
    type Shape: JsonSchema;
}

/// Says which types print in which shapes; `T as T` is a type that prints in its own.
macro_rules! shaped {
    ($($type:ty as $shape:ty),* $(,)?) => {
        $(impl $crate::answer::Shaped for $type {
            type Shape = $shape;
        })*
    };
}
pub(crate) use shaped;

shaped! { bool as bool, String as String, Value as Value }

impl<T: Shaped> Shaped for Vec<T> {
    type Shape = Vec<T::Shape>;
}

impl<T: Shaped> Shaped for BTreeMap<String, T> {
    type Shape = BTreeMap<String, T::Shape>;
}

/// JSON in the shape `S`.
#[derive(Debug)]
pub(crate) struct JsonAnswer<S> {
    response: Response,
    shape: PhantomData<fn() -> S>,
}

/// A value as a success.
#[expect(clippy::unnecessary_wraps, reason = "handlers end with it")]
pub(crate) fn answer<T: Shaped>(value: &T) -> Result<JsonAnswer<T::Shape>> {
    Ok(JsonAnswer { response: json(StatusCode::OK, value), shape: PhantomData })
}

/// What a value was printed as, as a success.
pub(crate) fn printed_answer<T: Shaped>(json: serde_json::Result<Vec<u8>>) -> JsonAnswer<T::Shape> {
    JsonAnswer { response: printed_or_failed(StatusCode::OK, json), shape: PhantomData }
}

impl<S> LargeBody for JsonAnswer<S> {
    fn response_mut(&mut self) -> &mut Response {
        &mut self.response
    }
}

impl<S> IntoResponse for JsonAnswer<S> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<S: JsonSchema> Describe for JsonAnswer<S> {
    fn describe(description: &mut Description<'_>) {
        description.gives::<S>("application/json", "Done.");
    }
}

/// A page of a list, as JSON in the shape `S`. Where there is more, its headers say how to go on.
#[derive(Debug)]
pub(crate) struct PageAnswer<S>(JsonAnswer<S>);

/// The cursor of the next page.
const NEXT: HeaderName = HeaderName::from_static("x-next-cursor");

impl<S> PageAnswer<S> {
    /// The page behind which nothing comes.
    pub(crate) fn last(page: JsonAnswer<S>) -> Self {
        Self(page)
    }

    /// A page, the cursor of the next one, and where that is.
    pub(crate) fn followed(mut page: JsonAnswer<S>, cursor: String, next: &str) -> Self {
        for (name, value) in [(NEXT, cursor), (LINK, format!("<{next}>; rel=\"next\""))] {
            let value = HeaderValue::try_from(value).ok();
            page.response.headers_mut().extend(value.map(|value| (name, value)));
        }
        Self(page)
    }
}

impl<S> LargeBody for PageAnswer<S> {
    fn response_mut(&mut self) -> &mut Response {
        self.0.response_mut()
    }
}

impl<S> IntoResponse for PageAnswer<S> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<S: JsonSchema> Describe for PageAnswer<S> {
    fn describe(description: &mut Description<'_>) {
        JsonAnswer::<S>::describe(description);
        let next = "The cursor of the next page, to be given as `before`; missing where there is none.";
        description.gives_header(NEXT.as_str(), next);
        description.gives_header(LINK.as_str(), "Where the next page is, with the relation `next`.");
    }
}

/// Done, and nothing to say.
#[derive(Debug)]
pub(crate) struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Describe for NoContent {
    fn describe(description: &mut Description<'_>) {
        description.gives_nothing(204, "Done.");
    }
}

/// A stream of server-sent events, each of the shape `S`.
#[derive(Debug)]
pub(crate) struct SseAnswer<S> {
    response: Response,
    shape: PhantomData<fn() -> S>,
}

impl<S> SseAnswer<S> {
    /// A stream that was opened.
    pub(crate) fn new(response: Response) -> Self {
        Self { response, shape: PhantomData }
    }
}

impl<S> IntoResponse for SseAnswer<S> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<S: JsonSchema> Describe for SseAnswer<S> {
    fn describe(description: &mut Description<'_>) {
        description.gives::<S>("text/event-stream", "Events, until the server or the client closes.");
    }
}

/// A value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    printed_or_failed(status, serde_json::to_vec(value))
}

fn printed_or_failed(status: StatusCode, json: serde_json::Result<Vec<u8>>) -> Response {
    match json {
        Ok(bytes) => printed(status, bytes),
        Err(error) => {
            tracing::error!(error = error.to_string(), "an answer cannot be printed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// JSON that is printed already.
pub(crate) fn printed(status: StatusCode, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Answers hold people's conversations; no cache on the way may keep them.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
