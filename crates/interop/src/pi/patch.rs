//! What a JSON value has beyond the one that typed fields give.
//!
//! Each imported entry is read into typed fields, written from them again, and compared with what stood in the file.
//! The difference rides along as the entry's `extra`, so that re-encoding is exact by construction: fields without a
//! word in the model, values that a typed field would normalise, and an unusual order of keys.
//!
//! A difference is an object with any of: `is` (the value is something else), `set` (fields), `drop` (names), `in`
//! (differences inside fields), `at` (differences inside an array, by index) and `order` (all names, where the order is
//! not the usual one).

use everturn_model::Map;
use serde_json::Value;

const MESSAGE: &[&str] = &[
    "role",
    "toolCallId",
    "toolName",
    "customType",
    "command",
    "output",
    "exitCode",
    "cancelled",
    "truncated",
    "fullOutputPath",
    "content",
    "summary",
    "fromId",
    "tokensBefore",
    "display",
    "details",
    "isError",
    "api",
    "provider",
    "model",
    "usage",
    "stopReason",
    "timestamp",
];

const CUSTOM: &[&str] =
    &["type", "customType", "data", "content", "display", "details", "id", "parentId", "timestamp"];

const ENTRY: &[&str] = &[
    "type",
    "id",
    "parentId",
    "timestamp",
    "message",
    "provider",
    "modelId",
    "model",
    "thinkingLevel",
    "fromId",
    "summary",
    "firstKeptEntryId",
    "tokensBefore",
    "details",
    "fromHook",
    "targetId",
    "label",
    "name",
    "title",
];

const USAGE: &[&str] = &["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost", "total"];

/// The usual order of names in an object of this sort.
fn usual_order(map: &Map) -> &'static [&'static str] {
    if map.contains_key("role") {
        return MESSAGE;
    }
    match map.get("type").and_then(Value::as_str) {
        Some("custom" | "custom_message") => CUSTOM,
        Some(_) => ENTRY,
        None => USAGE,
    }
}

/// Equality that minds the order of names.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((one, left), (two, right))| one == two && same(left, right))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right,
    }
}

/// What leads from `from` to `to`; empty when nothing does.
pub(super) fn diff(from: &Value, to: &Value) -> Map {
    let mut patch = Map::new();
    if same(from, to) {
        return patch;
    }
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => diff_objects(&mut patch, from, to),
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            let inside: Map = from
                .iter()
                .zip(to)
                .enumerate()
                .map(|(at, (from, to))| (at.to_string(), diff(from, to)))
                .filter(|(_, patch)| !patch.is_empty())
                .map(|(at, patch)| (at, patch.into()))
                .collect();
            patch.insert("at".to_owned(), inside.into());
        }
        _ => {
            patch.insert("is".to_owned(), to.clone());
        }
    }
    patch
}

fn diff_objects(patch: &mut Map, from: &Map, to: &Map) {
    let (mut set, mut inside) = (Map::new(), Map::new());
    for (name, value) in to {
        match from.get(name) {
            None => {
                set.insert(name.clone(), value.clone());
            }
            Some(old) if same(old, value) => {}
            Some(old) if nested(old, value) => {
                inside.insert(name.clone(), diff(old, value).into());
            }
            Some(_) => {
                set.insert(name.clone(), value.clone());
            }
        }
    }
    let drop: Vec<Value> =
        from.keys().filter(|name| !to.contains_key(*name)).map(|name| name.as_str().into()).collect();
    for (name, part) in [("set", Value::from(set)), ("drop", drop.into()), ("in", inside.into())] {
        let empty = part.as_object().is_some_and(Map::is_empty) || part.as_array().is_some_and(Vec::is_empty);
        if !empty {
            patch.insert(name.to_owned(), part);
        }
    }
    let mut made = Value::Object(from.clone());
    apply(&mut made, patch);
    let usual_order = made.as_object().is_some_and(|made| made.keys().eq(to.keys()));
    if !usual_order {
        let order: Vec<Value> = to.keys().map(|name| name.as_str().into()).collect();
        patch.insert("order".to_owned(), order.into());
    }
}

