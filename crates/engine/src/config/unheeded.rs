//! What a file says without any effect: keys that nothing knows or that come twice, rules with a misspelt word in them,
//! values of the wrong kind.
//!
//! It is named, and stops nothing. But a denial that is none would be worse than no denial, so what may have been meant to
//! forbid something makes more be asked for: everything but looking, and what it speaks of itself.
//!
//! # Layout
//! - `rules`: rules that mean nothing, and those where nothing reads them
//! - `settings`: settings with a form of their own

mod rules;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use everturn_model::Map;
use serde_json::{Value, json};

use super::agent_definition;
use super::caution::{Cautions, everything, names_in};
use super::doubled_key::DoubledKey;
use super::known_keys::{
    AGENT, ALL_AGENTS, BUILTIN_AGENTS, KeyLevel, OTHERS, TOP, may_switch_off, only_allows,
};
use super::misspelling::{is_close, plain, shown};
use super::sandbox_choice::STRICT;

/// The most that is named of one file.
const MOST: usize = 10;

/// What agents are besides their rules: whoever says none of it has no agent of their own in mind.
const OF_OWN_AGENTS: [&str; 4] = ["description", "mode", "model", "prompt"];

const ASKED: &str = "; more is asked until it is mended";

const STOPPED: &str = "; until it is mended, the server does not start";

/// Something without an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnheededKey {
    /// The keys that lead to it.
    pub(super) path: Vec<String>,
    /// Where it stands in the text, if that is not where the last one of these keys does.
    pub(super) at: Option<usize>,
    /// What is wrong.
    pub(super) what: String,
}

/// What is known from all files together.
#[derive(Debug)]
pub(super) struct UnheededContext<'c> {
    /// What the names of MCP servers' tools begin with.
    pub(super) prefixes: BTreeSet<String>,
    /// Agents of which some file says what they are.
    pub(super) agents: BTreeSet<&'c str>,
    /// The person's home.
    pub(super) home: &'c Path,
}

/// What has no effect in a file.
#[derive(Debug, Default)]
pub(super) struct UnheededReport {
    /// What a person is told.
    pub(super) notes: Vec<UnheededKey>,
    /// What is asked for because of it.
    pub(super) cautions: Cautions,
    /// The MCP servers that may have been switched off by it, and why.
    pub(super) stopped: BTreeMap<String, String>,
}

/// The agents of which a file says what they are.
pub(super) fn own_agents(values: &Map) -> impl Iterator<Item = &str> {
    let tables = ["agent", "mode"].into_iter().filter_map(|key| values.get(key)?.as_object());
    tables.flatten().filter(|(_, agent)| is_own(agent)).map(|(name, _)| name.as_str())
}

fn is_own(agent: &Value) -> bool {
    let says = |key: &str| agent.get(key).is_some_and(|value| value != "");
    OF_OWN_AGENTS.into_iter().any(says)
}

/// Finds what has no effect in a file.
pub(super) fn find(values: &Map, doubled: &[DoubledKey], context: &UnheededContext<'_>) -> UnheededReport {
    let mut search = UnheededSearch { context, agent: None, report: UnheededReport::default() };
    doubled.iter().for_each(|key| search.look_at_doubled(key));
    for (key, value) in values {
        let path = [key.as_str()];
        match key.as_str() {
            "permission" => search.look_at_permissions(&path, value),
            "tools" => search.look_at_tools(&path, value),
            "agent" | "mode" => search.look_at_agents(key, value),
            "sandbox" => search.look_at_sandbox(value),
            "trash" => search.look_at_trash(value),
            "budget" => search.look_at_budget(value),
            "limits" => search.look_at_limits(value),
            "compaction" => search.look_at_compaction(value),
            _ => search.look_at_key(&TOP, &path, value),
        }
    }
    for (key, is_named, level) in &OTHERS {
        let value = values.get(*key);
        let fields = value.and_then(Value::as_object).into_iter().flatten();
        for (name, value) in fields {
            if *is_named {
                for (field, value) in value.as_object().into_iter().flatten() {
                    search.look_at_key(level, &[key, name, field], value);
                }
            } else {
                search.look_at_key(level, &[key, name], value);
            }
        }
    }
    search.report
}

