//! Answers that break off: what came is kept, the calls that were complete run to their end, and the model goes on in a
//! new turn. That is done so often and no more.

use everturn_model::entry::{Body, Entry};
use everturn_model::{Event, Fault, FaultKind, Tree, path};
use everturn_tools::snapshot::TreeId;

use super::fault::{aborted, fault};
use super::intake::StreamIntake;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;

/// How many answers in a row may break off before the session waits for a person.
const MOST_CUTS: usize = 3;

/// What is said of a call that was not complete.
const INCOMPLETE: &str = "The provider's answer broke off before this call was complete. It was not run.";

const GO_ON: &str =
    "Your answer broke off on its way. What came of it is above. Go on from there without repeating it.";

impl Turn<'_> {
    /// Ends an answer that broke off, and has the model go on in a new turn unless that happened too often.
    pub(super) async fn cut(
        &mut self,
        setup: &TurnSetup,
        mut intake: StreamIntake,
        error: &everturn_llm::Error,
        start: Option<TreeId>,
        declined: bool,
    ) -> Result<TurnEnd, Error> {
        let rest = intake.abandon();
        for call in intake.take_unsettled() {
            self.settle(unfinished(call, self.services.journal.mint().now(), INCOMPLETE)).await?;
        }
        let cuts = cuts_in_a_row(&self.tree) + 1;
        let attempt = u64::try_from(cuts).unwrap_or(u64::MAX);
        let wait = self.retry_delay(setup, attempt, error).filter(|_| cuts < MOST_CUTS && !declined);
        let Some(wait) = wait else {
            if !rest.is_empty() {
                self.commit(rest).await?;
            }
            return self.fail(setup, intake, None, fault(setup, error), start).await;
        };
        let broken = Fault::new(FaultKind::CutStream, error.provider_message());
        self.pause(&setup.assistant, attempt, broken.clone(), wait, rest).await?;
        if self.cancel.is_cancelled() {
            return self.fail(setup, intake, None, aborted(), start).await;
        }
        if self.services.lifecycle.is_closing() {
            return Ok(TurnEnd::Closing);
        }
        let remains = Box::new(self.remains(setup, &intake, start.as_ref()).await);
        let entry = setup.assistant.clone();
        let mut events = vec![Event::StepFailed { entry, error: broken, resumes: true, remains }];
        if !intake.called() {
            events.push(self.go_on(GO_ON));
        }
        self.commit(events).await?;
        Ok(TurnEnd::Continue)
    }

    /// What tells the model to go on with an answer that broke off.
    pub(super) fn go_on(&self, words: &str) -> Event {
        let body = Body::Synthetic {
            text: Some(words.to_owned()),
            origin_type: Some("recovery".to_owned()),
            display: Some(false),
        };
        let mint = self.services.journal.mint();
        let entry = Entry::new(mint.entry(self.session()), self.session().leaf.clone(), mint.now(), body);
        Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() }
    }
}

/// How many of the newest answers broke off, one after the other.
fn cuts_in_a_row(tree: &Tree) -> usize {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let answers = path.iter().rev().take_while(|node| !matches!(node.entry.body, Body::User(_)));
    let closed =
        answers.filter_map(|node| node.entry.body.assistant()).filter(|answer| answer.completed.is_some());
    closed
        .take_while(|answer| answer.error.as_ref().is_some_and(|error| error.kind == FaultKind::CutStream))
        .count()
}
