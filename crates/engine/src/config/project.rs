//! What a project's configuration may say before anybody has trusted it.
//!
//! Whoever opens a repository has not read its configuration. So what it says is taken apart: what only restricts, or
//! only concerns how things look, counts at once; what would let more happen (another model or address, keys from the
//! environment or from files, programs, looser permissions) is **held** until the person has looked at it and trusts
//! it. What is held has a name for each thing, such as `model` or `mcp.docs`, and is trusted by that name and its content.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use everturn_model::Map;
use everturn_model::permission::Rule;
use serde_json::Value;

use super::agent_definition::rules_in;
use super::caution::caution;
use super::layer::put_at;
use super::placeholders;
use super::rules::{loosens, rules};
use super::sandbox_choice::{self, SandboxStrength};

/// Settings that only concern how clients look.
const LOOKS: [&str; 6] = ["$schema", "keybinds", "layout", "theme", "tui", "username"];

/// Settings that are held as a whole.
const HELD: [&str; 10] = [
    "compaction",
    "default_agent",
    "disabled_providers",
    "enabled_providers",
    "limits",
    "model",
    "small_model",
    "snapshot",
    "tool_output",
    "websearch",
];

/// What an agent of a project may be without being trusted: words.
const WORDS_OF_AGENTS: [&str; 6] = ["color", "description", "disable", "hidden", "mode", "prompt"];

/// What a command of a project may be without being trusted: words.
const WORDS_OF_COMMANDS: [&str; 4] = ["agent", "description", "subtask", "template"];

/// The most things that wait for the person: nobody looks at more of them, and naming them all takes time.
const HELD_MAX: usize = 500;

/// The most rules of a project that nobody trusts, and the most bytes in them: they are combined with each other, which
/// takes a time that grows with the square of both.
const RULES_MAX: usize = 200;
const RULE_BYTES_MAX: usize = 8 * 1024;

/// How a command's text says that a program is to be run.
const SHELL: &str = "!`";

/// The provider of scripts, which are code: no project chooses one, trusted or not.
const SCRIPTS: &str = "scripted/";

/// A project's configuration, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProjectRequest {
    /// What counts at once.
    pub(super) allowed: Map,
    /// Rules that nobody in this project gets around.
    pub(super) restrictions: Vec<Rule>,
    /// The same for one agent.
    pub(super) agent_restrictions: BTreeMap<String, Vec<Rule>>,
    /// What waits for the person, by name.
    pub(super) held: BTreeMap<String, Value>,
    /// What never comes from a project.
    pub(super) refused: Vec<ProjectRefusal>,
}

/// Something that never comes from a project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectRefusal {
    /// The keys that lead to it; none if it is about all of them.
    pub(super) path: Vec<String>,
    /// Why, in words.
    pub(super) what: String,
}

