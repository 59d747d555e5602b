//! Bodies of requests.

use super::*;
use crate::gemini::METADATA;
use crate::gemini::rule_tests::assert_valid;
use crate::{AnswerOrigin, Block, Content, Endpoint, Message, ToolSpec, test_sample};

fn say(text: &str) -> Message {
    Message::User(vec![Content::Text(text.into())])
}

fn answer(blocks: Vec<Block>) -> Message {
    Message::Assistant { blocks, origin: Some(AnswerOrigin::default()) }
}

fn text(text: &str, metadata: Option<Value>) -> Block {
    Block::Text { text: text.into(), metadata }
}

fn call(id: &str, metadata: Option<Value>) -> Block {
    Block::ToolCall { id: id.into(), name: "read".into(), input: json!({"n": 1}), metadata }
}

fn result(id: &str, output: Vec<Content>, is_error: bool) -> Message {
    Message::Tool { call_id: id.into(), name: "read".into(), output, is_error }
}

fn media(mime: &str, url: &str) -> Content {
    Content::Media { mime: mime.into(), url: url.into(), filename: Some("f".into()) }
}

fn written(text: &str) -> Vec<Content> {
    vec![Content::Text(text.into())]
}

fn request(model: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest { model: model.into(), messages, ..ModelRequest::default() }.repaired()
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn check_on(model: &str, messages: Vec<Message>, expected: Value) {
    let body = body(&request(model, messages));
    assert_eq!(body["contents"], expected);
    assert_valid(&body);
}

#[track_caller]
fn check(messages: Vec<Message>, expected: Value) {
    check_on("m-1", messages, expected);
}

#[test]
fn address_and_key() {
    let call = |endpoint: &Endpoint, model: &str| {
        let gemini = crate::Gemini::new(endpoint.clone());
        endpoint.post(&crate::Provider::prepare(&gemini, request(model, vec![say("hi")])))
    };
    let mut endpoint = Endpoint::new("https://example.com/v1beta/").with_api_key("secret-key");
    let post = call(&endpoint, "gemini-2.5-pro");
    assert_eq!(post.url, "https://example.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert!(post.headers.contains(&("x-goog-api-key".to_owned(), "secret-key".to_owned())));
    endpoint.query = vec![("key".into(), "a b".into()), ("x".into(), "1".into())];
    assert_eq!(
        call(&endpoint, "models/gemini-2.5-pro").url,
        "https://example.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=a+b&x=1"
    );
    assert_eq!(
        call(&endpoint, "models/../x?y").url,
        "https://example.com/v1beta/models/..%2Fx%3Fy:streamGenerateContent?alt=sse&key=a+b&x=1"
    );
}

#[test]
fn least_body() {
    let request = request("gemini-2.0-flash", vec![say("hi")]);
    assert_eq!(body(&request), json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
}

#[test]
fn tool_choices() {
    let tools = vec![ToolSpec {
        name: "now".into(),
        description: "Tells the time.".into(),
        schema: json!({}).into(),
    }];
    let check = |tool_choice: ToolChoice, expected: Value| {
        let request = ModelRequest { tools: tools.clone(), tool_choice, ..ModelRequest::default() };
        let body = body(&request);
        assert_eq!(body["toolConfig"], json!({"functionCallingConfig": expected}));
        let declared = json!([{"functionDeclarations": [{"name": "now", "description": "Tells the time."}]}]);
        assert_eq!(body["tools"], declared);
    };
    check(ToolChoice::Auto, json!({"mode": "AUTO"}));
    check(ToolChoice::None, json!({"mode": "NONE"}));
    check(ToolChoice::Required, json!({"mode": "ANY"}));
    check(ToolChoice::Tool("now".into()), json!({"mode": "ANY", "allowedFunctionNames": ["now"]}));
    let without = body(&ModelRequest { tool_choice: ToolChoice::Required, ..ModelRequest::default() });
    assert_eq!((without.get("tools"), without.get("toolConfig")), (None, None));
}

#[test]
fn shape_of_the_answer() {
    let check = |model: &str, tool_choice: ToolChoice, has_tools: bool, enforced: bool| {
        let mut request = test_sample::conversation(None, None);
        request.model = model.into();
        request.tool_choice = tool_choice;
        request.tools.truncate(if has_tools { 1 } else { 0 });
        let body = body(&request);
        let instructions = body["systemInstruction"]["parts"].as_array().unwrap().len();
        let config = &body["generationConfig"];
        assert_eq!(
            (config.get("responseSchema").is_some(), instructions),
            (enforced, if enforced { 2 } else { 3 })
        );
        assert_eq!(config.get("responseMimeType").is_some(), enforced);
    };
    check("gemini-2.5-pro", ToolChoice::Auto, false, true);
    check("gemini-2.5-pro", ToolChoice::Auto, true, false);
    check("gemini-2.5-pro", ToolChoice::None, true, true);
    check("gemini-3-pro-preview", ToolChoice::Auto, true, true);
    check("m-1", ToolChoice::Auto, true, false);
}

#[test]
fn options_come_last() {
    let options = json!({
        "generationConfig": {"topP": 0.9, "temperature": 0.1},
        "tools": [{"codeExecution": {}}],
        "safetySettings": [{"category": "X"}],
        "systemInstruction": null,
    });
    let mut request = test_sample::conversation(None, None);
    request.options = options.as_object().unwrap().clone();
    let body = body(&request);
    assert_eq!(body["generationConfig"]["topP"], 0.9);
    assert_eq!(body["generationConfig"]["temperature"], 0.1);
    assert_eq!(body["generationConfig"]["maxOutputTokens"], 4_000);
    assert_eq!(body["tools"][0]["functionDeclarations"].as_array().unwrap().len(), 2);
    assert_eq!(body["tools"][1], json!({"codeExecution": {}}));
    assert_eq!(body["safetySettings"], json!([{"category": "X"}]));
    assert_eq!(body["systemInstruction"], Value::Null);
}

#[test]
fn turns_are_joined_and_begin_with_the_user() {
    check(vec![], json!([{"role": "user", "parts": [{"text": "Let us begin."}]}]));
    check(
        vec![
            answer(vec![text("a", None)]),
            answer(vec![Block::Reasoning { text: "not signed".into(), metadata: None }]),
            answer(vec![text("b", None)]),
            say("c"),
            Message::System("d".into()),
            say("e"),
        ],
        json!([
            {"role": "user", "parts": [{"text": "Let us begin."}]},
            {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "user", "parts": [
                {"text": "c"}, {"text": "<system-update>\nd\n</system-update>"}, {"text": "e"}]},
        ]),
    );
    // A thought that is not replayed leaves no turn behind.
    let thought = Block::Reasoning { text: "not signed".into(), metadata: None };
    check(
        vec![say("a"), answer(vec![thought]), say("b")],
        json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]),
    );
}

#[test]
fn signatures_return_to_their_parts() {
    let signed = |signature: &str| Some(json!({METADATA: {"thoughtSignature": signature}}));
    let silent = Some(json!({METADATA: {"thoughtSignature": "s4", "silent": true}}));
    check(
        vec![
            say("hi"),
            answer(vec![
                Block::Reasoning { text: "hm".into(), metadata: signed("s1") },
                text("a", signed("s2")),
                text("b", Some(json!({"anthropic": {"thoughtSignature": "x"}}))),
                Block::Reasoning { text: String::new(), metadata: silent },
                call("c", signed("s3")),
            ]),
        ],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "s1"},
                {"text": "a", "thoughtSignature": "s2"},
                {"text": "b"},
                {"text": "", "thoughtSignature": "s4"},
                {"functionCall": {"name": "read", "args": {"n": 1}}, "thoughtSignature": "s3"},
            ]},
            {"role": "user", "parts": [{"functionResponse": {
                "name": "read", "response": {"error": "Tool execution was interrupted"}}}]},
        ]),
    );
}

