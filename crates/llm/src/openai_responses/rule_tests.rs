//! What OpenAI demands of the list of items, as a check, and that every history gives a list that passes it.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode::Decoder;
use super::{METADATA, request};
use crate::protocol::transcript::{self, TranscriptEnd};
use crate::{AnswerOrigin, Block, Content, Message, ModelRequest, StreamEvent, test_sample};

/// What is wrong with the items of a body.
fn broken(body: &Value) -> Option<String> {
    let items = body["input"].as_array()?;
    let mut ids = HashSet::new();
    let mut call_ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let wrong = |what: &str| Some(format!("{what} at {position}: {item}"));
        if item.get("id").is_some_and(|id| id.as_str().is_none_or(|id| !ids.insert(id.to_owned()))) {
            return wrong("an id that is empty or stands twice");
        }
        let kind = item["type"].as_str()?;
        let link = || format!("{}/{}", kind.trim_end_matches("_output"), item["call_id"].as_str().unwrap());
        match kind {
            "message" if !is_message(item) => return wrong("a message that says nothing"),
            "message" if item["role"] == "user" && !open.is_empty() => return wrong("a call left open"),
            "message" => {}
            "reasoning" => {
                let next = items.get(position + 1);
                let led = next.is_some_and(|next| {
                    let by_model = next["type"] != "message" || next["role"] == "assistant";
                    by_model && !next["type"].as_str().unwrap().ends_with("_output")
                });
                if !led || item["encrypted_content"].as_str().is_none_or(str::is_empty) {
                    return wrong("reasoning that led to nothing");
                }
            }
            "function_call" => {
                let call_id = item["call_id"].as_str()?;
                if call_id.is_empty() || call_id.len() > 64 || !call_ids.insert(call_id) {
                    return wrong("a call id");
                }
                let arguments: Value = serde_json::from_str(item["arguments"].as_str()?).ok()?;
                if !arguments.is_object() || !is_name(item["name"].as_str()?) {
                    return wrong("a call that cannot be made");
                }
                open.push(link());
            }
            _ if item.get("call_id").is_none() => {}
            output if output.ends_with("_output") => {
                let Some(call) = open.iter().position(|call| *call == link()) else {
                    return wrong("an output without a call");
                };
                open.remove(call);
                if item["output"].as_array().is_some_and(|parts| !parts.iter().all(is_part)) {
                    return wrong("an empty part");
                }
            }
            _ => open.push(link()),
        }
    }
    (!open.is_empty()).then(|| format!("calls without an output: {open:?}"))
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn is_message(item: &Value) -> bool {
    let known = ["system", "user", "assistant"].iter().any(|role| item["role"] == **role);
    known
        && match &item["content"] {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(parts) => !parts.is_empty() && parts.iter().all(is_part),
            _ => false,
        }
}

