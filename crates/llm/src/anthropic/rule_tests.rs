//! Anthropic's rules for a request, checked on random conversations.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::METADATA;
use super::model::ClaudeModel;
use super::request::body;
use crate::{
    AnswerOrigin, Block, Content, Effort, Message, ModelRequest, Reasoning, ToolChoice, ToolSpec, test_sample,
};

/// The rules that a body breaks.
fn broken(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let model = ClaudeModel::of(body["model"].as_str().unwrap());
    let messages = body["messages"].as_array().unwrap();
    roles(messages, model, &mut faults);
    let mut ids = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let mut rule = |holds: bool, rule: &str| {
            if !holds {
                faults.push(format!("messages.{index}: {rule}"));
            }
        };
        let content = message["content"].as_array().unwrap();
        rule(!content.is_empty(), "no empty content");
        rule(content.iter().all(is_filled), "no empty block");
        rule(content.iter().all(is_marked_rightly), "no mark on thoughts and empty results");
        let called = ids_of(content, "tool_use", "id");
        let next = messages.get(index + 1).and_then(|next| next["content"].as_array());
        let answered = next.map(|next| ids_of(next, "tool_result", "tool_use_id")).unwrap_or_default();
        match message["role"].as_str().unwrap() {
            "assistant" => {
                rule(called == answered, "every call is answered in the next message, in order");
                rule(called.iter().all(|id| fits(id) && ids.insert(id.clone())), "ids fit and are unique");
                let last = content.last().map(|block| block["type"].as_str().unwrap());
                rule(!matches!(last, Some("thinking" | "redacted_thinking")), "no thought at the end");
                let is_last = !messages.iter().skip(index + 1).any(|later| later["role"] == "assistant");
                rule(hosted_is_settled(content, is_last), "the provider's own tools are settled");
                rule(content.iter().all(|block| block["type"] != "tool_result"), "no results from the model");
            }
            "user" => {
                let results = content.iter().take_while(|block| block["type"] == "tool_result").count();
                let all = ids_of(content, "tool_result", "tool_use_id").len();
                rule(results == all, "results come first");
                let before = index.checked_sub(1).and_then(|before| messages[before]["content"].as_array());
                let asked = before.map(|before| ids_of(before, "tool_use", "id")).unwrap_or_default();
                rule(ids_of(content, "tool_result", "tool_use_id") == asked, "results have calls");
                rule(called.is_empty(), "no calls from the person");
            }
            _ => rule(content.iter().all(|block| block["type"] == "text"), "instructions are text"),
        }
    }
    fields(body, model, &mut faults);
    faults
}

fn roles(messages: &[Value], model: ClaudeModel, faults: &mut Vec<String>) {
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let mut rule = |holds: bool, rule: &str| {
        if !holds {
            faults.push(format!("{rule}: {roles:?}"));
        }
    };
    rule(roles.first() == Some(&"user"), "the person begins");
    for (index, pair) in roles.windows(2).enumerate() {
        match (pair[0], pair[1]) {
            ("user", "assistant") | ("assistant", "user") => {}
            ("user", "system") => rule(model.takes_system(), "the model takes instructions"),
            ("system", "assistant") => {}
            _ => rule(false, &format!("nobody speaks twice, at {index}")),
        }
    }
    let last = messages.last().filter(|last| last["role"] == "assistant");
    let end = last.and_then(|last| last["content"].as_array()?.last()?["text"].as_str());
    rule(end.is_none_or(|end| model.takes_prefill() && end == end.trim_end()), "no answer to go on with");
}

fn fields(body: &Value, model: ClaudeModel, faults: &mut Vec<String>) {
    let mut rule = |holds: bool, rule: &str| {
        if !holds {
            faults.push(rule.to_owned());
        }
    };
    rule(marks(body) <= 4, "at most four marks");
    let max_tokens = body["max_tokens"].as_u64().unwrap();
    rule(max_tokens > 0, "an output limit");
    let thinking = body["thinking"]["type"].as_str();
    if thinking == Some("enabled") {
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap();
        rule((1_024..max_tokens).contains(&budget), "the budget is in its bounds");
    }
    if thinking.is_some_and(|kind| kind != "disabled") {
        rule(body.get("temperature").is_none(), "no temperature for one who thinks");
        let choice = body["tool_choice"]["type"].as_str();
        rule(!matches!(choice, Some("any" | "tool")), "one who thinks is not forced");
    }
    rule(body.get("temperature").is_none() || model.takes_temperature(), "the model takes a temperature");
    rule(body.get("tools").is_some() == body.get("tool_choice").is_some(), "a choice needs tools");
    let texts = body["system"].as_array().into_iter().flatten();
    rule(texts.into_iter().all(is_filled), "no empty instruction");
}