/// Takes the merged configuration of a project apart. What has no meaning here is left out.
pub(super) fn take_apart(values: Map) -> ProjectRequest {
    let mut request = ProjectRequest::default();
    for (key, value) in values {
        match (key.as_str(), value) {
            ("trash", _) => {
                // Whoever opens a repository must not lose sessions of other projects by it.
                request.refuse(&[&key], "a project does not decide how long the trash is kept".to_owned());
            }
            ("permission", value) => {
                request.restrictions = rules(&value);
                if loosens(&request.restrictions) {
                    request.held.insert(key, value);
                }
            }
            ("agent", Value::Object(agents)) => {
                agents.into_iter().for_each(|agent| request.take_agent(agent));
            }
            ("command", Value::Object(commands)) => {
                commands.into_iter().for_each(|command| request.take_command(command));
            }
            ("mcp", Value::Object(servers)) => {
                for (name, server) in servers {
                    let off = server.as_object().is_some_and(|server| {
                        server.len() == 1 && server.get("enabled") == Some(&Value::Bool(false))
                    });
                    request.put(&["mcp", &name], server, off);
                }
            }
            ("provider", Value::Object(providers)) => {
                for (name, provider) in providers {
                    request.put(&["provider", &name], provider, false);
                }
            }
            ("instructions", Value::Array(named)) => {
                let (inside, outside): (Vec<Value>, Vec<Value>) = named.into_iter().partition(is_inside);
                request.put(&["instructions"], inside.into(), true);
                if !outside.is_empty() {
                    request.held.insert(key, outside.into());
                }
            }
            ("skills", Value::Object(mut skills)) => {
                if let Some(Value::Array(named)) = skills.remove("paths") {
                    let (inside, outside): (Vec<Value>, Vec<Value>) = named.into_iter().partition(is_inside);
                    request.put(&["skills", "paths"], inside.into(), true);
                    if !outside.is_empty() {
                        request.held.insert("skills.paths".to_owned(), outside.into());
                    }
                }
            }
            // No name of a mode is nothing that could be trusted: it confines as far as possible until it is one.
            ("sandbox", value) if sandbox_choice::is_unclear(&value) => {
                request.put(&["sandbox"], SandboxStrength::ReadOnly.name().into(), true);
            }
            ("sandbox", value) => {
                let restricts = sandbox_choice::restricts(&value);
                request.put(&["sandbox"], value, restricts);
            }
            // It counts beside the person's own: the lower one applies.
            ("budget", value) => request.put(&["budget"], value, true),
            (looks, value) if LOOKS.contains(&looks) => {
                let harmless = !placeholders::are_in(&value);
                request.put(&[looks], value, harmless);
            }
            ("model" | "small_model", Value::String(name)) if name.starts_with(SCRIPTS) => {
                let what = format!("a project does not choose the script `{name}` as `{key}`");
                request.refuse(&[&key], what);
            }
            (held, value) if HELD.contains(&held) => drop(request.held.insert(key, value)),
            _ => {}
        }
    }
    request.bound_rules();
    if let Some(first) = request.held.keys().nth(HELD_MAX).cloned() {
        drop(request.held.split_off(&first));
        let what = format!("a project asks for {HELD_MAX} things at most, and the rest is left out");
        request.refuse(&[], what);
    }
    request
}

/// Whether a path or pattern surely stays in the project, as it reads.
fn is_inside(named: &Value) -> bool {
    let Some(text) = named.as_str().filter(|_| !placeholders::are_in(named)) else { return false };
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !text.starts_with('~') && !text.contains("://") && Path::new(text).components().all(plain)
}

impl ProjectRequest {
    /// Where there are too many rules, everything but looking is asked for instead.
    fn bound_rules(&mut self) {
        let all = || self.restrictions.iter().chain(self.agent_restrictions.values().flatten());
        let bytes: usize = all().map(|rule| rule.permission.len() + rule.pattern.len()).sum();
        if all().count() > RULES_MAX || bytes > RULE_BYTES_MAX {
            self.restrictions = caution().to_vec();
            self.agent_restrictions.clear();
            let what = format!(
                "a project has {RULES_MAX} permission rules of {RULE_BYTES_MAX} bytes at most; more is asked instead"
            );
            self.refuse(&["permission"], what);
        }
    }

    fn refuse(&mut self, path: &[&str], what: String) {
        self.refused.push(ProjectRefusal { path: path.iter().map(|key| (*key).to_owned()).collect(), what });
    }

    /// Takes a value in under its name: it counts, or waits.
    fn put(&mut self, name: &[&str], value: Value, counts: bool) {
        if counts {
            put_at(&mut self.allowed, name, value);
        } else {
            self.held.insert(name.join("."), value);
        }
    }

    fn take_agent(&mut self, (name, agent): (String, Value)) {
        let restrictions = rules_in(&agent);
        let Value::Object(agent) = agent else { return };
        // Whoever trusts the rules trusts all of them: those that restrict are exceptions from those that allow.
        let is_looser = loosens(&restrictions);
        let (mut words, mut rest) = (Map::new(), Map::new());
        for (key, value) in agent {
            match key.as_str() {
                "permission" | "tools" if !is_looser => {}
                // An agent that the person has switched off stays off.
                "disable" if value != true => drop(rest.insert(key, value)),
                "model" if value.as_str().is_some_and(|model| model.starts_with(SCRIPTS)) => {
                    let what = format!("a project does not choose a script as the model of `{name}`");
                    self.refuse(&["agent", &name, "model"], what);
                }
                key if WORDS_OF_AGENTS.contains(&key) && !placeholders::are_in(&value) => {
                    words.insert(key.to_owned(), value);
                }
                _ => drop(rest.insert(key, value)),
            }
        }
        if !rest.is_empty() {
            self.put(&["agent", &name], rest.into(), false);
        }
        self.put(&["agent", &name], words.into(), true);
        if !restrictions.is_empty() {
            self.agent_restrictions.insert(name, restrictions);
        }
    }

