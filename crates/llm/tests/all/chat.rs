//! Chat Completions over real connections.

use everturn_llm::{FinishReason, Provider, StreamEvent, ToolSpec, Usage};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::canned::{Act, Canned, answer, request};

const SSE: &str = "content-type: text/event-stream; charset=utf-8\r\n";
const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n";
const REST: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The text and the end of an answer, without its framing.
fn gist(events: &[StreamEvent]) -> (String, FinishReason, Usage) {
    assert_eq!(events.first(), Some(&StreamEvent::Start));
    assert_eq!(events.last(), Some(&StreamEvent::Finish));
    let mut text = String::new();
    for event in events {
        match event {
            StreamEvent::TextDelta { text: more, .. } => text.push_str(more),
            StreamEvent::StepFinish { reason, usage, .. } => return (text, *reason, *usage),
            _ => {}
        }
    }
    panic!("no step finish in {events:?}")
}

fn hello() -> (String, FinishReason, Usage) {
    let usage = Usage { input: 5, output: 2, total: Some(7), ..Usage::default() };
    ("hello".to_owned(), FinishReason::Stop, usage)
}

#[tokio::test]
async fn a_streamed_answer_and_what_was_sent() {
    let server = Canned::start(answer("200 OK", SSE, &format!("{HELLO}{REST}{DONE}"))).await;
    let (events, error) = server.ask().await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(gist(&events), hello());

    let sent = server.requests().concat();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Bearer sk-test-1234567"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["messages"][0]["content"], "hi");
}

#[tokio::test]
async fn a_tool_with_a_name_that_is_refused_goes_under_another_and_comes_back_under_its_own() {
    let call = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":\
        {\"name\":\"mcp_read_file\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n";
    let server = Canned::start(answer("200 OK", SSE, &format!("{call}{DONE}"))).await;
    let mut asked = request();
    asked.tools =
        vec![ToolSpec { name: "mcp.read file".into(), description: String::new(), schema: json!({}).into() }];
    let events = server.provider().stream(asked).map(Result::unwrap).collect::<Vec<_>>().await;
    let called = events.iter().find_map(|event| match event {
        StreamEvent::ToolCall { name, .. } => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(called, Some("mcp.read file"));
    let sent = server.requests().concat();
    let body: Value = serde_json::from_str(sent.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["tools"][0]["function"]["name"], "mcp_read_file");
}

#[tokio::test]
async fn request_headers_win() {
    let server = Canned::start(answer("200 OK", SSE, &format!("{REST}{DONE}"))).await;
    let mut asked = request();
    asked.headers = vec![("Authorization".into(), "Bearer other".into()), ("x-trace".into(), "1".into())];
    let events = server.provider().stream(asked).collect::<Vec<_>>().await;
    assert!(events.iter().all(Result::is_ok), "{events:?}");
    let sent = server.requests().concat();
    assert!(sent.contains("authorization: Bearer other") && sent.contains("x-trace: 1"), "{sent}");
}

#[tokio::test]
async fn deltas_come_before_the_answer_ends() {
    let head = format!("HTTP/1.1 200 OK\r\n{SSE}connection: close\r\n\r\n{HELLO}");
    let acts = vec![Act::Send(head), Act::Wait, Act::Send(format!("{REST}{DONE}"))];
    let server = Canned::start(acts).await;
    let mut stream = server.provider().stream(request());
    let mut events = Vec::new();
    while !matches!(events.last(), Some(StreamEvent::TextDelta { .. })) {
        events.push(stream.next().await.unwrap().unwrap());
    }
    server.go();
    events.extend(stream.map(Result::unwrap).collect::<Vec<_>>().await);
    assert_eq!(gist(&events), hello());
}

#[tokio::test]
async fn the_step_ends_with_its_terminal_frame_although_the_connection_stays_open() {
    let head = format!("HTTP/1.1 200 OK\r\n{SSE}connection: close\r\n\r\n{HELLO}{REST}{DONE}");
    let server = Canned::start(vec![Act::Send(head), Act::Hang]).await;
    let (events, error) = server.ask().await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(gist(&events), hello());
}

#[tokio::test]
async fn dropping_the_stream_closes_the_request() {
    let head = format!("HTTP/1.1 200 OK\r\n{SSE}connection: close\r\n\r\n{HELLO}");
    let server = Canned::start(vec![Act::Send(head), Act::Hang]).await;
    let mut stream = server.provider().stream(request());
    assert_eq!(stream.next().await.unwrap().unwrap(), StreamEvent::Start);
    drop(stream);
    server.closed().await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_first_poll() {
    let server = Canned::start(answer("200 OK", SSE, DONE)).await;
    drop(server.provider().stream(request()));
    tokio::task::yield_now().await;
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn unlabelled_and_json_answers() {
    let whole = "{\"choices\":[{\"message\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\
        \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}";
    let events = format!("{HELLO}{REST}{DONE}");
    for (headers, body) in [
        ("content-type: application/json\r\n", whole),
        ("content-type: text/plain\r\n", whole),
        ("content-type: text/plain\r\n", events.as_str()),
        ("", events.as_str()),
    ] {
        let server = Canned::start(answer("200 OK", headers, body)).await;
        let (events, error) = server.ask().await;
        assert!(error.is_none(), "{headers}: {error:?}");
        assert_eq!(gist(&events), hello(), "{headers}");
    }
}
