//! Every way a call can fail, over real connections.

use std::time::Duration;

use everturn_llm::{Endpoint, OpenAiChat};
use everturn_llm::{Error, StreamEvent};

use crate::canned::{Act, Canned, answer, collect};

const SSE: &str = "content-type: text/event-stream\r\n";
const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";

async fn fail(acts: Vec<Act>) -> (Vec<StreamEvent>, Error) {
    let (events, error) = Canned::start(acts).await.ask().await;
    (events, error.expect("the call fails"))
}

#[tokio::test]
async fn refused_with_a_status() {
    let body = r#"{"error":{"message":"fake error","type":"fake","code":"503"}}"#;
    let headers = "content-type: application/json\r\nset-cookie: a=b\r\nretry-after: 3\r\n";
    let (events, error) = fail(answer("503 Service Unavailable", headers, body)).await;
    assert!(events.is_empty());
    assert!(matches!(error, Error::Overloaded { .. }), "{error:?}");
    assert!(error.retryable());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(error.provider_message(), "fake error");
    assert_eq!(error.to_string(), "the provider is overloaded: fake error (HTTP 503)");
    let http = error.http().unwrap();
    assert_eq!((http.status, http.body.as_str()), (503, body));
    assert!(http.url.ends_with("/v1/chat/completions"), "{}", http.url);
    assert_eq!(http.headers.get("retry-after").map(String::as_str), Some("3"));
    assert!(!http.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn kinds_by_status() {
    let (_, error) = fail(answer("429 Too Many Requests", "retry-after-ms: 250\r\n", "{}")).await;
    assert!(matches!(error, Error::RateLimit { retry_after: Some(pause), .. } if pause.as_millis() == 250));
    let (_, error) = fail(answer("400 Bad Request", "", r#"{"error":"context length exceeded"}"#)).await;
    assert!(matches!(error, Error::ContextOverflow { .. }), "{error:?}");
    let (_, error) = fail(answer("404 Not Found", "", "")).await;
    assert!(matches!(error, Error::InvalidRequest { .. }) && !error.retryable(), "{error:?}");
    let (_, error) = fail(answer("502 Bad Gateway", "", "<html></html>")).await;
    assert!(matches!(error, Error::Server { .. }) && error.retryable(), "{error:?}");
    assert_eq!(error.provider_message(), "Bad Gateway");
}

#[tokio::test]
async fn an_echoed_key_is_not_repeated() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-test-1234567"}}"#;
    let (_, error) = fail(answer("401 Unauthorized", "x-echo: sk-test-1234567\r\n", body)).await;
    assert!(matches!(error, Error::Authentication { .. }));
    for text in [error.to_string(), format!("{error:?}"), error.provider_message()] {
        assert!(!text.contains("1234567"), "{text}");
    }
    assert_eq!(error.provider_message(), "Incorrect API key provided: [redacted]");
    let provider = OpenAiChat::new(Endpoint::new("http://localhost").with_api_key("sk-test-1234567"));
    assert!(!format!("{provider:?}").contains("1234567"));
}

#[tokio::test]
async fn a_key_in_any_header_or_at_the_cut_is_not_repeated() {
    let padding = "x".repeat(64 * 1024 - 8);
    let body = format!("{{\"error\":\"gate-7654321 {padding} sk-test-1234567\"}}");
    let server = Canned::start(answer("400 Bad Request", "", &body)).await;
    let mut endpoint = Endpoint::new(&server.base_url).with_api_key("sk-test-1234567");
    endpoint.headers.push(("x-gateway".into(), "gate-7654321".into()));
    let (_, error) = collect(&OpenAiChat::new(endpoint)).await;
    let text = format!("{:?}", error.expect("the call fails"));
    assert!(!text.contains("gate-7") && !text.contains("sk-test"), "{}", text.len());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    // Followed, the key, the other headers and the conversation would go to whoever the first server names.
    let other = Canned::start(answer("200 OK", SSE, HELLO)).await;
    for status in ["307 Temporary Redirect", "301 Moved Permanently", "308 Permanent Redirect"] {
        let target = format!("location: {}stolen?key=1\r\n", other.base_url);
        let (_, error) = fail(answer(status, &target, "")).await;
        let Error::Configuration { reason } = error else { panic!("{error:?}") };
        assert!(reason.contains(&format!("sends requests on to {}stolen;", other.base_url)), "{reason}");
    }
    assert_eq!(other.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn an_error_inside_the_stream() {
    let body = format!("{HELLO}data: {{\"error\":{{\"code\":429,\"message\":\"slow down\"}}}}\n\n");
    let (events, error) = fail(answer("200 OK", SSE, &body)).await;
    assert_eq!(events.len(), 3, "start, text start and text delta come first: {events:?}");
    assert!(matches!(error, Error::RateLimit { .. }), "{error:?}");
    assert_eq!(error.provider_message(), "slow down");
    assert_eq!(error.http().unwrap().status, 429);
}

#[tokio::test]
async fn answers_that_are_not_in_the_protocol() {
    for (headers, body) in [
        ("content-type: text/html\r\n", "<html>log in here</html>"),
        (SSE, "data: {oops\n\n"),
        ("content-type: application/json\r\n", "{\"fine\":true}"),
        ("content-type: application/json\r\n", "{\"cut\":"),
    ] {
        let (_, error) = fail(answer("200 OK", headers, body)).await;
        assert!(matches!(error, Error::Malformed { .. }) && !error.retryable(), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_without_its_end() {
    for body in [HELLO, "", "data: {\"choices\":[{\"del"] {
        let (_, error) = fail(answer("200 OK", SSE, body)).await;
        assert!(matches!(error, Error::Incomplete { .. }) && error.retryable(), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn broken_connections() {
    let chunked = format!("HTTP/1.1 200 OK\r\n{SSE}content-length: 9999\r\n\r\n{HELLO}");
    let (events, error) = fail(vec![Act::Send(chunked)]).await;
    assert_eq!(events.len(), 3);
    assert!(matches!(error, Error::Transport { before_first_byte: false, .. }), "{error:?}");

    let (events, error) = fail(vec![]).await;
    assert!(events.is_empty());
    assert!(
        matches!(error, Error::Transport { before_first_byte: true, .. }) && error.retryable(),
        "{error:?}"
    );

    let gone = Canned::start(vec![]).await.base_url.clone();
    let (_, error) = collect(&OpenAiChat::new(Endpoint::new(gone))).await;
    assert!(matches!(error, Some(Error::Transport { before_first_byte: true, .. })), "{error:?}");
}

#[tokio::test]
async fn silence() {
    let head = format!("HTTP/1.1 200 OK\r\n{SSE}connection: close\r\n\r\n{HELLO}");
    for (acts, before) in [(vec![Act::Send(head), Act::Hang], false), (vec![Act::Hang], true)] {
        let server = Canned::start(acts).await;
        // Long enough for a busy machine to deliver the first bytes.
        let inactivity = Duration::from_secs(1);
        let provider = OpenAiChat::new(Endpoint { inactivity, ..Endpoint::new(&server.base_url) });
        let (_, error) = collect(&provider).await;
        let Some(Error::Inactivity { after, before_first_byte }) = error else { panic!("{error:?}") };
        assert_eq!((after, before_first_byte), (inactivity, before));
    }
}

#[tokio::test]
async fn unusable_configuration() {
    let provider = OpenAiChat::new(Endpoint::new("nowhere"));
    let (_, error) = collect(&provider).await;
    assert!(matches!(error, Some(Error::Configuration { .. })), "{error:?}");
    let provider = OpenAiChat::new(Endpoint::new("http://127.0.0.1:9").with_api_key("bad\nkey-secret"));
    let (_, error) = collect(&provider).await;
    let Some(Error::Configuration { reason }) = error else { panic!("{error:?}") };
    assert!(!reason.contains("key-secret"), "{reason}");
}