#[test]
fn calls_that_nobody_signed() {
    let messages = || vec![say("hi"), answer(vec![call("a", None), call("b", None)])];
    let expected = |first: Value| {
        let interrupted = json!({"functionResponse": {
            "name": "read", "response": {"error": "Tool execution was interrupted"}}});
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [first, {"functionCall": {"name": "read", "args": {"n": 1}}}]},
            {"role": "user", "parts": [interrupted, interrupted]},
        ])
    };
    let plain = json!({"functionCall": {"name": "read", "args": {"n": 1}}});
    let mut excused = plain.clone();
    excused["thoughtSignature"] = json!("skip_thought_signature_validator");
    check_on("gemini-2.5-pro", messages(), expected(plain));
    check_on("gemini-3-pro-preview", messages(), expected(excused));
}

#[test]
fn results_with_ids_errors_and_pictures() {
    let given = |id: &str| Some(json!({METADATA: {"id": id}}));
    let picture = media("image/png", "data:image/png;base64,AA==");
    let response = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "read", "response": response}});
    let called = |id: &str| json!({"functionCall": {"id": id, "name": "read", "args": {"n": 1}}});
    let part = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    check(
        vec![
            say("hi"),
            answer(vec![call("a", given("a")), call("b", given("b"))]),
            result("a", vec![picture.clone()], false),
            result("b", vec![Content::Text("broken".into()), picture], true),
            say("and?"),
            answer(vec![call("a", None)]),
            result("a", written(""), false),
        ],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [called("a"), called("b")]},
            {"role": "user", "parts": [
                response("a", json!({"output": "The result is attached."})), response("b", json!({"error": "broken"})),
                part, part, {"text": "and?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"n": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": ""}}}]},
        ]),
    );
}

