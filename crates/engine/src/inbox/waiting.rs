//! Prompts that wait: looked at, changed, put in another order and taken back, until they are promoted.
//!
//! Whoever changes one races with the turn that promotes it. The log decides: a change that comes later finds the prompt
//! gone, which is an answer and no failure; a promotion that comes later finds it changed, and looks again.

use std::collections::HashSet;

use everturn_model::fold;
use everturn_model::inbox::{Delivery, InboxItem, WAITING_LIMIT};
use everturn_model::{EntryId, Event, SessionId};

use super::{Prompt, PromptInbox};
use crate::Error;

/// What became of a change to a prompt that waited.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitingOutcome {
    /// It is done; the prompt as it is now, or was when it was taken back.
    Done(Box<InboxItem>),
    /// The prompt is part of the conversation already.
    Promoted,
}

impl PromptInbox {
    /// The prompts that wait in a session, the next one first.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn waiting(&self, id: &SessionId) -> Result<Vec<InboxItem>, Error> {
        self.journal.session(id).await?;
        Ok(self.journal.outline(id).await?.inbox.into_iter().collect())
    }

    /// Gives a prompt that waits another content. Agent and model stay where none are given, and so do its place and when it
    /// is promoted.
    ///
    /// # Errors
    /// When there is no such session or message, or the prompt makes no sense.
    pub async fn edit(
        &self,
        id: &SessionId,
        message: &EntryId,
        prompt: Prompt,
    ) -> Result<WaitingOutcome, Error> {
        let Some(now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        let prompt = Prompt {
            id: Some(message.clone()),
            agent: prompt.agent.or(now.user.agent),
            model: prompt.model.or(now.user.model),
            delivery: now.delivery,
            reply: now.reply,
            resume: now.resume,
            ..prompt
        };
        let item = Box::new(self.draft(id, prompt).await?);
        let item = Box::new(InboxItem { time: now.time, extra: now.extra, ..*item });
        self.change(id, message, Event::PromptEdited { item }).await
    }

    /// Changes when a prompt that waits is promoted.
    ///
    /// # Errors
    /// When there is no such session or message.
    pub async fn reroute(
        &self,
        id: &SessionId,
        message: &EntryId,
        delivery: Delivery,
    ) -> Result<WaitingOutcome, Error> {
        self.change(id, message, Event::PromptRerouted { id: message.clone(), delivery }).await
    }

    /// Takes a prompt back that waits.
    ///
    /// # Errors
    /// When there is no such session or message.
    pub async fn cancel(&self, id: &SessionId, message: &EntryId) -> Result<WaitingOutcome, Error> {
        let Some(now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        match self.change(id, message, Event::PromptCancelled { id: message.clone() }).await {
            // It was taken back, by this or by somebody else at the same moment.
            Err(Error::NoMessage(_)) => Ok(WaitingOutcome::Done(Box::new(now))),
            other => other,
        }
    }

    /// Lets prompts that wait go on in this order. What is not named comes after them, in the order that it has.
    ///
    /// # Errors
    /// When there is no such session, one of them neither waits nor was promoted, one is named twice, or there are more of
    /// them than can wait.
    pub async fn reorder(&self, id: &SessionId, first: &[EntryId]) -> Result<Vec<InboxItem>, Error> {
        let waiting = self.waiting(id).await?;
        // Each is looked up and goes into the log.
        if first.len() as u64 > WAITING_LIMIT {
            return Err(Error::Invalid(format!(
                "an order names at most {WAITING_LIMIT} prompts, as many as can wait"
            )));
        }
        let mut named = HashSet::new();
        if let Some(twice) = first.iter().find(|message| !named.insert(*message)) {
            return Err(Error::Invalid(format!(
                "{twice} is named twice in the order of prompts: name each of them once"
            )));
        }
        for message in first.iter().filter(|message| waiting.iter().all(|item| item.id != **message)) {
            self.find(id, message).await?;
        }
        let rest = waiting.iter().map(|item| &item.id).filter(|id| !named.contains(id));
        let ids = first.iter().chain(rest).cloned().collect();
        self.journal.append(id, vec![Event::InboxReordered { ids }]).await?;
        self.waiting(id).await
    }

    /// A prompt that waits; none when it is part of the conversation.
    async fn find(&self, id: &SessionId, message: &EntryId) -> Result<Option<InboxItem>, Error> {
        self.journal.session(id).await?;
        // Before the entry that it becomes, so that it is not missed in between.
        if let Some(waiting) = self.journal.waiting_prompt(id, message).await? {
            return Ok(Some(waiting));
        }
        let promoted = self.journal.node(id, message).await?;
        promoted.map(|_| None).ok_or_else(|| Error::NoMessage(message.clone()))
    }

    /// Records a change to a prompt that waits.
    async fn change(
        &self,
        id: &SessionId,
        message: &EntryId,
        change: Event,
    ) -> Result<WaitingOutcome, Error> {
        self.journal.session(id).await?;
        match self.journal.append(id, vec![change]).await {
            Ok(_) => {}
            Err(Error::Store(everturn_store::Error::Unfit {
                source: fold::Error::Missing { .. }, ..
            })) => {}
            Err(error) => return Err(error),
        }
        let now = self.find(id, message).await?;
        Ok(now.map_or(WaitingOutcome::Promoted, |item| WaitingOutcome::Done(Box::new(item))))
    }
}
