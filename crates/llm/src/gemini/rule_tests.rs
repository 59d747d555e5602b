//! The API's rules for a conversation, and any conversation held against them.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{METADATA, request};
use crate::test_sample::{DOCUMENT, PIXEL, origin};
use crate::{AnswerOrigin, Block, Content, Message, ModelRequest};

/// Expects a body that the API takes, as far as the order of things goes.
#[track_caller]
pub(super) fn assert_valid(body: &Value) {
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents.first().unwrap()["role"], "user", "the user begins: {body:#}");
    let mut owed: Vec<Value> = Vec::new();
    let mut last = Value::Null;
    for content in contents {
        let role = content["role"].clone();
        assert!(role == "user" || role == "model", "{role}");
        assert_ne!(role, last, "roles alternate: {body:#}");
        let parts = content["parts"].as_array().unwrap();
        assert!(!parts.is_empty(), "a turn says something: {body:#}");
        parts.iter().for_each(|part| assert_part(part, &role));
        let responses: Vec<Value> = keys(parts, "functionResponse");
        assert_eq!(responses, owed, "responses follow their calls: {body:#}");
        // They come first, so that nothing stands between a call and its response.
        assert!(parts.iter().take(responses.len()).all(|part| part.get("functionResponse").is_some()));
        owed = keys(parts, "functionCall");
        last = role;
    }
    assert_eq!(owed, Vec::<Value>::new(), "no call is left open: {body:#}");
}

/// Name and id of each call or response.
fn keys(parts: &[Value], kind: &str) -> Vec<Value> {
    let found = parts.iter().filter_map(|part| part.get(kind));
    found.map(|call| json!([call["name"], call.get("id")])).collect()
}

#[track_caller]
fn assert_part(part: &Value, role: &Value) {
    let kinds = [
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
    ];
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| part.get(kind).is_some()).collect();
    let [kind] = kinds.as_slice() else { panic!("a part is of one kind: {part}") };
    let value = &part[*kind];
    let signed = part.get("thoughtSignature").is_some();
    match *kind {
        "text" => assert!(signed || !value.as_str().unwrap().trim().is_empty(), "{part}"),
        "inlineData" => assert!(!value["data"].as_str().unwrap().is_empty(), "{part}"),
        "fileData" => assert!(!value["fileUri"].as_str().unwrap().is_empty(), "{part}"),
        "functionCall" => {
            assert_eq!(role, "model");
            assert!(value["args"].is_object() && is_name(&value["name"]), "{part}");
        }
        "functionResponse" => {
            assert_eq!(role, "user");
            let response = value["response"].as_object().unwrap();
            assert!(response.len() == 1 && is_name(&value["name"]), "{part}");
        }
        _ => assert_eq!(role, "model"),
    }
}

fn is_name(name: &Value) -> bool {
    let mut letters = name.as_str().unwrap().chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", " ", "hi", "<&>", "two\nlines"]).prop_map(str::to_owned)
}

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let urls = vec![
        PIXEL,
        DOCUMENT,
        "",
        "data:",
        "data:text/plain,a%20b%",
        "data:text/plain;base64,??",
        "https://x/y",
        "file:///x",
    ];
    let mimes = vec!["image/png", "text/plain", "application/json", ""];
    let media = (select(mimes), select(urls), option::of(text()))
        .prop_map(|(mime, url, filename)| Content::Media { mime: mime.into(), url: url.into(), filename });
    vec(prop_oneof![text().prop_map(Content::Text), media], 0..4)
}

fn call_id() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", ""]).prop_map(str::to_owned)
}

fn block() -> impl Strategy<Value = Block> {
    let metadata = || {
        let parts = [
            json!({"executableCode": {"code": "1"}}),
            json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
        ];
        option::of(select(vec![
            json!({METADATA: {"thoughtSignature": "s"}}),
            json!({METADATA: {"thoughtSignature": "s", "silent": true}}),
            json!({METADATA: {"id": "given", "thoughtSignature": null}}),
            json!({METADATA: {"part": parts[0]}}),
            json!({METADATA: {"part": parts[1]}}),
            json!({METADATA: 1}),
            json!({"other": {"thoughtSignature": "s"}}),
        ]))
    };
    let name = || select(vec!["read", "7.list", ""]).prop_map(str::to_owned);
    let input = || select(vec![json!({}), json!({"a": 1}), json!(null), json!([1])]);
    prop_oneof![
        (text(), metadata()).prop_map(|(text, metadata)| Block::Text { text, metadata }),
        (text(), metadata()).prop_map(|(text, metadata)| Block::Reasoning { text, metadata }),
        (call_id(), name(), input(), metadata()).prop_map(|(id, name, input, metadata)| Block::ToolCall {
            id,
            name,
            input,
            metadata
        }),
        (call_id(), name(), input(), metadata()).prop_map(|(id, name, input, metadata)| Block::HostedCall {
            id,
            name,
            input,
            metadata
        }),
        (call_id(), name(), input(), metadata())
            .prop_map(|(id, name, output, metadata)| Block::HostedResult { id, name, output, metadata }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let who = select(vec![None, Some(origin()), Some(origin()), Some(AnswerOrigin::default())]);
    prop_oneof![
        2 => contents().prop_map(Message::User),
        3 => (vec(block(), 0..5), who).prop_map(|(blocks, origin)| Message::Assistant { blocks, origin }),
        3 => (call_id(), text(), contents(), any::<bool>()).prop_map(|(call_id, name, output, is_error)| {
            Message::Tool { call_id, name, output, is_error }
        }),
        1 => text().prop_map(Message::System),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_repaired_conversation_is_valid(
        messages in vec(message(), 0..10),
        model in select(vec!["gemini-2.5-pro", "gemini-3-pro-preview", "m-1"]),
    ) {
        let request = ModelRequest { origin: origin(), model: model.into(), messages, ..ModelRequest::default() };
        assert_valid(&request::body(&request.repaired()));
    }
}
