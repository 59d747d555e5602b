//! How long a turn may take: `{"limits": {"inactivity": 300, "turn": 1800, "retry_after": 3600}}`, in seconds.
//!
//! Nothing is without a limit, so 0 is refused like every other number that is no time.

use std::time::Duration;

use everturn_model::Map;
use serde_json::Value;

use super::misspelling::shown;

/// The key of the settings.
const KEY: &str = "limits";

/// The longest time that a limit can be. A clock cannot be asked about every number that can be written.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

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

/// A limit that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LimitMistake {
    /// Which one; none where it is all of them.
    pub(super) key: Option<&'static str>,
    /// What is wrong.
    pub(super) what: String,
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
    /// The limits that a configuration has, and what is wrong with them. What is left out, or is no time, keeps its default.
    pub(super) fn read(value: &Value) -> (Self, Vec<LimitMistake>) {
        let (mut limits, mut wrong) = (Self::default(), Vec::new());
        let Self { inactivity, turn, retry_after } = &mut limits;
        let Value::Object(fields) = value else {
            let [one, two, three] = [inactivity, turn, retry_after].map(|usual| usual.as_secs());
            let what = format!(
                "`limits` has `inactivity`, `turn` and `retry_after`, and is not {}; without it they are {one}, {two} \
                 and {three} seconds",
                shown(&value.to_string())
            );
            return (limits, vec![LimitMistake { key: None, what }]);
        };
        for (key, limit) in [("inactivity", inactivity), ("turn", turn), ("retry_after", retry_after)] {
            let Some(value) = fields.get(key) else { continue };
            if let Some(time) = time(value) {
                *limit = time;
                continue;
            }
            let what = format!(
                "`limits.{key}` is a number of seconds above 0 and no more than {}, not {}; without it the limit is {}",
                LONGEST.as_secs(),
                shown(&value.to_string()),
                limit.as_secs()
            );
            wrong.push(LimitMistake { key: Some(key), what });
        }
        (limits, wrong)
    }

    /// Leaves out what cannot be used, so that it does not take the place of what another file says.
    pub(super) fn drop_mistakes(values: &mut Map) {
        let mistakes = values.get(KEY).map(|value| Self::read(value).1).unwrap_or_default();
        for mistake in mistakes {
            match (mistake.key, values.get_mut(KEY)) {
                (Some(key), Some(Value::Object(fields))) => drop(fields.shift_remove(key)),
                _ => drop(values.shift_remove(KEY)),
            }
        }
    }
}

/// A time in seconds, if it is one.
fn time(value: &Value) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(value.as_f64()?).ok()?;
    (!time.is_zero() && time <= LONGEST).then_some(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_time_keeps_its_default() {
        let usual = TurnLimits::default();
        let (read, wrong) = TurnLimits::read(&json!({"inactivity": 0.5, "turn": 0, "retry_after": "long"}));
        assert_eq!(read, TurnLimits { inactivity: Duration::from_millis(500), ..usual });
        assert_eq!(
            wrong.iter().map(|wrong| wrong.key).collect::<Vec<_>>(),
            [Some("turn"), Some("retry_after")]
        );
        for number in
            [json!(-3), json!(0.0), json!(1e30), json!(1e19), json!(1e-30), json!(31_622_401), json!(null)]
        {
            let (read, wrong) = TurnLimits::read(&json!({"turn": number}));
            assert_eq!((read, wrong.len()), (usual, 1), "{number}");
        }
        assert_eq!(TurnLimits::read(&json!({"turn": 31_622_400})).1, []);
        let (read, wrong) = TurnLimits::read(&json!(7));
        assert_eq!((read, wrong.len(), wrong[0].key), (usual, 1, None));
    }

    #[test]
    fn what_cannot_be_used_is_left_out() {
        let left = |value: Value| {
            let mut values = Map::from_iter([(KEY.to_owned(), value)]);
            TurnLimits::drop_mistakes(&mut values);
            values.shift_remove(KEY)
        };
        let some = json!({"turn": 5, "inactivity": "5m", "other": 1});
        assert_eq!(left(some), Some(json!({"turn": 5, "other": 1})));
        assert_eq!(left(json!(5)), None);
    }
}
