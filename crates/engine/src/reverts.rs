//! Undo and redo of messages and files. Nothing is destroyed: a revert is staged and can be cleared; files that the
//! person changed since are left alone; what leaves the path stays in the tree.
//!
//! What a revert does to the files is in the log before it is done: the tree as it was, and each file with the tree
//! that it is taken from. So whoever comes next knows where a file may be from, even after a crash halfway, and
//! touches it only if it is as one of these trees has it. Staging again, further back or further on, starts from the
//! files as they were before the first stage.

mod files;

use everturn_model::entry::Body;
use everturn_model::event::Cause;
use everturn_model::session::{Revert, Summary};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, PartId, Session, SessionId, Tree, path};
use everturn_store::Lease;

use crate::Error;
use crate::configurations::Configurations;
use crate::drains::Drains;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::projects::Projects;
use crate::snapshot_folders::SnapshotFolders;
use crate::worker::next_work;
use files::{RestorePlan, undone_changes, undone_steps};

/// Takes messages and files back, and brings them back; clones share it.
#[derive(Debug, Clone)]
pub struct Reverts {
    journal: Journal,
    projects: Projects,
    configurations: Configurations,
    snapshots: SnapshotFolders,
    leases: Leases,
    drains: Drains,
}

impl Reverts {
    /// Reverts of the sessions of a journal.
    pub(crate) fn new(
        journal: Journal,
        projects: Projects,
        configurations: Configurations,
        snapshots: SnapshotFolders,
        leases: Leases,
        drains: Drains,
    ) -> Self {
        Self { journal, projects, configurations, snapshots, leases, drains }
    }

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
        let stage = |lease| async move { self.stage(&lease, message, part).await };
        self.leases.at_rest(id, stage).await
    }

    /// Takes a staged revert back: the messages and the files are as they were. Without one this does nothing.
    ///
    /// # Errors
    /// When the session is at work.
    pub async fn unrevert(&self, id: &SessionId) -> Result<Session, Error> {
        let cleared = self.leases.at_rest(id, |lease| self.unstage(lease)).await?;
        // What waited for the revert goes on once the session is let go.
        if next_work(&self.journal.outline(id).await?).is_some() {
            self.drains.wake(id);
        }
        Ok(cleared)
    }

    /// What commits the staged revert, if there is one, to be appended before whatever follows it. One that a crash cut off
    /// is carried through first.
    pub(crate) async fn committing(&self, lease: &Lease) -> Result<Vec<Event>, Error> {
        let mut tree = self.journal.tree(&lease.session).await?;
        if let Some(revert) = tree.session.revert.clone().filter(|revert| revert.pending) {
            self.stage(lease, &revert.message, revert.part.as_ref()).await?;
            tree = self.journal.tree(&lease.session).await?;
        }
        Ok(tree.session.revert.as_ref().map(|revert| committed(&tree, revert)).unwrap_or_default())
    }

    /// Stages a revert as the owner of the session. Doing it for one that is still pending completes that.
    pub(crate) async fn stage(
        &self,
        lease: &Lease,
        message: &EntryId,
        part: Option<&PartId>,
    ) -> Result<Session, Error> {
        let tree = self.journal.tree(&lease.session).await?;
        let mut revert = Revert { part: part.cloned(), ..Revert::new(boundary(&tree, message)?) };
        let location = self.projects.location(Some(&tree.session.directory)).await?;
        let worktree = location.worktree.clone();
        let earlier = tree.session.revert.clone();
        let mut diffs = Vec::new();
        let config = self.configurations.at(&location.directory).await;
        if let Some(snapshots) = self.snapshots.of(&config, &location) {
            let steps = undone_steps(&tree, &revert.message, &worktree);
            let task = {
                let (snapshots, earlier) = (snapshots.clone(), earlier.clone());
                move || {
                    let work = RestorePlan::plan(&snapshots, &steps, earlier.as_ref())?;
                    Ok((work, undone_changes(&snapshots, &steps)))
                }
            };
            let (work, changes) = blocking(task).await?;
            diffs = changes;
            revert.snapshot = Some(work.original().to_owned());
            if work.changes_files() {
                revert.restored = work.possible_sources();
                revert.pending = true;
                self.append_revert(lease, revert.clone(), None).await?;
            }
            let done = match blocking(move || work.carry_out(&snapshots, &worktree)).await {
                Err(error @ Error::Snapshot(_)) if revert.pending => {
                    // A restore that cannot be read has not begun, so all is as it was.
                    let event = earlier.map_or(Event::RevertCleared {}, |earlier| staged(earlier, None));
                    self.journal.append_owned(lease, vec![event]).await?;
                    return Err(error);
                }
                done => done?,
            };
            revert.pending = false;
            revert.restored = done.restored;
            revert.skipped = done.skipped;
            revert.diff = Some(done.diff);
        } else if let Some(earlier) = earlier {
            // Files cannot be put back now. Those that were can still be brought back later.
            (revert.snapshot, revert.after, revert.restored) =
                (earlier.snapshot, earlier.after, earlier.restored);
        }
        let summary = Summary {
            additions: diffs.iter().map(|diff| diff.additions).sum(),
            deletions: diffs.iter().map(|diff| diff.deletions).sum(),
            files: u64::try_from(diffs.len()).unwrap_or_default(),
            diffs: Some(diffs),
        };
        self.append_revert(lease, revert, Some(summary)).await
    }

    async fn append_revert(
        &self,
        lease: &Lease,
        revert: Revert,
        summary: Option<Summary>,
    ) -> Result<Session, Error> {
        let events = vec![staged(revert, summary)];
        let appended = self.journal.append_owned(lease, events).await?;
        Ok((*appended.session).clone())
    }

    async fn unstage(&self, lease: Lease) -> Result<Session, Error> {
        let id = &lease.session;
        let session = self.journal.session(id).await?;
        let Some(revert) = session.revert.clone() else { return Ok(session) };
        let location = self.projects.location(Some(&session.directory)).await?;
        let touched = !revert.restored.is_empty() || revert.after.is_some();
        let config = self.configurations.at(&location.directory).await;
        if let (true, Some(snapshots)) = (touched, self.snapshots.of(&config, &location)) {
            let worktree = location.worktree.clone();
            let task =
                move || RestorePlan::plan(&snapshots, &[], Some(&revert))?.carry_out(&snapshots, &worktree);
            let done = blocking(task).await?;
            if !done.skipped.is_empty() {
                tracing::warn!(session = %id, files = ?done.skipped, "files changed since were not brought back");
            }
        }
        let events = vec![Event::RevertCleared {}];
        let appended = self.journal.append_owned(&lease, events).await?;
        Ok((*appended.session).clone())
    }
}

