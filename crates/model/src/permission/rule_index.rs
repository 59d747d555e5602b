//! Rules by what they begin and end with: of many rules only a few have anything to do with one, and only those are looked
//! at.
//!
//! A wildcard that begins with `git ` has nothing in common with one that begins with `npm `, and one that ends in `.env`
//! nothing with one that ends in `.rs`. So the rules are kept in the order of what is fixed at either end, first of their
//! permissions and then of their patterns. What comes out is never too little: who asks compares it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::Rule;
use super::overlap::{fixed_beginning, fixed_ending};

/// Rules by permission and pattern, each known by its number.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    permissions: WildcardIndex,
    /// The rules of each permission.
    patterns: Vec<WildcardIndex>,
    numbers: HashMap<String, usize>,
}

impl RuleIndex {
    /// All of a list, by their places in it.
    pub(super) fn of<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Self {
        let mut index = Self::default();
        for (number, rule) in rules.into_iter().enumerate() {
            index.insert(rule, number);
        }
        index
    }

    pub(super) fn insert(&mut self, rule: &Rule, number: usize) {
        let group = self.numbers.get(&rule.permission).copied().unwrap_or_else(|| {
            let group = self.patterns.len();
            self.numbers.insert(rule.permission.clone(), group);
            self.permissions.insert(&rule.permission, group);
            self.patterns.push(WildcardIndex::default());
            group
        });
        if let Some(patterns) = self.patterns.get_mut(group) {
            patterns.insert(&rule.pattern, number);
        }
    }

    /// Those that may have something in common with a rule, in their order.
    pub(super) fn near(&self, rule: &Rule) -> Vec<usize> {
        self.select(rule, WildcardIndex::near)
    }

    /// Those that may be about all that a rule is about, in their order.
    pub(super) fn around(&self, rule: &Rule) -> Vec<usize> {
        self.select(rule, WildcardIndex::around)
    }

    fn select(&self, rule: &Rule, of: fn(&WildcardIndex, &str) -> Vec<usize>) -> Vec<usize> {
        let groups = of(&self.permissions, &rule.permission).into_iter();
        let patterns = groups.filter_map(|group| self.patterns.get(group));
        let mut found: Vec<usize> = patterns.flat_map(|patterns| of(patterns, &rule.pattern)).collect();
        found.sort_unstable();
        found
    }
}

/// Wildcards by both of their ends.
#[derive(Debug, Default)]
struct WildcardIndex {
    beginnings: FixedTexts,
    endings: FixedTexts,
}

impl WildcardIndex {
    fn insert(&mut self, wildcard: &str, number: usize) {
        self.beginnings.0.entry(fixed_beginning(wildcard).collect()).or_default().push(number);
        self.endings.0.entry(fixed_ending(wildcard).collect()).or_default().push(number);
    }

    /// Those of which neither end differs from that of a wildcard.
    fn near(&self, wildcard: &str) -> Vec<usize> {
        let (beginning, ending) = ends(wildcard);
        shorter(
            self.beginnings.shorter(&beginning).chain(self.beginnings.longer(&beginning)),
            self.endings.shorter(&ending).chain(self.endings.longer(&ending)),
        )
    }

    /// Those of which no end says more than that of a wildcard.
    fn around(&self, wildcard: &str) -> Vec<usize> {
        let (beginning, ending) = ends(wildcard);
        shorter(self.beginnings.shorter(&beginning), self.endings.shorter(&ending))
    }
}

fn ends(wildcard: &str) -> (Vec<u8>, Vec<u8>) {
    (fixed_beginning(wildcard).collect(), fixed_ending(wildcard).collect())
}

/// The one of two that ends first.
fn shorter(mut one: impl Iterator<Item = usize>, mut other: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    loop {
        match one.next() {
            Some(number) => ones.push(number),
            None => return ones,
        }
        match other.next() {
            Some(number) => others.push(number),
            None => return others,
        }
    }
}

/// Texts in order, with the numbers of those that have them.
#[derive(Debug, Default)]
struct FixedTexts(BTreeMap<Vec<u8>, Vec<usize>>);

impl FixedTexts {
    /// Those that a text begins with, itself among them.
    fn shorter<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = usize> + 't {
        let mut rest = Some(text);
        let keys = std::iter::from_fn(move || {
            loop {
                let (known, numbers) =
                    self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(rest?))).next_back()?;
                let common = known.iter().zip(text).take_while(|(one, other)| one == other).count();
                let is_whole = common == known.len();
                // What lies between is no beginning: it would come after the one that was found.
                rest = if is_whole { common.checked_sub(1) } else { Some(common) }
                    .and_then(|length| text.get(..length));
                if is_whole {
                    return Some(numbers);
                }
            }
        });
        keys.flatten().copied()
    }

    /// Those that begin with a text and go on.
    fn longer<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = usize> + 't {
        let after = self.0.range::<[u8], _>((Bound::Excluded(text), Bound::Unbounded));
        after.take_while(move |(known, _)| known.starts_with(text)).flat_map(|(_, numbers)| numbers).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::Action;

    fn rules(patterns: impl Iterator<Item = String>, permission: &str) -> Vec<Rule> {
        patterns.map(|pattern| Rule::new(permission, &pattern, Action::Ask)).collect()
    }

    #[test]
    fn only_what_may_matter_is_looked_at() {
        // With all of them against all, the agents of a person with a thousand rules took minutes to be listed.
        let names = || 1000..2000;
        let lists = [
            rules(names().map(|name| format!("run{name} *")), "bash"),
            rules(names().map(|name| format!("run{name}")), "bash"),
            rules(names().map(|name| format!("*.{name}")), "edit"),
            rules(names().map(|name| format!("src/*.{name}")), "edit"),
            rules(names().map(|name| format!("{name}/*.rs")), "edit"),
            names().map(|name| Rule::new(&format!("tool_{name}"), "*", Action::Ask)).collect(),
            names().map(|name| Rule::new(&format!("server{name}_*"), "*", Action::Ask)).collect(),
        ];
        for rules in lists {
            let index = RuleIndex::of(&rules);
            for (number, rule) in rules.iter().enumerate() {
                assert_eq!((index.near(rule), index.around(rule)), (vec![number], vec![number]), "{rule:?}");
            }
        }
    }

    #[test]
    fn what_may_matter_is_found() {
        let patterns = ["*", "gi", "git", "git *", "git log", "git log *", "gx", "npm *"];
        let rules = rules(patterns.into_iter().map(str::to_owned), "bash");
        let index = RuleIndex::of(&rules);
        let check = |pattern: &str, near: &[&str], around: &[&str]| {
            let shown = |numbers: Vec<usize>| -> Vec<&str> {
                numbers.into_iter().filter_map(|number| patterns.get(number)).copied().collect()
            };
            let rule = Rule::new("ba*", pattern, Action::Ask);
            assert_eq!(shown(index.near(&rule)), near, "{pattern}");
            let rule = Rule::new("bash", pattern, Action::Ask);
            assert_eq!(shown(index.around(&rule)), around, "{pattern}");
        };
        check("*", &patterns, &["*"]);
        check("git *", &["*", "gi", "git", "git *", "git log", "git log *"], &["*", "gi", "git", "git *"]);
        check(
            "git log -*",
            &["*", "gi", "git", "git *", "git log", "git log *"],
            &["*", "git *", "git log *", "npm *"],
        );
        check("g?x", &["*", "git *", "git log *", "gx", "npm *"], &["*"]);
        check("git push", &["*", "gi", "git", "git *"], &["*", "gi", "git", "git *"]);
    }
}
