//! Random files of configuration in every form that is read, and the rules that they mean.

use std::fmt::Write as _;

use everturn_model::permission::{Action, Rule};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The agents that files speak of: built-in ones, and two that are not.
pub(super) const AGENTS: [&str; 6] = ["build", "plan", "explore", "general", "mine", "theirs"];

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileForm {
    Json,
    /// JSON with comments and commas at the end.
    Commented,
    Toml,
    /// One agent, with its settings above the text.
    Markdown,
}

/// The rules that one `permission` says.
#[derive(Debug, Clone)]
enum RuleTable {
    Whole(Action),
    Named(Vec<(String, RuleLine)>),
}

#[derive(Debug, Clone)]
enum RuleLine {
    One(Action),
    Each(Vec<(String, Action)>),
}

/// What one file says of an agent.
#[derive(Debug, Clone)]
struct AgentText {
    name: &'static str,
    tools: Vec<(String, bool)>,
    permission: Option<RuleTable>,
    disable: Option<bool>,
    mode: Option<&'static str>,
}

/// What one file says.
#[derive(Debug, Clone)]
pub(super) struct ConfigFile {
    permission: Option<RuleTable>,
    agents: Vec<AgentText>,
    others: Map<String, Value>,
}

fn action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny])
}

fn permission() -> impl Strategy<Value = String> {
    let names = [
        "bash",
        "edit",
        "read",
        "webfetch",
        "external_directory",
        "task",
        "outside_sandbox",
        "network",
        "protected_file",
        "local_network",
        "secret_file",
        "*",
        "bas?",
        "b*",
        "BASH",
        "Bash",
        "?dit",
        "e*",
        "*_*",
        "docs_*",
        "**",
        "question",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn pattern() -> impl Strategy<Value = String> {
    let patterns = [
        "*",
        "git *",
        "git status",
        "git push *",
        "GIT *",
        "rm *",
        "*.env",
        "src/*",
        "src\\*",
        "a*",
        "ab*",
        "?b",
        "x",
        "**",
        "* status",
        "/srv/keys/*",
        "/srv/*",
        "",
    ];
    prop::sample::select(patterns.to_vec()).prop_map(str::to_owned)
}

/// Without a name that comes twice: what a file means then is the parser's affair.
fn unique<T>(pairs: Vec<(String, T)>) -> Vec<(String, T)> {
    let mut found: Vec<(String, T)> = Vec::new();
    for pair in pairs {
        if found.iter().all(|known| known.0 != pair.0) {
            found.push(pair);
        }
    }
    found
}

fn table() -> impl Strategy<Value = RuleTable> {
    let each = prop::collection::vec((pattern(), action()), 1..4).prop_map(unique).prop_map(RuleLine::Each);
    let line = prop_oneof![action().prop_map(RuleLine::One), each];
    let named = prop::collection::vec((permission(), line), 0..4).prop_map(unique).prop_map(RuleTable::Named);
    prop_oneof![1 => action().prop_map(RuleTable::Whole), 9 => named]
}

fn agent() -> impl Strategy<Value = AgentText> {
    let tool = prop::sample::select(vec!["bash", "write", "patch", "edit", "webfetch", "*", "b*"]);
    let tools = prop::collection::vec((tool.prop_map(str::to_owned), any::<bool>()), 0..3).prop_map(unique);
    let mode = prop::option::of(prop::sample::select(vec!["primary", "subagent", "all"]));
    let rare = prop::option::weighted(0.2, any::<bool>());
    let name = prop::sample::select(AGENTS.to_vec());
    (name, tools, prop::option::of(table()), rare, mode).prop_map(
        |(name, tools, permission, disable, mode)| AgentText { name, tools, permission, disable, mode },
    )
}

/// Settings that would let more happen, or say something else.
fn others() -> impl Strategy<Value = Map<String, Value>> {
    let settings = [
        json!({"model": "theirs/large"}),
        json!({"small_model": "scripted/./play.json"}),
        json!({"default_agent": "theirs"}),
        json!({"snapshot": false}),
        json!({"tool_output": {"max_lines": 1}}),
        json!({"mcp": {"tools": {"type": "local", "command": ["sh"]}, "mine": {"enabled": true}}}),
        json!({"provider": {"fake": {"options": {"baseURL": "http://127.0.0.1:9", "apiKey": "{env:KEY}"}}}}),
        json!({"websearch": {"provider": "searxng", "url": "http://127.0.0.1:9"}}),
        json!({"sandbox": "off"}),
        json!({"sandbox": {"readable": ["/srv/keys"], "writable": ["/srv"]}}),
        json!({"sandbox": {"mode": "workspace", "readable": ["/srv/keys/a", "/srv/docs"]}}),
        json!({"trash": {"keep": "0d"}}),
        json!({"theme": "dark"}),
    ];
    let chosen = prop::collection::vec(prop::sample::select(settings.to_vec()), 0..3);
    chosen.prop_map(|chosen| chosen.iter().filter_map(Value::as_object).flatten().map(own).collect())
}

fn own((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// A file of settings.
pub(super) fn config_file() -> impl Strategy<Value = ConfigFile> {
    let agents = prop::collection::vec(agent(), 0..3);
    (prop::option::of(table()), agents, others()).prop_map(|(permission, agents, others)| {
        let mut named: Vec<AgentText> = Vec::new();
        for agent in agents {
            if named.iter().all(|known| known.name != agent.name) {
                named.push(agent);
            }
        }
        ConfigFile { permission, agents: named, others }
    })
}

/// A file of one agent.
pub(super) fn markdown() -> impl Strategy<Value = ConfigFile> {
    agent().prop_map(|agent| ConfigFile { permission: None, agents: vec![agent], others: Map::new() })
}

/// Plain rules, as a session has them.
pub(super) fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (permission(), pattern(), action()).prop_map(|(p, w, a)| Rule::new(&p, &w, a));
    prop::collection::vec(rule, 0..4)
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

impl RuleTable {
    fn rules(&self) -> Vec<Rule> {
        let lines = match self {
            Self::Whole(action) => return vec![Rule::new("*", "*", *action)],
            Self::Named(lines) => lines,
        };
        let of_line = |(permission, line): &(String, RuleLine)| match line {
            RuleLine::One(action) => vec![Rule::new(permission, "*", *action)],
            RuleLine::Each(each) => {
                each.iter().map(|(pattern, action)| Rule::new(permission, pattern, *action)).collect()
            }
        };
        lines.iter().flat_map(of_line).collect()
    }

    fn value(&self) -> Value {
        let lines = match self {
            Self::Whole(action) => return word(*action).into(),
            Self::Named(lines) => lines,
        };
        let of_line = |line: &RuleLine| match line {
            RuleLine::One(action) => Value::from(word(*action)),
            RuleLine::Each(each) => each
                .iter()
                .map(|(pattern, action)| (pattern.clone(), word(*action).into()))
                .collect::<Map<_, _>>()
                .into(),
        };
        lines.iter().map(|(name, line)| (name.clone(), of_line(line))).collect::<Map<_, _>>().into()
    }
}

impl AgentText {
    fn rules(&self) -> Vec<Rule> {
        let of_tools = self.tools.iter().map(|(tool, on)| {
            let permission = if ["write", "patch"].contains(&tool.as_str()) { "edit" } else { tool.as_str() };
            Rule::new(permission, "*", if *on { Action::Allow } else { Action::Deny })
        });
        of_tools.chain(self.permission.iter().flat_map(RuleTable::rules)).collect()
    }

    fn value(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if !self.tools.is_empty() {
            let tools: Map<_, _> = self.tools.iter().map(|(tool, on)| (tool.clone(), (*on).into())).collect();
            fields.insert("tools".to_owned(), tools.into());
        }
        fields.extend(self.permission.as_ref().map(|table| ("permission".to_owned(), table.value())));
        fields.extend(self.disable.map(|disable| ("disable".to_owned(), disable.into())));
        fields.extend(self.mode.map(|mode| ("mode".to_owned(), mode.into())));
        fields
    }
}

impl ConfigFile {
    /// The agent that it is named after.
    pub(super) fn name(&self) -> &str {
        self.agents.first().map_or("none", |agent| agent.name)
    }

    /// What it says for all agents.
    pub(super) fn rules(&self) -> Vec<Rule> {
        self.permission.iter().flat_map(RuleTable::rules).collect()
    }

    /// What it says for one agent.
    pub(super) fn rules_of(&self, name: &str) -> Vec<Rule> {
        self.agents.iter().filter(|agent| agent.name == name).flat_map(AgentText::rules).collect()
    }

    /// Whether there shall be no such agent, if it says so.
    pub(super) fn disables(&self, name: &str) -> Option<bool> {
        self.agents.iter().find(|agent| agent.name == name)?.disable
    }

    /// Whether it says something of the sandbox.
    pub(super) fn has_sandbox(&self) -> bool {
        self.others.contains_key("sandbox")
    }

    fn value(&self) -> Map<String, Value> {
        let mut value = self.others.clone();
        value.extend(self.permission.as_ref().map(|table| ("permission".to_owned(), table.value())));
        let agents: Map<_, _> =
            self.agents.iter().map(|agent| (agent.name.to_owned(), agent.value().into())).collect();
        if !agents.is_empty() {
            value.insert("agent".to_owned(), agents.into());
        }
        value
    }

    /// The file itself.
    pub(super) fn text(&self, form: FileForm) -> String {
        match form {
            FileForm::Json => Value::Object(self.value()).to_string(),
            FileForm::Commented => {
                let plain = format!("{:#}", Value::Object(self.value()));
                format!(
                    "// mine\n{}\n/* \"permission\": \"allow\" */\n",
                    plain.replace("\"\n", "\", // so\n")
                )
            }
            FileForm::Toml => toml(&self.value()),
            FileForm::Markdown => {
                let fields = self.agents.first().map(AgentText::value).unwrap_or_default();
                format!("---\n{}---\nDo it well.\n", yaml(&fields, 0))
            }
        }
    }
}

/// Tables of tables have a heading each; what is mixed is written in one line, so that the order stays.
fn toml(values: &Map<String, Value>) -> String {
    fn inline(value: &Value) -> String {
        match value {
            Value::Object(map) => {
                let pairs: Vec<String> =
                    map.iter().map(|(key, value)| format!("{} = {}", json!(key), inline(value))).collect();
                format!("{{ {} }}", pairs.join(", "))
            }
            Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
            plain => plain.to_string(),
        }
    }
    let (mut lines, mut tables) = (String::new(), String::new());
    for (key, value) in values {
        match value.as_object().filter(|map| !map.is_empty() && map.values().all(Value::is_object)) {
            Some(map) => {
                for (name, inner) in map {
                    let _ = writeln!(tables, "[{}.{}]", json!(key), json!(name));
                    for (key, value) in inner.as_object().into_iter().flatten() {
                        let _ = writeln!(tables, "{} = {}", json!(key), inline(value));
                    }
                }
            }
            None => {
                let _ = writeln!(lines, "{} = {}", json!(key), inline(value));
            }
        }
    }
    lines + &tables
}

fn yaml(values: &Map<String, Value>, depth: usize) -> String {
    let mut text = String::new();
    for (key, value) in values {
        let _ = write!(text, "{:depth$}{}:", "", json!(key));
        match value.as_object().filter(|map| !map.is_empty()) {
            Some(map) => {
                let _ = write!(text, "\n{}", yaml(map, depth + 2));
            }
            None => {
                let _ = writeln!(text, " {value}");
            }
        }
    }
    text
}
