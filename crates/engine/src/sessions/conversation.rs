//! Reading conversations, whole or in pieces, with what was saved of texts that broke off.

use std::collections::{HashMap, HashSet};

use everturn_model::entry::Body;
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::session::{FileDiff, Summary};
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{EntryId, PartId, Session, SessionId};
use everturn_store::{PathPiece, StoredPath};

use super::Sessions;
use crate::Error;

/// A conversation as clients read it: the path and what waits to join it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The session.
    pub session: Session,
    /// The path, oldest first.
    pub nodes: Vec<Node>,
    /// Prompts that wait.
    pub inbox: Vec<InboxItem>,
    /// True when the path has more before these.
    pub more: bool,
}

impl Conversation {
    /// What its prompts changed in files, as far as these nodes tell: lines added and removed by each of them, and how many
    /// files that were. The session's own summary has what V1 clients expect, which is what the last revert took back.
    #[must_use]
    pub fn changes(&self) -> Summary {
        let mut sum = Summary::default();
        let mut files = HashSet::new();
        let shown = self.nodes.iter().filter(|node| !node.entry.hidden);
        for diff in shown.filter_map(|node| diffs(&node.entry.body)).flatten() {
            sum.additions += diff.additions;
            sum.deletions += diff.deletions;
            files.insert(&diff.file);
        }
        Summary { files: u64::try_from(files.len()).unwrap_or_default(), ..sum }
    }
}

fn diffs(body: &Body) -> Option<&[FileDiff]> {
    match body {
        Body::User(user) => user.summary.as_ref().map(|summary| summary.diffs.as_slice()),
        _ => None,
    }
}

impl Sessions {
    /// The newest messages of a conversation, or all of it.
    ///
    /// Text that is streaming, here or in another process, is not in it but on the bus alone: whoever reads both, in
    /// whichever order, sees each piece once. What was saved of a text that nobody streams any more is in it.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn conversation(&self, id: &SessionId, limit: Option<usize>) -> Result<Conversation, Error> {
        let missing = || Error::NoSession(id.clone());
        let mut conversation = match limit {
            Some(limit) => {
                let tail = self.store.tail(id, limit).await?.ok_or_else(missing)?;
                Conversation { session: tail.session, nodes: tail.nodes, inbox: tail.inbox, more: tail.more }
            }
            None => {
                let mut tree = self.store.tree(id).await?.ok_or_else(missing)?;
                let inbox = std::mem::take(&mut tree.inbox).into_iter().collect();
                let session = tree.session.clone();
                Conversation { nodes: tree.into_path(session.leaf.as_ref()), session, inbox, more: false }
            }
        };
        if conversation.session.time.trashed.is_some() {
            return Err(missing());
        }
        let saved = self.saved_texts(&conversation.session).await?;
        for node in conversation.nodes.iter_mut().filter(|node| saved.contains_key(&node.entry.id)) {
            overlay(node, &saved);
        }
        Ok(conversation)
    }

    /// A piece of a conversation in the JSON that it is stored as, with the same text in it as
    /// [`conversation`](Self::conversation) has. None when there is no such entry.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn stored(&self, id: &SessionId, piece: PathPiece) -> Result<Option<StoredPath>, Error> {
        let Some(mut path) = self.store.stored_path(id, piece).await? else {
            return self.get(id).await.map(|_| None);
        };
        if path.session.time.trashed.is_some() {
            return Err(Error::NoSession(id.clone()));
        }
        let saved = self.saved_texts(&path.session).await?;
        let with_text = |json: &NodeJson| {
            let mut node = json.read()?;
            overlay(&mut node, &saved);
            NodeJson::of(&node)
        };
        let with_text = |json: &NodeJson| with_text(json).map_err(|error| path.damaged(&error));
        let open = path.nodes.iter().enumerate().filter(|(_, json)| saved.contains_key(&json.id));
        let open: Vec<_> = open.map(|(at, json)| Ok((at, with_text(json)?))).collect::<Result<_, Error>>()?;
        for (at, json) in open {
            if let Some(slot) = path.nodes.get_mut(at) {
                *slot = json;
            }
        }
        Ok(Some(path))
    }

    /// What was saved of texts that nobody streams any more, by entry.
    async fn saved_texts(&self, session: &Session) -> Result<SavedTexts, Error> {
        if !session.open {
            return Ok(SavedTexts::new());
        }
        let saved = self.store.streams(&session.id).await?;
        let id = &session.id;
        // What the feed tells of another process is told as it grows. One that died streams nothing more, although no
        // event has said so.
        let elsewhere = self.drains.is_busy_elsewhere(id) && self.store.run_elsewhere().await?.contains(id);
        // Asked last: if this process has taken the session meanwhile, the text may be its own.
        if elsewhere || self.drains.is_owned(id) {
            return Ok(SavedTexts::new());
        }
        let mut texts = SavedTexts::new();
        for saved in saved {
            texts.entry(saved.entry).or_default().insert(saved.part, saved.text);
        }
        Ok(texts)
    }
}

/// Texts by entry and part.
type SavedTexts = HashMap<EntryId, HashMap<PartId, String>>;

/// Puts saved texts into the parts that are still open.
fn overlay(node: &mut Node, saved: &SavedTexts) {
    let Some(texts) = saved.get(&node.entry.id) else { return };
    for part in &mut node.parts {
        if let PartKind::Text { text, time, .. } | PartKind::Reasoning { text, time, .. } = &mut part.kind
            && time.is_some_and(|time| time.end.is_none())
            && let Some(saved) = texts.get(&part.id)
        {
            text.clone_from(saved);
        }
    }
}
