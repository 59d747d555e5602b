//! Why a model call failed, by what the caller can do about it.
//!
//! An error made from an HTTP answer carries that answer ([`HttpFailure`]) so that it can be stored and shown as
//! it was. Credentials are removed before it gets here.

mod advice;
mod classify;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

pub(crate) use classify::{classify, classify_in_stream};

/// The longest message taken from a provider.
const MESSAGE_LIMIT: usize = 2_000;

/// A lower-level cause.
pub type BoxedSource = Box<dyn std::error::Error + Send + Sync>;

/// A failed model call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials are missing, wrong or lack a right: the user has to act.
    #[error("the provider refused the credentials: {http}")]
    Authentication {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// Too many requests: wait and ask again.
    #[error("the provider limits the request rate: {http}")]
    RateLimit {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The provider has no capacity now: ask again.
    #[error("the provider is overloaded: {http}")]
    Overloaded {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The conversation is longer than the model takes: shorten it.
    #[error("the conversation exceeds the model's context: {http}")]
    ContextOverflow {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The provider's policy refused the content.
    #[error("the provider refused the content: {http}")]
    ContentFilter {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The provider does not accept the request as it is: asking again does not help.
    #[error("the provider refused the request: {http}")]
    InvalidRequest {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The account has no credit left: the user has to act.
    #[error("the provider account is out of quota: {http}")]
    Quota {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The provider failed: ask again.
    #[error("the provider failed: {http}")]
    Server {
        /// The answer.
        http: Box<HttpFailure>,
    },
    /// The connection could not be made or broke.
    #[error("connection to the provider: {message}")]
    Transport {
        /// Whether it happened before the answer began, so that nothing was received.
        before_first_byte: bool,
        /// What went wrong.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxedSource>,
    },
    /// The answer is not in the protocol.
    #[error("the provider's answer cannot be read: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
        /// The head of the answer, and the part that could not be read.
        http: Box<HttpFailure>,
    },
    /// The answer ended without its terminal event.
    #[error("the provider's answer is incomplete: {reason}")]
    Incomplete {
        /// What is missing.
        reason: String,
    },
    /// Nothing arrived for too long.
    #[error("the provider sent nothing for {} seconds", after.as_secs_f64())]
    Inactivity {
        /// The limit that was exceeded.
        after: Duration,
        /// Whether it happened before the answer began.
        before_first_byte: bool,
    },
    /// The provider is set up in a way that no request can be made.
    #[error("the provider is not usable as configured: {reason}")]
    Configuration {
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// Whether the same request may succeed later without anybody acting.
    pub fn retryable(&self) -> bool {
        match self {
            Self::RateLimit { .. }
            | Self::Overloaded { .. }
            | Self::Server { .. }
            | Self::Transport { .. }
            | Self::Incomplete { .. }
            | Self::Inactivity { .. } => true,
            Self::Authentication { .. }
            | Self::ContextOverflow { .. }
            | Self::ContentFilter { .. }
            | Self::InvalidRequest { .. }
            | Self::Quota { .. }
            | Self::Malformed { .. }
            | Self::Configuration { .. } => false,
        }
    }

    /// How long the provider asks to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after, .. } => *retry_after,
            _ => self.http().and_then(HttpFailure::retry_after),
        }
    }

    /// The HTTP answer behind the error.
    pub fn http(&self) -> Option<&HttpFailure> {
        match self {
            Self::Authentication { http }
            | Self::RateLimit { http, .. }
            | Self::Overloaded { http }
            | Self::ContextOverflow { http }
            | Self::ContentFilter { http }
            | Self::InvalidRequest { http }
            | Self::Quota { http }
            | Self::Server { http }
            | Self::Malformed { http, .. } => Some(http),
            Self::Transport { .. }
            | Self::Incomplete { .. }
            | Self::Inactivity { .. }
            | Self::Configuration { .. } => None,
        }
    }

    /// The provider's own message where there is one, else this error's text.
    pub fn provider_message(&self) -> String {
        match self {
            Self::Malformed { .. } => self.to_string(),
            _ => self.http().map_or_else(|| self.to_string(), HttpFailure::message),
        }
    }
}

/// An HTTP answer that is an error, or an error found inside an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpFailure {
    /// The status. An error inside a stream that names a status of its own has that one.
    pub status: u16,
    /// The answer's headers, lower-case, without cookies.
    pub headers: BTreeMap<String, String>,
    /// The body, or the error object inside the stream.
    pub body: String,
    /// Where the request went, without query and user information.
    pub url: String,
}

impl HttpFailure {
    /// The message in the body, else the body where it is short plain text, else the meaning of the status.
    pub fn message(&self) -> String {
        let json = serde_json::from_str::<Value>(&self.body).ok();
        let found = match &json {
            Some(value) => classify::ErrorDetails::of(value).message,
            None => Some(self.body.trim().to_owned()).filter(|text| !text.starts_with('<')),
        };
        match found.filter(|text| !text.is_empty()) {
            Some(text) => text.chars().take(MESSAGE_LIMIT).collect(),
            None => self.status_text(),
        }
    }

    /// The pause that the provider asks for, in its headers or else in the body.
    pub fn retry_after(&self) -> Option<Duration> {
        self.in_headers().or_else(|| classify::ErrorDetails::read(&self.body).pause)
    }

    /// The pause the headers ask for: `retry-after-ms`, else `retry-after` in seconds or as a date.
    ///
    /// A date is read against the answer's own `date`, so that a wrong local clock does no harm. What the headers say
    /// about windows of requests and tokens (`x-ratelimit-reset-…`) is not advice: it tells when all of a window is
    /// free again, and not when the next request gets through.
    fn in_headers(&self) -> Option<Duration> {
        let header = |name: &str| self.headers.get(name).map(|value| value.trim());
        if let Some(millis) = header("retry-after-ms").and_then(number) {
            return Duration::try_from_secs_f64(millis / 1_000.0).ok();
        }
        let advice = header("retry-after")?;
        if let Some(seconds) = number(advice) {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        let until = parser.parse_timestamp(advice).ok()?;
        let now = parser.parse_timestamp(header("date")?).ok()?;
        Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
    }

    fn status_text(&self) -> String {
        let known =
            reqwest::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        known.map_or_else(|| format!("HTTP status {}", self.status), str::to_owned)
    }
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HTTP {})", self.message(), self.status)
    }
}

/// A non-negative number.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(headers: &[(&str, &str)], body: &str) -> HttpFailure {
        HttpFailure {
            status: 502,
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            body: body.into(),
            url: String::new(),
        }
    }

    #[test]
    fn retry_after_forms() {
        let check = |headers: &[(&str, &str)], expected: Option<u64>| {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(failure(headers, "").retry_after(), expected, "{headers:?}");
        };
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after", "7"), ("retry-after-ms", "1500")], Some(1_500));
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "-3")], None);
        let later = ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT");
        check(&[later, ("date", "Wed, 21 Oct 2026 07:28:00 GMT")], Some(30_000));
        check(&[later, ("date", "Wed, 21 Oct 2026 08:00:00 GMT")], Some(0));
        check(&[later], None);
    }

    #[test]
    fn message_forms() {
        let check = |body: &str, expected: &str| assert_eq!(failure(&[], body).message(), expected);
        check(r#"{"error":{"message":"no such model"}}"#, "no such model");
        check(r#"{"error":"busy"}"#, "busy");
        check(r#"{"message":"hello"}"#, "hello");
        check(r#"{"detail":"not found"}"#, "not found");
        check(r#"[{"error":{"message":"listed"}}]"#, "listed");
        check("plain words", "plain words");
        check("<html>gateway</html>", "Bad Gateway");
        check("", "Bad Gateway");
        check(r#"{"foo":1}"#, "Bad Gateway");
    }
}
