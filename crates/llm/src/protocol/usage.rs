//! Token counts as OpenAI's protocols give them, which overlap, made into disjoint ones.

use serde_json::Value;

use crate::Usage;

/// Counts of which the larger ones include the smaller ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverlappingCounts {
    /// All input, cached or not.
    pub(crate) input: u64,
    /// All output; with reasoning, unless the server counts that apart.
    pub(crate) output: u64,
    /// Input read from a cache.
    pub(crate) cache_read: u64,
    /// Input written to a cache.
    pub(crate) cache_write: u64,
    /// Reasoning.
    pub(crate) reasoning: u64,
    /// The sum, where the server says it.
    pub(crate) total: Option<u64>,
}

impl OverlappingCounts {
    /// The same counts without overlaps. A server that counts reasoning apart gives itself away: by its total, or by
    /// more reasoning than output.
    pub(crate) fn split(self) -> Usage {
        let Self { input, output, reasoning, total, .. } = self;
        let cache_read = self.cache_read.min(input);
        let cache_write = self.cache_write.min(input.saturating_sub(cache_read));
        let all = input.saturating_add(output).saturating_add(reasoning);
        let apart = reasoning > output || (reasoning > 0 && total == Some(all));
        Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: if apart { output } else { output.saturating_sub(reasoning) },
            reasoning,
            cache_read,
            cache_write,
            total,
        }
    }
}

/// A count that is never negative; anything else than a number is zero.
pub(crate) fn count(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, and a negative one becomes zero"
    )]
    let rounded = value.as_f64().map(|number| number as u64);
    value.as_u64().or(rounded).unwrap_or(0)
}
