//! What the model thought: one block for the whole item.
//!
//! OpenAI shows a summary in several parts, other servers the thoughts themselves. Both are sections of one text, with
//! a blank line between them. The thoughts that count are encrypted and come with the complete item.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::super::wire::{list, text};
use super::ReplayIds;
use super::digest::TextDigest;
use crate::StreamEvent;
use crate::protocol::Events;

#[derive(Debug)]
pub(super) struct ReasoningItem {
    block: String,
    sections: Vec<(Section, TextDigest)>,
}

/// Where a text stands in the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Section {
    /// A part of the summary.
    Summary(u64),
    /// A part of the thoughts themselves.
    Content(u64),
}

impl ReasoningItem {
    pub(super) fn begin(block: String, out: &mut Events) -> Self {
        out.push_back(StreamEvent::ReasoningStart { id: block.clone() });
        Self { block, sections: Vec::new() }
    }

    pub(super) fn add(&mut self, section: Section, more: Cow<'_, str>, out: &mut Events) {
        if more.is_empty() {
            return;
        }
        let id = self.block.clone();
        if let Some((_, known)) = self.sections.iter_mut().find(|(known, _)| *known == section) {
            known.add(&more);
            out.push_back(StreamEvent::ReasoningDelta { id, text: more.into_owned() });
            return;
        }
        let gap = if self.sections.is_empty() { "" } else { "\n\n" };
        let mut digest = TextDigest::default();
        digest.add(&more);
        self.sections.push((section, digest));
        out.push_back(StreamEvent::ReasoningDelta { id, text: format!("{gap}{more}") });
    }

    /// Adds what is missing from a section. A section that others followed can grow no more.
    pub(super) fn complete(&mut self, section: Section, whole: &str, out: &mut Events) {
        let known = self.sections.iter().position(|(known, _)| *known == section);
        let rest = match known.and_then(|position| self.sections.get(position)) {
            None => whole,
            Some((_, known)) => known.rest_of(whole).unwrap_or_default(),
        };
        if known.is_none_or(|position| position.saturating_add(1) == self.sections.len()) {
            self.add(section, rest.into(), out);
        }
    }

    pub(super) fn finish(&mut self, whole: Option<&Value>, tie: &ReplayIds, out: &mut Events) {
        let whole = whole.unwrap_or(&Value::Null);
        for (index, part) in (0..).zip(list(whole, "summary")) {
            self.complete(Section::Summary(index), text(part, "text").unwrap_or_default(), out);
        }
        for (index, part) in (0..).zip(list(whole, "content")) {
            self.complete(Section::Content(index), text(part, "text").unwrap_or_default(), out);
        }
        let mut more = Map::new();
        if let Some(encrypted) = text(whole, "encrypted_content") {
            more.insert("encrypted_content".into(), json!(encrypted));
            more.insert("summary".into(), json!(list(whole, "summary")));
        }
        out.push_back(StreamEvent::ReasoningEnd { id: self.block.clone(), metadata: tie.metadata(more) });
    }
}
