//! Streams of small deltas, with the fields that the services send: text, and then the arguments of tool calls.

use everturn_llm::Protocol;
use serde_json::{Value, json};

/// What a delta of text says, in turn.
const WORDS: [&str; 8] = ["The", " quick", " brown", " fox\n", " \"jumps\"", " grüß", " over", "."];

/// How many deltas the arguments of a call have.
const CALL: usize = 50;

/// An answer in payloads.
#[derive(Debug, Default)]
pub(crate) struct Script {
    begin: Vec<Value>,
    text: Vec<Value>,
    /// The end of the text, and all calls.
    calls: Vec<Value>,
    end: Vec<Value>,
}

impl Script {
    /// An answer of so many deltas, a quarter of them in calls.
    pub(crate) fn new(protocol: Protocol, deltas: usize) -> Self {
        let calls = deltas / 4 / CALL;
        Self::of(protocol, deltas - calls * CALL, calls, true)
    }

    /// An answer of text alone. Frames at its end do not say it again, as some services do.
    pub(crate) fn of_text(protocol: Protocol, deltas: usize) -> Self {
        Self::of(protocol, deltas, 0, false)
    }

    fn of(protocol: Protocol, words: usize, calls: usize, again: bool) -> Self {
        let words = (0..words).map(|number| WORDS[number % WORDS.len()]);
        match protocol {
            Protocol::OpenAiChat => chat(words, calls),
            Protocol::OpenAiResponses => responses(words, calls, again),
            Protocol::Anthropic => anthropic(words, calls),
            _ => gemini(words, calls),
        }
    }

    /// The payloads alone.
    pub(crate) fn payloads(&self) -> Vec<String> {
        let parts = [&self.begin, &self.text, &self.calls, &self.end];
        parts.into_iter().flatten().map(Value::to_string).collect()
    }

    /// The body: the beginning, the text so many times, and the rest.
    pub(crate) fn bodies(&self) -> [String; 3] {
        let rest: Vec<Value> = self.calls.iter().chain(&self.end).cloned().collect();
        [frames(&self.begin), frames(&self.text), frames(&rest)]
    }
}

/// Payloads as frames, named by their type where they have one.
fn frames(payloads: &[Value]) -> String {
    let frame = |payload: &Value| match payload.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {payload}\n\n"),
        None => format!("data: {payload}\n\n"),
    };
    payloads.iter().map(frame).collect()
}

/// The arguments of a call, in pieces.
fn arguments() -> impl Iterator<Item = String> {
    let name = |number: usize| match number {
        0 => "{\"list\":[0".to_owned(),
        _ if number + 1 == CALL => "]}".to_owned(),
        _ => format!(", {number}"),
    };
    (0..CALL).map(name)
}

fn chat<'w>(words: impl Iterator<Item = &'w str>, calls: usize) -> Script {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion.chunk",
            "created": 1_741_569_952, "model": "gpt-4.1-2025-04-14", "service_tier": "default",
            "system_fingerprint": "fp_44709d6fcb",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
    };
    let call = |index: usize| {
        let function = json!({"name": "read", "arguments": ""});
        let start =
            json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function});
        let more = move |text: String| json!({"index": index, "function": {"arguments": text}});
        std::iter::once(start).chain(arguments().map(more))
    };
    Script {
        begin: vec![chunk(json!({"role": "assistant", "content": ""}), None)],
        text: words.map(|word| chunk(json!({"content": word}), None)).collect(),
        calls: (0..calls).flat_map(call).map(|piece| chunk(json!({"tool_calls": [piece]}), None)).collect(),
        end: vec![chunk(json!({}), Some("stop"))],
    }
}

