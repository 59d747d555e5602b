//! The operations compared with OpenCode's, as its server describes them.
//!
//! `fixtures/opencode/contract-1.18.33.json` holds the facts of that description: names, paths, fields and types. It
//! was made by `EVERTURN_CONTRACT=FILE cargo test -p everturn-api contract::`, where FILE is what `GET /doc` of an
//! OpenCode server answers. Both documents are brought into the same plain form, so that only what a client could
//! notice differs.

mod reasons;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::document::operations;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode/contract-1.18.33.json")
}

/// The recorded operations and shapes.
pub(crate) fn recorded() -> Value {
    serde_json::from_slice(&std::fs::read(file()).unwrap()).unwrap()
}

/// A document in the plain form: its V1 operations by name, and the shapes that they need by name.
fn plain(document: &Value) -> Value {
    let mut shapes = Map::new();
    let mut list = BTreeMap::new();
    for (method, path, shown) in operations(document) {
        // Another protocol, and what OpenCode has nothing of.
        if path.starts_with("/api/") || path.starts_with("/everturn/") {
            continue;
        }
        let mut parameters = BTreeMap::new();
        for parameter in shown["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let needed = if parameter["required"] == true { "" } else { "?" };
            let key = format!("{} {name}{needed}", parameter["in"].as_str().unwrap());
            parameters.insert(key, shape(document, &parameter["schema"], &mut shapes));
        }
        let content = |value: &Value, shapes: &mut Map<String, Value>| {
            let content = value["content"].as_object().and_then(|content| content.iter().next());
            content.map(|(media, content)| (media.clone(), shape(document, &content["schema"], shapes)))
        };
        let mut answers = BTreeMap::new();
        for (status, answer) in shown["responses"].as_object().unwrap() {
            let (media, shape) = content(answer, &mut shapes).unwrap_or(("nothing".to_owned(), Value::Null));
            let stream = if media == "text/event-stream" { " stream" } else { "" };
            answers.insert(format!("{status}{stream}"), shape);
        }
        let mut operation = json!({"method": method, "path": path, "answers": answers});
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if let Some((_, body)) = content(&shown["requestBody"], &mut shapes) {
            operation["body"] = body;
        }
        if shown.get("x-absent").is_some() {
            operation["absent"] = json!(true);
        }
        list.insert(shown["operationId"].as_str().unwrap().to_owned(), operation);
    }
    shapes.sort_keys();
    json!({"operations": list, "shapes": shapes})
}

/// A schema in the plain form: a word (`string`, `id ses`, `integer`, `any` …), `{"list": …}`, `{"map": …}`,
/// `{"fields": {"name?": …}}`, `{"one of": […]}`, `{"word": …}`, or `{"shape": NAME}`.
fn shape(document: &Value, schema: &Value, shapes: &mut Map<String, Value>) -> Value {
    let Some(map) = schema.as_object() else { return json!("any") };
    if let Some(path) = map.get("$ref").and_then(Value::as_str) {
        let name = path.rsplit('/').next().unwrap().to_owned();
        if !shapes.contains_key(&name) {
            shapes.insert(name.clone(), Value::Null);
            let target = document.pointer(path.trim_start_matches('#')).unwrap();
            let made = shape(document, target, shapes);
            shapes.insert(name.clone(), made);
        }
        return json!({"shape": name});
    }
    if let Some(word) = map.get("const") {
        return json!({"word": word});
    }
    if let Some(words) = map.get("enum").and_then(Value::as_array) {
        return one_of(words.iter().map(|word| json!({"word": word})).collect());
    }
    if let Some(choices) = map.get("anyOf").or_else(|| map.get("oneOf")).and_then(Value::as_array) {
        let mut made: Vec<Value> = choices.iter().map(|choice| shape(document, choice, shapes)).collect();
        // What stands beside the choices belongs to each of them.
        if map.contains_key("properties") {
            let mut base = map.clone();
            base.remove("oneOf");
            base.remove("anyOf");
            let base = shape(document, &base.into(), shapes);
            for choice in &mut made {
                let fields = base["fields"].as_object().unwrap().clone();
                choice["fields"].as_object_mut().unwrap().extend(fields);
            }
        }
        return one_of(made);
    }
    if let Some(kinds) = map.get("type").and_then(Value::as_array) {
        return one_of(kinds.clone());
    }
    match map.get("type").and_then(Value::as_str) {
        Some("array") => {
            let items = map.get("items").map_or(json!("any"), |items| shape(document, items, shapes));
            json!({"list": items})
        }
        _ if map.contains_key("properties") => {
            let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            let fields: BTreeMap<String, Value> = map["properties"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, field)| {
                    let needed = if required.contains(&json!(name)) { "" } else { "?" };
                    (format!("{name}{needed}"), shape(document, field, shapes))
                })
                .collect();
            json!({"fields": fields})
        }
        Some("object") => {
            let inner = map.get("additionalProperties").filter(|inner| inner.is_object());
            // An object without any fields is not the same as one with any.
            let closed = map.get("additionalProperties") == Some(&json!(false));
            match inner {
                Some(inner) => json!({"map": shape(document, inner, shapes)}),
                None if closed => json!({"fields": {}}),
                None => json!({"map": "any"}),
            }
        }
        Some("string") => match map.get("pattern").and_then(Value::as_str) {
            Some(pattern) => json!(format!("id {}", pattern.trim_matches(['^', '_']))),
            None => json!("string"),
        },
        Some(kind) => json!(kind),
        None => json!("any"),
    }
}