fn is_part(part: &Value) -> bool {
    let field = match part["type"].as_str() {
        Some("input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some("input_image") => "image_url",
        Some("input_file") => return part.get("file_data").is_some() || part.get("file_url").is_some(),
        _ => return false,
    };
    part[field].as_str().is_some_and(|text| !text.trim().is_empty())
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", " \n", "a", "two words"]).prop_map(str::to_owned)
}

fn content() -> impl Strategy<Value = Content> {
    let media = prop::sample::select(vec![
        ("image/png", test_sample::PIXEL),
        ("application/pdf", test_sample::DOCUMENT),
        ("text/plain", "data:text/plain;base64,aGk="),
        ("audio/mpeg", "data:audio/mpeg;base64,AA"),
        ("image/png", "https://x/y.png"),
        ("image/png", "nonsense"),
        ("", ""),
    ]);
    let media =
        media.prop_map(|(mime, url)| Content::Media { mime: mime.into(), url: url.into(), filename: None });
    prop_oneof![2 => text().prop_map(Content::Text), 1 => media]
}

/// An id out of a few, so that they meet.
fn id(prefix: &'static str) -> impl Strategy<Value = Option<String>> {
    prop::option::of((0..3).prop_map(move |number| format!("{prefix}_{number}")))
}

fn call_id() -> impl Strategy<Value = String> {
    let ids = vec![String::new(), "call_0".into(), "call_1".into(), "call_2".into(), "x".repeat(70)];
    prop::sample::select(ids)
}

/// The metadata of an item, this protocol's or none or another's.
fn metadata(prefix: &'static str, more: BoxedStrategy<Value>) -> impl Strategy<Value = Option<Value>> {
    let own = (id(prefix), id("rs"), more).prop_map(|(id, after, mut own)| {
        let fields = own.as_object_mut().unwrap();
        fields.extend(id.map(|id| ("id".to_owned(), json!(id))));
        fields.extend(after.map(|id| ("after".to_owned(), json!(id))));
        json!({METADATA: own})
    });
    prop_oneof![
        4 => own.prop_map(Some),
        1 => Just(None),
        1 => Just(Some(json!({"openai-chat": {"field": "reasoning"}}))),
        1 => Just(Some(json!({METADATA: 3}))),
    ]
}

fn hosted() -> impl Strategy<Value = Option<Value>> {
    let kinds = vec!["web_search_call", "computer_call", "computer_call_output", "mcp_list_tools"];
    let item = (prop::sample::select(kinds), id("item"), 0..2).prop_map(|(kind, id, call)| {
        let mut item = json!({"type": kind, "status": "completed"});
        if let Some(id) = id {
            item["id"] = json!(id);
        }
        if kind.starts_with("computer") {
            item["call_id"] = json!(format!("cc_{call}"));
        }
        json!({"item": item})
    });
    metadata("unused", prop_oneof![5 => item, 1 => Just(json!({}))].boxed())
}

fn block() -> impl Strategy<Value = Vec<Block>> {
    let encrypted = prop::sample::select(vec![
        json!({"encrypted_content": "gAAA", "summary": []}),
        json!({"encrypted_content": "gAAA"}),
        json!({"encrypted_content": null}),
        json!({}),
    ]);
    let marks =
        prop::sample::select(vec![json!({}), json!({"refusal": true}), json!({"phase": "commentary"})]);
    let raw = prop::sample::select(vec![json!({}), json!({"arguments": "{ }"}), json!({"arguments": "{"})]);
    let input = prop::sample::select(vec![json!({}), json!({"a": 1}), json!(null), json!("text")]);
    let name = prop::sample::select(vec!["read", "functions.read", ""]);
    prop_oneof![
        (text(), metadata("msg", marks.boxed()))
            .prop_map(|(text, metadata)| vec![Block::Text { text, metadata }]),
        (text(), metadata("rs", encrypted.boxed()))
            .prop_map(|(text, metadata)| vec![Block::Reasoning { text, metadata }]),
        (call_id(), name, input, metadata("fc", raw.boxed())).prop_map(|(id, name, input, metadata)| {
            vec![Block::ToolCall { id, name: name.into(), input, metadata }]
        }),
        (0..4, hosted(), prop::bool::weighted(0.8)).prop_map(|(id, metadata, answered)| {
            let (id, name) = (format!("h_{id}"), "web".to_owned());
            let call = Block::HostedCall { id: id.clone(), name: name.clone(), input: json!({}), metadata };
            let result = Block::HostedResult { id, name, output: json!({}), metadata: None };
            if answered { vec![call, result] } else { vec![call] }
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let origin = prop_oneof![
        4 => Just(Some(test_sample::origin())),
        1 => Just(Some(AnswerOrigin::default())),
        1 => Just(None),
    ];
    prop_oneof![
        2 => prop::collection::vec(content(), 0..3).prop_map(Message::User),
        4 => (prop::collection::vec(block(), 0..7), origin)
            .prop_map(|(blocks, origin)| Message::Assistant { blocks: blocks.concat(), origin }),
        4 => (call_id(), prop::collection::vec(content(), 0..3)).prop_map(|(call_id, output)| {
            Message::Tool { call_id, name: "read".into(), output, is_error: false }
        }),
        1 => text().prop_map(Message::System),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_history_becomes_a_list_that_is_accepted(
        messages in prop::collection::vec(message(), 0..8),
    ) {
        let request = ModelRequest { origin: test_sample::origin(), model: "m".into(), messages, ..ModelRequest::default() };
        let body = request::body(&request.repaired());
        prop_assert_eq!(broken(&body), None, "{}", body);
    }
}

#[test]
fn the_check_sees_what_is_wrong() {
    let check = |items: Value| assert_ne!(broken(&json!({"input": items})), None, "{items}");
    let call = json!({"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "1"});
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
    let thought = json!({"type": "reasoning", "encrypted_content": "g", "summary": []});
    assert_eq!(broken(&json!({"input": [user, thought, call, output, user]})), None);
    check(json!([call]));
    check(json!([output]));
    check(json!([call, output, output]));
    check(json!([call, output, call, output]));
    check(json!([call, user, output]));
    check(json!([thought, user]));
    check(json!([thought]));
    check(json!([{"type": "message", "role": "user", "content": []}]));
}

/// The items of one answer of this model's.
fn replayed(blocks: Vec<Block>) -> Vec<Value> {
    let messages = vec![Message::Assistant { blocks, origin: Some(test_sample::origin()) }];
    let request = ModelRequest { origin: test_sample::origin(), messages, ..ModelRequest::default() };
    request::body(&request.repaired())["input"].as_array().unwrap().clone()
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn own(fields: Value) -> Option<Value> {
    Some(json!({METADATA: fields}))
}

fn said(text: &str, fields: Value) -> Block {
    Block::Text { text: text.into(), metadata: own(fields) }
}

fn thought(id: &str) -> Block {
    let metadata = own(json!({"id": id, "encrypted_content": "gAAA", "summary": []}));
    Block::Reasoning { text: String::new(), metadata }
}

fn ran(id: &str, fields: Value) -> [Block; 2] {
    let (id, name) = (id.to_owned(), "web".to_owned());
    let call =
        Block::HostedCall { id: id.clone(), name: name.clone(), input: json!({}), metadata: own(fields) };
    [call, Block::HostedResult { id, name, output: json!({}), metadata: None }]
}

fn reasoning_item(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"})
}

#[test]
fn an_answer_goes_back_as_it_came() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"x": 1}});
    let note = json!({"type": "url_citation", "url": "https://x"});
    let mut blocks = vec![thought("rs_1")];
    blocks.extend(ran("ws_1", json!({"after": "rs_1", "item": search})));
    blocks.push(thought("rs_2"));
    blocks.push(said("one", json!({"id": "msg_1", "after": "rs_2", "annotations": [note]})));
    blocks.push(said("no", json!({"id": "msg_1", "after": "rs_2", "refusal": true})));
    blocks.push(said("two", json!({"id": "msg_2", "phase": "final_answer"})));
    let expected = [
        reasoning_item("rs_1"),
        search,
        reasoning_item("rs_2"),
        json!({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "one", "annotations": [note]},
            {"type": "refusal", "refusal": "no"},
        ], "id": "msg_1", "status": "completed"}),
        json!({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "two", "annotations": []},
        ], "phase": "final_answer", "id": "msg_2", "status": "completed"}),
    ];
    assert_eq!(replayed(blocks), expected);
}

