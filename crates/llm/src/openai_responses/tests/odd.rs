//! Answers of servers that follow the protocol loosely.

use super::*;

#[test]
fn unknown_events_are_ignored() {
    let mut frames = message_frames(0, "msg_1", &["hi"]);
    frames.insert(2, json!({"type": "response.output_sparkle.delta", "delta": {"sparkle": 1}, "item": 3}));
    frames.insert(0, json!({"type": "keepalive"}));
    frames.push(completed(&[]));
    let input = format!(": comment\n\ndata: {{}}\n\n{}", transcript(&frames)).replace('\n', "\r\n");
    let mut expected = text("text-0", &["hi"], own(json!({"id": "msg_1"})));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&input, &expected, &TranscriptEnd::Complete);
    check("data: {\"type\":\"response.output_item.done\"}\n\n", &[], &TranscriptEnd::Malformed);
}

#[test]
fn texts_that_come_only_when_they_are_done() {
    let expected = |id: &str| {
        let mut events = text("text-0", &["hel", "lo"], own(json!({"id": id})));
        events.push(step(FinishReason::Stop, Usage::default()));
        events
    };
    let delta = piece("output_text.delta", 0, "msg_1", json!({"content_index": 0, "delta": "hel"}));
    let whole = piece("output_text.done", 0, "msg_1", json!({"content_index": 0, "text": "hello"}));
    let part = piece("content_part.done", 0, "msg_1", json!({"content_index": 0, "part": said("hello")}));
    let item = done(0, &message("msg_1", json!([said("hello")])));
    let end = completed(&[message("msg_1", json!([said("hello")]))]);
    for frame in [whole, part, item] {
        check(
            &transcript(&[delta.clone(), frame, completed(&[])]),
            &expected("msg_1"),
            &TranscriptEnd::Complete,
        );
    }
    check(&transcript(&[delta, end]), &expected("msg_1"), &TranscriptEnd::Complete);
}

#[test]
fn ids_that_change_and_indexes_that_do_not() {
    // Each frame has an id of its own; the index is right.
    let mut frames = vec![added(0, message("a", json!([])))];
    frames.push(piece("output_text.delta", 0, "b", json!({"content_index": 0, "delta": "hi"})));
    frames.push(done(0, &message("c", json!([said("hi")]))));
    frames.push(completed(&[message("d", json!([said("hi")]))]));
    let mut expected = text("text-0", &["hi"], own(json!({"id": "c"})));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);

    // All items have one index; the ids are right.
    let item = function_call("fc_1", "call_1", "read", "{}");
    let mut frames = vec![added(0, message("msg_1", json!([])))];
    frames.push(piece("output_text.delta", 0, "msg_1", json!({"content_index": 0, "delta": "hi"})));
    frames.push(added(0, item.clone()));
    frames.push(piece("function_call_arguments.delta", 0, "fc_1", json!({"delta": "{}"})));
    frames.push(done(0, &message("msg_1", json!([said("hi")]))));
    frames.push(done(0, &item));
    frames.push(completed(&[item]));
    let mut expected = text("text-0", &["hi"], own(json!({"id": "msg_1"})));
    let calls = call("call_1", "read", &["{}"], json!({}), own(json!({"id": "fc_1"})));
    expected.splice(2..2, calls[..2].iter().cloned());
    expected.extend(calls.into_iter().skip(2));
    expected.push(step(FinishReason::ToolCalls, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn neither_ids_nor_indexes() {
    let frames = [
        json!({"type": "response.output_item.added", "item": {"type": "message"}}),
        json!({"type": "response.output_text.delta", "delta": "hi"}),
        json!({"type": "response.output_item.done", "item": {"type": "message",
            "content": [{"type": "output_text", "text": "hi"}]}}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "name": "read",
            "arguments": {"p": 1}}}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "name": "read"}}),
        completed(&[]),
    ];
    let mut expected = text("text-0", &["hi"], None);
    expected.extend(call("call_x_1", "read", &["{\"p\":1}"], json!({"p": 1}), None));
    expected.extend(call("call_x_2", "read", &[], json!({}), None));
    expected.push(step(FinishReason::ToolCalls, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn thoughts_in_the_open() {
    let item = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": null,
        "content": [{"type": "reasoning_text", "text": "hm, so"}]});
    let frames = [
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        piece("content_part.added", 0, "rs_1", json!({"content_index": 0, "part": said("")})),
        piece("reasoning_text.delta", 0, "rs_1", json!({"content_index": 0, "delta": "hm, "})),
        piece("reasoning_text.done", 0, "rs_1", json!({"content_index": 0, "text": "hm, so"})),
        piece("content_part.done", 0, "rs_1", json!({"content_index": 0, "part": said("hm, so")})),
        done(0, &item),
        completed(&[item]),
    ];
    let mut expected = reasoning("reasoning-0", &["hm, ", "so"], own(json!({"id": "rs_1"})));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn an_end_that_lacks_items() {
    let mut frames = vec![done(0, &thought("gAAA", &[]))];
    frames.extend(message_frames(1, "msg_1", &["hi"]));
    frames.push(completed(&[message("other", json!([said("hi")]))]));
    let kept = own(json!({"id": "rs_1", "encrypted_content": "gAAA", "summary": []}));
    let mut expected = reasoning("reasoning-0", &[], kept);
    expected.extend(text("text-1", &["hi"], own(json!({"id": "msg_1", "after": "rs_1"}))));
    expected.push(step(FinishReason::Stop, Usage::default()));
    check(&transcript(&frames), &expected, &TranscriptEnd::Complete);
}

#[test]
fn a_remark_is_known_as_one() {
    let mut item = message("msg_1", json!([said("Let me see.")]));
    item["phase"] = json!("commentary");
    let kept = own(json!({"id": "msg_1", "phase": "commentary"}));
    let mut expected = text("text-0", &["Let me see."], kept);
    expected.push(step(FinishReason::Stop, Usage::default()));
    check_whole(&response("completed", &[item]), &expected);
}

#[test]
fn calls_of_one_id_are_told_apart() {
    let item = |id: &str| function_call(id, "call_1", "read", "{}");
    let mut expected = call("call_1", "read", &["{}"], json!({}), own(json!({"id": "fc_1"})));
    expected.extend(call("call_x_1", "read", &["{}"], json!({}), own(json!({"id": "fc_2"}))));
    expected.push(step(FinishReason::ToolCalls, Usage::default()));
    check_whole(&response("completed", &[item("fc_1"), item("fc_2")]), &expected);
}
