//! Rules within bounds: what two lists of rules allow together.
//!
//! A subagent may do what its own rules allow, but no more than the agent that it works for; a planning agent may do
//! what a person has configured, but change no files. In a list of which the last match wins, neither can be said by
//! putting one list after the other: whichever is last loosens what the first forbids. So each rule is combined with
//! each bound, and the stricter action applies to what both match.

use super::{Action, Rule, matches};

/// The most steps to find out what two wildcards have in common.
const EFFORT: usize = 10_000;

/// The rules that say what `rules` say, and nothing that `bounds` do not allow. What the bounds do not mention is not
/// bound.
#[must_use]
pub fn bounded(rules: &[Rule], bounds: &[Rule]) -> Vec<Rule> {
    bounded_within(rules, bounds, EFFORT)
}

fn bounded_within(rules: &[Rule], bounds: &[Rule], effort: usize) -> Vec<Rule> {
    let (open, unsaid) = (Rule::new("*", "*", Action::Allow), Rule::new("*", "*", Action::Ask));
    let mut overlapping: Vec<Rule> = Vec::new();
    // The last bound that is about something counts, and within it the last rule: so their overlap comes last, too.
    for bound in [&open].into_iter().chain(bounds) {
        for rule in [&unsaid].into_iter().chain(rules) {
            let permissions = overlap(&bound.permission, &rule.permission, effort);
            if permissions.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let patterns = overlap(&bound.pattern, &rule.pattern, effort);
            match (permissions, patterns) {
                (Some(permissions), Some(patterns)) => {
                    let action = bound.action.stricter(rule.action);
                    for permission in &permissions {
                        overlapping
                            .extend(patterns.iter().map(|pattern| Rule::new(permission, pattern, action)));
                    }
                }
                // What they have in common takes too long to say. The bound holds already, by its overlap with
                // everything; a stricter rule holds for all that it is about, at its strictest.
                _ if rule.action.strictness() > bound.action.strictness() => {
                    overlapping.push(Rule { action: Action::Deny, ..rule.clone() });
                }
                _ => {}
            }
        }
    }
    without_repetition(overlapping)
}

/// The same without rules that change nothing: those that a later one covers, and those that say what holds anyway.
fn without_repetition(rules: Vec<Rule>) -> Vec<Rule> {
    let mut last: Vec<Rule> = Vec::new();
    for rule in rules.into_iter().rev() {
        if !last.iter().any(|later| encloses(later, &rule)) {
            last.push(rule);
        }
    }
    let mut kept: Vec<Rule> = Vec::new();
    for rule in last.into_iter().rev() {
        let apart = |other: &&Rule| {
            is_none(overlap(&other.permission, &rule.permission, EFFORT))
                || is_none(overlap(&other.pattern, &rule.pattern, EFFORT))
        };
        let before = kept.iter().rev().find(|other| !apart(other));
        if !before.is_some_and(|before| before.action == rule.action && encloses(before, &rule)) {
            kept.push(rule);
        }
    }
    kept
}

fn is_none(overlapping: Option<Vec<String>>) -> bool {
    overlapping.is_some_and(|overlapping| overlapping.is_empty())
}

fn encloses(wide: &Rule, narrow: &Rule) -> bool {
    covers(&wide.permission, &narrow.permission) && covers(&wide.pattern, &narrow.pattern)
}

/// Whether two wildcards differ before either has room for other text, so that they have nothing in common. Every rule is
/// compared with every other one, and most of them are told apart by this.
fn differ_at_once(one: &str, other: &str) -> bool {
    fixed_beginning(one).zip(fixed_beginning(other)).any(|(one, other)| one != other)
}

/// What every text begins with that a wildcard matches.
fn fixed_beginning(wildcard: &str) -> impl Iterator<Item = u8> {
    // Its last ` *` may be missing.
    let bytes = wildcard.strip_suffix(" *").unwrap_or(wildcard).bytes();
    bytes.take_while(|byte| !matches!(byte, b'*' | b'?')).map(|byte| if byte == b'\\' { b'/' } else { byte })
}

