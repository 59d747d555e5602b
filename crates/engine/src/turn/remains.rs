//! What a turn leaves that ends before it is complete: what it used, and the files that it changed, so that it can be
//! undone like any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use everturn_model::event::StepRemains;
use everturn_model::part::PartKind;
use everturn_model::tool::ToolState;
use everturn_model::{Body, EntryId, Millis, Part, Tree, path};
use everturn_tools::Snapshots;
use everturn_tools::snapshot::TreeId;

use super::accounting::{self, UsedTokens};
use super::files::{capture, changed};
use super::intake::StreamIntake;
use super::{Turn, TurnSetup};
use crate::background::blocking;

/// How long after its last sign of life a process may still have changed files.
const BEAT: Duration = Duration::from_secs(5);

/// The files that a turn changed.
#[derive(Debug, Default)]
pub(super) struct ChangedFiles {
    /// The files after it.
    pub(super) end: Option<TreeId>,
    /// Which ones.
    pub(super) files: Vec<String>,
}

impl ChangedFiles {
    /// Those that are not as they were when a turn began.
    pub(super) async fn since(snapshots: Option<&Arc<Snapshots>>, start: Option<&TreeId>) -> Self {
        let (Some(snapshots), Some(start)) = (snapshots, start) else { return Self::default() };
        let Some(end) = capture(Some(Arc::clone(snapshots))).await.ok().flatten() else {
            return Self::default();
        };
        let (snapshots, start, to) = (Arc::clone(snapshots), start.clone(), end.clone());
        let files = blocking(move || changed(&snapshots, &start, &to)).await.unwrap_or_default();
        Self { end: Some(end), files }
    }

    /// Adds what has changed since then.
    pub(super) async fn and_since(mut self, snapshots: Option<&Arc<Snapshots>>) -> Self {
        let more = Self::since(snapshots, self.end.as_ref()).await;
        if more.end.is_some() {
            self.end = more.end;
        }
        self.files.extend(more.files);
        self.files.sort();
        self.files.dedup();
        self
    }

    /// Leaves out what may have been changed after a moment: by a person, while nobody ran. Undo must not take it.
    pub(super) async fn until(mut self, worktree: PathBuf, moment: Millis) -> Self {
        let files = std::mem::take(&mut self.files);
        let kept = blocking(move || {
            files.into_iter().filter(|file| is_from_before(&worktree.join(file), moment)).collect()
        });
        self.files = kept.await.unwrap_or_default();
        self
    }

    /// The part that names them.
    pub(super) fn patch(&self, start: Option<&TreeId>) -> Option<PartKind> {
        let files = self.files.clone();
        let start = start.filter(|_| !files.is_empty())?;
        Some(PartKind::Patch { hash: start.as_str().to_owned(), files })
    }
}

/// Whether a file is as it was at a moment, as far as its time tells. Of one that is gone its folder tells.
fn is_from_before(file: &Path, moment: Millis) -> bool {
    let there = file.ancestors().find_map(|place| place.symlink_metadata().ok());
    let written = there.and_then(|found| found.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    written.is_some_and(|time| i64::try_from(time.as_millis()).is_ok_and(|time| time <= moment))
}

/// When a turn that was cut off certainly still ran, at the latest: what its process last said, or else what it last
/// recorded.
pub(super) fn last_sign_of_life(tree: &Tree, beat: Option<Millis>) -> Millis {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let newest =
        path.iter().rev().take_while(|node| !matches!(node.entry.body, Body::User(_))).flat_map(|node| {
            let times = node.parts.iter().filter_map(|part| match &part.kind {
                PartKind::Text { time, .. } | PartKind::Reasoning { time, .. } => {
                    time.map(|time| time.end.unwrap_or(time.start))
                }
                PartKind::Tool { state: ToolState::Running { start, .. }, .. } => Some(*start),
                _ => None,
            });
            times.chain([node.entry.time]).collect::<Vec<_>>()
        });
    let newest = newest.chain(beat).max().unwrap_or_default();
    newest.saturating_add(i64::try_from(BEAT.as_millis()).unwrap_or_default())
}

impl Turn<'_> {
    /// What is left of an answer that ends here.
    pub(super) async fn remains(
        &self,
        setup: &TurnSetup,
        intake: &StreamIntake,
        start: Option<&TreeId>,
    ) -> StepRemains {
        let changed = if intake.called() {
            ChangedFiles::since(setup.snapshots.as_ref(), start).await
        } else {
            ChangedFiles::default()
        };
        let (finish, used) = match intake.finish() {
            Some((finish, tokens)) => (Some(finish), UsedTokens { tokens, estimated: false }),
            None => (None, intake.meter.used(setup.request.request())),
        };
        let cost = accounting::cost(Some(&setup.chosen.pricing()), &used.tokens);
        StepRemains { finish, cost, ..self.left(used, &changed, start) }
    }

    /// What a turn leaves that used this much and changed these files.
    pub(super) fn left(
        &self,
        used: UsedTokens,
        changed: &ChangedFiles,
        start: Option<&TreeId>,
    ) -> StepRemains {
        let end = changed.end.as_ref().map(|tree| tree.as_str().to_owned());
        let patch = changed.patch(start);
        let snapshot =
            end.clone().filter(|_| patch.is_some()).map(|snapshot| PartKind::Snapshot { snapshot });
        let part = |kind| Part::new(self.services.journal.mint().part(self.session()), kind);
        StepRemains {
            finish: None,
            tokens: used.tokens,
            cost: everturn_model::Money::ZERO,
            estimated: used.estimated,
            files: patch.is_some().then(|| changed.files.clone()),
            snapshot: end,
            parts: snapshot.into_iter().chain(patch).map(part).collect(),
        }
    }
}

/// The files as they were when a turn began, where that was recorded.
pub(super) fn start_of(tree: &Tree, assistant: &EntryId) -> Option<TreeId> {
    let parts = tree.node(assistant).into_iter().flat_map(|node| &node.parts);
    let mut snapshots = parts.filter_map(|part| match &part.kind {
        PartKind::StepStart { snapshot } => snapshot.as_deref(),
        _ => None,
    });
    snapshots.next()?.parse().ok()
}
