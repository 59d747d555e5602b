//! The rules that hold for the calls of a session, in layers.
//!
//! Rules come from several hands: what an agent is for, what the person has configured, what a project brings, what a
//! session was given, what another program's session brought along. In one list, of which the last match wins, whoever
//! speaks last could loosen what was said before. A policy therefore has one list in which later rules refine earlier
//! ones, and **bounds** around it: each is a list of its own, and of all of them the strictest word applies. Whatever
//! is added to a policy as a bound can only make it stricter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reach::denies_below;
use super::{Action, Rule, bounded, last_match, last_rule, matches};

/// What may be done, what is asked for and what is not done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The last one that matches counts; without a match the answer is to ask.
    #[serde(default)]
    rules: Vec<Rule>,
    /// What none of the rules can loosen. Of each list the last match counts; what a list does not mention it does not
    /// bind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bounds: Vec<Arc<[Rule]>>,
}

impl Policy {
    /// A policy of rules that nothing bounds.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, bounds: Vec::new() }
    }

    /// The same with further rules, which refine those that are there.
    #[must_use]
    pub fn refined(mut self, rules: &[Rule]) -> Self {
        self.rules.extend_from_slice(rules);
        self
    }

    /// The same, and nothing that these rules do not allow.
    #[must_use]
    pub fn within(mut self, bound: impl Into<Arc<[Rule]>>) -> Self {
        let bound = bound.into();
        if !bound.is_empty() && !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
        self
    }

    /// The same, and nothing that another policy denies. What that one asks about or allows changes nothing.
    #[must_use]
    pub fn without_denied_by(self, other: &Self) -> Self {
        other.lists().map(denials).fold(self, Self::within)
    }

    /// How long all of its rules are, in bytes of their texts.
    #[must_use]
    pub fn size(&self) -> usize {
        self.lists().flatten().map(|rule| rule.permission.len() + rule.pattern.len()).sum()
    }

    fn lists(&self) -> impl Iterator<Item = &[Rule]> {
        [&self.rules[..]].into_iter().chain(self.bounds.iter().map(|bound| &**bound))
    }

    /// Decides about one action on several resources: the strictest word on any of them. `approved` is what people have
    /// allowed with *always*: it answers what would be asked, and changes nothing about what is denied.
    #[must_use]
    pub fn decide(&self, approved: &[Rule], permission: &str, resources: &[String]) -> Action {
        let any = ["*".to_owned()];
        let resources = if resources.is_empty() { &any[..] } else { resources };
        let verdicts = resources.iter().map(|resource| match self.verdict(permission, resource) {
            Action::Ask => last_match(approved, permission, resource).unwrap_or(Action::Ask),
            decided => decided,
        });
        verdicts.max_by_key(|action| action.strictness()).unwrap_or(Action::Ask)
    }

    /// The same for what nobody means who allows everything: a rule whose name is a pattern does not allow it, and
    /// neither does such an approval. What they forbid they forbid.
    #[must_use]
    pub fn decide_named(&self, approved: &[Rule], permission: &str, resources: &[String]) -> Action {
        let naming = |rules: &[Rule]| -> Vec<Rule> {
            let names = |rule: &&Rule| rule.action != Action::Allow || rule.permission == permission;
            rules.iter().filter(names).cloned().collect()
        };
        let bounds = self.bounds.iter().map(|bound| naming(bound).into()).collect();
        Self { rules: naming(&self.rules), bounds }.decide(&naming(approved), permission, resources)
    }

    fn verdict(&self, permission: &str, resource: &str) -> Action {
        let own = last_match(&self.rules, permission, resource).unwrap_or(Action::Ask);
        let bounds = self.bounds.iter().filter_map(|bound| last_match(bound, permission, resource));
        bounds.fold(own, Action::stricter)
    }

    /// Whether what is asked about one action is asked by rules that mean another one as well, so that an answer about that
    /// one can be an answer about both. Nobody has asked where no rule is about it.
    #[must_use]
    pub fn asks_alike(&self, permission: &str, other: &str, resources: &[String]) -> bool {
        let asks = |rules, resource: &String| {
            last_rule(rules, permission, resource).filter(|rule| rule.action == Action::Ask)
        };
        let mut asking =
            resources.iter().flat_map(|resource| self.lists().filter_map(move |rules| asks(rules, resource)));
        asking.all(|rule| matches(&rule.permission, other))
    }

    /// Whether something that begins with a text is denied, whatever else of it is allowed.
    #[must_use]
    pub fn denies_below(&self, permission: &str, beginning: &str) -> bool {
        self.lists().any(|rules| denies_below(rules, permission, beginning))
    }

    /// Whether the rule that counts, or the approval, allows something by a pattern that begins with a text: by naming it, and
    /// not because everything is allowed.
    #[must_use]
    pub fn allows_by_name(&self, approved: &[Rule], permission: &str, resource: &str, text: &str) -> bool {
        let names = |rules: &[Rule]| {
            last_rule(rules, permission, resource)
                .is_some_and(|rule| rule.action == Action::Allow && rule.pattern.starts_with(text))
        };
        names(&self.rules) || names(approved)
    }

    /// True when a tool is not even shown to the model: nothing of it is allowed or asked about.
    #[must_use]
    pub fn hides(&self, permission: &str) -> bool {
        self.lists().any(|rules| hides(rules, permission))
    }

    /// The same as one list of rules, for those who know nothing else: sessions of subagents, and clients.
    #[must_use]
    pub fn flattened(&self) -> Vec<Rule> {
        self.bounds.iter().fold(self.rules.clone(), |rules, bound| bounded(&rules, bound))
    }
}