#[test]
fn hosted_parts_come_back_verbatim() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"});
    let done = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}});
    let kept = |part: &Value| Some(json!({METADATA: {"part": part}}));
    let (id, name) = ("h".to_owned(), "code_execution".to_owned());
    let run =
        Block::HostedCall { id: id.clone(), name: name.clone(), input: json!({}), metadata: kept(&code) };
    let ran = Block::HostedResult { id, name, output: json!({}), metadata: kept(&done) };
    check(
        vec![say("hi"), answer(vec![run, ran, text("1", None)])],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [code, done, {"text": "1"}]},
        ]),
    );
}

#[test]
fn attachments() {
    let check = |mime: &str, url: &str, expected: Value| {
        let contents = vec![Content::Text("see".into()), media(mime, url)];
        check(vec![Message::User(contents)], json!([{"role": "user", "parts": [{"text": "see"}, expected]}]));
    };
    let inline = |mime: &str, data: &str| json!({"inlineData": {"mimeType": mime, "data": data}});
    check("image/png", "data:image/png;base64,AA==", inline("image/png", "AA=="));
    check("", "data:image/webp;x=y;base64,AA==", inline("image/webp", "AA=="));
    check("image/jpg", "data:image/jpg,%00", inline("image/jpeg", "AA=="));
    check("image/heic", "data:image/heic;base64,AA==", inline("image/heic", "AA=="));
    // These went out as pictures and files, and each locked its session.
    let text = |text: &str| json!({"text": text});
    check("image/svg+xml", "data:image/svg+xml,%3Csvg%2F%3E%", text("[attachment f]\n<svg/>%"));
    check("image/gif", "data:;base64,AA==", text("[attachment f (image/gif) cannot be shown]"));
    check("image/bmp", "https://x/y", text("[attachment f (image/bmp): https://x/y]"));
    check("audio/midi", "data:;base64,AA==", text("[attachment f (audio/midi) cannot be shown]"));
    check("application/zip", "data:;base64,AA==", text("[attachment f (application/zip) cannot be shown]"));
    check("text/x-rust", "data:text/x-rust;base64,aGk=", json!({"text": "[attachment f]\nhi"}));
    check("text/plain", "data:text/plain;base64,?", json!({"text": "[attachment f could not be decoded]"}));
    check("image/png", "data:image/png;base64,", json!({"text": "[attachment f is empty]"}));
    check(
        "video/mp4",
        "https://x/y",
        json!({"fileData": {"mimeType": "video/mp4", "fileUri": "https://x/y"}}),
    );
    check("image/png", "file:///x", json!({"text": "[attachment f (image/png) cannot be reached]"}));
}

/// What this protocol would have attached to the thoughts and the first call of the sample.
fn metadata() -> (Option<Value>, Option<Value>) {
    let thought = json!({METADATA: {"thoughtSignature": "c2lnLTE="}});
    let call = json!({METADATA: {"id": "call_1", "thoughtSignature": "c2lnLTI="}});
    (Some(thought), Some(call))
}

fn pretty(request: ModelRequest) -> String {
    let body = body(&request.repaired());
    assert_valid(&body);
    serde_json::to_string_pretty(&body).unwrap()
}

#[test]
fn a_conversation_with_everything_in_it() {
    let (thought, call) = metadata();
    let asked = |model: &str| ModelRequest {
        model: model.into(),
        ..test_sample::conversation(thought.clone(), call.clone())
    };
    insta::assert_snapshot!("everything_second_generation", pretty(asked("gemini-2.5-pro")));
    insta::assert_snapshot!("everything_third_generation", pretty(asked("gemini-3-pro-preview")));
}

#[test]
fn the_same_conversation_after_a_switch() {
    let (thought, call) = metadata();
    let request =
        ModelRequest { model: "gemini-3-pro-preview".into(), ..test_sample::switched(thought, call) };
    insta::assert_snapshot!("switched", pretty(request));
}
