//! A neutral request as a Messages body.

use serde_json::{Map, Value, json};

use super::messages::{self, SpeakerTurn};
use super::model::ClaudeModel;
use super::thinking::{self, Thinking};
use super::{cache, content, schema};
use crate::{ModelRequest, ToolChoice, option, tool_schema};

/// The body of a streaming request.
pub(super) fn body(request: &ModelRequest) -> Value {
    let model = ClaudeModel::of(&request.model);
    let mut turns = messages::lower(&request.messages, model);
    let budget_fits = !messages::acts_without_a_thought(&turns);
    let thinking = thinking::plan(model, request.reasoning, request.max_output, budget_fits);
    if thinking.on || !model.takes_prefill() {
        messages::return_the_turn(&mut turns);
    }
    let (mut tools, choice) = tools(request, &turns, thinking.on);
    let mut system: Vec<Value> = request
        .system
        .iter()
        .filter(|part| !part.trim().is_empty())
        .map(|part| content::text(part))
        .collect();
    cache::mark(&mut tools, &mut system, &mut turns);

    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(thinking.max_tokens));
    if !system.is_empty() {
        body.insert("system".into(), Value::Array(system));
    }
    body.insert("messages".into(), turns.into_iter().map(SpeakerTurn::into_value).collect());
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        body.insert("tool_choice".into(), choice);
    }
    let temperature = request.temperature.filter(|_| !thinking.on && model.takes_temperature());
    if let Some(temperature) = temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    let top_p = request.top_p.filter(|_| !thinking.on && model.takes_temperature());
    if let Some(top_p) = top_p {
        body.insert("top_p".into(), json!(top_p));
    }
    let output = output_config(request, &thinking);
    if !output.is_empty() {
        body.insert("output_config".into(), Value::Object(output));
    }
    if let Some(config) = thinking.config {
        body.insert("thinking".into(), config);
    }
    body.insert("stream".into(), json!(true));
    option::merge(&mut body, &request.options);
    Value::Object(body)
}

/// The tools and whether they are called.
///
/// A conversation in which tools were called has to say what they are, even where none may be called any more. A model
/// that thinks cannot be forced to call one.
fn tools(request: &ModelRequest, turns: &[SpeakerTurn], thinks: bool) -> (Vec<Value>, Value) {
    let choice = match &request.tool_choice {
        ToolChoice::None if !messages::mention_tools(turns) => return (Vec::new(), Value::Null),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Required if !thinks => json!({"type": "any"}),
        ToolChoice::Tool(name) if !thinks => json!({"type": "tool", "name": name}),
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_) => json!({"type": "auto"}),
    };
    let tools = request.tools.iter().map(|tool| {
        let mut lowered = Map::new();
        lowered.insert("name".into(), json!(tool.name));
        if !tool.description.trim().is_empty() {
            lowered.insert("description".into(), json!(tool.description));
        }
        lowered.insert("input_schema".into(), tool_schema::plain(&tool.schema));
        Value::Object(lowered)
    });
    (tools.collect(), choice)
}

