//! Transcripts of answers into events: each one whole, byte by byte and cut at every offset.

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::transcript::{self, TranscriptEnd};
use crate::{FinishReason, StreamEvent, Usage};

fn decoder() -> Decoder {
    Decoder::new("call_x".into())
}

#[track_caller]
fn check(transcript: &str, expected: &[StreamEvent], outcome: &TranscriptEnd) {
    transcript::check(decoder, transcript, expected, outcome);
}

/// Events as the server sends them.
fn transcript(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

/// A whole answer with these events in the middle, and how it stops.
fn answer(events: Vec<Value>, stop_reason: &str) -> Vec<Value> {
    let mut all = vec![opening(&json!({"input_tokens": 12, "output_tokens": 1}))];
    all.extend(events);
    all.extend(ending(stop_reason, &json!({"output_tokens": 30})));
    all
}

fn opening(usage: &Value) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "claude-m", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}})
}

fn ending(stop_reason: &str, usage: &Value) -> [Value; 2] {
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    [json!({"type": "message_delta", "delta": delta, "usage": usage}), json!({"type": "message_stop"})]
}

/// A content block as it is streamed.
#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn streamed(index: u64, block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    let deltas =
        deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
    events.extend(deltas);
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn text_block(index: u64, words: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> = words.iter().map(|word| json!({"type": "text_delta", "text": word})).collect();
    streamed(index, json!({"type": "text", "text": ""}), &deltas)
}

fn call_block(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> =
        pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
    streamed(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}), &deltas)
}

fn said(index: u64, words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let id = format!("text-{index}");
    let mut events = vec![StreamEvent::TextStart { id: id.clone() }];
    events.extend(words.iter().map(|word| StreamEvent::TextDelta { id: id.clone(), text: (*word).into() }));
    events.push(StreamEvent::TextEnd { id, metadata });
    events
}

fn thought(index: u64, words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let id = format!("reasoning-{index}");
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
    events.push(StreamEvent::ToolCall {
        id: id.into(),
        name: name.into(),
        input,
        raw: pieces.concat(),
        metadata: None,
    });
    events
}

fn usual() -> Usage {
    Usage { input: 12, output: 30, ..Usage::default() }
}

fn step(reason: FinishReason, word: &str, usage: Usage) -> StreamEvent {
    let about = json!({"id": "msg_1", "model": "claude-m", "stop_reason": word, "stop_sequence": null});
    StreamEvent::StepFinish { reason, usage, metadata: Some(json!({"anthropic": about})) }
}

