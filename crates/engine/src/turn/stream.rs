//! The stream of a turn: deltas come in, calls run in parallel, and whoever stops the session stops both. Nothing is
//! waited for without end: neither for an answer to go on, nor for it to end.

use std::time::Duration;

use everturn_llm::{Error as Failure, StreamEvent as Delta};
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part};
use everturn_tools::snapshot::TreeId;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::accounting::{self, AnswerMeter};
use super::fault::{aborted, fault, too_long};
use super::intake::StreamIntake;
use super::{Turn, TurnEnd, TurnSetup, remains, retry};
use crate::Error;
use crate::calls::RunningCalls;
use crate::provider_call::ProviderCall;

/// How long streamed text, and what is recorded with something else, waits for that at most.
pub(super) const SAVE_EVERY: Duration = Duration::from_millis(200);

impl Turn<'_> {
    /// Talks to the provider and runs what it asks for.
    pub(super) async fn converse(
        &mut self,
        setup: TurnSetup,
        before: JoinHandle<Option<TreeId>>,
    ) -> Result<TurnEnd, Error> {
        let limits = setup.setting.config.limits;
        let mut deadline = Instant::now() + limits.turn;
        let mut start = remains::start_of(&self.tree, &setup.assistant);
        let mut before = Some(before).filter(|_| !has_begun(self, &setup.assistant));
        let mut intake = StreamIntake::new(setup.assistant.clone());
        let mut calls = RunningCalls::new(self.services.journal.mint().clone());
        let mut declined = false;
        let mut cut: Option<Failure> = None;
        let mut tries = 0;
        // An earlier process scheduled it.
        if let Some(waiting) = retry::waiting_step(&self.tree).cloned() {
            tries = waiting.attempt;
            self.wait_for(&waiting).await;
        }
        let mut save_at = None;
        let lifecycle = self.services.lifecycle.clone();
        let mut stream = Some(self.call(&setup, &mut deadline).await);
        let mut heard = Instant::now();
        while stream.is_some() || !calls.is_empty() {
            let unsaved = intake.is_open() || self.has_waiting();
            save_at = unsaved.then(|| save_at.unwrap_or_else(|| Instant::now() + SAVE_EVERY));
            let failed = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    setup.setting.cancel.cancel();
                    drop(stream);
                    return self.fail(&setup, intake, Some(calls), aborted(), start).await;
                }
                () = lifecycle.closing() => {
                    intake.save(self);
                    self.record_waiting().await?;
                    self.leave_in_order().await?;
                    return Ok(TurnEnd::Closing);
                }
                Some(settled) = calls.next(), if !calls.is_empty() => {
                    declined |= settled.declined;
                    intake.settled(&settled.call.part);
                    self.settle(settled).await?;
                    continue;
                }
                delta = next_delta(&mut stream), if stream.is_some() => match delta {
                    Some(Ok(delta)) => {
                        if adds_something(&delta) {
                            heard = Instant::now();
                        }
                        intake.meter.follow(&delta);
                        match delta {
                            Delta::Start => {
                                if let Some(before) = before.take() {
                                    start = before.await.ok().flatten();
                                    self.start_step(&setup.assistant, start.as_ref());
                                }
                            }
                            Delta::Usage(_) => self.note_usage(&setup, &mut intake.meter),
                            delta => {
                                let ends = matches!(delta, Delta::StepFinish { .. });
                                for call in intake.take(self, delta).await? {
                                    calls.start(&self.services.calls, setup.setting.clone(), &self.tree, call);
                                }
                                // The step is closed when they are done, which may be long after this.
                                if ends && !calls.is_empty() {
                                    self.note_usage(&setup, &mut intake.meter);
                                }
                            }
                        }
                        continue;
                    }
                    Some(Err(error)) => error,
                    None => {
                        stream = None;
                        continue;
                    }
                },
                () = tokio::time::sleep_until(deadline), if stream.is_some() => {
                    drop(stream);
                    return self.fail(&setup, intake, Some(calls), too_long(limits.turn), start).await;
                }
                () = tokio::time::sleep_until(heard + limits.inactivity), if stream.is_some() => {
                    Failure::Inactivity { after: limits.inactivity, before_first_byte: false }
                }
                () = sleep_until(save_at), if save_at.is_some() => {
                    intake.save(self);
                    self.record_waiting().await?;
                    save_at = None;
                    continue;
                }
            };
            stream = None;
            if !intake.may_be_repeated() && failed.retryable() {
                // What it has called is real work, and ends as such.
                cut = Some(failed);
                continue;
            }
            if matches!(failed, Failure::ContextOverflow { .. }) && intake.may_be_repeated() {
                return self.make_room(&setup, intake, fault(&setup, &failed), start).await;
            }
            tries += 1;
            let wait = self.retry_delay(&setup, tries, &failed).filter(|_| intake.may_be_repeated());
            let Some(wait) = wait.filter(|wait| Instant::now() + *wait < deadline) else {
                let fault = fault(&setup, &failed);
                return self.fail(&setup, intake, Some(calls), fault, start).await;
            };
            let billed = accounting::failed_attempt(&setup, &intake.meter);
            intake.meter = AnswerMeter::default();
            let fault = fault(&setup, &failed);
            self.pause(&setup.assistant, tries, fault, wait, billed.into_iter().collect()).await?;
            stream = Some(self.call(&setup, &mut deadline).await);
            heard = Instant::now();
        }
        match cut {
            Some(error) => self.cut(&setup, intake, &error, start, declined).await,
            None => self.close(setup, intake, start, declined).await,
        }
    }

    /// A call to the model of the turn, in a place of its own. Waiting for that is not the provider's time.
    async fn call(&self, setup: &TurnSetup, deadline: &mut Instant) -> ProviderCall {
        let queued = Instant::now();
        let place = self.place().await;
        *deadline += queued.elapsed();
        ProviderCall::new(&setup.setting.session.id, &setup.chosen, &setup.request).holding(place)
    }

    /// Has the files before the answer recorded with the first thing that the model says: until then nothing changes them.
    fn start_step(&mut self, assistant: &EntryId, snapshot: Option<&TreeId>) {
        let kind = PartKind::StepStart { snapshot: snapshot.map(|tree| tree.as_str().to_owned()) };
        let part = Box::new(Part::new(self.services.journal.mint().part(self.session()), kind));
        self.record_later(Event::PartAdded { entry: assistant.clone(), part });
    }
}

/// Waits until a moment; without one for ever.
pub(super) async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The next delta of a stream, as long as there is one.
async fn next_delta(stream: &mut Option<ProviderCall>) -> Option<Result<Delta, Failure>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// Whether an answer gets on by a delta. What only says that the provider is alive may go on for ever.
fn adds_something(delta: &Delta) -> bool {
    match delta {
        Delta::Usage(_) => false,
        Delta::TextDelta { text, .. }
        | Delta::ReasoningDelta { text, .. }
        | Delta::ToolInputDelta { text, .. } => !text.is_empty(),
        _ => true,
    }
}

/// Whether an earlier process has recorded the files before this answer.
fn has_begun(turn: &Turn<'_>, assistant: &EntryId) -> bool {
    let parts = turn.tree.node(assistant).into_iter().flat_map(|node| &node.parts);
    parts.into_iter().any(|part| matches!(part.kind, PartKind::StepStart { .. }))
}
