//! A neutral request as a Responses body.

use serde_json::{Map, Value, json};

use super::{input, tools};
use crate::{AnswerFormat, Effort, ModelRequest, model_id, option};

/// What has to be asked for so that reasoning can be replayed.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// The body of a streaming request.
pub(super) fn body(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("input".into(), Value::Array(input::items(request)));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tools::definition).collect());
        body.insert("tool_choice".into(), tools::choice(&request.tool_choice));
    }
    if let Some(limit) = request.max_output {
        body.insert("max_output_tokens".into(), json!(limit));
    }
    match (request.reasoning.effort, request.temperature) {
        // Models that reason refuse a temperature.
        (Some(effort), _) => {
            let reasoning = json!({"effort": effort_name(effort), "summary": "auto"});
            body.insert("reasoning".into(), reasoning);
        }
        (None, Some(temperature)) => {
            body.insert("temperature".into(), json!(temperature));
        }
        (None, None) => {}
    }
    if let (None, Some(top_p)) = (request.reasoning.effort, request.top_p) {
        body.insert("top_p".into(), json!(top_p));
    }
    if let Some(AnswerFormat { name, schema }) = &request.format {
        // Strict schemas are a dialect of their own: most schemas would be refused.
        let format = json!({"type": "json_schema", "name": name, "schema": schema, "strict": false});
        body.insert("text".into(), json!({"format": format}));
    }
    if let Some(key) = &request.cache_key {
        body.insert("prompt_cache_key".into(), json!(key));
    }
    if may_reason(request) {
        body.insert("include".into(), json!([ENCRYPTED_REASONING]));
    }
    body.insert("store".into(), json!(false));
    body.insert("stream".into(), json!(true));
    option::merge(&mut body, &request.options);
    Value::Object(body)
}

/// The word for an effort.
fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "xhigh",
    }
}

/// Whether the model may reason. OpenAI refuses to be asked for the reasoning of a model that has none, so the families
/// that never had any are known by name; no new ones will come.
fn may_reason(request: &ModelRequest) -> bool {
    let name = model_id::base_name(&request.model);
    let never = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"].iter().any(|family| name.starts_with(family));
    request.reasoning.effort.is_some() || !never
}

#[cfg(test)]
mod tests {
    use super::super::METADATA;
    use super::*;
    use crate::{Content, Message, ToolChoice, ToolSpec, test_sample};

    #[test]
    fn whole_body() {
        let request = ModelRequest {
            model: "gpt-4.1".into(),
            system: vec!["one".into(), String::new(), "two".into()],
            messages: vec![Message::User(vec![Content::Text("hi".into())])],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "reads".into(),
                schema: json!({"type": "object", "properties": {}}).into(),
            }],
            tool_choice: ToolChoice::Required,
            max_output: Some(99),
            temperature: Some(0.5),
            cache_key: Some("ses_1".into()),
            options: json!({"top_p": 1, "text": {"verbosity": "low"}, "tools": [{"type": "web_search"}]})
                .as_object()
                .unwrap()
                .clone(),
            ..ModelRequest::default()
        };
        let expected = json!({
            "model": "gpt-4.1",
            "input": [
                {"type": "message", "role": "system", "content": "one\n\ntwo"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
            "tools": [
                {"type": "function", "name": "read", "description": "reads",
                    "parameters": {"type": "object", "properties": {}}, "strict": false},
                {"type": "web_search"},
            ],
            "tool_choice": "required",
            "max_output_tokens": 99,
            "temperature": 0.5,
            "prompt_cache_key": "ses_1",
            "store": false,
            "stream": true,
            "top_p": 1,
            "text": {"verbosity": "low"},
        });
        assert_eq!(body(&request), expected);
    }

    #[test]
    fn reasoning_is_asked_for_where_there_may_be_any() {
        let check = |model: &str, effort: Option<Effort>, expected: bool| {
            let mut request = ModelRequest { model: model.into(), ..ModelRequest::default() };
            request.reasoning.effort = effort;
            let include = body(&request).get("include").cloned();
            assert_eq!(include, expected.then(|| json!([ENCRYPTED_REASONING])), "{model} {effort:?}");
        };
        check("gpt-5.2", None, true);
        check("o4-mini", None, true);
        check("grok-4", None, true);
        check("gpt-4o", None, false);
        check("openai/gpt-4.1-mini", None, false);
        // A fine-tuned model reasons as little as its base.
        check("ft:gpt-4o-2024-08-06:acme::abc", None, false);
        check("ft:o4-mini:acme:gpt-4:abc", None, true);
        check("gpt-4o", Some(Effort::Low), true);
    }

    #[test]
    fn options_fill_objects_and_replace_the_rest() {
        let options = json!({"reasoning": {"summary": "detailed"}, "store": true, "include": ["a"]});
        let mut request = ModelRequest {
            options: options.as_object().unwrap().clone(),
            model: "o3".into(),
            ..ModelRequest::default()
        };
        request.reasoning.effort = Some(Effort::Max);
        let body = body(&request);
        assert_eq!(body["reasoning"], json!({"effort": "xhigh", "summary": "detailed"}));
        assert_eq!(body["store"], true);
        assert_eq!(body["include"], json!([ENCRYPTED_REASONING, "a"]));
    }

    #[test]
    fn tool_choice_needs_tools() {
        let request = ModelRequest { tool_choice: ToolChoice::None, ..ModelRequest::default() };
        assert_eq!(body(&request).get("tool_choice"), None);
    }

    fn metadata() -> (Option<Value>, Option<Value>) {
        let summary = json!([{"type": "summary_text", "text": "Two reads at once."}]);
        let reasoning = json!({METADATA: {"id": "rs_1", "encrypted_content": "gAAA", "summary": summary}});
        let call = json!({METADATA: {"id": "fc_1", "arguments": "{ \"filePath\": \"a.rs\" }"}});
        (Some(reasoning), Some(call))
    }

    #[test]
    fn a_conversation_with_everything_in_it() {
        let (reasoning, call) = metadata();
        let request = test_sample::conversation(reasoning, call).repaired();
        insta::assert_snapshot!("everything", serde_json::to_string_pretty(&body(&request)).unwrap());
    }

    #[test]
    fn the_same_conversation_after_a_switch() {
        let (reasoning, call) = metadata();
        let request = test_sample::switched(reasoning, call).repaired();
        insta::assert_snapshot!("switched", serde_json::to_string_pretty(&body(&request)).unwrap());
    }
}
