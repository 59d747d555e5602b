//! Where a provider is and what every request to it carries, whatever protocol it speaks.

use std::time::Duration;

use crate::http::HttpPost;
use crate::secret::Redactor;
use crate::{PreparedRequest, Secret};

/// The longest silence allowed unless configured otherwise: slow reasoning models think for minutes.
pub const DEFAULT_INACTIVITY: Duration = Duration::from_secs(300);

/// Where a provider is, and how to authenticate.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address up to and including the version, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key. Each protocol has its own header for it.
    pub api_key: Option<Secret>,
    /// Further headers for every request; they win over those of the protocol.
    pub headers: Vec<(String, Secret)>,
    /// Query parameters for every request.
    pub query: Vec<(String, Secret)>,
    /// The longest silence allowed.
    pub inactivity: Duration,
}

impl Endpoint {
    /// A server at `base_url`, without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            query: Vec::new(),
            inactivity: DEFAULT_INACTIVITY,
        }
    }

    /// With a key.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<Secret>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// A request to this server. Headers of the request itself win over all others.
    pub(crate) fn post(&self, prepared: &PreparedRequest) -> HttpPost {
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "text/event-stream".to_owned()),
        ];
        headers.extend(prepared.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())));
        headers.extend(prepared.request.headers.iter().cloned());
        let mut redactor = Redactor::default();
        for (name, value) in &headers {
            redactor.hide_header(name, value);
        }
        for value in self.api_key.iter().chain(self.query.iter().map(|(_, value)| value)) {
            redactor.hide(value.reveal());
        }
        // Gateways have headers of their own for keys, under any name.
        for (_, value) in self.headers.iter().filter(|(name, _)| !is_harmless(name)) {
            redactor.hide(value.reveal());
        }
        let body = prepared.body().clone();
        HttpPost { url: self.url(&prepared.path), headers, body, inactivity: self.inactivity, redactor }
    }

    fn url(&self, path: &str) -> String {
        let url = format!("{}/{path}", self.base_url.trim_end_matches('/'));
        let query = self.query.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        if self.query.is_empty() {
            return url;
        }
        match reqwest::Url::parse_with_params(&url, query) {
            Ok(full) => full.into(),
            Err(_) => url,
        }
    }
}

/// Whether a header is known to hold no key, and may well hold words that errors use.
fn is_harmless(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "http-referer",
        "referer",
        "user-agent",
        "x-title",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// One call as a protocol writes it.
#[derive(Debug)]
pub(crate) struct OutgoingCall {
    /// The address behind the base, without a slash in front.
    pub(crate) path: String,
    /// The protocol's own headers, the one with the key among them.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body.
    pub(crate) body: serde_json::Value,
}
