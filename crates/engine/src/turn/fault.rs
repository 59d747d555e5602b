//! Turns that fail: what was streamed is kept, what ran is settled, and the reason is in the log.

use everturn_model::fault::{ApiFault, Fault, FaultKind};
use everturn_model::tool::Outcome;
use everturn_model::{EntryId, Event};
use everturn_tools::snapshot::TreeId;

use super::intake::StreamIntake;
use super::opening::TurnOpening;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;
use crate::bus::Signal;
use crate::calls::{INTERRUPTED, RunningCalls};
use crate::models::UsableModel;

impl Turn<'_> {
    /// A turn that cannot begin: the prompt is promoted, the failure is an answer that says why.
    pub(super) async fn refuse(&mut self, error: &Error) -> Result<TurnEnd, Error> {
        let mut opening = TurnOpening::at(&self.tree, self.services.journal.mint());
        let id = opening.start_refused();
        self.commit(opening.into_events()).await?;
        self.give_up(&id, Fault::internal(error.to_string()), Vec::new()).await
    }

    /// Ends a turn that failed or was interrupted: what was streamed is kept, what ran is settled.
    pub(super) async fn fail(
        &mut self,
        setup: &TurnSetup,
        mut intake: StreamIntake,
        calls: Option<RunningCalls>,
        fault: Fault,
        start: Option<TreeId>,
    ) -> Result<TurnEnd, Error> {
        setup.setting.cancel.cancel();
        let called = intake.called();
        let rest = intake.abandon();
        let mut unsettled = intake.unsettled();
        let mut calls = calls;
        while let Some(calls) = &mut calls
            && let Some(mut settled) = calls.next().await
        {
            unsettled.retain(|call| call.part != settled.call.part);
            if settled.result.outcome == Outcome::Error {
                settled.result.output = INTERRUPTED.to_owned();
            }
            self.settle(settled).await?;
        }
        for call in unsettled {
            let settled = unfinished(call, self.services.journal.mint().now(), INTERRUPTED);
            self.settle(settled).await?;
        }
        let mut rest = rest;
        if called {
            let snapshots = setup.snapshots.clone();
            rest.extend(self.record_partial_changes(&setup.assistant, snapshots, start).await);
        }
        self.give_up(&setup.assistant, fault, rest).await
    }

    /// Says why a turn ends, to clients and then to the log, with what else is to be recorded of it.
    pub(super) async fn give_up(
        &mut self,
        assistant: &EntryId,
        error: Fault,
        mut events: Vec<Event>,
    ) -> Result<TurnEnd, Error> {
        // Clients hear of a failure before it is in the log: so it has to be ours. A process that was stopped for long wakes
        // up to a broken connection, and to a session that another one has.
        self.services.store.renew(self.lease).await?;
        self.signal(Signal::Failed { error: error.clone() });
        self.services.drains.set_status(&self.session().id, Signal::Idle);
        self.signal(Signal::Idle);
        events.push(Event::StepFailed {
            entry: assistant.clone(),
            error,
            resumes: false,
            remains: Box::default(),
        });
        self.commit(events).await?;
        Ok(TurnEnd::Failed)
    }
}

/// What is said of a turn that somebody stopped.
pub(super) fn aborted() -> Fault {
    Fault::new(FaultKind::Aborted, "Aborted")
}

/// A provider's failure.
pub(super) fn fault(chosen: &UsableModel, error: &everturn_llm::Error) -> Fault {
    let message = error.provider_message();
    let Some(http) = error.http() else { return Fault::internal(message) };
    if matches!(error, everturn_llm::Error::Authentication { .. }) {
        let provider = chosen.reference.provider.clone();
        return Fault::new(FaultKind::Authentication { provider }, message);
    }
    let api = ApiFault {
        status: Some(http.status.into()),
        retryable: Some(error.retryable()),
        headers: Some(http.headers.clone()),
        body: Some(http.body.clone()),
        url: Some(http.url.clone()),
    };
    Fault::new(FaultKind::Api(Box::new(api)), message)
}
