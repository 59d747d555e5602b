//! Permission rules: wildcards, the last match wins, ask by default, a configured deny beats saved approvals.

mod bounds;

use serde::{Deserialize, Serialize};

pub use bounds::bounded;

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

fn last_match<'a>(
    rules: impl DoubleEndedIterator<Item = &'a Rule>,
    permission: &str,
    resource: &str,
) -> Option<Action> {
    rules
        .rev()
        .find(|rule| matches(&rule.permission, permission) && matches(&rule.pattern, resource))
        .map(|rule| rule.action)
}

/// Decides about one action on several resources. `configured` are the rules of agent, configuration and session in
/// that order; `saved` are approvals a person gave with *always*.
#[must_use]
pub fn decide(configured: &[Rule], saved: &[Rule], permission: &str, resources: &[String]) -> Action {
    let any = ["*".to_owned()];
    let resources = if resources.is_empty() { &any[..] } else { resources };
    let denied =
        |resource: &String| last_match(configured.iter(), permission, resource) == Some(Action::Deny);
    if resources.iter().any(denied) {
        return Action::Deny;
    }
    let verdicts: Vec<Action> = resources
        .iter()
        .map(|resource| {
            last_match(configured.iter().chain(saved), permission, resource).unwrap_or(Action::Ask)
        })
        .collect();
    if verdicts.contains(&Action::Deny) {
        Action::Deny
    } else if verdicts.contains(&Action::Ask) {
        Action::Ask
    } else {
        Action::Allow
    }
}

/// True when a tool is not even shown to the model: a rule for its action denies everything, and no later one allows or
/// asks about a part of it.
#[must_use]
pub fn hides(rules: &[Rule], permission: &str) -> bool {
    let mut last = rules.iter().rev().filter(|rule| matches(&rule.permission, permission));
    last.find(|rule| rule.action != Action::Deny || rule.pattern == "*")
        .is_some_and(|rule| rule.action == Action::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[(&str, &str, Action)], permission: &str, resource: &str) -> Action {
        let rules: Vec<Rule> = rules.iter().map(|(p, r, a)| Rule::new(p, r, *a)).collect();
        decide(&rules, &[], permission, &[resource.to_owned()])
    }

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

    #[test]
    fn last_match_wins_and_the_default_is_to_ask() {
        let rules = [
            ("*", "*", Action::Allow),
            ("read", "*.env", Action::Ask),
            ("read", "*.env.example", Action::Allow),
        ];
        assert_eq!(check(&rules, "read", "a.txt"), Action::Allow);
        assert_eq!(check(&rules, "read", ".env"), Action::Ask);
        assert_eq!(check(&rules, "read", ".env.example"), Action::Allow);
        assert_eq!(check(&[], "bash", "rm -rf /"), Action::Ask);
    }

    #[test]
    fn a_configured_deny_beats_saved_approvals() {
        let configured = [Rule::new("bash", "rm *", Action::Deny)];
        let saved = [Rule::new("bash", "*", Action::Allow)];
        let decide = |command: &str| decide(&configured, &saved, "bash", &[command.to_owned()]);
        assert_eq!(decide("rm -rf build"), Action::Deny);
        assert_eq!(decide("ls"), Action::Allow);
    }

    #[test]
    fn any_deny_beats_any_ask_beats_allow() {
        let rules = [
            Rule::new("edit", "*", Action::Allow),
            Rule::new("edit", "b", Action::Ask),
            Rule::new("edit", "c", Action::Deny),
        ];
        let on = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            decide(&rules, &[], "edit", &names)
        };
        assert_eq!(on(&["a"]), Action::Allow);
        assert_eq!(on(&["a", "b"]), Action::Ask);
        assert_eq!(on(&["a", "b", "c"]), Action::Deny);
    }

    #[test]
    fn a_tool_is_hidden_only_by_a_last_rule_that_denies_everything() {
        let rules = [Rule::new("*", "*", Action::Allow), Rule::new("task", "*", Action::Deny)];
        assert!(hides(&rules, "task"));
        assert!(!hides(&rules, "bash"));
        let partly = [Rule::new("task", "*", Action::Deny), Rule::new("task", "explore", Action::Allow)];
        assert!(!hides(&partly, "task"));
    }
}