/// What of somebody's rules nothing may loosen: where they say *deny*, and the exceptions that they make of it
/// themselves.
#[must_use]
pub fn denials(rules: &[Rule]) -> Vec<Rule> {
    if rules.iter().all(|rule| rule.action != Action::Deny) {
        return Vec::new();
    }
    let exception = |rule: &Rule| match rule.action {
        Action::Deny => rule.clone(),
        Action::Allow | Action::Ask => Rule { action: Action::Allow, ..rule.clone() },
    };
    rules.iter().map(exception).collect()
}

/// A rule for the action denies everything, and no later one allows or asks about a part of it.
fn hides(rules: &[Rule], permission: &str) -> bool {
    let mut last = rules.iter().rev().filter(|rule| matches(&rule.permission, permission));
    last.find(|rule| rule.action != Action::Deny || rule.pattern == "*")
        .is_some_and(|rule| rule.action == Action::Deny)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(permission: &str, pattern: &str, action: Action) -> Rule {
        Rule::new(permission, pattern, action)
    }

    fn check(policy: &Policy, approved: &[Rule], permission: &str, resource: &str) -> Action {
        policy.decide(approved, permission, &[resource.to_owned()])
    }

    #[test]
    fn last_match_wins_and_the_default_is_to_ask() {
        let policy = Policy::new(vec![rule("*", "*", Action::Allow), rule("read", "*.env", Action::Ask)])
            .refined(&[rule("read", "*.env.example", Action::Allow)]);
        for (resource, expected) in
            [("a.txt", Action::Allow), (".env", Action::Ask), (".env.example", Action::Allow)]
        {
            assert_eq!(check(&policy, &[], "read", resource), expected, "{resource}");
        }
        assert_eq!(check(&Policy::default(), &[], "bash", "rm -rf /"), Action::Ask);
    }

    #[test]
    fn any_deny_beats_any_ask_beats_allow() {
        let policy = Policy::new(vec![
            rule("edit", "*", Action::Allow),
            rule("edit", "b", Action::Ask),
            rule("edit", "c", Action::Deny),
        ]);
        let on = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            policy.decide(&[], "edit", &names)
        };
        assert_eq!(
            [on(&["a"]), on(&["a", "b"]), on(&["a", "b", "c"])],
            [Action::Allow, Action::Ask, Action::Deny]
        );
        assert_eq!(policy.decide(&[], "edit", &[]), Action::Allow);
    }

    #[test]
    fn what_a_person_denies_no_name_with_a_pattern_in_it_allows() {
        // A project's `"bas?": "allow"`, and a session's rules after it, beat the person's own deny.
        let person = [rule("bash", "*", Action::Deny), rule("bash", "git *", Action::Ask)];
        let policy = Policy::new(vec![rule("*", "*", Action::Allow)])
            .refined(&person)
            .refined(&[rule("bas?", "*", Action::Allow), rule("*", "*", Action::Allow)])
            .within(denials(&person));
        let approved = [rule("*", "*", Action::Allow)];
        assert_eq!(check(&policy, &approved, "bash", "ls"), Action::Deny);
        // What the person leaves to a question may be answered by others.
        assert_eq!(check(&policy, &[], "bash", "git log"), Action::Allow);
        assert_eq!(check(&policy, &[], "edit", "a"), Action::Allow);
        assert!(!policy.hides("bash"));
        assert!(policy.within([rule("b*", "*", Action::Deny)]).hides("bash"));
    }

    #[test]
    fn an_approval_answers_a_question_and_nothing_else() {
        let asking =
            Policy::new(vec![rule("*", "*", Action::Allow)]).within([rule("bash", "*", Action::Ask)]);
        let approved = [rule("bash", "npm *", Action::Allow)];
        assert_eq!(check(&asking, &approved, "bash", "npm test"), Action::Allow);
        assert_eq!(check(&asking, &approved, "bash", "ls"), Action::Ask);
        let denying = Policy::new(vec![rule("bash", "rm *", Action::Deny)]);
        assert_eq!(
            check(&denying, &[rule("bash", "*", Action::Allow)], "bash", "rm -rf build"),
            Action::Deny
        );
        assert_eq!(check(&denying, &[rule("bash", "*", Action::Allow)], "bash", "ls"), Action::Allow);
    }

    #[test]
    fn what_must_be_named_is_allowed_by_its_name_alone() {
        use Action::{Allow, Ask, Deny};
        let base = [rule("*", "*", Allow), rule("leave", "*", Ask)];
        let cases: [(&[Rule], Action); 8] = [
            (&[], Ask),
            (&[rule("*", "*", Allow)], Ask),
            (&[rule("leav?", "make", Allow)], Ask),
            (&[rule("leave", "*", Allow)], Allow),
            (&[rule("leave", "make", Allow), rule("*", "*", Allow)], Allow),
            (&[rule("leave", "ls", Allow)], Ask),
            (&[rule("leave", "*", Allow), rule("*", "*", Deny)], Deny),
            (&[rule("leave", "*", Deny), rule("*", "*", Allow)], Deny),
        ];
        for (person, expected) in cases {
            let policy = Policy::new(base.to_vec()).refined(person);
            let decide = |approved: &[Rule]| policy.decide_named(approved, "leave", &["make".to_owned()]);
            assert_eq!(decide(&[]), expected, "{person:?}");
            assert_eq!(decide(&[rule("*", "*", Allow)]), expected, "{person:?}");
            let answered = if expected == Ask { Allow } else { expected };
            assert_eq!(decide(&[rule("leave", "make", Allow)]), answered, "{person:?}");
        }
        // Who works for somebody who must ask has to ask as well.
        let parent = Policy::new(base.to_vec()).refined(&[rule("*", "*", Allow)]).flattened();
        let child = Policy::new(vec![rule("leave", "*", Allow)]).within(parent);
        assert_eq!(child.decide_named(&[], "leave", &["make".to_owned()]), Ask);
    }

    #[test]
    fn what_is_allowed_with_everything_is_not_named() {
        use Action::{Allow, Ask};
        let check = |rules: &[Rule], approved: &[Rule]| {
            let policy = Policy::new(vec![rule("*", "*", Allow)]).refined(rules);
            policy.allows_by_name(approved, "bash", "(runs) sh -c x", "(runs) ")
        };
        assert!(!check(&[], &[]));
        assert!(!check(&[], &[rule("bash", "*", Allow)]));
        assert!(check(&[], &[rule("bash", "(runs) sh -c x", Allow)]));
        assert!(check(&[rule("bash", "(runs) *", Allow)], &[]));
        assert!(!check(&[rule("bash", "(runs) perl *", Allow)], &[]));
        assert!(!check(&[rule("bash", "(runs) *", Allow), rule("bash", "*", Allow)], &[]));
        assert!(!check(&[rule("bash", "(runs) *", Ask)], &[]));
    }

    #[test]
    fn a_question_by_name_is_one_of_its_own() {
        use Action::{Allow, Ask, Deny};
        let base = [rule("*", "*", Allow)];
        let check = |rules: &[Rule], bounds: &[Rule]| {
            let policy = Policy::new(base.to_vec()).refined(rules).within(bounds);
            policy.asks_alike("network", "bash", &["ls".to_owned(), "make".to_owned()])
        };
        assert!(check(&[rule("*", "*", Ask)], &[]));
        assert!(check(&[rule("network", "*", Ask), rule("*", "*", Ask)], &[]));
        assert!(!check(&[rule("*", "*", Ask), rule("network", "make", Ask)], &[]));
        assert!(!check(&[rule("net*", "*", Ask)], &[]));
        assert!(check(&[rule("network", "*", Allow)], &[rule("*", "*", Ask)]));
        assert!(!check(&[rule("*", "*", Ask)], &[rule("network", "*", Ask)]));
        assert!(check(&[rule("*", "*", Ask)], &[rule("network", "*", Deny)]));
        assert!(Policy::default().asks_alike("network", "bash", &["ls".to_owned()]));
    }

    #[test]
    fn a_tool_is_hidden_only_by_a_last_rule_that_denies_everything() {
        let denied = Policy::new(vec![rule("*", "*", Action::Allow), rule("task", "*", Action::Deny)]);
        assert!(denied.hides("task") && !denied.hides("bash"));
        assert!(!denied.refined(&[rule("task", "explore", Action::Allow)]).hides("task"));
    }

    fn rules() -> impl Strategy<Value = Vec<Rule>> {
        let action = prop::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
        let permission = prop::sample::select(vec!["*", "p", "q", "p*", "?"]);
        let pattern = prop::sample::select(vec!["*", "a", "a*", "*b", "?b", "a *", "b"]);
        let rule = (permission, pattern, action).prop_map(|(p, w, a)| Rule::new(p, w, a));
        prop::collection::vec(rule, 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

        /// Whatever agents, projects, sessions, imports and approvals say, in whatever order.
        #[test]
        fn nothing_is_looser_than_what_the_person_denied(
            person in rules(),
            before in rules(),
            after in prop::collection::vec(rules(), 0..4),
            others in prop::collection::vec(rules(), 0..4),
            approved in rules(),
            text in "[ab ]{0,3}",
            p in "p|q|pq",
        ) {
            let mut policy = Policy::new(before).refined(&person);
            for rules in &after {
                policy = policy.refined(rules);
            }
            policy = policy.within(denials(&person));
            for bound in others {
                policy = policy.within(bound);
            }
            if last_match(&person, &p, &text) == Some(Action::Deny) {
                prop_assert_eq!(check(&policy, &approved, &p, &text), Action::Deny);
            }
        }

        #[test]
        fn a_bound_never_allows_more(
            own in rules(),
            bounds in prop::collection::vec(rules(), 0..3),
            added in rules(),
            approved in rules(),
            text in "[ab ]{0,3}",
            p in "p|q|pq",
        ) {
            let policy = bounds.into_iter().fold(Policy::new(own), Policy::within);
            // An approval is an allow.
            let approved: Vec<Rule> =
                approved.into_iter().map(|rule| Rule { action: Action::Allow, ..rule }).collect();
            let bound = policy.clone().within(added.clone());
            let (before, after) = (check(&policy, &approved, &p, &text), check(&bound, &approved, &p, &text));
            prop_assert!(after.strictness() >= before.strictness());
            if last_match(&added, &p, &text) == Some(Action::Deny) {
                prop_assert_eq!(after, Action::Deny);
            }
            // One list says the same, where nothing was approved.
            let one = Policy::new(bound.flattened());
            prop_assert_eq!(check(&one, &[], &p, &text), check(&bound, &[], &p, &text));
        }

        #[test]
        fn what_another_policy_denies_is_denied_and_nothing_else_changes(
            own in rules(),
            other in rules(),
            bounds in prop::collection::vec(rules(), 0..3),
            approved in rules(),
            text in "[ab ]{0,3}",
            p in "p|q|pq",
        ) {
            let policy = Policy::new(own);
            let other = bounds.into_iter().fold(Policy::new(other), Policy::within);
            let denied = check(&other, &[], &p, &text) == Action::Deny;
            let expected = if denied { Action::Deny } else { check(&policy, &approved, &p, &text) };
            prop_assert_eq!(check(&policy.without_denied_by(&other), &approved, &p, &text), expected);
        }

        #[test]
        fn a_name_that_is_needed_allows_less(
            own in rules(),
            bounds in prop::collection::vec(rules(), 0..3),
            approved in rules(),
            text in "[ab ]{0,3}",
            p in "p|q|pq",
        ) {
            let names = own.iter().chain(&approved).any(|rule| rule.permission == p);
            let policy = bounds.into_iter().fold(Policy::new(own), Policy::within);
            // An approval is an allow.
            let approved: Vec<Rule> =
                approved.into_iter().map(|rule| Rule { action: Action::Allow, ..rule }).collect();
            let named = policy.decide_named(&approved, &p, std::slice::from_ref(&text));
            prop_assert!(named.strictness() >= check(&policy, &approved, &p, &text).strictness());
            prop_assert!(names || named != Action::Allow);
        }

        #[test]
        fn denials_are_what_is_denied(person in rules(), text in "[ab ]{0,3}", p in "p|q|pq") {
            let denied = last_match(&person, &p, &text) == Some(Action::Deny);
            prop_assert_eq!(last_match(&denials(&person), &p, &text) == Some(Action::Deny), denied);
        }
    }
}
