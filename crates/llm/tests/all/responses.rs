//! Responses over real connections.

use everturn_llm::{Endpoint, Error, FinishReason, OpenAiResponses, StreamEvent, Usage};
use serde_json::Value;

use crate::canned::{Canned, answer, collect};

const SSE: &str = "content-type: text/event-stream; charset=utf-8\r\n";
const HELLO: &str = "event: response.output_text.delta\n\
    data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"hello\"}\n\n";

fn provider(server: &Canned) -> OpenAiResponses {
    OpenAiResponses::new(Endpoint::new(&server.base_url).with_api_key("sk-test-1234567"))
}

#[tokio::test]
async fn a_streamed_answer_and_what_was_sent() {
    let end = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\
        \"usage\":{\"input_tokens\":5,\"output_tokens\":2,\"total_tokens\":7}}}\n\n";
    let server = Canned::start(answer("200 OK", SSE, &format!("{HELLO}{end}"))).await;
    let (events, error) = collect(&provider(&server)).await;
    assert!(error.is_none(), "{error:?}");
    let usage = Usage { input: 5, output: 2, total: Some(7), ..Usage::default() };
    assert_eq!(events[2], StreamEvent::TextDelta { id: "text-0".into(), text: "hello".into() });
    let StreamEvent::StepFinish { reason, usage: used, .. } = &events[4] else { panic!("{events:?}") };
    assert_eq!((*reason, *used), (FinishReason::Stop, usage));
    assert_eq!((events.first(), events.last()), (Some(&StreamEvent::Start), Some(&StreamEvent::Finish)));

    let sent = server.requests().concat();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/responses HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Bearer sk-test-1234567"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["store"], &body["stream"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(body["input"][0]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn failures_in_mid_answer_are_told_apart() {
    let check = async |frame: &str, fits: fn(&Error) -> bool| {
        let server = Canned::start(answer("200 OK", SSE, &format!("{HELLO}data: {frame}\n\n"))).await;
        let (_, error) = collect(&provider(&server)).await;
        let error = error.unwrap();
        assert!(fits(&error), "{frame}: {error:?}");
    };
    let failed = |code: &str| {
        format!(
            "{{\"type\":\"response.failed\",\"response\":{{\"error\":{{\"code\":\"{code}\",\"message\":\"m\"}}}}}}"
        )
    };
    check(&failed("rate_limit_exceeded"), |error| matches!(error, Error::RateLimit { .. })).await;
    check(&failed("server_error"), |error| matches!(error, Error::Server { .. })).await;
    check(&failed("context_length_exceeded"), |error| matches!(error, Error::ContextOverflow { .. })).await;
    check(&failed("invalid_prompt"), |error| matches!(error, Error::InvalidRequest { .. })).await;
    let event = "{\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"m\",\"param\":null}";
    check(event, |error| matches!(error, Error::Quota { .. })).await;
    check("{\"type\":\"response.in_progress\"}", |error| matches!(error, Error::Incomplete { .. })).await;
}
