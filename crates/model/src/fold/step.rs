//! The fold of a step: how it ends, what it is known to have used, and when it is tried again.

use super::{Error, Fold};
use crate::bill;
use crate::budget::{self, BudgetPause};
use crate::event::StepRemains;
use crate::fault::Fault;
use crate::part::{PartKind, Span};
use crate::request::Reply;
use crate::session::RetryState;
use crate::tool::ToolState;
use crate::usage::InterimUsage;
use crate::{EntryId, Millis, Part};

impl Fold<'_> {
    /// A step is over, however it ended; `goes_on` says whether the model does.
    pub(super) fn close_step(
        &mut self,
        id: &EntryId,
        remains: &StepRemains,
        error: Option<&Fault>,
        goes_on: bool,
    ) -> Result<(), Error> {
        let time = self.time;
        let found = self.entry(id)?;
        let begun = found.time;
        let Some(assistant) = found.body.assistant_mut() else { return Err(self.unfit(id)) };
        let (before, spent) = (assistant.tokens, assistant.cost);
        // Earlier versions said nothing of a step that failed, and what was known of it stays.
        if !remains.is_empty() {
            assistant.finish.clone_from(&remains.finish);
            assistant.tokens = remains.tokens;
            assistant.cost = remains.cost;
            assistant.estimated = remains.estimated;
            assistant.snapshot_end.clone_from(&remains.snapshot);
            assistant.files.clone_from(&remains.files);
        }
        if error.is_some() {
            assistant.error = error.cloned();
        }
        assistant.reported = None;
        assistant.completed = Some(time);
        let (tokens, cost) = (assistant.tokens, assistant.cost);
        let model = assistant.model.clone();
        let session = &mut self.tree.session;
        session.open = goes_on;
        session.retry = None;
        session.tokens = session.tokens.minus(&before).plus(&tokens);
        session.cost = session.cost - spent + cost;
        // A turn that began after the last recovery and got to its end is what recovery is for.
        if session.recoveries.last().is_some_and(|recovery| begun > *recovery) {
            session.recoveries.clear();
        }
        self.spend(bill::TURN, model, &remains.tokens, remains.cost);
        for part in &remains.parts {
            self.add_part(id, part)?;
        }
        Ok(())
    }

    /// The provider is asked again. What the attempt used is recorded beside this, and the next one counts anew.
    pub(super) fn schedule_retry(&mut self, id: &EntryId, part: &Part, next: Millis) -> Result<(), Error> {
        let PartKind::Retry { attempt, error, .. } = &part.kind else { return Err(self.unfit(id)) };
        let found = self.entry(id)?;
        let Some(assistant) = found.body.assistant_mut() else { return Err(self.unfit(id)) };
        assistant.reported = None;
        let message = error.text().to_owned();
        self.tree.session.retry = Some(RetryState { entry: id.clone(), attempt: *attempt, message, next });
        self.add_part(id, part)
    }

    /// What the provider has said so far of what a step uses: it is in no sum before the step closes.
    pub(super) fn report_usage(&mut self, id: &EntryId, reported: InterimUsage) -> Result<(), Error> {
        let found = self.entry(id)?;
        let Some(assistant) = found.body.assistant_mut() else { return Err(self.unfit(id)) };
        assistant.reported = Some(Box::new(reported));
        Ok(())
    }

    /// Goes on beyond a budget, or waits for a person with what is left to do. A budget is asked about between turns.
    pub(super) fn answer_budget(&mut self, pause: &BudgetPause, reply: Reply) {
        let session = &mut self.tree.session;
        match reply {
            Reply::Once => budget::grant(&mut session.granted, pause, Some(pause.granted())),
            Reply::Always => budget::grant(&mut session.granted, pause, None),
            // Whoever stops the work is asked nothing more about it.
            Reply::Reject if session.stopping => (session.open, session.held) = (false, true),
            // The same before the first turn: what waits is held, and no budget keeps it from going on.
            Reply::Reject if session.held => {}
            Reply::Reject => {
                (session.parked, session.parked_reason) = (true, Some(Fault::internal(pause.to_string())));
            }
        }
    }
}

/// Ends a part that was streaming; false for one that does not stream.
pub(super) fn end_part(part: &mut Part, full: &str, new: Option<&crate::Map>, now: Millis) -> bool {
    match &mut part.kind {
        PartKind::Text { text, time, metadata, .. } | PartKind::Reasoning { text, time, metadata } => {
            full.clone_into(text);
            let start = time.map_or(now, |span| span.start);
            *time = Some(Span { start, end: Some(now) });
            if let Some(new) = new {
                *metadata = Some(new.clone());
            }
            true
        }
        PartKind::Tool { state: ToolState::Pending { raw, .. }, .. } => {
            full.clone_into(raw);
            true
        }
        _ => false,
    }
}
