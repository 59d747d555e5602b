//! Transcripts of answers into events: each one whole, byte by byte and cut at every offset.

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::transcript::{self, TranscriptEnd};
use crate::{FinishReason, StreamEvent, Usage};

#[track_caller]
fn check(transcript: &str, expected: &[StreamEvent], outcome: &TranscriptEnd) {
    transcript::check(|| Decoder::new("call_x".into()), transcript, expected, outcome);
}

/// Chunks as a server sends them, ending in the terminal frame.
fn transcript(chunks: &[Value]) -> String {
    let frames = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    frames.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn delta(delta: Value) -> Value {
    json!({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn step(reason: FinishReason, word: &str, usage: Usage) -> StreamEvent {
    let metadata = json!({"openai-chat": {"id": "cmpl-1", "model": "m", "finish_reason": word}});
    StreamEvent::StepFinish { reason, usage, metadata: Some(metadata) }
}

fn text(words: &[&str]) -> Vec<StreamEvent> {
    block("text-0", words)
}

fn block(id: &str, words: &[&str]) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::TextStart { id: id.into() }];
    events.extend(words.iter().map(|word| StreamEvent::TextDelta { id: id.into(), text: (*word).into() }));
    events.push(StreamEvent::TextEnd { id: id.into(), metadata: None });
    events
}

fn reasoning(words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let id = "reasoning-0".to_owned();
    let mut events = vec![StreamEvent::ReasoningStart { id: id.clone() }];
    events.extend(
        words.iter().map(|word| StreamEvent::ReasoningDelta { id: id.clone(), text: (*word).into() }),
    );
    events.push(StreamEvent::ReasoningEnd { id, metadata });
    events
}

fn call(id: &str, name: &str, pieces: &[&str], input: Value) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::ToolInputStart { id: id.into(), name: name.into() }];
    events.extend(
        pieces.iter().map(|piece| StreamEvent::ToolInputDelta { id: id.into(), text: (*piece).into() }),
    );
    events.push(StreamEvent::ToolInputEnd { id: id.into() });
    let raw = pieces.concat();
    events.push(StreamEvent::ToolCall { id: id.into(), name: name.into(), input, raw, metadata: None });
    events
}

