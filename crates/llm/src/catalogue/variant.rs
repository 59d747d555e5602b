//! Variants: named presets of how hard a model thinks, such as the `high` of `openai/gpt-5.6:high`.
//!
//! A model that reasons has one for each effort that its protocol knows. The configuration may add others, change
//! these and switch them off.

use serde_json::{Map, Value};

use super::{Protocol, Text};
use crate::{Effort, Reasoning};

/// A named preset.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Its name.
    pub name: Text,
    /// How much the model thinks.
    pub reasoning: Reasoning,
    /// Fields to merge into the request body.
    pub options: Map<String, Value>,
}

impl Variant {
    /// The preset of an effort.
    fn of_effort(effort: Effort) -> Self {
        let reasoning = Reasoning { effort: Some(effort), budget: None };
        Self { name: Text::Borrowed(effort_word(effort)), reasoning, options: Map::new() }
    }

    /// A preset as the configuration writes it: an effort, a budget, and fields that go to the provider as they are.
    pub(super) fn from_options(name: &str, mut options: Map<String, Value>) -> Self {
        options.remove("disabled");
        let mut reasoning = Reasoning::default();
        for key in ["reasoningEffort", "reasoning_effort", "effort"] {
            let effort = options.get(key).and_then(Value::as_str).and_then(effort_of_word);
            if effort.is_some() {
                reasoning.effort = effort;
                options.remove(key);
            }
        }
        for (outer, inner) in [
            ("thinking", "budgetTokens"),
            ("thinking", "budget_tokens"),
            ("thinkingConfig", "thinkingBudget"),
        ] {
            let budget = options.get(outer).and_then(|value| value.get(inner)).and_then(Value::as_u64);
            if budget.is_some() {
                reasoning.budget = budget;
                // The rest of the object says that thinking is on, which a budget says by itself.
                options.remove(outer);
            }
        }
        Self { name: Text::Owned(name.to_owned()), reasoning, options }
    }
}

/// The presets of a model that reasons, from the least effort to the greatest.
pub(super) fn presets(protocol: Protocol) -> Vec<Variant> {
    use Effort::{High, Low, Max, Medium, Minimal, None};
    let efforts: &[Effort] = match protocol {
        Protocol::OpenAiResponses | Protocol::Azure => &[None, Minimal, Low, Medium, High, Max],
        Protocol::Anthropic | Protocol::VertexAnthropic | Protocol::Bedrock => &[Low, Medium, High, Max],
        Protocol::Gemini | Protocol::Vertex => &[Minimal, Low, Medium, High],
        Protocol::OpenAiChat | Protocol::BedrockMantle | Protocol::Cohere | Protocol::Unknown => {
            &[Low, Medium, High]
        }
    };
    efforts.iter().map(|effort| Variant::of_effort(*effort)).collect()
}

/// The word for an effort, as configurations write it.
#[must_use]
pub const fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "max",
    }
}

fn effort_of_word(word: &str) -> Option<Effort> {
    // OpenAI's word for the greatest effort.
    if word == "xhigh" {
        return Some(Effort::Max);
    }
    [Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max]
        .into_iter()
        .find(|effort| effort_word(*effort) == word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn efforts_and_budgets_are_found_in_the_options_and_the_rest_is_kept() {
        let check = |options: Value, effort: Option<Effort>, budget: Option<u64>, rest: Value| {
            let variant = Variant::from_options("x", options.as_object().cloned().unwrap());
            let expected = Variant {
                name: "x".into(),
                reasoning: Reasoning { effort, budget },
                options: rest.as_object().cloned().unwrap(),
            };
            assert_eq!(variant, expected);
        };
        check(json!({}), None, None, json!({}));
        check(
            json!({"reasoningEffort": "xhigh", "verbosity": "low"}),
            Some(Effort::Max),
            None,
            json!({"verbosity": "low"}),
        );
        check(json!({"thinking": {"type": "enabled", "budgetTokens": 9000}}), None, Some(9000), json!({}));
        check(json!({"thinkingConfig": {"thinkingBudget": 128}}), None, Some(128), json!({}));
        check(json!({"effort": "heroic"}), None, None, json!({"effort": "heroic"}));
        check(
            json!({"thinking": {"type": "disabled"}}),
            None,
            None,
            json!({"thinking": {"type": "disabled"}}),
        );
    }
}
