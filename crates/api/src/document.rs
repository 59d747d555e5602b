//! The table of operations as an OpenAPI 3.1 document.
//!
//! Its schemas are JSON Schema 2020-12, as [`schemars`] makes them from the types of handlers, with one rule of our
//! own: a field that may be left out is not said to be null as well. (Bodies that have null there are accepted all the
//! same.)

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use everturn_model::Map;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::describe::Description;
use crate::error::v1;
use crate::operation::Operation;
use crate::routes;

/// The document of this server: every operation that it has, and the shapes that they take and give.
#[must_use]
pub fn openapi() -> Value {
    of(&routes::table())
}

/// The document, printed once.
pub(crate) fn printed() -> Bytes {
    static PRINTED: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi().to_string()));
    PRINTED.clone()
}

fn of(table: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut errors = BTreeMap::new();
    let mut paths = Map::new();
    for operation in table {
        let shown = shown(operation, &mut generator, &mut errors);
        let path = paths.entry(operation.path).or_insert_with(|| Map::new().into());
        if let Value::Object(methods) = path {
            methods.insert(operation.method.as_str().to_owned(), shown);
        }
    }
    let mut schemas = generator.take_definitions(true);
    schemas.extend(errors.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    schemas.sort_keys();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Everturn", "version": everturn_engine::VERSION},
        "security": [{"basic": []}, {"bearer": []}, {"query": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "query": {"type": "apiKey", "in": "query", "name": "auth_token"},
            },
            "schemas": schemas,
        },
    });
    simplify(&mut document);
    document
}

fn shown(
    operation: &Operation,
    generator: &mut SchemaGenerator,
    errors: &mut BTreeMap<&'static str, Value>,
) -> Value {
    let mut description = Description::new(generator);
    operation.describe(&mut description);
    let Description { mut parameters, body, answer, errors: kinds, .. } = description;
    // A handler that does not look at a parameter still has it in its path.
    for name in names(operation.path) {
        if !parameters.iter().any(|known| known.get("name").and_then(Value::as_str) == Some(name)) {
            let schema = json!({"type": "string"});
            parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        }
    }
    let mut responses: BTreeMap<u16, Value> = answer.into_iter().collect();
    let mut failures: BTreeMap<u16, Vec<&'static str>> = BTreeMap::new();
    for kind in kinds {
        let (status, name, schema) = v1::shape(kind);
        errors.insert(name, schema.into());
        let names = failures.entry(status).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (status, names) in failures {
        let reference = |name: &&str| json!({"$ref": format!("#/components/schemas/{name}")});
        let schema = match names.as_slice() {
            [name] => reference(name),
            several => json!({"anyOf": several.iter().map(reference).collect::<Vec<_>>()}),
        };
        let content = json!({"application/json": {"schema": schema}});
        responses.insert(status, json!({"description": names.join(" or "), "content": content}));
    }
    let tag = operation.id.split('.').next().unwrap_or_default();
    let right = operation.right.as_str();
    let mut map = Map::new();
    map.insert("operationId".to_owned(), operation.id.into());
    map.insert("tags".to_owned(), json!([tag]));
    map.insert("security".to_owned(), json!([{"basic": [right]}, {"bearer": [right]}, {"query": [right]}]));
    if let Some(what) = operation.unsupported {
        map.insert("x-absent".to_owned(), what.into());
    }
    if !parameters.is_empty() {
        map.insert("parameters".to_owned(), parameters.into());
    }
    map.extend(body.map(|body| ("requestBody".to_owned(), body)));
    let responses: Map = responses.into_iter().map(|(status, shown)| (status.to_string(), shown)).collect();
    map.insert("responses".to_owned(), responses.into());
    map.into()
}

/// The parameters that a path names.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'))
}

/// Takes away what says nothing to a client: that an optional field may be null, how wide a number is here, and what
/// is there when nothing is given.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("properties") {
                settle_optional(map);
            }
            if map.contains_key("in")
                && map.get("required") == Some(&Value::Bool(false))
                && let Some(Value::Object(schema)) = map.get_mut("schema")
            {
                without_null(schema);
            }
            if map.get("type").is_some_and(Value::is_string) {
                map.remove("format");
                map.remove("default");
            }
            map.values_mut().for_each(simplify);
        }
        Value::Array(list) => list.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn settle_optional(map: &mut Map) {
    let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(fields)) = map.get_mut("properties") else { return };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !required.contains(&Value::from(name.as_str()))) {
        if let Value::Object(field) = field {
            without_null(field);
        }
    }
}

fn without_null(field: &mut Map) {
    field.remove("default");
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_slice() {
            let kind = kind.clone();
            field.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(words)) = field.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(choices)) = field.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").and_then(Value::as_str) != Some("null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            field.remove("anyOf");
            field.extend(only);
        }
    }
}
