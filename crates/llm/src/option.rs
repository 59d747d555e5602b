//! The caller's own fields, put into the body of a request.
//!
//! One setting inside an object must not undo the others, and a tool of the provider's own must stand beside the
//! caller's. Anything else the caller decides alone.

use serde_json::{Map, Value};

/// Lists at the top of a body that grow by what they lack: without the caller's tools, or without what the protocol
/// itself asks to be included, a session could not go on.
const GROWING: &[&str] = &["tools", "include"];

/// Puts options into a body: objects are filled, the lists in [`GROWING`] grow, and anything else is replaced.
pub(crate) fn merge(body: &mut Map<String, Value>, options: &Map<String, Value>) {
    for (name, value) in options {
        match (body.get_mut(name), value) {
            (Some(Value::Array(list)), Value::Array(more)) if GROWING.contains(&name.as_str()) => {
                for element in more {
                    if !list.contains(element) {
                        list.push(element.clone());
                    }
                }
            }
            (Some(known), _) => fill(known, value),
            (None, _) => {
                body.insert(name.clone(), value.clone());
            }
        }
    }
}

fn fill(known: &mut Value, value: &Value) {
    match (known, value) {
        (Value::Object(fields), Value::Object(more)) if is_alike(fields, more) => {
            for (name, value) in more {
                match fields.get_mut(name) {
                    Some(known) => fill(known, value),
                    None => {
                        fields.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (known, value) => *known = value.clone(),
    }
}

/// Whether two objects may be merged. Objects of different `type` have different fields: merged they would be refused.
fn is_alike(fields: &Map<String, Value>, more: &Map<String, Value>) -> bool {
    match (fields.get("type"), more.get("type")) {
        (Some(known), Some(other)) => known == other,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_fill_objects_and_replace_the_rest() {
        let check = |body: Value, options: Value, expected: Value| {
            let mut merged = body.as_object().unwrap().clone();
            merge(&mut merged, options.as_object().unwrap());
            assert_eq!(Value::Object(merged), expected, "{body} {options}");
        };
        check(
            json!({"a": 1, "b": {"c": {"d": 1, "e": [1]}, "f": 2}}),
            json!({"a": 2, "b": {"c": {"e": [2], "g": 3}}, "h": null}),
            json!({"a": 2, "b": {"c": {"d": 1, "e": [2], "g": 3}, "f": 2}, "h": null}),
        );
        check(json!({"a": {"b": 1}, "c": 1}), json!({"a": null, "c": {}}), json!({"a": null, "c": {}}));
        check(
            json!({"tools": [1], "include": ["a"], "stop": ["x"], "in": {"tools": [1]}}),
            json!({"tools": [2], "include": ["a", "b"], "stop": ["y"], "in": {"tools": [2]}}),
            json!({"tools": [1, 2], "include": ["a", "b"], "stop": ["y"], "in": {"tools": [2]}}),
        );
        // Anthropic's `thinking` of one type with the budget of the other would be refused.
        check(
            json!({"thinking": {"type": "enabled", "budget_tokens": 1}}),
            json!({"thinking": {"type": "adaptive"}}),
            json!({"thinking": {"type": "adaptive"}}),
        );
        check(
            json!({"thinking": {"type": "enabled", "budget_tokens": 1}}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 2}}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 2}}),
        );
    }
}
