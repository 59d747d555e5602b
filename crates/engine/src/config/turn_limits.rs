//! How long a turn may take: `{"limits": {"inactivity": 300, "turn": 1800, "retry_after": 3600}}`, in seconds.

use std::time::Duration;

use serde_json::Value;

/// How long a turn may take. The time that people and tools take does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    /// The longest time in which nothing comes that adds to an answer: signs of life alone are none.
    pub inactivity: Duration,
    /// The longest time that a provider may take for one turn, with all tries and the pauses between them.
    pub turn: Duration,
    /// The longest pause that a provider may ask for. If it asks for more, the turn fails and says so.
    pub retry_after: Duration,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            inactivity: Duration::from_secs(300),
            turn: Duration::from_secs(1_800),
            retry_after: Duration::from_secs(3_600),
        }
    }
}

impl TurnLimits {
    /// The limits that a configuration has. What is left out, or is no positive number, keeps its default.
    pub(super) fn read(value: &Value) -> Self {
        let usual = Self::default();
        let limit = |key: &str, usual: Duration| {
            let seconds = value.get(key).and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
            seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(usual)
        };
        Self {
            inactivity: limit("inactivity", usual.inactivity),
            turn: limit("turn", usual.turn),
            retry_after: limit("retry_after", usual.retry_after),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_time_keeps_its_default() {
        let usual = TurnLimits::default();
        let read = TurnLimits::read(&json!({"inactivity": 0.5, "turn": 0, "retry_after": "long"}));
        assert_eq!(read, TurnLimits { inactivity: Duration::from_millis(500), ..usual });
        assert_eq!(TurnLimits::read(&json!(7)), usual);
    }
}
