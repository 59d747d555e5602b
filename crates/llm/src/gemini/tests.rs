//! Transcripts of answers into events: each one whole, byte by byte and cut at every offset.

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::transcript::{self, TranscriptEnd};
use crate::{FinishReason, StreamEvent, Usage};

/// Expects the same events from a stream of frames and, if they are complete, from a list of them.
#[track_caller]
fn check(frames: &[Value], expected: &[StreamEvent], outcome: &TranscriptEnd) {
    check_text(&stream(frames), expected, outcome);
    let listed = Value::Array(frames.to_vec()).to_string();
    let (events, ended) = whole(&listed);
    assert_eq!((events.as_slice(), &ended), (expected, outcome), "as a list");
}

#[track_caller]
fn check_text(text: &str, expected: &[StreamEvent], outcome: &TranscriptEnd) {
    transcript::check(decoder, text, expected, outcome);
}

fn decoder() -> Decoder {
    Decoder::new("call_x".into())
}

fn whole(json: &str) -> (Vec<StreamEvent>, TranscriptEnd) {
    transcript::whole(decoder(), json)
}

/// Frames as the server sends them.
fn stream(frames: &[Value]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\r\n\r\n")).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "modelVersion": "m", "responseId": "r-1"})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "modelVersion": "m", "responseId": "r-1"})
}

fn step(reason: FinishReason, word: &str) -> StreamEvent {
    step_with(reason, word, Usage::default())
}

fn step_with(reason: FinishReason, word: &str, usage: Usage) -> StreamEvent {
    let metadata = json!({"gemini": {"responseId": "r-1", "modelVersion": "m", "finishReason": word}});
    StreamEvent::StepFinish { reason, usage, metadata: Some(metadata) }
}

fn text(id: &str, words: &[&str], signature: Option<&str>) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::TextStart { id: id.into() }];
    events.extend(words.iter().map(|word| StreamEvent::TextDelta { id: id.into(), text: (*word).into() }));
    events.push(StreamEvent::TextEnd { id: id.into(), metadata: signed(signature) });
    events
}

fn reasoning(id: &str, words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::ReasoningStart { id: id.into() }];
    events
        .extend(words.iter().map(|word| StreamEvent::ReasoningDelta { id: id.into(), text: (*word).into() }));
    events.push(StreamEvent::ReasoningEnd { id: id.into(), metadata });
    events
}

fn signed(signature: Option<&str>) -> Option<Value> {
    signature.map(|signature| json!({"gemini": {"thoughtSignature": signature}}))
}

fn call(id: &str, name: &str, raw: &str, metadata: Option<Value>) -> Vec<StreamEvent> {
    let input = serde_json::from_str(raw).unwrap();
    vec![
        StreamEvent::ToolInputStart { id: id.into(), name: name.into() },
        StreamEvent::ToolInputDelta { id: id.into(), text: raw.into() },
        StreamEvent::ToolInputEnd { id: id.into() },
        StreamEvent::ToolCall { id: id.into(), name: name.into(), input, raw: raw.into(), metadata },
    ]
}

#[test]
fn text_in_several_frames() {
    let frames = [
        parts(json!([{"text": "Grüße, "}])),
        parts(json!([{"text": ""}, {"text": "🦀"}])),
        finish("STOP"),
        json!({"usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3, "totalTokenCount": 15}}),
    ];
    let mut expected = text("text-0", &["Grüße, ", "🦀"], None);
    let usage = Usage { input: 12, output: 3, total: Some(15), ..Usage::default() };
    expected.push(step_with(FinishReason::Stop, "STOP", usage));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_finish_reason_in_every_frame() {
    let frame = |word: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": word}]}, "finishReason": "STOP"}],
            "modelVersion": "m", "responseId": "r-1"})
    };
    let mut expected = text("text-0", &["a", "b"], None);
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&[frame("a"), frame("b")], &expected, &TranscriptEnd::Complete);
}

