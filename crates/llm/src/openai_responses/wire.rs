//! The shapes of an answer, as loosely as servers send them.
//!
//! Each frame says in `type` what it is, and each kind has a few of the fields that are known here. Frames of a kind
//! that nobody here needs are passed over: the protocol grows by new kinds. Items stay JSON values, because most of
//! them have to go back as they came.

use serde::Deserialize;
use serde_json::Value;

use crate::Usage;
use crate::protocol::text::WireText;
use crate::protocol::usage::{OverlappingCounts, count};

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Begun,
    ItemAdded,
    ItemDone,
    PartDone,
    TextDelta,
    TextDone,
    Annotation,
    RefusalDelta,
    RefusalDone,
    SummaryDelta,
    SummaryDone,
    SummaryPartDone,
    ThoughtDelta,
    ThoughtDone,
    ArgumentsDelta,
    ArgumentsDone,
    Completed,
    Incomplete,
    Failed,
    Error,
}

impl FrameKind {
    /// The kind of this name, if it is one that counts.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "response.created" | "response.in_progress" | "response.queued" => Self::Begun,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.content_part.done" => Self::PartDone,
            "response.output_text.delta" => Self::TextDelta,
            "response.output_text.done" => Self::TextDone,
            "response.output_text.annotation.added" => Self::Annotation,
            "response.refusal.delta" => Self::RefusalDelta,
            "response.refusal.done" => Self::RefusalDone,
            "response.reasoning_summary_text.delta" => Self::SummaryDelta,
            "response.reasoning_summary_text.done" => Self::SummaryDone,
            "response.reasoning_summary_part.done" => Self::SummaryPartDone,
            "response.reasoning_text.delta" => Self::ThoughtDelta,
            "response.reasoning_text.done" => Self::ThoughtDone,
            "response.function_call_arguments.delta" => Self::ArgumentsDelta,
            "response.function_call_arguments.done" => Self::ArgumentsDone,
            "response.completed" => Self::Completed,
            "response.incomplete" => Self::Incomplete,
            "response.failed" => Self::Failed,
            "error" => Self::Error,
            _ => return None,
        })
    }
}

/// One frame of a streamed answer.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseFrame<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<WireText<'a>>,
    output_index: Option<u64>,
    item_id: Option<WireText<'a>>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    pub(super) delta: Option<WireText<'a>>,
    pub(super) text: Option<WireText<'a>>,
    pub(super) refusal: Option<WireText<'a>>,
    pub(super) name: Option<WireText<'a>>,
    /// JSON text, or from some servers the object itself.
    pub(super) arguments: Option<Box<Value>>,
    pub(super) part: Option<Box<Value>>,
    pub(super) annotation: Option<Box<Value>>,
    /// A whole item.
    pub(super) item: Option<Box<Value>>,
    /// The whole answer.
    pub(super) response: Option<Box<ResponseInfo>>,
}

/// The answer, as far as it is known.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseInfo {
    pub(super) id: Option<String>,
    pub(super) object: Option<String>,
    pub(super) model: Option<String>,
    pub(super) status: Option<String>,
    pub(super) service_tier: Option<String>,
    pub(super) output: Option<Vec<Value>>,
    pub(super) usage: Option<TokenCounts>,
    pub(super) error: Option<Value>,
    pub(super) incomplete_details: Option<Value>,
}

/// Which item a frame is about. Servers get either of the two wrong: ids that change from frame to frame, and one
/// index for several items.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemPlace<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Option<&'a str>,
}

impl ResponseFrame<'_> {
    /// Which item a piece belongs to.
    pub(super) fn place(&self) -> ItemPlace<'_> {
        ItemPlace { index: self.output_index, id: self.item_id.as_deref().filter(|id| !id.is_empty()) }
    }

    /// The item that comes whole, and which one it is.
    pub(super) fn whole(&self) -> Option<(ItemPlace<'_>, &Value)> {
        let item = self.item.as_deref()?;
        Some((ItemPlace { index: self.output_index, id: text(item, "id") }, item))
    }

    /// Which part of the item's content it is about.
    pub(super) fn content(&self) -> u64 {
        self.content_index.unwrap_or(0)
    }

    /// Which part of the item's summary it is about.
    pub(super) fn summary(&self) -> u64 {
        self.summary_index.unwrap_or(0)
    }
}

/// A text field that says something.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// A list field; one that is missing is empty.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Arguments as text, whichever way they came.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Token counts; kept as values because servers send floats and nulls.
#[derive(Debug, Deserialize)]
pub(super) struct TokenCounts {
    input_tokens: Option<Value>,
    output_tokens: Option<Value>,
    total_tokens: Option<Value>,
    input_tokens_details: Option<Value>,
    output_tokens_details: Option<Value>,
}

impl From<&TokenCounts> for Usage {
    /// Splits the provider's overlapping counts into disjoint ones: input includes what was cached, output includes
    /// reasoning. A server that counts reasoning apart gives itself away by its total.
    fn from(counts: &TokenCounts) -> Self {
        let input = count(counts.input_tokens.as_ref());
        let output = count(counts.output_tokens.as_ref());
        let total = counts.total_tokens.as_ref().filter(|total| total.is_number());
        let total = total.map(|total| count(Some(total)));
        let detail = |all: &Option<Value>, name: &str| count(all.as_ref().and_then(|all| all.get(name)));
        let overlapping = OverlappingCounts {
            input,
            output,
            cache_read: detail(&counts.input_tokens_details, "cached_tokens"),
            cache_write: detail(&counts.input_tokens_details, "cache_write_tokens"),
            reasoning: detail(&counts.output_tokens_details, "reasoning_tokens"),
            total,
        };
        overlapping.split()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(counts: Value, expected: Usage) {
        let counts: TokenCounts = serde_json::from_value(counts).unwrap();
        assert_eq!(Usage::from(&counts), expected);
    }

    #[test]
    fn overlapping_counts_are_split() {
        check(
            json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
                "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 150}),
            Usage { input: 40, output: 30, reasoning: 20, cache_read: 60, cache_write: 0, total: Some(150) },
        );
    }

    #[test]
    fn reasoning_counted_apart() {
        check(
            json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 35,
                "output_tokens_details": {"reasoning_tokens": 20}}),
            Usage { input: 10, output: 5, reasoning: 20, total: Some(35), ..Usage::default() },
        );
    }

    #[test]
    fn nonsense_is_never_negative() {
        check(
            json!({"input_tokens": -5, "input_tokens_details": {"cached_tokens": 9}, "output_tokens": 2.9,
                "output_tokens_details": null, "total_tokens": null}),
            Usage { output: 2, ..Usage::default() },
        );
        check(json!({}), Usage::default());
    }
}
