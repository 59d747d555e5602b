//! Unified diffs in the shape that clients already parse.
//!
//! Two spellings of the file header exist in recorded sessions: file tools write the bare path, snapshots end
//! it with a tab. Hunk headers always carry both counts, and an empty side starts at line 0.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

/// Unchanged lines around a change.
const CONTEXT: usize = 4;

/// The rule under the `Index:` line.
const RULE: &str = "===================================================================";

/// After this long a diff may be coarser than the best one, so that no file can hold up a turn.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How a file's header lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The bare path, as `write` and `edit` record it.
    Bare,
    /// The path and a tab, as snapshots record it.
    Tabbed,
}

/// What became of a file between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It exists only in the later state.
    Added,
    /// It exists only in the earlier state.
    Deleted,
    /// It exists in both and differs.
    Modified,
}

/// A patch and its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
pub fn unified(file: &str, before: &str, after: &str, header: Header) -> Patch {
    let end = match header {
        Header::Bare => "",
        Header::Tabbed => "\t",
    };
    let mut patch = Patch {
        text: format!("Index: {file}\n{RULE}\n--- {file}{end}\n+++ {file}{end}\n"),
        ..Patch::default()
    };
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_slices(&old, &new);
    for group in diff.grouped_ops(CONTEXT) {
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
    patch
}

/// One side of a hunk header: the first line, counted from 1, and the number of lines.
fn span(range: &std::ops::Range<usize>) -> String {
    let start = if range.is_empty() { range.start } else { range.start + 1 };
    format!("{start},{}", range.len())
}