fn one_of(mut choices: Vec<Value>) -> Value {
    choices = choices
        .into_iter()
        .flat_map(|choice| match choice.get("one of").and_then(Value::as_array) {
            Some(inner) => inner.clone(),
            None => vec![choice],
        })
        .collect();
    choices.sort_by_key(Value::to_string);
    choices.dedup();
    match choices.as_slice() {
        [only] => only.clone(),
        _ => json!({"one of": choices}),
    }
}

/// Two shapes side by side.
struct Comparison<'a> {
    ours: &'a Value,
    theirs: &'a Value,
    /// Which way what is compared goes.
    way: Way,
    open: BTreeSet<String>,
    found: BTreeSet<String>,
}

/// Which way something goes.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
}

impl Comparison<'_> {
    fn resolve<'b>(document: &'b Value, shape: &'b Value) -> &'b Value {
        match shape.get("shape").and_then(Value::as_str) {
            Some(name) => Self::resolve(document, &document["shapes"][name]),
            None => shape,
        }
    }

    fn compare(&mut self, at: &str, ours: &Value, theirs: &Value) {
        // A shape that contains itself is compared once.
        let named = ours.get("shape").is_some() && theirs.get("shape").is_some();
        if named && !self.open.insert(format!("{ours}{theirs}")) {
            return;
        }
        let (documents, theirs) = ((self.ours, self.theirs), Self::resolve(self.theirs, theirs).clone());
        let ours = Self::resolve(documents.0, ours).clone();
        let (ours, theirs) = (self.flat(documents.0, &ours), self.flat(documents.1, &theirs));
        // The same name may stand for different shapes.
        if ours == theirs && !ours.to_string().contains("\"shape\"") {
            return;
        }
        // A whole number is a number: fine where a client reads it, and where a client may send either.
        let (small, large) = if self.way == Way::Out { (&ours, &theirs) } else { (&theirs, &ours) };
        if small == "integer" && large == "number" {
            return;
        }
        match (&ours, &theirs) {
            (Value::Object(mine), Value::Object(other))
                if mine.contains_key("fields") && other.contains_key("fields") =>
            {
                self.fields(at, &mine["fields"], &other["fields"]);
            }
            (Value::Object(mine), Value::Object(other))
                if mine.contains_key("list") && other.contains_key("list") =>
            {
                self.compare(&format!("{at}[]"), &mine["list"].clone(), &other["list"].clone());
            }
            (Value::Object(mine), Value::Object(other))
                if mine.contains_key("map") && other.contains_key("map") =>
            {
                self.compare(&format!("{at}{{}}"), &mine["map"].clone(), &other["map"].clone());
            }
            _ if ours.get("one of").is_some() || theirs.get("one of").is_some() => {
                self.choices(at, &ours, &theirs);
            }
            _ => drop(self.found.insert(format!("{at}: {} instead of {}", brief(&ours), brief(&theirs)))),
        }
    }

    /// A shape whose choices are no longer names.
    fn flat(&self, document: &Value, shape: &Value) -> Value {
        match shape.get("one of").and_then(Value::as_array) {
            Some(choices) => one_of(
                choices.iter().map(|choice| self.flat(document, Self::resolve(document, choice))).collect(),
            ),
            None => shape.clone(),
        }
    }

    fn fields(&mut self, at: &str, ours: &Value, theirs: &Value) {
        let (ours, theirs) = (ours.as_object().unwrap().clone(), theirs.as_object().unwrap().clone());
        let find = |fields: &Map<String, Value>, name: &str| {
            let optional = format!("{name}?");
            fields
                .get(name)
                .map(|shape| (true, shape.clone()))
                .or_else(|| fields.get(&optional).map(|shape| (false, shape.clone())))
        };
        let names: BTreeSet<&str> =
            ours.keys().chain(theirs.keys()).map(|name| name.trim_end_matches('?')).collect();
        for name in names {
            let at = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            match (find(&ours, name), find(&theirs, name)) {
                (Some((_, mine)), None) => {
                    self.found.insert(format!("{at}: only here ({})", brief(&mine)));
                }
                (None, Some((required, _))) => {
                    let needed = if required { ", where it is always there" } else { "" };
                    self.found.insert(format!("{at}: only there{needed}"));
                }
                (Some((always, mine)), Some((required, other))) => {
                    if always != required {
                        let (here, there) =
                            if always { ("always", "sometimes") } else { ("sometimes", "always") };
                        self.found.insert(format!("{at}: {here} here, {there} there"));
                    }
                    self.compare(&at, &mine, &other);
                }
                (None, None) => {}
            }
        }
    }

    /// Choices are matched by the word that tells them apart.
    fn choices(&mut self, at: &str, ours: &Value, theirs: &Value) {
        let list = |shape: &Value| {
            shape.get("one of").and_then(Value::as_array).cloned().unwrap_or(vec![shape.clone()])
        };
        let (ours, theirs) = (list(ours), list(theirs));
        let tag = |shape: &Value| {
            let word = ["type", "status", "name", "role", "_tag"]
                .iter()
                .find_map(|key| shape["fields"].get(*key)?.get("word").cloned());
            word.map_or_else(|| brief(shape), |word| word.as_str().unwrap_or_default().to_owned())
        };
        for mine in &ours {
            let same = theirs.iter().find(|other| *other == mine);
            match same.or_else(|| theirs.iter().find(|other| tag(other) == tag(mine))) {
                Some(other) => self.compare(&format!("{at}<{}>", tag(mine)), mine, other),
                None => drop(self.found.insert(format!("{at}<{}>: only here", tag(mine)))),
            }
        }
        for other in theirs.iter().filter(|other| !ours.iter().any(|mine| tag(mine) == tag(other))) {
            self.found.insert(format!("{at}<{}>: only there", tag(other)));
        }
    }
}

