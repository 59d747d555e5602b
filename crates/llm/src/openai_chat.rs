//! OpenAI Chat Completions, and the many servers that speak it.
//!
//! One model call is an `Exchange`: it sends the request when first polled, feeds the body piece by piece to the
//! SSE decoder and each frame to the protocol's decoder, and hands out events as they come. A server that answers
//! a streaming request with one JSON object is understood as well.

mod calls;
mod decode;
mod request;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream;

use crate::http::{Answer, Post};
use crate::secret::Redactor;
use crate::{Error, Event, EventStream, Provider, Request, Secret, sse};
use decode::{Decoder, Fault, Progress};

/// How long the end of the body may take after the terminal event.
const DRAIN: Duration = Duration::from_millis(250);

/// The largest answer taken as one JSON object.
const JSON_LIMIT: usize = 32 * 1024 * 1024;

/// The longest silence allowed unless configured otherwise: slow reasoning models think for minutes.
pub const DEFAULT_INACTIVITY: Duration = Duration::from_secs(300);

/// Which additions to the protocol the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's own service.
    OpenAi,
    /// Any other server: only fields that all of them accept.
    Compatible,
}

/// Where the server is and how to talk to it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address up to and including the version, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key for the `authorization` header.
    pub api_key: Option<Secret>,
    /// Further headers for every request.
    pub headers: Vec<(String, Secret)>,
    /// Query parameters for every request.
    pub query: Vec<(String, Secret)>,
    /// The longest silence allowed.
    pub inactivity: Duration,
    /// Which additions the server knows.
    pub dialect: Dialect,
}

impl Config {
    /// A server at `base_url`; the dialect follows from the host.
    pub fn new(base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let openai = base_url.starts_with("https://api.openai.com/");
        Self {
            base_url,
            api_key: None,
            headers: Vec::new(),
            query: Vec::new(),
            inactivity: DEFAULT_INACTIVITY,
            dialect: if openai { Dialect::OpenAi } else { Dialect::Compatible },
        }
    }

    /// With a key for the `authorization` header.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<Secret>) -> Self {
        self.api_key = Some(key.into());
        self
    }
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    config: Config,
}

impl OpenAiChat {
    /// A provider for the server in `config`. Nothing is checked or connected yet.
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    fn post(&self, request: &Request) -> Post {
        let config = &self.config;
        let mut headers: Vec<(String, String)> = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "text/event-stream".to_owned()),
        ];
        if let Some(key) = &config.api_key {
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.reveal())));
        }
        headers.extend(config.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())));
        headers.extend(request.headers.iter().cloned());
        let mut redactor = Redactor::default();
        for (name, value) in &headers {
            redactor.hide_header(name, value);
        }
        for (_, value) in &config.query {
            redactor.hide(value.reveal());
        }
        Post {
            url: self.url(),
            headers,
            body: request::body(request, config.dialect).to_string().into_bytes(),
            inactivity: config.inactivity,
            redactor,
        }
    }

    fn url(&self) -> String {
        let url = format!("{}/chat/completions", self.config.base_url.trim_end_matches('/'));
        let query = self.config.query.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        if self.config.query.is_empty() {
            return url;
        }
        match reqwest::Url::parse_with_params(&url, query) {
            Ok(full) => full.into(),
            Err(_) => url,
        }
    }
}

impl Provider for OpenAiChat {
    fn stream(&self, request: Request) -> EventStream {
        let exchange = Exchange {
            phase: Phase::Unsent(Box::new(self.post(&request))),
            decoder: Decoder::new(fresh_call_prefix()),
            ready: VecDeque::new(),
        };
        Box::pin(stream::unfold(exchange, |mut exchange| async move {
            exchange.next().await.map(|item| (item, exchange))
        }))
    }
}

/// Prefix for the ids of tool calls that came without one; unique, since ids meet again in the history.
fn fresh_call_prefix() -> String {
    match getrandom::u64() {
        Ok(number) => format!("call_{number:016x}"),
        Err(_) => "call".to_owned(),
    }
}

