//! The close of a turn: usage, cost, changed files, and whether the model goes on.

use everturn_model::entry::Body;
use everturn_model::fault::{Fault, FaultKind};
use everturn_model::finish::Finish;
use everturn_model::part::PartKind;
use everturn_model::{Event, Part, Tree, path};
use everturn_tools::snapshot::TreeId;

use super::accounting::UsedTokens;
use super::intake::StreamIntake;
use super::remains::ChangedFiles;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;
use crate::structured::{self, ShapedAnswer};

/// What is said of a tool that the provider ran itself and left without a result.
const UNSAID: &str = "The provider did not say what came of this call.";

/// How often in a row a provider may make a pause in its own work.
const MOST_PAUSES: usize = 10;

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
        mut intake: StreamIntake,
        start: Option<TreeId>,
        declined: bool,
    ) -> Result<TurnEnd, Error> {
        let called = intake.called();
        let Some((reason, said)) = intake.finish() else {
            let fault =
                Fault::new(FaultKind::CutStream, "The provider's answer ended before it was complete.");
            return self.fail(&setup, intake, None, fault, start).await;
        };
        if let Some(fault) = given_up(&reason).filter(|_| !called) {
            return self.fail(&setup, intake, None, fault, start).await;
        }
        let mut answer = None;
        if setup.shaped {
            match structured::answer(&self.tree, &setup.assistant) {
                ShapedAnswer::Given(given) => answer = Some(given),
                ShapedAnswer::Tried(tries)
                    if (!called && reason != Finish::Paused) || setup.last || tries > self.retries() =>
                {
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
            (false, Finish::Paused) if pauses_in_a_row(&self.tree) >= MOST_PAUSES => Finish::Unknown,
            (false, reason) => reason,
        };
        // What it was running when it made a pause ends in its next answer.
        if reason != Finish::Paused {
            for call in intake.take_unsettled() {
                self.settle(unfinished(call, self.services.journal.mint().now(), UNSAID)).await?;
            }
        }
        let goes_on = called && answer.is_none();
        // Some providers never say what was used, and budgets count all the same.
        let used = match said.sum() {
            0 => intake.meter.used(setup.request.request()),
            _ => UsedTokens { tokens: said, estimated: false },
        };
        let UsedTokens { tokens, estimated } = used;
        let mut changed = match called {
            true => ChangedFiles::since(setup.snapshots.as_ref(), start.as_ref()).await,
            false => ChangedFiles::default(),
        };
        if !called {
            changed.end.clone_from(&start);
        }
        let cost = setup.chosen.pricing().cost(&tokens);
        let snapshot = changed.end.as_ref().map(|tree| tree.as_str().to_owned());
        let finished =
            PartKind::StepFinish { reason: reason.clone(), snapshot: snapshot.clone(), tokens, cost };
        let kinds = std::iter::once(finished).chain(changed.patch(start.as_ref()));
        let part = |kind| Part::new(self.services.journal.mint().part(self.session()), kind);
        let event = Event::StepEnded {
            entry: setup.assistant.clone(),
            error: too_long(&reason),
            finish: reason.clone(),
            tokens,
            cost,
            snapshot,
            parts: kinds.map(part).collect(),
            files: Some(changed.files),
            declined: declined && goes_on,
            estimated,
            structured: answer,
        };
        self.commit(vec![event]).await?;
        Ok(match (goes_on, declined) {
            (true, false) => TurnEnd::Continue,
            (true, true) => TurnEnd::Declined,
            (false, _) if reason == Finish::Paused => TurnEnd::Continue,
            (false, _) => TurnEnd::Done,
        })
    }
}

/// What is wrong with an answer that ended at its longest length.
fn too_long(reason: &Finish) -> Option<Fault> {
    let words = "The answer reached the longest length that the model may write, and ends there.";
    (*reason == Finish::Length).then(|| Fault::new(FaultKind::OutputLength, words))
}

/// What to say of an answer that was cut short, so that nobody takes it for a finished one.
fn given_up(reason: &Finish) -> Option<Fault> {
    match reason {
        Finish::Error => {
            let words = "The provider gave up in the midst of its answer. Asking again may help.";
            Some(Fault::internal(words))
        }
        Finish::ContentFilter => {
            let words =
                "The provider's filter ended the answer. Another wording, or another model, may get further.";
            Some(Fault::new(FaultKind::ContentFilter, words))
        }
        _ => None,
    }
}

/// How many of the newest answers were pauses, one after the other.
fn pauses_in_a_row(tree: &Tree) -> usize {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let answers = path.iter().rev().take_while(|node| !matches!(node.entry.body, Body::User(_)));
    let closed =
        answers.filter_map(|node| node.entry.body.assistant()).filter(|answer| answer.completed.is_some());
    closed.take_while(|answer| answer.finish == Some(Finish::Paused)).count()
}
