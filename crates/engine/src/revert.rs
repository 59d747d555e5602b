//! Undo and redo of messages and files. Nothing is destroyed: a revert is staged and can be cleared; files that the
//! person changed since are left alone; what leaves the path stays in the tree.

use std::path::{Path, PathBuf};

use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::session::{FileDiff, Revert, Summary};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, PartId, Session, SessionId, Tree, path};
use everturn_store::Authority;
use everturn_tools::Snapshots;
use everturn_tools::snapshot::{Plan, TreeId};

use crate::{Engine, Error};

/// What happened to the files when a revert was staged.
struct Files {
    original: TreeId,
    after: TreeId,
    skipped: Vec<String>,
    diff: String,
}

impl Engine {
    /// Stages a revert to before a message: its files go back, and the next prompt commits it.
    ///
    /// # Errors
    /// When there is no such message or the session is at work.
    pub async fn revert(
        &self,
        id: &SessionId,
        message: &EntryId,
        part: Option<&PartId>,
    ) -> Result<Session, Error> {
        let _hold = self.hold(id)?;
        let tree = self.tree(id).await?;
        let boundary = boundary(&tree, message)?;
        let location = self.location(Some(&tree.session.directory)).await?;
        let lease = self.0.store.acquire(id).await?;
        let snapshots = self.snapshots(&location);
        let (undone, worktree) = (undone(&tree, &boundary), location.worktree.clone());
        let staged = tree.session.revert.clone();
        let files = tokio::task::spawn_blocking(move || match snapshots {
            Some(snapshots) => stage_files(&snapshots, &undone, staged.as_ref(), &worktree),
            None => Ok((None, Vec::new())),
        })
        .await
        .map_err(|error| Error::Invalid(error.to_string()))??;
        let (files, diffs) = files;
        let summary = Summary {
            additions: diffs.iter().map(|diff| diff.additions).sum(),
            deletions: diffs.iter().map(|diff| diff.deletions).sum(),
            files: u64::try_from(diffs.len()).unwrap_or_default(),
            diffs: Some(diffs),
        };
        let mut revert = Revert { part: part.cloned(), ..Revert::new(boundary) };
        if let Some(files) = files {
            revert.snapshot = Some(files.original.as_str().to_owned());
            revert.diff = Some(files.diff);
            revert.after = Some(files.after.as_str().to_owned());
            revert.skipped = files.skipped;
        }
        let event = Event::RevertStaged { revert: Box::new(revert), summary: Some(summary) };
        let appended = self.append(id, Authority::Owned(lease.clone()), vec![event]).await;
        self.0.store.release(lease).await?;
        Ok((*appended?.session).clone())
    }

    /// Takes a staged revert back: the messages and the files are as they were. Without one this does nothing.
    ///
    /// # Errors
    /// When the session is at work.
    pub async fn unrevert(&self, id: &SessionId) -> Result<Session, Error> {
        let _hold = self.hold(id)?;
        let session = self.session(id).await?;
        let Some(revert) = &session.revert else { return Ok(session) };
        let location = self.location(Some(&session.directory)).await?;
        let lease = self.0.store.acquire(id).await?;
        let original: Option<TreeId> = revert.snapshot.as_deref().and_then(|tree| tree.parse().ok());
        let after: Option<TreeId> = revert.after.as_deref().and_then(|tree| tree.parse().ok());
        if let (Some(snapshots), Some(original), Some(after)) = (self.snapshots(&location), original, after) {
            let restored = tokio::task::spawn_blocking(move || {
                let files = snapshots.changed(&after, &original)?;
                snapshots.restore(&Plan::uniform(after, &original, files))
            });
            restored.await.map_err(|error| Error::Invalid(error.to_string()))??;
        }
        let appended = self.append(id, Authority::Owned(lease.clone()), vec![Event::RevertCleared {}]).await;
        self.0.store.release(lease).await?;
        Ok((*appended?.session).clone())
    }
}

