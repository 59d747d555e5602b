//! Variants: named presets of how hard a model thinks, such as the `high` of `openai/gpt-5.6:high`.
//!
//! A model that reasons has one for each effort that it takes. The configuration may add others, change
//! these and switch them off.

use serde_json::{Map, Value};

use super::CatalogueText;
use crate::{Effort, Reasoning};

/// A named preset.
#[derive(Clone, PartialEq)]
pub struct Variant {
    /// Its name.
    pub name: CatalogueText,
    /// How much the model thinks.
    pub reasoning: Reasoning,
    /// Fields to merge into the request body.
    pub options: Map<String, Value>,
}

impl Variant {
    /// Whether this name means it. The greatest effort has two names, of which services and programs each use one.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || other_name(name).is_some_and(|other| self.name == other)
    }
}

/// The variant of this name: best the one that is called exactly so.
pub(super) fn find<'a>(variants: &'a [Variant], name: &str) -> Option<&'a Variant> {
    let exactly = variants.iter().find(|variant| variant.name.eq_ignore_ascii_case(name));
    exactly.or_else(|| variants.iter().find(|variant| variant.is_called(name)))
}

/// The other name of the greatest effort, for one of its names.
pub(super) fn other_name(name: &str) -> Option<&'static str> {
    let names = ["max", "xhigh"];
    let place = names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
    names.get(1 - place).copied()
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
