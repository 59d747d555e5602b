//! What is configured in one place: models, permissions, agents, servers, in the shape of OpenCode's configuration file.
//!
//! Configuration belongs to a folder. `discovery` finds and reads what counts there, takes apart what a project says
//! (`project`) by what the person trusts (`trust`), and the merged value becomes typed settings here. Keys without a
//! meaning are kept in `raw`, so that a client that asks for the configuration sees what the person wrote.
//!
//! # Layout
//! - `agent_definition`: what is configured of an agent
//! - `budget`: what may be used up before a person is asked
//! - `caution`: what is asked for where something may have been forbidden
//! - `command_definition`: what is configured of a slash command
//! - `compaction_settings`: when a conversation is summed up
//! - `discovery`: from a folder to its configuration
//! - `doubled_key`: keys that are there twice
//! - `held_item`: what a project asks for, as a person is shown it
//! - `key_place`: where a key stands in the text of a file
//! - `known_keys`: the keys that there are, and what a misspelt one was meant to be
//! - `layer`: one file as values, and how several become one
//! - `markdown`: agents and commands in Markdown
//! - `misspelling`: words in rules that mean nothing here, and what they were meant to be
//! - `named_files`: files of a project that its own configuration names
//! - `placeholders`: `{env:NAME}` and `{file:path}`
//! - `problem`: what is wrong with a configuration
//! - `project`: what a project may say before it is trusted
//! - `rules`: permission rules as they are written, and whose they are
//! - `sandbox_choice`: how far programs are confined
//! - `sandbox_limits`: what a trusted project may not open
//! - `sources`: where configuration comes from
//! - `trash_lifetime`: how long the trash is kept
//! - `trust`: what of a project's configuration a person trusts
//! - `turn_limits`: how long a turn may take
//! - `unheeded`: what a file says without any effect

mod agent_definition;
mod budget;
mod caution;
mod command_definition;
mod compaction_settings;
mod discovery;
mod doubled_key;
mod held_item;
mod key_place;
mod known_keys;
mod layer;
mod markdown;
mod misspelling;
mod named_files;
mod placeholders;
mod problem;
mod project;
mod rules;
mod sandbox_choice;
mod sandbox_limits;
mod sources;
mod trash_lifetime;
mod trust;
mod turn_limits;
mod unheeded;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use everturn_llm::Catalogue;
use everturn_llm::catalogue::OverlayError;
use everturn_model::Map;
use everturn_tools::bound::OutputLimits;
use everturn_tools::places::{ConfigOrigin, NamedPath};
use everturn_tools::registry::ToolRegistration;
use everturn_tools::task::TaskTool;
use everturn_tools::websearch::{self, WebsearchTool};
use everturn_tools::{Registry, Tool};
use serde_json::Value;

use agent_definition::fold_modes;
pub use agent_definition::{AgentDefinition, AgentRole};
pub use budget::{Budget, Budgets};
pub use command_definition::CommandDefinition;
use command_definition::read_commands;
pub use compaction_settings::CompactionSettings;
pub(crate) use discovery::{FoundConfig, find};
pub use held_item::{HeldContent, HeldItem};
pub use problem::ConfigProblem;
use rules::fold_tools;
pub use rules::{ConfiguredRules, rules};
pub use sandbox_choice::{SandboxChoice, SandboxPlaces, SandboxStrength};
pub use sources::{ConfigSources, VariableLookup};
pub use trash_lifetime::span;
pub use trust::Trust;
pub use turn_limits::TurnLimits;

use sandbox_choice::SandboxWish;

use crate::agents::{self, Agents};
use crate::mcp;

/// How many things that wait for trust are named in one line.
const NAMED_AT_ONCE: usize = 20;

/// The settings of a place.
#[derive(Clone)]
pub struct Config {
    /// The merged configuration as it was written.
    pub raw: Map,
    /// The name of the model for sessions that choose none.
    pub model: Option<String>,
    /// The name of the model for small work such as titles.
    pub small_model: Option<String>,
    /// The agent for sessions that choose none.
    pub default_agent: Option<String>,
    /// Permission rules, after the agents' own.
    pub rules: ConfiguredRules,
    /// What is configured of agents, by name.
    pub agents: BTreeMap<String, AgentDefinition>,
    /// Slash commands, by name.
    pub commands: BTreeMap<String, CommandDefinition>,
    /// Whether the files are recorded before and after each turn.
    pub snapshot: bool,
    /// The largest text of a tool that goes to the model whole.
    pub tool_output: OutputLimits,
    /// What may be used up before a person is asked.
    pub budgets: Budgets,
    /// When a conversation is summed up, and what of it is kept.
    pub compaction: CompactionSettings,
    /// How long a turn may take.
    pub limits: TurnLimits,
    /// How far programs are confined.
    pub sandbox: SandboxChoice,
    /// MCP servers.
    pub mcp: mcp::ConfiguredServers,
    /// Further files of instructions.
    pub instructions: Vec<NamedPath>,
    /// Further folders of skills.
    pub skills: Vec<NamedPath>,
    /// The service that searches the web.
    pub websearch: Option<websearch::SearchService>,
    /// VariableLookup of the environment that it puts where keys are.
    pub key_variables: BTreeSet<String>,
    /// The root of the project that has a say in it.
    pub root: PathBuf,
    /// What the project asks for and nobody has trusted, by name: as it was written, with what is in the project's own
    /// files that it names.
    pub held: BTreeMap<String, Value>,
    /// What is wrong with it.
    pub problems: Vec<ConfigProblem>,
    /// The data folder, where agents look for output of tools.
    pub(crate) data: PathBuf,
    catalogue: OnceLock<Catalogue>,
    known_agents: OnceLock<Agents>,
}

