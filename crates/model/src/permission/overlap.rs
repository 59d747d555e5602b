//! What two wildcards have in common.

use super::matches;

/// The most steps to find out what two wildcards have in common.
pub(super) const EFFORT: usize = 10_000;

/// What every text begins with that a wildcard matches.
pub(super) fn fixed_beginning(wildcard: &str) -> impl Iterator<Item = u8> {
    // Its last ` *` may be missing.
    let bytes = wildcard.strip_suffix(" *").unwrap_or(wildcard).bytes();
    bytes.take_while(is_fixed).map(plain)
}

/// What every text ends with that a wildcard matches, from its end.
pub(super) fn fixed_ending(wildcard: &str) -> impl Iterator<Item = u8> {
    wildcard.bytes().rev().take_while(is_fixed).map(plain)
}

fn is_fixed(byte: &u8) -> bool {
    !matches!(byte, b'*' | b'?')
}

fn plain(byte: u8) -> u8 {
    if byte == b'\\' { b'/' } else { byte }
}

/// Whether two wildcards differ before either has room for other text, so that they have nothing in common. Most of those
/// that are compared are told apart by this.
fn differ_at_once(one: &str, other: &str) -> bool {
    let differ = |(one, other): (u8, u8)| one != other;
    fixed_beginning(one).zip(fixed_beginning(other)).any(differ)
        || fixed_ending(one).zip(fixed_ending(other)).any(differ)
}

/// Whether one wildcard surely matches all that another one does.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    if differ_at_once(wide, narrow) {
        return false;
    }
    // One character is not any text, although it matches the star that means it.
    let holds = |narrow: &str| !wide.contains('?') && matches(wide, narrow);
    wide == narrow || (holds(narrow) && narrow.strip_suffix(" *").is_none_or(holds))
}

/// The wildcards that together match what both of two match; nothing if that takes too long to find out.
pub(super) fn overlap(one: &str, other: &str, effort: usize) -> Option<Vec<String>> {
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
    use super::*;

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
}
