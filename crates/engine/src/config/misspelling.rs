//! Rules that have no effect because a word in them is misspelt: a denial that is none.
//!
//! Every word can be the name of a tool: MCP servers, plugins and other releases of OpenCode have their own. So a name counts
//! as misspelt only if it comes close to one that is known, or is that of a tool that asks under another name. What an
//! action is called is known for certain.

use std::collections::BTreeSet;

use everturn_model::Map;
use everturn_tools::bash::{NETWORK, OUTSIDE};
use everturn_tools::scope::PROTECTED;
use everturn_tools::webfetch::LOCAL_NETWORK;
use serde_json::Value;

/// What rules are about, here and in OpenCode.
const NAMES: [&str; 24] = [
    "bash",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "invalid",
    "list",
    LOCAL_NETWORK,
    "lsp",
    NETWORK,
    OUTSIDE,
    "plan_enter",
    "plan_exit",
    PROTECTED,
    "question",
    "read",
    "skill",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "websearch",
];

/// Tools that change files ask for `edit`.
const EDITING_TOOLS: [&str; 4] = ["apply_patch", "multiedit", "patch", "write"];

const ACTIONS: [&str; 3] = ["allow", "ask", "deny"];

/// The most that are named of one file, and how much of each word is shown.
const MOST: usize = 10;
const SHOWN: usize = 64;

/// Names of up to so many letters are other words soon.
const SHORT: usize = 5;

/// A rule that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misspelling {
    /// The keys that lead to it.
    pub(super) path: Vec<String>,
    /// The agent that the rule is for, if it is for one only.
    pub(super) agent: Option<String>,
    /// What is wrong.
    pub(super) what: String,
    /// Whether it would forbid something, or may.
    pub(super) restricts: bool,
}

/// What the names of the tools of MCP servers begin with, before an underscore.
pub(super) fn prefixes<'n>(servers: impl Iterator<Item = &'n String>) -> BTreeSet<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ['_', '-'].contains(&letter);
    servers.map(|name| name.replace(|letter| !is_plain(letter), "_")).collect()
}

/// Finds what is misspelt in a file. Tools whose names begin with one of `prefixes` are MCP servers'.
pub(super) fn find(values: &Map, prefixes: &BTreeSet<String>) -> Vec<Misspelling> {
    let mut search = MisspellingSearch { prefixes, agent: None, found: Vec::new() };
    if let Some(value) = values.get("permission") {
        search.look_at_permissions(&["permission"], value);
    }
    search.look_at_tools(&["tools"], values.get("tools"));
    for (name, agent) in values.get("agent").and_then(Value::as_object).into_iter().flatten() {
        search.agent = Some(name.clone());
        if let Some(value) = agent.get("permission") {
            search.look_at_permissions(&["agent", name, "permission"], value);
        }
        search.look_at_tools(&["agent", name, "tools"], agent.get("tools"));
    }
    search.found.truncate(MOST);
    search.found
}

struct MisspellingSearch<'s> {
    prefixes: &'s BTreeSet<String>,
    agent: Option<String>,
    found: Vec<Misspelling>,
}