/// What a caller keeps of the events of an answer, text in one piece as it came.
fn kept(events: Vec<StreamEvent>) -> Vec<Block> {
    let mut texts = HashMap::new();
    let block = |event| match event {
        StreamEvent::TextDelta { id, text } | StreamEvent::ReasoningDelta { id, text } => {
            let all: &mut String = texts.entry(id).or_default();
            all.push_str(&text);
            None
        }
        StreamEvent::TextEnd { id, metadata } => {
            Some(Block::Text { text: texts.remove(&id).unwrap_or_default(), metadata })
        }
        StreamEvent::ReasoningEnd { id, metadata } => {
            Some(Block::Reasoning { text: texts.remove(&id).unwrap_or_default(), metadata })
        }
        StreamEvent::ToolCall { id, name, input, metadata, .. } => {
            Some(Block::ToolCall { id, name, input, metadata })
        }
        StreamEvent::HostedCall { id, name, input, metadata } => {
            Some(Block::HostedCall { id, name, input, metadata })
        }
        StreamEvent::HostedResult { id, name, output, metadata, .. } => {
            Some(Block::HostedResult { id, name, output, metadata })
        }
        _ => None,
    };
    events.into_iter().filter_map(block).collect()
}

#[test]
fn an_answer_that_was_read_goes_back_as_it_came() {
    let summary = json!([{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]);
    let text = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let mut thought = reasoning_item("rs_1");
    thought["summary"] = summary;
    let output = [
        thought,
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}),
        reasoning_item("rs_2"),
        json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "phase": "commentary", "content": [text("one"), text("two")]}),
        json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "call_1",
            "name": "read", "arguments": "{ \"b\": 1.0, \"a\": [ ] }"}),
    ];
    let response = json!({"object": "response", "status": "completed", "output": output});
    let (events, outcome) = transcript::whole(Decoder::new("c".into()), &response.to_string());
    assert_eq!(outcome, TranscriptEnd::Complete);
    let mut items = replayed(kept(events));
    assert_eq!(items.pop().unwrap()["type"], "function_call_output");
    assert_eq!(items, output);
}

