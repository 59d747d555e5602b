//! Makes events of two runs comparable: what has to differ gets a name, what says nothing new goes.
//!
//! Names are given in the order of appearance within a phase, so that a thing that appears in one run only does not
//! shift the names of all phases behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Events about the server or about files that anybody may change; the recording left them out.
const NOISE: [&str; 12] = [
    "catalog.updated",
    "file.watcher.updated",
    "integration.updated",
    "lsp.updated",
    "models-dev.refreshed",
    "plugin.added",
    "project.updated",
    "reference.updated",
    "server.connected",
    "server.heartbeat",
    "server.instance.disposed",
    "vcs.branch.updated",
];

/// Phases in which the words that were sent before something else happened depend on the moment.
const TIMED: [&str; 2] = ["15-abort", "16-prompt-while-busy"];

/// One side of the comparison.
#[derive(Debug)]
pub(super) struct Normaliser {
    /// Texts that are different on every machine, with their names; longer ones first.
    texts: Vec<(String, &'static str)>,
    hostname: String,
    names: BTreeMap<String, String>,
    counters: BTreeMap<String, usize>,
    latest: BTreeMap<String, Value>,
    phase: &'static str,
}

impl Normaliser {
    pub(super) fn recorded() -> Self {
        Self::new("/srv/demo/project", "vm")
    }

    pub(super) fn live(project: &str) -> Self {
        let hostname = std::fs::read_to_string("/etc/hostname").expect("the name of this machine");
        Self::new(project, hostname.trim_end())
    }

    fn new(project: &str, hostname: &str) -> Self {
        Self {
            texts: vec![(project.to_owned(), "<project>")],
            hostname: hostname.to_owned(),
            names: BTreeMap::new(),
            counters: BTreeMap::new(),
            latest: BTreeMap::new(),
            phase: "",
        }
    }

    /// The events of one phase, made comparable.
    pub(super) fn phase(&mut self, phase: &'static str, events: Vec<Value>) -> Vec<Value> {
        self.phase = phase.split_once('-').map_or(phase, |(number, _)| number);
        let timed = TIMED.contains(&phase);
        let mut streamed = BTreeSet::new();
        let mut kept = Vec::new();
        for mut event in events {
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            if NOISE.contains(&kind.as_str()) || self.says_nothing_new(&kind, &event) {
                continue;
            }
            if timed && kind == "message.part.delta" {
                if !streamed.insert(event["properties"]["partID"].to_string()) {
                    continue;
                }
                event["properties"]["delta"] = "<words>".into();
            }
            if phase == "15-abort" && event.pointer("/properties/part/time/end").is_some() {
                event["properties"]["part"]["text"] = "<words>".into();
            }
            let properties = self.value("properties", event["properties"].take());
            kept.push(Value::Object(Map::from_iter([
                ("type".to_owned(), kind.into()),
                ("properties".to_owned(), properties),
            ])));
        }
        kept
    }

    /// Whether the latest event about the same thing said the same, apart from the time at which it was said.
    fn says_nothing_new(&mut self, kind: &str, event: &Value) -> bool {
        let mut said = event["properties"].clone();
        let text =
            |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let session = text("/properties/sessionID");
        let subject = match kind {
            "session.updated" | "session.created" => {
                drop(said.pointer_mut("/info/time/updated").map(Value::take));
                format!("session {session}")
            }
            "session.diff" => format!("diff {session}"),
            "session.status" => format!("status {session}"),
            "session.idle" => format!("idle {session}"),
            "message.updated" => text("/properties/info/id"),
            "message.part.updated" => {
                drop(said.as_object_mut().and_then(|said| said.remove("time")));
                text("/properties/part/id")
            }
            _ => return false,
        };
        if kind == "session.status" && text("/properties/status/type") == "busy" {
            self.latest.remove(&format!("idle {session}"));
        }
        let before = self.latest.insert(subject, said.clone());
        before == Some(said)
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        match (key, value) {
            ("slug" | "version", Value::String(_)) => format!("<{key}>").into(),
            ("projectID", Value::String(_)) => "<project id>".into(),
            ("callID", Value::String(id)) => self.name("call", &id).into(),
            ("time", time) => times(time),
            ("tokens", Value::Object(tokens)) => Value::Object(tokens.into_iter().map(count).collect()),
            (_, Value::String(text)) => self.text(&text).into(),
            (_, Value::Array(list)) => list.into_iter().map(|item| self.value(key, item)).collect(),
            (_, Value::Object(fields)) => {
                let named = fields.into_iter().map(|(key, value)| {
                    let value = self.value(&key, value);
                    (key, value)
                });
                Value::Object(named.collect())
            }
            (_, other) => other,
        }
    }

