//! Options of a model in the words of its wire.
//!
//! Configurations of OpenCode name options as the JavaScript packages do that speak a protocol there
//! (`reasoningEffort`, `textVerbosity`). Those packages translate them; services refuse what they do not know. So
//! each protocol has a table here from such a name to its place in the request body. A name that no table has goes
//! to the service as it is: whoever writes `service_tier` means it. A name that only means something elsewhere is
//! left out.
//!
//! What says how much a model thinks becomes a [`Reasoning`], which every protocol can say in the words that its
//! models understand. Where it has no words for what was written, that also stays where the wire has it.

mod names;

use serde_json::{Map, Value};

use super::variant::{Variant, effort_of_word};
use super::{ModelInfo, Protocol};
use crate::{Effort, Reasoning};
use names::{CLIENT, OptionUse, rows, thinking_places};

/// How a model is asked: with a variant or without.
#[derive(Clone, Default, PartialEq)]
pub struct ModelSetting {
    /// How much it thinks.
    pub reasoning: Reasoning,
    /// Fields to merge into the request body, as the wire names them.
    pub options: Map<String, Value>,
}

impl ModelInfo {
    /// How the model is asked: as its own options say, and where a variant says something else, as that does.
    ///
    /// A variant that says how much to think replaces all that the model's options say about it: half of one and half
    /// of the other is refused.
    pub fn setting(&self, variant: Option<&Variant>) -> ModelSetting {
        let mut setting = ModelSetting { reasoning: self.reasoning, options: self.options.clone() };
        let Some(variant) = variant else { return setting };
        let places = thinking_places(self.protocol());
        let says_so = |place: &&[&str]| holds(&variant.options, place);
        if variant.reasoning != Reasoning::default() || places.iter().any(says_so) {
            setting.reasoning = variant.reasoning;
            for place in places {
                remove(&mut setting.options, place);
            }
        }
        for (name, value) in &variant.options {
            put(&mut setting.options, &[name], value.clone());
        }
        setting
    }
}

/// Options in the words of a wire.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TranslatedOptions {
    /// What they say about thinking.
    pub(super) reasoning: Reasoning,
    /// The fields of the body.
    pub(super) options: Map<String, Value>,
    /// Names that mean nothing there.
    pub(super) left_out: Vec<String>,
}

/// Translates the options of a model with this id on the wire.
pub(super) fn translate(protocol: Protocol, wire: &str, options: &Map<String, Value>) -> TranslatedOptions {
    let mut done = TranslatedOptions::default();
    for (name, value) in options {
        done.take(protocol, wire, name, value);
    }
    // A service that is told to choose by itself chooses this.
    if done.reasoning.effort.is_none() && is_adaptive(options) && speaks_claude(protocol, wire) {
        done.reasoning.effort = Some(Effort::High);
    }
    done
}

