//! The files of a turn: recorded before and after, compared, and summed up for clients.

use std::sync::Arc;

use everturn_model::entry::{Body, UserSummary};
use everturn_model::finish::Trigger;
use everturn_model::part::PartKind;
use everturn_model::session::{FileDiff, Summary};
use everturn_model::{Event, Map, Tree, path};
use everturn_tools::Snapshots;
use everturn_tools::snapshot::TreeId;
use tokio::task::JoinHandle;

use super::{ProviderTurns, TurnServices};
use crate::Error;

impl ProviderTurns {
    /// What the newest prompt's turns changed so far, as an event; none without a prompt.
    pub(crate) async fn summarize(&self, tree: &Tree) -> Result<Option<Event>, Error> {
        self.services.summarize(tree).await
    }
}

impl TurnServices {
    /// What the newest prompt's turns changed so far, as an event; none without a prompt.
    pub(super) async fn summarize(&self, tree: &Tree) -> Result<Option<Event>, Error> {
        let path = path::to(tree, tree.session.leaf.as_ref());
        let Some(at) = path.iter().rposition(|node| is_asked(&node.entry.body) && !node.entry.hidden) else {
            return Ok(None);
        };
        let Some(user) = path.get(at) else { return Ok(None) };
        let (mut from, mut to) = (None, None);
        for part in path.iter().skip(at).flat_map(|node| &node.parts) {
            match &part.kind {
                PartKind::StepStart { snapshot: Some(snapshot) } if from.is_none() => {
                    from = Some(snapshot.clone());
                }
                PartKind::StepFinish { snapshot: Some(snapshot), .. } | PartKind::Snapshot { snapshot } => {
                    to = Some(snapshot.clone());
                }
                _ => {}
            }
        }
        let diffs = match (from, to) {
            (Some(from), Some(to)) if from != to => {
                let location = self.projects.location(Some(&tree.session.directory)).await?;
                let config = self.configurations.at(&location.directory).await;
                let snapshots = self.snapshots.of(&config, &location);
                tokio::task::spawn_blocking(move || diffs(snapshots.as_deref()?, &from, &to))
                    .await
                    .ok()
                    .flatten()
            }
            _ => None,
        };
        Ok(Some(Event::TurnSummarized {
            entry: user.entry.id.clone(),
            summary: UserSummary { diffs: diffs.unwrap_or_default(), ..UserSummary::default() },
            // Clients of V1 expect these numbers to stay as they were at the last revert.
            session: tree
                .session
                .summary
                .clone()
                .map(|summary| Summary { diffs: None, ..summary })
                .unwrap_or_default(),
        }))
    }
}

/// Whether a person asked for what follows: an answer, or a compaction.
fn is_asked(body: &Body) -> bool {
    match body {
        Body::User(_) => true,
        Body::Compaction(compaction) => {
            compaction.pair.is_some() && compaction.reason == Some(Trigger::Manual)
        }
        _ => false,
    }
}

/// The files that differ between two snapshots. Not knowing them must not undo a finished step.
pub(super) fn changed(snapshots: &Snapshots, from: &TreeId, to: &TreeId) -> Vec<String> {
    let files = snapshots.changed(from, to).unwrap_or_else(|error| {
        tracing::warn!(error = error.to_string(), "changed files are not known");
        Vec::new()
    });
    files.iter().map(|file| file.display().to_string()).collect()
}

/// Records the files in the background.
pub(super) fn capture(snapshots: Option<Arc<Snapshots>>) -> JoinHandle<Option<TreeId>> {
    tokio::task::spawn_blocking(move || {
        let snapshots = snapshots?;
        snapshots
            .capture()
            .inspect_err(|error| tracing::warn!(error = error.to_string(), "files were not recorded"))
            .ok()
    })
}

/// The changes between two snapshots, as sessions keep them.
pub(crate) fn diffs(snapshots: &Snapshots, from: &str, to: &str) -> Option<Vec<FileDiff>> {
    let diffs = snapshots.diff(&from.parse().ok()?, &to.parse().ok()?).ok()?;
    let status = |status| Some(serde_json::to_value(status).ok()?.as_str()?.into());
    let convert = |diff: everturn_tools::snapshot::TreeDiff| FileDiff {
        file: diff.file,
        patch: Some(diff.patch),
        additions: u64::try_from(diff.additions).unwrap_or_default(),
        deletions: u64::try_from(diff.deletions).unwrap_or_default(),
        status: status(diff.status),
        extra: Map::new(),
    };
    Some(diffs.into_iter().map(convert).collect())
}
