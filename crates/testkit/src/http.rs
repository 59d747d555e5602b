//! A small JSON client without proxies, and a reader of event streams.

mod events;

use std::sync::OnceLock;

pub use reqwest::Method;
use serde_json::Value;

pub use events::{EventReader, Received};

use crate::deadline::within;

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    headers: Vec<(String, String)>,
}

impl Client {
    /// A client of the server at `base`.
    ///
    /// # Panics
    ///
    /// When the HTTP client cannot be built.
    pub fn new(base: impl Into<String>) -> Self {
        static TLS: OnceLock<()> = OnceLock::new();
        // The client wants a TLS provider even for plain HTTP; another one being there already is fine.
        TLS.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("an HTTP client");
        Self { http, base: base.into().trim_end_matches('/').to_owned(), headers: Vec::new() }
    }

    /// Sends this header with every request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// `GET`.
    ///
    /// # Panics
    ///
    /// When no answer comes; so do the other verbs.
    pub async fn get(&self, path: &str) -> HttpReply {
        self.send(Method::GET, path, None).await
    }

    /// `POST` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> HttpReply {
        self.send(Method::POST, path, Some(body)).await
    }

    /// `PUT` with a JSON body.
    pub async fn put(&self, path: &str, body: &Value) -> HttpReply {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// `PATCH` with a JSON body.
    pub async fn patch(&self, path: &str, body: &Value) -> HttpReply {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// `DELETE`.
    pub async fn delete(&self, path: &str) -> HttpReply {
        self.send(Method::DELETE, path, None).await
    }

    /// Any request.
    ///
    /// # Panics
    ///
    /// When no answer comes.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> HttpReply {
        let what = format!("{method} {path}");
        within(&what, self.try_send(method, path, body))
            .await
            .unwrap_or_else(|cause| panic!("{what}: {}", chain(&cause)))
    }

    /// Any request to a server that may be gone.
    ///
    /// # Errors
    ///
    /// When the connection fails or breaks.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpReply, reqwest::Error> {
        let what = format!("{method} {path}");
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.text().await?;
        Ok(HttpReply { what, status, headers, body })
    }

    /// Opens an event stream; it is read in the background from now on.
    ///
    /// # Panics
    ///
    /// When the stream cannot be opened.
    pub async fn events(&self, path: &str) -> EventReader {
        EventReader::open(self.request(Method::GET, path), path).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, self.url(path));
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpReply {
    what: String,
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as text.
    pub body: String,
}

impl HttpReply {
    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|cause| panic!("{}: {cause} in {} {:?}", self.what, self.status, self.body))
    }

    /// This answer, if it is a success.
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{}: {} {}", self.what, self.status, self.body);
        self
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
