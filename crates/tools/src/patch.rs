//! Unified diffs in the shape that clients already parse.
//!
//! Two spellings of the file header exist in recorded sessions: file tools write the bare path, snapshots end
//! it with a tab. Hunk headers always carry both counts, and an empty side starts at line 0.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use serde::{Deserialize, Serialize};
use similar::algorithms::{Capture, Compact, DiffHook as _, IdentifyDistinct, NoFinishHook, Replace, myers};
use similar::{ChangeTag, DiffOp, group_diff_ops};

use crate::bound;

/// Unchanged lines around a change.
const CONTEXT: usize = 4;

/// The same as git has it.
const GIT_CONTEXT: usize = 3;

/// The rule under the `Index:` line.
const RULE: &str = "===================================================================";

/// After this long a diff may be coarser than the best one, so that no file can hold up a turn.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The largest text, in bytes, that is shown as a diff to those who look at a call.
const SHOWN_BYTES: usize = 4 * 1024 * 1024;

/// The most lines of such a text.
const SHOWN_LINES: u64 = 200_000;

/// How a file's header lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchHeader {
    /// The bare path, as `write` and `edit` record it.
    Bare,
    /// The path and a tab, as snapshots record it.
    Tabbed,
}

/// What became of a file between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// It exists only in the later state.
    Added,
    /// It exists only in the earlier state.
    Deleted,
    /// It exists in both and differs.
    Modified,
}

/// A patch and its size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// The patch text.
    pub text: String,
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
}

/// The patch that turns `before` into `after`.
#[must_use]
pub fn unified(file: &str, before: &str, after: &str, header: PatchHeader) -> Patch {
    let end = match header {
        PatchHeader::Bare => "",
        PatchHeader::Tabbed => "\t",
    };
    let mut patch = Patch {
        text: format!("Index: {file}\n{RULE}\n--- {file}{end}\n+++ {file}{end}\n"),
        ..Patch::default()
    };
    hunks(&mut patch, before, after, CONTEXT, span);
    patch
}

/// The patch as those who look at a call are shown it: of a large file only how many lines changed, because the patch
/// would cost more time and memory than the change.
pub(crate) fn shown(file: &str, before: &str, after: &str) -> Patch {
    let large = |text: &str| text.len() > SHOWN_BYTES || bound::lines(text.as_bytes()) > SHOWN_LINES;
    if large(before) || large(after) {
        let (deletions, additions) = changed(before, after);
        return Patch { text: String::new(), additions, deletions };
    }
    unified(file, before, after, PatchHeader::Bare)
}

/// How many lines each of two texts has between those that both begin with and those that both end with.
fn changed(before: &str, after: &str) -> (usize, usize) {
    let (old, new) = (before.as_bytes(), after.as_bytes());
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let head = old.iter().take(same).rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let (old, new) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let begins = |text: &[u8]| text.len() == same || text.iter().rev().nth(same) == Some(&b'\n');
    let tail = if begins(old) && begins(new) {
        same
    } else {
        let cut = old.iter().skip(old.len() - same).position(|byte| *byte == b'\n');
        cut.map_or(0, |cut| same - cut - 1)
    };
    let lines = |text: &[u8]| {
        let middle = text.get(..text.len() - tail).unwrap_or_default();
        usize::try_from(bound::lines(middle)).unwrap_or(usize::MAX)
    };
    (lines(old), lines(new))
}