impl MisspellingSearch<'_> {
    fn look_at_tools(&mut self, path: &[&str], value: Option<&Value>) {
        for (tool, on) in value.and_then(Value::as_object).into_iter().flatten() {
            if !EDITING_TOOLS.contains(&tool.as_str()) {
                let path = [path, &[tool.as_str()]].concat();
                self.look_at_name(&path, tool, on.as_bool() != Some(true));
            }
        }
    }

    fn look_at_permissions(&mut self, path: &[&str], value: &Value) {
        let Some(permissions) = value.as_object() else { return self.look_at_action(path, value) };
        for (name, value) in permissions {
            let path = [path, &[name.as_str()]].concat();
            let is_allowed = |value: &Value| value == "allow";
            match value {
                Value::Object(patterns) => {
                    self.look_at_name(&path, name, !patterns.values().all(is_allowed));
                    for (pattern, value) in patterns {
                        self.look_at_action(&[path.as_slice(), &[pattern.as_str()]].concat(), value);
                    }
                }
                value => {
                    self.look_at_name(&path, name, !is_allowed(value));
                    self.look_at_action(&path, value);
                }
            }
        }
    }

    fn look_at_name(&mut self, path: &[&str], name: &str, restricts: bool) {
        if let Some(meant) = self.meant(name) {
            let what = format!("no permission is called `{}`: did you mean `{meant}`?", shown(name));
            self.note(path, &what, restricts);
        }
    }

    fn look_at_action(&mut self, path: &[&str], value: &Value) {
        let word = value.as_str().unwrap_or_default();
        if ACTIONS.contains(&word) {
            return;
        }
        let given = if word.is_empty() { value.to_string() } else { word.to_owned() };
        let plain = word.trim().to_lowercase();
        let near = ACTIONS.into_iter().find(|action| strsim::osa_distance(&plain, action) <= 2);
        let hint = near
            .filter(|_| !word.is_empty())
            .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        let what = format!("`{}` is none of `allow`, `ask` and `deny`{hint}", shown(&given));
        self.note(path, &what, true);
    }

    fn note(&mut self, path: &[&str], what: &str, restricts: bool) {
        if self.found.len() >= MOST {
            return;
        }
        let keys: Vec<String> = path.iter().map(|key| shown(key)).collect();
        let end = if restricts { "; more is asked until it is mended" } else { "" };
        self.found.push(Misspelling {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            agent: self.agent.clone(),
            what: format!("`{}` has no effect: {what}{end}", keys.join(".")),
            restricts,
        });
    }

    /// The name that was meant, where this one has no meaning.
    fn meant(&self, name: &str) -> Option<&'static str> {
        let is_prefix = |(at, _)| name.get(..at).is_some_and(|server| self.prefixes.contains(server));
        let is_pattern = name.contains(['*', '?']);
        if is_pattern || NAMES.contains(&name) || name.match_indices('_').any(is_prefix) {
            return None;
        }
        if EDITING_TOOLS.contains(&name) {
            return Some("edit");
        }
        let plain = name.trim().to_lowercase().replace(['-', ' '], "_");
        (name.len() <= SHOWN).then(|| NAMES.into_iter().find(|known| is_close(&plain, known)))?
    }
}

fn is_close(name: &str, known: &str) -> bool {
    let distance = strsim::osa_distance(name, known);
    if known.len() > SHORT {
        return distance <= 2 || name.len() > SHORT && known.starts_with(name);
    }
    // One letter instead of another makes another word: `lint` is no misspelt `list`.
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    distance == 0 || distance == 1 && (name.len() != known.len() || letters(name) == letters(known))
}

fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use everturn_tools::{Registry, ToolSettings};
    use serde_json::json;

    use super::*;

    fn found(value: &Value) -> Vec<(String, bool)> {
        let servers = ["bas".to_owned(), "my todo".to_owned()];
        let found = find(value.as_object().unwrap(), &prefixes(servers.iter()));
        found.into_iter().map(|found| (found.what, found.restricts)).collect()
    }

    #[test]
    fn an_ordinary_configuration_has_none() {
        let names = NAMES.into_iter().map(|name| (name.to_owned(), json!("ask")));
        let everything: Map = names.collect();
        for permission in [
            json!("ask"),
            Value::Object(everything),
            json!({"*": "ask", "bash": {"*": "ask", "git *": "allow", "rm *": "deny"}, "edit": "deny"}),
            // Servers that are configured here, or elsewhere, tools of plugins, and patterns.
            json!({"bas_h": "deny", "my_todo_write": "deny", "github_create_issue": "ask", "mymcp_*": "deny", "b?sh": "ask"}),
            json!({"deploy": "ask", "lint": "deny", "test": "deny", "exit": "deny", "dash": "ask", "base": "deny"}),
        ] {
            let tools =
                json!({"write": false, "patch": false, "bash": true, "mymcp*": false, "deploy": false});
            let agent = json!({"review": {"permission": permission, "tools": tools, "mode": "subagent"}});
            assert_eq!(found(&json!({"permission": permission, "agent": agent})), [], "{permission}");
        }
    }

    #[test]
    fn every_tool_asks_under_a_name_that_is_known() {
        let tools = Registry::builtin(&ToolSettings::default()).offer();
        for name in tools.names() {
            let permission = tools.get(name).unwrap().permission().to_owned();
            let permission = permission.as_str();
            assert!(NAMES.contains(&permission), "{permission}");
        }
    }

    #[test]
    fn a_misspelt_name_is_found() {
        for (name, meant) in [
            ("bahs", "bash"),
            ("Bash", "bash"),
            ("basch", "bash"),
            ("bsh", "bash"),
            ("edti", "edit"),
            ("edits", "edit"),
            ("write", "edit"),
            ("apply_patch", "edit"),
            ("webftech", "webfetch"),
            ("web-fetch", "webfetch"),
            ("external-directory", "external_directory"),
            ("external_dir", "external_directory"),
            ("outside_sanbox", "outside_sandbox"),
            ("skills", "skill"),
        ] {
            let what = |end: &str| {
                format!(
                    "`permission.{name}` has no effect: no permission is called `{name}`: did you mean `{meant}`?{end}"
                )
            };
            let asked = "; more is asked until it is mended";
            let check = |rule: Value, expected: (String, bool)| {
                assert_eq!(found(&json!({"permission": {name: rule}})), [expected]);
            };
            check(json!("deny"), (what(asked), true));
            check(json!("ask"), (what(asked), true));
            check(json!({"*": "allow", "x": "ask"}), (what(asked), true));
            check(json!("allow"), (what(""), false));
            check(json!({"x": "allow"}), (what(""), false));
        }
        let of_agent =
            json!({"agent": {"review": {"permission": {"bahs": "deny"}, "tools": {"edti": false}}}});
        let found = find(of_agent.as_object().unwrap(), &BTreeSet::new());
        let paths: Vec<String> = found.iter().map(|found| found.path.join(".")).collect();
        assert_eq!(paths, ["agent.review.permission.bahs", "agent.review.tools.edti"]);
        assert!(found.iter().all(|found| found.agent.as_deref() == Some("review") && found.restricts));
    }

    #[test]
    fn a_misspelt_action_is_found() {
        let check = |permission: Value, expected: &str| {
            let end = "; more is asked until it is mended";
            assert_eq!(found(&json!({"permission": permission})), [(format!("{expected}{end}"), true)]);
        };
        let none = "is none of `allow`, `ask` and `deny`";
        check(
            json!({"bash": "denny"}),
            &format!("`permission.bash` has no effect: `denny` {none}: did you mean `deny`?"),
        );
        check(
            json!({"bash": {"rm *": "Deny"}}),
            &format!("`permission.bash.rm *` has no effect: `Deny` {none}: did you mean `deny`?"),
        );
        check(json!("never"), &format!("`permission` has no effect: `never` {none}"));
        check(json!({"bash": false}), &format!("`permission.bash` has no effect: `false` {none}"));
        check(json!(["deny"]), &format!("`permission` has no effect: `[\"deny\"]` {none}"));
        check(json!({"bash": ""}), &format!("`permission.bash` has no effect: `\"\"` {none}"));
    }

    #[test]
    fn no_endless_list_comes_of_it() {
        let rules: Map = (0..5000).map(|at| (format!("tool{at}"), json!("x".repeat(1000)))).collect();
        let found = found(&json!({"permission": rules}));
        assert_eq!(found.len(), MOST);
        assert!(found.iter().all(|(what, _)| what.len() < 300));
    }
}
