//! The operations compared with OpenCode's, as its server describes them.
//!
//! `fixtures/opencode/contract-1.18.33.json` holds the facts of that description: names, paths, fields and types. It
//! was made by `EVERTURN_CONTRACT=FILE cargo test -p everturn-api contract::`, where FILE is what `GET /doc` of an
//! OpenCode server answers. Both documents are brought into the same plain form, so that only what a client could
//! notice differs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::document::operations;

/// What differs, and why. `*` stands for anything.
const DIFFERENCES: &[(&str, &str)] = &[
    // The door.
    ("* 401: only here (shape)", "every request needs the token, and the document says so"),
    ("* 403: only here (shape)", "a foreign Host or Origin is refused before anything else"),
    ("* 413: only here (shape)", "bodies have a limit"),
    ("* 415: only here (shape)", "a body that is not JSON is refused by its media type"),
    ("* 500: only here (shape)", "what breaks in the server is answered with a reference to its log"),
    // Places.
    ("* query workspace: only there", "there are no workspaces on other machines"),
    (
        "* query directory: only there",
        "the answer is the same for every folder, or the session knows its own",
    ),
    (
        "* header x-opencode-directory: only here (string)",
        "its clients send the folder there, its document leaves it out",
    ),
    ("session.create body.workspaceID: only there", "there are no workspaces on other machines"),
    ("global.event 200 stream.workspace: only there", "there are no workspaces on other machines"),
    (
        "global.event 200 stream.directory: sometimes here, always there",
        "what the server says of itself has no place, there as here: recorded streams show it",
    ),
    // What is refused, and how.
    ("* 400: only there, where it is always there", "there is nothing in the request that could be wrong"),
    (
        "* 400*_tag: only there, where it is always there",
        "one shape for all bad requests: name and data, which its clients read everywhere",
    ),
    ("* 400<BadRequest>.data: only here (fields)", "one shape for all bad requests"),
    ("* 400<BadRequest>.name: only here (\"BadRequest\")", "one shape for all bad requests"),
    ("* 400<InvalidRequestError>: only there", "one shape for all bad requests"),
    ("* 400.data.kind: always here, sometimes there", "which piece of the request is wrong is always said"),
    ("* 400.data.kind<\"Payload\">: only there", "a body is called Body"),
    ("event.subscribe 400: only here (shape)", "a folder that is not absolute is refused"),
    (
        "* 404*.data: only here (fields)",
        "tagged errors carry the older shape too, because clients read either",
    ),
    ("* 404*.name: only here (*)", "tagged errors carry the older shape too"),
    ("* 409.data: only here (fields)", "tagged errors carry the older shape too"),
    ("* 409.name: only here (*)", "tagged errors carry the older shape too"),
    ("experimental.console.get 500*", "the same shape as for all that breaks in the server"),
    ("project.directories 404: only here (shape)", "a project that is not known is said to be unknown"),
    ("session.abort 404: only here (shape)", "a session that is not there is said to be missing"),
    ("session.create 404: only here (shape)", "a parent that is not there is said to be missing"),
    ("session.diff 404: only here (shape)", "a session that is not there is said to be missing"),
    ("part.delete 409: only here (shape)", "a session at work is not changed under it"),
    ("part.update 409: only here (shape)", "a session at work is not changed under it"),
    (
        "session.prompt* 409: only here (one of)",
        "an id that is used for something else, or a revert on a session at work",
    ),
    ("session.prompt* 501: only here (shape)", "an answer in a given JSON schema is not in this release"),
    // What clients send.
    ("app.log body.extra: only there", "it is ignored"),
    ("session.list query limit: integer instead of number", "sessions are counted"),
    ("permission.respond body.message: only here (string)", "a reason is taken on the older path too"),
    (
        "session.list query roots<*>: only there",
        "a flag is a flag: the words true and false are how a query says it",
    ),
    (
        "session.prompt* body.model.variant: only here (string)",
        "a variant is taken with the model too, as sessions name it",
    ),
    (
        "session.prompt* body.parts[]<subtask>.model.variant: only here (string)",
        "a variant is taken with the model too",
    ),
    ("part.update body<step-finish>.tokens.*: integer instead of number", "tokens are counted"),
    (
        "part.update body<reasoning>.time: sometimes here, always there",
        "parts of other programs come without times",
    ),
    // What clients get.
    ("doc.get: only here", "OpenCode serves its document and leaves that out of it"),
    ("session.prompt 200.info<user>: only here", "with noReply the prompt itself is answered, there as here"),
    ("* 200*<reasoning>.time: sometimes here, always there", "parts of other programs come without times"),
    ("* 200*.tool.messageID: id msg instead of string", "it is the id of a message"),
    ("* 200*<retry>.action: only there", "no such offer is made here"),
    ("app.agents 200[].native: always here, sometimes there", "all agents are built in"),
    ("app.agents 200[].*: only there", "agents have no such setting in this release"),
    ("* 200*.key: only there", "keys are never shown"),
    (
        "* 200*.capabilities.interleaved<fields>: only there",
        "the field of interleaved thoughts is the protocols' own business",
    ),
    ("* 200*.cost.tiers: only there", "the one tier that clients show has a field of its own"),
    ("* 200*.family: always here, sometimes there", "empty where it is not known"),
    ("* 200*.variants: always here, sometimes there", "empty where there are none"),
    (
        "* 200*.source<*>: only there",
        "no plugin brings a provider, and a key that `everturn auth` keeps shows as env: no route changes it",
    ),
    ("mcp.status 200{}<needs_client_registration>: only there", "nobody is registered, so nobody has to be"),
    ("project.* 200*: only there", "projects have no such thing in this release"),
    ("vcs.get 200.default_branch: only there", "it is not looked for in this release"),
    ("experimental.console.get 200.activeOrgName: only there", "there is no console"),
    (
        "*config.get 200: map instead of fields",
        "the configuration is shown as it was written, with what only OpenCode understands",
    ),
    ("command.list 200[]: any instead of fields", "there is none, so the list is empty"),
    ("lsp.status 200[]: any instead of fields", "there is none, so the list is empty"),
    ("formatter.status 200[]: any instead of fields", "there is none, so the list is empty"),
    ("experimental.workspace.list 200[]: any instead of fields", "there is none, so the list is empty"),
    ("experimental.workspace.status 200[]: any instead of fields", "there is none, so the list is empty"),
    (
        "provider.auth 200{}: any instead of list",
        "nobody can sign in through the server, so there is no way to",
    ),
    // Streams.
    ("event.subscribe 200 stream<server.heartbeat>: only here", "it is sent and not in its document"),
    ("global.event 200 stream.payload<server.heartbeat>: only here", "it is sent and not in its document"),
    ("event.subscribe 200 stream<*>: only there", "nothing of the kind happens in this release"),
    ("global.event 200 stream.payload<*>: only there", "nothing of the kind happens in this release"),
];

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
        if path.starts_with("/api/") {
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
    let found = differences(&plain(&everturn_api::openapi()), &recorded());
    let new: Vec<&String> =
        found.iter().filter(|line| !DIFFERENCES.iter().any(|(pattern, _)| fits(pattern, line))).collect();
    let gone: Vec<&str> = DIFFERENCES
        .iter()
        .map(|(pattern, _)| *pattern)
        .filter(|pattern| !found.iter().any(|line| fits(pattern, line)))
        .collect();
    assert!(new.is_empty() && gone.is_empty(), "without a reason:\n{new:#?}\nno longer there:\n{gone:#?}");
    assert!(DIFFERENCES.iter().all(|(_, reason)| reason.len() > 10));
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