fn brief(shape: &Value) -> String {
    match shape {
        Value::String(word) => word.clone(),
        Value::Null => "nothing".to_owned(),
        other => {
            let kind = other.as_object().and_then(|map| map.keys().next()).cloned().unwrap_or_default();
            if kind == "word" { other["word"].to_string() } else { kind }
        }
    }
}

/// Everything that differs, one line each.
fn differences(ours: &Value, theirs: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (name, mine) in ours["operations"].as_object().unwrap() {
        let Some(other) = theirs["operations"].get(name) else {
            all.insert(format!("{name}: only here"));
            continue;
        };
        if (&mine["method"], &mine["path"]) != (&other["method"], &other["path"]) {
            all.insert(format!("{name}: {} {} here", mine["method"], mine["path"]));
        }
        if mine.get("absent").is_some() {
            continue;
        }
        let (open, found) = (BTreeSet::new(), BTreeSet::new());
        let mut comparison = Comparison { ours, theirs, way: Way::In, open, found };
        let fields = |value: &Value| value.as_object().cloned().map_or(json!({}), Value::Object);
        comparison.fields("", &fields(&mine["parameters"]), &fields(&other["parameters"]));
        match (mine.get("body"), other.get("body")) {
            (Some(mine), Some(other)) => comparison.compare("body", mine, other),
            (None, None) => {}
            (Some(_), None) => drop(comparison.found.insert("body: only here".to_owned())),
            (None, Some(_)) => drop(comparison.found.insert("body: only there".to_owned())),
        }
        comparison.way = Way::Out;
        comparison.open.clear();
        comparison.fields("", &mine["answers"], &other["answers"]);
        all.extend(comparison.found.into_iter().map(|line| format!("{name} {line}")));
    }
    all
}

