//! Unified diffs in the shape that clients already parse.
//!
//! Two spellings of the file header exist in recorded sessions: file tools write the bare path, snapshots end
//! it with a tab. Hunk headers always carry both counts, and an empty side starts at line 0.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use similar::{ChangeTag, TextDiff};

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
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize()
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
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_slices(&old, &new);
    for group in diff.grouped_ops(context) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        patch.text.push_str(&format!("@@ -{} +{} @@\n", span(&old), span(&new)));
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
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
    use super::*;

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
