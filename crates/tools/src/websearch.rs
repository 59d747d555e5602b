//! The `websearch` tool: asks a search service that a person has configured, and shows what it found.
//!
//! There is no service that works for everybody, so the tool exists only where one is configured: Exa with a key, or
//! an instance of SearXNG by its address. The key is kept out of every text.

use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT};
use reqwest::{RequestBuilder, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::web::{self, BodyRefusal, Excess, WebAccess};

/// Results shown unless the call asks for fewer or more.
const RESULTS: usize = 8;
/// The most results a call may ask for.
const RESULTS_MAX: usize = 20;
/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(25);
/// Bytes of the largest answer.
const ANSWER_MAX: usize = 256 * 1024;
/// Characters of text over all results: what is shown fits into the limits of an output.
const TEXT_CHARS: usize = 40_000;
/// Characters of a title or of what a service says about an error.
const SHORT_CHARS: usize = 500;
/// The longest query, in characters.
const QUERY_MAX: usize = 2000;
/// Where Exa is.
const EXA: &str = "https://api.exa.ai";
/// The environment variable that holds the key of Exa.
pub const EXA_KEY: &str = "EXA_API_KEY";

/// A search service.
#[derive(Clone, PartialEq, Eq)]
pub enum SearchService {
    /// Exa's interface, with a key.
    Exa {
        /// The key.
        key: String,
        /// Where it is.
        url: Url,
    },
    /// An instance of SearXNG that answers in JSON.
    Searxng {
        /// Where it is.
        url: Url,
    },
}

impl fmt::Debug for SearchService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exa { url, .. } => write!(f, "Exa({})", url.host_str().unwrap_or_default()),
            Self::Searxng { url } => write!(f, "Searxng({})", url.host_str().unwrap_or_default()),
        }
    }
}

/// What is wrong with the configuration of a search service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("websearch: {0}")]
pub struct SearchConfigError(String);

#[derive(Debug, Deserialize)]
struct SearchConfig {
    provider: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    key: Option<String>,
}

impl SearchService {
    /// The service that a configuration names in `websearch`, or Exa if the environment holds its key. `false` means
    /// none, whatever the environment holds.
    pub fn from_config(
        config: &Value,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SearchConfigError> {
        let key = env(EXA_KEY).filter(|key| !key.trim().is_empty());
        let given = match config.get("websearch") {
            Some(Value::Bool(false)) => return Ok(None),
            None | Some(Value::Null) => match key {
                Some(key) => return Ok(Some(Self::Exa { key: key.trim().to_owned(), url: address(EXA)? })),
                None => return Ok(None),
            },
            Some(given) => given,
        };
        // What serde says about a wrong value quotes it, and it may be a key.
        let config = SearchConfig::deserialize(given).map_err(|_| {
            SearchConfigError(
                "expected {\"provider\": \"exa\" or \"searxng\", \"url\": text, \"key\": text}".to_owned(),
            )
        })?;
        match config.provider.as_str() {
            "exa" => {
                // The key of the environment is for the service itself: a project's configuration that names another
                // address must not get it.
                let own = key.filter(|_| config.url.is_none());
                let key = config.key.filter(|key| !key.trim().is_empty()).or(own);
                let key =
                    key.ok_or_else(|| SearchConfigError(format!("exa needs a key: set `key` or {EXA_KEY}")))?;
                let url = address(config.url.as_deref().unwrap_or(EXA))?;
                Ok(Some(Self::Exa { key: key.trim().to_owned(), url }))
            }
            "searxng" => {
                let url = config
                    .url
                    .ok_or_else(|| SearchConfigError("searxng needs the `url` of an instance".to_owned()))?;
                Ok(Some(Self::Searxng { url: address(&url)? }))
            }
            other => Err(SearchConfigError(format!(
                "there is no provider {other:?}; known are \"exa\" and \"searxng\""
            ))),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Exa { .. } => "Exa",
            Self::Searxng { .. } => "SearXNG",
        }
    }

    /// The text without the key, should somebody have put it there.
    fn redact(&self, text: &str) -> String {
        match self {
            Self::Exa { key, .. } if !key.is_empty() => text.replace(key.as_str(), "***"),
            _ => text.to_owned(),
        }
    }

    /// The place where it takes queries.
    fn endpoint(&self) -> Url {
        let (Self::Exa { url, .. } | Self::Searxng { url }) = self;
        let mut url = url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("search");
        }
        url
    }

