//! JSON schemas in the subset that Anthropic takes.

use serde_json::{Map, Value, json};

/// Words that combine schemas, which the top level of a tool's schema may not have.
const COMBINATORS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The schema of a tool's arguments: an object at the top level, and nothing but an object.
///
/// Of alternatives at the top level, the fields remain: the model shall at least know their names.
pub(super) fn of_tool(schema: &Value) -> Value {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.shift_remove("$schema");
    for word in COMBINATORS {
        let alternatives = fields.shift_remove(word);
        let more = alternatives.as_ref().and_then(Value::as_array).into_iter().flatten();
        let more: Vec<Map<String, Value>> =
            more.filter_map(|one| one.get("properties")?.as_object().cloned()).collect();
        if more.is_empty() {
            continue;
        }
        if let Value::Object(known) = fields.entry("properties").or_insert_with(|| json!({})) {
            for (name, property) in more.into_iter().flatten() {
                known.entry(name).or_insert(property);
            }
        }
    }
    fields.insert("type".into(), json!("object"));
    Value::Object(fields)
}

/// The schema of an answer: every object in it names all its fields.
pub(super) fn of_answer(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("$schema");
    }
    close(&mut schema);
    schema
}

fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_object = match fields.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
        None => fields.contains_key("properties"),
    };
    if is_object {
        fields.insert("additionalProperties".into(), json!(false));
    }
    for (word, below) in fields.iter_mut() {
        match (word.as_str(), below) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values_mut().for_each(close);
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(several)) => several.iter_mut().for_each(close),
            ("items", one) => close(one),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools() {
        let check = |schema: Value, expected: Value| assert_eq!(of_tool(&schema), expected);
        let object = || json!({"type": "object"});
        check(Value::Null, object());
        check(json!(true), object());
        check(json!({"$schema": "x", "type": "object"}), object());
        check(
            json!({"properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({"properties": {"a": {"type": "string"}}, "required": ["a"], "type": "object"}),
        );
        check(
            json!({"type": "object", "properties": {"a": {}}, "oneOf": [
                {"properties": {"a": {"const": 1}, "b": {"const": 2}}}, {"required": ["a"]}
            ]}),
            json!({"type": "object", "properties": {"a": {}, "b": {"const": 2}}}),
        );
    }

    #[test]
    fn answers_are_closed() {
        let open = json!({"$schema": "x", "type": "object", "properties": {
            "type": {"type": "string"},
            "list": {"type": "array", "items": {"type": ["object", "null"], "properties": {}}},
            "any": {"anyOf": [{"properties": {"a": {}}, "additionalProperties": true}, {"type": "null"}]},
        }});
        let closed = json!({"type": "object", "properties": {
            "type": {"type": "string"},
            "list": {"type": "array",
                "items": {"type": ["object", "null"], "properties": {}, "additionalProperties": false}},
            "any": {"anyOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"type": "null"}]},
        }, "additionalProperties": false});
        assert_eq!(of_answer(&open), closed);
    }
}
