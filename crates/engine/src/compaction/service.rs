//! Compactions as people see them: asked for, looked at, undone.

use std::path::Path;

use everturn_model::compaction::Pins;
use everturn_model::entry::{Body, Compaction, User};
use everturn_model::event::{Amendment, Cause, SessionChange};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Extra, Part, Session, SessionId, Tree, path};
use everturn_store::Lease;

use super::cut::{self, CutOccasion};
use super::{CompactionRecord, ledger, size};
use crate::inbox::PromptInbox;
use crate::sessions::Sessions;
use crate::{Error, bounds, models};

/// A compaction that a person asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCompaction {
    /// The model that sums up, unless the agent for it has one of its own.
    pub model: Option<ModelRef>,
    /// What the summary should mind.
    pub instructions: Option<String>,
    /// Whether it is made although all that is said would be kept word for word.
    pub force: bool,
    /// Whether clients are shown that nobody asked for it.
    pub auto: bool,
}

/// Compactions on request; clones share it.
#[derive(Debug, Clone)]
pub struct Compactions {
    inbox: PromptInbox,
    sessions: Sessions,
}

impl Compactions {
    /// Compactions that wait with the prompts.
    pub(crate) fn new(inbox: PromptInbox, sessions: Sessions) -> Self {
        Self { inbox, sessions }
    }

    /// Asks for a compaction. When this returns it is on disk and will be made: at once, or between two steps of a session
    /// that is at work. One that waits already is the answer to a second wish for the same.
    ///
    /// # Errors
    /// When there is no such session, or nothing in it to sum up.
    pub async fn request(&self, id: &SessionId, new: NewCompaction) -> Result<InboxItem, Error> {
        new.instructions.as_deref().map_or(Ok(()), bounds::check_instructions)?;
        let journal = &self.inbox.journal;
        let tree = journal.tree(id).await?;
        let session = &tree.session;
        let same = |item: &&InboxItem| item.is_compaction() && item.user.system == new.instructions;
        if let Some(waiting) = tree.inbox.iter().find(same) {
            self.inbox.drains.wake(id);
            return Ok(waiting.clone());
        }
        let model = new.model.clone().or_else(|| models::chosen_before(session));
        self.check(&tree, model.as_ref(), new.force).await?;
        let mint = journal.mint();
        let item = InboxItem {
            id: mint.entry(session),
            time: mint.now(),
            delivery: Delivery::Steer,
            reply: true,
            user: User { agent: session.agent.clone(), model, system: new.instructions, ..User::default() },
            parts: vec![Part::new(mint.part(session), PartKind::Compaction { auto: new.auto })],
            extra: Extra::default(),
            resume: true,
            place: None,
            revision: 0,
        };
        self.inbox.record(id, &item).await?;
        self.inbox.drains.wake(id);
        Ok(item)
    }

    /// Ensures that there is something to sum up.
    async fn check(&self, tree: &Tree, model: Option<&ModelRef>, force: bool) -> Result<(), Error> {
        let path = path::to(tree, tree.session.leaf.as_ref());
        let whole = cut::PathCut::whole(&path);
        let earlier = path::visible(&path).0.is_some();
        if whole.is_empty(&path) && !(force && earlier) {
            return Err(Error::Invalid(format!(
                "there is nothing to sum up in session {} {}",
                tree.session.id,
                if earlier { "since its last compaction" } else { "yet" }
            )));
        }
        if force {
            return Ok(());
        }
        let folder = Path::new(&tree.session.directory);
        let config = self.inbox.configurations.at(folder).await;
        let model = self.inbox.models.of(&config).choose(model, folder).ok();
        let limits = model.map(|model| model.model.limits).unwrap_or_default();
        let settings = &config.compaction;
        if cut::of(&path, settings, settings.usable(&limits), CutOccasion::Estimate).is_empty(&path) {
            let tokens: u64 =
                whole.summed.iter().filter_map(|at| path.get(*at)).map(|node| size::of_node(node)).sum();
            return Err(Error::Invalid(format!(
                "the conversation has about {tokens} tokens, and a compaction would keep all of them word for word; \
                 with `force` all of it is summed up"
            )));
        }
        Ok(())
    }

    /// The compactions of a conversation, oldest first: what each kept and dropped.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn ledger(&self, id: &SessionId) -> Result<Vec<CompactionRecord>, Error> {
        let conversation = self.sessions.conversation(id, None).await?;
        let nodes: Vec<&Node> = conversation.nodes.iter().collect();
        Ok(ledger(&nodes))
    }

    /// Undoes a compaction, the newest if none is named: the model sees again what it saw before. Its id comes back.
    ///
    /// # Errors
    /// When there is no such compaction, or the session is at work.
    pub async fn undo(&self, id: &SessionId, entry: Option<&EntryId>) -> Result<EntryId, Error> {
        self.turn(id, entry, Amendment::Hide).await
    }

    /// Takes that back.
    ///
    /// # Errors
    /// When there is no such compaction, or the session is at work.
    pub async fn redo(&self, id: &SessionId, entry: Option<&EntryId>) -> Result<EntryId, Error> {
        self.turn(id, entry, Amendment::Unhide).await
    }

    async fn turn(
        &self,
        id: &SessionId,
        entry: Option<&EntryId>,
        change: Amendment,
    ) -> Result<EntryId, Error> {
        let undone = matches!(change, Amendment::Unhide);
        let journal = &self.inbox.journal;
        let work = |lease: Lease| async move {
            let tree = journal.tree(&lease.session).await?;
            if tree.session.open {
                return Err(Error::Busy(lease.session.clone()));
            }
            let path = path::to(&tree, tree.session.leaf.as_ref());
            let fits = |node: &&&Node| {
                let done = matches!(&node.entry.body, Body::Compaction(Compaction { summary: Some(_), .. }));
                done && node.entry.hidden == undone && entry.is_none_or(|entry| node.entry.id == *entry)
            };
            let Some(node) = path.iter().rev().find(fits) else {
                let what = if undone { "that was undone" } else { "that could be undone" };
                return Err(Error::Invalid(format!(
                    "there is no compaction {what} in session {}",
                    lease.session
                )));
            };
            let found = node.entry.id.clone();
            let leaf = tree.session.leaf.clone();
            let amended = Event::EntryAmended { entry: found.clone(), part: None, change };
            // The leaf stays where it is, but what its path means is another thing now.
            let moved = Event::LeafMoved { from: leaf.clone(), to: leaf, cause: Cause::Branch };
            journal.append_owned(&lease, vec![amended, moved]).await?;
            Ok(found)
        };
        self.inbox.leases.at_rest(id, work).await
    }

    /// Sets what every compaction of a session keeps word for word.
    ///
    /// # Errors
    /// When there is no such session, or that is too much.
    pub async fn pin(&self, id: &SessionId, pins: Pins) -> Result<Session, Error> {
        self.sessions.change(id, vec![SessionChange::Pinned { pins }]).await
    }
}
