//! What is asked for where something may have been forbidden that nothing obeys: a file that cannot be read, a rule that
//! is misspelt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everturn_model::permission::{Action, Rule};
use serde_json::Value;

use super::known_keys::only_allows;
use super::misspelling::{permission_meant, wrong_action};

/// The most names that are asked for by themselves, and the longest.
const NAMES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 100;

/// What holds where a file cannot be read that may have forbidden something: looking is allowed, and everything else is
/// asked for.
pub(super) fn caution() -> Arc<[Rule]> {
    caution_about(&BTreeSet::new())
}

/// The same where some permissions are known that may have been forbidden, looking among them.
pub(super) fn caution_about(names: &BTreeSet<String>) -> Arc<[Rule]> {
    let looking = ["glob", "grep", "list", "read", "skill", "todoread", "todowrite"];
    let ask = |name: &str| Rule::new(name, "*", Action::Ask);
    let allowed = looking.map(|name| Rule::new(name, "*", Action::Allow));
    [ask("*")].into_iter().chain(allowed).chain(names.iter().map(|name| ask(name))).collect()
}

/// The permissions that may have been forbidden, by the agent that they are forbidden to; no agent stands for all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cautions(pub(super) BTreeMap<Option<String>, BTreeSet<String>>);

impl Cautions {
    /// Adds permissions. Where there are too many to be compared with everything that is done, all of them are meant.
    pub(super) fn add(&mut self, agent: Option<String>, names: BTreeSet<String>) {
        let known = self.0.entry(agent).or_default();
        known.extend(names);
        let is_all = known.contains("*") || known.len() > NAMES_MAX;
        if is_all || known.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            *known = everything();
        }
    }
}

/// All permissions.
pub(super) fn everything() -> BTreeSet<String> {
    ["*".to_owned()].into()
}

/// The permissions that a value speaks of and does not allow, wherever in it they are named.
pub(super) fn names_in(value: &Value) -> BTreeSet<String> {
    fn named(word: &str) -> Option<String> {
        // A pattern may mean any of them.
        let pattern = word.contains(['*', '?']) && !word.contains(['(', ' ']);
        let head = word.split('(').next().unwrap_or(word);
        permission_meant(head).or_else(|| pattern.then_some("*")).map(str::to_owned)
    }
    fn gather(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            // `ask` would be a misspelt `task`.
            Value::String(text) if wrong_action(text).is_none() => {}
            Value::String(text) => names.extend(named(text)),
            Value::Array(items) => items.iter().for_each(|item| gather(item, names)),
            Value::Object(map) => {
                for (key, value) in map.iter().filter(|(_, value)| !only_allows(value)) {
                    names.extend(named(key));
                    gather(value, names);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    if !value.is_object() && !value.is_array() {
        return everything();
    }
    let mut names = BTreeSet::new();
    gather(value, &mut names);
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn permissions_are_found_wherever_they_are_named() {
        let check = |value: Value, expected: &[&str]| {
            assert_eq!(names_in(&value), expected.iter().map(|name| (*name).to_owned()).collect(), "{value}");
        };
        check(json!("deny"), &["*"]);
        check(json!({"read": "deny", "edit": "allow", "Bash(rm *)": "ask"}), &["bash", "read"]);
        check(json!({"deny": ["Write", "Read(./x)", "deploy"]}), &["edit", "read"]);
        check(json!({"build": {"tools": {"gr*": false, "glob": false}}}), &["*", "glob"]);
        check(json!({"bash": {"git *": "deny"}}), &["bash"]);
    }

    #[test]
    fn what_is_compared_with_everything_has_an_end() {
        let check = |names: Vec<String>| {
            let mut cautions = Cautions::default();
            cautions.add(None, names.into_iter().collect());
            cautions.add(None, ["read".to_owned()].into());
            cautions.0.remove(&None).unwrap()
        };
        assert_eq!(check(vec!["edit".to_owned()]).len(), 2);
        assert_eq!(check((0..5000).map(|at| format!("tool{at}")).collect()), everything());
        assert_eq!(check(vec!["x".repeat(1000)]), everything());
    }
}