fn ids_of(content: &[Value], kind: &str, field: &str) -> Vec<String> {
    let found = content.iter().filter(|block| block["type"] == kind);
    found.map(|block| block[field].as_str().unwrap().to_owned()).collect()
}

fn fits(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn is_filled(block: &Value) -> bool {
    let filled = |name: &str| block[name].as_str().is_some_and(|text| !text.trim().is_empty());
    match block["type"].as_str().unwrap() {
        "text" => filled("text"),
        "thinking" => filled("signature"),
        "redacted_thinking" => filled("data"),
        "tool_use" => block["name"].as_str().is_some_and(fits) && block["input"].is_object(),
        "tool_result" => block.get("content").is_none_or(|content| {
            let content = content.as_array().unwrap();
            let failed = block["is_error"] == true;
            let fine = |one: &Value| is_filled(one) && (!failed || one["type"] == "text");
            !content.is_empty() && content.iter().all(fine)
        }),
        _ => true,
    }
}

/// A mark stands neither on a thought nor on nothing.
fn is_marked_rightly(block: &Value) -> bool {
    let markable = match block["type"].as_str().unwrap() {
        "thinking" | "redacted_thinking" => false,
        "tool_result" => block.get("content").is_some(),
        _ => true,
    };
    markable || block.get("cache_control").is_none()
}

/// Each call of the provider's own tools stands before its result; only the last answer may have one without.
fn hosted_is_settled(content: &[Value], is_last: bool) -> bool {
    let mut open = Vec::new();
    for block in content {
        match block["type"].as_str().unwrap() {
            "server_tool_use" => open.push(block["id"].clone()),
            "web_search_tool_result" => {
                let Some(at) = open.iter().position(|id| *id == block["tool_use_id"]) else { return false };
                open.remove(at);
            }
            _ => {}
        }
    }
    open.is_empty() || is_last
}

/// All marks in a body.
fn marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key("cache_control")) + fields.values().map(marks).sum::<usize>()
        }
        Value::Array(list) => list.iter().map(marks).sum(),
        _ => 0,
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".into()), Just("so be it ".into()), "[a-z<&]{1,8}"]
}

/// Few enough that they meet again.
fn ids() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "f.read:0", "f_read_0", "", "toolu_01"]).prop_map(str::to_owned)
}

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let media = prop::sample::select(vec![
        ("image/png", test_sample::PIXEL),
        ("application/pdf", test_sample::DOCUMENT),
        ("image/webp", "https://x/y"),
        ("text/plain", "data:text/plain;base64,IA=="),
        ("video/mp4", ""),
    ]);
    let media =
        media.prop_map(|(mime, url)| Content::Media { mime: mime.into(), url: url.into(), filename: None });
    prop::collection::vec(prop_oneof![3 => words().prop_map(Content::Text), 1 => media], 0..4)
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let own = |fields: Value| Some(json!({METADATA: fields}));
    let raw_call = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let raw_result = |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let thought = prop::sample::select(vec![
        None,
        own(json!({"signature": "s"})),
        own(json!({"redacted": "r"})),
        Some(json!({"openai": 1})),
    ]);
    let block = prop_oneof![
        words().prop_map(|text| Block::Text { text, metadata: None }),
        (words(), thought).prop_map(|(text, metadata)| Block::Reasoning { text, metadata }),
        (ids(), "[a-z.]{0,3}", prop::bool::ANY).prop_map(|(id, name, sound)| Block::ToolCall {
            id,
            name,
            input: if sound { json!({"a": 1}) } else { Value::Null },
            metadata: None,
        }),
        (ids(), prop::bool::ANY).prop_map(move |(id, kept)| Block::HostedCall {
            metadata: own(json!({"block": raw_call(&id)})).filter(|_| kept),
            id,
            name: "web_search".into(),
            input: json!({}),
        }),
        (ids(), prop::bool::ANY).prop_map(move |(id, kept)| Block::HostedResult {
            metadata: own(json!({"block": raw_result(&id)})).filter(|_| kept),
            id,
            name: "web_search".into(),
            output: json!([]),
        }),
    ];
    prop::collection::vec(block, 0..5)
}

