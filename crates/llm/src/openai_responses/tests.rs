//! Transcripts of answers into events: each one whole, byte by byte and cut at every offset.

mod odd;

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::transcript::{self, TranscriptEnd};
use crate::{FinishReason, StreamEvent, Usage};

#[track_caller]
fn check(transcript: &str, expected: &[StreamEvent], outcome: &TranscriptEnd) {
    transcript::check(|| Decoder::new("call_x".into()), transcript, expected, outcome);
}

/// Expects the events of a whole answer from an object that did not come as a stream.
#[track_caller]
fn check_whole(response: &Value, expected: &[StreamEvent]) {
    let (events, outcome) = transcript::whole(Decoder::new("call_x".into()), &response.to_string());
    assert_eq!((events.as_slice(), &outcome), (expected, &TranscriptEnd::Complete));
}

/// Frames as OpenAI sends them: named, numbered, and introduced by the answer's own frames.
fn transcript(frames: &[Value]) -> String {
    let begun = |kind: &str| json!({"type": kind, "response": response("in_progress", &[])});
    let head = [begun("response.created"), begun("response.in_progress")];
    let named = |(number, frame): (usize, &Value)| {
        let mut frame = frame.clone();
        let kind = frame["type"].as_str().unwrap_or("message").to_owned();
        frame["sequence_number"] = json!(number);
        format!("event: {kind}\ndata: {frame}\n\n")
    };
    head.iter().chain(frames).enumerate().map(named).collect()
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "model": "gpt-x", "status": status, "error": null,
        "incomplete_details": null, "output": output, "service_tier": "default", "usage": null})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": response("completed", output)})
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

/// A frame about a piece of an item.
#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn piece(kind: &str, index: u64, id: &str, fields: Value) -> Value {
    let mut frame = json!({"type": format!("response.{kind}"), "output_index": index, "item_id": id});
    frame.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    frame
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn message(id: &str, content: Value) -> Value {
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content})
}

fn said(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// All frames of a message with one text, in as many deltas as there are words.
fn message_frames(index: u64, id: &str, words: &[&str]) -> Vec<Value> {
    let empty =
        json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
    let whole = words.concat();
    let mut frames = vec![
        added(index, empty),
        piece("content_part.added", index, id, json!({"content_index": 0, "part": said("")})),
    ];
    frames.extend(words.iter().map(|word| {
        piece("output_text.delta", index, id, json!({"content_index": 0, "delta": word, "logprobs": []}))
    }));
    frames.extend([
        piece("output_text.done", index, id, json!({"content_index": 0, "text": whole, "logprobs": []})),
        piece("content_part.done", index, id, json!({"content_index": 0, "part": said(&whole)})),
        done(index, &message(id, json!([said(&whole)]))),
    ]);
    frames
}

fn function_call(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id, "name": name,
        "arguments": arguments})
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn own(fields: Value) -> Option<Value> {
    Some(json!({"openai-responses": fields}))
}

fn text(id: &str, words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::TextStart { id: id.into() }];
    events.extend(words.iter().map(|word| StreamEvent::TextDelta { id: id.into(), text: (*word).into() }));
    events.push(StreamEvent::TextEnd { id: id.into(), metadata });
    events
}

fn reasoning(id: &str, words: &[&str], metadata: Option<Value>) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::ReasoningStart { id: id.into() }];
    events
        .extend(words.iter().map(|word| StreamEvent::ReasoningDelta { id: id.into(), text: (*word).into() }));
    events.push(StreamEvent::ReasoningEnd { id: id.into(), metadata });
    events
}

fn call(id: &str, name: &str, pieces: &[&str], input: Value, metadata: Option<Value>) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::ToolInputStart { id: id.into(), name: name.into() }];
    events.extend(
        pieces.iter().map(|piece| StreamEvent::ToolInputDelta { id: id.into(), text: (*piece).into() }),
    );
    events.push(StreamEvent::ToolInputEnd { id: id.into() });
    let raw = pieces.concat();
    events.push(StreamEvent::ToolCall { id: id.into(), name: name.into(), input, raw, metadata });
    events
}

