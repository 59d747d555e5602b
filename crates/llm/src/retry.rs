//! When to ask again, as data: the caller sleeps, counts and draws the random number.
//!
//! Without advice from the provider the pause doubles from two seconds up to half a minute. Advice in the
//! answer's headers wins over both, since the provider knows when its window opens. A pause that is longer than anybody
//! would sit in front of is none: then whoever asked is told when to come back.

use std::time::Duration;

use crate::Error;

/// A retry policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The pause after the first failure.
    pub first: Duration,
    /// What each further pause is multiplied by.
    pub factor: u32,
    /// The share of the pause that chance may add.
    pub jitter: f64,
    /// The longest pause when the provider gave no advice.
    pub cap: Duration,
    /// The longest pause that is made because a provider asks for it; one that asks for more is not asked again.
    pub advice_cap: Duration,
    /// How many tries there are, the first one included.
    pub tries: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            factor: 2,
            jitter: 0.25,
            cap: Duration::from_secs(30),
            advice_cap: Duration::from_secs(3_600),
            tries: 5,
        }
    }
}

impl RetryPolicy {
    /// How long to wait after try number `failed` (from 1) ended in `error`; `None` when to give up.
    ///
    /// `chance` is a random number from 0 to 1.
    pub fn delay(&self, failed: u32, error: &Error, chance: f64) -> Option<Duration> {
        if failed >= self.tries || !error.retryable() {
            return None;
        }
        match error.retry_after() {
            Some(advice) => (advice <= self.advice_cap).then_some(advice),
            None => Some(self.backoff(failed, chance)),
        }
    }

    fn backoff(&self, failed: u32, chance: f64) -> Duration {
        let factor = self.factor.saturating_pow(failed.saturating_sub(1));
        let pause = self.first.saturating_mul(factor).min(self.cap);
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * chance.clamp(0.0, 1.0);
        pause.mul_f64(spread).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HttpFailure;

    fn rate_limit(retry_after: Option<Duration>) -> Error {
        Error::RateLimit { retry_after, http: Box::new(HttpFailure::default()) }
    }

    #[test]
    fn doubles_up_to_the_cap_then_gives_up() {
        let delays = |tries, chance| -> Vec<Option<u64>> {
            let policy = RetryPolicy { tries, ..RetryPolicy::default() };
            let millis = |pause: Duration| u64::try_from(pause.as_millis()).unwrap();
            (1..=tries).map(|n| policy.delay(n, &rate_limit(None), chance).map(millis)).collect()
        };
        assert_eq!(delays(5, 0.0), [Some(2_000), Some(4_000), Some(8_000), Some(16_000), None]);
        assert_eq!(
            delays(6, 1.0),
            [Some(2_500), Some(5_000), Some(10_000), Some(20_000), Some(30_000), None]
        );
    }

    #[test]
    fn advice_wins() {
        let policy = RetryPolicy::default();
        let advised = |seconds| policy.delay(1, &rate_limit(Some(Duration::from_secs(seconds))), 1.0);
        assert_eq!(advised(90), Some(Duration::from_secs(90)));
        assert_eq!(advised(3_600), Some(policy.advice_cap));
        assert_eq!(advised(3_601), None, "nobody waits for that");
    }

    #[test]
    fn hopeless_errors_are_not_retried() {
        let error = Error::Quota { http: Box::new(HttpFailure::default()) };
        assert_eq!(RetryPolicy::default().delay(1, &error, 0.0), None);
    }
}
