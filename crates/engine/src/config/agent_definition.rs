//! What is configured of an agent: one that is built in, or one of the person's or the project's own.

use everturn_model::Map;
use everturn_model::permission::Rule;
use serde_json::Value;

use super::layer::put_at;
use super::misspelling::shown;
use super::placeholders;
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
        let sound = |key: &str| value.get(key).filter(|value| mistake(key, value).is_none());
        let text = |key: &str| sound(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| sound(key).and_then(Value::as_bool);
        let number = |key: &str| sound(key).and_then(Value::as_f64);
        let count = |key: &str| sound(key).and_then(Value::as_u64);
        self.description = text("description").or(self.description.take());
        self.role = text("mode").and_then(|word| AgentRole::of(&word)).or(self.role);
        self.hidden = flag("hidden").or(self.hidden);
        self.disabled = flag("disable").unwrap_or(self.disabled);
        self.prompt = text("prompt").or(self.prompt.take());
        self.model = text("model").or(self.model.take());
        self.variant = text("variant").or(self.variant.take());
        self.temperature = number("temperature").or(self.temperature);
        self.top_p = number("top_p").or(self.top_p);
        // `maxSteps` is what OpenCode called it before.
        self.steps = count("steps").or_else(|| count("maxSteps")).or(self.steps);
    }
}

/// What is wrong with the value of one of an agent's settings, in words that follow its name.
pub(super) fn mistake(key: &str, value: &Value) -> Option<String> {
    let is_within = |most: f64| value.as_f64().is_some_and(|number| (0.0..=most).contains(&number));
    let is_role = |word: &str| AgentRole::of(word).is_some();
    let (is_sound, form) = match key {
        "description" | "model" | "prompt" | "variant" => (value.is_string(), "a text"),
        "disable" | "hidden" => (value.is_boolean(), "`true` or `false`"),
        // What stands in the place of a variable is not known yet.
        "mode" => (
            value.as_str().is_some_and(is_role) || placeholders::are_in(value) && value.is_string(),
            "`primary`, `subagent` or `all`",
        ),
        "steps" | "maxSteps" => (value.as_u64().is_some_and(|count| count > 0), "a whole number above 0"),
        "temperature" => (is_within(2.0), "a number from 0 to 2"),
        "top_p" => (is_within(1.0), "a number from 0 to 1"),
        _ => return None,
    };
    (!is_sound).then(|| format!("it is {form}, not `{}`", shown(&value.to_string())))
}

/// Leaves out what cannot be used, so that it does not take the place of what another file says.
pub(super) fn drop_mistakes(values: &mut Map) {
    for table in ["agent", "mode"] {
        let agents = values.get_mut(table).and_then(Value::as_object_mut).into_iter().flatten();
        for agent in agents.filter_map(|(_, agent)| agent.as_object_mut()) {
            agent.retain(|key, value| mistake(key, value).is_none());
        }
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
        // What is of the wrong kind or out of its range says nothing, wherever it comes from.
        agent.refine(
            &json!({"description": 1, "mode": 2, "hidden": "no", "disable": "no", "prompt": ["x"], "model": {},
            "variant": 3, "temperature": 2.1, "top_p": -0.1, "steps": -2, "maxSteps": "x"}),
        );
        assert_eq!(agent, expected);
        let found = rules_in(&json!({"permission": {"bash": "allow"}, "tools": {"bash": false}}));
        assert_eq!(found, [Rule::new("bash", "*", Action::Deny), Rule::new("bash", "*", Action::Allow)]);
    }

    #[test]
    fn each_setting_has_its_form() {
        for (key, sound, wrong) in [
            ("description", json!(["x", ""]), json!([1, null, ["x"]])),
            ("prompt", json!(["x", ""]), json!([true, {}])),
            ("model", json!(["x/y"]), json!([5, ["x/y"]])),
            ("variant", json!(["high"]), json!([3])),
            ("hidden", json!([true, false]), json!(["true", 1, null])),
            ("disable", json!([true, false]), json!(["yes", 0])),
            (
                "mode",
                json!(["primary", "subagent", "all", "{env:MODE}"]),
                json!(["x", "Primary", 1, ["{env:MODE}"]]),
            ),
            ("steps", json!([1, 500]), json!([0, -2, 1.5, "x", null])),
            ("maxSteps", json!([1]), json!([0, "x"])),
            ("temperature", json!([0, 0.7, 2]), json!([-0.1, 2.1, "hot", null])),
            ("top_p", json!([0, 0.5, 1]), json!([-0.1, 5, 1.01, "0.5"])),
        ] {
            for value in sound.as_array().unwrap() {
                assert_eq!(mistake(key, value), None, "{key}: {value}");
            }
            for value in wrong.as_array().unwrap() {
                assert!(mistake(key, value).is_some(), "{key}: {value}");
            }
        }
        assert_eq!(mistake("reasoningEffort", &json!(3)), None, "it is the provider's");
    }
}
