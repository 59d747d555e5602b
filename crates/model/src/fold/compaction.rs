//! The fold of a compaction: how it begins, and how it ends.

use super::{Error, Fold};
use crate::bill;
use crate::compaction::OpenCompaction;
use crate::entry::{Body, Entry};
use crate::event::StepRemains;
use crate::fault::Fault;
use crate::{EntryId, Part};

impl Fold<'_> {
    /// A compaction begins, perhaps one that was asked for and waited. Until it ends the session is open, so that whoever
    /// takes it over makes it anew.
    pub(super) fn start_compaction(&mut self, entry: &Entry, parts: &[Part]) -> Result<(), Error> {
        if self.tree.waiting(&entry.id).is_some() {
            self.take(&entry.id)?;
            // As with a prompt: what waited when the session was stopped is held, so this came after it.
            self.tree.session.stopping = false;
        }
        let session = &mut self.tree.session;
        session.time.compacting = Some(self.time);
        if matches!(&entry.body, Body::Compaction(compaction) if compaction.pair.is_some()) {
            session.open_compaction = Some(OpenCompaction { entry: entry.id.clone(), goes_on: session.open });
            session.open = true;
        }
        self.append(entry.clone(), parts)
    }

    /// A compaction is over, however it ended.
    pub(super) fn close_compaction(
        &mut self,
        id: &EntryId,
        remains: &StepRemains,
        error: Option<&Fault>,
    ) -> Result<(), Error> {
        let time = self.time;
        let found = self.entry(id)?;
        if let Some(assistant) = found.body.assistant_mut() {
            let (before, spent) = (assistant.tokens, assistant.cost);
            if !remains.is_empty() {
                assistant.finish.clone_from(&remains.finish);
                assistant.tokens = remains.tokens;
                assistant.cost = remains.cost;
                assistant.estimated = remains.estimated;
            }
            if error.is_some() {
                assistant.error = error.cloned();
            }
            assistant.completed.get_or_insert(time);
            let (tokens, cost, model) = (assistant.tokens, assistant.cost, assistant.model.clone());
            let session = &mut self.tree.session;
            session.tokens = session.tokens.minus(&before).plus(&tokens);
            session.cost = session.cost - spent + cost;
            self.spend(bill::COMPACTION, model, &remains.tokens, remains.cost);
        }
        for part in &remains.parts {
            self.add_part(id, part)?;
        }
        let session = &mut self.tree.session;
        session.time.compacting = None;
        if let Some(open) = session.open_compaction.take_if(|open| open.entry == *id) {
            session.open = open.goes_on;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
