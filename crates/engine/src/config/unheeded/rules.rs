//! Rules of a file: those that mean nothing, and those where nothing reads them.

use std::collections::BTreeSet;

use everturn_model::Map;
use everturn_tools::registry::RESERVED;
use serde_json::Value;

use super::super::caution::names_in;
use super::super::known_keys::{forbids, only_allows};
use super::super::misspelling::{
    EDITING_TOOLS, is_of_server, is_permission, shown, wrong_action, wrong_name,
};
use super::{UnheededSearch, dotted};

/// The keys of rules, and what they are mistaken for.
const RULE_KEYS: [&str; 3] = ["permission", "permissions", "tools"];

impl UnheededSearch<'_> {
    pub(super) fn look_at_tools(&mut self, path: &[&str], value: &Value) {
        let Some(tools) = value.as_object() else {
            return self.note_idle(
                path,
                "it must say `true` or `false` for each tool",
                Some(names_in(value)),
            );
        };
        for (tool, on) in tools {
            let path = [path, &[tool.as_str()]].concat();
            // `tools` says `write` where rules say `edit`.
            if !EDITING_TOOLS.contains(&tool.as_str()) {
                self.look_at_name(&path, tool, on.as_bool() != Some(true));
            }
            if !on.is_boolean() {
                let what = format!(
                    "`{}` must be `true` or `false`, not `{}`: until it is mended the tool is off, and more is asked",
                    dotted(&path),
                    shown(&on.to_string())
                );
                self.note(&path, what);
                self.be_careful(BTreeSet::new());
            } else if *on == true && RESERVED.contains(&tool.as_str()) {
                self.note_idle(&path, "it is no tool, and only `permission` allows it", None);
            }
        }
    }

    pub(super) fn look_at_permissions(&mut self, path: &[&str], value: &Value) {
        let Some(permissions) = value.as_object() else { return self.look_at_action(path, "*", value) };
        for (name, value) in permissions {
            let path = [path, &[name.as_str()]].concat();
            self.look_at_name(&path, name, !only_allows(value));
            match value {
                Value::Object(patterns) if self.is_group(name, patterns) => {
                    let what =
                        format!("no permission is called `{}`: what is in it stands beside it", shown(name));
                    self.note_idle(&path, &what, (!only_allows(value)).then(|| names_in(value)));
                }
                Value::Object(patterns) => {
                    for (pattern, value) in patterns {
                        self.look_at_action(&[path.as_slice(), &[pattern.as_str()]].concat(), name, value);
                    }
                }
                value => self.look_at_action(&path, name, value),
            }
        }
    }

    /// Whether a name in rules is no permission, and has permissions below it where patterns belong.
    fn is_group(&self, name: &str, patterns: &Map) -> bool {
        let is_known = is_permission(name) || is_of_server(name, &self.context.prefixes);
        !is_known && patterns.keys().any(|pattern| is_permission(pattern))
    }

    fn look_at_name(&mut self, path: &[&str], name: &str, restricts: bool) {
        if let Some(wrong) = wrong_name(name, &self.context.prefixes) {
            let meant = || wrong.meant.map(str::to_owned).into_iter().collect();
            self.note_idle(path, &wrong.what, restricts.then(meant));
        }
    }

    fn look_at_action(&mut self, path: &[&str], name: &str, value: &Value) {
        let word = value.as_str().unwrap_or_default();
        if let Some(wrong) = wrong_action(word) {
            let given = if word.is_empty() { value.to_string() } else { word.to_owned() };
            let what = format!("`{}` {wrong}", shown(&given));
            self.note_idle(path, &what, Some([name.to_owned()].into()));
        }
    }

    /// Looks for rules below a key where nothing reads them.
    pub(super) fn look_for_rules(&mut self, path: &[&str], value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let path = [path, &[key.as_str()]].concat();
                    if RULE_KEYS.contains(&key.as_str()) && forbids(value) {
                        let what = "rules are read at the top of a file and in an agent, and not here";
                        self.note_idle(&path, what, Some(names_in(value)));
                    } else {
                        self.look_for_rules(&path, value);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.look_for_rules(&[path, &[index.to_string().as_str()]].concat(), item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