fn output_config(request: &ModelRequest, thinking: &Thinking) -> Map<String, Value> {
    let mut output = Map::new();
    if let Some(effort) = thinking.effort {
        output.insert("effort".into(), json!(effort));
    }
    if let Some(format) = &request.format {
        let schema = schema::of_answer(&format.schema);
        output.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anthropic::METADATA;
    use crate::{Block, Content, Effort, Message, Reasoning, ToolSpec, test_sample};

    fn user(text: &str) -> Message {
        Message::User(vec![Content::Text(text.into())])
    }

    fn tool() -> ToolSpec {
        ToolSpec {
            name: "read".into(),
            description: "reads".into(),
            schema: json!({"type": "object"}).into(),
        }
    }

    #[test]
    fn whole_body() {
        let request = ModelRequest {
            model: "claude-sonnet-4-5".into(),
            system: vec!["one".into(), " ".into(), "two".into()],
            messages: vec![user("hi")],
            tools: vec![tool()],
            tool_choice: ToolChoice::Required,
            max_output: Some(99),
            temperature: Some(0.5),
            cache_key: Some("ses_1".into()),
            options: json!({"top_k": 3, "stream": false}).as_object().unwrap().clone(),
            ..ModelRequest::default()
        };
        let mark = json!({"type": "ephemeral"});
        let expected = json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 99,
            "system": [{"type": "text", "text": "one"}, {"type": "text", "text": "two", "cache_control": mark}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}],
            "tools": [{"name": "read", "description": "reads", "input_schema": {"type": "object", "properties": {}},
                "cache_control": mark}],
            "tool_choice": {"type": "any"},
            "temperature": 0.5,
            "stream": false,
            "top_k": 3,
        });
        assert_eq!(body(&request), expected);
    }

    #[test]
    fn the_least_body() {
        let request =
            ModelRequest { model: "m".into(), messages: vec![user("hi")], ..ModelRequest::default() };
        let content = json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]);
        let expected = json!({"model": "m", "max_tokens": 4096,
            "messages": [{"role": "user", "content": content}], "stream": true});
        assert_eq!(body(&request), expected);
    }

    #[test]
    fn tool_choices() {
        let check = |choice: ToolChoice, effort: Option<Effort>, called: bool, expected: Option<Value>| {
            let mut messages = vec![user("hi")];
            if called {
                let call =
                    Block::ToolCall { id: "c".into(), name: "read".into(), input: json!({}), metadata: None };
                messages.push(Message::Assistant { blocks: vec![call], origin: None });
                messages.push(user("stop"));
            }
            let reasoning = Reasoning { effort, budget: None };
            let request = ModelRequest {
                messages,
                tools: vec![tool()],
                tool_choice: choice,
                reasoning,
                ..ModelRequest::default()
            };
            let body = body(&request.repaired());
            assert_eq!(body.get("tool_choice"), expected.as_ref());
            assert_eq!(body.get("tools").is_some(), expected.is_some());
        };
        let named = || ToolChoice::Tool("read".into());
        check(ToolChoice::Auto, None, false, Some(json!({"type": "auto"})));
        check(ToolChoice::None, None, false, None);
        check(ToolChoice::None, None, true, Some(json!({"type": "none"})));
        check(named(), None, false, Some(json!({"type": "tool", "name": "read"})));
        check(named(), Some(Effort::High), false, Some(json!({"type": "auto"})));
        check(ToolChoice::Required, Some(Effort::High), false, Some(json!({"type": "auto"})));
        check(ToolChoice::Required, Some(Effort::None), false, Some(json!({"type": "any"})));
    }

    #[test]
    fn newer_models_take_no_temperature_and_no_prefill() {
        let said = Block::Text { text: "so far".into(), metadata: None };
        let messages = vec![user("hi"), Message::Assistant { blocks: vec![said], origin: None }];
        let request = |model: &str| ModelRequest {
            model: model.into(),
            messages: messages.clone(),
            temperature: Some(0.2),
            ..ModelRequest::default()
        };
        let older = body(&request("claude-sonnet-4-5"));
        assert_eq!((&older["temperature"], &older["messages"][2]), (&json!(0.2), &Value::Null));
        let newer = body(&request("claude-opus-4-8"));
        assert_eq!((newer.get("temperature"), &newer["messages"][2]["role"]), (None, &json!("user")));
    }

    fn show(model: Option<&str>, request: ModelRequest) -> String {
        let model = model.map_or_else(|| request.model.clone(), str::to_owned);
        let request = ModelRequest { model, ..request }.repaired();
        serde_json::to_string_pretty(&body(&request)).unwrap()
    }

    #[test]
    fn a_conversation_with_everything_in_it() {
        let request = || {
            let signature = json!({METADATA: {"signature": "c2lnbmVk"}});
            let caller = json!({METADATA: {"fields": {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}}});
            test_sample::conversation(Some(signature), Some(caller))
        };
        insta::assert_snapshot!("everything_budget", show(Some("claude-sonnet-4-5"), request()));
        insta::assert_snapshot!("everything_adaptive", show(Some("claude-opus-4-8"), request()));
    }

    #[test]
    fn the_same_conversation_after_a_switch() {
        let signature = json!({METADATA: {"signature": "c2lnbmVk"}});
        insta::assert_snapshot!("switched", show(None, test_sample::switched(Some(signature), None)));
    }
}
