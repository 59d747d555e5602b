//! What a request of each protocol must be, as the types of the official SDKs and the services themselves say it.
//!
//! The rules are read off the wire, without anything of `llm`: what both got wrong in the same way would not be seen.

mod anthropic;
mod chat;
mod gemini;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::Value;

use crate::model_server::ArrivedRequest;

/// What a request says wrong; empty when it is valid.
pub fn broken(request: &ArrivedRequest) -> Vec<String> {
    let mut faults = BrokenRules::default();
    let body = &request.body;
    match request.path.as_str() {
        path if path.ends_with("/chat/completions") => chat::check(body, &mut faults),
        path if path.ends_with("/messages") => anthropic::check(body, &mut faults),
        path if path.ends_with("/responses") => responses::check(body, &mut faults),
        path if path.contains(":streamGenerateContent") => gemini::check(body, &mut faults),
        path => faults.rule(false, || format!("{path} is of no protocol")),
    }
    faults.0
}

/// The rules that are broken, each with its place.
#[derive(Debug, Default)]
struct BrokenRules(Vec<String>);

impl BrokenRules {
    fn rule(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }
}

/// The elements of a list; none where there is no list.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Whether a field has text in which something can be read.
fn says(value: &Value, key: &str) -> bool {
    !word(value, key).trim().is_empty()
}

/// Whether a name has so many letters, digits, `_` and `-`.
fn is_name(name: &str, most: usize) -> bool {
    (1..=most).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The tools that are offered: a name each, unlike the others, and a schema that is an object.
fn check_tools<'a>(
    tools: impl Iterator<Item = (&'a Value, &'a str)>,
    names: usize,
    faults: &mut BrokenRules,
) {
    let mut seen = HashSet::new();
    for (tool, schema) in tools {
        let name = word(tool, "name");
        faults.rule(is_name(name, names), || format!("{name:?} is no name for a tool"));
        faults.rule(seen.insert(name), || format!("two tools are called {name}"));
        faults.rule(tool.get(schema).is_none_or(|schema| schema["type"] == "object"), || {
            format!("what {name} takes is no object")
        });
    }
}
