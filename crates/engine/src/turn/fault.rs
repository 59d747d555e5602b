//! Turns that fail: what was streamed is kept, what ran is settled, what was used is counted, and the reason is in the log.

use std::time::Duration;

use everturn_llm::Error as Failure;
use everturn_llm::catalogue::ConnectError;
use everturn_model::event::StepRemains;
use everturn_model::fault::{ApiFault, Fault, FaultKind};
use everturn_model::tool::Outcome;
use everturn_model::{EntryId, Event, Millis};
use everturn_tools::snapshot::TreeId;

use super::intake::StreamIntake;
use super::opening::TurnOpening;
use super::results::unfinished;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;
use crate::bus::Signal;
use crate::calls::{INTERRUPTED, RunningCalls};

impl Turn<'_> {
    /// A turn that cannot begin: the prompt is promoted, the failure is an answer that says why.
    pub(super) async fn refuse(&mut self, error: &Error) -> Result<TurnEnd, Error> {
        let mut opening = TurnOpening::at(&self.tree, self.services.journal.mint());
        let id = opening.start_refused();
        self.commit(opening.into_events()).await?;
        let fault = self.refusal(error);
        self.give_up(&id, fault, Vec::new(), StepRemains::default()).await
    }

    /// Why no model can be asked.
    pub(super) fn refusal(&self, error: &Error) -> Fault {
        let provider = self.selected_model().map(|model| model.provider);
        match (error, provider) {
            (Error::Connect(ConnectError::Key(_)), Some(provider)) => {
                Fault::new(FaultKind::Authentication { provider }, error.to_string())
            }
            _ => Fault::internal(error.to_string()),
        }
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
        let rest = intake.abandon();
        let mut unsettled = intake.take_unsettled();
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
        let remains = self.remains(setup, &intake, start.as_ref()).await;
        self.give_up(&setup.assistant, fault, rest, remains).await
    }

    /// Says why a turn ends, to clients and then to the log, with what else is to be recorded of it.
    pub(super) async fn give_up(
        &mut self,
        assistant: &EntryId,
        error: Fault,
        mut events: Vec<Event>,
        remains: StepRemains,
    ) -> Result<TurnEnd, Error> {
        // Clients hear of a failure before it is in the log: so it has to be ours. A process that was stopped for long wakes
        // up to a broken connection, and to a session that another one has.
        self.services.store.renew(self.lease).await?;
        self.signal(Signal::Failed { error: error.clone() });
        self.services.drains.set_status(&self.session().id, Signal::Idle);
        self.signal(Signal::Idle);
        let (entry, remains) = (assistant.clone(), Box::new(remains));
        events.push(Event::StepFailed { entry, error, resumes: false, remains });
        self.commit(events).await?;
        Ok(TurnEnd::Failed)
    }
}

/// What is said of a turn that somebody stopped.
pub(super) fn aborted() -> Fault {
    Fault::new(FaultKind::Aborted, "Aborted")
}

/// What is said of a turn for which the provider took longer than it may.
pub(super) fn too_long(limit: Duration) -> Fault {
    let words =
        format!("The provider took longer for this turn than the {} that are allowed.", spoken(limit));
    Fault::new(FaultKind::TimedOut { limit: millis(limit) }, words)
}

/// A provider's failure, by its name.
pub(super) fn fault(setup: &TurnSetup, error: &Failure) -> Fault {
    fault_of(&setup.chosen.reference.provider, setup.setting.config.limits.retry_after, error)
}

/// The same of any request to a provider, where a session waits so long by itself.
pub(super) fn fault_of(provider: &str, longest: Duration, error: &Failure) -> Fault {
    let mut message = error.provider_message();
    if let Some(advice) = error.retry_after().filter(|advice| *advice > longest) {
        message.push_str(&format!(
            " The provider asks to wait {}, which is longer than the {} for which a session waits by itself.",
            spoken(advice),
            spoken(longest)
        ));
    }
    let kind = match error {
        Failure::Authentication { .. } => FaultKind::Authentication { provider: provider.to_owned() },
        Failure::ContextOverflow { http } => FaultKind::ContextOverflow { body: Some(http.body.clone()) },
        Failure::ContentFilter { .. } => FaultKind::ContentFilter,
        Failure::Transport { .. } | Failure::Incomplete { .. } => FaultKind::CutStream,
        Failure::Inactivity { after, .. } => FaultKind::TimedOut { limit: millis(*after) },
        Failure::Configuration { .. } => FaultKind::Internal,
        Failure::RateLimit { http, .. }
        | Failure::Overloaded { http }
        | Failure::InvalidRequest { http }
        | Failure::Quota { http }
        | Failure::Server { http }
        | Failure::Malformed { http, .. } => FaultKind::Api(Box::new(ApiFault {
            status: Some(http.status.into()),
            retryable: Some(error.retryable()),
            headers: Some(http.headers.clone()),
            body: Some(http.body.clone()),
            url: Some(http.url.clone()),
        })),
    };
    Fault::new(kind, message)
}

fn millis(time: Duration) -> Millis {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A time as people say it.
fn spoken(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} milliseconds", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} seconds"),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_words() {
        let spoken = |millis| spoken(Duration::from_millis(millis));
        let said = ["250 milliseconds", "90 seconds", "30 minutes", "5 hours"];
        assert_eq!([spoken(250), spoken(90_000), spoken(1_800_000), spoken(18_000_000)], said);
    }
}