/// What commits a staged revert: the conversation ends before the message that it names, and what waited behind that is
/// taken back.
fn committed(tree: &Tree, revert: &Revert) -> Vec<Event> {
    let waits = tree.waiting(&revert.message).is_some();
    let to = match tree.node(&revert.message) {
        Some(node) => node.entry.parent.clone(),
        None => tree.session.leaf.clone(),
    };
    let cause = Cause::Revert { message: revert.message.clone() };
    let moved = Event::LeafMoved { from: tree.session.leaf.clone(), to, cause };
    let behind = tree.inbox.iter().map(|item| &item.id).skip_while(|id| waits && **id != revert.message);
    let cancelled = behind.map(|id| Event::PromptCancelled { id: id.clone() });
    std::iter::once(moved).chain(cancelled).collect()
}

fn staged(revert: Revert, summary: Option<Summary>) -> Event {
    Event::RevertStaged { revert: Box::new(revert), summary }
}

async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(task).await.map_err(|error| Error::Invalid(error.to_string()))?
}

/// The entry that a message's id means: the entry itself, or the one whose pair has it. A prompt that waits can be taken
/// back as well: clients show it like any other message.
fn boundary(tree: &Tree, message: &EntryId) -> Result<EntryId, Error> {
    if tree.waiting(message).is_some() {
        return Ok(message.clone());
    }
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
