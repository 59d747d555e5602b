//! The shapes of an answer, as loosely as servers send them.
//!
//! Nearly every field may be missing or null. A streamed chunk and a complete answer differ only in `delta`
//! against `message`, so one set of types reads both.

use serde::Deserialize;
use serde_json::Value;

use crate::Usage;
use crate::protocol::text::{LooseText, WireText};
use crate::protocol::usage::{OverlappingCounts, count};

/// One chunk of a streamed answer, or a complete one.
#[derive(Debug, Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<WireText<'a>>,
    pub(super) model: Option<WireText<'a>>,
    pub(super) choices: Option<Vec<ChatChoice<'a>>>,
    /// Boxed, as is what follows: a chunk is moved about, and hardly any has these.
    pub(super) usage: Option<Box<TokenCounts>>,
    pub(super) error: Option<Box<Value>>,
    /// Where Groq puts the usage.
    pub(super) x_groq: Option<Box<GroqFields>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GroqFields {
    pub(super) usage: Option<Box<TokenCounts>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatChoice<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<ChatDelta<'a>>,
    /// In an answer that is not streamed. Boxed, because a stream has none.
    pub(super) message: Option<Box<ChatDelta<'a>>>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatDelta<'a> {
    /// A string, or a list of typed pieces.
    #[serde(borrow)]
    pub(super) content: Option<LooseText<'a>>,
    pub(super) refusal: Option<WireText<'a>>,
    pub(super) reasoning_content: Option<WireText<'a>>,
    pub(super) reasoning: Option<LooseText<'a>>,
    pub(super) reasoning_details: Option<Vec<Value>>,
    pub(super) tool_calls: Option<Vec<ChatToolCall<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatToolCall<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<WireText<'a>>,
    pub(super) function: Option<ChatFunction<'a>>,
    /// What Gemini's endpoint wants back with the call.
    pub(super) extra_content: Option<Box<Value>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatFunction<'a> {
    #[serde(borrow)]
    pub(super) name: Option<WireText<'a>>,
    /// JSON text, or from some servers the object itself.
    pub(super) arguments: Option<LooseText<'a>>,
}

/// Token counts; kept as values because servers send floats, nulls and negative numbers.
#[derive(Debug, Deserialize)]
pub(super) struct TokenCounts {
    prompt_tokens: Option<Value>,
    completion_tokens: Option<Value>,
    total_tokens: Option<Value>,
    prompt_tokens_details: Option<Value>,
    completion_tokens_details: Option<Value>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<Value>,
}

impl From<&TokenCounts> for Usage {
    /// Splits the provider's overlapping counts into disjoint ones.
    ///
    /// Prompt tokens include the cached ones everywhere. Completion tokens include reasoning at OpenAI but not
    /// everywhere: the total, or more reasoning than completion, gives it away.
    fn from(counts: &TokenCounts) -> Self {
        let prompt = count(counts.prompt_tokens.as_ref());
        let completion = count(counts.completion_tokens.as_ref());
        let total = counts.total_tokens.as_ref().map(|value| count(Some(value)));
        let detail =
            |details: &Option<Value>, name: &str| count(details.as_ref().and_then(|all| all.get(name)));
        let overlapping = OverlappingCounts {
            input: prompt,
            output: completion,
            cache_read: detail(&counts.prompt_tokens_details, "cached_tokens")
                .max(count(counts.prompt_cache_hit_tokens.as_ref())),
            cache_write: detail(&counts.prompt_tokens_details, "cache_write_tokens"),
            reasoning: detail(&counts.completion_tokens_details, "reasoning_tokens"),
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
            json!({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 20}}),
            Usage { input: 30, output: 30, reasoning: 20, cache_read: 60, cache_write: 10, total: Some(150) },
        );
    }

    #[test]
    fn reasoning_counted_apart() {
        let expected = Usage { input: 10, output: 5, reasoning: 20, total: Some(35), ..Usage::default() };
        let details = json!({"reasoning_tokens": 20});
        check(
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35, "completion_tokens_details": details}),
            expected,
        );
        check(
            json!({"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": details}),
            Usage { total: None, ..expected },
        );
    }

    #[test]
    fn nonsense_is_never_negative() {
        check(
            json!({"prompt_tokens": -5, "completion_tokens": null, "total_tokens": 7.9,
                "prompt_tokens_details": {"cached_tokens": 900}, "completion_tokens_details": "none"}),
            Usage { total: Some(7), ..Usage::default() },
        );
        check(
            json!({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}),
            Usage { input: 6, cache_read: 4, ..Usage::default() },
        );
    }
}
