//! Tool arguments: the schema that the model is told, and decoding with errors that it can act on.
//!
//! Both come from one type, so they cannot disagree. A field's doc comment is what the model reads about it.

use std::fmt::Write as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::Failure;

/// The input of tools that take no arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NoArguments {}

/// The JSON schema of a type, in the plain form that every provider takes: no references, no titles, and an
/// optional field is one that may be left out rather than one that may be null.
#[must_use]
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    plain(&mut schema);
    if let Value::Object(top) = &mut schema {
        top.remove("description");
        top.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        top.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

/// Decodes the arguments of one call. Arguments that are not in the schema are ignored.
pub fn decode<T: DeserializeOwned + JsonSchema>(tool: &str, input: Value) -> Result<T, Failure> {
    serde_json::from_value(input).map_err(|error| {
        Failure::InvalidInput(format!(
            "The arguments of '{tool}' do not fit its schema: {error}. It takes {}.",
            summary(&schema::<T>())
        ))
    })
}

/// Takes away what only people who write schemas need.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in &mut *object {
                // What lies under these is named by the author of the type, and data.
                match key.as_str() {
                    "properties" => value.as_object_mut().into_iter().for_each(|fields| {
                        fields.values_mut().for_each(plain);
                    }),
                    "enum" | "const" | "default" | "examples" => {}
                    _ => plain(value),
                }
            }
            object.remove("title");
            object.remove("format");
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = kinds.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    object.remove("anyOf");
                    only.into_iter().for_each(|(key, value)| {
                        object.entry(key).or_insert(value);
                    });
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// The fields of a schema in words: `filePath (string), offset (integer, optional)`.
fn summary(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let mut text = String::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let kind = field.get("type").and_then(Value::as_str).unwrap_or("any");
        let optional = required.is_none_or(|required| !required.contains(&Value::from(name.as_str())));
        let comma = if text.is_empty() { "" } else { ", " };
        write!(text, "{comma}{name} ({kind}{})", if optional { ", optional" } else { "" }).ok();
    }
    if text.is_empty() { "no arguments".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        /// The file
        file_path: String,
        /// How many
        #[schemars(range(min = 1))]
        limit: Option<usize>,
        #[serde(default)]
        kind: Option<Kind>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        One,
        Two,
    }

    #[test]
    fn a_schema_is_plain() {
        assert_eq!(
            schema::<Sample>(),
            json!({
                "type": "object",
                "properties": {
                    "filePath": { "description": "The file", "type": "string" },
                    "limit": { "description": "How many", "type": "integer", "minimum": 1 },
                    "kind": { "type": "string", "enum": ["one", "two"] },
                },
                "required": ["filePath"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn an_error_says_what_is_expected() {
        let error = decode::<Sample>("sample", json!({ "limit": 3 })).unwrap_err().to_string();
        assert_eq!(
            error,
            "The arguments of 'sample' do not fit its schema: missing field `filePath`. It takes filePath (string), \
             limit (integer, optional), kind (string, optional)."
        );
        let sample =
            decode::<Sample>("sample", json!({ "filePath": "a", "limit": null, "more": 1 })).unwrap();
        assert_eq!(sample, Sample { file_path: "a".to_owned(), limit: None, kind: None });
    }
}