fn bare(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"type": "message", "role": "assistant", "content": [part]})
}

#[test]
fn reasoning_goes_only_with_what_it_led_to() {
    // A search stood between the two and is gone.
    let gap = vec![thought("rs_1"), said("so", json!({"id": "msg_1"}))];
    assert_eq!(replayed(gap), [bare("so")]);
    let cut = vec![said("so", json!({"id": "msg_1", "after": "rs_1"}))];
    assert_eq!(replayed(cut), [bare("so")]);
    assert_eq!(replayed(vec![thought("rs_1")]), [Value::Null; 0]);
    // Text that was cut off has nothing to say about what it followed.
    let open = Block::Text { text: "so".into(), metadata: None };
    assert_eq!(replayed(vec![thought("rs_1"), open]), [reasoning_item("rs_1"), bare("so")]);
    // Reasoning that was stored with the provider, or never encrypted.
    let plain = Block::Reasoning { text: "hm".into(), metadata: own(json!({"id": "rs_1"})) };
    assert_eq!(replayed(vec![plain, said("so", json!({"id": "msg_1", "after": "rs_1"}))]), [bare("so")]);
}

#[test]
fn calls_that_nobody_answered_are_left_out() {
    let call = json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {}});
    let output = json!({"type": "computer_call_output", "id": "co_1", "call_id": "c", "output": {}});
    let lone = ran("cu_1", json!({"item": call}));
    assert_eq!(replayed(lone.to_vec()), [Value::Null; 0]);
    let both = [lone, ran("co_1", json!({"item": output}))].concat();
    assert_eq!(replayed(both), [call, output]);
}

#[test]
fn call_ids_are_made_unique_and_short() {
    let call = |id: &str| Block::ToolCall {
        id: id.into(),
        name: "read".into(),
        input: json!({}),
        metadata: own(json!({"id": "fc_1"})),
    };
    let long = "x".repeat(65);
    let items = replayed(vec![call("call_2"), call("call_2"), call(&long)]);
    let field = |name: &str| -> Vec<Option<&str>> { items.iter().map(|item| item[name].as_str()).collect() };
    let short = "x".repeat(64);
    let ids = ["call_2", "call_2_2", &short].map(Some);
    assert_eq!(field("call_id"), [ids, ids].concat());
    assert_eq!(field("id"), [Some("fc_1"), None, None, None, None, None]);
}
