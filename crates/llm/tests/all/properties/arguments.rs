//! The arguments of a tool call, in pieces: an object survives any cut, and anything else has a defined outcome.

use everturn_llm::{Protocol, StreamEvent, replay};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::config;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    btree_map(any::<String>(), value(), 0..5).prop_map(|fields| fields.into_iter().collect())
}

/// What looks like JSON and mostly is none.
fn scraps() -> impl Strategy<Value = String> {
    let marks = select(vec![
        "{", "}", "[", "]", "\"", ":", ",", "\\", "\\u00", "null", "1", "-", " ", "\n", "{}", "ü", "\"a\"",
    ]);
    prop_oneof![vec(marks, 0..12).prop_map(|marks| marks.concat()), any::<String>()]
}

/// A text in pieces of so many characters.
fn pieces(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut letters = text.chars().peekable();
    let mut pieces = Vec::new();
    for size in sizes.iter().copied().cycle() {
        if letters.peek().is_none() {
            break;
        }
        pieces.push(letters.by_ref().take(size).collect());
    }
    pieces
}

/// An answer of one call whose arguments are streamed in pieces.
fn answer(protocol: Protocol, pieces: &[String]) -> String {
    let frames: Vec<Value> = match protocol {
        Protocol::OpenAiChat => {
            let chunk = |delta: Value| json!({"choices": [{"delta": delta}]});
            let call = |call: Value| chunk(json!({"tool_calls": [call]}));
            let begin = call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": ""}}));
            let more = pieces.iter().map(|piece| call(json!({"index": 0, "function": {"arguments": piece}})));
            let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
            std::iter::once(begin).chain(more).chain([end]).collect()
        }
        Protocol::Anthropic => {
            let block = json!({"type": "tool_use", "id": "a", "name": "read", "input": {}});
            let begin = json!({"type": "content_block_start", "index": 0, "content_block": block});
            let more = pieces.iter().map(|piece| {
                json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": piece}})
            });
            let end = [json!({"type": "content_block_stop", "index": 0}), json!({"type": "message_stop"})];
            std::iter::once(begin).chain(more).chain(end).collect()
        }
        _ => {
            let item = |arguments: &str| json!({"type": "function_call", "id": "f", "call_id": "a", "name": "read", "arguments": arguments});
            let begin = json!({"type": "response.output_item.added", "item": item("")});
            let more = pieces.iter().map(|piece| {
                json!({"type": "response.function_call_arguments.delta", "item_id": "f", "delta": piece})
            });
            let end = [
                json!({"type": "response.output_item.done", "item": item(&pieces.concat())}),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ];
            std::iter::once(begin).chain(more).chain(end).collect()
        }
    };
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

/// The one call of an answer: its arguments or why there are none, and the text that it was made of.
fn call(protocol: Protocol, pieces: &[String]) -> (Result<Value, String>, String) {
    let body = answer(protocol, pieces);
    let mut streamed = String::new();
    let mut calls = Vec::new();
    for event in replay(protocol, [body.as_bytes()]).unwrap() {
        match event.unwrap() {
            StreamEvent::ToolInputDelta { text, .. } => streamed.push_str(&text),
            StreamEvent::ToolCall { input, raw, .. } => calls.push((Ok(input), raw)),
            StreamEvent::ToolCallMalformed { raw, reason, .. } => calls.push((Err(reason), raw)),
            _ => {}
        }
    }
    let [(input, raw)] = calls.try_into().expect("one call");
    assert_eq!(streamed, raw, "what is streamed is what is kept");
    (input, raw)
}

/// What a text means: an object, perhaps encoded twice, or nothing at all, which is a call without arguments.
fn meaning(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(json!({}));
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let inner = value.as_str().and_then(|inner| serde_json::from_str(inner).ok());
    Some(inner.unwrap_or(value)).filter(Value::is_object)
}

fn protocols() -> impl Strategy<Value = Protocol> {
    select(vec![Protocol::OpenAiChat, Protocol::Anthropic, Protocol::OpenAiResponses])
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn an_object_survives_any_cut(
        object in object(),
        sizes in vec(1..9_usize, 1..5),
        twice in any::<bool>(),
        protocol in protocols(),
    ) {
        let object = Value::Object(object);
        let text = if twice { json!(object.to_string()).to_string() } else { object.to_string() };
        prop_assert_eq!(call(protocol, &pieces(&text, &sizes)), (Ok(object), text));
    }

    #[test]
    fn anything_else_has_a_defined_outcome(
        text in scraps(),
        sizes in vec(1..5_usize, 1..5),
        protocol in protocols(),
    ) {
        let (input, raw) = call(protocol, &pieces(&text, &sizes));
        prop_assert_eq!(&raw, &text);
        prop_assert_eq!(input.clone().ok(), meaning(&text), "{:?}", input);
    }

    /// Here they come whole.
    #[test]
    fn whole_arguments(args in value()) {
        let part = json!({"functionCall": {"name": "read", "args": args}});
        let frame = json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
        let body = format!("data: {frame}\n\n");
        let calls: Vec<Option<Value>> = replay(Protocol::Gemini, [body.as_bytes()])
            .unwrap()
            .filter_map(|event| match event.unwrap() {
                StreamEvent::ToolCall { input, .. } => Some(Some(input)),
                StreamEvent::ToolCallMalformed { .. } => Some(None),
                _ => None,
            })
            .collect();
        let expected = if args.is_null() { Some(json!({})) } else { meaning(&args.to_string()) };
        prop_assert_eq!(calls, [expected]);
    }
}
