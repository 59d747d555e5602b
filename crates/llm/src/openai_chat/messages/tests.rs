//! Conversations as the servers want them.

use super::*;
use crate::openai_chat::ChatDialect;
use crate::{AnswerOrigin, Endpoint};

const ANYWHERE: &str = "http://localhost:8080/v1";
const MISTRAL: &str = "https://api.mistral.ai/v1";

fn say(text: &str) -> Message {
    Message::User(vec![Content::Text(text.into())])
}

fn answer(blocks: Vec<Block>) -> Message {
    Message::Assistant { blocks, origin: Some(AnswerOrigin::default()) }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into(), metadata: None }
}

fn thought(text: &str, metadata: Option<Value>) -> Block {
    Block::Reasoning { text: text.into(), metadata }
}

fn call(id: &str) -> Block {
    Block::ToolCall { id: id.into(), name: "read".into(), input: json!({}), metadata: None }
}

fn result(id: &str, output: Vec<Content>) -> Message {
    Message::Tool { call_id: id.into(), name: "read".into(), output, is_error: false }
}

fn written(text: &str) -> Vec<Content> {
    vec![Content::Text(text.into())]
}

fn picture() -> Content {
    Content::Media { mime: "image/png".into(), url: "https://x/y.png".into(), filename: None }
}

fn lowered(base_url: &str, model: &str, messages: Vec<Message>) -> Vec<Value> {
    let endpoint = Endpoint::new(base_url);
    let demands = ServerDemands::of(&endpoint, model, ChatDialect::of(&endpoint));
    lower(&ModelRequest { model: model.into(), messages, ..ModelRequest::default() }.repaired(), &demands)
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn check(base_url: &str, model: &str, messages: Vec<Message>, expected: Value) {
    assert_eq!(Value::Array(lowered(base_url, model, messages)), expected);
}

#[test]
fn an_answer_with_everything() {
    let blocks = vec![
        thought("hm", None),
        text("ok"),
        Block::ToolCall {
            id: "c1".into(),
            name: "read".into(),
            input: json!({"filePath": "a"}),
            metadata: Some(json!({METADATA: {"extra_content": {"google": {"thought_signature": "s"}}}})),
        },
        Block::ToolCall { id: "c2".into(), name: "list".into(), input: Value::Null, metadata: None },
    ];
    let mut expected = json!({"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function",
            "function": {"name": "read", "arguments": "{\"filePath\":\"a\"}"},
            "extra_content": {"google": {"thought_signature": "s"}}},
        {"id": "c2", "type": "function", "function": {"name": "list", "arguments": "{}"}},
    ]});
    let spoken = |base_url: &str| lowered(base_url, "m", vec![answer(blocks.clone())]).remove(0);
    assert_eq!(spoken(ANYWHERE), expected);
    expected.as_object_mut().unwrap().shift_remove("reasoning_content");
    assert_eq!(spoken("https://api.openai.com/v1"), expected);
}

#[test]
fn an_answer_of_calls_alone_has_no_content() {
    assert_eq!(lowered(ANYWHERE, "m", vec![answer(vec![call("c")])])[0]["content"], Value::Null);
}

/// An answer with one thought, and one without that called a tool, as this server gets them.
#[track_caller]
fn check_thoughts(base_url: &str, model: &str, metadata: Option<Value>, expected: [Value; 2]) {
    let messages =
        vec![answer(vec![thought("hm", metadata), text("so")]), say("b"), answer(vec![call("123456789")])];
    let lowered = lowered(base_url, model, messages);
    let [first, second] = expected;
    let mut with = json!({"role": "assistant", "content": "so"});
    let mut without = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "123456789", "type": "function", "function": {"name": "read", "arguments": "{}"}}]});
    with.as_object_mut().unwrap().extend(first.as_object().unwrap().clone());
    without.as_object_mut().unwrap().extend(second.as_object().unwrap().clone());
    assert_eq!((&lowered[0], &lowered[2]), (&with, &without), "{base_url} {model}");
}

#[test]
fn thoughts_return_where_they_came_from() {
    let field = |field: &str| Some(json!({METADATA: {"field": field}}));
    let details = Some(json!({METADATA: {"field": "reasoning", "reasoning_details": [{"type": "x"}]}}));
    let none = || json!({});
    check_thoughts(ANYWHERE, "m", None, [json!({"reasoning_content": "hm"}), none()]);
    check_thoughts(ANYWHERE, "m", field("reasoning"), [json!({"reasoning": "hm"}), none()]);
    check_thoughts(ANYWHERE, "m", field("odd"), [json!({"reasoning_content": "hm"}), none()]);
    check_thoughts(ANYWHERE, "m", details, [json!({"reasoning_details": [{"type": "x"}]}), none()]);
    check_thoughts(ANYWHERE, "m", Some(json!({"anthropic": {"signature": "s"}})), [none(), none()]);
}

/// Mistral answered 422 `extra_forbidden` and Groq 400 `reasoning_content is unsupported`.
#[test]
fn servers_that_refuse_the_usual_field_get_their_own() {
    let pieces = json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": true},
        {"type": "text", "text": "so"},
    ]});
    check_thoughts(MISTRAL, "magistral-medium-latest", None, [pieces, json!({})]);
    let reasoning = || [json!({"reasoning": "hm"}), json!({})];
    check_thoughts("https://api.groq.com/openai/v1", "openai/gpt-oss-120b", None, reasoning());
    check_thoughts("https://api.cerebras.ai/v1", "gpt-oss-120b", None, reasoning());
}

