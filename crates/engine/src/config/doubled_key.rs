//! Keys that an object of JSON has twice. The last one counts, so what those before it forbid would be lost without a word;
//! in TOML and in front matter it is a mistake that keeps the file from being read.

use std::collections::HashMap;

use jsonc_parser::ast::Value as JsonValue;
use jsonc_parser::common::Ranged as _;
use serde_json::Value;

/// A key that was there before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DoubledKey {
    /// The keys that lead to it.
    pub(super) path: Vec<String>,
    /// Where it stands in the text the second time.
    pub(super) at: usize,
    /// What it was the first time, which no longer counts.
    pub(super) lost: Value,
}

/// Finds them in a text, at every depth.
pub(super) fn find(text: &str) -> Vec<DoubledKey> {
    let mut found = Vec::new();
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default());
    if let Some(value) = parsed.ok().and_then(|parsed| parsed.value) {
        gather(text, &value, &mut Vec::new(), &mut found);
    }
    found
}

fn gather(text: &str, value: &JsonValue<'_>, path: &mut Vec<String>, found: &mut Vec<DoubledKey>) {
    match value {
        JsonValue::Object(object) => {
            let mut before: HashMap<&str, &JsonValue<'_>> = HashMap::new();
            for property in &object.properties {
                let name = property.name.as_str();
                path.push(name.to_owned());
                if let Some(lost) = before.insert(name, &property.value) {
                    let lost = text.get(lost.start()..lost.end()).unwrap_or_default();
                    let lost = jsonc_parser::parse_to_serde_value(lost, &Default::default());
                    let lost = lost.unwrap_or(Value::Null);
                    found.push(DoubledKey { path: path.clone(), at: property.range.start, lost });
                }
                gather(text, &property.value, path, found);
                path.pop();
            }
        }
        JsonValue::Array(array) => {
            for (index, value) in array.elements.iter().enumerate() {
                path.push(index.to_string());
                gather(text, value, path, found);
                path.pop();
            }
        }
        JsonValue::StringLit(_)
        | JsonValue::NumberLit(_)
        | JsonValue::BooleanLit(_)
        | JsonValue::NullKeyword(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn doubles_are_found_at_every_depth() {
        let check = |text: &str, expected: &[(&str, usize, Value)]| {
            let found = find(text);
            let found: Vec<_> = found.into_iter().map(|one| (one.path.join("/"), one.at, one.lost)).collect();
            let expected: Vec<_> =
                expected.iter().map(|(path, at, lost)| ((*path).to_owned(), *at, lost.clone())).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(r#"{"a": {"b": 1}, "c": {"b": 1}}"#, &[]);
        check(r#"{"a": 1, "a": 2, /* "a" */ "\u0061": 3}"#, &[("a", 9, json!(1)), ("a", 27, json!(2))]);
        check(
            r#"{"a": [{"b": {"c": 1}, "b": {"c": 2, "c": 3}}], "a": 1}"#,
            &[("a/0/b", 23, json!({"c": 1})), ("a/0/b/c", 37, json!(2)), ("a", 48, json!([{"b": {"c": 3}}]))],
        );
        check("{", &[]);
    }
}
