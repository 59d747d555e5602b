//! Schemas of answers in the subset that Anthropic takes.

use serde_json::{Map, Value, json};

/// Formats of a text that the model is held to.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// The schema of an answer: every object in it names all its fields, and what the model cannot be held to is told it
/// in words, because a schema with any such word is refused.
pub(super) fn of_answer(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("$schema");
    }
    fit(&mut schema);
    schema
}

fn fit(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if fields.contains_key("$ref") {
        // A reference stands alone.
        fields.retain(|word, _| matches!(word.as_str(), "$ref" | "$defs" | "definitions"));
    }
    if let Some(alternatives) = fields.shift_remove("oneOf") {
        fields.entry("anyOf").or_insert(alternatives);
    }
    fields.shift_remove("additionalProperties");
    tell(fields);
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
                named.values_mut().for_each(fit);
            }
            ("anyOf" | "allOf", Value::Array(several)) => several.iter_mut().for_each(fit),
            ("items", one) => fit(one),
            _ => {}
        }
    }
}

/// Moves what the model cannot be held to into the description.
fn tell(fields: &mut Map<String, Value>) {
    let mut told: Vec<String> = Vec::new();
    fields.retain(|word, value| {
        let holds = is_held(word, value);
        if !holds {
            told.push(format!("{word}: {value}"));
        }
        holds
    });
    if told.is_empty() {
        return;
    }
    let told = format!("{{{}}}", told.join(", "));
    let described = fields.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
    let description = described.map_or_else(|| told.clone(), |text| format!("{text}\n\n{told}"));
    fields.insert("description".into(), json!(description));
}

fn is_held(word: &str, value: &Value) -> bool {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    match word {
        "$ref" | "$defs" | "definitions" | "type" | "anyOf" | "allOf" | "properties" | "required"
        | "items" | "title" | "description" => true,
        "const" => is_plain(value),
        "enum" => value.as_array().is_some_and(|values| values.iter().all(is_plain)),
        "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
        "minItems" => value.as_u64().is_some_and(|count| count <= 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn answers_say_in_words_what_they_cannot_be_held_to() {
        let check = |schema: Value, expected: Value| assert_eq!(of_answer(&schema), expected);
        check(
            json!({"type": "integer", "description": "How many.", "minimum": 0, "maximum": 9}),
            json!({"type": "integer", "description": "How many.\n\n{minimum: 0, maximum: 9}"}),
        );
        check(
            json!({"type": "array", "minItems": 2, "items": {"type": "string", "format": "color"}}),
            json!({"type": "array", "items": {"type": "string", "description": "{format: \"color\"}"},
                "description": "{minItems: 2}"}),
        );
        let fits = json!({"anyOf": [{"type": "string", "format": "date"}, {"enum": ["a", null]},
            {"type": "array", "minItems": 1, "items": {"const": 1}}]});
        check(fits.clone(), fits);
        check(
            json!({"oneOf": [{"const": "a"}, {"const": {}}]}),
            json!({"anyOf": [{"const": "a"}, {"description": "{const: {}}"}]}),
        );
        check(
            json!({"$ref": "#/$defs/a", "description": "x", "$defs": {"a": {"type": "number", "multipleOf": 2}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "number", "description": "{multipleOf: 2}"}}}),
        );
    }
}