impl TranslatedOptions {
    fn take(&mut self, protocol: Protocol, wire: &str, name: &str, value: &Value) {
        let row = rows(protocol).iter().chain(CLIENT).find(|(known, _)| *known == name);
        match row.map(|(_, turn)| *turn) {
            None => put(&mut self.options, &[name], value.clone()),
            Some(OptionUse::Nothing) => self.left_out.push(name.to_owned()),
            Some(OptionUse::Place(place)) => put(&mut self.options, place, value.clone()),
            Some(OptionUse::Object(place)) => put(&mut self.options, place, with_underscores(value)),
            Some(OptionUse::Level(place)) => self.take_effort(protocol, place, value),
            Some(OptionUse::Budget(place)) => match value.as_u64() {
                Some(tokens) => self.reasoning.budget = Some(tokens),
                None => put(&mut self.options, place, value.clone()),
            },
            Some(OptionUse::OnlyOff(place)) => {
                if value != &Value::Bool(true) {
                    put(&mut self.options, place, value.clone());
                }
            }
            Some(OptionUse::Thinking) => self.take_thinking(protocol, wire, value),
            Some(OptionUse::Group) => self.take_group(protocol, wire, name, value),
            Some(OptionUse::Body) => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    put(&mut self.options, &[name], value.clone());
                }
            }
        }
    }

    fn take_effort(&mut self, protocol: Protocol, place: &[&str], value: &Value) {
        let word = value.as_str().unwrap_or_default().to_ascii_lowercase();
        let effort = effort_of_word(&word);
        self.reasoning.effort = effort.or(self.reasoning.effort);
        // The words for the greatest effort differ between services, and not all have one.
        let unsaid = match (effort, protocol) {
            (None, _) => true,
            (Some(Effort::Max), Protocol::OpenAiResponses | Protocol::Azure) => word != "xhigh",
            (Some(Effort::Max), _) => place == ["reasoning_effort"],
            (Some(_), _) => false,
        };
        if unsaid {
            put(&mut self.options, place, value.clone());
        }
    }

    fn take_thinking(&mut self, protocol: Protocol, wire: &str, value: &Value) {
        let budget = value.get("budgetTokens").or_else(|| value.get("budget_tokens")).and_then(Value::as_u64);
        self.reasoning.budget = budget.or(self.reasoning.budget);
        let is_off = value.get("type").and_then(Value::as_str) == Some("disabled");
        if is_off {
            self.reasoning.effort = Some(Effort::None);
        }
        // Thinking of Claude and Gemini is told by the neutral words alone. Others that speak these protocols, and
        // all that speak Chat Completions, know switches of their own.
        let told = match protocol {
            Protocol::Anthropic | Protocol::VertexAnthropic => {
                speaks_claude(protocol, wire) || budget.is_some()
            }
            Protocol::Gemini | Protocol::Vertex => true,
            Protocol::OpenAiResponses
            | Protocol::OpenAiChat
            | Protocol::Bedrock
            | Protocol::BedrockMantle
            | Protocol::Azure
            | Protocol::Cohere
            | Protocol::Unknown => false,
        };
        if !told {
            // An effort beside the switch would be a second way to say the same.
            self.reasoning.effort = self.reasoning.effort.filter(|_| !is_off);
            put(&mut self.options, &["thinking"], with_underscores(value));
        }
    }

    /// Takes the names of an object that are options, and leaves the others in it.
    fn take_group(&mut self, protocol: Protocol, wire: &str, name: &str, value: &Value) {
        let Some(fields) = value.as_object() else {
            return put(&mut self.options, &[name], value.clone());
        };
        for (field, value) in fields {
            match (name, field.as_str()) {
                ("reasoning" | "output_config", "effort") => self.take(protocol, wire, field, value),
                ("thinkingConfig", _) => self.take(protocol, wire, field, value),
                _ => put(&mut self.options, &[name, field], value.clone()),
            }
        }
    }
}

fn is_adaptive(options: &Map<String, Value>) -> bool {
    let kind = options.get("thinking").and_then(|thinking| thinking.get("type"));
    kind.and_then(Value::as_str) == Some("adaptive")
}

fn speaks_claude(protocol: Protocol, wire: &str) -> bool {
    matches!(protocol, Protocol::Anthropic | Protocol::VertexAnthropic)
        && wire.to_ascii_lowercase().contains("claude")
}

/// Puts a value in its place. Objects are filled, so that one option does not undo another.
fn put(into: &mut Map<String, Value>, place: &[&str], value: Value) {
    match (place, value) {
        ([], _) => {}
        ([name], Value::Object(more)) => match into.get_mut(*name) {
            Some(Value::Object(known)) => {
                for (name, value) in more {
                    put(known, &[&name], value);
                }
            }
            _ => {
                into.insert((*name).to_owned(), Value::Object(more));
            }
        },
        ([name], value) => {
            into.insert((*name).to_owned(), value);
        }
        ([name, rest @ ..], value) => {
            let slot = into.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(inner) = slot {
                put(inner, rest, value);
            }
        }
    }
}

fn holds(options: &Map<String, Value>, place: &[&str]) -> bool {
    match place {
        [] => false,
        [name] => options.contains_key(*name),
        [name, rest @ ..] => {
            options.get(*name).and_then(Value::as_object).is_some_and(|inner| holds(inner, rest))
        }
    }
}

/// Takes a value out of its place, and the objects around it that are empty then.
fn remove(options: &mut Map<String, Value>, place: &[&str]) {
    match place {
        [] => {}
        [name] => {
            options.shift_remove(*name);
        }
        [name, rest @ ..] => {
            let Some(Value::Object(inner)) = options.get_mut(*name) else { return };
            remove(inner, rest);
            if inner.is_empty() {
                options.shift_remove(*name);
            }
        }
    }
}

/// A value in which the names of objects are written with underscores.
fn with_underscores(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (underscored(name), with_underscores(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(with_underscores).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn underscored(name: &str) -> String {
    let mut done = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !done.is_empty() {
            done.push('_');
        }
        done.push(letter.to_ascii_lowercase());
    }
    done
}

#[cfg(test)]
mod tests;
