//! Answers of frames in any order, sound and broken: no decoder panics, and the network decides over nothing.

use everturn_llm::{Protocol, StreamEvent, replay};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{config, cut, sizes};

const CHAT: &[&str] = &[
    r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
    r#"{"choices":[{"delta":{"content":"gr\u00fc\u00dfe \ud83e\udd80"}}]}"#,
    r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"b"}]}}]}"#,
    r#"{"choices":[{"delta":{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","index":0,"text":"hm"}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"a\""}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"list","arguments":{"b":2}}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"]"}}]}}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":-2}}"#,
    r#"{"choices":[{"delta":{"content":"end"},"finish_reason":"stop"}]}"#,
    r#"{"error":{"message":"no","code":500}}"#,
    "[DONE]",
];

const ANTHROPIC: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a"}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"h","name":"web"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"gr\u00fc\u00dfe"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":[1]}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
    r#"{"type":"message_stop"}"#,
    r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#,
    r#"{"type":"ping"}"#,
];

const RESPONSES: &[&str] = &[
    r#"{"type":"response.created","response":{"id":"r","status":"in_progress"}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m"}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f","call_id":"a","name":"read"}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"t"}}"#,
    r#"{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"gr\u00fc"}"#,
    r#"{"type":"response.output_text.done","item_id":"m","output_index":0,"content_index":0,"text":"gr\u00fc\u00dfe"}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"t","summary_index":1,"delta":"hm"}"#,
    r#"{"type":"response.reasoning_summary_text.done","item_id":"t","summary_index":1,"text":"hm, yes"}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"f","output_index":1,"delta":"{\"a\""}"#,
    r#"{"type":"response.function_call_arguments.done","item_id":"f","output_index":1,"arguments":"{\"a\":1}"}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"all"}]}}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"f","call_id":"a","name":"read","arguments":"{}"}}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"web_search_call","id":"w","status":"completed"}}"#,
    r#"{"type":"response.output_item.done"}"#,
    r#"{"type":"response.new","delta":[1]}"#,
    r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"all of it"}]}]}}"#,
    r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"no"}}}"#,
];

const GEMINI: &[&str] = &[
    r#"{"candidates":[{"content":{"parts":[{"text":"gr\u00fc\u00dfe"}]}}],"responseId":"r","modelVersion":"m"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"","thoughtSignature":"s"}]}}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"read","args":{"a":1}}},{"functionCall":{"name":"list"}}]}}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"executableCode":{"id":"x","code":"1"}},{"codeExecutionResult":{"id":"x","outcome":"OUTCOME_OK"}}]}}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}},null,7,{"new":1},{"text":9}]}}]}"#,
    r#"[{"candidates":[{"content":{"parts":[{"text":"listed"}]}}]}]"#,
    r#"{"candidates":[{"finishReason":"STOP","citationMetadata":{"citationSources":[1]}}],"usageMetadata":{"promptTokenCount":1}}"#,
    r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
    r#"{"error":{"code":503,"message":"no"}}"#,
];

/// A protocol and frames of it in any order, some of them damaged.
fn answer() -> impl Strategy<Value = (Protocol, Vec<u8>)> {
    let protocols = vec![
        (Protocol::OpenAiChat, CHAT),
        (Protocol::Anthropic, ANTHROPIC),
        (Protocol::OpenAiResponses, RESPONSES),
        (Protocol::Gemini, GEMINI),
    ];
    let damage = prop_oneof![8 => Just(None), 1 => any::<(Index, u8)>().prop_map(Some)];
    let end = select(vec!["\n\n", "\r\n\r\n", "\r\r"]);
    (select(protocols), vec((any::<Index>(), damage, end), 0..16)).prop_map(|((protocol, frames), chosen)| {
        let mut body = Vec::new();
        for (frame, damage, end) in chosen {
            let mut payload = frame.get(frames).as_bytes().to_vec();
            if let Some((place, byte)) = damage {
                *place.get_mut(&mut payload) = byte;
            }
            body.extend_from_slice(b"data: ");
            body.extend(payload);
            body.extend_from_slice(end.as_bytes());
        }
        (protocol, body)
    })
}

/// What comes of an answer, in words, and without what chance makes.
fn read(protocol: Protocol, pieces: Vec<&[u8]>) -> Vec<String> {
    let events = replay(protocol, pieces).unwrap().map(|event| match event {
        Ok(event) => format!("{event:?}"),
        Err(error) => format!("{error:?}"),
    });
    events.map(|event| without_chance(&event)).collect()
}

/// Ids that are made up begin with a random number of sixteen digits.
fn without_chance(event: &str) -> String {
    let mut parts = event.split("call_");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let is_random =
            part.get(..16).is_some_and(|head| head.chars().all(|digit| digit.is_ascii_hexdigit()));
        text.push_str("call_");
        text.push_str(if is_random { part.get(16..).unwrap() } else { part });
    }
    text
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn any_frames_give_the_same_however_they_arrive((protocol, body) in answer(), sizes in sizes()) {
        let whole = read(protocol, vec![&body]);
        prop_assert_eq!(&read(protocol, cut(&body, &sizes)), &whole);
        prop_assert_eq!(read(protocol, cut(&body, &[1])), whole);
    }

    #[test]
    fn any_frames_keep_the_order_of_events((protocol, body) in answer()) {
        let events: Vec<_> = replay(protocol, [body.as_slice()]).unwrap().collect();
        prop_assert!(matches!(events.first(), Some(Ok(StreamEvent::Start))));
        let mut open: Vec<(char, String)> = Vec::new();
        for (position, event) in events.iter().enumerate() {
            let is_last = position + 1 == events.len();
            let Ok(event) = event else {
                prop_assert!(is_last, "nothing follows an error");
                continue;
            };
            prop_assert_eq!(matches!(event, StreamEvent::Finish), is_last, "a finished answer ends so");
            let (kind, id, change) = match event {
                StreamEvent::TextStart { id } => ('t', id, 1),
                StreamEvent::TextDelta { id, .. } => ('t', id, 0),
                StreamEvent::TextEnd { id, .. } => ('t', id, -1),
                StreamEvent::ReasoningStart { id } => ('r', id, 1),
                StreamEvent::ReasoningDelta { id, .. } => ('r', id, 0),
                StreamEvent::ReasoningEnd { id, .. } => ('r', id, -1),
                StreamEvent::ToolInputStart { id, .. } => ('c', id, 1),
                StreamEvent::ToolInputDelta { id, .. } => ('c', id, 0),
                StreamEvent::ToolInputEnd { id } => ('c', id, -1),
                StreamEvent::StepFinish { .. } => {
                    prop_assert_eq!(&open, &Vec::new(), "what was opened is closed");
                    continue;
                }
                _ => continue,
            };
            let known = open.iter().position(|one| *one == (kind, id.clone()));
            prop_assert_eq!(known.is_none(), change == 1, "{:?} in {:?}", event, events);
            match (change, known) {
                (1, _) => open.push((kind, id.clone())),
                (-1, Some(known)) => drop(open.remove(known)),
                _ => {}
            }
        }
    }
}