#[test]
fn text() {
    let input = transcript(&answer(text_block(0, &["Grüße, ", "🦀"]), "end_turn"));
    let mut expected = said(0, &["Grüße, ", "🦀"], None);
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn thinking_with_a_signature() {
    let deltas = [
        json!({"type": "thinking_delta", "thinking": "Let me "}),
        json!({"type": "thinking_delta", "thinking": "see."}),
        json!({"type": "signature_delta", "signature": "EqQB"}),
    ];
    let mut blocks = streamed(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &deltas);
    blocks.extend(text_block(1, &["27"]));
    let mut expected = thought(0, &["Let me ", "see."], Some(json!({"anthropic": {"signature": "EqQB"}})));
    expected.extend(said(1, &["27"], None));
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(&transcript(&answer(blocks, "end_turn")), &expected, &TranscriptEnd::Complete);
}

#[test]
fn thinking_that_is_not_shown() {
    let signature = json!({"type": "signature_delta", "signature": "EqQB"});
    let blocks = streamed(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &[signature]);
    let mut expected = thought(0, &[], Some(json!({"anthropic": {"signature": "EqQB"}})));
    expected.push(step(FinishReason::Length, "max_tokens", usual()));
    check(&transcript(&answer(blocks, "max_tokens")), &expected, &TranscriptEnd::Complete);

    let blocks = streamed(0, json!({"type": "redacted_thinking", "data": "Emwb"}), &[]);
    let mut expected = thought(0, &[], Some(json!({"anthropic": {"redacted": "Emwb"}})));
    expected.push(step(FinishReason::Stop, "stop_sequence", usual()));
    check(&transcript(&answer(blocks, "stop_sequence")), &expected, &TranscriptEnd::Complete);
}

#[test]
fn parallel_calls() {
    let mut blocks = text_block(0, &["I look."]);
    blocks.extend(call_block(1, "toolu_1", "read", &["", "{\"path\": \"a", ".rs\", \"n\":", " 1}"]));
    blocks.extend(call_block(2, "toolu_2", "list", &[""]));
    let mut expected = said(0, &["I look."], None);
    let pieces = ["{\"path\": \"a", ".rs\", \"n\":", " 1}"];
    expected.extend(call("toolu_1", "read", &pieces, json!({"path": "a.rs", "n": 1})));
    expected.extend(call("toolu_2", "list", &[], json!({})));
    expected.push(step(FinishReason::ToolCalls, "tool_use", usual()));
    check(&transcript(&answer(blocks, "tool_use")), &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_call_with_its_own_fields() {
    let check_one = |caller: &Value, kept: Option<Value>| {
        let block =
            json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}, "caller": caller});
        let input = transcript(&answer(streamed(0, block, &[]), "tool_use"));
        let mut expected = call("toolu_1", "read", &[], json!({}));
        if let Some(StreamEvent::ToolCall { metadata, .. }) = expected.last_mut() {
            *metadata = kept;
        }
        expected.push(step(FinishReason::ToolCalls, "tool_use", usual()));
        check(&input, &expected, &TranscriptEnd::Complete);
    };
    check_one(&json!({"type": "direct"}), None);
    let caller = json!({"type": "code_execution_20260120", "tool_id": "srvtoolu_1"});
    check_one(&caller, Some(json!({"anthropic": {"fields": {"caller": caller}}})));
}

#[test]
fn malformed_arguments() {
    let check_one = |raw: &str, reason: &str| {
        let input = transcript(&answer(call_block(0, "toolu_1", "read", &[raw]), "max_tokens"));
        let id = || "toolu_1".to_owned();
        let expected = [
            StreamEvent::ToolInputStart { id: id(), name: "read".into() },
            StreamEvent::ToolInputDelta { id: id(), text: raw.into() },
            StreamEvent::ToolInputEnd { id: id() },
            StreamEvent::ToolCallMalformed {
                id: id(),
                name: "read".into(),
                raw: raw.into(),
                reason: reason.into(),
            },
            step(FinishReason::Length, "max_tokens", usual()),
        ];
        check(&input, &expected, &TranscriptEnd::Complete);
    };
    check_one("[1]", "the arguments are not a JSON object");
    check_one("{\"a\": \"b", "the arguments are not JSON: EOF while parsing a string at line 1 column 8");
}

#[test]
fn usage_with_a_cache() {
    let mut events = vec![opening(&json!({"input_tokens": 4, "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100, "output_tokens": 1, "service_tier": "standard",
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0}}))];
    events.extend(text_block(0, &["ok"]));
    events.extend(ending(
        "end_turn",
        &json!({"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
            "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 10}, "server_tool_use": null}),
    ));
    let usage = Usage { input: 5, output: 20, reasoning: 10, cache_read: 100, cache_write: 20, total: None };
    let details = json!({"service_tier": "standard", "output_tokens_details": {"thinking_tokens": 10},
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0}});
    let about = json!({"id": "msg_1", "model": "claude-m", "stop_reason": "end_turn", "stop_sequence": null,
        "usage": details});
    let mut expected = said(0, &["ok"], None);
    let metadata = Some(json!({"anthropic": about}));
    expected.push(StreamEvent::StepFinish { reason: FinishReason::Stop, usage, metadata });
    check(&transcript(&events), &expected, &TranscriptEnd::Complete);
}

#[test]
fn refusal() {
    let mut events = vec![opening(&json!({"input_tokens": 12, "output_tokens": 30}))];
    let details = json!({"type": "refusal", "category": "cyber"});
    events.push(json!({"type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_sequence": null, "stop_details": details}}));
    events.push(json!({"type": "message_stop"}));
    let about = json!({"id": "msg_1", "model": "claude-m", "stop_reason": "refusal", "stop_sequence": null,
        "stop_details": details});
    let metadata = Some(json!({"anthropic": about}));
    let expected =
        [StreamEvent::StepFinish { reason: FinishReason::ContentFilter, usage: usual(), metadata }];
    check(&transcript(&events), &expected, &TranscriptEnd::Complete);
}

