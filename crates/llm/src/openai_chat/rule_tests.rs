//! The rules that strict servers have for a conversation, and any conversation held against them.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::ChatDialect;
use super::decode::METADATA;
use super::request::body;
use super::server::ServerDemands;
use crate::test_sample::{DOCUMENT, PIXEL, origin};
use crate::{AnswerOrigin, Block, Content, Endpoint, Message, ModelRequest};

/// Expects a body that a server takes.
#[track_caller]
fn assert_valid(body: &Value, demands: &ServerDemands) {
    let messages = body["messages"].as_array().unwrap();
    let mut last = "";
    let mut ids = HashSet::new();
    let mut owed: Vec<String> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap();
        assert!(owed.is_empty() || role == "tool", "results follow their calls: {body:#}");
        match role {
            "user" => {
                assert!(last != "user" && !(demands.bridge && last == "tool"), "sides take turns: {body:#}");
                assert!(is_content(&message["content"]), "{message}");
            }
            "assistant" => {
                assert_ne!(last, "assistant", "sides take turns: {body:#}");
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                assert!(is_content(&message["content"]) || !calls.is_empty(), "no empty answer: {body:#}");
                for call in calls {
                    let id = call["id"].as_str().unwrap().to_owned();
                    let exact = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
                    assert!(if demands.bridge { exact } else { (1..=40).contains(&id.len()) }, "{id}");
                    assert!(ids.insert(id.clone()), "ids are unique: {body:#}");
                    assert!(call["function"]["name"].as_str().is_some_and(|name| !name.is_empty()));
                    owed.push(id);
                }
            }
            _ => {
                let id = message["tool_call_id"].as_str().unwrap();
                assert_eq!(owed.first().map(String::as_str), Some(id), "results in order: {body:#}");
                owed.remove(0);
            }
        }
        last = role;
    }
    assert!(owed.is_empty(), "no call is left open: {body:#}");
}

fn is_content(content: &Value) -> bool {
    match content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(pieces) => pieces.iter().any(|piece| piece["type"] != "thinking"),
        _ => false,
    }
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", " ", "hi", "two\nlines"]).prop_map(str::to_owned)
}

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let urls = vec![PIXEL, DOCUMENT, "", "data:", "data:text/plain,a%20b%", "https://x/y", "file:///x"];
    let mimes = vec!["image/png", "image/bmp", "text/plain", ""];
    let media = (select(mimes), select(urls), option::of(text()))
        .prop_map(|(mime, url, filename)| Content::Media { mime: mime.into(), url: url.into(), filename });
    vec(prop_oneof![text().prop_map(Content::Text), media], 0..4)
}

fn call_id() -> impl Strategy<Value = String> {
    select(vec![String::new(), "call_0".into(), "call_1".into(), "D681PevKs".into(), "x".repeat(70)])
}

fn block() -> impl Strategy<Value = Block> {
    let metadata = option::of(select(vec![
        json!({METADATA: {"field": "reasoning"}}),
        json!({METADATA: {"reasoning_details": [{"type": "x"}]}}),
        json!({METADATA: 1}),
        json!({"anthropic": {"signature": "s"}}),
    ]));
    let name = select(vec!["read", "functions.read", ""]).prop_map(str::to_owned);
    let input = select(vec![json!({}), json!({"a": 1}), json!(null)]);
    prop_oneof![
        text().prop_map(|text| Block::Text { text, metadata: None }),
        (text(), metadata).prop_map(|(text, metadata)| Block::Reasoning { text, metadata }),
        (call_id(), name, input).prop_map(|(id, name, input)| Block::ToolCall {
            id,
            name,
            input,
            metadata: None
        }),
        call_id().prop_map(|id| Block::HostedCall {
            id,
            name: "web".into(),
            input: json!({}),
            metadata: None
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let who = select(vec![None, Some(origin()), Some(origin()), Some(AnswerOrigin::default())]);
    prop_oneof![
        2 => contents().prop_map(Message::User),
        3 => (vec(block(), 0..5), who).prop_map(|(blocks, origin)| Message::Assistant { blocks, origin }),
        3 => (call_id(), contents()).prop_map(|(call_id, output)| {
            Message::Tool { call_id, name: "read".into(), output, is_error: false }
        }),
        1 => text().prop_map(Message::System),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_repaired_conversation_is_valid(
        messages in vec(message(), 0..10),
        base_url in select(vec![
            "http://localhost:8080/v1",
            "https://api.openai.com/v1",
            "https://api.mistral.ai/v1",
            "https://api.deepseek.com/v1",
            "https://api.moonshot.ai/v1",
        ]),
    ) {
        let request = ModelRequest { origin: origin(), messages, ..ModelRequest::default() };
        let endpoint = Endpoint::new(base_url);
        let demands = ServerDemands::of(&endpoint, "", ChatDialect::of(&endpoint));
        assert_valid(&body(&request.repaired(), &demands), &demands);
    }
}
