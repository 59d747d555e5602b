//! The close of a turn: usage, cost, changed files, and whether the model goes on.

use everturn_model::fault::Fault;
use everturn_model::finish::Finish;
use everturn_model::part::PartKind;
use everturn_model::{Event, Part, path};
use everturn_tools::snapshot::TreeId;

use super::files::{capture, changed};
use super::intake::StreamIntake;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;
use crate::structured::{self, ShapedAnswer};

/// What is said of a tool that the provider ran itself and left without a result.
const UNSAID: &str = "The provider did not say what came of this call.";

impl Turn<'_> {
    /// How often the model may try again to give the answer in its shape.
    fn retries(&self) -> u64 {
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        structured::wanted(&path).map_or(0, |shape| shape.retries)
    }

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
        let mut answer = None;
        if setup.shaped {
            match structured::answer(&self.tree, &setup.assistant) {
                ShapedAnswer::Given(given) => answer = Some(given),
                ShapedAnswer::Tried(tries) if !called || setup.last || tries > self.retries() => {
                    return self.fail(&setup, intake, None, structured::fault(tries), start).await;
                }
                ShapedAnswer::Tried(_) => {}
            }
        }
        // Where no step is left nothing follows, although the model called what it was not given.
        let declined = declined || setup.last;
        let reason = match (called, reason) {
            _ if answer.is_some() => Finish::Stop,
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
        let goes_on = called && answer.is_none();
        let event = Event::StepEnded {
            entry: setup.assistant,
            finish: reason,
            tokens: usage,
            cost,
            snapshot,
            files: Some(files),
            parts,
            declined: declined && goes_on,
            structured: answer,
        };
        self.commit(vec![event]).await?;
        Ok(match (goes_on, declined) {
            (true, false) => TurnEnd::Continue,
            (true, true) => TurnEnd::Declined,
            (false, _) => TurnEnd::Done,
        })
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