/// Both answered 400, `reasoning_content is missing in assistant tool call message`.
#[test]
fn servers_that_demand_thoughts_get_something_in_their_place() {
    let expected = |filler: &str| [json!({"reasoning_content": "hm"}), json!({"reasoning_content": filler})];
    check_thoughts("https://api.deepseek.com/v1", "deepseek-v4-pro", None, expected(""));
    check_thoughts("https://api.moonshot.ai/v1", "kimi-k2.6", None, expected(" "));
    check_thoughts("https://gateway.example.com/v1", "moonshotai/kimi-k2.6", None, expected(" "));

    let foreign = vec![say("a"), answer(vec![text("b")]), say("c")];
    let plain = json!({"role": "assistant", "content": "b"});
    assert_eq!(lowered("https://api.moonshot.ai/v1", "kimi-k2.6", foreign.clone())[1], plain);
    // Here an answer without calls is refused as well.
    let filled = json!({"role": "assistant", "content": "b", "reasoning_content": ""});
    assert_eq!(lowered("https://api.deepseek.com/v1", "deepseek-v4-pro", foreign)[1], filled);
}

/// The templates of llama.cpp and vLLM raise "conversation roles must alternate".
#[test]
fn neighbours_of_one_side_are_said_as_one() {
    check(
        ANYWHERE,
        "m",
        vec![
            say("a"),
            say("b"),
            answer(vec![thought("only a thought", None)]),
            Message::System("c".into()),
            answer(vec![text("d")]),
            answer(vec![text("e"), call("x")]),
            result("x", vec![picture()]),
            Message::User(vec![Content::Text("f".into()), picture()]),
            say("g"),
        ],
        json!([
            {"role": "user", "content": "a\n\nb\n\n<system-update>\nc\n</system-update>"},
            {"role": "assistant", "content": "d\n\ne", "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "x", "content": "The result is attached."},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "text", "text": "f"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "text", "text": "g"},
            ]},
        ]),
    );
}

/// Mistral answered "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9" and "Unexpected role 'user'
/// after role 'tool'".
#[test]
fn mistral_gets_ids_and_an_order_of_its_own() {
    let messages = vec![
        say("a"),
        answer(vec![call("call_1"), call("D681PevKs")]),
        result("call_1", written("1")),
        result("D681PevKs", written("2")),
        say("b"),
        answer(vec![call("call_1")]),
        result("call_1", written("3")),
    ];
    let called =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let given = |id: &str, output: &str| json!({"role": "tool", "tool_call_id": id, "content": output});
    let expected = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [called("on0B7kbSV"), called("D681PevKs")]},
        given("on0B7kbSV", "1"),
        given("D681PevKs", "2"),
        {"role": "assistant", "content": "Understood."},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": null, "tool_calls": [called("DTSTDTHGX")]},
        given("DTSTDTHGX", "3"),
    ]);
    check(MISTRAL, "mistral-large-latest", messages.clone(), expected.clone());
    check(ANYWHERE, "mistralai/Devstral-Small-2-24B", messages, expected);
}

#[test]
fn ids_that_openai_would_refuse_give_way() {
    let long = "x".repeat(41);
    let lowered = lowered(ANYWHERE, "m", vec![answer(vec![call(&long), call("functions.read:0")])]);
    let ids: Vec<&str> = lowered.iter().filter_map(|one| one["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["x".repeat(40).as_str(), "functions.read:0"]);
}

#[test]
fn attachments() {
    let check = |mime: &str, url: &str, expected: Value| {
        let content = Content::Media { mime: mime.into(), url: url.into(), filename: Some("f".into()) };
        assert_eq!(piece(&content), expected, "{mime} {url}");
    };
    check(
        "image/png",
        "data:image/png;base64,AA",
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}),
    );
    check(
        "audio/mpeg",
        "data:audio/mpeg;base64,AA",
        json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}),
    );
    check(
        "application/pdf",
        "data:application/pdf;base64,AA",
        json!({"type": "file", "file": {"filename": "f", "file_data": "data:application/pdf;base64,AA"}}),
    );
    let text = |text: &str| json!({"type": "text", "text": text});
    check("text/plain", "data:text/plain;base64,aGk=", text("[attachment f]\nhi"));
    check("application/pdf", "https://x/y", text("[attachment f (application/pdf): https://x/y]"));
    // These went out as pictures and files, and each locked its session.
    check("image/svg+xml", "data:image/svg+xml,%3Csvg/%3E", text("[attachment f]\n<svg/>"));
    check("image/bmp", "data:image/bmp;base64,AA", text("[attachment f (image/bmp) cannot be shown]"));
    check("image/heic", "https://x/y", text("[attachment f (image/heic): https://x/y]"));
    check("image/png", "file:///x", text("[attachment f (image/png) cannot be reached]"));
    check("video/mp4", "data:video/mp4;base64,AA", text("[attachment f (video/mp4) cannot be shown]"));
    check("application/zip", "data:;base64,AA", text("[attachment f (application/zip) cannot be shown]"));
}

#[test]
fn what_a_tool_gave_stays_in_its_result_if_it_is_text() {
    let note =
        Content::Media { mime: "text/plain".into(), url: "data:,hi".into(), filename: Some("f".into()) };
    let messages =
        vec![answer(vec![call("x")]), result("x", vec![Content::Text("see".into()), note, picture()])];
    let expected = [
        json!({"role": "tool", "tool_call_id": "x", "content": "see\n[attachment f]\nhi"}),
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}),
    ];
    assert_eq!(lowered(ANYWHERE, "m", messages)[1..], expected);
}
