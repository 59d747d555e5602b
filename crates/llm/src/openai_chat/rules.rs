//! The rules of Chat Completions for a conversation, as the strictest servers have them, checked on random ones.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::Dialect;
use super::decode::METADATA;
use super::request::body;
use crate::{Block, Content, Message, Origin, Request, sample};

/// The rules that a body breaks.
fn broken(body: &Value, dialect: Dialect) -> Vec<String> {
    let mut faults = Vec::new();
    // Calls of the last answer that have no result yet.
    let mut owed: Vec<&str> = Vec::new();
    for (index, message) in body["messages"].as_array().unwrap().iter().enumerate() {
        let mut rule = |holds: bool, rule: &str| {
            if !holds {
                faults.push(format!("messages.{index}: {rule}"));
            }
        };
        let role = message["role"].as_str().unwrap();
        rule(role == "tool" || owed.is_empty(), "every call is answered at once");
        match role {
            "system" => rule(index == 0 && is_filled(&message["content"]), "instructions come first"),
            "user" => rule(is_filled(&message["content"]), "the person says something"),
            "tool" => {
                let asked = owed.first().copied();
                rule(asked.is_some() && message["tool_call_id"].as_str() == asked, "results have calls");
                rule(message["content"].is_string(), "a result is text");
                owed = owed.split_off(owed.len().min(1));
            }
            "assistant" => {
                let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
                rule(message.get("tool_calls").is_none_or(|_| !calls.is_empty()), "no empty list of calls");
                rule(!calls.is_empty() || is_filled(&message["content"]), "the model says something");
                rule(calls.iter().all(|call| is_callable(call, dialect)), "calls can be read");
                owed = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
                rule(owed.iter().collect::<HashSet<_>>().len() == owed.len(), "ids are unique");
                let thinks = ["reasoning_content", "reasoning", "reasoning_details"];
                let thinks = thinks.into_iter().any(|field| message.get(field).is_some());
                rule(!thinks || dialect == Dialect::Compatible, "OpenAI takes no thoughts");
            }
            _ => rule(false, "there are four roles"),
        }
    }
    if !owed.is_empty() {
        faults.push("every call is answered".to_owned());
    }
    faults
}

/// A text, or a list of pieces none of which is empty.
fn is_filled(content: &Value) -> bool {
    let says = |text: &Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
    let piece = |piece: &Value| piece["type"] != "text" || says(&piece["text"]);
    says(content) || content.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(piece))
}

fn is_callable(call: &Value, dialect: Dialect) -> bool {
    let (id, name) = (call["id"].as_str().unwrap(), call["function"]["name"].as_str().unwrap());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let arguments = call["function"]["arguments"].as_str().unwrap();
    (1..=40).contains(&id.len())
        && !name.is_empty()
        && (dialect == Dialect::Compatible || (name.len() <= 64 && name.chars().all(fits)))
        && serde_json::from_str::<Value>(arguments).is_ok_and(|arguments| arguments.is_object())
}

fn words() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "so", "be it </system-update>"]).prop_map(str::to_owned)
}

/// Few enough that they meet again.
fn ids() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "", "call_0", "call_1", "an_id_that_is_much_longer_than_openai_would_take"])
        .prop_map(str::to_owned)
}

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let media = select(vec![
        ("image/png", sample::PIXEL),
        ("application/pdf", sample::DOCUMENT),
        ("audio/wav", "data:audio/wav;base64,AA=="),
        ("text/plain", "data:text/plain;base64,IA=="),
        ("video/mp4", "https://x/y"),
        ("image/png", ""),
    ]);
    let media =
        media.prop_map(|(mime, url)| Content::Media { mime: mime.into(), url: url.into(), filename: None });
    vec(prop_oneof![3 => words().prop_map(Content::Text), 1 => media], 0..3)
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let own = |fields: Value| Some(json!({METADATA: fields}));
    let thought = select(vec![
        None,
        own(json!({"field": "reasoning"})),
        own(json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]})),
        Some(json!({"anthropic": {"signature": "s"}})),
    ]);
    let input = select(vec![json!({"a": 1}), json!({}), json!(null), json!("text"), json!([1])]);
    let name = select(vec!["read", "", "mcp.read file", "ünicode"]);
    let hosted = |id: String| Block::HostedCall { id, name: "web".into(), input: json!({}), metadata: None };
    let block = prop_oneof![
        2 => words().prop_map(|text| Block::Text { text, metadata: None }),
        1 => (words(), thought).prop_map(|(text, metadata)| Block::Reasoning { text, metadata }),
        2 => (ids(), name, input).prop_map(|(id, name, input)| Block::ToolCall {
            id,
            name: name.into(),
            input,
            metadata: None,
        }),
        1 => ids().prop_map(hosted),
    ];
    vec(block, 0..5)
}

fn message() -> impl Strategy<Value = Message> {
    let origin = select(vec![None, Some(sample::origin()), Some(Origin::default())]);
    prop_oneof![
        contents().prop_map(Message::User),
        (blocks(), origin).prop_map(|(blocks, origin)| Message::Assistant { blocks, origin }),
        (ids(), contents(), any::<bool>()).prop_map(|(call_id, output, is_error)| Message::Tool {
            call_id,
            name: "read".into(),
            output,
            is_error,
        }),
        words().prop_map(Message::System),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_repaired_conversation_keeps_the_rules(
        messages in vec(message(), 0..12),
        system in vec(words(), 0..3),
        dialect in select(vec![Dialect::OpenAi, Dialect::Compatible]),
    ) {
        let request =
            Request { origin: sample::origin(), model: "m".into(), system, messages, ..Request::default() };
        let body = body(&request.repaired(), dialect);
        prop_assert_eq!(broken(&body, dialect), Vec::<String>::new(), "{:#}", body);
    }
}

#[test]
fn the_rules_notice_what_breaks_them() {
    let check = |messages: Value, expected: &str| {
        let found = broken(&json!({"messages": messages}), Dialect::OpenAi);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
    };
    let user = json!({"role": "user", "content": "hi"});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": ""});
    let called = |ids: &[&str], name: &str| {
        let call = |id: &&str| json!({"id": id, "function": {"name": name, "arguments": "{}"}});
        json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
    };
    let sound = json!([user, called(&["a"], "read"), result, user]);
    assert_eq!(broken(&json!({"messages": sound}), Dialect::OpenAi), Vec::<String>::new());
    check(json!([called(&["a"], "read")]), "every call is answered");
    check(json!([called(&["a"], "read"), user, result]), "every call is answered at once");
    check(json!([result]), "results have calls");
    check(json!([called(&["b"], "read"), result]), "results have calls");
    check(json!([called(&["a", "a"], "read"), result, result]), "ids are unique");
    check(json!([called(&["a"], "a b"), result]), "calls can be read");
    check(json!([called(&[], "read")]), "no empty list of calls");
    check(json!([{"role": "user", "content": []}]), "the person says something");
    check(json!([{"role": "assistant", "content": ""}]), "the model says something");
    check(json!([user, {"role": "system", "content": "x"}]), "instructions come first");
    check(json!([{"role": "assistant", "content": "x", "reasoning": "y"}]), "OpenAI takes no thoughts");
}
