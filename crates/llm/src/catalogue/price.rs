//! What tokens cost, in whole numbers.
//!
//! Prices are data of this crate: what a session has spent is the caller's to sum up and to keep. Everything is
//! counted in integers, since sums of binary fractions drift and a bill must not.

use std::fmt;
use std::str::FromStr;

use crate::Usage;

/// Billionths in a dollar.
const NANOS: u64 = 1_000_000_000;

/// Dollars for a million tokens, kept as billionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing.
    pub const FREE: Self = Self(0);

    /// So many billionths of a dollar for a million tokens.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The price of a million tokens in billionths of a dollar.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The rate that a JSON number of dollars means, or `None` if it is negative, too large or no number.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        // The shortest decimal text of a number is what its author wrote; it is the text that is meant.
        (dollars.is_finite() && dollars >= 0.0).then(|| format!("{dollars}").parse().ok()).flatten()
    }
}

impl fmt::Display for Rate {
    /// The amount in dollars, in as few digits as it needs: `0.033`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / NANOS, self.0 % NANOS);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Why a text is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no price: write dollars for a million tokens, such as 0.25")]
pub struct RateError(String);

impl FromStr for Rate {
    type Err = RateError;

    /// Reads dollars, such as `0.033`. Digits behind the ninth decimal are rounded.
    fn from_str(text: &str) -> Result<Self, RateError> {
        parse_rate(text).ok_or_else(|| RateError(text.to_owned()))
    }
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(decimals) {
        return None;
    }
    let digit = |place: usize| decimals.as_bytes().get(place).map_or(0, |byte| u64::from(byte - b'0'));
    let nanos = (0..9).fold(0, |sum, place| sum * 10 + digit(place)) + u64::from(digit(9) >= 5);
    whole.parse::<u64>().ok()?.checked_mul(NANOS)?.checked_add(nanos).map(Rate)
}

/// What each kind of token costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// Input that was neither read from nor written to a cache.
    pub input: Rate,
    /// Output, and reasoning too.
    pub output: Rate,
    /// Input read from a cache.
    pub cache_read: Rate,
    /// Input written to a cache.
    pub cache_write: Rate,
}

/// A price for large contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// It applies when input and cached input together are more tokens than this.
    pub above: u64,
    /// The price then, of all tokens.
    pub price: Price,
}

/// What a model costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    /// The price of small contexts.
    pub base: Price,
    /// The prices above certain sizes, in any order.
    pub tiers: Vec<Tier>,
}

impl Prices {
    /// The price that holds for a call: the tier with the largest size below the context wins.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> Price {
        let context = usage.input.saturating_add(usage.cache_read);
        let tier = self.tiers.iter().filter(|tier| tier.above < context).max_by_key(|tier| tier.above);
        tier.map_or(self.base, |tier| tier.price)
    }

    /// What a call cost. Reasoning is billed as output.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Cost {
        let price = self.of(usage);
        let parts = [
            (usage.input, price.input),
            (usage.output, price.output),
            (usage.reasoning, price.output),
            (usage.cache_read, price.cache_read),
            (usage.cache_write, price.cache_write),
        ];
        let parts = parts.map(|(tokens, rate)| u128::from(tokens) * u128::from(rate.0));
        Cost(parts.into_iter().fold(0, u128::saturating_add))
    }

    /// Whether nothing is charged, or no price is known.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.base == Price::default() && self.tiers.is_empty()
    }
}

/// An exact cost: billionths of a millionth of a dollar, the product of tokens and [`Rate`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u128);

impl Cost {
    /// The exact amount, in units of 10⁻¹⁵ dollars.
    #[must_use]
    pub const fn exact(self) -> u128 {
        self.0
    }

    /// The amount in billionths of a dollar, rounded.
    #[must_use]
    pub fn nanos(self) -> u64 {
        let rounded = self.0.saturating_add(500_000) / 1_000_000;
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    fn price(input: &str, output: &str, cache_read: &str, cache_write: &str) -> Price {
        let [input, output, cache_read, cache_write] = [input, output, cache_read, cache_write].map(rate);
        Price { input, output, cache_read, cache_write }
    }

    #[test]
    fn rates_are_read_and_written_exactly() {
        for text in ["0", "3", "0.033", "0.000000001", "12.5", "18000000000"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate("0.024999999999999998"), rate("0.025"));
        assert_eq!(rate("2.50"), Rate::from_nanos(2_500_000_000));
        assert_eq!(Rate::from_dollars(0.1), Some(rate("0.1")));
        assert_eq!(Rate::from_dollars(1.5e-7), Some(rate("0.00000015")));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in ["", ".5", "-1", "1e3", "1,5", "99999999999999999999", "1.2.3", "٣"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError(text.to_owned())), "{text}");
        }
        for number in [-0.1, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Rate::from_dollars(number), None, "{number}");
        }
    }

    #[test]
    fn a_recorded_turn_costs_what_was_billed() {
        // 9433 tokens in and 20 out at 3 and 15 dollars were billed 0.028599 dollars.
        let prices = Prices { base: price("3", "15", "0.3", "3.75"), tiers: Vec::new() };
        let usage = Usage { input: 9433, output: 20, ..Usage::default() };
        assert_eq!(prices.cost(&usage).nanos(), 28_599_000);
    }

    #[test]
    fn every_kind_of_token_has_its_price_and_reasoning_is_output() {
        let prices = Prices { base: price("1", "10", "100", "1000"), tiers: Vec::new() };
        let usage = Usage { input: 1, output: 1, reasoning: 1, cache_read: 1, cache_write: 1, total: None };
        assert_eq!(prices.cost(&usage).nanos(), 1_121_000);
    }

    #[test]
    fn the_largest_tier_below_the_context_wins() {
        let tier = |above, input| Tier { above, price: price(input, "0", input, "0") };
        let prices =
            Prices { base: price("1", "0", "1", "0"), tiers: vec![tier(500_000, "4"), tier(200_000, "2")] };
        let check = |input, cache_read, nanos| {
            let usage = Usage { input, cache_read, ..Usage::default() };
            assert_eq!(prices.cost(&usage).nanos(), nanos, "{input} + {cache_read}");
        };
        check(200_000, 0, 200_000_000);
        check(200_001, 0, 400_002_000);
        check(100_000, 100_001, 400_002_000);
        check(500_000, 0, 1_000_000_000);
        check(600_000, 0, 2_400_000_000);
    }

    #[test]
    fn absurd_counts_do_not_overflow() {
        let most = Rate::from_nanos(u64::MAX);
        let base = Price { input: most, output: most, cache_read: most, cache_write: most };
        let usage = Usage {
            input: u64::MAX,
            output: u64::MAX,
            reasoning: u64::MAX,
            cache_read: u64::MAX,
            cache_write: u64::MAX,
            total: None,
        };
        assert_eq!(Prices { base, tiers: Vec::new() }.cost(&usage), Cost(u128::MAX));
        assert_eq!(Cost(u128::MAX).nanos(), u64::MAX);
    }
}
