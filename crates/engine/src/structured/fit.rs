//! Whether a value fits a JSON schema, as far as models are held to one: kinds, fields, items, choices and bounds. What a
//! schema says besides (formats, patterns, conditions) is for the model to read.

use serde_json::Value;

/// How deep schemas and their references are followed.
const DEEPEST: usize = 64;

/// What is wrong with a value; none when it fits.
pub(super) fn fault(schema: &Value, value: &Value) -> Option<String> {
    SchemaFit { root: schema }.fault(schema, value, "the answer", DEEPEST)
}

struct SchemaFit<'s> {
    root: &'s Value,
}

impl SchemaFit<'_> {
    fn fault(&self, schema: &Value, value: &Value, place: &str, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        if schema == &Value::Bool(false) {
            return Some(format!("{place} is not among what may be there"));
        }
        let schema = schema.as_object()?;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))?;
            return self.fault(target, value, place, depth);
        }
        if let Some(kinds) = schema.get("type") {
            let kinds: Vec<&str> = match kinds {
                Value::String(kind) => vec![kind.as_str()],
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            if !kinds.is_empty() && !kinds.iter().any(|kind| is_a(value, kind)) {
                return Some(format!("{place} must be of type {}", kinds.join(" or ")));
            }
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array)
            && !choices.iter().any(|choice| same(choice, value))
        {
            let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
            return Some(format!("{place} must be one of {}", choices.join(", ")));
        }
        if let Some(only) = schema.get("const")
            && !same(only, value)
        {
            return Some(format!("{place} must be {only}"));
        }
        for all in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Some(fault) = self.fault(all, value, place, depth) {
                return Some(fault);
            }
        }
        for choice in ["anyOf", "oneOf"] {
            let Some(choices) = schema.get(choice).and_then(Value::as_array) else { continue };
            let fits = |choice: &Value| self.fault(choice, value, place, depth).is_none();
            let count = choices.iter().filter(|choice| fits(choice)).count();
            if count == 0 || choice == "oneOf" && count > 1 {
                return Some(format!("{place} fits {count} of the shapes that it may have"));
            }
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, place, depth),
            Value::Array(items) => self.items(schema, items, place, depth),
            _ => bounds(schema, value, place),
        }
    }

    fn fields(
        &self,
        schema: &serde_json::Map<String, Value>,
        fields: &serde_json::Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Option<String> {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        if let Some(missing) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
            return Some(format!("{place} lacks the field `{missing}`"));
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        fields.iter().find_map(|(name, value)| {
            let place = format!("{place}.{name}");
            match (known.and_then(|known| known.get(name)), others) {
                (Some(schema), _) => self.fault(schema, value, &place, depth),
                (None, Some(others)) => self.fault(others, value, &place, depth),
                (None, None) => None,
            }
        })
    }

    fn items(
        &self,
        schema: &serde_json::Map<String, Value>,
        items: &[Value],
        place: &str,
        depth: usize,
    ) -> Option<String> {
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        let length = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if count("minItems").is_some_and(|least| length < least)
            || count("maxItems").is_some_and(|most| length > most)
        {
            return Some(format!("{place} has {length} items, which are too few or too many"));
        }
        let front = schema.get("prefixItems").and_then(Value::as_array);
        items.iter().enumerate().find_map(|(index, item)| {
            let own = front.and_then(|front| front.get(index)).or_else(|| schema.get("items"));
            self.fault(own?, item, &format!("{place}[{index}]"), depth)
        })
    }
}

fn bounds(schema: &serde_json::Map<String, Value>, value: &Value, place: &str) -> Option<String> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        let outside = bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most)
            || bound("exclusiveMinimum").is_some_and(|least| number <= least)
            || bound("exclusiveMaximum").is_some_and(|most| number >= most);
        return outside.then(|| format!("{place} is out of its bounds"));
    }
    let count = |key: &str| schema.get(key).and_then(Value::as_u64);
    let length = u64::try_from(value.as_str()?.chars().count()).unwrap_or(u64::MAX);
    let outside = count("minLength").is_some_and(|least| length < least)
        || count("maxLength").is_some_and(|most| length > most);
    outside.then(|| format!("{place} is too short or too long"))
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    }
}

/// Whether two values are equal, numbers by what they are and not by how they are written.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_held_to_what_a_schema_says() {
        let schema = json!({"type": "object", "required": ["name", "tags"], "additionalProperties": false,
            "$defs": {"tag": {"enum": ["a", "b"]}},
            "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": ["integer", "null"], "minimum": 0},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
                "way": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["x"]}]}}});
        let check = |value: Value, expected: Option<&str>| {
            assert_eq!(fault(&schema, &value).as_deref(), expected, "{value}");
        };
        check(json!({"name": "Ada", "tags": ["a"], "age": 3.0, "way": {"x": 1}}), None);
        check(json!({"name": "Ada", "tags": [], "age": null}), None);
        check(json!([]), Some("the answer must be of type object"));
        check(json!({"name": "Ada"}), Some("the answer lacks the field `tags`"));
        check(json!({"name": 1, "tags": []}), Some("the answer.name must be of type string"));
        check(json!({"name": "A", "tags": []}), Some("the answer.name is too short or too long"));
        check(json!({"name": "Ada", "tags": ["c"]}), Some("the answer.tags[0] must be one of \"a\", \"b\""));
        check(
            json!({"name": "Ada", "tags": ["a", "a", "a"]}),
            Some("the answer.tags has 3 items, which are too few or too many"),
        );
        check(json!({"name": "Ada", "tags": [], "age": -1}), Some("the answer.age is out of its bounds"));
        check(
            json!({"name": "Ada", "tags": [], "way": {}}),
            Some("the answer.way fits 0 of the shapes that it may have"),
        );
        check(
            json!({"name": "Ada", "tags": [], "more": 1}),
            Some("the answer.more is not among what may be there"),
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"allOf": [{"$ref": "#"}]});
        assert_eq!(fault(&schema, &json!(1)), None);
    }
}
