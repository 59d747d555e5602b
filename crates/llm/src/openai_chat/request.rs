//! A neutral request as a Chat Completions body.

use serde_json::{Map, Value, json};

use super::server::ServerDemands;
use super::{ChatDialect, messages};
use crate::{AnswerFormat, ModelRequest, ToolChoice, option, tool_schema};

/// The body of a streaming request.
pub(super) fn body(request: &ModelRequest, demands: &ServerDemands) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("messages".into(), Value::Array(messages::lower(request, demands)));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool_schema::plain(&tool.schema)});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        };
        body.insert("tool_choice".into(), choice);
    }
    if let Some(limit) = request.max_output {
        let name = match demands.dialect {
            ChatDialect::OpenAi => "max_completion_tokens",
            ChatDialect::Compatible => "max_tokens",
        };
        body.insert(name.into(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = request.top_p {
        body.insert("top_p".into(), json!(top_p));
    }
    if let Some(effort) = request.reasoning.effort {
        body.insert("reasoning_effort".into(), json!(demands.efforts.name(effort)));
    }
    if let Some(AnswerFormat { name, schema }) = &request.format {
        let format = json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}});
        body.insert("response_format".into(), format);
    }
    if let (ChatDialect::OpenAi, Some(key)) = (demands.dialect, &request.cache_key) {
        body.insert("prompt_cache_key".into(), json!(key));
    }
    body.insert("stream".into(), json!(true));
    if demands.ask_for_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    option::merge(&mut body, &request.options);
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::super::decode::METADATA;
    use super::*;
    use crate::{Content, Endpoint, Message, ToolSpec, test_sample};

    fn written(request: &ModelRequest, base_url: &str) -> Value {
        let endpoint = Endpoint::new(base_url);
        body(request, &ServerDemands::of(&endpoint, &request.model, ChatDialect::of(&endpoint)))
    }

    const ANYWHERE: &str = "http://localhost:8080/v1";
    const OPENAI: &str = "https://api.openai.com/v1";

    #[test]
    fn whole_body() {
        let request = ModelRequest {
            model: "m-1".into(),
            system: vec!["one".into(), String::new(), "two".into()],
            messages: vec![Message::User(vec![Content::Text("hi".into())])],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "reads".into(),
                schema: json!({"$schema": "x", "oneOf": [{"properties": {"a": {}}}]}).into(),
            }],
            tool_choice: ToolChoice::Required,
            max_output: Some(99),
            temperature: Some(0.5),
            cache_key: Some("ses_1".into()),
            options: json!({"top_k": 3, "stream_options": {"x": 1}}).as_object().unwrap().clone(),
            ..ModelRequest::default()
        };
        let expected = json!({
            "model": "m-1",
            "messages": [{"role": "system", "content": "one\n\ntwo"}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function",
                "function": {"name": "read", "description": "reads",
                    "parameters": {"type": "object", "properties": {"a": {}}}}}],
            "tool_choice": "required",
            "max_tokens": 99,
            "temperature": 0.5,
            "stream": true,
            "stream_options": {"include_usage": true, "x": 1},
            "top_k": 3,
        });
        assert_eq!(written(&request, ANYWHERE), expected);
        let openai = written(&request, OPENAI);
        assert_eq!(openai["max_completion_tokens"], 99);
        assert_eq!(openai["prompt_cache_key"], "ses_1");
        assert_eq!(openai.get("max_tokens"), None);
    }

    /// It tells the usage unasked, and answered 422 `extra_forbidden` when asked for it.
    #[test]
    fn mistral_is_not_asked_for_the_usage() {
        let expected = json!({"model": "", "messages": [], "stream": true});
        assert_eq!(written(&ModelRequest::default(), "https://api.mistral.ai/v1"), expected);
    }

    #[test]
    fn tool_choice_needs_tools() {
        let request = ModelRequest { tool_choice: ToolChoice::None, ..ModelRequest::default() };
        assert_eq!(written(&request, ANYWHERE).get("tool_choice"), None);
    }

    #[test]
    fn a_conversation_with_everything_in_it() {
        let reasoning = json!({METADATA: {"field": "reasoning"}});
        let request = test_sample::conversation(Some(reasoning), None).repaired();
        let show = |base_url: &str| serde_json::to_string_pretty(&written(&request, base_url)).unwrap();
        insta::assert_snapshot!("everything_compatible", show(ANYWHERE));
        insta::assert_snapshot!("everything_openai", show(OPENAI));
    }

    #[test]
    fn the_same_conversation_after_a_switch() {
        let reasoning = json!({METADATA: {"field": "reasoning"}});
        let request = test_sample::switched(Some(reasoning), None).repaired();
        let shown = serde_json::to_string_pretty(&written(&request, ANYWHERE)).unwrap();
        insta::assert_snapshot!("switched", shown);
    }
}
