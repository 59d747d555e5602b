//! JSON Schema cut down to what Gemini takes.
//!
//! The API knows a small part of OpenAPI's schemas and refuses a request over one keyword too many, so a tool with a
//! rich schema would make the whole conversation impossible. What has an equivalent is rewritten; the rest is left
//! out, which makes a schema looser and never wrong. Every schema that comes out has a type, or is a choice (`anyOf`)
//! and nothing else: next to a choice the API takes no other keyword.
//!
//! References are put in place. One that leads back into itself is cut, and depth and size are limited, as a few
//! references can unfold into more than any memory holds.

use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;

/// How deep schemas are followed into each other.
const DEPTH: usize = 48;

/// How many schemas are looked at in all.
const NODES: usize = 5_000;

/// The types, by the keywords that give them away where none is named.
const TYPES: &[(&str, &[&str])] = &[
    ("object", &["properties", "required", "additionalProperties", "patternProperties"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems"]),
    ("string", &["minLength", "maxLength", "pattern"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
    ("integer", &[]),
    ("boolean", &[]),
];

/// What the API takes of any schema.
pub(super) fn clean(schema: &Value) -> Value {
    let mut cleaner = SchemaCleaner { root: schema, nodes: 0 };
    Value::Object(cleaner.clean(schema, Vec::new(), 0))
}

/// What the API takes of a tool's parameters, if there are any. They have to be an object: of a choice between objects
/// all properties remain, and required are those that all of them require.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let Value::Object(mut cleaned) = clean(schema) else { return None };
    if let Some(Value::Array(alternatives)) = cleaned.remove("anyOf") {
        let objects: Vec<Map<String, Value>> = alternatives
            .into_iter()
            .filter_map(|alternative| match alternative {
                Value::Object(fields) if fields.get("properties").is_some() => Some(fields),
                _ => None,
            })
            .collect();
        cleaned = unite(objects);
    }
    cleaned.contains_key("properties").then_some(Value::Object(cleaned))
}

fn unite(objects: Vec<Map<String, Value>>) -> Map<String, Value> {
    let mut united = Map::new();
    let mut required: Option<Vec<Value>> = None;
    for mut object in objects {
        let here = match object.remove("required") {
            Some(Value::Array(names)) => names,
            _ => Vec::new(),
        };
        required = Some(match required {
            None => here,
            Some(before) => before.into_iter().filter(|name| here.contains(name)).collect(),
        });
        merge(&mut united, object);
    }
    if let Some(names) = required.filter(|names| !names.is_empty()) {
        united.insert("required".into(), Value::Array(names));
    }
    united
}

struct SchemaCleaner<'a> {
    root: &'a Value,
    nodes: usize,
}

/// The references that a schema was reached by.
type ReferenceTrail = Vec<String>;

impl<'a> SchemaCleaner<'a> {
    fn clean(&mut self, schema: &Value, mut trail: ReferenceTrail, depth: usize) -> Map<String, Value> {
        let flat = self.flatten(schema, &mut trail, depth);
        self.finish(flat, &trail, depth)
    }

    /// The keywords of a schema, with those of its references and of all that it must match as well.
    fn flatten(&mut self, schema: &Value, trail: &mut ReferenceTrail, depth: usize) -> Map<String, Value> {
        self.nodes = self.nodes.saturating_add(1);
        let Value::Object(fields) = schema else { return Map::new() };
        if depth > DEPTH || self.nodes > NODES {
            return Map::new();
        }
        let skipped = ["$ref", "allOf", "$defs", "definitions"];
        let own = fields.iter().filter(|(name, _)| !skipped.contains(&name.as_str()));
        let mut flat: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let root: &'a Value = self.root;
            let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            if trail.iter().any(|seen| seen == reference) {
                // A circle: only its outermost round is shown, and the next one by its kind.
                let kind = ["type", "description"]
                    .into_iter()
                    .filter_map(|name| Some((name.to_owned(), target?.get(name)?.clone())));
                merge(&mut flat, kind.collect());
            } else if let Some(target) = target {
                trail.push(reference.to_owned());
                let inlined = self.flatten(target, trail, depth.saturating_add(1));
                merge(&mut flat, inlined);
            }
        }
        if let Some(Value::Array(all)) = fields.get("allOf") {
            for part in all {
                let part = self.flatten(part, trail, depth.saturating_add(1));
                merge(&mut flat, part);
            }
        }
        flat
    }

    fn finish(
        &mut self,
        mut flat: Map<String, Value>,
        trail: &ReferenceTrail,
        depth: usize,
    ) -> Map<String, Value> {
        if depth > DEPTH || self.nodes > NODES {
            return typed("string");
        }
        let deeper = depth.saturating_add(1);
        let choices = [flat.remove("anyOf"), flat.remove("oneOf")];
        // Next to properties of its own, a choice mostly tells which of them go together. That cannot be said.
        if !flat.contains_key("properties") {
            let listed = choices.into_iter().flatten().find_map(|choice| match choice {
                Value::Array(listed) if !listed.is_empty() => Some(listed),
                _ => None,
            });
            if let Some(choice) = listed.and_then(|listed| self.choose(&mut flat, &listed, trail, deeper)) {
                return choice;
            }
        }
        let mut types = named_types(&flat);
        if types.iter().any(|name| name == "null") {
            types.retain(|name| name != "null");
            flat.insert("nullable".into(), json!(true));
        }
        let values = allowed_values(&mut flat);
        if let ([_, _, ..], None) = (types.as_slice(), &values) {
            let common = split_common(&mut flat);
            let each = types.into_iter().map(|name| {
                let mut one = flat.clone();
                one.insert("type".into(), json!(name));
                self.finish(one, trail, deeper)
            });
            return choice_of(each.collect(), &common);
        }
        let kind = match &values {
            Some(AllowedValues::Words(_)) => "string".to_owned(),
            Some(AllowedValues::Flags) => "boolean".to_owned(),
            None => types.pop().unwrap_or_else(|| guessed_type(&flat).to_owned()),
        };
        let mut cleaned = typed(&kind);
        cleaned.extend(split_common(&mut flat));
        match kind.as_str() {
            "object" => self.object(&mut cleaned, &flat, trail, deeper),
            "array" => {
                let items = self.items(&flat, trail, deeper);
                cleaned.insert("items".into(), Value::Object(items));
                keep(&mut cleaned, &flat, &["minItems", "maxItems"], Value::is_u64);
            }
            "string" => match values {
                Some(AllowedValues::Words(words)) => {
                    cleaned.insert("enum".into(), json!(words));
                }
                _ => {
                    keep(&mut cleaned, &flat, &["minLength", "maxLength"], Value::is_u64);
                    keep(&mut cleaned, &flat, &["pattern"], Value::is_string);
                    keep(&mut cleaned, &flat, &["format"], |format| format == "date-time");
                }
            },
            "number" => {
                keep(&mut cleaned, &flat, &["minimum", "maximum"], Value::is_number);
                keep(&mut cleaned, &flat, &["format"], |format| format == "float" || format == "double");
            }
            "integer" => {
                keep(&mut cleaned, &flat, &["minimum", "maximum"], Value::is_number);
                keep(&mut cleaned, &flat, &["format"], |format| format == "int32" || format == "int64");
            }
            _ => {}
        }
        cleaned
    }

    /// Settles a choice. `None` when nothing is left to choose; `flat` then is all there is to say.
    fn choose(
        &mut self,
        flat: &mut Map<String, Value>,
        listed: &[Value],
        trail: &ReferenceTrail,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        let mut alternatives: Vec<(Map<String, Value>, ReferenceTrail)> = Vec::new();
        for alternative in listed {
            let mut trail = trail.clone();
            let alternative = self.flatten(alternative, &mut trail, depth);
            if named_types(&alternative) == ["null"] || alternative.get("const") == Some(&Value::Null) {
                flat.insert("nullable".into(), json!(true));
            } else {
                alternatives.push((alternative, trail));
            }
        }
        if let [(only, trail)] = alternatives.as_slice() {
            merge(flat, only.clone());
            return Some(self.finish(std::mem::take(flat), trail, depth));
        }
        let values: Option<Vec<Value>> = alternatives
            .iter()
            .map(|(alternative, _)| listed_values(alternative))
            .try_fold(Vec::new(), |mut all, some| {
                all.extend(some?);
                Some(all)
            });
        match values {
            Some(values) if values.is_empty() => return None,
            Some(values) => {
                flat.insert("enum".into(), Value::Array(values));
                return None;
            }
            None => {}
        }
        let common = split_common(flat);
        let cleaned = alternatives.into_iter().map(|(mut alternative, trail)| {
            merge(&mut alternative, flat.clone());
            self.finish(alternative, &trail, depth)
        });
        Some(choice_of(cleaned.collect(), &common))
    }

    fn object(
        &mut self,
        cleaned: &mut Map<String, Value>,
        flat: &Map<String, Value>,
        trail: &ReferenceTrail,
        depth: usize,
    ) {
        let Some(Value::Object(properties)) = flat.get("properties") else { return };
        let mut kept = Map::new();
        for (name, property) in properties.iter().filter(|(_, property)| **property != json!(false)) {
            let property = self.clean(property, trail.clone(), depth);
            kept.insert(name.clone(), Value::Object(property));
        }
        if kept.is_empty() {
            return;
        }
        for list in ["propertyOrdering", "required"] {
            let Some(Value::Array(names)) = flat.get(list) else { continue };
            let mut known: Vec<&Value> = Vec::new();
            for name in names {
                if name.as_str().is_some_and(|name| kept.contains_key(name)) && !known.contains(&name) {
                    known.push(name);
                }
            }
            if !known.is_empty() {
                cleaned.insert(list.into(), json!(known));
            }
        }
        cleaned.insert("properties".into(), Value::Object(kept));
        keep(cleaned, flat, &["minProperties", "maxProperties"], Value::is_u64);
    }

    /// The schema of an array's elements. Of a list with a schema for each place, any of them may stand anywhere.
    fn items(
        &mut self,
        flat: &Map<String, Value>,
        trail: &ReferenceTrail,
        depth: usize,
    ) -> Map<String, Value> {
        let places = [flat.get("prefixItems"), flat.get("items")].into_iter().flatten();
        let places = places.filter_map(Value::as_array).flatten();
        let each: Vec<Map<String, Value>> =
            places.map(|place| self.clean(place, trail.clone(), depth)).collect();
        match (each.is_empty(), flat.get("items")) {
            (false, _) => choice_of(each, &Map::new()),
            (true, Some(items @ Value::Object(_))) => self.clean(items, trail.clone(), depth),
            (true, _) => typed("string"),
        }
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!(name))])
}

