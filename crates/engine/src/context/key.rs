//! The names of Context Sources.

use std::fmt;

/// The stable name of a Context Source: a namespace and a name in it, as in `core/date`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextKey(String);

/// A text that is no name of a Context Source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "context key {0:?} is not a namespace and a name with a slash between them, each of lower-case letters, digits, \
     dots, hyphens and underscores, a letter or digit first, and at most 128 bytes long"
)]
pub struct InvalidContextKey(String);

/// The longest key of a producer, in bytes.
const KEY_MAX: usize = 128;

impl ContextKey {
    /// A key.
    ///
    /// # Errors
    /// When the text is none.
    pub fn new(text: &str) -> Result<Self, InvalidContextKey> {
        let letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let word = |word: &str| {
            word.bytes().next().is_some_and(letter)
                && word.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'-' | b'_'))
        };
        let parts = text.split_once('/');
        let valid = text.len() <= KEY_MAX && parts.is_some_and(|(space, name)| word(space) && word(name));
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidContextKey(text.to_owned())) }
    }

    /// A key of this program's own.
    pub(super) fn core(name: &str) -> Self {
        Self(format!("core/{name}"))
    }

    /// The key of one of several sources that a producer has, by what tells it from the others.
    #[must_use]
    pub fn of_one(&self, name: &str) -> Self {
        Self(format!("{}/{}", self.0, name.trim_start_matches('/')))
    }

    /// Whether this is `other`, or the key of one of its sources.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContextKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_namespace() {
        for good in ["core/date", "a/b", "my-host.v1/today_s"] {
            assert_eq!(ContextKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["date", "core/", "/date", "Core/date", "core/da te", "-a/b", "a/b/c", &"a/b".repeat(50)] {
            assert!(ContextKey::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_one_producer_are_within_its_own() {
        let key = ContextKey::core("nested-instructions");
        let one = key.of_one("/srv/demo/AGENTS.md");
        assert_eq!(one.as_str(), "core/nested-instructions/srv/demo/AGENTS.md");
        assert!(one.is_within(&key) && key.is_within(&key) && !key.is_within(&one));
        assert!(!ContextKey::core("nested-instructions-2").is_within(&key));
    }
}