#[test]
fn text_with_usage_after_the_finish() {
    let usage = json!({"id": "cmpl-1", "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3,
        "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 8}}});
    let input = transcript(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Grüße, "})),
        delta(json!({"content": "🦀"})),
        finish("stop"),
        usage,
    ]);
    let usage = Usage { input: 4, output: 3, cache_read: 8, total: Some(15), ..Usage::default() };
    let mut expected = text(&["Grüße, ", "🦀"]);
    expected.push(step(FinishReason::Stop, "stop", usage));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn reasoning_then_text_then_several_calls() {
    let input = transcript(&[
        delta(json!({"reasoning_content": "let me "})),
        delta(json!({"reasoning_content": "see"})),
        delta(json!({"content": "Reading."})),
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
            "function": {"name": "read", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"p\":"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "list", "arguments": "{}"}}]}),
        ),
        finish("tool_calls"),
    ]);
    let mut expected = reasoning(&["let me ", "see"], None);
    expected.extend(block("text-1", &["Reading."]));
    expected.extend(call("a", "read", &["{\"p\":", "1}"], json!({"p": 1})));
    expected.extend(call("b", "list", &["{}"], json!({})));
    expected.push(step(FinishReason::ToolCalls, "tool_calls", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn refusal() {
    let input = transcript(&[
        delta(json!({"role": "assistant", "content": null, "refusal": "I am "})),
        delta(json!({"refusal": "sorry."})),
        finish("content_filter"),
    ]);
    let mut expected = text(&["I am ", "sorry."]);
    expected.push(step(FinishReason::ContentFilter, "content_filter", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_empty_answer() {
    let input = transcript(&[delta(json!({"role": "assistant", "content": ""})), finish("stop")]);
    check(&input, &[step(FinishReason::Stop, "stop", Usage::default())], &TranscriptEnd::Complete);
}

#[test]
fn a_chunk_with_both_a_delta_and_a_message() {
    // It was refused as one with a field twice.
    let both = json!({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "delta": {"content": "hi"},
        "message": {"content": "hi"}, "finish_reason": "stop"}]});
    let mut expected = text(&["hi"]);
    expected.push(step(FinishReason::Stop, "stop", Usage::default()));
    check(&transcript(&[both]), &expected, &TranscriptEnd::Complete);
}

#[test]
fn interleaved_calls_are_kept_apart() {
    let piece = |index: u64, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let both = json!({"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\""}},
        {"index": 1, "id": "b", "function": {"name": "y", "arguments": "{\"n\""}},
    ]});
    let input = transcript(&[delta(both), piece(1, ":2}"), piece(0, ":1}"), finish("stop")]);
    let start = |id: &str, name: &str| StreamEvent::ToolInputStart { id: id.into(), name: name.into() };
    let more = |id: &str, text: &str| StreamEvent::ToolInputDelta { id: id.into(), text: text.into() };
    let mut expected = vec![start("a", "x"), more("a", "{\"n\""), start("b", "y"), more("b", "{\"n\"")];
    expected.extend([more("b", ":2}"), more("a", ":1}")]);
    expected.extend(call("a", "x", &["{\"n\"", ":1}"], json!({"n": 1})).split_off(3));
    expected.extend(call("b", "y", &["{\"n\"", ":2}"], json!({"n": 2})).split_off(3));
    expected.push(step(FinishReason::ToolCalls, "stop", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn calls_without_index_or_id() {
    let one = |fields: Value| delta(json!({"tool_calls": [fields]}));
    let input = transcript(&[
        one(json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}})),
        one(json!({"index": 0, "id": "b", "function": {"name": "x", "arguments": {"n": 1}}})),
        one(json!({"function": {"name": "y", "arguments": ""}})),
        one(json!({"function": {"name": "z"}})),
        finish("stop"),
    ]);
    let mut expected = call("a", "x", &["{}"], json!({}));
    expected.extend(call("b", "x", &["{\"n\":1}"], json!({"n": 1})));
    expected.push(StreamEvent::ToolInputStart { id: "call_x_2".into(), name: "y".into() });
    expected.push(StreamEvent::ToolInputStart { id: "call_x_3".into(), name: "z".into() });
    expected.extend(call("call_x_2", "y", &[], json!({})).split_off(1));
    expected.extend(call("call_x_3", "z", &[], json!({})).split_off(1));
    expected.push(step(FinishReason::ToolCalls, "stop", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn malformed_arguments() {
    let check_one = |arguments: &str, reason: &str| {
        let function = json!({"name": "x", "arguments": arguments});
        let input = transcript(&[
            delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]})),
            finish("length"),
        ]);
        let expected = [
            StreamEvent::ToolInputStart { id: "a".into(), name: "x".into() },
            StreamEvent::ToolInputDelta { id: "a".into(), text: arguments.into() },
            StreamEvent::ToolInputEnd { id: "a".into() },
            StreamEvent::ToolCallMalformed {
                id: "a".into(),
                name: "x".into(),
                raw: arguments.into(),
                reason: reason.into(),
            },
            step(FinishReason::Length, "length", Usage::default()),
        ];
        check(&input, &expected, &TranscriptEnd::Complete);
    };
    check_one("[1]", "the arguments are not a JSON object");
    check_one("{\"a\": \"b", "the arguments are not JSON: EOF while parsing a string at line 1 column 8");
}

#[test]
fn other_homes_of_reasoning() {
    let details = |text: &str| json!([{"type": "reasoning.text", "index": 0, "text": text}]);
    let input = transcript(&[
        delta(json!({"reasoning": "a ", "reasoning_details": details("a ")})),
        delta(json!({"reasoning": "b", "reasoning_details": details("b")})),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "", "signature": "s"}]}),
        ),
        delta(json!({"content": [{"type": "text", "text": "ok"}]})),
        finish("content_filter"),
    ]);
    let merged = json!([{"type": "reasoning.text", "index": 0, "text": "a b", "signature": "s"}]);
    let metadata = json!({"openai-chat": {"field": "reasoning", "reasoning_details": merged}});
    let mut expected = reasoning(&["a ", "b"], Some(metadata));
    expected.extend(block("text-1", &["ok"]));
    expected.push(step(FinishReason::ContentFilter, "content_filter", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);

    let thinking = json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]});
    let mut expected = reasoning(&["hm"], None);
    expected.push(step(FinishReason::Unknown, "odd", Usage::default()));
    check(&transcript(&[delta(thinking), finish("odd")]), &expected, &TranscriptEnd::Complete);
}