/// The same change as git prints it, for clients that parse git's form; none stands for a file that is not there.
#[must_use]
pub fn git(file: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
    let id = |content: Option<&[u8]>| content.map_or_else(|| "0000000".to_owned(), blob_id);
    let (old, new) = (id(before), id(after));
    let mut patch = Patch { text: format!("diff --git a/{file} b/{file}\n"), ..Patch::default() };
    let (from, to) = match (before, after) {
        (None, _) => {
            patch.text.push_str(&format!("new file mode 100644\nindex {old}..{new}\n"));
            ("/dev/null".to_owned(), format!("b/{file}"))
        }
        (_, None) => {
            patch.text.push_str(&format!("deleted file mode 100644\nindex {old}..{new}\n"));
            (format!("a/{file}"), "/dev/null".to_owned())
        }
        (Some(_), Some(_)) => {
            patch.text.push_str(&format!("index {old}..{new} 100644\n"));
            (format!("a/{file}"), format!("b/{file}"))
        }
    };
    let text = |content: Option<&[u8]>| std::str::from_utf8(content.unwrap_or_default()).map(str::to_owned);
    match (text(before), text(after)) {
        (Ok(before), Ok(after)) if before != after => {
            patch.text.push_str(&format!("--- {from}\n+++ {to}\n"));
            hunks(&mut patch, &before, &after, GIT_CONTEXT, git_span);
        }
        (Ok(_), Ok(_)) => {}
        _ => patch.text.push_str(&format!("Binary files {from} and {to} differ\n")),
    }
    patch.text
}

/// The first digits of the id that git gives to a content.
fn blob_id(content: &[u8]) -> String {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(format!("blob {}\0", content.len()).as_bytes());
    hash.update(content);
    hash.finish()
        .as_ref()
        .iter()
        .flat_map(|byte| format!("{byte:02x}").into_bytes())
        .take(7)
        .map(char::from)
        .collect()
}

fn hunks(
    patch: &mut Patch,
    before: &str,
    after: &str,
    context: usize,
    span: fn(&std::ops::Range<usize>) -> String,
) {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    for group in group_diff_ops(steps(&old, &new), context) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_span = first.old_range().start..last.old_range().end;
        let new_span = first.new_range().start..last.new_range().end;
        patch.text.push_str(&format!("@@ -{} +{} @@\n", span(&old_span), span(&new_span)));
        for change in group.iter().flat_map(|step| step.iter_changes(&old, &new)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => {
                    patch.deletions += 1;
                    '-'
                }
                ChangeTag::Insert => {
                    patch.additions += 1;
                    '+'
                }
            };
            let line = change.value();
            let missing = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            write!(patch.text, "{sign}{line}{missing}").ok();
        }
    }
}

/// What turns some lines into others. Lines that changed are compared by number, the same one for the same line: the
/// library's own comparison of texts is built for each of the many ways to cut and to compare them, which is many times
/// as much code.
fn steps(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let end = old.iter().skip(start).rev().zip(new.iter().skip(start).rev());
    let end = end.take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let numbers = IdentifyDistinct::<u32>::new(old, start..old_end, new, start..new_end);
    let deadline = Instant::now().checked_add(TIMEOUT);
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let mut find = || {
        if start > 0 {
            found.equal(0, 0, start)?;
        }
        let (before, after) = (numbers.old_lookup(), numbers.new_lookup());
        let (old, new) = (numbers.old_range(), numbers.new_range());
        myers::diff_deadline(&mut NoFinishHook::new(&mut found), before, old, after, new, deadline)?;
        if end > 0 {
            found.equal(old_end, new_end, end)?;
        }
        found.finish()
    };
    match find() {
        Ok(()) => found.into_inner().into_inner().into_ops(),
    }
}

/// The same as git writes it: a count of one is left out.
fn git_span(range: &std::ops::Range<usize>) -> String {
    let start = if range.is_empty() { range.start } else { range.start + 1 };
    if range.len() == 1 { start.to_string() } else { format!("{start},{}", range.len()) }
}