/// Whether one wildcard surely matches all that another one does.
fn covers(wide: &str, narrow: &str) -> bool {
    if differ_at_once(wide, narrow) {
        return false;
    }
    // One character is not any text, although it matches the star that means it.
    let holds = |narrow: &str| !wide.contains('?') && matches(wide, narrow);
    wide == narrow || (holds(narrow) && narrow.strip_suffix(" *").is_none_or(holds))
}

/// The wildcards that together match what both of two match; nothing if that takes too long to find out.
fn overlap(one: &str, other: &str, effort: usize) -> Option<Vec<String>> {
    if differ_at_once(one, other) {
        return Some(Vec::new());
    }
    if covers(one, other) {
        return Some(vec![other.to_owned()]);
    }
    if covers(other, one) {
        return Some(vec![one.to_owned()]);
    }
    let mut meeting = OverlapSearch { found: Vec::new(), effort };
    for one in expansions(one) {
        for other in expansions(other) {
            meeting.collect_overlap(&one, &other, &mut String::new())?;
        }
    }
    let mut found: Vec<String> = Vec::new();
    for wildcard in meeting.found {
        if !found.iter().any(|known| covers(known, &wildcard)) {
            found.retain(|known| !covers(&wildcard, known));
            found.push(wildcard);
        }
    }
    Some(found)
}

/// A wildcard as it is matched: its last ` *` may be missing.
fn expansions(wildcard: &str) -> Vec<Vec<char>> {
    let plain = |text: &str| text.chars().map(|letter| if letter == '\\' { '/' } else { letter }).collect();
    [Some(wildcard), wildcard.strip_suffix(" *")].into_iter().flatten().map(plain).collect()
}

struct OverlapSearch {
    found: Vec<String>,
    effort: usize,
}

impl OverlapSearch {
    /// Collects what two wildcards have in common, after what they have in common so far.
    fn collect_overlap(&mut self, one: &[char], other: &[char], so_far: &mut String) -> Option<()> {
        self.effort = self.effort.checked_sub(1)?;
        match (one.split_first(), other.split_first()) {
            (None, None) => self.found.push(closed(so_far)),
            (Some(('*', rest)), Some(('*', others))) => {
                // Both stars take the same text, and then one of them goes on taking.
                so_far.push('*');
                self.collect_overlap(rest, other, so_far)?;
                self.collect_overlap(one, others, so_far)?;
                so_far.pop();
            }
            (Some(('*', rest)), next) => {
                self.collect_overlap(rest, other, so_far)?;
                if let Some((letter, others)) = next {
                    self.collect_after(*letter, one, others, so_far)?;
                }
            }
            (next, Some(('*', others))) => {
                self.collect_overlap(one, others, so_far)?;
                if let Some((letter, rest)) = next {
                    self.collect_after(*letter, rest, other, so_far)?;
                }
            }
            (Some((a, rest)), Some((b, others))) if a == b || *b == '?' => {
                self.collect_after(*a, rest, others, so_far)?;
            }
            (Some(('?', rest)), Some((b, others))) => self.collect_after(*b, rest, others, so_far)?,
            _ => {}
        }
        Some(())
    }

    fn collect_after(
        &mut self,
        letter: char,
        one: &[char],
        other: &[char],
        so_far: &mut String,
    ) -> Option<()> {
        so_far.push(letter);
        self.collect_overlap(one, other, so_far)?;
        so_far.pop();
        Some(())
    }
}

