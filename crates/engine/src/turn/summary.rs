//! The request for a summary, and its answer as it streams.

use std::time::Duration;

use everturn_llm::retry::RetryPolicy;
use everturn_llm::{Content, Error as Failure, Message, ModelRequest, StreamEvent as Delta};
use everturn_model::event::StepRemains;
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Fault, FaultKind, Finish, Part, Tokens, bill};
use everturn_tools::snapshot::TreeId;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Turn;
use super::accounting::{AnswerMeter, UsedTokens, tokens};
use super::fault::{fault_of, too_long};
use super::intake::StreamIntake;
use super::stream::SAVE_EVERY;
use crate::agents::Agent;
use crate::compaction::question::{self, SummaryQuestion};
use crate::compaction::size;
use crate::config::{CompactionSettings, TurnLimits};
use crate::models::UsableModel;
use crate::provider_call::ProviderCall;
use crate::{Config, Error};

/// The longest summary, in tokens.
const LONGEST: u64 = 8_192;

/// The shortest that a model is given room for, however small its window is.
const SHORTEST: u64 = 512;

/// What a model is asked besides the conversation, in tokens.
const BESIDES: u64 = 1_000;

/// What a window is taken for that nobody knows, in tokens.
const UNKNOWN_WINDOW: u64 = 100_000;

/// How often a summary is asked for, where the provider fails or finds the conversation too long.
const TRIES: u32 = 3;

/// How a summary ended.
pub(super) enum SummaryEnd {
    Written { text: String, remains: StepRemains },
    Failed { fault: Fault, remains: StepRemains },
    Stopped { remains: StepRemains },
    Closing,
}

/// What is to be summed up, and how.
pub(super) struct SummaryTask {
    agent: Option<Agent>,
    limits: TurnLimits,
    earlier: Option<String>,
    pieces: Vec<String>,
    splits: bool,
    focus: Option<String>,
    /// How long the summary may be, in tokens.
    longest: u64,
    /// How much of the conversation fits into one request, in tokens.
    room: u64,
}

/// How one request ended.
enum RequestEnd {
    Said { text: String, finish: Finish },
    Failed(Failure),
    TooLong,
    OutOfTime,
    Stopped,
    Closing,
}

impl SummaryTask {
    pub(super) fn new(
        agent: Option<&Agent>,
        chosen: &UsableModel,
        config: &Config,
        earlier: Option<String>,
        pieces: Vec<String>,
        splits: bool,
        focus: Option<String>,
    ) -> Self {
        let limits = &chosen.model.limits;
        let window = CompactionSettings::default().usable(limits).unwrap_or(UNKNOWN_WINDOW);
        let longest = LONGEST.min(window / 4).max(SHORTEST);
        let longest = if limits.output == 0 { longest } else { longest.min(limits.output) };
        let said = earlier.as_deref().map_or(0, size::of_text);
        let room = window.saturating_sub(BESIDES + said).max(window / 4).max(1);
        let (agent, limits) = (agent.cloned(), config.limits);
        Self { agent, limits, earlier, pieces, splits, focus, longest, room }
    }

    fn request(&self, chosen: &UsableModel, words: String) -> ModelRequest {
        let agent = self.agent.as_ref();
        ModelRequest {
            origin: chosen.origin(),
            model: chosen.model.wire.to_string(),
            system: agent.map(|agent| agent.prompt.clone()).into_iter().collect(),
            messages: vec![Message::User(vec![Content::Text(words)])],
            max_output: Some(self.longest),
            temperature: agent.and_then(|agent| agent.temperature),
            top_p: agent.and_then(|agent| agent.top_p),
            options: chosen.setting().options,
            ..ModelRequest::default()
        }
    }
}

