//! The close of a turn: usage, cost, changed files, and whether the model goes on.

use everturn_model::fault::Fault;
use everturn_model::finish::Finish;
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Money, Part, Tokens};
use everturn_tools::snapshot::TreeId;

use super::files::{capture, changed};
use super::intake::StreamIntake;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;

/// What is said of a tool that the provider ran itself and left without a result.
const UNSAID: &str = "The provider did not say what came of this call.";

impl Turn<'_> {
    /// Closes the step: usage, files, and whether the model goes on.
    pub(super) async fn close(
        &mut self,
        setup: TurnSetup,
        intake: StreamIntake,
        start: Option<TreeId>,
        declined: bool,
    ) -> Result<TurnEnd, Error> {
        let called = intake.called();
        let Some(finish) = intake.finish() else {
            let fault = Fault::internal("The provider's answer ended before it was complete.");
            return self.fail(&setup, intake, None, fault, start).await;
        };
        for call in intake.unsettled_hosted() {
            let settled = unfinished(call, self.services.journal.mint().now(), UNSAID);
            self.settle(settled).await?;
        }
        let (reason, usage) = finish;
        if let Some(words) = given_up(&reason).filter(|_| !called) {
            return self.fail(&setup, intake, None, Fault::internal(words), start).await;
        }
        let reason = match (called, reason) {
            (true, _) => Finish::ToolCalls,
            (false, Finish::ToolCalls) => Finish::Unknown,
            (false, reason) => reason,
        };
        let end = if called { capture(setup.snapshots.clone()).await.ok().flatten() } else { start.clone() };
        let files = match (&setup.snapshots, &start, &end) {
            (Some(snapshots), Some(from), Some(to)) if from != to => changed(snapshots, from, to),
            _ => Vec::new(),
        };
        let cost = setup.chosen.pricing().cost(&usage);
        let snapshot = end.map(|tree| tree.as_str().to_owned());
        let finish_part =
            PartKind::StepFinish { reason: reason.clone(), snapshot: snapshot.clone(), tokens: usage, cost };
        let mut parts = vec![Part::new(self.services.journal.mint().part(self.session()), finish_part)];
        if let (false, Some(from)) = (files.is_empty(), &start) {
            let kind = PartKind::Patch { hash: from.as_str().to_owned(), files: files.clone() };
            parts.push(Part::new(self.services.journal.mint().part(self.session()), kind));
        }
        let event = step_ended(&setup.assistant, reason, usage, cost, snapshot, files, parts, declined);
        self.commit(vec![event]).await?;
        Ok(match (called, declined) {
            (true, false) => TurnEnd::Continue,
            (true, true) => TurnEnd::Declined,
            (false, _) => TurnEnd::Done,
        })
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one event")]
fn step_ended(
    entry: &EntryId,
    finish: Finish,
    tokens: Tokens,
    cost: Money,
    snapshot: Option<String>,
    files: Vec<String>,
    parts: Vec<Part>,
    declined: bool,
) -> Event {
    Event::StepEnded {
        entry: entry.clone(),
        finish,
        tokens,
        cost,
        snapshot,
        files: Some(files),
        parts,
        declined,
        structured: None,
    }
}

/// What to say of an answer that was cut short, so that nobody takes it for a finished one.
fn given_up(reason: &Finish) -> Option<&'static str> {
    match reason {
        Finish::Error => Some("The provider gave up in the midst of its answer. Asking again may help."),
        Finish::ContentFilter => Some(
            "The provider's filter ended the answer. Another wording, or another model, may get further.",
        ),
        _ => None,
    }
}
