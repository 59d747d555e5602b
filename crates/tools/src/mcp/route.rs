//! Requests to an address: clients, headers, redirects and answers that are not a success.
//!
//! As for models, a loopback address is never reached through a proxy and a plain `http` one needs no certificates. A
//! redirect is followed only to the same origin: headers and arguments were meant for the configured one.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::time::timeout;

use super::{McpError, readable};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(15);

/// How many redirects of the same origin are followed.
const REDIRECTS: usize = 3;

/// How much of the body of an error is read, and for how long.
const ERROR_BODY: usize = 2048;
const ERROR_TIME: Duration = Duration::from_secs(5);

/// One address with its headers.
#[derive(Debug)]
pub(super) struct Route {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Route {
    pub(super) fn new(url: &str, headers: &BTreeMap<String, String>) -> Result<Self, McpError> {
        let url =
            Url::parse(url).map_err(|error| McpError::Configuration(format!("the address: {error}")))?;
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let bad = || McpError::Configuration(format!("HTTP allows no header {name:?} with such a value"));
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(Self { client: client(&url)?, url, headers: map })
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        method: Method,
        own: &HeaderMap,
        body: Option<String>,
    ) -> Result<Response, McpError> {
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTS {
            let mut headers = self.headers.clone();
            // What the protocol needs is not for the configuration to change.
            headers.extend(own.clone());
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers);
            if let Some(body) = &body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            let response = request.send().await.map_err(unreachable)?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let target = target.and_then(|target| url.join(target).ok());
            let kept =
                matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            match target {
                Some(target) if kept && target.origin() == url.origin() => url = target,
                Some(target) => {
                    return Err(McpError::Configuration(format!(
                        "{} sends requests on to {}; if you trust that address, make it the server's `url`",
                        place(&url),
                        place(&target)
                    )));
                }
                None => break,
            }
        }
        Err(McpError::Configuration(format!("{} sends requests in circles", place(&url))))
    }
}

/// What an answer that is not a success means. `session` says whether the request named one.
pub(super) async fn refusal(mut response: Response, session: bool) -> McpError {
    let status = response.status();
    let challenge = response.headers().get(WWW_AUTHENTICATE).is_some();
    let mut body = Vec::new();
    let reading = async {
        while body.len() < ERROR_BODY
            && let Ok(Some(piece)) = response.chunk().await
        {
            body.extend_from_slice(&piece);
        }
    };
    timeout(ERROR_TIME, reading).await.ok();
    let text = readable(String::from_utf8_lossy(&body).trim(), ERROR_BODY);
    // The reference server answers 400 where the specification says 404.
    let forgotten = status == StatusCode::NOT_FOUND
        || (status == StatusCode::BAD_REQUEST && text.to_ascii_lowercase().contains("session"));
    match status {
        StatusCode::UNAUTHORIZED => McpError::NeedsAuth(
            if challenge {
                "the server wants a login, which Everturn cannot do yet: put a token into the server's `headers`"
            } else {
                "the server does not know who is calling: put a token into the server's `headers`"
            }
            .to_owned(),
        ),
        _ if session && forgotten => McpError::SessionLost,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => McpError::Configuration(format!(
            "there is no streamable HTTP at that address ({status}); the older HTTP+SSE transport is not supported"
        )),
        _ => McpError::Refused {
            code: i64::from(status.as_u16()),
            message: if text.is_empty() { status.to_string() } else { text },
        },
    }
}

/// What is wanted of an answer.
pub(super) fn accept(what: &'static str) -> HeaderMap {
    [(ACCEPT, HeaderValue::from_static(what))].into_iter().collect()
}

/// A failure to send or to read.
fn unreachable(error: reqwest::Error) -> McpError {
    let error = error.without_url();
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    McpError::Closed(format!("the server cannot be reached: {text}"))
}

/// An address without the parts that may be credentials.
fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn client(url: &Url) -> Result<Client, McpError> {
    static TLS: OnceLock<()> = OnceLock::new();
    TLS.get_or_init(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is installed already");
        }
    });
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(Policy::none())
        .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")));
    if url.scheme() != "https" {
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| McpError::Configuration(format!("no HTTP client: {error}")))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
