//! What follows from the id of a model: its address, and how it is told how much to think.
//!
//! The API refuses a request that uses what the model does not know, and only the id tells what it knows. The rule is
//! the version after `gemini-` in the last segment of the id:
//!
//! * before 2.5: no thinking, nothing is said about it
//! * 2.5: `thinkingBudget`, in tokens. Only the models that make pictures or speech do not think
//! * 3 and later, and the moving names `gemini-…-latest`: `thinkingLevel`
//! * any other id: a budget is passed on if the caller gave one; an effort is not, as there is no telling its name

use serde_json::{Map, Value, json};

use crate::{Effort, Reasoning};

/// The smallest budget of the models that cannot go without thinking.
const SMALLEST: u64 = 128;

/// Major and minor version of a model; a moving name counts as the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

/// The path of a model behind the base address, without a slash in front.
///
/// An id with the prefix of a collection keeps it. All else is encoded, slashes too, so that no id leads elsewhere.
pub(super) fn path(model: &str) -> String {
    for collection in ["models/", "tunedModels/"] {
        if let Some(name) = model.strip_prefix(collection) {
            return format!("{collection}{}", encode(name));
        }
    }
    format!("models/{}", encode(model))
}

fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn version(model: &str) -> Option<Version> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let rest = name.split_once("gemini-")?.1;
    if name.ends_with("-latest") && !rest.starts_with(|first: char| first.is_ascii_digit()) {
        return Some(Version(u32::MAX, 0));
    }
    let number = rest.split('-').next().unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some(Version(major.parse().ok()?, minor.parse().unwrap_or(0)))
}

/// Whether the model is of the third generation or later: it checks signatures, and it gives structured answers
/// although it has tools.
pub(super) fn is_third_generation(model: &str) -> bool {
    version(model) >= Some(Version(3, 0))
}

/// The `thinkingConfig` of a request, if the model takes one.
///
/// Thoughts are asked for wherever the model has them: without that they are made and paid for, but not shown.
pub(super) fn thinking(model: &str, reasoning: Reasoning) -> Option<Value> {
    let mut config = Map::new();
    match version(model) {
        Some(version) if version >= Version(3, 0) => match (reasoning.effort, reasoning.budget) {
            (Some(effort), _) => {
                config.insert("thinkingLevel".into(), json!(level(model, effort)));
            }
            // Still taken for the sake of older callers, but never together with a level.
            (None, Some(budget)) => {
                config.insert("thinkingBudget".into(), json!(budget));
            }
            (None, None) => {}
        },
        Some(version) if version >= Version(2, 5) => {
            if model.contains("-image") || model.contains("-tts") {
                return None;
            }
            let budget = budget(model, reasoning);
            if budget == Some(0) {
                return Some(json!({"thinkingBudget": 0}));
            }
            config.extend(budget.map(|tokens| ("thinkingBudget".to_owned(), json!(tokens))));
        }
        Some(_) => return None,
        None => {
            config.insert("thinkingBudget".into(), json!(reasoning.budget?));
        }
    }
    config.insert("includeThoughts".into(), json!(true));
    Some(Value::Object(config))
}

/// The level for an effort. The models without `minimal` refuse it, and so does the first Pro with `medium`: they are
/// asked for the nearest that they have.
fn level(model: &str, effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal if model.contains("gemini-3-flash") => "minimal",
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium if model.contains("gemini-3-pro") => "high",
        Effort::Medium => "medium",
        Effort::High | Effort::Max => "high",
    }
}

/// The budget in tokens. A given one wins over an effort, save that no effort is no budget. The tokens of an effort are
/// those that Google names for the efforts of its OpenAI endpoint.
fn budget(model: &str, reasoning: Reasoning) -> Option<u64> {
    let always_thinks = model.contains("-pro");
    match (reasoning.effort, reasoning.budget) {
        (Some(Effort::None), _) | (_, Some(0)) => Some(if always_thinks { SMALLEST } else { 0 }),
        (_, Some(tokens)) => Some(tokens),
        (None, None) => None,
        (Some(Effort::Minimal), None) => Some(512),
        (Some(Effort::Low), None) => Some(1_024),
        (Some(Effort::Medium), None) => Some(8_192),
        (Some(Effort::Max), None) if always_thinks => Some(32_768),
        (Some(Effort::High | Effort::Max), None) => Some(24_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let check = |model: &str, expected: &str| assert_eq!(path(model), expected, "{model}");
        check("gemini-2.5-pro", "models/gemini-2.5-pro");
        check("models/gemini-2.5-pro", "models/gemini-2.5-pro");
        check("tunedModels/mine", "tunedModels/mine");
        check("google/gemini-3", "models/google%2Fgemini-3");
        check("models/../../x?y#z", "models/..%2F..%2Fx%3Fy%23z");
        check("a b:ü%", "models/a%20b%3A%C3%BC%25");
    }

    #[test]
    fn generations() {
        let check = |model: &str, expected: Option<Version>| assert_eq!(version(model), expected, "{model}");
        check("gemini-1.5-pro-002", Some(Version(1, 5)));
        check("models/gemini-2.5-flash-lite", Some(Version(2, 5)));
        check("google/gemini-3-pro-preview", Some(Version(3, 0)));
        check("gemini-3.8-flash", Some(Version(3, 8)));
        check("gemini-12-ultra", Some(Version(12, 0)));
        check("gemini-flash-latest", Some(Version(u32::MAX, 0)));
        check("gemini-1.5-flash-latest", Some(Version(1, 5)));
        check("gemini-exp-1206", None);
        check("gemma-3-27b-it", None);
        check("", None);
    }

    #[test]
    fn how_much_to_think() {
        let check = |model: &str, effort: Option<Effort>, budget: Option<u64>, expected: Value| {
            let config = thinking(model, Reasoning { effort, budget }).unwrap_or_default();
            assert_eq!(config, expected, "{model} {effort:?} {budget:?}");
        };
        let level = |name: &str| json!({"thinkingLevel": name, "includeThoughts": true});
        let tokens = |count: u64| json!({"thinkingBudget": count, "includeThoughts": true});
        let shown = json!({"includeThoughts": true});

        check("gemini-2.0-flash", Some(Effort::High), Some(5), Value::Null);
        check("gemini-2.5-flash", None, None, shown.clone());
        check("gemini-2.5-flash", Some(Effort::High), None, tokens(24_576));
        check("gemini-2.5-flash", Some(Effort::High), Some(2_000), tokens(2_000));
        check("gemini-2.5-flash", Some(Effort::None), Some(2_000), json!({"thinkingBudget": 0}));
        check("gemini-2.5-pro", Some(Effort::None), None, tokens(128));
        check("gemini-2.5-pro", None, Some(0), tokens(128));
        check("gemini-2.5-pro", Some(Effort::Max), None, tokens(32_768));
        check("gemini-2.5-flash-image", Some(Effort::High), None, Value::Null);
        check("gemini-3.8-flash", None, None, shown);
        check("gemini-3.8-flash", Some(Effort::Minimal), None, level("low"));
        check("gemini-3-flash-preview", Some(Effort::None), None, level("minimal"));
        check("gemini-3-pro-preview", Some(Effort::Medium), None, level("high"));
        check("gemini-3.1-pro-preview", Some(Effort::Medium), Some(2_000), level("medium"));
        check("gemini-pro-latest", Some(Effort::Max), None, level("high"));
        check("gemini-3-pro-preview", None, Some(2_000), tokens(2_000));
        check("m-1", Some(Effort::High), None, Value::Null);
        check("m-1", Some(Effort::High), Some(2_000), tokens(2_000));
    }
}
