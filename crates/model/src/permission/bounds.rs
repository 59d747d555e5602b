//! Rules within bounds: what two lists of rules allow together.
//!
//! A subagent may do what its own rules allow, but no more than the agent that it works for; a planning agent may do
//! what a person has configured, but change no files. In a list of which the last match wins, neither can be said by
//! putting one list after the other: whichever is last loosens what the first forbids. So each rule is combined with
//! each bound, and the stricter action applies to what both match.
//!
//! Most of them have nothing in common, and are not even looked at (`rule_index`): with all of them against all, the agents
//! of a person with a thousand rules took minutes to be listed.

use super::overlap::{EFFORT, covers, overlap};
use super::rule_index::RuleIndex;
use super::{Action, Rule};

/// The rules that say what `rules` say, and nothing that `bounds` do not allow. What the bounds do not mention is not
/// bound.
#[must_use]
pub fn bounded(rules: &[Rule], bounds: &[Rule]) -> Vec<Rule> {
    bounded_within(rules, bounds, EFFORT)
}

fn bounded_within(rules: &[Rule], bounds: &[Rule], effort: usize) -> Vec<Rule> {
    let (open, unsaid) = (Rule::new("*", "*", Action::Allow), Rule::new("*", "*", Action::Ask));
    let rules: Vec<&Rule> = [&unsaid].into_iter().chain(rules).collect();
    let index = RuleIndex::of(rules.iter().copied());
    let mut overlapping: Vec<Rule> = Vec::new();
    // The last bound that is about something counts, and within it the last rule: so their overlap comes last, too.
    for bound in [&open].into_iter().chain(bounds) {
        // What a bound forbids it forbids whatever the rules say of it, so the first of them, which is about everything,
        // stands for all.
        let near = if bound.action == Action::Deny { vec![0] } else { index.near(bound) };
        for rule in near.into_iter().filter_map(|number| rules.get(number)) {
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
                    overlapping.push(Rule { action: Action::Deny, ..(*rule).clone() });
                }
                _ => {}
            }
        }
    }
    without_repetition(overlapping)
}

/// The same without rules that change nothing: those that a later one covers, and those that say what holds anyway.
fn without_repetition(rules: Vec<Rule>) -> Vec<Rule> {
    let (mut last, mut index): (Vec<Rule>, _) = (Vec::new(), RuleIndex::default());
    for rule in rules.into_iter().rev() {
        let later = index.around(&rule).into_iter().filter_map(|number| last.get(number));
        if !later.into_iter().any(|later| encloses(later, &rule)) {
            index.insert(&rule, last.len());
            last.push(rule);
        }
    }
    let (mut kept, mut index): (Vec<Rule>, _) = (Vec::new(), RuleIndex::default());
    for rule in last.into_iter().rev() {
        let apart = |other: &&Rule| {
            is_none(overlap(&other.permission, &rule.permission, EFFORT))
                || is_none(overlap(&other.pattern, &rule.pattern, EFFORT))
        };
        let mut near = index.near(&rule).into_iter().rev().filter_map(|number| kept.get(number));
        let before = near.find(|other| !apart(other));
        if !before.is_some_and(|before| before.action == rule.action && encloses(before, &rule)) {
            index.insert(&rule, kept.len());
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

    /// What [`bounded`] says, told as it is meant: each rule with each bound, and then each with all others.
    fn bounded_one_by_one(rules: &[Rule], bounds: &[Rule]) -> Vec<Rule> {
        let (open, unsaid) = (Rule::new("*", "*", Action::Allow), Rule::new("*", "*", Action::Ask));
        let mut all: Vec<Rule> = Vec::new();
        for bound in [&open].into_iter().chain(bounds) {
            let rules = if bound.action == Action::Deny { &[] } else { rules };
            for rule in [&unsaid].into_iter().chain(rules) {
                let action = bound.action.stricter(rule.action);
                for permission in overlap(&bound.permission, &rule.permission, EFFORT).unwrap() {
                    let patterns = overlap(&bound.pattern, &rule.pattern, EFFORT).unwrap();
                    all.extend(patterns.iter().map(|pattern| Rule::new(&permission, pattern, action)));
                }
            }
        }
        let mut last: Vec<Rule> = Vec::new();
        for rule in all.into_iter().rev() {
            if !last.iter().any(|later| encloses(later, &rule)) {
                last.push(rule);
            }
        }
        let mut kept: Vec<Rule> = Vec::new();
        for rule in last.into_iter().rev() {
            let meets = |other: &&Rule| {
                overlap(&other.permission, &rule.permission, EFFORT) != Some(Vec::new())
                    && overlap(&other.pattern, &rule.pattern, EFFORT) != Some(Vec::new())
            };
            let before = kept.iter().rev().find(meets);
            if !before.is_some_and(|before| before.action == rule.action && encloses(before, &rule)) {
                kept.push(rule);
            }
        }
        kept
    }

    /// Lists in which most rules have nothing to do with each other, as in those that people write.
    fn long_list() -> impl Strategy<Value = Vec<Rule>> {
        let action = prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
        let permission = prop::sample::select(vec!["*", "p", "pq", "p*", "*q", "pq_a", "pq_*", "?", "r"]);
        let pieces = vec!["a", "ab", "a/", "a\\", "b", "é", " ", "*", "*", "?", " *", ".e"];
        let pattern =
            prop::collection::vec(prop::sample::select(pieces), 1..5).prop_map(|pieces| pieces.concat());
        let rule = (permission, pattern, action).prop_map(|(p, w, a)| Rule::new(p, &w, a));
        prop::collection::vec(rule, 0..12)
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

        #[test]
        fn rules_that_are_not_looked_at_change_nothing(own in long_list(), bounds in long_list()) {
            prop_assert_eq!(bounded(&own, &bounds), bounded_one_by_one(&own, &bounds));
        }
    }
}