fn step(reason: FinishReason, usage: Usage) -> StreamEvent {
    ended(reason, "completed", None, usage)
}

fn ended(reason: FinishReason, status: &str, incomplete: Option<&str>, usage: Usage) -> StreamEvent {
    let metadata = own(json!({"id": "resp_1", "model": "gpt-x", "status": status,
        "incomplete_reason": incomplete, "service_tier": "default"}));
    StreamEvent::StepFinish { reason, usage, metadata }
}

#[test]
fn plain_text() {
    let mut frames = message_frames(0, "msg_1", &["Grüße, ", "🦀"]);
    frames.push(completed(&[message("msg_1", json!([said("Grüße, 🦀")]))]));
    let mut expected = text("text-0", &["Grüße, ", "🦀"], own(json!({"id": "msg_1"})));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn usage_with_cache_and_reasoning() {
    let mut end = completed(&[]);
    end["response"]["usage"] = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 150});
    let mut frames = message_frames(0, "msg_1", &["ok"]);
    frames.push(end);
    let usage =
        Usage { input: 36, output: 20, reasoning: 30, cache_read: 64, cache_write: 0, total: Some(150) };
    let mut expected = text("text-0", &["ok"], own(json!({"id": "msg_1"})));
    expected.push(step(FinishReason::Stop, usage));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

fn thought(encrypted: &str, summary: &[&str]) -> Value {
    let summary = summary.iter().map(|text| json!({"type": "summary_text", "text": text}));
    json!({"id": "rs_1", "type": "reasoning", "encrypted_content": encrypted, "summary": summary.collect::<Vec<_>>()})
}

