//! The table of errors: every way a model call fails, over HTTP, in all protocols, and what its caller is told.
//!
//! A line of the table is a prompt to the scripted server and what becomes of it: the kind of the error, the status,
//! and how long the policy says to wait after the first try (`again at once`, `again after …`) or that asking again
//! does not help (`give up`). A pause that the provider asked for is marked as `advised`.

mod overflow;
mod pauses;
mod silence;
mod told;

use std::time::Duration;

use everturn_llm::retry::RetryPolicy;
use everturn_llm::{
    Anthropic, Content, Endpoint, Error, EventStream, Gemini, Message, ModelRequest, OpenAiChat,
    OpenAiResponses, Protocol, Provider,
};
use everturn_testkit::ModelServer;
use futures_util::StreamExt;

const PROTOCOLS: [Protocol; 4] =
    [Protocol::OpenAiChat, Protocol::OpenAiResponses, Protocol::Anthropic, Protocol::Gemini];

fn ask(base_url: String, protocol: Protocol, prompt: &str) -> EventStream {
    let endpoint = Endpoint::new(base_url).with_api_key("key-1234567");
    let provider: Box<dyn Provider> = match protocol {
        Protocol::OpenAiChat => Box::new(OpenAiChat::new(endpoint)),
        Protocol::OpenAiResponses => Box::new(OpenAiResponses::new(endpoint)),
        Protocol::Anthropic => Box::new(Anthropic::new(endpoint)),
        Protocol::Gemini => Box::new(Gemini::new(endpoint)),
        other => panic!("{other} is not spoken here"),
    };
    let messages = vec![Message::User(vec![Content::Text(prompt.into())])];
    provider.stream(ModelRequest { model: "fake-1".into(), messages, ..ModelRequest::default() })
}

/// The error that ends a call, after any number of events.
async fn failure(mut stream: EventStream) -> Error {
    loop {
        match stream.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return error;
            }
            None => panic!("the call does not fail"),
        }
    }
}

/// An error as a line of the table says it.
fn told(error: &Error) -> String {
    let kind = match error {
        Error::Authentication { .. } => "authentication",
        Error::RateLimit { .. } => "rate limit",
        Error::Overloaded { .. } => "overloaded",
        Error::ContextOverflow { .. } => "context overflow",
        Error::ContentFilter { .. } => "content filter",
        Error::InvalidRequest { .. } => "invalid request",
        Error::Quota { .. } => "quota",
        Error::Server { .. } => "server",
        Error::Transport { before_first_byte: true, .. } => "transport before the first byte",
        Error::Transport { before_first_byte: false, .. } => "transport after the first byte",
        Error::Malformed { .. } => "malformed",
        Error::Incomplete { .. } => "incomplete",
        Error::Inactivity { before_first_byte: true, .. } => "silence before the first byte",
        Error::Inactivity { before_first_byte: false, .. } => "silence after the first byte",
        Error::Configuration { .. } => "configuration",
    };
    let status = error.http().map(|http| format!(" {}", http.status)).unwrap_or_default();
    let pause = RetryPolicy::default().delay(1, error, 0.0);
    assert_eq!(pause.is_some(), error.retryable(), "the policy retries what can be retried: {error:?}");
    let again = match (pause, error.retry_after()) {
        (None, _) => "give up".to_owned(),
        (Some(pause), Some(advised)) => {
            assert_eq!(pause, advised, "advice wins: {error:?}");
            format!("again after {} as advised", seconds(pause))
        }
        (Some(pause), None) => format!("again after {}", seconds(pause)),
    };
    format!("{kind}{status}, {again}")
}

fn seconds(pause: Duration) -> String {
    format!("{} s", pause.as_secs_f64())
}

/// Holds lines of the table against what the server makes of their prompts.
async fn check(protocol: Protocol, lines: &[(&str, &str)]) {
    let server = ModelServer::start();
    for (prompt, expected) in lines {
        let error = failure(ask(server.base_url(), protocol, prompt)).await;
        assert_eq!(told(&error), *expected, "{protocol}: {prompt}: {error:?}");
    }
}
