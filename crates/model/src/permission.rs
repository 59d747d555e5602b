//! Permission rules: what they match, and what several lists of them say together.
//!
//! # Layout
//! - `bounds`: two lists as one, of which the stricter word applies
//! - `overlap`: what two wildcards have in common
//! - `policy`: the rules that hold for a session, in layers
//! - `reach`: what a list says about a folder and all that is in it
//! - `rule_index`: rules by what they begin and end with

mod bounds;
mod overlap;
mod policy;
mod reach;
mod rule_index;

use serde::{Deserialize, Serialize};

pub use bounds::bounded;
pub use policy::{Policy, denials};

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Do it.
    Allow,
    /// Ask a person.
    Ask,
    /// Never.
    Deny,
}

impl Action {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// The more there is of it, the less may be done.
    pub(crate) fn strictness(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask => 1,
            Self::Deny => 2,
        }
    }

    /// The stricter one of two.
    pub(crate) fn stricter(self, other: Self) -> Self {
        if self.strictness() > other.strictness() { self } else { other }
    }
}

/// A rule: for actions and resources that match, this applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// A wildcard over kinds of action (`edit`, `bash`, `external_directory`).
    pub permission: String,
    /// A wildcard over resources (paths, command lines).
    pub pattern: String,
    /// What applies.
    pub action: Action,
}

impl Rule {
    /// A rule from its three words.
    #[must_use]
    pub fn new(permission: &str, pattern: &str, action: Action) -> Self {
        Self { permission: permission.to_owned(), pattern: pattern.to_owned(), action }
    }
}

/// True when `text` matches a wildcard: `*` is any text, `?` one character, backslashes equal slashes, and a
/// trailing ` *` is optional (`git *` matches `git`).
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let normal = |c: char| if c == '\\' { '/' } else { c };
    let text: Vec<char> = text.chars().map(normal).collect();
    let whole: Vec<char> = pattern.chars().map(normal).collect();
    if glob(&whole, &text) {
        return true;
    }
    pattern
        .strip_suffix(" *")
        .is_some_and(|short| glob(&short.chars().map(normal).collect::<Vec<_>>(), &text))
}

// Linear in the product of the lengths at worst: one star is remembered, never a tree of them.
fn glob(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || Some(c) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_none_or(|rest| rest.iter().all(|c| *c == '*'))
}

/// What the last rule says that matches.
fn last_match(rules: &[Rule], permission: &str, resource: &str) -> Option<Action> {
    last_rule(rules, permission, resource).map(|rule| rule.action)
}

/// The last rule that matches.
fn last_rule<'r>(rules: &'r [Rule], permission: &str, resource: &str) -> Option<&'r Rule> {
    let is_it = |rule: &&Rule| matches(&rule.permission, permission) && matches(&rule.pattern, resource);
    rules.iter().rev().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("git *", "git", true),
            ("git *", "git push", true),
            ("git *", "github", false),
            ("src/*.rs", "src/a/b.rs", true),
            ("src\\*.rs", "src/a.rs", true),
            ("?.txt", "a.txt", true),
            ("?.txt", "ab.txt", false),
            ("*.env", "prod.env", true),
            ("*.env", "prod.env.example", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
            ("é?", "éé", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_long_run_of_stars_does_not_hang() {
        let pattern = "*a".repeat(200);
        let text = "a".repeat(400) + "b";
        assert!(!matches(&pattern, &text));
    }
}