/// The entry that a message's id means: the entry itself, or the one whose pair has it.
fn boundary(tree: &Tree, message: &EntryId) -> Result<EntryId, Error> {
    let on_path = |node: &&Node| {
        node.entry.id == *message
            || match &node.entry.body {
                Body::Shell(shell) => shell.pair.as_ref().is_some_and(|pair| pair.second == message.as_str()),
                Body::Compaction(compaction) => {
                    compaction.pair.as_ref().is_some_and(|pair| pair.second == message.as_str())
                }
                _ => false,
            }
    };
    let path = path::to(tree, tree.session.leaf.as_ref());
    let found = path.into_iter().find(on_path).ok_or_else(|| Error::NoMessage(message.clone()))?;
    Ok(found.entry.id.clone())
}

/// The snapshots and files of the steps that a revert takes back, oldest first.
struct Step {
    before: Option<String>,
    after: Option<String>,
    files: Vec<String>,
}

fn undone(tree: &Tree, boundary: &EntryId) -> Vec<Step> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let from = path.iter().position(|node| &node.entry.id == boundary).unwrap_or(path.len());
    let mut steps = Vec::new();
    for node in path.into_iter().skip(from) {
        let mut step = Step { before: None, after: None, files: Vec::new() };
        for part in &node.parts {
            match &part.kind {
                PartKind::StepStart { snapshot } => step.before.clone_from(snapshot),
                PartKind::StepFinish { snapshot, .. } => step.after.clone_from(snapshot),
                PartKind::Patch { files, .. } => step.files.clone_from(files),
                _ => {}
            }
        }
        if step.before.is_some() || step.after.is_some() {
            steps.push(step);
        }
    }
    steps
}

/// Puts the files of the undone steps back to how the first of them found them.
fn stage_files(
    snapshots: &Snapshots,
    steps: &[Step],
    staged: Option<&Revert>,
    worktree: &Path,
) -> Result<(Option<Files>, Vec<FileDiff>), Error> {
    let parse = |tree: &Option<String>| tree.as_ref().and_then(|tree| tree.parse::<TreeId>().ok());
    let now = snapshots.capture()?;
    let original = staged.and_then(|revert| parse(&revert.snapshot)).unwrap_or_else(|| now.clone());
    let first = steps.iter().find_map(|step| parse(&step.before));
    let last = steps.iter().rev().find_map(|step| parse(&step.after));
    let (Some(first), Some(last)) = (first, last) else {
        let files = Files { original, after: now, skipped: Vec::new(), diff: String::new() };
        return Ok((Some(files), Vec::new()));
    };
    let mut touched: Vec<PathBuf> = Vec::new();
    for file in steps.iter().flat_map(|step| &step.files) {
        let file = worktree.join(file);
        if !touched.contains(&file) {
            touched.push(file);
        }
    }
    // What the agent left is what may be replaced; after an earlier stage, what that stage left.
    let expected =
        staged.and_then(|revert| revert.after.as_deref()?.parse().ok()).unwrap_or_else(|| last.clone());
    let report = snapshots.restore(&Plan::uniform(expected, &first, touched))?;
    let after = snapshots.capture()?;
    let skipped = report.skipped.iter().map(|skipped| skipped.file.display().to_string()).collect();
    let diff = git_diff(snapshots, &original, &after, worktree)?;
    let diffs = crate::turn::diffs(snapshots, first.as_str(), last.as_str()).unwrap_or_default();
    Ok((Some(Files { original, after, skipped, diff }), diffs))
}

/// The changes in the form that git prints, which clients parse.
fn git_diff(snapshots: &Snapshots, from: &TreeId, to: &TreeId, worktree: &Path) -> Result<String, Error> {
    let mut text = String::new();
    for path in snapshots.changed(from, to)? {
        let name = path.strip_prefix(worktree).unwrap_or(&path).display().to_string();
        let (before, after) = (snapshots.content(from, &path)?, snapshots.content(to, &path)?);
        text.push_str(&everturn_tools::patch::git(&name, before.as_deref(), after.as_deref()));
    }
    Ok(text.trim_end().to_owned())
}
