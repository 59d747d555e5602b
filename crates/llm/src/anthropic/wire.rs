//! The shapes of an answer.
//!
//! Only what is looked at has a type. Content blocks stay as they come, because some go back to the provider unchanged,
//! and what says something about the whole answer is gathered field by field.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::Usage;
use crate::protocol::text::WireText;

/// A JSON object.
pub(super) type JsonFields = Map<String, Value>;

/// `message_start`
#[derive(Debug, Deserialize)]
pub(super) struct MessageStart {
    pub(super) message: JsonFields,
}

/// `content_block_start`
#[derive(Debug, Deserialize)]
pub(super) struct BlockStart {
    pub(super) index: u64,
    pub(super) content_block: JsonFields,
}

/// `content_block_delta`: nearly all of a stream, so it is read without a detour.
#[derive(Debug, Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: WireText<'a>,
    pub(super) index: u64,
    pub(super) delta: DeltaFields<'a>,
    pub(super) error: Option<IgnoredAny>,
}

/// More of a block: each kind has one of these fields.
#[derive(Debug, Deserialize)]
pub(super) struct DeltaFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    text: Option<WireText<'a>>,
    thinking: Option<WireText<'a>>,
    signature: Option<WireText<'a>>,
    partial_json: Option<WireText<'a>>,
    citation: Option<Value>,
}

/// What a delta adds.
#[derive(Debug)]
pub(super) enum DeltaContent<'a> {
    Text(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Signature(Cow<'a, str>),
    Input(Cow<'a, str>),
    Citation(Value),
    /// Nothing that is known here.
    Unknown,
}

impl<'a> DeltaFields<'a> {
    /// `None` when it lacks what its kind has.
    pub(super) fn more(self) -> Option<DeltaContent<'a>> {
        Some(match &*self.kind {
            "text_delta" => DeltaContent::Text(self.text?.0),
            "thinking_delta" => DeltaContent::Thinking(self.thinking?.0),
            "signature_delta" => DeltaContent::Signature(self.signature?.0),
            "input_json_delta" => DeltaContent::Input(self.partial_json?.0),
            "citations_delta" => DeltaContent::Citation(self.citation?),
            _ => DeltaContent::Unknown,
        })
    }
}

/// `content_block_stop`
#[derive(Debug, Deserialize)]
pub(super) struct BlockStop {
    pub(super) index: u64,
}

/// `message_delta`
#[derive(Debug, Deserialize)]
pub(super) struct MessageDelta {
    pub(super) delta: Option<JsonFields>,
    pub(super) usage: Option<JsonFields>,
}

/// A field that is a text.
pub(super) fn text<'a>(fields: &'a JsonFields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Token counts as they were last given.
#[derive(Debug, Default)]
pub(super) struct TokenCounts(JsonFields);

impl TokenCounts {
    /// Takes newer counts; what they do not mention stays.
    pub(super) fn update(&mut self, newer: JsonFields) {
        self.0.extend(newer.into_iter().filter(|(_, value)| !value.is_null()));
    }

    /// The counts in neutral terms, and whatever else was said about them.
    ///
    /// The input counts are disjoint already. Output includes the thoughts, which newer models count apart as well.
    pub(super) fn split(&self) -> (Usage, JsonFields) {
        let mut details = self.0.clone();
        let mut take = |name: &str| details.shift_remove(name).and_then(|count| count.as_u64()).unwrap_or(0);
        let output = take("output_tokens");
        let mut usage = Usage {
            input: take("input_tokens"),
            cache_read: take("cache_read_input_tokens"),
            cache_write: take("cache_creation_input_tokens"),
            ..Usage::default()
        };
        let thoughts =
            details.get("output_tokens_details").and_then(|all| all.get("thinking_tokens")?.as_u64());
        usage.reasoning = thoughts.unwrap_or(0).min(output);
        usage.output = output.saturating_sub(usage.reasoning);
        (usage, details)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> JsonFields {
        value.as_object().unwrap().clone()
    }

    fn check(given: &[Value], usage: Usage, details: &Value) {
        let mut counts = TokenCounts::default();
        given.iter().for_each(|one| counts.update(fields(one)));
        assert_eq!(counts.split(), (usage, fields(details)));
    }

    #[test]
    fn later_counts_win() {
        check(
            &[
                json!({"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
                    "output_tokens": 1, "service_tier": "standard"}),
                json!({"input_tokens": 10, "cache_read_input_tokens": null, "output_tokens": 50}),
            ],
            Usage { input: 10, output: 50, cache_read: 100, cache_write: 20, ..Usage::default() },
            &json!({"service_tier": "standard"}),
        );
    }

    #[test]
    fn thoughts_that_are_counted_apart() {
        let given = |thoughts: u64| json!({"output_tokens": 50, "output_tokens_details": {"thinking_tokens": thoughts}});
        let details = |thoughts: u64| json!({"output_tokens_details": {"thinking_tokens": thoughts}});
        check(&[given(20)], Usage { output: 30, reasoning: 20, ..Usage::default() }, &details(20));
        check(&[given(90)], Usage { reasoning: 50, ..Usage::default() }, &details(90));
    }

    #[test]
    fn nonsense_is_zero() {
        let given = json!({"input_tokens": -5, "output_tokens": "many", "output_tokens_details": 3});
        check(&[given], Usage::default(), &json!({"output_tokens_details": 3}));
        check(&[], Usage::default(), &json!({}));
    }
}