    fn text(&mut self, text: &str) -> String {
        if text == self.hostname {
            return "<hostname>".to_owned();
        }
        if text.len() == 40 && text.chars().all(|letter| letter.is_ascii_hexdigit()) {
            return self.name("snapshot", text);
        }
        let mut text = text.replace(&format!("1: {}\n", self.hostname), "1: <hostname>\n");
        for (own, name) in &self.texts {
            text = text.replace(own, name);
        }
        if let Some(rest) = text.strip_prefix("../") {
            // How far up the root is depends on where the project lies.
            text = format!("<up>/{}", rest.trim_start_matches("../"));
        }
        self.ids(&without_port(&text))
    }

    /// The text with a name for each id in it.
    fn ids(&mut self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some(place) =
            ["ses_", "msg_", "prt_", "per_"].iter().filter_map(|kind| rest.find(kind)).min()
        {
            let (head, tail) = rest.split_at(place);
            let end = tail.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let (id, tail) = tail.split_at(end.unwrap_or(tail.len()));
            let (kind, _) = id.split_once('_').unwrap_or((id, ""));
            result = result + head + &self.name(kind, id);
            rest = tail;
        }
        result + rest
    }

    fn name(&mut self, kind: &str, id: &str) -> String {
        if let Some(name) = self.names.get(id) {
            return name.clone();
        }
        let place = format!("{kind} {}", self.phase);
        let count = self.counters.entry(place.clone()).or_default();
        *count += 1;
        let name = format!("<{place}.{count}>");
        self.names.insert(id.to_owned(), name.clone());
        name
    }
}

/// Times as such; that they are there is part of the comparison.
fn times(value: Value) -> Value {
    match value {
        Value::Number(_) => "<time>".into(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (key, times(value))).collect())
        }
        other => other,
    }
}

/// Counts of what goes to the model depend on the wording of the instructions.
fn count((key, value): (String, Value)) -> (String, Value) {
    let depends = matches!(key.as_str(), "input" | "total") && value.as_u64().is_some_and(|count| count > 0);
    (key, if depends { "<count>".into() } else { value })
}

fn without_port(text: &str) -> String {
    const HOST: &str = "http://127.0.0.1:";
    match text.split_once(HOST) {
        Some((head, tail)) => {
            let rest = tail.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{head}{HOST}<port>{rest}")
        }
        None => text.to_owned(),
    }
}

/// What phases that are not played left behind in the recording.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    sessions: BTreeSet<String>,
    /// The messages that still exist, with their session and their tokens.
    messages: BTreeMap<String, (String, [i64; 2])>,
}

const TOKENS: [&str; 2] = ["/properties/info/tokens/input", "/properties/info/tokens/output"];

impl Skipped {
    /// Remembers what a phase made that is not played.
    pub(super) fn learn(&mut self, events: &[Value]) {
        for event in events {
            let text =
                |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            match event["type"].as_str() {
                Some("session.created") => drop(self.sessions.insert(text("/properties/sessionID"))),
                Some("message.updated") => {
                    let tokens =
                        TOKENS.map(|pointer| event.pointer(pointer).and_then(Value::as_i64).unwrap_or(0));
                    let message = (text("/properties/sessionID"), tokens);
                    self.messages.insert(text("/properties/info/id"), message);
                }
                _ => {}
            }
        }
    }

    /// Takes it out of a later phase.
    pub(super) fn remove(&mut self, events: Vec<Value>) -> Vec<Value> {
        events.into_iter().filter_map(|event| self.without(event)).collect()
    }

    fn without(&mut self, mut event: Value) -> Option<Value> {
        let session = event.pointer("/properties/sessionID").and_then(Value::as_str).unwrap_or_default();
        if self.sessions.contains(session) {
            return None;
        }
        let message = event.pointer("/properties/messageID").and_then(Value::as_str);
        if event["type"] == "message.removed" && message.is_some_and(|id| self.messages.remove(id).is_some())
        {
            return None;
        }
        if event["type"].as_str().is_some_and(|kind| kind.starts_with("session.")) {
            let left: Vec<[i64; 2]> = self
                .messages
                .values()
                .filter(|(owner, _)| owner == session)
                .map(|(_, tokens)| *tokens)
                .collect();
            for (place, pointer) in TOKENS.iter().enumerate() {
                if let Some(value) = event.pointer_mut(pointer) {
                    let own =
                        value.as_i64().unwrap_or(0) - left.iter().map(|tokens| tokens[place]).sum::<i64>();
                    *value = own.into();
                }
            }
        }
        Some(event)
    }
}
