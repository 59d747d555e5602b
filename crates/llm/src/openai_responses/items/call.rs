//! A function call, assembled from its pieces.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::super::wire::{self, text};
use super::ReplayIds;
use crate::protocol::Events;
use crate::{StreamEvent, arguments};

#[derive(Debug, Default)]
pub(super) struct CallItem {
    id: Option<String>,
    name: Option<String>,
    raw: String,
    announced: bool,
}

impl CallItem {
    pub(super) fn is_called(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Takes what is not known yet, and tells of the call once it has a name.
    pub(super) fn learn(&mut self, id: Option<String>, name: Option<&str>, out: &mut Events) {
        self.id = self.id.take().or(id);
        self.name = self.name.take().or_else(|| name.filter(|name| !name.is_empty()).map(str::to_owned));
        self.announce(out);
    }

    pub(super) fn add(&mut self, more: Cow<'_, str>, out: &mut Events) {
        self.raw.push_str(&more);
        if let (Some(id), true, false) = (&self.id, self.announced, more.is_empty()) {
            out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: more.into_owned() });
        }
    }

    /// Takes the arguments as a whole. They count, whatever was streamed.
    pub(super) fn complete(&mut self, whole: Option<&Value>, out: &mut Events) {
        let whole = wire::arguments(whole);
        match whole.strip_prefix(self.raw.as_str()) {
            Some(rest) => self.add(rest.into(), out),
            None if whole.is_empty() => {}
            None => self.raw = whole,
        }
    }

    /// Hands the call out. `fallback` is its id if it has none; `cut` says that the answer was cut short.
    pub(super) fn finish(
        &mut self,
        whole: Option<&Value>,
        cut: bool,
        tie: &ReplayIds,
        fallback: String,
        out: &mut Events,
    ) {
        let id = self.id.get_or_insert(fallback).clone();
        let name = self.name.get_or_insert_default().clone();
        self.announce(out);
        self.complete(whole.and_then(|whole| whole.get("arguments")), out);
        out.push_back(StreamEvent::ToolInputEnd { id: id.clone() });
        let raw = std::mem::take(&mut self.raw);
        // No arguments at all are fine, but not where the model had no room for them.
        let stopped = whole.and_then(|whole| text(whole, "status")) == Some("incomplete");
        let input = if name.is_empty() {
            Err("the call names no tool".to_owned())
        } else if stopped || (cut && (whole.is_none() || raw.trim().is_empty())) {
            Err("the answer ended before the arguments did".to_owned())
        } else {
            arguments::parse(&raw)
        };
        out.push_back(match input {
            Ok(input) => {
                let mut more = Map::new();
                let rewritten = input.to_string();
                if rewritten != raw && !raw.trim().is_empty() {
                    more.insert("arguments".into(), json!(raw));
                }
                StreamEvent::ToolCall { id, name, input, raw, metadata: tie.metadata(more) }
            }
            Err(reason) => StreamEvent::ToolCallMalformed { id, name, raw, reason },
        });
    }

    fn announce(&mut self, out: &mut Events) {
        let (Some(id), Some(name), false) = (&self.id, &self.name, self.announced) else { return };
        self.announced = true;
        out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        if !self.raw.is_empty() {
            out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: self.raw.clone() });
        }
    }
}