/// One side of a hunk header: the first line, counted from 1, and the number of lines.
fn span(range: &std::ops::Range<usize>) -> String {
    let start = if range.is_empty() { range.start } else { range.start + 1 };
    format!("{start},{}", range.len())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use similar::TextDiff;

    use super::*;

    /// Lines of which many are the same, and the same with some of them cut out and others put in.
    fn versions() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let lines = |most: usize| vec(0..40u8, 0..most);
        let changes = vec((any::<prop::sample::Index>(), 0..20usize, lines(20)), 0..6);
        (lines(300), changes).prop_map(|(before, changes)| {
            let mut after = before.clone();
            for (at, cut, put) in changes {
                let at = at.index(after.len() + 1);
                let end = (at + cut).min(after.len());
                after.splice(at..end, put);
            }
            (before, after)
        })
    }

    proptest! {
        #[test]
        fn the_steps_are_those_of_a_comparison_of_texts((before, after) in versions()) {
            let text = |lines: &[u8]| lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>();
            let (before, after) = (text(&before), text(&after));
            let old: Vec<&str> = before.iter().map(String::as_str).collect();
            let new: Vec<&str> = after.iter().map(String::as_str).collect();
            let texts = TextDiff::configure().diff_slices(&old, &new);
            prop_assert_eq!(steps(&old, &new), texts.ops());
        }
    }

    #[test]
    fn of_a_large_file_only_the_counts_are_shown() {
        // A diff of many megabytes took minutes and gigabytes.
        let check = |before: &str, after: &str, deletions: usize, additions: usize| {
            assert_eq!(changed(before, after), (deletions, additions), "{before:?} {after:?}");
        };
        check("a\nb\nc\n", "a\nx\ny\nc\n", 1, 2);
        check("a\n", "a\na\n", 0, 1);
        check("a", "a\n", 1, 1);
        check("", "a\nb", 0, 2);
        check("b\n", "ab\n", 1, 1);
        check("a\nb\n", "a\nx\na\nb\n", 0, 2);
        let large = "line\n".repeat(200_000);
        assert_eq!(shown("f", &large, &large).text, unified("f", "", "", PatchHeader::Bare).text);
        let larger = format!("{large}end\n");
        let expected = Patch { text: String::new(), additions: 1, deletions: 0 };
        assert_eq!(shown("f", &large, &larger), expected);
    }

    #[test]
    fn each_hunk_has_the_lines_around_what_changed() {
        // Lines that both begin and end with are set aside first; each of these has another set of them.
        let check = |before: &str, after: &str, hunks: &str| {
            let head = unified("f", "", "", PatchHeader::Bare).text;
            assert_eq!(unified("f", before, after, PatchHeader::Bare).text, format!("{head}{hunks}"));
        };
        check("a\n", "a\n", "");
        check("", "a\nb", "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
        check("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n");
        check("a\nb\n", "x\na\nb\n", "@@ -1,2 +1,3 @@\n+x\n a\n b\n");
        check("a\nb\n", "a\nb\nx\n", "@@ -1,2 +1,3 @@\n a\n b\n+x\n");
        check("a\nb\nc\n", "x\nb\ny\n", "@@ -1,3 +1,3 @@\n-a\n+x\n b\n-c\n+y\n");
        // Which of several equal lines is new cannot be told; it is always the last that can be.
        check("a\na\nb\n", "a\na\na\nb\n", "@@ -1,3 +1,4 @@\n a\n a\n+a\n b\n");
        let (long, mut changed): (Vec<_>, Vec<_>) =
            (1..=30).map(|line| (format!("{line}\n"), format!("{line}\n"))).unzip();
        changed.splice(9..10, ["x\n".to_owned(), "5\n".to_owned()]);
        changed.remove(25);
        check(
            &long.concat(),
            &changed.concat(),
            "@@ -6,9 +6,10 @@\n 6\n 7\n 8\n 9\n-10\n+x\n+5\n 11\n 12\n 13\n 14\n\
             @@ -21,9 +22,8 @@\n 21\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n 29\n",
        );
    }

    #[test]
    fn git_writes_it_the_same() {
        // As recorded from a real `git diff` of this file.
        assert_eq!(
            git("w.txt", Some(b"written"), None),
            "diff --git a/w.txt b/w.txt\ndeleted file mode 100644\nindex 6301c09..0000000\n--- a/w.txt\n\
             +++ /dev/null\n@@ -1 +0,0 @@\n-written\n\\ No newline at end of file\n"
        );
        assert_eq!(
            git("x", None, Some(b"\xff")),
            "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..ce542ef\nBinary files /dev/null and b/x differ\n"
        );
    }
}