#[test]
fn finish_reasons() {
    let check_one = |word: &str, reason: FinishReason| {
        let expected = [step(reason, word, usual())];
        check(&transcript(&answer(vec![], word)), &expected, &TranscriptEnd::Complete);
    };
    check_one("pause_turn", FinishReason::Paused);
    check_one("model_context_window_exceeded", FinishReason::Length);
    check_one("something_new", FinishReason::Unknown);
    let mut expected = call("toolu_1", "list", &[], json!({}));
    expected.push(step(FinishReason::ToolCalls, "end_turn", usual()));
    let input = transcript(&answer(call_block(0, "toolu_1", "list", &[]), "end_turn"));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_error_in_the_stream() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let mut events = vec![opening(&json!({"input_tokens": 12, "output_tokens": 1}))];
    events.extend(text_block(0, &["hi"]));
    events.pop();
    events.push(error.clone());
    let mut open = said(0, &["hi"], None);
    open.pop();
    check(&transcript(&events), &open, &TranscriptEnd::Provider(error.to_string()));
}

#[test]
fn an_empty_answer() {
    let done = [step(FinishReason::Stop, "end_turn", usual())];
    check(&transcript(&answer(vec![], "end_turn")), &done, &TranscriptEnd::Complete);
    check(&transcript(&answer(text_block(0, &[]), "end_turn")), &done, &TranscriptEnd::Complete);
}

#[test]
fn what_is_not_known_is_passed_over() {
    let mut events = vec![json!({"type": "ping"}), json!({"type": "weather", "index": "none"})];
    events.extend(streamed(0, json!({"type": "hologram", "x": 1}), &[json!({"type": "light_delta"})]));
    events.extend(streamed(1, json!({"type": "hologram"}), &[json!({"type": "text_delta", "text": "no"})]));
    let odd = [json!({"type": "colour_delta", "text": 3}), json!({"type": "text_delta", "text": "hi"})];
    events.extend(streamed(2, json!({"type": "text", "text": "", "citations": null}), &odd));
    let input = format!(": hello\n\n{}", transcript(&answer(events, "end_turn"))).replace('\n', "\r\n");
    let mut expected = said(2, &["hi"], None);
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(&input, &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_search_by_the_provider() {
    let block = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let pieces = ["", "{\"query\":", " \"rust\"}"]
        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
    let mut blocks = streamed(0, block, &pieces);
    let found = json!([{"type": "web_search_result", "url": "https://x", "title": "X",
        "encrypted_content": "EqgfCioIARgB", "page_age": null}]);
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found});
    blocks.extend(streamed(1, result.clone(), &[]));
    let failed = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_2",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}});
    blocks.extend(streamed(2, failed.clone(), &[]));
    let citation = json!({"type": "web_search_result_location", "url": "https://x", "title": "X",
        "encrypted_index": "Eo8B", "cited_text": "Rust is"});
    let deltas = [
        json!({"type": "citations_delta", "citation": citation}),
        json!({"type": "text_delta", "text": "Rust is a language."}),
    ];
    blocks.extend(streamed(3, json!({"type": "text", "text": "", "citations": []}), &deltas));

    let asked = json!({"query": "rust"});
    let called = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": asked});
    let mut expected = vec![
        StreamEvent::HostedCall {
            id: "srvtoolu_1".into(),
            name: "web_search".into(),
            input: asked,
            metadata: Some(json!({"anthropic": {"block": called}})),
        },
        StreamEvent::HostedResult {
            id: "srvtoolu_1".into(),
            name: "web_search".into(),
            output: found,
            is_error: false,
            metadata: Some(json!({"anthropic": {"block": result}})),
        },
        StreamEvent::HostedResult {
            id: "srvtoolu_2".into(),
            name: "web_search".into(),
            output: failed["content"].clone(),
            is_error: true,
            metadata: Some(json!({"anthropic": {"block": failed}})),
        },
    ];
    let cited = json!({"anthropic": {"citations": [citation]}});
    expected.extend(said(3, &["Rust is a language."], Some(cited)));
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(&transcript(&answer(blocks, "end_turn")), &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_cut_short_is_incomplete() {
    let whole = transcript(&answer(text_block(0, &["hi"]), "end_turn"));
    let stop = whole.find("event: message_stop").unwrap();
    let expected = said(0, &["hi"], None);
    check(whole.get(..stop).unwrap(), &expected, &TranscriptEnd::Incomplete);
    check(whole.get(..stop + 40).unwrap(), &expected, &TranscriptEnd::Incomplete);
    let block_stop = whole.find("event: content_block_stop").unwrap();
    check(whole.get(..block_stop).unwrap(), &expected[..2], &TranscriptEnd::Incomplete);
    check("", &[], &TranscriptEnd::Incomplete);
    let mut expected = expected;
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(whole.trim_end(), &expected, &TranscriptEnd::Complete);
}

#[test]
fn blocks_that_are_not_closed() {
    let mut events = answer(text_block(0, &["hi"]), "end_turn");
    events.retain(|event| event["type"] != "content_block_stop");
    let mut expected = said(0, &["hi"], None);
    expected.push(step(FinishReason::Stop, "end_turn", usual()));
    check(&transcript(&events), &expected, &TranscriptEnd::Complete);
}

#[test]
fn what_is_not_in_the_protocol() {
    check("data: what?\n\n", &[], &TranscriptEnd::Malformed);
    let stray =
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "a"}});
    check(&transcript(&[stray]), &[], &TranscriptEnd::Malformed);
    check(&transcript(&[json!({"type": "content_block_start", "index": 0})]), &[], &TranscriptEnd::Malformed);
    let wrong = json!({"type": "input_json_delta", "partial_json": "{}"});
    let events = streamed(0, json!({"type": "text", "text": ""}), &[wrong]);
    check(&transcript(&events), &[], &TranscriptEnd::Malformed);
}

