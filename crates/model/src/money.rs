//! Amounts of US dollars in decimal arithmetic.
//!
//! Costs are sums of many tiny products; binary fractions drift and look wrong on a bill. On the wire an amount is a
//! JSON number as JavaScript prints it, so whole amounts have no fraction.

use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of US dollars; never negative, never NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(Decimal);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// `tokens` at `price` dollars for a million.
    #[must_use]
    pub fn of_tokens(tokens: u64, price: Self) -> Self {
        let product = Decimal::from(tokens).checked_mul(price.0).unwrap_or(Decimal::MAX);
        Self(product / Decimal::from(1_000_000u32))
    }

    /// The amount that a JSON number means; anything that is no amount is zero.
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        if !value.is_finite() || value <= 0.0 {
            return Self::ZERO;
        }
        let text = format!("{value}");
        Self(Decimal::from_str(&text).or_else(|_| Decimal::from_scientific(&text)).unwrap_or_default())
    }

    /// Whole billionths of a dollar, rounded, for databases that add up.
    #[must_use]
    pub fn to_nanos(self) -> i64 {
        let nanos = self.0.checked_mul(Decimal::from(1_000_000_000u32)).unwrap_or(Decimal::MAX);
        i64::try_from(nanos.round()).unwrap_or(i64::MAX)
    }

    /// The amount of so many billionths of a dollar; negative ones are zero.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Self(Decimal::new(nanos.max(0), 9).normalize())
    }

    /// The nearest binary fraction, for the wire.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0.normalize().to_string().parse().unwrap_or_default()
    }

    /// The amount as a JSON number, without a fraction where it is whole.
    #[must_use]
    pub fn to_json(self) -> serde_json::Value {
        let whole = self.0.trunc();
        if whole == self.0
            && let Ok(whole) = i64::try_from(whole)
        {
            return whole.into();
        }
        self.to_f64().into()
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Money {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(Decimal::ZERO))
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Money {
    type Err = rust_decimal::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Decimal::from_str(text).map(|amount| Self(amount.max(Decimal::ZERO)))
    }
}

impl std::fmt::Display for Money {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The number's own way to write so many digits cuts the others off.
        let shown = self.0.round_dp_with_strategy(4, RoundingStrategy::MidpointAwayFromZero);
        write!(f, "${shown:.4}")
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_f64)
    }
}

/// Amounts that are sums: with every digit, also those that a JSON number cannot hold.
///
/// A sum that is read and written again with each addition would otherwise drift away from what the log adds up to.
pub mod exact {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Money;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StoredAmount {
        Number(f64),
        Digits(String),
    }

    /// A number where that is the same, else its digits.
    pub fn serialize<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
        if Money::from_f64(money.to_f64()) == *money {
            return money.serialize(serializer);
        }
        serializer.serialize_str(&money.0.normalize().to_string())
    }

    /// Reads both; what is no amount is zero.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
        Ok(match StoredAmount::deserialize(deserializer)? {
            StoredAmount::Number(number) => Money::from_f64(number),
            StoredAmount::Digits(digits) => digits.parse().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Spent;

    #[test]
    fn sums_are_exact_where_binary_fractions_are_not() {
        let tenth = Money::from_f64(0.1);
        let sum: Money = std::iter::repeat_n(tenth, 3).sum();
        assert_eq!(sum, Money::from_f64(0.3));
        assert_eq!(serde_json::to_string(&sum).unwrap(), "0.3");
    }

    #[test]
    fn numbers_leave_as_they_came() {
        for text in
            ["0", "0.023454", "0.023454000000000002", "1.5e-7", "12", "0.0034", "2.2500000000000001e-6"]
        {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let money: Money = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(money.to_json(), value, "{text}");
        }
    }

    #[test]
    fn a_sum_keeps_the_digits_that_a_number_cannot_hold() {
        // A session's sum was rounded with each event, and in the end was not what its log adds up to.
        let mut kept = Spent::default();
        let mut sum = Money::ZERO;
        for text in ["0.023454000000000002", "12345.6", "2.25e-15", "0.1"] {
            let cost = Money::from_f64(text.parse().unwrap());
            sum += cost;
            kept.cost += cost;
            kept = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        }
        assert_eq!(kept.cost, sum);
        assert!(serde_json::to_string(&kept).unwrap().contains(r#""cost":"12345.7234540000000"#), "{kept:?}");
        let plain: Spent = serde_json::from_str(r#"{"cost": 0.25}"#).unwrap();
        assert_eq!(plain.cost, Money::from_f64(0.25));
    }

    #[test]
    fn what_a_person_is_shown_is_rounded() {
        // It was cut, so that what was shown was too little by up to one in the last place.
        let shown = |text: &str| Money::from_str(text).unwrap().to_string();
        assert_eq!(
            ["0.00966", "0.004575", "0.00005", "0.00004999", "12.3", "0.99996"].map(shown),
            ["$0.0097", "$0.0046", "$0.0001", "$0.0000", "$12.3000", "$1.0000"]
        );
    }

    #[test]
    fn nonsense_is_nothing() {
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Money::from_f64(value), Money::ZERO);
        }
        assert_eq!(Money::from_f64(1.0) - Money::from_f64(2.0), Money::ZERO);
    }
}
