//! What tokens cost, in whole numbers.
//!
//! Prices are data of this crate: what a call costs and what a session has spent is the caller's to work out and to
//! keep. They are integers, since sums of binary fractions drift and a bill must not.

use std::fmt;
use std::str::FromStr;

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

/// Why a text is not a rate.
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
pub struct TokenPrice {
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
pub struct TokenPriceTier {
    /// It applies when input and cached input together are more tokens than this.
    pub above: u64,
    /// The price then, of all tokens.
    pub price: TokenPrice,
}

/// What a model costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    /// The price of small contexts.
    pub base: TokenPrice,
    /// The prices above certain sizes, in any order.
    pub tiers: Vec<TokenPriceTier>,
}

impl Prices {
    /// Whether nothing is charged, or no price is known.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.base == TokenPrice::default() && self.tiers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
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
}
