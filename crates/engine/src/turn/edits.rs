//! Edits that were cut off: the files show whether such a call happened, so that it is neither lost nor made twice.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use everturn_model::tool::{FileForecast, Outcome, ToolResult};
use everturn_model::{EntryId, PartId, Tree, path};

use super::Turn;
use crate::background::blocking;
use crate::calls::{EditVerdict, SettledCall, ToolCall};
use crate::{Error, file_views};

/// What the model is told of an edit that happened although its result was never recorded.
const APPLIED: &str = "The process ended before the result of this call was recorded. The files are as the call was to \
leave them, so it took effect in full. It was not run again.";

/// What the calls of one turn were about to make of which files.
#[derive(Debug, Clone)]
pub(super) struct CutOffEdits(HashMap<PartId, Vec<FileForecast>>);

impl CutOffEdits {
    /// What is known of the calls of a turn that have not settled.
    pub(super) fn found(tree: &Tree, assistant: &EntryId) -> Self {
        let parts = tree.node(assistant).into_iter().flat_map(|node| &node.parts);
        let noted = parts.filter_map(|part| {
            let open = part.open.as_ref().filter(|open| open.begun)?;
            Some((part.id.clone(), open.forecast.clone()))
        });
        Self(noted.collect())
    }

    /// What the files say about each of these calls.
    pub(super) async fn verdicts(self, open: Vec<PartId>) -> Result<HashMap<PartId, EditVerdict>, Error> {
        let verdict = move |part: PartId| {
            let others = self.0.iter().filter(|(other, _)| **other != part);
            let others: BTreeSet<&str> =
                others.flat_map(|(_, files)| files).map(|file| file.path.as_str()).collect();
            let own = self.0.get(&part).map_or(&[][..], Vec::as_slice);
            let verdict = EditVerdict::of(own, &others);
            (part, verdict)
        };
        blocking(move || open.into_iter().map(verdict).collect()).await
    }

    /// The call as settled, with what the session now knows of the files.
    pub(super) fn settled(&self, turn: &Turn<'_>, call: ToolCall) -> SettledCall {
        let files = self.0.get(&call.part).map_or(&[][..], Vec::as_slice);
        let session = turn.session();
        turn.services.views.recall(&session.id, &path::to(&turn.tree, session.leaf.as_ref()));
        let seen = turn.services.views.of(&session.id);
        for file in files {
            match &file.after {
                Some(print) => seen.renew(Path::new(&file.path), print.clone()),
                None => seen.forget(Path::new(&file.path)),
            }
        }
        let names = files.iter().map(|file| {
            let path = Path::new(&file.path);
            path.strip_prefix(&session.directory).unwrap_or(path).display().to_string()
        });
        let mut result = ToolResult {
            title: Some(names.collect::<Vec<_>>().join(", ")),
            start: Some(call.start),
            end: Some(turn.services.journal.mint().now()),
            ..ToolResult::new(&call.id, &call.tool, Outcome::Completed, APPLIED)
        };
        file_views::store_in(&seen, &mut result);
        let edited = files.iter().map(|file| PathBuf::from(&file.path)).collect();
        SettledCall { call, result, declined: false, edited }
    }
}