impl fmt::Debug for Config {
    /// What was written is left out: there are keys in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("model", &self.model)
            .field("small_model", &self.small_model)
            .field("default_agent", &self.default_agent)
            .field("rules", &self.rules)
            .field("snapshot", &self.snapshot)
            .field("tool_output", &self.tool_output)
            .finish_non_exhaustive()
    }
}

impl Default for Config {
    /// Nothing is configured.
    fn default() -> Self {
        Self::read(Map::new())
    }
}

impl Config {
    /// Settings from a configuration that is the person's own.
    ///
    /// # Errors
    /// When what it says of providers and models is of the wrong kind.
    pub fn from_value(mut raw: Map) -> Result<Self, OverlayError> {
        check_providers(&raw)?;
        fold_modes(&mut raw);
        fold_tools(&mut raw);
        let mut config = Self::read(raw);
        config.rules.person = config.raw.get("permission").map(rules).unwrap_or_default();
        for (name, value) in config.raw.get("agent").and_then(Value::as_object).into_iter().flatten() {
            let mut definition = AgentDefinition::default();
            definition.refine(value);
            definition.rules.person = agent_definition::rules_in(value);
            config.agents.insert(name.clone(), definition);
        }
        let (wish, _) = SandboxWish::read(config.raw.get("sandbox"), Path::new(""));
        config.sandbox = SandboxWish::settle(wish, SandboxWish::default());
        let list = |value: Option<&Value>| named_paths(value, ConfigOrigin::Person);
        config.instructions = list(config.raw.get("instructions"));
        config.skills = list(config.raw.get("skills").and_then(|skills| skills.get("paths")));
        Ok(config)
    }

    fn read(raw: Map) -> Self {
        let text = |key: &str| {
            raw.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            model: text("model"),
            small_model: text("small_model"),
            default_agent: text("default_agent"),
            rules: ConfiguredRules::default(),
            agents: BTreeMap::new(),
            commands: raw.get("command").map(read_commands).unwrap_or_default(),
            snapshot: raw.get("snapshot").and_then(Value::as_bool).unwrap_or(true),
            tool_output: raw.get("tool_output").map(limits).unwrap_or_default(),
            budgets: Budgets::read(raw.get("budget")).0,
            compaction: raw.get("compaction").map(|it| CompactionSettings::read(it).0).unwrap_or_default(),
            limits: raw.get("limits").map(|limits| TurnLimits::read(limits).0).unwrap_or_default(),
            sandbox: SandboxChoice::default(),
            mcp: raw.get("mcp").map(mcp::ConfiguredServers::read).unwrap_or_default(),
            instructions: Vec::new(),
            skills: Vec::new(),
            websearch: None,
            key_variables: BTreeSet::new(),
            root: PathBuf::new(),
            held: BTreeMap::new(),
            problems: Vec::new(),
            data: PathBuf::new(),
            catalogue: OnceLock::new(),
            known_agents: OnceLock::new(),
            raw,
        }
    }

    /// The names of what the project asks for and nobody has trusted, but no endless list of them.
    #[must_use]
    pub fn held_names(&self) -> String {
        let names: Vec<&str> = self.held.keys().take(NAMED_AT_ONCE).map(String::as_str).collect();
        match self.held.len().saturating_sub(NAMED_AT_ONCE) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// The environment variables that hold keys, which no program that a tool or a server starts gets to see: those of
    /// all providers, even of those that the configuration leaves out, of the services that tools use, and those that
    /// the configuration itself takes keys from.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let providers = [Catalogue::builtin(), self.catalogue()].into_iter().flat_map(Catalogue::providers);
        let mut names: BTreeSet<&str> = providers.flat_map(|provider| provider.secret_variables()).collect();
        names.extend(self.key_variables.iter().map(String::as_str));
        names.insert(websearch::EXA_KEY);
        names.into_iter().map(str::to_owned).collect()
    }

    /// The providers and models that there are: the embedded table with the configuration laid over it.
    pub fn catalogue(&self) -> &Catalogue {
        self.catalogue.get_or_init(|| {
            Catalogue::builtin().overlaid(&self.raw).unwrap_or_else(|error| {
                tracing::error!(%error, "the configuration of providers is not used");
                Catalogue::builtin().clone()
            })
        })
    }

