//! Permission rules as a configuration writes them, and whose they are.

use std::sync::Arc;

use everturn_model::Map;
use everturn_model::permission::{Action, Rule, matches};
use everturn_tools::registry::RESERVED;
use serde_json::{Value, json};

use super::misspelling::{EDITING_TOOLS, NAMES};

/// The rules that are configured, by who has written them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredRules {
    /// The person's own. What they deny, nothing loosens.
    pub person: Vec<Rule>,
    /// Those of a project that the person trusts, which refine the person's.
    pub project: Vec<Rule>,
    /// What nothing in this place gets around: rules of a project that nobody trusts yet, and of files that cannot be
    /// read.
    pub bounds: Vec<Arc<[Rule]>>,
}

/// Rules from a configuration: `"allow"` for everything, `{"bash": "ask"}`, or `{"bash": {"git *": "allow"}}`.
#[must_use]
pub fn rules(value: &Value) -> Vec<Rule> {
    let mut rules = Vec::new();
    if let Some(action) = action(value) {
        rules.push(Rule::new("*", "*", action));
    }
    for (permission, value) in value.as_object().into_iter().flatten() {
        if let Some(action) = action(value) {
            rules.push(Rule::new(permission, "*", action));
        }
        for (pattern, value) in value.as_object().into_iter().flatten() {
            if let Some(action) = action(value) {
                rules.push(Rule::new(permission, pattern, action));
            }
        }
    }
    rules
}

/// Makes a part of a configuration's `permission` of the older `tools` beside it. What `permission` itself says of a name
/// counts more, and what it says of all names only where it is stricter.
pub(super) fn fold_tools(values: &mut Map) {
    let Some(tools) = values.shift_remove("tools") else { return };
    let mut folded = Map::new();
    let own = match values.shift_remove("permission") {
        Some(Value::Object(own)) => own,
        Some(everything) => Map::from_iter([("*".to_owned(), everything)]),
        None => Map::new(),
    };
    let tools = rules_of_tools(&tools).into_iter().filter(|rule| !own.contains_key(&rule.permission));
    let (off, on): (Vec<Rule>, Vec<Rule>) = tools.partition(|rule| rule.action == Action::Deny);
    let named = |rule: Rule| (rule.permission, json!(rule.action));
    folded.extend(on.into_iter().map(named));
    folded.extend(own);
    folded.extend(off.into_iter().map(named));
    values.insert("permission".to_owned(), Value::Object(folded));
}

/// Rules from older `tools`: `{"write": false}`. Tools that change files share a permission. What is neither true nor
/// false switches off what it names, and so does a list.
pub(super) fn rules_of_tools(value: &Value) -> Vec<Rule> {
    let off = |tool: &str| Rule::new(permission_of(tool), "*", Action::Deny);
    match value {
        Value::Object(tools) => tools
            .iter()
            .flat_map(
                |(tool, on)| if *on == true { switched_on(permission_of(tool)) } else { vec![off(tool)] },
            )
            .collect(),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(|name| off(&name.trim().to_lowercase())).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn permission_of(tool: &str) -> &str {
    if EDITING_TOOLS.contains(&tool) { "edit" } else { tool }
}

/// The rules that switch a tool on. A pattern means the tools that are known, where it would mean a permission besides that
/// is none of a tool, such as to leave the sandbox.
fn switched_on(name: &str) -> Vec<Rule> {
    let allow = |name: &str| Rule::new(name, "*", Action::Allow);
    if !RESERVED.iter().any(|reserved| matches(name, reserved)) {
        return vec![allow(name)];
    }
    let tools = NAMES.into_iter().filter(|tool| !RESERVED.contains(tool) && matches(name, tool));
    tools.map(allow).collect()
}

/// Whether rules could allow what would not be allowed without them.
pub(super) fn loosens(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.action == Action::Allow)
}

fn action(value: &Value) -> Option<Action> {
    match value.as_str()? {
        "allow" => Some(Action::Allow),
        "ask" => Some(Action::Ask),
        "deny" => Some(Action::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_read_in_every_form() {
        let check = |value: Value, expected: &[(&str, &str, Action)]| {
            let expected: Vec<Rule> = expected.iter().map(|(p, r, a)| Rule::new(p, r, *a)).collect();
            assert_eq!(rules(&value), expected, "{value}");
        };
        check(json!("ask"), &[("*", "*", Action::Ask)]);
        check(
            json!({"bash": {"*": "ask", "git *": "allow"}, "edit": "deny"}),
            &[("bash", "*", Action::Ask), ("bash", "git *", Action::Allow), ("edit", "*", Action::Deny)],
        );
        check(json!({"bash": "sometimes"}), &[]);
        let check = |tools: Value, expected: &[(&str, Action)]| {
            let expected: Vec<Rule> =
                expected.iter().map(|(name, action)| Rule::new(name, "*", *action)).collect();
            assert_eq!(rules_of_tools(&tools), expected, "{tools}");
        };
        check(
            json!({"write": false, "bash": true, "odd": 1}),
            &[("edit", Action::Deny), ("bash", Action::Allow), ("odd", Action::Deny)],
        );
        check(json!(["Bash"]), &[("bash", Action::Deny)]);
        check(json!({"outside_sandbox": true, "network": false}), &[("network", Action::Deny)]);
        check(json!({"docs_*": true}), &[("docs_*", Action::Allow)]);
        check(json!({"*_*": true}), &[("plan_enter", Action::Allow), ("plan_exit", Action::Allow)]);
    }

    #[test]
    fn tools_become_permissions_which_count_more() {
        let check = |values: Value, expected: Value| {
            let Value::Object(mut values) = values else { panic!("an object") };
            fold_tools(&mut values);
            assert_eq!(Value::Object(values).to_string(), expected.to_string());
        };
        check(json!({"model": "x/y"}), json!({"model": "x/y"}));
        check(json!({"tools": {"bash": false}}), json!({"permission": {"bash": "deny"}}));
        check(
            json!({"permission": {"*": "ask", "edit": "allow"}, "tools": {"write": false, "webfetch": false, "bash": true}}),
            json!({"permission": {"bash": "allow", "*": "ask", "edit": "allow", "webfetch": "deny"}}),
        );
        check(
            json!({"permission": "allow", "tools": {"bash": false}}),
            json!({"permission": {"*": "allow", "bash": "deny"}}),
        );
    }
}
