//! A neutral request as a `generateContent` body.
//!
//! The cache key has no place in it: the provider finds a prompt's cached head by itself.

use serde_json::{Map, Value, json};

use super::{model, schema};
use crate::{AnswerFormat, ModelRequest, ToolChoice, option};

mod contents;

/// The body of a request.
pub(super) fn body(request: &ModelRequest) -> Value {
    let shape = FormatMethod::of(request);
    let mut body = Map::new();
    let system = request.system.iter().filter(|part| !part.trim().is_empty()).cloned();
    let system: Vec<Value> = system.chain(shape.instruction()).map(|text| json!({"text": text})).collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    body.insert("contents".into(), Value::Array(contents::lower(request)));
    if !request.tools.is_empty() {
        body.insert("tools".into(), json!([{"functionDeclarations": declarations(request)}]));
        let calling = match &request.tool_choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        };
        body.insert("toolConfig".into(), json!({"functionCallingConfig": calling}));
    }
    let config = generation(request, &shape);
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    option::merge(&mut body, &request.options);
    Value::Object(body)
}

fn declarations(request: &ModelRequest) -> Vec<Value> {
    let declare = |tool: &crate::ToolSpec| {
        let mut declaration = Map::new();
        declaration.insert("name".into(), json!(tool.name));
        declaration.insert("description".into(), json!(tool.description));
        declaration.extend(schema::parameters(&tool.schema).map(|schema| ("parameters".to_owned(), schema)));
        Value::Object(declaration)
    };
    request.tools.iter().map(declare).collect()
}

fn generation(request: &ModelRequest, shape: &FormatMethod<'_>) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(limit) = request.max_output {
        config.insert("maxOutputTokens".into(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = request.top_p {
        config.insert("topP".into(), json!(top_p));
    }
    if let Some(thinking) = model::thinking(&request.model, request.reasoning) {
        config.insert("thinkingConfig".into(), thinking);
    }
    if let FormatMethod::Enforced(format) = shape {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseSchema".into(), schema::clean(&format.schema));
    }
    config
}

/// How the shape of the answer is brought about.
enum FormatMethod<'a> {
    Free,
    Enforced(&'a AnswerFormat),
    /// Models before the third generation refuse a schema next to tools that they may call. They are asked in words.
    Asked(&'a AnswerFormat),
}

impl<'a> FormatMethod<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let calls = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        match &request.format {
            None => Self::Free,
            Some(format) if calls && !model::is_third_generation(&request.model) => Self::Asked(format),
            Some(format) => Self::Enforced(format),
        }
    }

    fn instruction(&self) -> Option<String> {
        let Self::Asked(format) = self else { return None };
        Some(format!(
            "Give your final answer as JSON only, without any other text, in the shape of this JSON schema:\n{}",
            format.schema
        ))
    }
}

#[cfg(test)]
mod tests;