fn message() -> impl Strategy<Value = Message> {
    let origin = prop::sample::select(vec![None, Some(test_sample::origin()), Some(AnswerOrigin::default())]);
    prop_oneof![
        contents().prop_map(Message::User),
        (blocks(), origin).prop_map(|(blocks, origin)| Message::Assistant { blocks, origin }),
        (ids(), contents(), prop::bool::ANY).prop_map(|(call_id, output, is_error)| Message::Tool {
            call_id,
            name: "read".into(),
            output,
            is_error,
        }),
        words().prop_map(Message::System),
    ]
}

fn request() -> impl Strategy<Value = ModelRequest> {
    let models = [
        "m-1",
        "claude-sonnet-4-5",
        "claude-opus-4-6",
        "claude-opus-4-8",
        "claude-sonnet-5",
        "claude-fable-5",
    ];
    let model = prop::sample::select(models.to_vec());
    let effort = prop::sample::select(vec![None, Some(Effort::None), Some(Effort::Low), Some(Effort::Max)]);
    let budget = prop::sample::select(vec![None, Some(0), Some(10), Some(9_000)]);
    let choices =
        vec![ToolChoice::Auto, ToolChoice::None, ToolChoice::Required, ToolChoice::Tool("read".into())];
    let limit = prop::sample::select(vec![None, Some(1), Some(2_000), Some(64_000)]);
    (
        prop::collection::vec(message(), 0..12),
        model,
        (effort, budget, limit),
        prop::sample::select(choices),
        prop::collection::vec(words(), 0..4),
        0..3_usize,
    )
        .prop_map(|(messages, model, (effort, budget, max_output), tool_choice, system, tools)| {
            ModelRequest {
                origin: test_sample::origin(),
                model: model.into(),
                system,
                messages,
                tools: vec![
                    ToolSpec {
                        name: "read".into(),
                        description: String::new(),
                        schema: json!({}).into()
                    };
                    tools
                ],
                tool_choice,
                max_output,
                temperature: Some(0.5),
                reasoning: Reasoning { effort, budget },
                ..ModelRequest::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_repaired_conversation_keeps_the_rules(request in request()) {
        let body = body(&request.repaired());
        prop_assert_eq!(broken(&body), Vec::<String>::new(), "{:#}", body);
    }

    /// The cached prefix: when the person says more, nothing changes that stands before the last two turns.
    #[test]
    fn what_was_sent_stays_as_it_was(request in request(), more in contents()) {
        let turns = |messages: Vec<Message>| {
            let body = body(&ModelRequest { messages, ..request.clone() }.repaired());
            body["messages"].as_array().unwrap().clone()
        };
        let before = turns(request.messages.clone());
        let after = turns(request.messages.iter().cloned().chain([Message::User(more)]).collect());
        let settled = blocks_of(&before[..before.len().saturating_sub(2)]);
        let now = blocks_of(&after);
        prop_assert_eq!(Some(settled.as_slice()), now.get(..settled.len()));
    }
}

/// All blocks with the roles of those who said them, without their marks.
fn blocks_of(turns: &[Value]) -> Vec<(Value, Value)> {
    let mut blocks = Vec::new();
    for turn in turns {
        for block in turn["content"].as_array().unwrap() {
            let mut block = block.clone();
            block.as_object_mut().unwrap().remove("cache_control");
            blocks.push((turn["role"].clone(), block));
        }
    }
    blocks
}

#[test]
fn the_rules_notice_what_breaks_them() {
    let check = |messages: Value, expected: &str| {
        let found = broken(&json!({"model": "m", "max_tokens": 1, "messages": messages}));
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
    };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let call =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {}}]});
    let user = json!({"role": "user", "content": text("hi")});
    check(json!([call]), "the person begins");
    check(json!([user, user]), "nobody speaks twice");
    check(json!([user, call, user]), "every call is answered");
    check(json!([{"role": "user", "content": text(" ")}]), "no empty block");
    check(json!([user, {"role": "system", "content": text("x")}]), "the model takes instructions");
    let result = json!([{"type": "tool_result", "tool_use_id": "a"}]);
    check(
        json!([user, {"role": "assistant", "content": text("x")}, {"role": "user", "content": result}]),
        "have calls",
    );
}
