//! The HTTP side shared by all protocols: clients, limits and the making of errors.
//!
//! Clients are built once per process and kept apart by route: a loopback server is never reached through a
//! system proxy, and a plain `http` route does not read the machine's certificates, so a local model works on a
//! host that has none. The TLS provider is installed here, idempotently, before a client is built.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

use crate::body::BodyError;
use crate::error::{BoxedSource, classify, classify_in_stream};
use crate::secret::Redactor;
use crate::{Error, HttpFailure};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(15);

/// How much of an error's body is kept.
const BODY_LIMIT: usize = 64 * 1024;

/// How much more of it is read: a key that begins before the limit is then whole, and hidden.
const SLACK: usize = 4 * 1024;

/// How long the body of an error answer may take.
const ERROR_BODY: Duration = Duration::from_secs(10);

/// One request, ready to be sent.
pub(crate) struct HttpPost {
    /// The full address.
    pub(crate) url: String,
    /// Headers; a later one of the same name wins.
    pub(crate) headers: Vec<(String, String)>,
    /// The JSON body.
    pub(crate) body: Bytes,
    /// The longest silence allowed, before and within the answer.
    pub(crate) inactivity: Duration,
    /// What must not appear in errors.
    pub(crate) redactor: Redactor,
}

impl HttpPost {
    /// Sends the request and waits for the head of a successful answer.
    pub(crate) async fn send(self) -> Result<HttpAnswer, Error> {
        let url = Url::parse(&self.url).map_err(|cause| configuration(format!("base address: {cause}")))?;
        let client = client_for(&url)?;
        let place = address(&url);
        let request = client.post(url).headers(header_map(&self.headers)?).body(self.body);
        let response = match tokio::time::timeout(self.inactivity, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(cause)) => return Err(transport(cause, true, &self.redactor)),
            Err(_) => return Err(Error::Inactivity { after: self.inactivity, before_first_byte: true }),
        };
        let answer = HttpAnswer {
            status: response.status().as_u16(),
            headers: readable_headers(response.headers(), &self.redactor),
            place,
            response,
            inactivity: self.inactivity,
            redactor: self.redactor,
            started: false,
        };
        match answer.status {
            200..300 => Ok(answer),
            300..400 => Err(answer.redirected()),
            _ => Err(answer.into_error().await),
        }
    }
}

/// A successful answer whose body is being read.
pub(crate) struct HttpAnswer {
    response: Response,
    status: u16,
    headers: BTreeMap<String, String>,
    place: String,
    inactivity: Duration,
    redactor: Redactor,
    started: bool,
}

impl HttpAnswer {
    /// The media type of the body, lower-case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE.as_str()).map(String::as_str).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.inactivity, self.response.chunk()).await {
            Ok(Ok(piece)) => {
                self.started = true;
                Ok(piece)
            }
            Ok(Err(cause)) => Err(transport(cause, !self.started, &self.redactor)),
            Err(_) => Err(Error::Inactivity { after: self.inactivity, before_first_byte: !self.started }),
        }
    }

    /// Reads what is left, so that the connection can be used again, but not for longer than `patience`.
    pub(crate) async fn drain(mut self, patience: Duration) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        if tokio::time::timeout(patience, rest).await.is_err() {
            tracing::debug!("the provider kept its answer open after the terminal event");
        }
    }

    /// The error behind a body that is not the answer that was asked for.
    pub(crate) fn broken(&self, broken: BodyError) -> Error {
        match broken {
            BodyError::Provider(object) => classify_in_stream(self.failure(&object)),
            BodyError::Malformed { reason, text } => {
                Error::Malformed { reason: self.redactor.clean(&reason), http: Box::new(self.failure(&text)) }
            }
            BodyError::Incomplete { reason } => Error::Incomplete { reason },
        }
    }

    fn failure(&self, body: &str) -> HttpFailure {
        // Cleaned before it is cut: half a key would not be found.
        let mut body = self.redactor.clean(body);
        body.truncate(body.floor_char_boundary(BODY_LIMIT));
        HttpFailure { status: self.status, headers: self.headers.clone(), body, url: self.place.clone() }
    }

    /// The provider is somewhere else. It is not followed: keys and the conversation were meant for the first address.
    fn redirected(&self) -> Error {
        let target = self.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = target.and_then(|target| self.response.url().join(target).ok());
        let target = target.map_or_else(|| "another address".to_owned(), |target| address(&target));
        configuration(format!(
            "{} sends requests on to {target}; if you trust that address, make it the provider's `baseURL`",
            self.place
        ))
    }

    /// Reads the body of an error answer. If no body comes, the status is still reported.
    async fn into_error(mut self) -> Error {
        let mut body = Vec::new();
        let read = async {
            while body.len() < BODY_LIMIT + SLACK {
                match self.response.chunk().await {
                    Ok(Some(piece)) => body.extend_from_slice(&piece),
                    Ok(None) | Err(_) => break,
                }
            }
        };
        if tokio::time::timeout(ERROR_BODY.min(self.inactivity), read).await.is_err() {
            tracing::debug!("the body of an error answer did not end in time");
        }
        classify(self.failure(&String::from_utf8_lossy(&body)))
    }
}

