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

/// The effort that a word means.
pub(super) fn effort_of_word(word: &str) -> Option<Effort> {
    // OpenAI's word for the greatest effort.
    if word == "xhigh" {
        return Some(Effort::Max);
    }
    [Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max]
        .into_iter()
        .find(|effort| effort_word(*effort) == word)
}