/// A choice between schemas that are clean. What was said about all of them is said of each.
fn choice_of(alternatives: Vec<Map<String, Value>>, common: &Map<String, Value>) -> Map<String, Value> {
    let mut listed: Vec<Map<String, Value>> = Vec::new();
    for mut alternative in alternatives {
        let inner = match alternative.remove("anyOf") {
            Some(Value::Array(inner)) => inner,
            _ => vec![Value::Object(alternative)],
        };
        for schema in inner {
            let Value::Object(mut schema) = schema else { continue };
            merge(&mut schema, common.clone());
            if !listed.contains(&schema) {
                listed.push(schema);
            }
        }
    }
    match listed.len() {
        0 => typed("string"),
        1 => listed.pop().unwrap_or_default(),
        _ => Map::from_iter([("anyOf".to_owned(), json!(listed))]),
    }
}

/// Takes out what any schema may say about itself.
fn split_common(flat: &mut Map<String, Value>) -> Map<String, Value> {
    let mut common = Map::new();
    for name in ["title", "description"] {
        common.extend(flat.remove(name).filter(Value::is_string).map(|text| (name.to_owned(), text)));
    }
    common.extend(
        flat.remove("nullable").filter(|value| *value == json!(true)).map(|yes| ("nullable".to_owned(), yes)),
    );
    common
}