/// The client for a route, built on first use.
fn client_for(url: &Url) -> Result<&'static Client, Error> {
    static PLAIN: OnceLock<Client> = OnceLock::new();
    static PLAIN_LOCAL: OnceLock<Client> = OnceLock::new();
    static SECURE: OnceLock<Client> = OnceLock::new();
    static SECURE_LOCAL: OnceLock<Client> = OnceLock::new();
    let local = is_loopback(url);
    let secure = url.scheme() == "https";
    let slot = match (secure, local) {
        (false, false) => &PLAIN,
        (false, true) => &PLAIN_LOCAL,
        (true, false) => &SECURE,
        (true, true) => &SECURE_LOCAL,
    };
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    install_tls();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(Policy::none())
        .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")));
    if !secure {
        builder = builder.tls_certs_only([]);
    }
    if local {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|cause| configuration(chain(&cause)))?;
    Ok(slot.get_or_init(|| client))
}

/// Makes ring the process's TLS provider unless somebody chose one already.
fn install_tls() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is installed already");
        }
    });
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Where a request went, without the parts of an address that may be credentials.
fn address(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let bad = || configuration(format!("header {name:?} has a name or value that HTTP does not allow"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

fn readable_headers(headers: &HeaderMap, redactor: &Redactor) -> BTreeMap<String, String> {
    let readable = headers.iter().filter(|(name, _)| !name.as_str().contains("cookie"));
    readable
        .map(|(name, value)| {
            (name.as_str().to_owned(), redactor.clean(&String::from_utf8_lossy(value.as_bytes())))
        })
        .collect()
}

fn configuration(reason: String) -> Error {
    Error::Configuration { reason }
}

fn transport(cause: reqwest::Error, before_first_byte: bool, redactor: &Redactor) -> Error {
    let cause = cause.without_url();
    let message = redactor.clean(&chain(&cause));
    Error::Transport { before_first_byte, message, source: Some(BoxedSource::from(cause)) }
}

/// An error and its causes on one line: reqwest keeps the useful part at the bottom.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses() {
        for url in ["http://127.0.0.1:1/v1", "http://localhost/", "https://[::1]:8/", "http://a.localhost"] {
            assert!(is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://api.example.com/", "http://localhost.example.com/"] {
            assert!(!is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
    }

    #[test]
    fn addresses_lose_query_and_user() {
        let url = Url::parse("https://me:pw@example.com:8443/v1/x?key=abc").unwrap();
        assert_eq!(address(&url), "https://example.com:8443/v1/x");
    }

    #[test]
    fn every_route_has_a_client_without_a_provider_installed() {
        for url in ["http://example.com", "http://127.0.0.1", "https://example.com", "https://localhost"] {
            let url = Url::parse(url).unwrap();
            // A host without certificates refuses the secure routes, but never by a panic.
            let built = client_for(&url);
            assert!(built.is_ok() || url.scheme() == "https");
        }
    }
}