    /// The tools that depend on what is configured, over those that do not: the one that gives work to other agents
    /// lists these agents, and the one that searches the web is there if a service is.
    #[must_use]
    pub fn tools_over(&self, tools: &Registry) -> Registry {
        let mut own: Vec<Arc<dyn Tool>> = Vec::new();
        if tools.get("task").is_some() {
            own.push(Arc::new(TaskTool::new(&agents::delegates(self.agents().all()))));
        }
        if let Some(service) = &self.websearch {
            own.push(Arc::new(WebsearchTool::new(service.clone())));
        }
        let tools = tools.layer();
        // Both have names that every registry takes.
        own.into_iter().filter_map(|tool| tools.register(tool).ok()).for_each(ToolRegistration::keep);
        tools
    }

    /// Who acts here, under which rules.
    pub fn agents(&self) -> &Agents {
        self.known_agents.get_or_init(|| Agents::of(self))
    }
}

/// What is wrong with the name of a permission, if no tool can be meant by it or another one was.
#[must_use]
pub fn misspelt_permission(name: &str) -> Option<String> {
    misspelling::wrong_name(name, &BTreeSet::new()).map(|wrong| wrong.what)
}

/// Ensures that what a configuration says of providers and models can be used.
fn check_providers(raw: &Map) -> Result<(), OverlayError> {
    // Merged into an empty table, which finds the same mistakes and takes no time: most commands never look at the
    // table.
    Catalogue::default().overlaid(raw).map(drop)
}

/// The paths and patterns of a list.
fn named_paths(list: Option<&Value>, by: ConfigOrigin) -> Vec<NamedPath> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(|text| NamedPath::new(text, by)).collect()
}

/// Limits from a configuration: `{"max_lines": 500, "max_bytes": 20000}`. What is left out, or is no positive number,
/// keeps its default.
fn limits(value: &Value) -> OutputLimits {
    let number = |key: &str| {
        let number = value.get(key)?.as_u64().filter(|number| *number > 0)?;
        usize::try_from(number).ok()
    };
    let usual = OutputLimits::default();
    OutputLimits {
        lines: number("max_lines").unwrap_or(usual.lines),
        bytes: number("max_bytes").unwrap_or(usual.bytes),
    }
}

#[cfg(test)]
mod tests {
    use everturn_model::permission::{Action, Rule};
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_models_and_rules() {
        let raw = json!({
            "model": "fake/fake-1",
            "enabled_providers": ["fake"],
            "permission": {"bash": {"*": "ask", "git *": "allow"}, "edit": "deny"},
            "provider": {
                "fake": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://x/v1"},
                    "models": {"fake-1": {"limit": {"context": 200_000, "output": 8000}}}},
                "other": {},
            },
        });
        let config = Config::from_value(raw.as_object().cloned().unwrap()).unwrap();
        assert_eq!(config.model.as_deref(), Some("fake/fake-1"));
        let known: Vec<_> = config.catalogue().providers().map(|provider| provider.id.as_ref()).collect();
        assert_eq!(known, ["fake"]);
        let (_, model) = config.catalogue().model("fake", "fake-1").unwrap();
        assert_eq!((model.limits.context, model.limits.output), (200_000, 8000));
        assert_eq!(
            config.rules.person,
            [
                Rule::new("bash", "*", Action::Ask),
                Rule::new("bash", "git *", Action::Allow),
                Rule::new("edit", "*", Action::Deny)
            ]
        );
    }

    #[test]
    fn limits_of_tool_output_are_read() {
        let check = |value: Value| limits(&value);
        let usual = OutputLimits::default();
        assert_eq!(check(json!({"max_lines": 5, "max_bytes": 70})), OutputLimits { lines: 5, bytes: 70 });
        assert_eq!(check(json!({"max_lines": 5})), OutputLimits { lines: 5, ..usual });
        assert_eq!(check(json!({"max_lines": 0, "max_bytes": "many"})), usual);
    }

    #[test]
    fn all_programs_are_kept_from_the_same_keys() {
        // Each place had a list of its own: MCP servers were shown the key for searching the web, and those of
        // providers that the configuration leaves out.
        let raw = json!({"enabled_providers": ["fake"], "provider": {"fake": {"env": ["FAKE_KEY"]}}});
        let secrets = Config::from_value(raw.as_object().cloned().unwrap()).unwrap().secrets();
        for name in ["FAKE_KEY", "ANTHROPIC_API_KEY", "EXA_API_KEY"] {
            assert!(secrets.iter().any(|secret| secret == name), "{name}");
        }
    }

    #[test]
    fn a_wrong_kind_is_refused_at_once() {
        let raw = json!({"provider": {"fake": {"models": {"fake-1": {"limit": {"context": "large"}}}}}});
        let error = Config::from_value(raw.as_object().cloned().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`provider.fake.models.fake-1.limit.context` in the configuration must be a whole number, not this text: correct it or remove it"
        );
    }
}