/// Adds what is not there yet; properties and requirements add up.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (None, value) => {
                into.insert(name, value);
            }
            (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                for (property, schema) in more {
                    known.entry(property).or_insert(schema);
                }
            }
            (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                known.extend(more);
            }
            (Some(_), _) => {}
        }
    }
}

fn keep(
    cleaned: &mut Map<String, Value>,
    flat: &Map<String, Value>,
    names: &[&str],
    fits: impl Fn(&Value) -> bool,
) {
    for name in names {
        if let Some(value) = flat.get(*name).filter(|value| fits(value)) {
            cleaned.insert((*name).to_owned(), value.clone());
        }
    }
}

/// The types that a schema names and the API knows, `null` among them.
fn named_types(flat: &Map<String, Value>) -> Vec<String> {
    let named: Vec<&str> = match flat.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut known: Vec<String> = Vec::new();
    for name in named {
        let name = name.to_ascii_lowercase();
        let exists = name == "null" || TYPES.iter().any(|(known, _)| *known == name);
        if exists && !known.contains(&name) {
            known.push(name);
        }
    }
    if known.iter().any(|name| name == "number") {
        known.retain(|name| name != "integer");
    }
    known
}

/// A schema without any hint takes anything. Text can at least carry it.
fn guessed_type(flat: &Map<String, Value>) -> &'static str {
    let hinted = TYPES.iter().find(|(_, hints)| hints.iter().any(|hint| flat.contains_key(*hint)));
    hinted.map_or("string", |(name, _)| name)
}

/// What a list of allowed values comes to.
enum AllowedValues {
    Words(Vec<String>),
    /// Only truth values: the type says as much as the list.
    Flags,
}

fn listed_values(flat: &Map<String, Value>) -> Option<Vec<Value>> {
    match (flat.get("const"), flat.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        (None, _) => None,
    }
}

/// The allowed values, if any. The API takes words only, and none of them empty, so numbers are written out.
fn allowed_values(flat: &mut Map<String, Value>) -> Option<AllowedValues> {
    let values = listed_values(flat)?;
    if values.iter().any(Value::is_null) {
        flat.insert("nullable".into(), json!(true));
    }
    let mut flags = false;
    let mut words: Vec<String> = Vec::new();
    for value in values {
        let word = match value {
            Value::String(word) => word,
            Value::Number(number) => number.to_string(),
            Value::Bool(_) => {
                flags = true;
                continue;
            }
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    match (words.is_empty(), flags) {
        (false, false) => Some(AllowedValues::Words(words)),
        (true, true) => Some(AllowedValues::Flags),
        // Nothing that could be listed, or truth values among words: then anything goes.
        (true, false) | (false, true) => None,
    }
}
