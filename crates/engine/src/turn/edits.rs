//! Edits that were cut off: the files show whether such a call happened, so that it is neither lost nor made twice.
//!
//! They show it only of a file that no other call of the turn changed. Calls run beside each other: if one has undone what
//! this one did, the file is as before and yet it happened; if one did the same, the file is as after and it did not.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use everturn_model::tool::{FileForecast, Outcome, ToolResult};
use everturn_model::{Body, EntryId, PartId, Tree, path};

use super::Turn;
use crate::background::blocking;
use crate::calls::{EditVerdict, SettledCall, ToolCall};
use crate::{Error, file_views};

/// What the model is told of an edit that happened although its result was never recorded.
const APPLIED: &str = "The process ended before the result of this call was recorded. The files are as the call was to \
leave them, so it took effect in full. It was not run again.";

/// Notes in a result which files its call changed, for calls of the same turn that are cut off.
pub(super) fn note_files(settled: &mut SettledCall) {
    // A path that is no text has no place in the log, and no forecast either.
    let files = settled.edited.iter().filter_map(|path| path.to_str());
    settled.result.edited = files.map(str::to_owned).collect();
}

/// What the calls of one turn were about to make of which files, and which files its other calls have changed.
#[derive(Debug, Clone)]
pub(super) struct CutOffEdits {
    forecasts: HashMap<PartId, Vec<FileForecast>>,
    changed: BTreeSet<String>,
}

impl CutOffEdits {
    /// What is known of the calls of a turn.
    pub(super) fn found(tree: &Tree, assistant: &EntryId) -> Self {
        let parts = tree.node(assistant).into_iter().flat_map(|node| &node.parts);
        let noted = parts.filter_map(|part| {
            let open = part.open.as_ref().filter(|open| open.begun)?;
            Some((part.id.clone(), open.forecast.clone()))
        });
        Self { forecasts: noted.collect(), changed: changed(tree, assistant) }
    }

    /// What the files say about each of these calls.
    pub(super) async fn verdicts(self, open: Vec<PartId>) -> Result<HashMap<PartId, EditVerdict>, Error> {
        let verdict = move |part: PartId| {
            let others = self.forecasts.iter().filter(|(other, _)| **other != part);
            let others = others.flat_map(|(_, files)| files).map(|file| file.path.as_str());
            let others: BTreeSet<&str> = others.chain(self.changed.iter().map(String::as_str)).collect();
            let own = self.forecasts.get(&part).map_or(&[][..], Vec::as_slice);
            let verdict = EditVerdict::of(own, &others);
            (part, verdict)
        };
        blocking(move || open.into_iter().map(verdict).collect()).await
    }

    /// The call as settled, with what the session now knows of the files.
    pub(super) fn settled(&self, turn: &Turn<'_>, call: ToolCall) -> SettledCall {
        let files = self.forecasts.get(&call.part).map_or(&[][..], Vec::as_slice);
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

/// The files that settled calls of a turn have changed. Whether they did so before or after another call began is not
/// known, because a result does not say when its files were changed.
fn changed(tree: &Tree, assistant: &EntryId) -> BTreeSet<String> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let after = path.iter().skip_while(|node| node.entry.id != *assistant);
    let files = after.filter_map(|node| match &node.entry.body {
        Body::ToolResult { result } => Some(&result.edited),
        _ => None,
    });
    files.flatten().cloned().collect()
}
