//! What is configured of an agent: one that is built in, or one of the person's or the project's own.

use everturn_model::Map;
use everturn_model::permission::Rule;
use serde_json::Value;

use super::layer::put_at;
use super::rules::{ConfiguredRules, rules, rules_of_tools};

/// For whom an agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentRole {
    /// For people.
    Primary,
    /// For other agents.
    Subagent,
    /// For both.
    All,
}

impl AgentRole {
    /// The word for it in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Primary, Self::Subagent, Self::All].into_iter().find(|role| role.as_str() == word)
    }
}

/// What is configured of an agent; the rest is as it is built in, or as it is for every agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentDefinition {
    /// What it is for.
    pub description: Option<String>,
    /// For whom it works.
    pub role: Option<AgentRole>,
    /// Whether people do not see it.
    pub hidden: Option<bool>,
    /// Whether there is no such agent.
    pub disabled: bool,
    /// Its instructions.
    pub prompt: Option<String>,
    /// The name of its model.
    pub model: Option<String>,
    /// The named set of options of its model.
    pub variant: Option<String>,
    /// The sampling temperature of its requests.
    pub temperature: Option<f64>,
    /// The share of likely words that its requests consider.
    pub top_p: Option<f64>,
    /// How many steps it may take for one prompt.
    pub steps: Option<u64>,
    /// Its rules.
    pub rules: ConfiguredRules,
}

impl AgentDefinition {
    /// Takes in what a further file says, but for the rules, which depend on whose file it is.
    pub(super) fn refine(&mut self, value: &Value) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| value.get(key).and_then(Value::as_bool);
        self.description = text("description").or(self.description.take());
        self.role = text("mode").and_then(|word| AgentRole::of(&word)).or(self.role);
        self.hidden = flag("hidden").or(self.hidden);
        self.disabled = flag("disable").unwrap_or(self.disabled);
        self.prompt = text("prompt").or(self.prompt.take());
        self.model = text("model").or(self.model.take());
        self.variant = text("variant").or(self.variant.take());
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        self.top_p = number("top_p").or(self.top_p);
        // `maxSteps` is what OpenCode called it before.
        let count = |key: &str| value.get(key).and_then(Value::as_u64).filter(|count| *count > 0);
        self.steps = count("steps").or_else(|| count("maxSteps")).or(self.steps);
        self.temperature = value.get("temperature").and_then(Value::as_f64).or(self.temperature);
    }
}

/// Makes agents of the modes in a configuration, as OpenCode called those for people before.
pub(super) fn fold_modes(values: &mut Map) {
    let Some(modes) = values.shift_remove("mode") else { return };
    for (name, mode) in modes.as_object().cloned().into_iter().flatten() {
        if let Value::Object(mut agent) = mode {
            agent.insert("mode".to_owned(), AgentRole::Primary.as_str().into());
            put_at(values, &["agent", &name], agent.into());
        }
    }
}

/// The rules in an agent's configuration.
pub(super) fn rules_in(value: &Value) -> Vec<Rule> {
    let mut found = value.get("tools").map(rules_of_tools).unwrap_or_default();
    found.extend(value.get("permission").map(rules).unwrap_or_default());
    found
}

#[cfg(test)]
mod tests {
    use everturn_model::permission::Action;
    use serde_json::json;

    use super::*;

    #[test]
    fn later_files_refine_what_earlier_ones_say() {
        let mut agent = AgentDefinition::default();
        agent.refine(
            &json!({"description": "reviews", "mode": "subagent", "temperature": 0.5, "prompt": "Look.",
                "maxSteps": 3, "top_p": 0.9}),
        );
        agent.refine(&json!({"mode": "odd", "model": "x/y", "disable": true, "prompt": "Look twice.", "variant": "high", "steps": 0}));
        let expected = AgentDefinition {
            description: Some("reviews".to_owned()),
            role: Some(AgentRole::Subagent),
            disabled: true,
            prompt: Some("Look twice.".to_owned()),
            model: Some("x/y".to_owned()),
            variant: Some("high".to_owned()),
            temperature: Some(0.5),
            top_p: Some(0.9),
            steps: Some(3),
            ..AgentDefinition::default()
        };
        assert_eq!(agent, expected);
        let found = rules_in(&json!({"permission": {"bash": "allow"}, "tools": {"bash": false}}));
        assert_eq!(found, [Rule::new("bash", "*", Action::Deny), Rule::new("bash", "*", Action::Allow)]);
    }
}
