//! The stream of a turn: deltas come in, calls run in parallel, and whoever stops the session stops both.

use std::time::Duration;

use everturn_llm::StreamEvent as Delta;
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part};
use everturn_tools::snapshot::TreeId;
use tokio::task::JoinHandle;

use super::fault::{aborted, fault};
use super::intake::StreamIntake;
use super::{Turn, TurnEnd, TurnSetup};
use crate::Error;
use crate::bus::Signal;
use crate::calls::RunningCalls;
use crate::provider_call::ProviderCall;

/// How often streamed text is saved at least.
const SAVE_EVERY: Duration = Duration::from_millis(200);

impl TurnSetup {
    /// A call to the model of the turn.
    fn call(&self) -> ProviderCall {
        ProviderCall::new(&self.setting.session.id, &self.chosen, &self.request)
    }
}

impl Turn<'_> {
    /// Talks to the provider and runs what it asks for.
    pub(super) async fn converse(
        &mut self,
        setup: TurnSetup,
        before: JoinHandle<Option<TreeId>>,
    ) -> Result<TurnEnd, Error> {
        let mut stream = setup.call();
        let mut before = Some(before);
        let mut start: Option<TreeId> = None;
        let mut intake = StreamIntake::new(setup.assistant.clone());
        let mut calls = RunningCalls::new(self.services.journal.mint().clone());
        let mut declined = false;
        let mut tries = 0;
        let mut save = tokio::time::interval(SAVE_EVERY);
        save.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let lifecycle = self.services.lifecycle.clone();
        let mut streaming = true;
        while streaming || !calls.is_empty() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    setup.setting.cancel.cancel();
                    drop(stream);
                    return self.fail(&setup, intake, Some(calls), aborted(), start).await;
                }
                () = lifecycle.closing() => {
                    intake.save(self);
                    return Ok(TurnEnd::Closing);
                }
                Some(settled) = calls.next(), if !calls.is_empty() => {
                    declined |= settled.declined;
                    intake.settled(&settled.call.part);
                    self.settle(settled).await?;
                }
                delta = stream.next(), if streaming => match delta {
                    Some(Ok(Delta::Start)) => {
                        if let Some(before) = before.take() {
                            start = before.await.ok().flatten();
                            self.start_step(&setup.assistant, start.as_ref()).await?;
                        }
                    }
                    Some(Ok(delta)) => {
                        for call in intake.take(self, delta).await? {
                            calls.start(&self.services.calls, setup.setting.clone(), call);
                        }
                    }
                    Some(Err(error)) => {
                        tries += 1;
                        let wait = if intake.may_be_repeated() { self.retry_delay(tries, &error) } else { None };
                        match wait {
                            Some(wait) => {
                                self.wait(tries, &error, wait).await;
                                stream = setup.call();
                            }
                            None => {
                                drop(stream);
                                let fault = fault(&setup.chosen, &error);
                                return self.fail(&setup, intake, Some(calls), fault, start).await;
                            }
                        }
                    }
                    None => streaming = false,
                },
                _ = save.tick(), if intake.is_open() => intake.save(self),
            }
        }
        self.close(setup, intake, start, declined).await
    }

    async fn start_step(&mut self, assistant: &EntryId, snapshot: Option<&TreeId>) -> Result<(), Error> {
        let kind = PartKind::StepStart { snapshot: snapshot.map(|tree| tree.as_str().to_owned()) };
        let part = Box::new(Part::new(self.services.journal.mint().part(self.session()), kind));
        self.commit(vec![Event::PartAdded { entry: assistant.clone(), part }]).await
    }

    fn retry_delay(&self, tries: u32, error: &everturn_llm::Error) -> Option<Duration> {
        everturn_llm::retry::RetryPolicy::default().delay(
            tries,
            error,
            self.services.journal.mint().random_fraction(),
        )
    }

    async fn wait(&self, attempt: u32, error: &everturn_llm::Error, wait: Duration) {
        let next = self.services.journal.mint().now() + i64::try_from(wait.as_millis()).unwrap_or_default();
        let retry = Signal::Retry { attempt, message: error.provider_message(), next };
        self.services.drains.set_status(&self.session().id, retry.clone());
        self.signal(retry);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.cancel.cancelled() => {}
            () = self.services.lifecycle.closing() => {}
        }
        self.services.drains.set_status(&self.session().id, Signal::Busy);
        self.signal(Signal::Busy);
    }
}
