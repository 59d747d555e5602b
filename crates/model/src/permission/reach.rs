//! What a list of rules says about everything that begins with a text, such as a folder and all that is in it.

use super::{Action, Rule, glob, matches};

/// Whether a list denies something that begins with a text. What later rules make an exception of as a whole is not denied.
pub(super) fn denies_below(rules: &[Rule], permission: &str, beginning: &str) -> bool {
    // A rule for a folder may name it without what is in it.
    let itself = beginning.trim_end_matches('/');
    let beginning = normal(beginning);
    for rule in rules.iter().rev().filter(|rule| matches(&rule.permission, permission)) {
        let pattern = normal(&rule.pattern);
        // What matches the beginning and ends with a star matches whatever follows.
        if pattern.last() == Some(&'*') && glob(&pattern, &beginning) {
            return rule.action == Action::Deny;
        }
        let short = rule.pattern.strip_suffix(" *").map(normal);
        let reaches = [Some(pattern), short].into_iter().flatten().any(|p| reaches(&p, &beginning));
        if rule.action == Action::Deny && (reaches || matches(&rule.pattern, itself)) {
            return true;
        }
    }
    false
}

fn normal(text: &str) -> Vec<char> {
    text.chars().map(|c| if c == '\\' { '/' } else { c }).collect()
}

/// Whether a wildcard matches any text that begins so: whether something of it is left to go on with at the end.
fn reaches(pattern: &[char], beginning: &[char]) -> bool {
    let mut at = vec![false; pattern.len() + 1];
    if let Some(first) = at.first_mut() {
        *first = true;
    }
    skip_stars(pattern, &mut at);
    for letter in beginning {
        let mut next = vec![false; pattern.len() + 1];
        for (index, one) in pattern.iter().enumerate().filter(|(index, _)| at.get(*index) == Some(&true)) {
            let follows = if *one == '*' { index } else { index + 1 };
            if (*one == '*' || *one == '?' || one == letter)
                && let Some(next) = next.get_mut(follows)
            {
                *next = true;
            }
        }
        skip_stars(pattern, &mut next);
        at = next;
    }
    at.contains(&true)
}

/// A star may be nothing at all.
fn skip_stars(pattern: &[char], at: &mut [bool]) {
    for (index, _) in pattern.iter().enumerate().filter(|(_, one)| **one == '*') {
        if at.get(index) == Some(&true)
            && let Some(after) = at.get_mut(index + 1)
        {
            *after = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_of_a_part_counts_for_the_whole() {
        use Action::{Allow, Ask, Deny};
        let check = |rules: &[(&str, Action)], beginning: &str, expected: bool| {
            let list: Vec<Rule> =
                rules.iter().map(|(pattern, action)| Rule::new("x", pattern, *action)).collect();
            assert_eq!(denies_below(&list, "x", beginning), expected, "{rules:?} {beginning}");
            assert!(!denies_below(&list, "y", beginning));
        };
        check(&[], "/a/", false);
        check(&[("*", Deny)], "/a/", true);
        check(&[("*", Deny), ("/a/*", Allow)], "/a/", false);
        check(&[("*", Deny), ("/a/b/*", Allow)], "/a/", true);
        check(&[("*", Deny), ("/a/ *", Ask)], "/a/", true);
        check(&[("*", Allow), ("/a/b/*", Deny)], "/a/", true);
        check(&[("*", Allow), ("/a/b/*", Deny)], "/a/b/c/", true);
        check(&[("*", Allow), ("/a/b/*", Deny)], "/a/c/", false);
        check(&[("/a/b", Deny)], "/a/", true);
        check(&[("/a/b *", Deny)], "/a/b", true);
        check(&[("*/keys/*", Deny)], "/a/", true);
        check(&[("/?/b*d", Deny)], "/a/b/", true);
        check(&[("/?/b", Deny)], "/a/b/", true);
        check(&[("/?/b", Deny)], "/a/bc/", false);
        check(&[("*", Deny), ("/a/b", Allow)], "/a/b/", true);
        check(&[("/a/b/*", Deny), ("/a/*", Ask)], "/a/", false);
        check(&[("rm *", Deny)], "", true);
        check(&[("rm *", Deny), ("*", Ask)], "", false);
    }
}