    fn request(&self, web: &WebAccess, query: &str, results: usize) -> Result<RequestBuilder, Failure> {
        let mut url = self.endpoint();
        let client = web.trusted(&url)?;
        let request = match self {
            Self::Exa { key, .. } => {
                let mut key = HeaderValue::from_str(key).map_err(|_| {
                    Failure::Failed(
                        "The key of the search service has characters that no key has.".to_owned(),
                    )
                })?;
                key.set_sensitive(true);
                let body = json!({
                    "query": query,
                    "numResults": results,
                    "contents": { "text": { "maxCharacters": TEXT_CHARS / results } },
                });
                client
                    .post(url)
                    .header("x-api-key", key)
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.to_string())
            }
            Self::Searxng { .. } => {
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                client.get(url)
            }
        };
        Ok(request
            .header(USER_AGENT, concat!("everturn/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity"))
    }
}

fn address(text: &str) -> Result<Url, SearchConfigError> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => {
            Err(SearchConfigError("`url` must be an address that begins with http:// or https://".to_owned()))
        }
    }
}

/// The tool that searches the web.
#[derive(Debug, Clone)]
pub struct WebsearchTool {
    provider: SearchService,
    web: WebAccess,
    /// How long a search may take.
    pub patience: Duration,
}

impl WebsearchTool {
    /// The tool for a service.
    #[must_use]
    pub fn new(provider: SearchService) -> Self {
        Self { provider, web: WebAccess::default(), patience: PATIENCE }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsearchInput {
    /// What to look for
    query: String,
    /// How many results to show (default 8)
    #[schemars(range(min = 1, max = RESULTS_MAX))]
    #[serde(default)]
    num_results: Option<usize>,
}

impl WebsearchInput {
    fn parse(input: Value) -> Result<Self, Failure> {
        let input: Self = decode("websearch", input)?;
        if input.query.trim().is_empty() || input.query.chars().nth(QUERY_MAX).is_some() {
            return Err(Failure::InvalidInput(format!(
                "query must be a text of at most {QUERY_MAX} characters."
            )));
        }
        match input.num_results {
            Some(0) => Err(Failure::InvalidInput("numResults must be at least 1.".to_owned())),
            Some(many) if many > RESULTS_MAX => {
                Err(Failure::InvalidInput(format!("numResults may be {RESULTS_MAX} at most.")))
            }
            _ => Ok(input),
        }
    }
}

impl Tool for WebsearchTool {
    fn name(&self) -> &'static str {
        "websearch"
    }

    fn description(&self) -> &'static str {
        "Searches the web, and shows title, address and text of what was found, 8 results unless `numResults` says \
         otherwise. Use it for what is newer than your knowledge or missing from it; read a whole page with \
         `webfetch`."
    }

    fn schema(&self) -> Value {
        schema::<WebsearchInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        let input = WebsearchInput::parse(input.clone())?;
        let mut metadata = Map::new();
        metadata.insert("query".to_owned(), json!(input.query));
        metadata.insert("numResults".to_owned(), json!(input.num_results.unwrap_or(RESULTS)));
        metadata.insert("provider".to_owned(), json!(self.provider.name()));
        Ok(vec![Need {
            permission: "websearch".to_owned(),
            patterns: vec![input.query],
            always: vec!["*".to_owned()],
            metadata,
        }])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input = WebsearchInput::parse(input)?;
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err(Failure::Cancelled),
                ended = tokio::time::timeout(self.patience, self.ask(input)) => ended.unwrap_or_else(|_| {
                    Err(Failure::Failed(format!(
                        "{} did not answer within {} s. Try again later, or go on without it.",
                        self.provider.name(),
                        self.patience.as_secs_f64()
                    )))
                }),
            }
        })
    }
}

