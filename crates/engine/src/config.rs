//! What is configured: models, permissions, agents, in the shape of OpenCode's configuration file.
//!
//! Reading files and the environment is the binary's work; here a merged value becomes typed settings. Unknown keys
//! are kept in `raw`, so that a client that asks for the configuration sees what the person wrote.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use everturn_llm::Catalogue;
use everturn_llm::catalogue::OverlayError;
use everturn_model::Map;
use everturn_model::permission::{Action, Rule};
use everturn_tools::bound::OutputLimits;
use everturn_tools::websearch;
use serde_json::Value;

use crate::mcp;

/// What of a merged configuration came with a project, and was not written by this person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectSettings {
    /// MCP servers that it names or changes.
    pub servers: BTreeSet<String>,
    /// Whether the list of further `instructions` is its own.
    pub instructions: bool,
    /// Whether the list of further folders of skills is its own.
    pub skills: bool,
}

/// The settings of a server.
#[derive(Clone, PartialEq)]
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
    pub permission: Vec<Rule>,
    /// Whether the files are recorded before and after each turn.
    pub snapshot: bool,
    /// The largest text of a tool that goes to the model whole.
    pub tool_output: OutputLimits,
    /// MCP servers.
    pub mcp: mcp::ConfiguredServers,
    /// What of it came with the project.
    pub from_project: ProjectSettings,
    /// Variables of the environment that it puts where keys are.
    pub key_variables: BTreeSet<String>,
    catalogue: OnceLock<Catalogue>,
}

impl fmt::Debug for Config {
    /// What was written is left out: there are keys in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("model", &self.model)
            .field("small_model", &self.small_model)
            .field("default_agent", &self.default_agent)
            .field("permission", &self.permission)
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
    /// Settings from a merged configuration.
    ///
    /// # Errors
    /// When what it says of providers and models is of the wrong kind.
    pub fn from_value(raw: Map) -> Result<Self, OverlayError> {
        // Merged into an empty table, which finds the same mistakes and takes no time: most commands never look at the
        // table.
        Catalogue::default().overlaid(&raw)?;
        Ok(Self::read(raw))
    }

    fn read(raw: Map) -> Self {
        let text = |key: &str| {
            raw.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            model: text("model"),
            small_model: text("small_model"),
            default_agent: text("default_agent"),
            permission: raw.get("permission").map(rules).unwrap_or_default(),
            snapshot: raw.get("snapshot").and_then(Value::as_bool).unwrap_or(true),
            tool_output: raw.get("tool_output").map(limits).unwrap_or_default(),
            mcp: raw.get("mcp").map(mcp::ConfiguredServers::read).unwrap_or_default(),
            from_project: ProjectSettings::default(),
            key_variables: BTreeSet::new(),
            catalogue: OnceLock::new(),
            raw,
        }
    }

    /// The environment variables that hold keys, which no program that a tool or a server starts gets to see: those of
    /// all providers, even of those that the configuration leaves out, of the services that tools use, and those that
    /// the configuration itself takes keys from.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let providers = [Catalogue::builtin(), self.catalogue()].into_iter().flat_map(Catalogue::providers);
        let mut names: BTreeSet<&str> = providers.flat_map(|provider| provider.key_variables()).collect();
        names.extend(self.key_variables.iter().map(String::as_str));
        names.insert(websearch::EXA_KEY);
        names.into_iter().map(str::to_owned).collect()
    }

    /// Notes what of it came with the project at `root`.
    #[must_use]
    pub fn with_project_settings(mut self, from_project: ProjectSettings, root: &Path) -> Self {
        self.mcp = self.mcp.with_project_servers(from_project.servers.clone(), root);
        self.from_project = from_project;
        self
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
            config.permission,
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
