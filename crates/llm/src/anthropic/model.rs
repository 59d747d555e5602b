//! What a Claude model takes, told by its id.
//!
//! The protocol changed with the models: newer ones refuse fields that older ones need. An id has a family and a
//! version in either order (`claude-opus-4-8-20260528`, `claude-3-7-sonnet-latest`, `anthropic/claude-sonnet-4.6`).
//! An id that says neither belongs to another maker's model, which speaks the protocol as it was before Claude 4.6.

/// A model, as far as the protocol depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClaudeModel {
    family: ClaudeFamily,
    /// Major and minor; zero when the id does not say.
    version: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaudeFamily {
    Opus,
    Sonnet,
    Haiku,
    Other,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingControl {
    /// By a number of tokens.
    Budget,
    /// By a number of tokens, or by an effort.
    Either,
    /// By an effort only.
    Effort,
}

impl ClaudeModel {
    /// Reads a model id.
    pub(super) fn of(id: &str) -> Self {
        let id = id.to_lowercase();
        let Some((_, name)) = id.split_once("claude") else {
            return Self { family: ClaudeFamily::Other, version: (0, 0) };
        };
        let words: Vec<&str> = name.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
        let family = words.iter().find_map(|word| match *word {
            "opus" => Some(ClaudeFamily::Opus),
            "sonnet" => Some(ClaudeFamily::Sonnet),
            "haiku" => Some(ClaudeFamily::Haiku),
            _ => None,
        });
        // A date is a number too, but a longer one.
        let number = |word: &&str| word.parse().ok().filter(|_| word.len() <= 2);
        let mut numbers = words.iter().skip_while(|word| number(word).is_none()).map_while(number);
        let major = numbers.next().unwrap_or(0);
        Self { family: family.unwrap_or(ClaudeFamily::Other), version: (major, numbers.next().unwrap_or(0)) }
    }

    /// How it is told to think.
    pub(super) fn control(self) -> ThinkingControl {
        match self.version {
            _ if self.since((4, 7), (5, 0)) => ThinkingControl::Effort,
            version if version >= (4, 6) => ThinkingControl::Either,
            _ => ThinkingControl::Budget,
        }
    }

    /// Whether it takes a sampling temperature.
    pub(super) fn takes_temperature(self) -> bool {
        !self.since((4, 7), (5, 0))
    }

    /// Whether it takes instructions in the middle of a conversation.
    pub(super) fn takes_system(self) -> bool {
        self.since((4, 8), (5, 0))
    }

    /// Whether it goes on with an answer that is put into its mouth.
    pub(super) fn takes_prefill(self) -> bool {
        self.version < (4, 6)
    }

    /// Whether it thinks when nothing is said about it.
    pub(super) fn thinks_unasked(self) -> bool {
        self.version >= (5, 0)
    }

    /// Whether it can be told not to think. Of those that think unasked, only the first ones can.
    pub(super) fn can_be_silenced(self) -> bool {
        self.version < (5, 0) || (self.version == (5, 0) && self.family != ClaudeFamily::Other)
    }

    fn since(self, opus: (u32, u32), others: (u32, u32)) -> bool {
        self.version >= if self.family == ClaudeFamily::Opus { opus } else { others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let check = |id: &str, family: ClaudeFamily, version: (u32, u32)| {
            assert_eq!(ClaudeModel::of(id), ClaudeModel { family, version }, "{id}");
        };
        check("claude-opus-4-8", ClaudeFamily::Opus, (4, 8));
        check("claude-opus-4-8-20260528", ClaudeFamily::Opus, (4, 8));
        check("anthropic/claude-opus-4.7", ClaudeFamily::Opus, (4, 7));
        check("claude-sonnet-4-20250514", ClaudeFamily::Sonnet, (4, 0));
        check("us.anthropic.claude-sonnet-4-20250514-v1:0", ClaudeFamily::Sonnet, (4, 0));
        check("claude-3-7-sonnet-latest", ClaudeFamily::Sonnet, (3, 7));
        check("claude-haiku-4-5@20251001", ClaudeFamily::Haiku, (4, 5));
        check("claude-fable-5-1", ClaudeFamily::Other, (5, 1));
        check("claude-opus-5", ClaudeFamily::Opus, (5, 0));
        check("claude-mythos-preview", ClaudeFamily::Other, (0, 0));
        check("kimi-k2-0905", ClaudeFamily::Other, (0, 0));
        check("", ClaudeFamily::Other, (0, 0));
    }

    #[test]
    fn what_they_take() {
        let check = |id: &str,
                     control: ThinkingControl,
                     system: bool,
                     prefill: bool,
                     unasked: bool,
                     silence: bool| {
            let model = ClaudeModel::of(id);
            let taken = (model.control(), model.takes_system(), model.takes_prefill());
            assert_eq!(taken, (control, system, prefill), "{id}");
            assert_eq!((model.thinks_unasked(), model.can_be_silenced()), (unasked, silence), "{id}");
        };
        check("glm-4.7", ThinkingControl::Budget, false, true, false, true);
        check("claude-sonnet-4-5", ThinkingControl::Budget, false, true, false, true);
        check("claude-sonnet-4-6", ThinkingControl::Either, false, false, false, true);
        check("claude-opus-4-6", ThinkingControl::Either, false, false, false, true);
        check("claude-opus-4-7", ThinkingControl::Effort, false, false, false, true);
        check("claude-opus-4-8", ThinkingControl::Effort, true, false, false, true);
        check("claude-haiku-4-8", ThinkingControl::Either, false, false, false, true);
        check("claude-sonnet-5", ThinkingControl::Effort, true, false, true, true);
        check("claude-opus-5-5", ThinkingControl::Effort, true, false, true, false);
        check("claude-fable-5", ThinkingControl::Effort, true, false, true, false);
    }
}