fn nested(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(_)) => !old.is_empty(),
        (Value::Array(old), Value::Array(new)) => old.len() == new.len(),
        _ => false,
    }
}

/// Applies a difference to the value that typed fields give.
pub(super) fn apply(value: &mut Value, patch: &Map) {
    if let Some(replacement) = patch.get("is") {
        *value = replacement.clone();
        return;
    }
    if let (Some(inside), Value::Array(items)) = (object(patch, "at"), &mut *value) {
        for (at, patch) in inside {
            let item = at.parse::<usize>().ok().and_then(|at| items.get_mut(at));
            if let (Some(item), Some(patch)) = (item, patch.as_object()) {
                apply(item, patch);
            }
        }
    }
    let Value::Object(map) = value else { return };
    for name in names(patch, "drop") {
        map.shift_remove(name);
    }
    for (name, patch) in object(patch, "in").into_iter().flatten() {
        if let (Some(value), Some(patch)) = (map.get_mut(name), patch.as_object()) {
            apply(value, patch);
        }
    }
    if let Some(set) = object(patch, "set") {
        for (name, value) in set {
            map.insert(name.clone(), value.clone());
        }
        let usual_order = usual_order(map);
        arrange(map, usual_order.iter().copied());
    }
    arrange(map, names(patch, "order"));
}

/// Puts the named fields first, in that order; the others follow as they stood.
fn arrange<'a>(map: &mut Map, order: impl Iterator<Item = &'a str>) {
    let mut arranged = Map::with_capacity(map.len());
    for name in order {
        if let Some((name, value)) = map.shift_remove_entry(name) {
            arranged.insert(name, value);
        }
    }
    if !arranged.is_empty() {
        arranged.append(map);
        *map = arranged;
    }
}

fn object<'a>(patch: &'a Map, name: &str) -> Option<&'a Map> {
    patch.get(name).and_then(Value::as_object)
}

fn names<'a>(patch: &'a Map, name: &str) -> impl Iterator<Item = &'a str> {
    patch.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(from: &Value, to: &Value, patch: &Value) {
        let found = diff(from, to);
        assert_eq!(&Value::Object(found.clone()), patch);
        let mut made = from.clone();
        apply(&mut made, &found);
        assert!(same(&made, to), "{made} is not {to}");
    }

    #[test]
    fn a_difference_leads_from_one_value_to_the_other() {
        check(&json!({"role": "user"}), &json!({"role": "user"}), &json!({}));
        check(&json!(1), &json!([1]), &json!({"is": [1]}));
        check(&json!({"a": 0}), &json!({"a": 0.0}), &json!({"set": {"a": 0.0}}));
        check(
            &json!({"a": 1, "b": 2}),
            &json!({"b": 2, "c": null}),
            &json!({"set": {"c": null}, "drop": ["a"]}),
        );
        check(&json!([{"a": 1}, 2]), &json!([{"a": 1, "b": 1}, 2]), &json!({"at": {"0": {"set": {"b": 1}}}}));
        check(&json!({"a": {"b": 1}}), &json!({"a": {}}), &json!({"in": {"a": {"drop": ["b"]}}}));
    }

    #[test]
    fn the_usual_place_of_a_field_needs_no_order() {
        check(
            &json!({"role": "assistant", "content": [], "provider": "p", "timestamp": 1}),
            &json!({"role": "assistant", "content": [], "api": "x", "provider": "p", "timestamp": 1, "responseId": 2}),
            &json!({"set": {"api": "x", "responseId": 2}}),
        );
        check(
            &json!({"type": "custom", "customType": "x", "id": "1"}),
            &json!({"type": "custom", "id": "1", "customType": "x"}),
            &json!({"order": ["type", "id", "customType"]}),
        );
    }
}
