//! The provider against the scripted model server: the pair most other tests rest on.

use std::time::Duration;

use everturn_llm::{Content, Error, EventStream, FinishReason, Message, ModelRequest, Provider, StreamEvent};
use everturn_llm::{Endpoint, OpenAiChat};
use everturn_testkit::ModelServer;
use futures_util::StreamExt;
use serde_json::json;

fn ask(server: &ModelServer, prompt: &str) -> EventStream {
    let provider = OpenAiChat::new(Endpoint::new(server.base_url()));
    let messages = vec![Message::User(vec![Content::Text(prompt.into())])];
    provider.stream(ModelRequest { model: "fake-1".into(), messages, ..ModelRequest::default() })
}

async fn all(server: &ModelServer, prompt: &str) -> Vec<StreamEvent> {
    ask(server, prompt).map(Result::unwrap).collect().await
}

fn text_of(events: &[StreamEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        StreamEvent::TextDelta { text, .. } | StreamEvent::ReasoningDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn text_reasoning_and_usage() {
    let server = ModelServer::start();
    let events = all(&server, "THINK SAY:one two").await;
    assert_eq!(text_of(&events), "Let me think about this request.one two");
    let StreamEvent::StepFinish { reason: FinishReason::Stop, usage, .. } = &events[events.len() - 2] else {
        panic!("{events:?}")
    };
    assert_eq!((usage.output, usage.total), (20, Some(usage.input + 20)));
}

#[tokio::test]
async fn a_tool_call() {
    let server = ModelServer::start();
    let events = all(&server, "TOOL:read:ä.txt").await;
    let call = events.iter().find_map(|event| match event {
        StreamEvent::ToolCall { name, input, .. } => Some((name.as_str(), input.clone())),
        _ => None,
    });
    assert_eq!(call, Some(("read", json!({"filePath": "ä.txt"}))));
}

#[tokio::test]
async fn words_arrive_while_the_answer_is_held() {
    let server = ModelServer::start();
    let mut stream = ask(&server, "HOLD:h SAY:one two");
    let mut events = Vec::new();
    while text_of(&events) != "one " {
        events.push(stream.next().await.unwrap().unwrap());
    }
    server.held("h").await;
    server.release("h");
    events.extend(stream.map(Result::unwrap).collect::<Vec<_>>().await);
    assert_eq!(text_of(&events), "one two");
}

#[tokio::test]
async fn a_dropped_stream_is_seen_by_the_server() {
    let server = ModelServer::start();
    let mut stream = ask(&server, "HOLD:h SAY:one two");
    while !matches!(stream.next().await.unwrap().unwrap(), StreamEvent::TextDelta { .. }) {}
    server.held("h").await;
    drop(stream);
    server.abandoned("h").await;
}

#[tokio::test]
async fn failures() {
    let server = ModelServer::start();
    let first =
        |prompt: &'static str| ask(&server, prompt).filter_map(async |item| item.err()).boxed().into_future();
    let (error, _) = first("ERR:429 RETRY-AFTER:4").await;
    let error = error.unwrap();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(4)));
    assert_eq!(error.provider_message(), "fake error");
    let (error, _) = first("DROP:2 SAY:one two three").await;
    assert!(matches!(error, Some(Error::Transport { before_first_byte: false, .. })), "{error:?}");
}
