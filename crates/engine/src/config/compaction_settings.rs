//! When a conversation is summed up, and what of it is kept: `{"compaction": {"auto": true, "reserved": 16000,
//! "preserve_recent_tokens": 8000, "tail_turns": 2, "max_tokens": 50000, "max_messages": 100, "recent_messages": 20}}`.
//!
//! The first four are OpenCode's keys; its fifth, `prune`, has no effect yet. What is left out follows from the model; what
//! is of the wrong kind is named and keeps its default.

use everturn_llm::catalogue::TokenLimits;
use serde_json::Value;

use super::misspelling::shown;

/// What is kept free for the answer of a model, at most.
const MOST_RESERVED: u64 = 32_000;

/// What is kept free where a model has a limit of its own for what it takes in.
const INPUT_RESERVED: u64 = 20_000;

/// The bounds of what is kept word for word, in tokens.
const KEPT: (u64, u64) = (2_000, 15_000);

/// The keys of the numbers.
const NUMBERS: [&str; 6] =
    ["reserved", "preserve_recent_tokens", "tail_turns", "max_tokens", "max_messages", "recent_messages"];

/// When a conversation is summed up, and what of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Whether it is summed up without being asked.
    pub auto: bool,
    /// How many tokens of the window are kept free.
    pub reserved: Option<u64>,
    /// How many tokens of the newest conversation are kept word for word.
    pub preserve_recent_tokens: Option<u64>,
    /// How many of the newest turns are kept at most.
    pub tail_turns: Option<u64>,
    /// How many tokens a request may have, where that is less than the window allows.
    pub max_tokens: Option<u64>,
    /// How many messages a request may have.
    pub max_messages: Option<u64>,
    /// How many of the newest messages are kept at most.
    pub recent_messages: Option<u64>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            auto: true,
            reserved: None,
            preserve_recent_tokens: None,
            tail_turns: None,
            max_tokens: None,
            max_messages: None,
            recent_messages: None,
        }
    }
}