fn fits(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn every_difference_has_a_reason() {
    if let Some(path) = std::env::var_os("EVERTURN_CONTRACT") {
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let printed = serde_json::to_string_pretty(&plain(&document)).unwrap();
        std::fs::write(file(), printed + "\n").unwrap();
    }
    let (found, reasons) = (differences(&plain(&everturn_api::openapi()), &recorded()), reasons::all());
    let new: Vec<&String> =
        found.iter().filter(|line| !reasons.iter().any(|(pattern, _)| fits(pattern, line))).collect();
    let gone: Vec<&String> = reasons
        .iter()
        .map(|(pattern, _)| pattern)
        .filter(|pattern| !found.iter().any(|line| fits(pattern, line)))
        .collect();
    assert!(new.is_empty() && gone.is_empty(), "without a reason:\n{new:#?}\nno longer there:\n{gone:#?}");
    assert!(reasons.iter().all(|(_, reason)| reason.len() > 10));
}

#[test]
fn what_is_lost_has_no_reason() {
    // Patterns for all that a stream or a project lacks would have excused it.
    let mut ours = plain(&everturn_api::openapi());
    let text = ours.to_string();
    assert!(text.contains("\"todo.updated\"") && text.contains("\"worktree\""));
    ours = serde_json::from_str(&text.replace("\"todo.updated\"", "\"todo.lost\"")).unwrap();
    let project = ours["shapes"]["Project"]["fields"].as_object_mut().unwrap();
    project.remove("worktree").unwrap();
    let (found, reasons) = (differences(&ours, &recorded()), reasons::all());
    let new: Vec<&String> =
        found.iter().filter(|line| !reasons.iter().any(|(pattern, _)| fits(pattern, line))).collect();
    let expected = [
        "event.subscribe 200 stream<todo.lost>: only here",
        "event.subscribe 200 stream<todo.updated>: only there",
        "global.event 200 stream.payload<todo.lost>: only here",
        "global.event 200 stream.payload<todo.updated>: only there",
        "project.current 200.worktree: only there, where it is always there",
        "project.list 200[].worktree: only there, where it is always there",
    ];
    assert_eq!(new, expected);
}

#[test]
fn the_comparison_can_fail() {
    let theirs = recorded();
    let mut ours = theirs.clone();
    assert_eq!(differences(&ours, &theirs), BTreeSet::new());
    ours["shapes"]["Session"]["fields"]["title"] = json!("integer");
    ours["operations"]["session.get"]["answers"].as_object_mut().unwrap().remove("404");
    let found = differences(&ours, &theirs);
    assert!(found.contains("session.get 200.title: integer instead of string"), "{found:#?}");
    assert!(found.contains("session.get 404: only there, where it is always there"), "{found:#?}");
    assert!(fits("session.* 200*.title: *", "session.list 200[].title: integer instead of string"));
    assert!(!fits("session.* 404*", "session.list 200[].title: integer instead of string"));
}
