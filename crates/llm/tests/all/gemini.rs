//! Gemini over real connections.

use everturn_llm::{Endpoint, Error, FinishReason, Gemini, StreamEvent, Usage};
use serde_json::Value;

use crate::canned::{Act, Canned, answer, collect};

const SSE: &str = "content-type: text/event-stream\r\n";
const JSON: &str = "content-type: application/json; charset=UTF-8\r\n";
const HELLO: &str = r#"{"candidates":[{"content":{"parts":[{"text":"hel"}],"role":"model"},"index":0}]}"#;
const REST: &str = r#"{"candidates":[{"content":{"parts":[{"text":"lo"}],"role":"model"},"finishReason":"STOP"}],
"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2,"totalTokenCount":7},"responseId":"r","modelVersion":"m"}"#;

async fn ask(acts: Vec<Act>) -> (Vec<StreamEvent>, Option<Error>, String) {
    let server = Canned::start(acts).await;
    let mut endpoint = Endpoint::new(&server.base_url).with_api_key("key-test-1234567");
    endpoint.query = vec![("trace".into(), "1".into())];
    let (events, error) = collect(&Gemini::new(endpoint)).await;
    (events, error, server.requests().concat())
}

fn hello() -> Vec<StreamEvent> {
    let id = || "text-0".to_owned();
    let metadata =
        serde_json::json!({"gemini": {"responseId": "r", "modelVersion": "m", "finishReason": "STOP"}});
    vec![
        StreamEvent::Start,
        StreamEvent::TextStart { id: id() },
        StreamEvent::TextDelta { id: id(), text: "hel".into() },
        StreamEvent::TextDelta { id: id(), text: "lo".into() },
        StreamEvent::TextEnd { id: id(), metadata: None },
        StreamEvent::StepFinish {
            reason: FinishReason::Stop,
            usage: Usage { input: 5, output: 2, total: Some(7), ..Usage::default() },
            metadata: Some(metadata),
        },
        StreamEvent::Finish,
    ]
}

#[tokio::test]
async fn a_streamed_answer_and_what_was_sent() {
    let body = format!("data: {HELLO}\r\n\r\ndata: {}\r\n\r\n", REST.replace('\n', ""));
    let (events, error, sent) = ask(answer("200 OK", SSE, &body)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, hello());

    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/models/m:streamGenerateContent?alt=sse&trace=1 HTTP/1.1"), "{head}");
    assert!(head.contains("x-goog-api-key: key-test-1234567"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["contents"][0]["parts"][0]["text"], "hi");
}

#[tokio::test]
async fn a_list_from_a_server_that_does_not_stream_events() {
    let (events, error, _) = ask(answer("200 OK", JSON, &format!("[{HELLO}\n,\n{REST}]"))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, hello());
}

#[tokio::test]
async fn a_body_that_ends_early_is_incomplete() {
    let (events, error, _) = ask(answer("200 OK", SSE, &format!("data: {HELLO}\r\n\r\n"))).await;
    assert!(matches!(error, Some(Error::Incomplete { .. })), "{error:?}");
    assert_eq!(events, hello()[..3]);
}

#[tokio::test]
async fn errors_come_as_objects_and_as_lists() {
    let too_long = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT",
        "message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}}"#;
    for body in [too_long.to_owned(), format!("[{too_long}]")] {
        let (_, error, _) = ask(answer("400 Bad Request", JSON, &body)).await;
        assert!(matches!(error, Some(Error::ContextOverflow { .. })), "{error:?}");
    }
    let busy = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    let (events, error, _) = ask(answer("200 OK", SSE, &format!("data: {HELLO}\n\ndata: {busy}\n\n"))).await;
    assert!(matches!(error, Some(Error::Overloaded { .. })), "{error:?}");
    assert_eq!(events, hello()[..3]);
}