struct UnheededSearch<'s> {
    context: &'s UnheededContext<'s>,
    agent: Option<String>,
    report: UnheededReport,
}

impl UnheededSearch<'_> {
    /// Looks at a key that is there twice. What the first one forbids must not be lost.
    fn look_at_doubled(&mut self, doubled: &DoubledKey) {
        let path: Vec<&str> = doubled.path.iter().map(String::as_str).collect();
        let twice = format!("`{}` is there twice, and only the last one counts", dotted(&path));
        let end = match path.as_slice() {
            ["sandbox", ..] => STRICT,
            ["mcp"] => {
                let servers = doubled.lost.as_object().into_iter().flat_map(Map::keys);
                servers.for_each(|name| self.stop(name, &twice));
                STOPPED
            }
            ["mcp", name] | ["mcp", name, "enabled"] => {
                self.stop(name, &twice);
                STOPPED
            }
            ["agent" | "mode", _, key, ..] if !AGENT.restricting.contains(key) => "",
            [first, rest @ ..] if TOP.restricting.contains(first) => {
                let mut named = rest;
                if let (true, [name, of_agent @ ..]) = (["agent", "mode"].contains(first), rest) {
                    self.agent = Some(self.agent_meant(name).unwrap_or(name).to_owned());
                    named = of_agent.get(1..).unwrap_or_default();
                }
                // What is lost may be no more than an action, and the keys say what for.
                let lost = named.iter().rev().fold(doubled.lost.clone(), |value, key| json!({*key: value}));
                self.be_careful(names_in(&lost));
                self.agent = None;
                ASKED
            }
            _ => "",
        };
        self.note_at(&path, Some(doubled.at), format!("{twice}{end}"));
    }

    /// Keeps a server from being started.
    fn stop(&mut self, name: &str, why: &str) {
        self.report.stopped.insert(name.to_owned(), format!("{why}{STOPPED}"));
    }

    /// Looks at a key that has no meaning of its own here.
    fn look_at_key(&mut self, level: &KeyLevel, path: &[&str], value: &Value) {
        let key = path.last().copied().unwrap_or_default();
        let Some(unknown) = level.unknown(key, value) else {
            // Levels below were looked at with the one above them.
            if !level.restricting.is_empty() {
                self.look_for_rules(path, value);
            }
            return;
        };
        let hint = unknown.nearest.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        let what = format!("there is no such setting{hint}");
        if let ["mcp", server, _] = path
            && may_switch_off(key, &unknown, value)
        {
            let what = format!("`{}` has no effect: {what}", dotted(path));
            self.stop(server, &what);
            return self.note(path, format!("{what}{STOPPED}"));
        }
        // What only allows was meant to forbid here, by its name.
        let names = || if only_allows(value) { everything() } else { names_in(value) };
        self.note_idle(path, &what, unknown.may_restrict.then(names));
    }

    fn look_at_agents(&mut self, table: &str, value: &Value) {
        let Some(agents) = value.as_object() else {
            return self.note_idle(&[table], "it must have an object for each agent", Some(everything()));
        };
        for (name, agent) in agents {
            let path = [table, name.as_str()];
            if self.stands_for_all(name) && !only_allows(agent) {
                let what =
                    "no agent is called so: rules for all of them are `permission` at the top of a file";
                self.note_idle(&path, what, Some(names_in(agent)));
                continue;
            }
            self.agent = Some(self.agent_meant(name).unwrap_or(name).to_owned());
            self.look_at_agent(&path, agent);
            if let Some(meant) = self.agent_meant(name) {
                let what = format!("there is no agent `{}`: did you mean `{meant}`?", shown(name));
                let restricts = (!only_allows(agent)).then(|| names_in(agent));
                self.note_idle(&path, &what, restricts);
            }
            self.agent = None;
        }
    }

    /// Whether a name of which nobody says what it is was meant to be that of several agents.
    fn stands_for_all(&self, name: &str) -> bool {
        let is_several = name.contains(['*', '?', ',']) || ALL_AGENTS.contains(&plain(name).as_str());
        is_several && !self.context.agents.contains(name)
    }

    /// The built-in agent that was meant by a name of which nobody says what it is.
    fn agent_meant(&self, name: &str) -> Option<&'static str> {
        let is_known = BUILTIN_AGENTS.contains(&name) || self.context.agents.contains(name);
        let word = plain(name);
        (!is_known).then(|| BUILTIN_AGENTS.into_iter().find(|known| is_close(&word, known)))?
    }

    fn look_at_agent(&mut self, path: &[&str], agent: &Value) {
        let Some(fields) = agent.as_object() else {
            return self.note_idle(path, "it must be an object", Some(everything()));
        };
        for (key, value) in fields {
            let path = [path, &[key.as_str()]].concat();
            match key.as_str() {
                "permission" => self.look_at_permissions(&path, value),
                "tools" => self.look_at_tools(&path, value),
                _ => self.look_at_key(&AGENT, &path, value),
            }
            if let Some(what) = agent_definition::mistake(key, value) {
                // Who is not to be there was meant to do nothing.
                self.note_idle(&path, &what, (key == "disable").then(everything));
            }
        }
    }

    /// Notes that something has no effect, and which permissions it may have been meant to forbid.
    fn note_idle(&mut self, path: &[&str], what: &str, restricts: Option<BTreeSet<String>>) {
        let end = if restricts.is_some() { ASKED } else { "" };
        self.note(path, format!("`{}` has no effect: {what}{end}", dotted(path)));
        if let Some(names) = restricts {
            self.be_careful(names);
        }
    }

    fn note(&mut self, path: &[&str], what: String) {
        self.note_at(path, None, what);
    }

    fn note_at(&mut self, path: &[&str], at: Option<usize>, what: String) {
        let is_noted = at.is_none() && self.report.notes.iter().any(|note| note.path == path);
        if self.report.notes.len() < MOST && !is_noted {
            let path = path.iter().map(|key| (*key).to_owned()).collect();
            self.report.notes.push(UnheededKey { path, at, what });
        }
    }

    fn be_careful(&mut self, names: BTreeSet<String>) {
        self.report.cautions.add(self.agent.clone(), names);
    }
}

