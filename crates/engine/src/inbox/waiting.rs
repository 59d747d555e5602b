//! Prompts that wait: looked at, changed, put in another order and taken back, until they are promoted.
//!
//! Whoever changes one races with the turn that promotes it. The log decides: a change that comes later finds the prompt
//! gone, which is an answer and no failure; a promotion that comes later finds it changed, and looks again.

use std::collections::HashSet;

use everturn_model::fold;
use everturn_model::inbox::{Delivery, InboxItem, WAITING_LIMIT};
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part, PartId, SessionId};

use super::{DraftedPrompt, Prompt, PromptInbox};
use crate::{Error, bounds};

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

    /// Gives a prompt that waits other parts. What it says besides stays where nothing is given, and so do its place and when
    /// it is promoted.
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
        if now.is_compaction() {
            return Err(Error::Invalid(format!(
                "{message} asks for a compaction and has no words; take it back and ask anew"
            )));
        }
        let prompt = Prompt {
            id: Some(message.clone()),
            agent: prompt.agent.or(now.user.agent),
            model: prompt.model.or(now.user.model),
            system: prompt.system.or(now.user.system),
            tools: prompt.tools.or(now.user.tools),
            format: prompt.format.or(now.user.format),
            delivery: now.delivery,
            reply: now.reply,
            resume: now.resume,
            ..prompt
        };
        let DraftedPrompt { item, unread } = self.draft(id, prompt).await?;
        let item = Box::new(InboxItem { time: now.time, extra: now.extra, ..item });
        let outcome = self.change(id, &item.clone(), Event::PromptEdited { item }).await?;
        if let WaitingOutcome::Done(_) = outcome {
            self.report(id, unread).await;
        }
        Ok(outcome)
    }

    /// Gives a text of a prompt that waits other words.
    ///
    /// # Errors
    /// When there is no such session, message or part, or the part is no text.
    pub async fn edit_text(
        &self,
        id: &SessionId,
        message: &EntryId,
        new: Part,
    ) -> Result<WaitingOutcome, Error> {
        bounds::check_new_part(&new)?;
        let Some(mut now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        let own = now.parts.iter_mut().find(|part| part.id == new.id);
        let own = own.ok_or_else(|| Error::NoPart(new.id.to_string()))?;
        match (&own.kind, &new.kind) {
            (PartKind::Text { .. }, PartKind::Text { .. }) => *own = new,
            _ => {
                let which = &own.id;
                return Err(Error::Invalid(format!(
                    "part {which} is not a text, and waits; change the whole prompt instead"
                )));
            }
        }
        self.change(id, &now, Event::PromptEdited { item: Box::new(now.clone()) }).await
    }

    /// Takes a part out of a prompt that waits, with what the model would be told of it.
    ///
    /// # Errors
    /// When there is no such session, message or part, or it is the only one.
    pub async fn remove_part(
        &self,
        id: &SessionId,
        message: &EntryId,
        part: &PartId,
    ) -> Result<WaitingOutcome, Error> {
        let Some(mut now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        let at = now.parts.iter().position(|own| own.id == *part);
        let at = at.ok_or_else(|| Error::NoPart(part.to_string()))?;
        let before = now.parts.iter().take(at).rev().take_while(|part| is_told(part)).count();
        let is_file = matches!(now.parts.get(at).map(|part| &part.kind), Some(PartKind::File { .. }));
        now.parts.drain(at - if is_file { before } else { 0 }..=at);
        if now.parts.is_empty() {
            return Err(Error::Invalid(format!(
                "part {part} is all that there is of the prompt {message}; take the prompt back instead"
            )));
        }
        self.change(id, &now, Event::PromptEdited { item: Box::new(now.clone()) }).await
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
        let Some(now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        let rerouted = Event::PromptRerouted { id: message.clone(), delivery };
        self.change(id, &InboxItem { delivery, ..now }, rerouted).await
    }

    /// Takes a prompt back that waits.
    ///
    /// # Errors
    /// When there is no such session or message.
    pub async fn cancel(&self, id: &SessionId, message: &EntryId) -> Result<WaitingOutcome, Error> {
        let Some(now) = self.find(id, message).await? else { return Ok(WaitingOutcome::Promoted) };
        match self.change(id, &now, Event::PromptCancelled { id: message.clone() }).await {
            // Somebody else took it back at the same moment.
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

    /// Records a change to a prompt that waits, after which it is `changed`.
    async fn change(
        &self,
        id: &SessionId,
        changed: &InboxItem,
        change: Event,
    ) -> Result<WaitingOutcome, Error> {
        match self.journal.append(id, vec![change]).await {
            // It is in the log, whether or not the prompt was promoted a moment later.
            Ok(_) => {
                let now = self.journal.waiting_prompt(id, &changed.id).await?;
                Ok(WaitingOutcome::Done(Box::new(now.unwrap_or_else(|| changed.clone()))))
            }
            Err(Error::Store(everturn_store::Error::Unfit {
                source: fold::Error::Missing { .. }, ..
            })) => {
                let now = self.find(id, &changed.id).await?;
                Ok(now.map_or(WaitingOutcome::Promoted, |item| WaitingOutcome::Done(Box::new(item))))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a part says something of an attachment to the model.
fn is_told(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Text { synthetic: Some(true), .. })
}
