//! A message: each part of its content is a text block.
//!
//! A block opens with its first text and closes with the item: only then is everything known that has to be kept for
//! the replay.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::wire::{list, text};
use super::digest::TextDigest;
use super::{BlockNames, ReplayIds};
use crate::StreamEvent;
use crate::protocol::Events;

#[derive(Debug, Default)]
pub(super) struct MessageItem {
    parts: BTreeMap<u64, MessageItemPart>,
    /// Whether the model called it a remark or its answer; some models want that back.
    phase: Option<String>,
}

#[derive(Debug, Default)]
struct MessageItemPart {
    refusal: bool,
    /// The open block.
    block: Option<String>,
    digest: TextDigest,
    annotations: Vec<Value>,
}

/// Whether this is a part of a message that can be shown.
pub(super) fn is_part(content: &Value) -> bool {
    matches!(text(content, "type"), Some("output_text" | "text" | "refusal"))
}

impl MessageItem {
    pub(super) fn learn(&mut self, item: &Value) {
        if let Some(phase) = text(item, "phase") {
            self.phase = Some(phase.to_owned());
        }
    }

    pub(super) fn add(
        &mut self,
        part: u64,
        refusal: bool,
        more: Cow<'_, str>,
        blocks: &mut BlockNames,
        out: &mut Events,
    ) {
        if more.is_empty() {
            return;
        }
        let part = self.part(part);
        part.refusal |= refusal;
        part.digest.add(&more);
        let id = match &part.block {
            Some(id) => id.clone(),
            None => {
                let id = blocks.next("text");
                out.push_back(StreamEvent::TextStart { id: id.clone() });
                part.block = Some(id.clone());
                id
            }
        };
        out.push_back(StreamEvent::TextDelta { id, text: more.into_owned() });
    }

    /// Adds what is missing from a part. What was streamed stands, even if the server now says something else.
    pub(super) fn complete(
        &mut self,
        part: u64,
        refusal: bool,
        whole: &str,
        blocks: &mut BlockNames,
        out: &mut Events,
    ) {
        let rest = self.part(part).digest.rest_of(whole).unwrap_or_default();
        self.add(part, refusal, rest.into(), blocks, out);
    }

    /// Takes a whole part.
    pub(super) fn take(&mut self, part: u64, content: &Value, blocks: &mut BlockNames, out: &mut Events) {
        let refused = text(content, "refusal");
        let whole = refused.or_else(|| text(content, "text")).unwrap_or_default();
        self.complete(part, refused.is_some(), whole, blocks, out);
        let annotations = list(content, "annotations");
        if !annotations.is_empty() {
            self.part(part).annotations = annotations.to_vec();
        }
    }

    pub(super) fn annotate(&mut self, part: u64, annotation: Option<&Value>) {
        let annotation = annotation.filter(|annotation| annotation.is_object());
        self.part(part).annotations.extend(annotation.cloned());
    }

    pub(super) fn finish(
        &mut self,
        whole: Option<&Value>,
        tie: &ReplayIds,
        blocks: &mut BlockNames,
        out: &mut Events,
    ) {
        if let Some(whole) = whole {
            self.learn(whole);
            for (part, content) in (0..).zip(list(whole, "content")).filter(|(_, content)| is_part(content)) {
                self.take(part, content, blocks, out);
            }
        }
        for part in std::mem::take(&mut self.parts).into_values() {
            let Some(id) = part.block else { continue };
            let mut more = Map::new();
            more.extend(self.phase.iter().map(|phase| ("phase".to_owned(), json!(phase))));
            if part.refusal {
                more.insert("refusal".into(), json!(true));
            }
            if !part.annotations.is_empty() {
                more.insert("annotations".into(), Value::Array(part.annotations));
            }
            out.push_back(StreamEvent::TextEnd { id, metadata: tie.metadata(more) });
        }
    }

    fn part(&mut self, index: u64) -> &mut MessageItemPart {
        self.parts.entry(index).or_default()
    }
}