/// A wildcard whose end is not taken for one that may be missing.
fn closed(wildcard: &str) -> String {
    if wildcard.ends_with(" *") { format!("{wildcard}*") } else { wildcard.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::permission::Policy;

    fn rules(words: &[(&str, &str, Action)]) -> Vec<Rule> {
        words.iter().map(|(permission, pattern, action)| Rule::new(permission, pattern, *action)).collect()
    }

    fn hides(rules: &[Rule], permission: &str) -> bool {
        Policy::new(rules.to_vec()).hides(permission)
    }

    fn verdict(rules: &[Rule], permission: &str, resource: &str) -> Action {
        Policy::new(rules.to_vec()).decide(&[], permission, &[resource.to_owned()])
    }

    #[test]
    fn the_stricter_word_applies() {
        use Action::{Allow, Ask, Deny};
        let own = rules(&[("*", "*", Deny), ("bash", "*", Allow), ("bash", "rm *", Deny)]);
        let bounds = rules(&[("*", "*", Ask), ("bash", "git *", Allow)]);
        let both = bounded(&own, &bounds);
        for (permission, resource, expected) in [
            ("bash", "ls", Ask),
            ("bash", "git log", Allow),
            ("bash", "git", Allow),
            ("bash", "rm x", Deny),
            ("edit", "a", Deny),
        ] {
            assert_eq!(verdict(&both, permission, resource), expected, "{permission} {resource}: {both:?}");
        }
        assert!(hides(&both, "edit") && !hides(&both, "bash"), "{both:?}");
    }

    #[test]
    fn nothing_is_said_twice() {
        use Action::{Allow, Ask, Deny};
        let own = rules(&[("*", "*", Allow), ("read", "*.env", Ask), ("bash", "git *", Allow)]);
        assert_eq!(bounded(&own, &[]), own[..2]);
        assert_eq!(bounded(&own, &own), own[..2]);
        let none = rules(&[("*", "*", Deny)]);
        assert_eq!(bounded(&own, &none), none);
        assert!(hides(&bounded(&own, &none), "bash"));
        // Denied in part and as a whole is denied as a whole.
        let deny = bounded(&rules(&[("edit", "*", Deny)]), &rules(&[("*", "*.env", Deny)]));
        assert!(hides(&deny, "edit") && !hides(&deny, "read"), "{deny:?}");
    }

    #[test]
    fn what_takes_too_long_to_compare_concerns_its_own_tool() {
        use Action::{Allow, Deny};
        let (long, other) = ("*a".repeat(60), "a*".repeat(60));
        let own = rules(&[("*", "*", Allow), ("read", &long, Deny), ("bash", &long, Deny)]);
        let both = bounded(&own, &rules(&[("bash", &other, Allow)]));
        assert_eq!(verdict(&both, "read", "b"), Allow, "{both:?}");
        assert_eq!(verdict(&both, "bash", &"a".repeat(60)), Deny, "{both:?}");
    }

    #[test]
    fn what_two_wildcards_have_in_common_is_found() {
        let check = |one: &str, other: &str, expected: &[&str]| {
            let mut overlapping = overlap(one, other, EFFORT).unwrap();
            overlapping.sort();
            assert_eq!(overlapping, expected, "{one} and {other}");
        };
        check("config/*", "*.env", &["config/*.env"]);
        check("foo.e*", "*.env", &["foo.e*.env", "foo.env"]);
        check("git *", "* --force", &["git * --force", "git --force"]);
        check("src/*", "lib/*", &[]);
        check("a?c", "ab*", &["abc"]);
        check("git *", "git", &["git"]);
        check(r"src\a*", "src/*", &[r"src\a*"]);
        check("git *", "gix", &[]);
        assert_eq!(overlap(&"*a".repeat(60), &"a*".repeat(60), EFFORT), None);
    }

    fn wildcard() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", " ", "*", "?", " *"]), 1..5)
            .prop_map(|pieces| pieces.concat())
    }

    fn list() -> impl Strategy<Value = Vec<Rule>> {
        let action = prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
        let permission = prop::sample::select(vec!["*", "p", "q", "p*"]);
        let rule = (permission, wildcard(), action).prop_map(|(p, w, a)| Rule::new(p, &w, a));
        prop::collection::vec(rule, 0..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn both_lists_are_heeded(own in list(), bounds in list(), text in "[ab ]{0,5}", p in "p|q|pq") {
            let open: Vec<Rule> = [Rule::new("*", "*", Action::Allow)].into_iter().chain(bounds.clone()).collect();
            let expected = verdict(&own, &p, &text).stricter(verdict(&open, &p, &text));
            let both = bounded(&own, &bounds);
            prop_assert_eq!(verdict(&both, &p, &text), expected);
            prop_assert!(!hides(&both, &p) || expected == Action::Deny);
            // When it takes too long to say what they have in common, too much is forbidden rather than too little.
            let hurried = verdict(&bounded_within(&own, &bounds, 3), &p, &text);
            prop_assert!(hurried.strictness() >= expected.strictness(), "{:?}", hurried);
        }
    }
}