fn dotted(path: &[&str]) -> String {
    path.iter().map(|key| shown(key)).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::misspelling::{NAMES, prefixes};

    fn report(value: &Value) -> UnheededReport {
        let servers = ["docs".to_owned()];
        let values = value.as_object().unwrap();
        let agents = own_agents(values).collect();
        let context =
            UnheededContext { prefixes: prefixes(servers.iter()), agents, home: Path::new("/srv/me") };
        find(values, &[], &context)
    }

    fn check(value: &Value, expected: &[&str], cautions: &[(Option<&str>, &[&str])]) {
        let report = report(value);
        let notes: Vec<&str> = report.notes.iter().map(|note| note.what.as_str()).collect();
        assert_eq!(notes, expected, "{value}");
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let cautions = cautions.iter().map(|(agent, names)| (agent.map(str::to_owned), owned(names)));
        assert_eq!(report.cautions, Cautions(cautions.collect()), "{value}");
    }

    #[test]
    fn an_ordinary_configuration_has_none() {
        let everything: Map = NAMES.into_iter().map(|name| (name.to_owned(), json!("ask"))).collect();
        for permission in [
            json!("ask"),
            Value::Object(everything),
            json!({"*": "ask", "bash": {"*": "ask", "git *": "allow", "rm *": "deny"}, "edit": "deny"}),
            json!({"docs_read": "deny", "github_create_issue": "ask", "deploy": "ask", "mymcp_*": "deny"}),
        ] {
            let tools =
                json!({"write": false, "patch": false, "bash": true, "mymcp*": false, "network": false});
            let agent = json!({"permission": permission, "tools": tools, "mode": "subagent", "reasoningEffort": "high",
                "disable": false, "maxSteps": 3, "top_p": 0.5, "color": "#ff0000"});
            let mut whole: Map = TOP.keys.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
            whole.insert("permission".to_owned(), permission.clone());
            whole.insert(
                "agent".to_owned(),
                json!({"review": agent, "builder": {"prompt": "Build."}, "summary": {}}),
            );
            whole.insert("mode".to_owned(), json!({"build": agent, "plans": {"description": "mine"}}));
            whole.insert(
                "mcp".to_owned(),
                json!({"docs": {"type": "remote", "url": "http://x", "oauth": false}}),
            );
            check(&Value::Object(whole), &[], &[]);
        }
    }

    #[test]
    fn unknown_keys_are_named_at_every_level() {
        let there_is = "has no effect: there is no such setting";
        check(
            &json!({"modle": "x/y", "fancy": 1, "mcp": {"docs": {"enabeld": false}}, "skills": {"path": []}}),
            &[
                &format!("`modle` {there_is}: did you mean `model`?"),
                &format!("`fancy` {there_is}"),
                &format!("`mcp.docs.enabeld` {there_is}: did you mean `enabled`?{STOPPED}"),
                &format!("`skills.path` {there_is}: did you mean `paths`?"),
            ],
            &[],
        );
        check(
            &json!({"permissions": {"read": "deny", "edit": "allow", "Bash(rm *)": "deny"}}),
            &[&format!("`permissions` {there_is}: did you mean `permission`?{ASKED}")],
            &[(None, &["bash", "read"])],
        );
        check(
            &json!({"agent": {"review": {"prompt": "x", "tool": {"write": false}}}}),
            &[&format!("`agent.review.tool` {there_is}: did you mean `tools`?{ASKED}")],
            &[(Some("review"), &["edit"])],
        );
    }

    #[test]
    fn a_misspelt_agent_is_the_one_that_was_meant() {
        let meant = "`agent.Buidl` has no effect: there is no agent `Buidl`: did you mean `build`?";
        let name = json!({"agent": {"Buidl": {"permission": {"read": "deny"}}}});
        check(&name, &[&format!("{meant}{ASKED}")], &[(Some("build"), &["read"])]);
        check(&json!({"agent": {"Buidl": {"permission": {"read": "allow"}}}}), &[meant], &[]);
        check(&json!({"agent": {"Buidl": {"permission": {"read": "deny"}, "prompt": "Mine."}}}), &[], &[]);
        check(&json!({"agent": {"deploy": {"tools": {"bash": false}}}}), &[], &[]);
    }

    #[test]
    fn values_of_the_wrong_kind_are_named() {
        let tool = "until it is mended the tool is off, and more is asked";
        check(
            &json!({"tools": {"bash": "false", "outside_sandbox": true}}),
            &[
                &format!("`tools.bash` must be `true` or `false`, not `\"false\"`: {tool}"),
                "`tools.outside_sandbox` has no effect: it is no tool, and only `permission` allows it",
            ],
            &[(None, &[])],
        );
        let each = "has no effect: it must say `true` or `false` for each tool";
        check(&json!({"tools": ["Read"]}), &[&format!("`tools` {each}{ASKED}")], &[(None, &["read"])]);
        let none = "is none of `allow`, `ask` and `deny`";
        check(
            &json!({"agent": {"plan": {"permission": {"read": {"*.key": false}}, "disable": "yes"}}}),
            &[
                &format!("`agent.plan.permission.read.*.key` has no effect: `false` {none}{ASKED}"),
                &format!("`agent.plan.disable` has no effect: it is `true` or `false`, not `\"yes\"`{ASKED}"),
            ],
            &[(Some("plan"), &["*"])],
        );
    }

    #[test]
    fn no_endless_list_comes_of_it() {
        // Ten misspelt rules that allow hid the one that denies.
        let mut rules: Map = (0..5000).map(|at| (format!("Bash({at})"), json!("allow"))).collect();
        rules.extend((0..5000).map(|at| (format!("tool{at}"), json!("x".repeat(1000)))));
        let report = report(&json!({"permission": rules}));
        assert_eq!((report.notes.len(), report.cautions), (MOST, Cautions([(None, everything())].into())));
        assert!(report.notes.iter().all(|note| note.what.len() < 300));
    }
}
