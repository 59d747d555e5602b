//! Anthropic Messages over a real connection.

use everturn_llm::{Anthropic, Endpoint, Error, FinishReason, StreamEvent, Usage};
use serde_json::Value;

use crate::canned::{Canned, answer, collect};

const SSE: &str = "content-type: text/event-stream; charset=utf-8\r\n";
const HELLO: &str = "event: message_start\n\
    data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n\
    event: content_block_start\n\
    data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\n\
    data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
const REST: &str = "event: content_block_stop\n\
    data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
    event: message_delta\n\
    data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
    event: message_stop\n\
    data: {\"type\":\"message_stop\"}\n\n";

fn provider(server: &Canned) -> Anthropic {
    Anthropic::new(Endpoint::new(&server.base_url).with_api_key("sk-ant-test-1234567"))
}

#[tokio::test]
async fn a_streamed_answer_and_what_was_sent() {
    let server = Canned::start(answer("200 OK", SSE, &format!("{HELLO}{REST}"))).await;
    let (events, error) = collect(&provider(&server)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!((events.first(), events.last()), (Some(&StreamEvent::Start), Some(&StreamEvent::Finish)));
    let usage = Usage { input: 5, output: 2, ..Usage::default() };
    let stopped = |event: &StreamEvent| matches!(event, StreamEvent::StepFinish { reason: FinishReason::Stop, usage: used, .. } if *used == usage);
    assert!(events.iter().any(stopped), "{events:?}");

    let sent = server.requests().concat();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1"), "{head}");
    assert!(head.contains("x-api-key: sk-ant-test-1234567"), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("anthropic-beta"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["messages"][0]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let server = Canned::start(answer("200 OK", SSE, &format!("{HELLO}{overloaded}"))).await;
    let (_, error) = collect(&provider(&server)).await;
    assert!(matches!(error, Some(Error::Overloaded { .. })), "{error:?}");

    let server = Canned::start(answer("200 OK", SSE, HELLO)).await;
    let (_, error) = collect(&provider(&server)).await;
    assert!(matches!(error, Some(Error::Incomplete { .. })), "{error:?}");

    let too_long = "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}";
    let server =
        Canned::start(answer("400 Bad Request", "content-type: application/json\r\n", too_long)).await;
    let (_, error) = collect(&provider(&server)).await;
    assert!(matches!(error, Some(Error::ContextOverflow { .. })), "{error:?}");
}
