//! The shapes of an answer, as loosely as servers send them.
//!
//! A frame of a stream and a whole answer are the same object. Parts stay plain JSON: new kinds appear now and then,
//! and those that a client does not know are none of its business.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Usage;
use crate::protocol::text::{LooseText, WireText};

/// One frame of an answer, or all of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerFrame<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    pub(super) prompt_feedback: Option<Box<Value>>,
    pub(super) usage_metadata: Option<TokenCounts>,
    pub(super) response_id: Option<WireText<'a>>,
    pub(super) model_version: Option<WireText<'a>>,
    pub(super) error: Option<Box<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) content: Option<GeminiContent<'a>>,
    pub(super) finish_reason: Option<String>,
    /// The reason in more words, mostly for a call that could not be read.
    pub(super) finish_message: Option<String>,
    pub(super) grounding_metadata: Option<Box<Value>>,
    pub(super) citation_metadata: Option<Box<Value>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GeminiContent<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

/// One part, as far as it is looked at. Most are text, so what else there may be is boxed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<LooseText<'a>>,
    pub(super) thought: Option<LooseText<'a>>,
    pub(super) thought_signature: Option<LooseText<'a>>,
    pub(super) function_call: Option<Box<Value>>,
    pub(super) executable_code: Option<Box<Value>>,
    pub(super) code_execution_result: Option<Box<Value>>,
    pub(super) inline_data: Option<Box<Value>>,
}

/// Token counts so far.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenCounts {
    prompt_token_count: Option<TokenCount>,
    cached_content_token_count: Option<TokenCount>,
    candidates_token_count: Option<TokenCount>,
    thoughts_token_count: Option<TokenCount>,
    tool_use_prompt_token_count: Option<TokenCount>,
    total_token_count: Option<TokenCount>,
}

/// A count. Anything else than a whole number is zero, so that an odd one does not spoil the answer.
#[derive(Debug, Clone, Copy)]
struct TokenCount(u64);

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match LooseText::deserialize(deserializer)? {
            LooseText::Other(value) => value.as_u64().unwrap_or(0),
            LooseText::Text(_) => 0,
        }))
    }
}

impl TokenCounts {
    /// Takes later counts. Each frame counts from the beginning, but not every frame has every count.
    pub(super) fn update(&mut self, later: Self) {
        let pairs = [
            (&mut self.prompt_token_count, later.prompt_token_count),
            (&mut self.cached_content_token_count, later.cached_content_token_count),
            (&mut self.candidates_token_count, later.candidates_token_count),
            (&mut self.thoughts_token_count, later.thoughts_token_count),
            (&mut self.tool_use_prompt_token_count, later.tool_use_prompt_token_count),
            (&mut self.total_token_count, later.total_token_count),
        ];
        for (slot, value) in pairs {
            if value.is_some() {
                *slot = value;
            }
        }
    }
}

impl From<&TokenCounts> for Usage {
    /// Splits the counts into disjoint ones: the prompt includes what was cached, but neither do the candidates include
    /// the thoughts nor the prompt what the provider's own tools read.
    fn from(counts: &TokenCounts) -> Self {
        let count = |count: Option<TokenCount>| count.map_or(0, |TokenCount(number)| number);
        let prompt = count(counts.prompt_token_count);
        let cache_read = count(counts.cached_content_token_count).min(prompt);
        let read_by_tools = count(counts.tool_use_prompt_token_count);
        Self {
            input: prompt.saturating_sub(cache_read).saturating_add(read_by_tools),
            output: count(counts.candidates_token_count),
            reasoning: count(counts.thoughts_token_count),
            cache_read,
            cache_write: 0,
            total: counts.total_token_count.map(|TokenCount(number)| number),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(frames: &[Value], expected: Usage) {
        let mut counts = TokenCounts::default();
        for frame in frames {
            counts.update(serde_json::from_value(frame.clone()).unwrap());
        }
        assert_eq!(Usage::from(&counts), expected);
    }

    #[test]
    fn overlapping_counts_are_split() {
        check(
            &[json!({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 30,
                "thoughtsTokenCount": 20, "toolUsePromptTokenCount": 7, "totalTokenCount": 157})],
            Usage { input: 47, output: 30, reasoning: 20, cache_read: 60, cache_write: 0, total: Some(157) },
        );
    }

    #[test]
    fn the_last_count_of_each_kind_counts() {
        check(
            &[
                json!({"promptTokenCount": 10, "totalTokenCount": 10}),
                json!({"candidatesTokenCount": 2, "thoughtsTokenCount": 5, "totalTokenCount": 17}),
                json!({"trafficType": "ON_DEMAND"}),
            ],
            Usage { input: 10, output: 2, reasoning: 5, total: Some(17), ..Usage::default() },
        );
    }

    #[test]
    fn nonsense_is_never_negative() {
        check(
            &[json!({"promptTokenCount": 5, "cachedContentTokenCount": 900, "candidatesTokenCount": -3,
                "thoughtsTokenCount": "many"})],
            Usage { cache_read: 5, ..Usage::default() },
        );
        check(&[], Usage::default());
    }
}