impl Turn<'_> {
    /// Has a summary written. What does not fit into one request is summed up piece by piece, and only the last piece is
    /// shown as it streams.
    pub(super) async fn write_summary(
        &mut self,
        entry: &EntryId,
        chosen: &UsableModel,
        task: SummaryTask,
        before: JoinHandle<Option<TreeId>>,
    ) -> Result<SummaryEnd, Error> {
        let mut room = task.room;
        let mut before = Some(before);
        let mut tries = 0;
        let mut deadline = Instant::now() + task.limits.turn;
        'anew: loop {
            let (groups, left_out) = question::groups(task.pieces.clone(), room);
            let last = groups.len().saturating_sub(1);
            let mut earlier = task.earlier.clone();
            // Without anything new the earlier summary is written anew.
            let groups = if groups.is_empty() { vec![Vec::new()] } else { groups };
            for (at, pieces) in groups.iter().enumerate() {
                let words = SummaryQuestion {
                    earlier: earlier.as_deref(),
                    pieces,
                    left_out: if at == 0 { left_out } else { 0 },
                    splits: task.splits && at == last,
                    focus: task.focus.as_deref(),
                };
                let request = task.request(chosen, words.words());
                let mut intake = StreamIntake::of_second(entry.clone(), at == last);
                let end = self
                    .ask_for_summary(chosen, request, &task, &mut intake, &mut before, &mut deadline)
                    .await?;
                let (end, used) = end;
                let remains = |finish: Option<Finish>| remains(chosen, used, finish);
                let failed = match end {
                    RequestEnd::Closing => return Ok(SummaryEnd::Closing),
                    RequestEnd::Said { text, finish } => match wrong(&text, &finish, task.longest) {
                        Some(fault) => fault,
                        None if at < last => {
                            self.bill_summary(chosen, used, false);
                            earlier = Some(text);
                            continue;
                        }
                        None => {
                            let mut remains = remains(Some(finish));
                            self.finish_parts(&mut intake, &mut remains);
                            return Ok(SummaryEnd::Written { text: text.trim().to_owned(), remains });
                        }
                    },
                    RequestEnd::Stopped => {
                        self.abandon(&mut intake);
                        return Ok(SummaryEnd::Stopped { remains: remains(None) });
                    }
                    RequestEnd::TooLong => wrong_length(),
                    RequestEnd::OutOfTime => too_long(task.limits.turn),
                    RequestEnd::Failed(failure) => {
                        tries += 1;
                        let overflows = matches!(failure, Failure::ContextOverflow { .. });
                        let again = overflows || failure.retryable();
                        let wait = if overflows {
                            Some(Duration::ZERO)
                        } else {
                            self.pause_before(tries, &failure, task.limits)
                        };
                        if let Some(wait) =
                            wait.filter(|_| again && tries < TRIES && intake.may_be_repeated())
                        {
                            self.bill_summary(chosen, used, true);
                            if overflows {
                                room = (room / 2).max(1);
                            }
                            if !self.waited(wait).await {
                                return Ok(self.after_waiting());
                            }
                            continue 'anew;
                        }
                        fault_of(&chosen.reference.provider, task.limits.retry_after, &failure)
                    }
                };
                self.abandon(&mut intake);
                return Ok(SummaryEnd::Failed { fault: failed, remains: remains(None) });
            }
        }
    }

    /// Makes one request. What is thought and said is taken in as it streams, if it is the last one.
    async fn ask_for_summary(
        &mut self,
        chosen: &UsableModel,
        request: ModelRequest,
        task: &SummaryTask,
        intake: &mut StreamIntake,
        before: &mut Option<JoinHandle<Option<TreeId>>>,
        deadline: &mut Instant,
    ) -> Result<(RequestEnd, UsedTokens), Error> {
        let queued = Instant::now();
        let place = self.place().await;
        *deadline += queued.elapsed();
        let request = chosen.provider.prepare(request);
        let mut stream = ProviderCall::new(&self.session().id, chosen, &request).holding(place);
        let lifecycle = self.services.lifecycle.clone();
        let (mut meter, mut text, mut finish) = (AnswerMeter::default(), String::new(), None);
        let mut said = Tokens::default();
        let mut heard = Instant::now();
        let mut save_at = None;
        let end = loop {
            let unsaved = intake.is_open() || self.has_waiting();
            save_at = unsaved.then(|| save_at.unwrap_or_else(|| Instant::now() + SAVE_EVERY));
            let delta = tokio::select! {
                biased;
                () = self.cancel.cancelled() => break RequestEnd::Stopped,
                () = lifecycle.closing() => {
                    intake.save(self);
                    self.record_waiting().await?;
                    break RequestEnd::Closing;
                }
                delta = stream.next() => delta,
                () = tokio::time::sleep_until(*deadline) => break RequestEnd::OutOfTime,
                () = tokio::time::sleep_until(heard + task.limits.inactivity) => {
                    let after = task.limits.inactivity;
                    break RequestEnd::Failed(Failure::Inactivity { after, before_first_byte: false });
                }
                () = super::stream::sleep_until(save_at), if save_at.is_some() => {
                    intake.save(self);
                    self.record_waiting().await?;
                    save_at = None;
                    continue;
                }
            };
            let delta = match delta {
                None => {
                    break match finish {
                        Some(finish) => RequestEnd::Said { text, finish },
                        None => {
                            RequestEnd::Failed(Failure::Incomplete { reason: "it has no end".to_owned() })
                        }
                    };
                }
                Some(Err(failure)) => break RequestEnd::Failed(failure),
                Some(Ok(delta)) => delta,
            };
            meter.follow(&delta);
            match &delta {
                Delta::TextDelta { text: more, .. } => {
                    heard = Instant::now();
                    text.push_str(more);
                    // Whoever does not stop by itself is stopped.
                    if size::of_text(&text) > task.longest.saturating_mul(2) {
                        break RequestEnd::TooLong;
                    }
                }
                Delta::ReasoningDelta { .. } => heard = Instant::now(),
                Delta::StepFinish { reason, usage, .. } => {
                    finish = Some(super::intake::reason_of(*reason));
                    said = tokens(usage);
                }
                Delta::Start if intake.is_shown() => {
                    if let Some(before) = before.take() {
                        let snapshot = before.await.ok().flatten();
                        self.start_summary(intake.entry(), snapshot.as_ref());
                    }
                }
                _ => {}
            }
            // No tools are offered, so a call is none.
            let shown = matches!(
                delta,
                Delta::TextStart { .. }
                    | Delta::TextDelta { .. }
                    | Delta::TextEnd { .. }
                    | Delta::ReasoningStart { .. }
                    | Delta::ReasoningDelta { .. }
                    | Delta::ReasoningEnd { .. }
            );
            if shown && intake.is_shown() {
                intake.take(self, delta).await?;
            }
        };
        let used = match said.sum() {
            0 => meter.used(request.request()),
            _ => UsedTokens { tokens: said, estimated: false },
        };
        Ok((end, used))
    }

    /// Has the files before the summary recorded, as with any step: clients find them there.
    fn start_summary(&mut self, entry: &EntryId, snapshot: Option<&TreeId>) {
        let kind = PartKind::StepStart { snapshot: snapshot.map(|tree| tree.as_str().to_owned()) };
        let part =
            Part { second: true, ..Part::new(self.services.journal.mint().part(self.session()), kind) };
        self.record_later(Event::PartAdded { entry: entry.clone(), part: Box::new(part) });
    }

    /// The part that says what a summary used, with the files as they were when it began.
    fn finish_parts(&mut self, intake: &mut StreamIntake, remains: &mut StepRemains) {
        self.abandon(intake);
        let node = self.tree.node(intake.entry());
        let snapshot =
            node.into_iter().flat_map(|node| &node.parts).rev().find_map(|part| match &part.kind {
                PartKind::StepStart { snapshot } if !part.hidden => snapshot.clone(),
                _ => None,
            });
        let kind = PartKind::StepFinish {
            reason: remains.finish.clone().unwrap_or(Finish::Unknown),
            snapshot,
            tokens: remains.tokens,
            cost: remains.cost,
        };
        let id = self.services.journal.mint().part(self.session());
        remains.parts.push(Part { second: true, ..Part::new(id, kind) });
    }

    /// Keeps what was streamed of a text that does not go on.
    fn abandon(&mut self, intake: &mut StreamIntake) {
        intake.abandon().into_iter().for_each(|event| self.record_later(event));
    }

    /// Has what a request used recorded that is no part of the summary's own count.
    fn bill_summary(&mut self, chosen: &UsableModel, UsedTokens { tokens, .. }: UsedTokens, failed: bool) {
        if tokens.sum() > 0 {
            self.record_later(Event::UsageRecorded {
                source: bill::COMPACTION.to_owned(),
                tokens,
                cost: chosen.pricing().cost(&tokens),
                model: Some(chosen.reference.clone()),
                failed,
            });
        }
    }

    /// How long to wait before a request is made again; none when it is not.
    fn pause_before(&self, tries: u32, failure: &Failure, limits: TurnLimits) -> Option<Duration> {
        let policy = RetryPolicy { advice_cap: limits.retry_after, ..RetryPolicy::default() };
        policy.delay(tries, failure, self.services.journal.mint().random_fraction())
    }

    /// Waits; false when somebody stopped that.
    async fn waited(&self, wait: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = self.services.lifecycle.closing() => false,
            () = tokio::time::sleep(wait) => true,
        }
    }

    fn after_waiting(&self) -> SummaryEnd {
        match self.services.lifecycle.is_closing() {
            true => SummaryEnd::Closing,
            false => SummaryEnd::Stopped { remains: StepRemains::default() },
        }
    }
}

fn remains(chosen: &UsableModel, used: UsedTokens, finish: Option<Finish>) -> StepRemains {
    let UsedTokens { tokens, estimated } = used;
    StepRemains { finish, tokens, cost: chosen.pricing().cost(&tokens), estimated, ..StepRemains::default() }
}

/// What is wrong with a summary, if it cannot stand for anything.
fn wrong(text: &str, finish: &Finish, longest: u64) -> Option<Fault> {
    if *finish == Finish::Length {
        let words = "The summary reached the longest length that it may have, and its end is missing.";
        return Some(Fault::new(FaultKind::OutputLength, words));
    }
    if *finish == Finish::ContentFilter {
        let words = "The provider's filter ended the summary.";
        return Some(Fault::new(FaultKind::ContentFilter, words));
    }
    if text.trim().is_empty() {
        return Some(Fault::internal("The model gave no summary."));
    }
    (size::of_text(text) > longest.saturating_mul(2)).then(wrong_length)
}

fn wrong_length() -> Fault {
    Fault::new(FaultKind::OutputLength, "The summary is longer than a summary may be.")
}