    fn take_command(&mut self, (name, command): (String, Value)) {
        let words = command.as_object().is_some_and(|command| {
            command.iter().all(|(key, value)| {
                WORDS_OF_COMMANDS.contains(&key.as_str())
                    && !placeholders::are_in(value)
                    && value.as_str().is_none_or(|text| !text.contains(SHELL))
            })
        });
        self.put(&["command", &name], command, words);
    }
}

/// The path of names that a held thing has: only the first word may be followed by a name of the project's own.
pub(super) fn path_of(item: &str) -> Vec<&str> {
    match item.split_once('.') {
        Some((kind, name)) => vec![kind, name],
        None => vec![item],
    }
}

#[cfg(test)]
mod tests {
    use everturn_model::permission::Action;
    use serde_json::json;

    use super::*;

    fn check(values: &Value) -> ProjectRequest {
        take_apart(values.as_object().cloned().unwrap())
    }

    fn words(request: &ProjectRequest) -> Vec<&str> {
        request.refused.iter().map(|refusal| refusal.what.as_str()).collect()
    }

    #[test]
    fn what_only_restricts_counts_at_once() {
        let request = check(&json!({
            "theme": "dark", "permission": {"bash": "ask", "edit": {"*.lock": "deny"}}, "sandbox": "read-only",
            "mcp": {"mine": {"enabled": false}}, "instructions": ["docs/*.md"],
            "agent": {"build": {"prompt": "Be brief.", "permission": {"webfetch": "deny"}, "tools": {"write": false}}},
            "command": {"check": {"template": "Check $ARGUMENTS", "description": "checks"}},
        }));
        let allowed = json!({
            "theme": "dark", "mcp": {"mine": {"enabled": false}}, "instructions": ["docs/*.md"],
            "sandbox": "read-only", "agent": {"build": {"prompt": "Be brief."}},
            "command": {"check": {"template": "Check $ARGUMENTS", "description": "checks"}},
        });
        let restrictions =
            vec![Rule::new("bash", "*", Action::Ask), Rule::new("edit", "*.lock", Action::Deny)];
        let of_build = vec![Rule::new("edit", "*", Action::Deny), Rule::new("webfetch", "*", Action::Deny)];
        let expected = ProjectRequest {
            allowed: allowed.as_object().cloned().unwrap(),
            restrictions,
            agent_restrictions: [("build".to_owned(), of_build)].into(),
            ..ProjectRequest::default()
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn what_would_let_more_happen_is_held() {
        let values = json!({
            "model": "openai/gpt-5", "provider": {"openai": {"options": {"baseURL": "http://evil.example"}}},
            "permission": {"bas?": "allow"},
            "mcp": {"a.b": {"type": "local", "command": ["sh"]}, "off": {"enabled": false, "command": ["sh"]}},
            "agent": {"build": {"model": "x/y", "permission": {"edit": "allow"}}, "odd": {"prompt": "{env:KEY}"}},
            "command": {"run": {"template": "see !`ls`"}, "other": {"template": "a", "model": "x/y"}},
            "instructions": ["../x.md", "~/.ssh/id", "/etc/passwd", "https://evil.example", "in.md", "{env:KEY}"],
            "skills": {"paths": ["/x"]}, "theme": "{file:/etc/passwd}", "snapshot": false, "sandbox": "off",
            "enabled_providers": [], "websearch": {"provider": "searxng", "url": "http://evil.example"},
        });
        let request = check(&values);
        let held: Vec<&str> = request.held.keys().map(String::as_str).collect();
        let expected = [
            "agent.build",
            "agent.odd",
            "command.other",
            "command.run",
            "enabled_providers",
            "instructions",
            "mcp.a.b",
            "mcp.off",
            "model",
            "permission",
            "provider.openai",
            "sandbox",
            "skills.paths",
            "snapshot",
            "theme",
            "websearch",
        ];
        assert_eq!(held, expected);
        let allowed =
            json!({"agent": {"build": {}, "odd": {}}, "instructions": ["in.md"], "skills": {"paths": []}});
        assert_eq!(Value::Object(request.allowed), allowed);
        assert_eq!(request.held["agent.build"], json!({"model": "x/y", "permission": {"edit": "allow"}}));
        assert_eq!(path_of("mcp.a.b"), ["mcp", "a.b"]);
    }

    #[test]
    fn rules_of_an_agent_are_trusted_together() {
        // Only the part that allowed something was held, and what the other part denied was forgotten with the trust.
        let request = check(
            &json!({"agent": {"build": {"permission": {"bash": "deny", "edit": "deny"}, "tools": {"bash": true}}}}),
        );
        let held = json!({"permission": {"bash": "deny", "edit": "deny"}, "tools": {"bash": true}});
        assert_eq!(request.held, [("agent.build".to_owned(), held)].into());
        // In the order in which they count once they are trusted.
        let rules = ["bash", "bash", "edit"].into_iter().zip([Action::Allow, Action::Deny, Action::Deny]);
        let rules: Vec<Rule> = rules.map(|(name, action)| Rule::new(name, "*", action)).collect();
        assert_eq!(request.agent_restrictions, [("build".to_owned(), rules)].into());
    }

    #[test]
    fn an_agent_that_the_person_switched_off_stays_off() {
        // A project's `"disable": false` counted at once, and the agent was back.
        let request = check(&json!({"agent": {"mine": {"disable": false}, "theirs": {"disable": true}}}));
        assert_eq!(request.held, [("agent.mine".to_owned(), json!({"disable": false}))].into());
        assert_eq!(
            Value::Object(request.allowed),
            json!({"agent": {"mine": {}, "theirs": {"disable": true}}})
        );
    }

    #[test]
    fn too_many_rules_become_questions() {
        // A list of agents took minutes to be made.
        let long: Map = (0..10).map(|at| (format!("{}{at}", "*a".repeat(1000)), json!("deny"))).collect();
        let many: Map = (0..201).map(|at| (format!("{at}"), json!("deny"))).collect();
        for rules in [long, many] {
            let request =
                check(&json!({"permission": {"read": rules}, "agent": {"x": {"tools": {"bash": false}}}}));
            assert_eq!(request.restrictions, caution().to_vec());
            assert_eq!((request.agent_restrictions.len(), request.refused.len()), (0, 1));
        }
    }

    #[test]
    fn what_is_asked_for_has_an_end() {
        // 8,000 servers took a minute to be listed, although none of them was to run.
        let servers: Map = (0..8000).map(|at| (format!("s{at}"), json!({"type": "local"}))).collect();
        let request = check(&json!({"mcp": servers, "permission": {"edit": "deny"}}));
        assert_eq!((request.held.len(), request.restrictions.len()), (HELD_MAX, 1));
        assert_eq!(words(&request), ["a project asks for 500 things at most, and the rest is left out"]);
    }

    #[test]
    fn scripts_and_the_trash_are_nothing_for_projects() {
        // A repository that named a script as its model had its calls run at the first prompt.
        let request = check(
            &json!({"model": "scripted/./play.json", "small_model": "scripted/x", "trash": {"keep": "0d"},
            "agent": {"build": {"model": "scripted/./play.json"}}}),
        );
        assert_eq!(request.held, BTreeMap::new());
        assert_eq!(
            words(&request),
            [
                "a project does not choose the script `scripted/./play.json` as `model`",
                "a project does not choose the script `scripted/x` as `small_model`",
                "a project does not decide how long the trash is kept",
                "a project does not choose a script as the model of `build`",
            ]
        );
    }
}