#[test]
fn an_answer_that_is_not_streamed() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {"query": "rust"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let citation = json!({"type": "web_search_result_location", "url": "https://x"});
    let mut blocks = streamed(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "Hm."}),
            json!({"type": "signature_delta", "signature": "EqQB"}),
        ],
    );
    blocks.extend(streamed(1, json!({"type": "redacted_thinking", "data": "Emwb"}), &[]));
    blocks.extend(streamed(2, search.clone(), &[]));
    blocks.extend(streamed(3, found.clone(), &[]));
    let cited = [
        json!({"type": "text_delta", "text": "I look."}),
        json!({"type": "citations_delta", "citation": citation}),
    ];
    blocks.extend(streamed(4, json!({"type": "text", "text": ""}), &cited));
    blocks.extend(call_block(5, "toolu_1", "read", &["{\"a\":1}"]));
    blocks.extend(call_block(6, "toolu_2", "list", &[]));
    let mut out = crate::protocol::Events::new();
    let mut streaming = decoder();
    for event in answer(blocks, "tool_use") {
        let frame = everturn_sse::SseFrame { data: event.to_string(), ..Default::default() };
        crate::protocol::Decode::accept(&mut streaming, &frame, &mut out).unwrap();
    }
    crate::protocol::Decode::end(&mut streaming, &mut out).unwrap();
    out.retain(|event| !matches!(event, StreamEvent::Usage(_)));

    let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "Emwb"},
            search,
            found,
            {"type": "text", "text": "I look.", "citations": [citation]},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1}},
            {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 12, "output_tokens": 30}});
    let (events, outcome) = transcript::whole(decoder(), &whole.to_string());
    assert_eq!((events, outcome), (out.into(), TranscriptEnd::Complete));

    let error = json!({"type": "error", "error": {"type": "api_error", "message": "x"}}).to_string();
    assert_eq!(transcript::whole(decoder(), &error).1, TranscriptEnd::Provider(error));
    for odd in ["", "[]", "{}", "{\"content\": \"hi\"}"] {
        assert_eq!(transcript::whole(decoder(), odd), (vec![], TranscriptEnd::Malformed), "{odd}");
    }
}
