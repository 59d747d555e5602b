//! What is configured: providers, models, permissions, agents, in the shape of OpenCode's configuration file.
//!
//! Reading files and the environment is the binary's work; here a merged value becomes typed settings. Unknown keys
//! are kept in `raw`, so that a client that asks for the configuration sees what the person wrote.

use std::collections::BTreeMap;

use everturn_model::Map;
use everturn_model::Money;
use everturn_model::permission::{Action, Rule};
use everturn_model::session::ModelRef;
use everturn_model::usage::{Price, Pricing, Tier};
use serde_json::Value;

/// The settings of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The merged configuration as it was written.
    pub raw: Map,
    /// The model for sessions that choose none.
    pub model: Option<ModelRef>,
    /// The model for small work such as titles.
    pub small_model: Option<ModelRef>,
    /// The agent for sessions that choose none.
    pub default_agent: Option<String>,
    /// Providers by id.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Permission rules, after the agents' own.
    pub permission: Vec<Rule>,
    /// Whether the files are recorded before and after each turn.
    pub snapshot: bool,
}

/// A provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderConfig {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The package that OpenCode would use, which names the wire protocol.
    pub npm: String,
    /// Environment variables that may hold its key.
    pub env: Vec<String>,
    /// Its options as written: `baseURL`, `apiKey`, `headers` and others.
    pub options: Map,
    /// Its models by id.
    pub models: BTreeMap<String, ModelConfig>,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfig {
    /// Its id here.
    pub id: String,
    /// Its id on the wire.
    pub wire: String,
    /// Its name for people.
    pub name: String,
    /// The size of its window in tokens.
    pub context: u64,
    /// The most it writes in one turn.
    pub output: u64,
    /// Whether it takes attachments.
    pub attachment: bool,
    /// Whether it reasons.
    pub reasoning: bool,
    /// Whether it calls tools.
    pub tool_call: bool,
    /// Whether its temperature can be set.
    pub temperature: bool,
    /// What it takes in: `text`, `image`, `pdf` …
    pub input: Vec<String>,
    /// What it puts out.
    pub produces: Vec<String>,
    /// What it costs.
    pub pricing: Pricing,
    /// Options merged into each request.
    pub options: Map,
    /// The day it came out.
    pub release_date: String,
}

impl Config {
    /// Settings from a merged configuration.
    #[must_use]
    pub fn from_value(raw: Map) -> Self {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        let enabled: Option<Vec<&str>> = raw
            .get("enabled_providers")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect());
        let disabled: Vec<&str> = raw
            .get("disabled_providers")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut providers = BTreeMap::new();
        for (id, value) in raw.get("provider").and_then(Value::as_object).into_iter().flatten() {
            let wanted = enabled.as_ref().is_none_or(|names| names.contains(&id.as_str()));
            if wanted && !disabled.contains(&id.as_str()) {
                providers.insert(id.clone(), provider(id, value));
            }
        }
        Self {
            model: text("model").and_then(model_ref),
            small_model: text("small_model").and_then(model_ref),
            default_agent: text("default_agent").map(str::to_owned),
            permission: raw.get("permission").map(rules).unwrap_or_default(),
            snapshot: raw.get("snapshot").and_then(Value::as_bool).unwrap_or(true),
            providers,
            raw,
        }
    }
}

/// A model from its `provider/model` name.
#[must_use]
pub fn model_ref(name: &str) -> Option<ModelRef> {
    let (provider, model) = name.split_once('/')?;
    Some(ModelRef { provider: provider.to_owned(), model: model.to_owned(), variant: None })
}

fn provider(id: &str, value: &Value) -> ProviderConfig {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let models = value.get("models").and_then(Value::as_object).into_iter().flatten();
    ProviderConfig {
        id: id.to_owned(),
        name: text("name").unwrap_or(id).to_owned(),
        npm: text("npm").unwrap_or_default().to_owned(),
        env: strings(value.get("env")),
        options: value.get("options").and_then(Value::as_object).cloned().unwrap_or_default(),
        models: models.map(|(id, value)| (id.clone(), model(id, value))).collect(),
    }
}

fn model(id: &str, value: &Value) -> ModelConfig {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let limit =
        |key: &str| value.pointer(&format!("/limit/{key}")).and_then(Value::as_u64).unwrap_or_default();
    let or_text = |list: Vec<String>| if list.is_empty() { vec!["text".to_owned()] } else { list };
    ModelConfig {
        id: id.to_owned(),
        wire: text("id").unwrap_or(id).to_owned(),
        name: text("name").unwrap_or(id).to_owned(),
        context: limit("context"),
        output: limit("output"),
        attachment: flag("attachment").unwrap_or(false),
        reasoning: flag("reasoning").unwrap_or(false),
        tool_call: flag("tool_call").unwrap_or(true),
        temperature: flag("temperature").unwrap_or(false),
        input: or_text(strings(value.pointer("/modalities/input"))),
        produces: or_text(strings(value.pointer("/modalities/output"))),
        pricing: value.get("cost").map(pricing).unwrap_or_default(),
        options: value.get("options").and_then(Value::as_object).cloned().unwrap_or_default(),
        release_date: text("release_date").unwrap_or_default().to_owned(),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pricing(value: &Value) -> Pricing {
    let mut tiers = Vec::new();
    if let Some(over) = value.get("context_over_200k") {
        tiers.push(Tier { above: 200_000, price: price(over) });
    }
    Pricing { base: price(value), tiers }
}

fn price(value: &Value) -> Price {
    let amount = |key: &str| Money::from_f64(value.get(key).and_then(Value::as_f64).unwrap_or_default());
    Price {
        input: amount("input"),
        output: amount("output"),
        cache_read: amount("cache_read"),
        cache_write: amount("cache_write"),
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
    fn reads_providers_models_and_rules() {
        let raw = json!({
            "model": "fake/fake-1",
            "enabled_providers": ["fake"],
            "permission": {"bash": {"*": "ask", "git *": "allow"}, "edit": "deny"},
            "provider": {
                "fake": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://x/v1"},
                    "models": {"fake-1": {"limit": {"context": 200_000, "output": 8000}, "cost": {"input": 3, "output": 15}}}},
                "other": {},
            },
        });
        let config = Config::from_value(raw.as_object().cloned().unwrap());
        assert_eq!(config.model, model_ref("fake/fake-1"));
        assert_eq!(config.providers.keys().collect::<Vec<_>>(), ["fake"]);
        let model = &config.providers["fake"].models["fake-1"];
        assert_eq!((model.context, model.output, model.tool_call), (200_000, 8000, true));
        assert_eq!(model.pricing.base.input, Money::from_f64(3.0));
        assert_eq!(
            config.permission,
            [
                Rule::new("bash", "*", Action::Ask),
                Rule::new("bash", "git *", Action::Allow),
                Rule::new("edit", "*", Action::Deny)
            ]
        );
    }
}