#[test]
fn reasoning_in_two_parts() {
    let summary = |kind: &str, part: u64, fields: Value| {
        let mut frame = piece(&format!("reasoning_summary_{kind}"), 0, "rs_1", fields);
        frame["summary_index"] = json!(part);
        frame
    };
    let part = |text: &str| json!({"part": {"type": "summary_text", "text": text}});
    let whole = thought("gAAA-final", &["**Plan** it", "**Do** it"]);
    let mut frames = vec![
        added(0, thought("gAAA-draft", &[])),
        summary("part.added", 0, part("")),
        summary("text.delta", 0, json!({"delta": "**Plan**"})),
        summary("text.delta", 0, json!({"delta": " it"})),
        summary("text.done", 0, json!({"text": "**Plan** it"})),
        summary("part.done", 0, part("**Plan** it")),
        summary("part.added", 1, part("")),
        summary("text.delta", 1, json!({"delta": "**Do** it"})),
        summary("text.done", 1, json!({"text": "**Do** it"})),
        summary("part.done", 1, part("**Do** it")),
        done(0, &whole),
    ];
    frames.extend(message_frames(1, "msg_1", &["Done."]));
    frames.push(completed(&[whole.clone(), message("msg_1", json!([said("Done.")]))]));
    let kept = own(json!({"id": "rs_1", "encrypted_content": "gAAA-final", "summary": whole["summary"]}));
    let mut expected = reasoning("reasoning-0", &["**Plan**", " it", "\n\n**Do** it"], kept);
    expected.extend(text("text-1", &["Done."], own(json!({"id": "msg_1", "after": "rs_1"}))));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn two_calls_at_once() {
    let (one, two) =
        (function_call("fc_1", "call_1", "read", "{\"p\":1}"), function_call("fc_2", "call_2", "list", "{}"));
    let begun = |item: &Value| {
        let mut item = item.clone();
        item["arguments"] = json!("");
        item["status"] = json!("in_progress");
        item
    };
    let arguments = |index: u64, delta: &str| {
        piece("function_call_arguments.delta", index, &format!("fc_{}", index + 1), json!({"delta": delta}))
    };
    let whole = |index: u64, text: &str| {
        let id = format!("fc_{}", index + 1);
        piece("function_call_arguments.done", index, &id, json!({"arguments": text}))
    };
    let frames = [
        added(0, begun(&one)),
        arguments(0, "{\"p\""),
        added(1, begun(&two)),
        arguments(1, "{"),
        arguments(0, ":1}"),
        arguments(1, "}"),
        whole(1, "{}"),
        done(1, &two),
        whole(0, "{\"p\":1}"),
        done(0, &one),
        completed(&[one, two]),
    ];
    let start = |id: &str, name: &str| StreamEvent::ToolInputStart { id: id.into(), name: name.into() };
    let more = |id: &str, text: &str| StreamEvent::ToolInputDelta { id: id.into(), text: text.into() };
    let mut expected = vec![start("call_1", "read"), more("call_1", "{\"p\""), start("call_2", "list")];
    expected.extend([more("call_2", "{"), more("call_1", ":1}"), more("call_2", "}")]);
    let second = call("call_2", "list", &["{", "}"], json!({}), own(json!({"id": "fc_2"})));
    let first = call("call_1", "read", &["{\"p\"", ":1}"], json!({"p": 1}), own(json!({"id": "fc_1"})));
    expected.extend(second.into_iter().skip(3));
    expected.extend(first.into_iter().skip(3));
    expected.push(step(FinishReason::ToolCalls, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn refusal() {
    let part = json!({"type": "refusal", "refusal": "I cannot do that."});
    let frames = [
        added(0, message("msg_1", json!([]))),
        piece(
            "content_part.added",
            0,
            "msg_1",
            json!({"content_index": 0, "part": {"type": "refusal", "refusal": ""}}),
        ),
        piece("refusal.delta", 0, "msg_1", json!({"content_index": 0, "delta": "I cannot "})),
        piece("refusal.delta", 0, "msg_1", json!({"content_index": 0, "delta": "do that."})),
        piece("refusal.done", 0, "msg_1", json!({"content_index": 0, "refusal": "I cannot do that."})),
        piece("content_part.done", 0, "msg_1", json!({"content_index": 0, "part": part})),
        done(0, &message("msg_1", json!([part]))),
        completed(&[]),
    ];
    let kept = own(json!({"id": "msg_1", "refusal": true}));
    let mut expected = text("text-0", &["I cannot ", "do that."], kept);
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn errors_inside_the_stream() {
    let open = [
        StreamEvent::TextStart { id: "text-0".into() },
        StreamEvent::TextDelta { id: "text-0".into(), text: "hi".into() },
    ];
    let begun = |end: Value| {
        let mut frames = message_frames(0, "msg_1", &["hi"]);
        frames.truncate(3);
        frames.push(end);
        transcript(&frames)
    };
    let error = json!({"type": "error", "code": "server_error", "message": "sorry", "param": null});
    let mut sent = error.clone();
    sent["sequence_number"] = json!(5);
    check(&begun(error), &open, &TranscriptEnd::Provider(sent.to_string()));

    let mut failed = json!({"type": "response.failed", "response": response("failed", &[])});
    failed["response"]["error"] = json!({"code": "rate_limit_exceeded", "message": "slow down"});
    let object = json!({"error": {"code": "rate_limit_exceeded", "message": "slow down"}});
    check(&begun(failed.clone()), &open, &TranscriptEnd::Provider(object.to_string()));

    failed["response"]["error"] = Value::Null;
    let object = json!({"error": {"message": "the provider gave up without a reason"}});
    check(&begun(failed), &open, &TranscriptEnd::Provider(object.to_string()));

    let untyped = "data: {\"error\":{\"message\":\"upstream\",\"code\":502}}\n\n";
    let object = "{\"error\":{\"message\":\"upstream\",\"code\":502}}";
    check(untyped, &[], &TranscriptEnd::Provider(object.into()));
    check("data: what?\n\n", &[], &TranscriptEnd::Malformed);
}

#[test]
fn an_empty_answer() {
    let expected = [step(FinishReason::Stop, Usage::default())];
    check(&transcript(&[completed(&[])]), &expected, &TranscriptEnd::Complete);
    let mut frames = message_frames(0, "msg_1", &[]);
    frames.push(completed(&[message("msg_1", json!([said("")]))]));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_search_and_what_it_found() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "crab"}});
    let note =
        json!({"type": "url_citation", "url": "https://x/y", "title": "Y", "start_index": 0, "end_index": 5});
    let part = json!({"type": "output_text", "text": "Crabs", "annotations": [note]});
    let frames = [
        added(0, json!({"id": "ws_1", "type": "web_search_call", "status": "in_progress"})),
        piece("web_search_call.in_progress", 0, "ws_1", json!({})),
        piece("web_search_call.searching", 0, "ws_1", json!({})),
        piece("web_search_call.completed", 0, "ws_1", json!({})),
        done(0, &search),
        added(1, message("msg_1", json!([]))),
        piece("output_text.delta", 1, "msg_1", json!({"content_index": 0, "delta": "Crabs"})),
        piece(
            "output_text.annotation.added",
            1,
            "msg_1",
            json!({"content_index": 0, "annotation_index": 0, "annotation": note}),
        ),
        piece("output_text.done", 1, "msg_1", json!({"content_index": 0, "text": "Crabs"})),
        piece("content_part.done", 1, "msg_1", json!({"content_index": 0, "part": part})),
        done(1, &message("msg_1", json!([part]))),
        completed(&[]),
    ];
    let mut expected = vec![
        StreamEvent::HostedCall {
            id: "ws_1".into(),
            name: "web_search".into(),
            input: json!({"action": {"type": "search", "query": "crab"}}),
            metadata: own(json!({"item": search})),
        },
        StreamEvent::HostedResult {
            id: "ws_1".into(),
            name: "web_search".into(),
            output: json!({"status": "completed"}),
            is_error: false,
            metadata: None,
        },
    ];
    expected.extend(text("text-0", &["Crabs"], own(json!({"id": "msg_1", "annotations": [note]}))));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_cut_off_by_a_limit() {
    let end = |reason: &str| {
        let mut end = json!({"type": "response.incomplete", "response": response("incomplete", &[])});
        end["response"]["incomplete_details"] = json!({"reason": reason});
        end
    };
    let check_one = |reason: &str, expected: FinishReason| {
        let mut frames = message_frames(0, "msg_1", &["so far"]);
        frames.push(end(reason));
        let mut events = text("text-0", &["so far"], own(json!({"id": "msg_1"})));
        events.push(ended(expected, "incomplete", Some(reason), Usage::default()));
        check(&transcript(&frames), &events, &TranscriptEnd::Complete);
    };
    check_one("max_output_tokens", FinishReason::Length);
    check_one("content_filter", FinishReason::ContentFilter);
    check_one("boredom", FinishReason::Unknown);

    // A call without arguments may run; one whose arguments were cut off before they began must not.
    let mut item = function_call("fc_1", "call_1", "wipe", "");
    item["status"] = json!("incomplete");
    let frames = [added(0, item.clone()), done(0, &item), end("max_output_tokens")];
    let expected = [
        StreamEvent::ToolInputStart { id: "call_1".into(), name: "wipe".into() },
        StreamEvent::ToolInputEnd { id: "call_1".into() },
        StreamEvent::ToolCallMalformed {
            id: "call_1".into(),
            name: "wipe".into(),
            raw: String::new(),
            reason: "the answer ended before the arguments did".into(),
        },
        ended(FinishReason::Length, "incomplete", Some("max_output_tokens"), Usage::default()),
    ];
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
    check(&transcript(&[frames[0].clone(), frames[2].clone()]), &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_answer_without_its_end_is_incomplete() {
    let frames = message_frames(0, "msg_1", &["hi"]);
    let whole = text("text-0", &["hi"], own(json!({"id": "msg_1"})));
    check(&transcript(&frames), &whole, &TranscriptEnd::Incomplete);
    check(&transcript(&frames[..3]), &whole[..2], &TranscriptEnd::Incomplete);
    let input = transcript(&frames);
    check(input.get(..input.len() - 20).unwrap(), &whole[..2], &TranscriptEnd::Incomplete);
    check(&format!("{input}data: [DONE]\n\n"), &whole, &TranscriptEnd::Incomplete);
    check("", &[], &TranscriptEnd::Incomplete);
}

#[test]
fn malformed_arguments() {
    let check_one = |arguments: &str, reason: &str| {
        let item = function_call("fc_1", "call_1", "read", arguments);
        let frames = [done(0, &item), completed(&[item])];
        let expected = [
            StreamEvent::ToolInputStart { id: "call_1".into(), name: "read".into() },
            StreamEvent::ToolInputDelta { id: "call_1".into(), text: arguments.into() },
            StreamEvent::ToolInputEnd { id: "call_1".into() },
            StreamEvent::ToolCallMalformed {
                id: "call_1".into(),
                name: "read".into(),
                raw: arguments.into(),
                reason: reason.into(),
            },
            step(FinishReason::ToolCalls, Usage::default()),
        ];
        check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
    };
    check_one("[1]", "the arguments are not a JSON object");
    check_one("{\"a\": \"b", "the arguments are not JSON: EOF while parsing a string at line 1 column 8");
}

#[test]
fn an_answer_that_is_not_streamed() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "failed", "action": {}});
    let parts = json!([said("I look."), said("Again.")]);
    let output = [
        thought("gAAA", &["Plan", "Do"]),
        search.clone(),
        message("msg_1", parts),
        function_call("fc_1", "call_1", "read", "{ \"p\": 1 }"),
    ];
    let kept = own(json!({"id": "rs_1", "encrypted_content": "gAAA", "summary": output[0]["summary"]}));
    let mut expected = reasoning("reasoning-0", &["Plan", "\n\nDo"], kept);
    expected.extend([
        StreamEvent::HostedCall {
            id: "ws_1".into(),
            name: "web_search".into(),
            input: json!({"action": {}}),
            metadata: own(json!({"after": "rs_1", "item": search})),
        },
        StreamEvent::HostedResult {
            id: "ws_1".into(),
            name: "web_search".into(),
            output: json!({"status": "failed"}),
            is_error: true,
            metadata: None,
        },
    ]);
    let message = |id: &str, word: &str| text(id, &[word], own(json!({"id": "msg_1"})));
    let (mut first, mut second) = (message("text-1", "I look."), message("text-2", "Again."));
    let ends = [first.pop().unwrap(), second.pop().unwrap()];
    expected.extend(first.into_iter().chain(second).chain(ends));
    let kept = own(json!({"id": "fc_1", "arguments": "{ \"p\": 1 }"}));
    expected.extend(call("call_1", "read", &["{ \"p\": 1 }"], json!({"p": 1}), kept));
    expected.push(step(FinishReason::ToolCalls, Usage::default()));
    check_whole(&response("completed", &output), &expected);

    // The same answer as a stream, and as a stream of which only the end has it.
    let mut frames: Vec<Value> = (0..).zip(&output).map(|(index, item)| done(index, item)).collect();
    frames.push(completed(&output));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
    check(&transcript(&[completed(&output)]), &expected, &TranscriptEnd::Complete);
}

#[test]
fn objects_that_are_no_answer() {
    let outcome = |json: &str| transcript::whole(Decoder::new("c".into()), json).1;
    assert_eq!(outcome("{}"), TranscriptEnd::Malformed);
    assert_eq!(outcome(""), TranscriptEnd::Malformed);
    assert_eq!(outcome(&response("in_progress", &[]).to_string()), TranscriptEnd::Incomplete);
    let error = "{\"error\":{\"message\":\"no\"}}";
    assert_eq!(outcome(error), TranscriptEnd::Provider(error.into()));
    let mut failed = response("failed", &[]);
    failed["error"] = json!({"message": "no"});
    assert_eq!(outcome(&failed.to_string()), TranscriptEnd::Provider(error.into()));
}