impl CompactionSettings {
    /// The settings that a configuration has, and what is wrong with them: a key, if it is one of them, and why.
    pub(super) fn read(value: &Value) -> (Self, Vec<(Option<&'static str>, String)>) {
        let (mut settings, mut wrong) = (Self::default(), Vec::new());
        let Value::Object(fields) = value else {
            let what = format!("`compaction` is a table of settings, not {}", shown(&value.to_string()));
            return (settings, vec![(None, what)]);
        };
        let mut note = |key, kind: &str, value: &Value| {
            let what = format!("`compaction.{key}` is {kind}, not {}", shown(&value.to_string()));
            wrong.push((Some(key), what));
        };
        match fields.get("auto") {
            None => {}
            Some(Value::Bool(auto)) => settings.auto = *auto,
            Some(other) => note("auto", "true or false", other),
        }
        let numbers = [
            &mut settings.reserved,
            &mut settings.preserve_recent_tokens,
            &mut settings.tail_turns,
            &mut settings.max_tokens,
            &mut settings.max_messages,
            &mut settings.recent_messages,
        ];
        for (key, number) in NUMBERS.into_iter().zip(numbers) {
            let Some(value) = fields.get(key) else { continue };
            // What may be kept may be nothing; what may be used is something.
            let limits = key.starts_with("max_");
            match value.as_u64().filter(|count| *count > 0 || !limits) {
                Some(count) => *number = Some(count),
                None if limits => note(key, "a whole number above 0", value),
                None => note(key, "a whole number", value),
            }
        }
        (settings, wrong)
    }

    /// How many tokens a request to a model may have before the conversation is summed up; none where nobody knows.
    pub(crate) fn usable(&self, limits: &TokenLimits) -> Option<u64> {
        let answer = if limits.output == 0 { MOST_RESERVED } else { limits.output.min(MOST_RESERVED) };
        let of_window = match (limits.input, limits.context) {
            (Some(input), _) if input > 0 => Some((input, answer.min(INPUT_RESERVED))),
            (_, 0) => None,
            (_, context) => Some((context, answer)),
        };
        let of_window = of_window.map(|(window, usual)| {
            // A small window must not be reserved as a whole.
            window - self.reserved.unwrap_or(usual).min(window / 2)
        });
        [of_window, self.max_tokens].into_iter().flatten().min()
    }

    /// How many tokens of the newest conversation are kept word for word, where so many are usable.
    pub(crate) fn kept_tokens(&self, usable: Option<u64>) -> u64 {
        let usual = usable.map_or(KEPT.1, |usable| (usable / 4).clamp(KEPT.0, KEPT.1));
        let wanted = self.preserve_recent_tokens.unwrap_or(usual);
        usable.map_or(wanted, |usable| wanted.min(usable / 2))
    }

    /// How many of the newest messages are kept at most.
    pub(crate) fn kept_messages(&self) -> Option<u64> {
        let half = self.max_messages.map(|most| most / 2);
        [self.recent_messages, half].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_of_the_wrong_kind_keeps_its_default() {
        let (read, wrong) = CompactionSettings::read(&json!({
            "auto": false, "reserved": -1, "preserve_recent_tokens": 0, "max_tokens": 0,
            "max_messages": 100, "recent_messages": 20, "tail_turns": 2
        }));
        let expected = CompactionSettings {
            auto: false,
            preserve_recent_tokens: Some(0),
            max_messages: Some(100),
            recent_messages: Some(20),
            tail_turns: Some(2),
            ..CompactionSettings::default()
        };
        assert_eq!(read, expected);
        let keys: Vec<_> = wrong.iter().filter_map(|(key, _)| *key).collect();
        assert_eq!(keys, ["reserved", "max_tokens"]);
        let (read, wrong) = CompactionSettings::read(&json!({"auto": "yes"}));
        assert!(read.auto && wrong.len() == 1);
        assert_eq!(
            CompactionSettings::read(&json!(5)),
            (
                CompactionSettings::default(),
                vec![(None, "`compaction` is a table of settings, not 5".into())]
            )
        );
    }

    #[test]
    fn what_is_usable_leaves_room_for_the_answer() {
        let usable = |settings: CompactionSettings, context, input, output| {
            settings.usable(&TokenLimits { context, input, output })
        };
        let usual = CompactionSettings::default();
        assert_eq!(usable(usual, 200_000, None, 8_000), Some(192_000));
        assert_eq!(usable(usual, 200_000, None, 64_000), Some(168_000));
        assert_eq!(usable(usual, 400_000, Some(272_000), 128_000), Some(252_000));
        assert_eq!(usable(usual, 0, None, 8_000), None, "nobody knows the window");
        assert_eq!(usable(usual, 8_000, None, 8_000), Some(4_000), "a small one is not all reserved");
        let reserved = CompactionSettings { reserved: Some(10_000), ..usual };
        assert_eq!(usable(reserved, 200_000, None, 64_000), Some(190_000));
        let limited = CompactionSettings { max_tokens: Some(50_000), ..usual };
        assert_eq!(usable(limited, 200_000, None, 8_000), Some(50_000));
        assert_eq!(usable(limited, 0, None, 0), Some(50_000));
    }

    #[test]
    fn what_is_kept_follows_from_what_is_usable() {
        let usual = CompactionSettings::default();
        let kept =
            [None, Some(400_000), Some(40_000), Some(4_000), Some(1_000)].map(|it| usual.kept_tokens(it));
        assert_eq!(kept, [15_000, 15_000, 10_000, 2_000, 500]);
        let wanted = CompactionSettings { preserve_recent_tokens: Some(30_000), ..usual };
        assert_eq!([None, Some(40_000)].map(|it| wanted.kept_tokens(it)), [30_000, 20_000]);
        let few = CompactionSettings { max_messages: Some(100), recent_messages: Some(70), ..usual };
        assert_eq!((few.kept_messages(), usual.kept_messages()), (Some(50), None));
    }
}