struct Exchange {
    phase: Phase,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

enum Phase {
    Unsent(Box<Post>),
    Reading(Box<Answer>, Body),
    Draining(Box<Answer>),
    Ended,
}

/// How the body is to be understood.
enum Body {
    /// Not known yet: nothing but white space so far.
    Unknown,
    Events(Box<sse::Decoder>),
    Json(Vec<u8>),
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ended => return None,
                Phase::Unsent(post) => self.open(*post).await,
                Phase::Reading(answer, body) => self.read(answer, body).await,
                Phase::Draining(answer) => {
                    answer.drain(DRAIN).await;
                    self.ready.push_back(Event::Finish);
                    Ok(Phase::Ended)
                }
            };
            match step {
                Ok(phase) => self.phase = phase,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn open(&mut self, post: Post) -> Result<Phase, Error> {
        let answer = post.send().await?;
        self.ready.push_back(Event::Start);
        let body = match answer.media_type().as_str() {
            "text/event-stream" => Body::Events(Box::default()),
            media if media.ends_with("json") => Body::Json(Vec::new()),
            _ => Body::Unknown,
        };
        Ok(Phase::Reading(Box::new(answer), body))
    }

    /// Makes one step: takes one frame that is there, or else reads one piece of the body.
    async fn read(&mut self, mut answer: Box<Answer>, mut body: Body) -> Result<Phase, Error> {
        if let Body::Events(events) = &mut body
            && let Some(frame) = events.pop()
        {
            return match self.accept(&answer, &frame.data)? {
                Progress::More => Ok(Phase::Reading(answer, body)),
                Progress::Done => {
                    self.end()?;
                    Ok(Phase::Draining(answer))
                }
            };
        }
        let Some(piece) = answer.chunk().await? else {
            self.end_of_body(&answer, body)?;
            self.ready.push_back(Event::Finish);
            return Ok(Phase::Ended);
        };
        if matches!(body, Body::Unknown) {
            body = recognise(&answer, &piece)?;
        }
        match &mut body {
            Body::Unknown => {}
            Body::Events(events) => {
                events.push(&piece).map_err(|cause| answer.malformed(cause.to_string(), ""))?;
            }
            Body::Json(bytes) => {
                bytes.extend_from_slice(&piece);
                if bytes.len() > JSON_LIMIT {
                    return Err(answer.malformed("the JSON answer is too large", ""));
                }
            }
        }
        Ok(Phase::Reading(answer, body))
    }

    fn end_of_body(&mut self, answer: &Answer, body: Body) -> Result<(), Error> {
        match body {
            Body::Unknown => {}
            Body::Events(mut events) => {
                // A last frame without its blank line may itself be cut short; then the answer is incomplete.
                if let Some(frame) = events.finish().filter(|frame| decode::is_whole(&frame.data)) {
                    self.accept(answer, &frame.data)?;
                }
            }
            Body::Json(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if !text.trim().is_empty() {
                    self.accept(answer, &text)?;
                }
                if !self.decoder.is_recognised() {
                    return Err(answer.malformed("the JSON answer is no chat completion", &text));
                }
            }
        }
        self.end()
    }

    fn accept(&mut self, answer: &Answer, data: &str) -> Result<Progress, Error> {
        self.decoder.accept(data, &mut self.ready).map_err(|fault| match fault {
            Fault::Provider(object) => answer.in_stream_error(&object),
            Fault::Malformed(reason) => answer.malformed(reason, data),
        })
    }

    fn end(&mut self) -> Result<(), Error> {
        self.decoder.end(&mut self.ready).map_err(|reason| Error::Incomplete { reason })
    }
}

/// Tells events from a JSON object by the first character, for servers that do not label their answer.
fn recognise(answer: &Answer, piece: &[u8]) -> Result<Body, Error> {
    match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Ok(Body::Unknown),
        Some(b'{' | b'[') => Ok(Body::Json(Vec::new())),
        // A field name, a comment or a byte order mark.
        Some(b'd' | b'e' | b'i' | b'r' | b':' | 0xef) => Ok(Body::Events(Box::default())),
        Some(_) => {
            let media = answer.media_type();
            let kind = if media.is_empty() { "an unlabelled text" } else { media.as_str() };
            Err(answer
                .malformed(format!("expected events, received {kind}"), &String::from_utf8_lossy(piece)))
        }
    }
}