#[test]
fn thoughts_and_signatures() {
    let frames = [
        parts(json!([{"text": "Let me ", "thought": true}])),
        parts(json!([{"text": "see.", "thought": true}])),
        parts(json!([{"text": "It is "}])),
        parts(json!([{"text": "four."}])),
        parts(json!([{"text": "", "thoughtSignature": "s1"}])),
        finish("STOP"),
    ];
    let mut expected = reasoning("reasoning-0", &["Let me ", "see."], None);
    expected.extend(text("text-1", &["It is ", "four."], Some("s1")));
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_signature_ends_its_block() {
    let frames = [
        parts(
            json!([{"text": "hm", "thought": true}, {"text": "so", "thought": true, "thoughtSignature": "s1"}]),
        ),
        parts(
            json!([{"text": "more", "thought": true}, {"text": "", "thought": true, "thoughtSignature": "s2"}]),
        ),
        parts(json!([{"text": "a", "thoughtSignature": "s3"}, {"text": "b"}])),
        finish("STOP"),
    ];
    let mut expected = reasoning("reasoning-0", &["hm", "so"], signed(Some("s1")));
    expected.extend(reasoning("reasoning-1", &["more"], signed(Some("s2"))));
    expected.extend(text("text-2", &["a"], Some("s3")));
    expected.extend(text("text-3", &["b"], None));
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_signature_on_its_own_is_kept() {
    let frames = [
        parts(json!([{"text": "hm", "thought": true}])),
        parts(json!([{"text": "", "thoughtSignature": "s1"}])),
        parts(json!([{"thoughtSignature": "s2"}])),
        finish("STOP"),
    ];
    let silent = |signature: &str| Some(json!({"gemini": {"thoughtSignature": signature, "silent": true}}));
    let mut expected = reasoning("reasoning-0", &["hm"], None);
    expected.extend(reasoning("reasoning-1", &[], silent("s1")));
    expected.extend(reasoning("reasoning-2", &[], silent("s2")));
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn two_calls_at_once() {
    let frames = [
        parts(json!([{"text": "Looking."}])),
        parts(json!([
            {"functionCall": {"id": "f1", "name": "read", "args": {"z": "Zürich", "a": [1]}}, "thoughtSignature": "s1"},
            {"functionCall": {"id": "f2", "name": "list", "args": {}}},
        ])),
        finish("STOP"),
    ];
    let mut expected = text("text-0", &["Looking."], None);
    let first = json!({"gemini": {"id": "f1", "thoughtSignature": "s1"}});
    expected.extend(call("f1", "read", r#"{"z":"Zürich","a":[1]}"#, Some(first)));
    expected.extend(call("f2", "list", "{}", Some(json!({"gemini": {"id": "f2"}}))));
    expected.push(step(FinishReason::ToolCalls, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn calls_without_an_id_or_with_one_twice() {
    let frames = [
        parts(
            json!([{"functionCall": {"name": "a"}}, {"functionCall": {"name": "b", "args": null, "id": ""}}]),
        ),
        parts(
            json!([{"functionCall": {"name": "c", "id": "x"}}, {"functionCall": {"name": "c", "id": "x"}}]),
        ),
        finish("STOP"),
    ];
    let mut expected = call("call_x_0", "a", "{}", None);
    expected.extend(call("call_x_1", "b", "{}", None));
    expected.extend(call("x", "c", "{}", Some(json!({"gemini": {"id": "x"}}))));
    expected.extend(call("call_x_2", "c", "{}", None));
    expected.push(step(FinishReason::ToolCalls, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn calls_that_cannot_be_run() {
    let check_one = |function: Value, name: &str, raw: &str, reason: &str| {
        let id = "call_x_0".to_owned();
        let expected = [
            StreamEvent::ToolInputStart { id: id.clone(), name: name.into() },
            StreamEvent::ToolInputDelta { id: id.clone(), text: raw.into() },
            StreamEvent::ToolInputEnd { id: id.clone() },
            StreamEvent::ToolCallMalformed { id, name: name.into(), raw: raw.into(), reason: reason.into() },
            step(FinishReason::ToolCalls, "STOP"),
        ];
        check(
            &[parts(json!([{"functionCall": function}])), finish("STOP")],
            &expected,
            &TranscriptEnd::Complete,
        );
    };
    check_one(json!({"name": "a", "args": [1]}), "a", "[1]", "the arguments are not a JSON object");
    check_one(json!({"args": {}}), "", "{}", "the call names no tool");
}

#[test]
fn usage_with_cache_and_thoughts() {
    let mut last = finish("MAX_TOKENS");
    last["usageMetadata"] = json!({"promptTokenCount": 100, "cachedContentTokenCount": 60,
        "candidatesTokenCount": 30, "thoughtsTokenCount": 20, "toolUsePromptTokenCount": 5, "totalTokenCount": 155,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}]});
    let mut first = parts(json!([{"text": "hi"}]));
    first["usageMetadata"] = json!({"promptTokenCount": 100, "totalTokenCount": 100});
    let mut expected = text("text-0", &["hi"], None);
    let usage =
        Usage { input: 45, output: 30, reasoning: 20, cache_read: 60, cache_write: 0, total: Some(155) };
    expected.push(step_with(FinishReason::Length, "MAX_TOKENS", usage));
    check(&[first, last], &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_blocked_prompt() {
    let feedback = json!({"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []});
    let frame = json!({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4},
        "modelVersion": "m", "responseId": "r-1"});
    let metadata = json!({"gemini":
        {"responseId": "r-1", "modelVersion": "m", "finishReason": null, "promptFeedback": feedback}});
    let expected = [StreamEvent::StepFinish {
        reason: FinishReason::ContentFilter,
        usage: Usage { input: 4, total: Some(4), ..Usage::default() },
        metadata: Some(metadata),
    }];
    check(&[frame], &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_safety_stop_in_mid_answer() {
    let mut expected = text("text-0", &["First,"], None);
    expected.push(step(FinishReason::ContentFilter, "SAFETY"));
    check(&[parts(json!([{"text": "First,"}])), finish("SAFETY")], &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_error_in_mid_answer() {
    let error =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let mut open = text("text-0", &["hi"], None);
    open.pop();
    check(
        &[parts(json!([{"text": "hi"}])), error.clone()],
        &open,
        &TranscriptEnd::Provider(error.to_string()),
    );
    let listed = format!("data: [{error}]\n\n");
    check_text(&listed, &[], &TranscriptEnd::Provider(error.to_string()));
    assert_eq!(whole(&error.to_string()), (vec![], TranscriptEnd::Provider(error.to_string())));
}

#[test]
fn an_empty_answer() {
    check(&[finish("STOP")], &[step(FinishReason::Stop, "STOP")], &TranscriptEnd::Complete);
    let empty = json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}],
        "modelVersion": "m", "responseId": "r-1"});
    check(&[empty], &[step(FinishReason::Stop, "STOP")], &TranscriptEnd::Complete);
}

#[test]
fn code_run_by_the_provider() {
    let code =
        json!({"executableCode": {"language": "PYTHON", "code": "print(4)"}, "thoughtSignature": "s1"});
    let done = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4\n"}});
    let again = json!({"executableCode": {"id": "e1", "language": "PYTHON", "code": "1/0"}});
    let failed = json!({"codeExecutionResult": {"id": "e1", "outcome": "OUTCOME_FAILED", "output": "oops"}});
    let frames = [
        parts(json!([{"text": "I count."}])),
        parts(json!([code])),
        parts(json!([done, again, failed])),
        parts(json!([{"text": "Four."}])),
        finish("STOP"),
    ];
    let hosted_call = |id: &str, part: &Value| StreamEvent::HostedCall {
        id: id.into(),
        name: "code_execution".into(),
        input: part["executableCode"].clone(),
        metadata: Some(json!({"gemini": {"part": part}})),
    };
    let hosted_result = |id: &str, part: &Value, is_error: bool| StreamEvent::HostedResult {
        id: id.into(),
        name: "code_execution".into(),
        output: part["codeExecutionResult"].clone(),
        is_error,
        metadata: Some(json!({"gemini": {"part": part}})),
    };
    let mut expected = text("text-0", &["I count."], None);
    expected.push(hosted_call("call_x_0", &code));
    expected.push(hosted_result("call_x_0", &done, false));
    expected.push(hosted_call("e1", &again));
    expected.push(hosted_result("e1", &failed, true));
    expected.extend(text("text-1", &["Four."], None));
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_picture_made_by_the_model() {
    let part = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "s1"});
    let (id, name) = ("call_x_0".to_owned(), "inline_data".to_owned());
    let input = json!({"mimeType": "image/png"});
    let expected = [
        StreamEvent::HostedCall { id: id.clone(), name: name.clone(), input, metadata: None },
        StreamEvent::HostedResult {
            id,
            name,
            output: part["inlineData"].clone(),
            is_error: false,
            metadata: Some(json!({"gemini": {"part": part}})),
        },
        step(FinishReason::Stop, "STOP"),
    ];
    check(&[parts(json!([part])), finish("STOP")], &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_cut_short_is_incomplete() {
    let frames = [parts(json!([{"text": "hi"}])), finish("STOP")];
    let mut open = text("text-0", &["hi"], None);
    open.pop();
    check(&frames[..1], &open, &TranscriptEnd::Incomplete);
    let input = stream(&frames);
    let second = stream(&frames[..1]).len();
    check_text(input.get(..second + 30).unwrap(), &open, &TranscriptEnd::Incomplete);
    // The last frame counts without its blank line, if it is whole.
    let mut complete = text("text-0", &["hi"], None);
    complete.push(step(FinishReason::Stop, "STOP"));
    check_text(input.trim_end(), &complete, &TranscriptEnd::Complete);
    check_text("", &[], &TranscriptEnd::Incomplete);
    let unspecified = finish("FINISH_REASON_UNSPECIFIED");
    check(&[unspecified], &[], &TranscriptEnd::Incomplete);
}

#[test]
fn unknown_parts_and_candidates_are_passed_over() {
    let other =
        json!({"candidates": [{"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "STOP"}]});
    let frames = [
        parts(
            json!([{"hologram": {"x": 1}}, {"text": "a"}, {}, null, 7, {"text": 5}, {"functionCall": null}]),
        ),
        parts(json!(null)),
        other,
        json!({"candidates": [], "novelty": true}),
        json!({}),
        parts(json!([{"fileData": {"fileUri": "x"}}, {"text": "b"}])),
        finish("STOP"),
    ];
    let mut expected = text("text-0", &["a", "b"], None);
    expected.push(step(FinishReason::Stop, "STOP"));
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn reasons() {
    let check_one = |word: &str, reason: FinishReason| {
        check(&[finish(word)], &[step(reason, word)], &TranscriptEnd::Complete);
    };
    for word in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"] {
        check_one(word, FinishReason::ContentFilter);
    }
    for word in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"] {
        check_one(word, FinishReason::Error);
    }
    for word in ["OTHER", "LANGUAGE", "SOMETHING_NEW"] {
        check_one(word, FinishReason::Unknown);
    }
}

#[test]
fn sources_are_kept_with_the_finish() {
    let with = |fields: Value| {
        let mut frame = parts(json!([{"text": "a"}]));
        let candidate = frame["candidates"][0].as_object_mut().unwrap();
        candidate.extend(fields.as_object().unwrap().clone());
        frame
    };
    let frames = [
        with(json!({"citationMetadata": {"citationSources": [{"uri": "x"}]}, "groundingMetadata": {"n": 1}})),
        with(json!({"citationMetadata": {"citationSources": [{"uri": "y"}]}, "groundingMetadata": {"n": 2}})),
        with(json!({"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "it is odd"})),
    ];
    let metadata = json!({"gemini": {"responseId": "r-1", "modelVersion": "m",
        "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "it is odd", "groundingMetadata": {"n": 2},
        "citationMetadata": {"citationSources": [{"uri": "x"}, {"uri": "y"}]}}});
    let mut expected = text("text-0", &["a", "a", "a"], None);
    expected.push(StreamEvent::StepFinish {
        reason: FinishReason::Error,
        usage: Usage::default(),
        metadata: Some(metadata),
    });
    check(&frames, &expected, &TranscriptEnd::Complete);
}

#[test]
fn one_answer_in_one_object() {
    let answer = json!({
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "Hm.", "thought": true},
            {"text": "I look."},
            {"functionCall": {"id": "f1", "name": "read", "args": {"a": 1}}, "thoughtSignature": "s1"},
        ]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
        "modelVersion": "m", "responseId": "r-1",
    });
    let mut expected = reasoning("reasoning-0", &["Hm."], None);
    expected.extend(text("text-1", &["I look."], None));
    let metadata = json!({"gemini": {"id": "f1", "thoughtSignature": "s1"}});
    expected.extend(call("f1", "read", r#"{"a":1}"#, Some(metadata)));
    let usage = Usage { input: 3, output: 4, total: Some(7), ..Usage::default() };
    expected.push(step_with(FinishReason::ToolCalls, "STOP", usage));
    check(std::slice::from_ref(&answer), &expected, &TranscriptEnd::Complete);
    assert_eq!(whole(&answer.to_string()), (expected, TranscriptEnd::Complete));
}

#[test]
fn what_is_no_answer() {
    check_text("data: what?\n\n", &[], &TranscriptEnd::Malformed);
    check_text("data: 7\n\n", &[], &TranscriptEnd::Malformed);
    for json in ["", "{}", "[]", "[7]", "what?"] {
        assert_eq!(whole(json), (vec![], TranscriptEnd::Malformed), "{json}");
    }
}
