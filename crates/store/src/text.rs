//! Which text of an entry or a part people can search for.

use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::{Entry, Part};

/// The text of an entry itself, where its kind has one.
pub(crate) fn of_entry(entry: &Entry) -> Option<&str> {
    match &entry.body {
        Body::Synthetic { text, .. } => Some(text.as_deref().unwrap_or_default()),
        Body::Shell(shell) => Some(&shell.command),
        Body::Compaction(compaction) => Some(compaction.summary.as_deref().unwrap_or_default()),
        Body::BranchSummary { summary, .. } => Some(summary),
        Body::Label { label, .. } => Some(label.as_deref().unwrap_or_default()),
        _ => None,
    }
}

/// The text of a part, where its kind has one.
pub(crate) fn of_part(part: &Part) -> Option<&str> {
    match &part.kind {
        PartKind::Text { text, .. } => Some(text),
        _ => None,
    }
}
