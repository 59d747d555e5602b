//! Small words with a meaning: why a model stopped, what began a compaction, what became of a file.
//!
//! Each is stored as one word. A word of another program that is not one of ours is kept, and leaves as it came.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An enum of known words, and one variant for any other.
macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident,
        $( $(#[$word_doc:meta])* $variant:ident = $word:literal ),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$word_doc])* $variant, )*
            /// A word of another program that is none of these.
            Imported(String),
        }

        impl $name {
            /// The word under which it is stored.
            #[must_use]
            pub fn word(&self) -> &str {
                match self {
                    $( Self::$variant => $word, )*
                    Self::Imported(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $( $word => Self::$variant, )*
                    _ => Self::Imported(word),
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                Self::from(word.to_owned())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
}

words! {
    /// Why a model stopped.
    Finish,
    /// It had nothing more to say.
    Stop = "stop",
    /// It waits for the results of its calls.
    ToolCalls = "tool-calls",
    /// The provider made a pause in its own work, and goes on when it is asked to.
    Paused = "paused",
    /// The answer reached its length limit.
    Length = "length",
    /// The provider's filter cut it off.
    ContentFilter = "content-filter",
    /// The provider failed.
    Error = "error",
    /// A person stopped it.
    Aborted = "aborted",
    /// The provider gave no reason, or one that nobody knows.
    Unknown = "unknown",
}

words! {
    /// What made a compaction begin.
    Trigger,
    /// The context was nearly full.
    Auto = "auto",
    /// A person asked for it.
    Manual = "manual",
}

words! {
    /// What became of a file.
    FileChange,
    /// It is new.
    Added = "added",
    /// It is gone.
    Deleted = "deleted",
    /// Its content is another.
    Modified = "modified",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_storage_and_others_stay_as_they_came() {
        for word in
            ["stop", "tool-calls", "paused", "length", "content-filter", "error", "aborted", "unknown"]
        {
            let finish: Finish = serde_json::from_value(word.into()).unwrap();
            assert!(!matches!(finish, Finish::Imported(_)), "{word}");
            assert_eq!(serde_json::to_value(&finish).unwrap(), word);
        }
        for word in ["", "Stop", "tool_calls", "end_turn"] {
            let finish: Finish = serde_json::from_value(word.into()).unwrap();
            assert_eq!(finish, Finish::Imported(word.to_owned()));
            assert_eq!(serde_json::to_value(&finish).unwrap(), word);
        }
        assert_eq!(Trigger::from("manual".to_owned()), Trigger::Manual);
        assert_eq!(FileChange::from("renamed".to_owned()), FileChange::Imported("renamed".to_owned()));
    }
}
