//! Paths, queries and bodies of requests, with errors that say what is wrong.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use everturn_model::{EntryId, Millis, PartId, RequestId, SessionId};
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The session that the path names.
pub(crate) fn session_id(text: String) -> Result<SessionId, Error> {
    id(SessionId::is_well_formed, SessionId::PREFIX, text).map(SessionId::new)
}

/// The message that the path or the body names.
pub(crate) fn entry_id(text: String) -> Result<EntryId, Error> {
    id(EntryId::is_well_formed, EntryId::PREFIX, text).map(EntryId::new)
}

/// The part that the path names.
pub(crate) fn part_id(text: String) -> Result<PartId, Error> {
    id(PartId::is_well_formed, PartId::PREFIX, text).map(PartId::new)
}

/// The permission request that the path names.
pub(crate) fn permission_id(text: String) -> Result<RequestId, Error> {
    id(RequestId::is_well_formed, RequestId::PREFIX, text).map(RequestId::new)
}

/// The question that the path names.
pub(crate) fn question_id(text: String) -> Result<RequestId, Error> {
    id(|text| text.starts_with("que_"), "que", text).map(RequestId::new)
}

fn id(well_formed: impl Fn(&str) -> bool, prefix: &str, text: String) -> Result<String, Error> {
    if well_formed(&text) {
        Ok(text)
    } else {
        Err(Error::path(format!("{text:?} is not an id that begins with {prefix}_")))
    }
}

/// The query of a request.
#[derive(Debug)]
pub(crate) struct Query(String);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        Ok(Self(parts.uri.query().unwrap_or_default().to_owned()))
    }
}

impl Query {
    /// A value; an empty one counts as present.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        query_value(&self.0, name)
    }

    /// A value that is not empty.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// A flag.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Error> {
        match self.word(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Error::query(format!("{name} must be true or false, not {other:?}"))),
        }
    }

    /// A count; zero and nothing both mean all.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u32>, Error> {
        let Some(text) = self.word(name) else { return Ok(None) };
        let count: u32 =
            text.parse().map_err(|_| Error::query(format!("{name} must be a whole number, not {text:?}")))?;
        Ok((count > 0).then_some(count))
    }

    /// A moment in milliseconds.
    pub(crate) fn moment(&self, name: &str) -> Result<Option<Millis>, Error> {
        let Some(text) = self.word(name) else { return Ok(None) };
        let whole = text.split('.').next().unwrap_or_default();
        let moment =
            whole.parse().map_err(|_| Error::query(format!("{name} must be milliseconds, not {text:?}")))?;
        Ok(Some(moment))
    }
}

/// A value of a query, decoded; the first where there are several.
pub(crate) fn query_value(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key, Plus::Space) == name).then(|| decode(value, Plus::Space))
    })
}

/// What a plus sign means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    /// A space, as in queries.
    Space,
    /// Itself, as in headers.
    Plus,
}

/// Decodes `%41`; what is not such a code stays.
pub(crate) fn decode(text: &str, plus: Plus) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let code = after.first_chunk::<2>().and_then(|pair| std::str::from_utf8(pair).ok());
        let code =
            code.filter(|pair| !pair.starts_with('+')).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', _) if plus == Plus::Space => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let bytes = read(request, state).await?;
        if bytes.is_empty() {
            return Err(Error::body("the body is missing"));
        }
        parse(&bytes).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let bytes = read(request, state).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
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
        Error::body(format!("the body cannot be read: {error}"))
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::body(format!("the body cannot be understood: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_is_encoded() {
        for (text, expected) in [
            ("%2Ftmp%2Fdemo", "/tmp/demo"),
            ("a+b", "a b"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%+1", "% 1"),
            ("%C3%A9", "é"),
        ] {
            assert_eq!(decode(text, Plus::Space), expected, "{text}");
        }
        assert_eq!(decode("a+b", Plus::Plus), "a+b");
    }

    #[test]
    fn finds_values() {
        let query = "directory=%2Fx&limit=3&path=&location%5Bdirectory%5D=y";
        assert_eq!(query_value(query, "directory").as_deref(), Some("/x"));
        assert_eq!(query_value(query, "path").as_deref(), Some(""));
        assert_eq!(query_value(query, "location[directory]").as_deref(), Some("y"));
        assert_eq!(query_value(query, "search"), None);
    }

    #[test]
    fn counts_and_moments() {
        let query = Query("limit=100&none=0&start=1792119654347&odd=1.5&bad=x".to_owned());
        assert_eq!(query.count("limit").unwrap(), Some(100));
        assert_eq!(query.count("none").unwrap(), None);
        assert_eq!(query.moment("start").unwrap(), Some(1_792_119_654_347));
        assert_eq!(query.moment("odd").unwrap(), Some(1));
        assert!(query.count("bad").is_err());
        assert!(query.flag("bad").is_err());
    }
}