fn anthropic<'w>(words: impl Iterator<Item = &'w str>, calls: usize) -> Script {
    let start = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let more =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    let call = |index: usize| {
        let block = json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": "read", "input": {}});
        let input = |text: String| json!({"type": "input_json_delta", "partial_json": text});
        let pieces = arguments().map(move |text| more(index, input(text)));
        std::iter::once(start(index, block)).chain(pieces).chain([stop(index)])
    };
    let message = json!({"id": "msg_01", "type": "message", "role": "assistant", "content": [],
        "model": "claude-sonnet-4-5", "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 25, "output_tokens": 1}});
    Script {
        begin: vec![
            json!({"type": "message_start", "message": message}),
            start(0, json!({"type": "text", "text": ""})),
        ],
        text: words.map(|word| more(0, json!({"type": "text_delta", "text": word}))).collect(),
        calls: std::iter::once(stop(0)).chain((1..=calls).flat_map(call)).collect(),
        end: vec![
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ],
    }
}

fn gemini<'w>(words: impl Iterator<Item = &'w str>, calls: usize) -> Script {
    let answer = |part: Value, finish: Option<&str>| {
        let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({"candidates": [candidate],
            "usageMetadata": {"promptTokenCount": 25, "candidatesTokenCount": 1, "totalTokenCount": 26,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25}]},
            "modelVersion": "gemini-2.5-flash", "responseId": "mAitaLmkHPPlz7IPvtfUqQ4"})
    };
    // Arguments come whole here, so each piece is a call of its own.
    let call = |number: usize| {
        let call = json!({"name": "read", "args": {"list": [number, "a.rs"]}});
        answer(json!({"functionCall": call, "thoughtSignature": "c2lnbmF0dXJl"}), None)
    };
    Script {
        begin: Vec::new(),
        text: words.map(|word| answer(json!({"text": word}), None)).collect(),
        calls: (0..calls * CALL).map(call).collect(),
        end: vec![answer(json!({"text": ""}), Some("STOP"))],
    }
}

fn responses<'w>(words: impl Iterator<Item = &'w str> + Clone, calls: usize, again: bool) -> Script {
    let response = |status: &str| {
        json!({"id": "resp_67ccd2bed1ec8190b14f964abc054267", "object": "response", "created_at": 1_741_476_542,
            "status": status, "error": null, "model": "gpt-4.1-2025-04-14", "output": [], "usage": null})
    };
    let whole: String = if again { words.clone().collect() } else { String::new() };
    let place = |kind: &str, index: usize, id: &str| json!({"type": kind, "item_id": id, "output_index": index, "content_index": 0, "sequence_number": 7});
    let with = |mut event: Value, name: &str, value: Value| {
        event[name] = value;
        event
    };
    let message = "msg_67ccd2bf17f0819081ff3bb2cf6508e6";
    let delta = |word: &str| {
        let event = with(place("response.output_text.delta", 0, message), "delta", json!(word));
        with(with(event, "logprobs", json!([])), "obfuscation", json!("nrBTIcmBDBOd"))
    };
    let part = json!({"type": "output_text", "text": whole, "annotations": []});
    let item = |kind: &str, content: Value| {
        let item = json!({"type": "message", "id": message, "role": "assistant", "content": content});
        json!({"type": format!("response.output_item.{kind}"), "output_index": 0, "item": item})
    };
    let call = |index: usize| {
        let id = format!("fc_{index}");
        let all: String = arguments().collect();
        let item = |kind: &str, arguments: &str| {
            let item = json!({"type": "function_call", "id": id, "call_id": format!("call_{index}"), "name": "read",
                "arguments": arguments});
            json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
        };
        let delta = |text: String| {
            let event = place("response.function_call_arguments.delta", index, &id);
            with(with(event, "delta", json!(text)), "obfuscation", json!("nrBTIcmBDBOd"))
        };
        let done = with(place("response.function_call_arguments.done", index, &id), "arguments", json!(all));
        let start = std::iter::once(item("added", ""));
        start.chain(arguments().map(delta)).chain([done, item("done", &all)]).collect::<Vec<_>>()
    };
    let text_end = [
        with(place("response.output_text.done", 0, message), "text", json!(whole)),
        with(place("response.content_part.done", 0, message), "part", part.clone()),
        item("done", if again { json!([part]) } else { json!([]) }),
    ];
    Script {
        begin: vec![
            json!({"type": "response.created", "response": response("in_progress")}),
            item("added", json!([])),
        ],
        text: words.map(delta).collect(),
        calls: text_end.into_iter().chain((1..=calls).flat_map(call)).collect(),
        end: vec![json!({"type": "response.completed", "response": response("completed")})],
    }
}