#[test]
fn comments_and_carriage_returns() {
    let input = transcript(&[delta(json!({"content": "hi"})), finish("stop")]);
    let input = format!(": PROCESSING\n\n{input}").replace('\n', "\r\n");
    let mut expected = text(&["hi"]);
    expected.push(step(FinishReason::Stop, "stop", Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_cut_short_is_incomplete() {
    let whole = transcript(&[delta(json!({"content": "hi"})), finish("stop")]);
    let cut = whole.find("data: [DONE]").unwrap();
    let mut expected = text(&["hi"]);
    expected.push(step(FinishReason::Stop, "stop", Usage::default()));
    check(whole.get(..cut).unwrap(), &expected, &TranscriptEnd::Complete);

    let before_finish = whole.find("\n\n").unwrap() + 2;
    expected.truncate(2);
    check(whole.get(..before_finish).unwrap(), &expected, &TranscriptEnd::Incomplete);
    check(whole.get(..before_finish + 20).unwrap(), &expected, &TranscriptEnd::Incomplete);
    check("data: [DONE]\n\n", &[], &TranscriptEnd::Incomplete);
    check("", &[], &TranscriptEnd::Incomplete);
}

#[test]
fn done_stands_in_for_a_finish_reason() {
    let input = transcript(&[json!({"choices": [{"delta": {"content": "hi"}}]})]);
    let metadata = json!({"openai-chat": {"id": null, "model": null, "finish_reason": null}});
    let mut expected = text(&["hi"]);
    expected.push(StreamEvent::StepFinish {
        reason: FinishReason::Unknown,
        usage: Usage::default(),
        metadata: Some(metadata),
    });
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn errors_inside_the_stream() {
    let error = json!({"error": {"message": "upstream", "code": 502}});
    let open = text(&["hi"]).split_at(2).0.to_vec();
    let input = transcript(&[delta(json!({"content": "hi"})), error.clone()]);
    check(&input, &open, &TranscriptEnd::Provider(error.to_string()));
    let listed = transcript(&[delta(json!({"content": "hi"})), json!([error])]);
    check(&listed, &open, &TranscriptEnd::Provider(error.to_string()));
    check("data: what?\n\n", &[], &TranscriptEnd::Malformed);
}

#[test]
fn a_complete_answer_in_one_object() {
    let answer = json!({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "y", "arguments": "{}"}},
        ]}}], "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}});
    let mut expected = reasoning(&["hm"], None);
    expected.extend(block("text-1", &["hi"]));
    expected.extend(call("a", "x", &["{}"], json!({})));
    expected.extend(call("b", "y", &["{}"], json!({})));
    let usage = Usage { input: 2, output: 1, total: Some(3), ..Usage::default() };
    expected.push(step(FinishReason::ToolCalls, "stop", usage));
    check(&transcript(&[answer]), &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_that_is_not_streamed() {
    let answer = json!({
        "id": "c-1", "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.", "reasoning_content": "Hm.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{\"a\":1}"}}],
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    });
    let (events, outcome) = transcript::whole(Decoder::new("call_x".into()), &answer.to_string());
    assert_eq!(outcome, TranscriptEnd::Complete);
    let kinds: Vec<String> = events
        .iter()
        .map(|event| format!("{event:?}").split([' ', '(']).next().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "ReasoningStart",
            "ReasoningDelta",
            "ReasoningEnd",
            "TextStart",
            "TextDelta",
            "TextEnd",
            "ToolInputStart",
            "ToolInputDelta",
            "ToolInputEnd",
            "ToolCall",
            "StepFinish",
        ]
    );
    assert_eq!(transcript::whole(Decoder::new("c".into()), "{}").1, TranscriptEnd::Malformed);
    assert_eq!(transcript::whole(Decoder::new("c".into()), "").1, TranscriptEnd::Malformed);
}
