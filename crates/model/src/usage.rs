//! Tokens and what they cost.
//!
//! Input never includes cached tokens and output never includes reasoning, whatever the provider reports; providers
//! differ in whether their input count includes what came from the cache, which [`CachedInput`] resolves.

use serde::{Deserialize, Serialize};

use crate::Money;

/// Tokens of one provider turn, or sums of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// What the provider gave as the total, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Input that was not read from a cache.
    #[serde(default)]
    pub input: u64,
    /// Visible output.
    #[serde(default)]
    pub output: u64,
    /// Reasoning, billed like output.
    #[serde(default)]
    pub reasoning: u64,
    /// Cached input.
    #[serde(default)]
    pub cache: Cache,
}

/// What a provider has said of an answer before its step is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterimUsage {
    /// What it has used.
    #[serde(default)]
    pub tokens: Tokens,
    /// What that costs.
    #[serde(default, with = "crate::money::exact")]
    pub cost: Money,
    /// Whether the answer had ended, so that this is all.
    #[serde(default)]
    pub last: bool,
}

/// Tokens read from and written to a provider's cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Read from the cache.
    #[serde(default)]
    pub read: u64,
    /// Written to the cache.
    #[serde(default)]
    pub write: u64,
}

impl Tokens {
    /// Everything that went over the wire.
    #[must_use]
    pub fn sum(&self) -> u64 {
        [self.input, self.output, self.reasoning, self.cache.read, self.cache.write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Sums without a total: a total belongs to one turn.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// The difference, never below zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// So much of it as there is in the other, count by count.
    #[must_use]
    pub fn at_most(&self, other: &Self) -> Self {
        self.each(other, u64::min)
    }

    fn each(&self, other: &Self, operation: fn(u64, u64) -> u64) -> Self {
        Self {
            total: None,
            input: operation(self.input, other.input),
            output: operation(self.output, other.output),
            reasoning: operation(self.reasoning, other.reasoning),
            cache: Cache {
                read: operation(self.cache.read, other.cache.read),
                write: operation(self.cache.write, other.cache.write),
            },
        }
    }
}

/// Whether a provider's input count includes what was read from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedInput {
    /// The count includes cached tokens (OpenAI and most others).
    Included,
    /// The count leaves them out (Anthropic, Bedrock).
    Excluded,
}

/// What a provider reported, before its semantics are resolved. Counts may be missing or nonsense.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReportedUsage {
    /// Input tokens, with or without cached ones.
    pub input: f64,
    /// Output tokens, without reasoning.
    pub output: f64,
    /// Reasoning tokens.
    pub reasoning: f64,
    /// Tokens read from the cache.
    pub cache_read: f64,
    /// Tokens written to the cache.
    pub cache_write: f64,
    /// The total, where the provider gave one.
    pub total: Option<f64>,
}

impl ReportedUsage {
    /// The tokens that this report means.
    #[must_use]
    pub fn resolve(&self, semantics: CachedInput) -> Tokens {
        let cache = Cache { read: count(self.cache_read), write: count(self.cache_write) };
        let input = match semantics {
            CachedInput::Excluded => count(self.input),
            CachedInput::Included => count(self.input).saturating_sub(cache.read).saturating_sub(cache.write),
        };
        Tokens {
            total: self.total.map(count),
            input,
            output: count(self.output),
            reasoning: count(self.reasoning),
            cache,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "guarded: finite, positive, below 2^53"
)]
fn count(value: f64) -> u64 {
    if value.is_finite() && value > 0.0 { value.min(9_007_199_254_740_991.0) as u64 } else { 0 }
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// For input that was not cached.
    #[serde(default)]
    pub input: Money,
    /// For output and reasoning.
    #[serde(default)]
    pub output: Money,
    /// For input read from the cache.
    #[serde(default)]
    pub cache_read: Money,
    /// For input written to the cache.
    #[serde(default)]
    pub cache_write: Money,
}

/// A model's prices: the base and the tiers above context sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pricing {
    /// The price below every tier.
    #[serde(flatten)]
    pub base: Price,
    /// Prices that apply above a context size, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
}

/// A price for contexts above a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Applies when input and cached input together are above this many tokens.
    pub above: u64,
    /// The price then.
    #[serde(flatten)]
    pub price: Price,
}

impl Pricing {
    /// What these tokens cost: the tier with the largest size below the context wins, reasoning counts as output.
    #[must_use]
    pub fn cost(&self, tokens: &Tokens) -> Money {
        let context = tokens.input.saturating_add(tokens.cache.read);
        let tier = self.tiers.iter().filter(|tier| tier.above < context).max_by_key(|tier| tier.above);
        let price = tier.map_or(self.base, |tier| tier.price);
        [
            (tokens.input, price.input),
            (tokens.output, price.output),
            (tokens.reasoning, price.output),
            (tokens.cache.read, price.cache_read),
            (tokens.cache.write, price.cache_write),
        ]
        .into_iter()
        .map(|(tokens, price)| Money::of_tokens(tokens, price))
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: f64, output: f64) -> Price {
        Price {
            input: Money::from_f64(input),
            output: Money::from_f64(output),
            cache_read: Money::from_f64(input / 10.0),
            cache_write: Money::from_f64(input * 1.25),
        }
    }

    #[test]
    fn the_recorded_turn_costs_what_opencode_said() {
        // claude-sonnet-4-5 at 3 / 15 dollars: 9433 in, 20 out were billed 0.028599.
        let pricing = Pricing { base: price(3.0, 15.0), tiers: Vec::new() };
        let tokens = Tokens { input: 9433, output: 20, ..Tokens::default() };
        assert_eq!(pricing.cost(&tokens), Money::from_f64(0.028_599));
    }

    #[test]
    fn reasoning_is_billed_as_output() {
        let pricing = Pricing { base: price(1.0, 5.0), tiers: Vec::new() };
        let spoken = Tokens { output: 10, ..Tokens::default() };
        let thought = Tokens { reasoning: 10, ..Tokens::default() };
        assert_eq!(pricing.cost(&spoken), pricing.cost(&thought));
    }

    #[test]
    fn the_largest_tier_below_the_context_wins() {
        let pricing = Pricing {
            base: price(1.0, 1.0),
            tiers: vec![
                Tier { above: 500_000, price: price(4.0, 4.0) },
                Tier { above: 200_000, price: price(2.0, 2.0) },
            ],
        };
        let at = |input, read| {
            let tokens = Tokens { input, cache: Cache { read, write: 0 }, ..Tokens::default() };
            pricing.cost(&tokens)
        };
        assert_eq!(at(200_000, 0), Money::from_f64(0.2));
        assert_eq!(at(200_001, 0), Money::from_f64(0.400_002));
        assert_eq!(at(100_000, 100_001), Money::from_f64(0.2 + 0.020_000_2));
        assert_eq!(at(600_000, 0), Money::from_f64(2.4));
    }

    #[test]
    fn cached_tokens_are_counted_once_by_each_providers_semantics() {
        let report =
            ReportedUsage { input: 100.0, cache_read: 60.0, output: 5.0, ..ReportedUsage::default() };
        assert_eq!(report.resolve(CachedInput::Included).input, 40);
        assert_eq!(report.resolve(CachedInput::Excluded).input, 100);
    }

    #[test]
    fn nonsense_counts_are_zero() {
        let report = ReportedUsage {
            input: f64::NAN,
            output: -3.0,
            cache_read: f64::INFINITY,
            ..ReportedUsage::default()
        };
        assert_eq!(report.resolve(CachedInput::Included), Tokens::default());
    }
}
