//! The schema of a tool's arguments as a plain object.
//!
//! OpenAI and Anthropic refuse a tool whose schema is anything else at its top, and many servers know only the words
//! that those two take. Gemini's schemas are a language of their own.

use serde_json::{Map, Value, json};

/// Words that are refused at the top of a schema.
const REFUSED: &[&str] = &["anyOf", "oneOf", "allOf", "not", "enum", "const"];

/// The schema as a plain object. Where it is a choice between shapes, the model learns of all their fields; whether
/// they fit together is for the tool to say.
pub(crate) fn plain(schema: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.shift_remove("$schema");
    schema.insert("type".into(), json!("object"));
    let mut properties = match schema.get("properties") {
        Some(Value::Object(properties)) => properties.clone(),
        _ => Map::new(),
    };
    for keyword in REFUSED {
        let Some(Value::Array(shapes)) = schema.shift_remove(*keyword) else { continue };
        for shape in &shapes {
            let more = shape.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, property) in more {
                properties.entry(name.clone()).or_insert_with(|| property.clone());
            }
        }
    }
    schema.insert("properties".into(), Value::Object(properties));
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_become_plain_objects() {
        let check = |schema: Value, expected: Value| assert_eq!(plain(&schema), expected, "{schema}");
        let empty = json!({"type": "object", "properties": {}});
        check(Value::Null, empty.clone());
        check(json!(true), empty.clone());
        check(json!({"$schema": "x", "type": "string"}), empty);
        check(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                "$defs": {"b": {}}}),
            json!({"type": "object", "required": ["a"], "$defs": {"b": {}},
                "properties": {"a": {"type": "string"}}}),
        );
        check(
            json!({"oneOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"a": {}, "b": {"type": "null"}}}, {"type": "null"}]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}}),
        );
    }
}