/// The part of an answer that is looked at; the services call the text by different names.
#[derive(Debug, Deserialize)]
struct SearchAnswer {
    results: Vec<SearchResult>,
}

#[derive(Debug, Deserialize)]
struct SearchResult {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, alias = "content")]
    text: Option<String>,
}

impl WebsearchTool {
    async fn ask(&self, input: WebsearchInput) -> Result<Output, Failure> {
        let wanted = input.num_results.unwrap_or(RESULTS);
        let name = self.provider.name();
        let request = self.provider.request(&self.web, input.query.trim(), wanted)?;
        let fail = |text: String| Failure::Failed(self.provider.redact(&text));
        let mut response = request
            .send()
            .await
            .map_err(|error| fail(format!("{name} could not be asked: {}.", web::explain(error))))?;
        let status = response.status();
        let excess = if status.is_success() { Excess::Refuse } else { Excess::Cut };
        let body = web::body(&mut response, ANSWER_MAX, excess).await;
        if !status.is_success() {
            return Err(fail(self.refusal(status, &body.unwrap_or_default())));
        }
        let body = body.map_err(|refused| {
            fail(match refused {
                BodyRefusal::TooLarge => {
                    format!("The answer of {name} has more than {ANSWER_MAX} bytes. Ask for fewer results.")
                }
                BodyRefusal::Encoded(coding) => {
                    format!("The answer of {name} is compressed ({coding}) unasked.")
                }
                BodyRefusal::Broken(reason) => format!("The answer of {name} broke off: {reason}."),
            })
        })?;
        let answer: SearchAnswer = serde_json::from_slice(&body)
            .map_err(|error| fail(format!("The answer of {name} is not what was expected: {error}.")))?;
        Ok(self.output(input.query, answer.results, wanted))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> String {
        // Cleaned before it is cut: half a key would not be found.
        let said = self.provider.redact(&String::from_utf8_lossy(body));
        let said: String = said.trim().chars().take(SHORT_CHARS).collect();
        let advice = match (&self.provider, status.as_u16()) {
            (SearchService::Exa { .. }, 401 | 403) => " Tell the person to check the service's key.",
            (SearchService::Searxng { .. }, 403) => {
                " The instance may not answer in JSON: its setting `search.formats` must list it."
            }
            (_, 429) => " Too many searches: wait before the next one.",
            _ => "",
        };
        let gap = if said.is_empty() { "" } else { "\n\n" };
        format!("{} answered {status}.{advice}{gap}{said}", self.provider.name())
    }

    fn output(&self, query: String, found: Vec<SearchResult>, wanted: usize) -> Output {
        let one_line = |text: Option<String>| -> String {
            let text = text.unwrap_or_default();
            text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHORT_CHARS).collect()
        };
        let mut results = Vec::new();
        for found in found.into_iter().filter(|found| found.url.is_some()).take(wanted) {
            let title = one_line(found.title);
            let title = if title.is_empty() { "(no title)" } else { &title };
            let text: String =
                found.text.unwrap_or_default().trim().chars().take(TEXT_CHARS / wanted).collect();
            let gap = if text.is_empty() { "" } else { "\n" };
            results.push(format!(
                "{}. {title}\n{}{gap}{text}",
                results.len() + 1,
                one_line(found.url.map(|url| url.chars().take(QUERY_MAX).collect()))
            ));
        }
        let text = if results.is_empty() { "No results found".to_owned() } else { results.join("\n\n") };
        let mut metadata = Map::new();
        metadata.insert("provider".to_owned(), json!(self.provider.name()));
        metadata.insert("count".to_owned(), json!(results.len()));
        Output { title: query, output: self.provider.redact(&text), metadata, ..Output::default() }
    }
}
