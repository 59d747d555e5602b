//! One tool call: what it needs, whether that is allowed, and what came of it.

mod forecast;
mod permission;
mod repetition;
mod running;

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::part::PartKind;
use everturn_model::permission::{Action, Policy};
use everturn_model::request::{CallRef, Request};
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{EntryId, Event, Millis, Part, PartId, Session, SessionId};
use everturn_store::Lease;
use everturn_tools::{
    Context, Effect, Failure, Need, Output, Readable, Scope, ToolOffer, settle, settlement,
};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::background::unless_stopped;
use crate::bus::Signal;
use crate::file_views::FileViews;
use crate::guards::{Repetition, refusal_mark};
use crate::host::{CallHost, HostServices};
use crate::journal::Journal;
use crate::requests::Requests;
use crate::work_span::{WorkOutcome, WorkSpan};
use crate::{Config, Error, file_views};
pub(crate) use forecast::EditVerdict;
use permission::Permit;
pub(crate) use permission::{decide_need, denial_words};
pub(crate) use running::RunningCalls;

/// What the model is told when the work was stopped before the call could end.
pub(crate) const INTERRUPTED: &str = "Tool execution aborted";

/// What the model is told when nobody knows whether the call took effect.
pub(crate) const UNKNOWN: &str = "The outcome of this call is unknown: the process ended while it ran, so it may have \
taken effect in full, in part or not at all. It was not run again. Check the actual state before you go on.";

/// A call that is about to run.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    /// The assistant entry.
    pub(crate) entry: EntryId,
    /// Its tool part.
    pub(crate) part: PartId,
    /// The call's id.
    pub(crate) id: String,
    /// The tool's name.
    pub(crate) tool: String,
    /// The input.
    pub(crate) input: Value,
    /// When it was called.
    pub(crate) start: Millis,
    /// A request of an earlier process that it still waits for: a permission, or a question of the tool itself.
    pub(crate) waiting: Option<Request>,
    /// True when an earlier process may have begun it.
    pub(crate) again: bool,
    /// True when no model made it: the person gives a task to another agent.
    pub(crate) by_person: bool,
}

impl ToolCall {
    /// The call, as its requests name it.
    pub(crate) fn caller(&self) -> CallRef {
        CallRef { entry: self.entry.clone(), call: self.id.clone(), part: Some(self.part.clone()) }
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct SettledCall {
    /// The call.
    pub(crate) call: ToolCall,
    /// Its result.
    pub(crate) result: ToolResult,
    /// True when the person said no and nothing more: the session waits for them.
    pub(crate) declined: bool,
    /// Files it wrote.
    pub(crate) edited: Vec<PathBuf>,
}

/// Where and as whom calls run.
#[derive(Debug, Clone)]
pub(crate) struct CallSurroundings {
    /// The session as the turn began.
    pub(crate) session: Arc<Session>,
    /// Folders.
    pub(crate) scope: Arc<Scope>,
    /// The tools as the model was told about them.
    pub(crate) offer: Arc<ToolOffer>,
    /// What was configured when the turn began.
    pub(crate) config: Arc<Config>,
    /// What the turn's agent may do: a later switch does not change it.
    pub(crate) policy: Arc<Policy>,
    /// The file of the session's plan.
    pub(crate) plan: PathBuf,
    /// The right to run the session.
    pub(crate) lease: Lease,
    /// Fires when another process has taken it over.
    pub(crate) lost: CancellationToken,
    /// Fires when the work must stop.
    pub(crate) cancel: CancellationToken,
}

/// Runs tool calls; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ToolCalls {
    journal: Journal,
    requests: Requests,
    views: FileViews,
    host: Arc<HostServices>,
}

impl ToolCalls {
    /// Calls whose tools act on sessions through `host`.
    pub(crate) fn new(journal: Journal, requests: Requests, views: FileViews, host: HostServices) -> Self {
        Self { journal, requests, views, host: Arc::new(host) }
    }

    /// Runs a call to its end, as soon as it has one of the turn's places. Whatever happens, there is a result.
    pub(crate) async fn execute(
        self,
        setting: CallSurroundings,
        call: ToolCall,
        repeats: Option<Repetition>,
        places: Arc<Semaphore>,
    ) -> SettledCall {
        let mut span = WorkSpan::tool_call(&setting.session.id, &call.tool, &call.id);
        let attempt = self.attempt(&setting, &call, repeats, &places).instrument(span.span()).await;
        let (result, declined, edited) = match attempt {
            Ok(parts) => parts,
            Err(error) => {
                let text = format!("The call could not be run: {error}");
                (ToolResult::new(&call.id, &call.tool, Outcome::Error, &text), false, Vec::new())
            }
        };
        span.end(match result.outcome {
            Outcome::Completed => WorkOutcome::Completed,
            Outcome::Error if declined => WorkOutcome::Declined,
            Outcome::Error if setting.cancel.is_cancelled() => WorkOutcome::Interrupted,
            Outcome::Error => WorkOutcome::Failed,
            Outcome::Unknown => WorkOutcome::Unknown,
        });
        let result = ToolResult { start: Some(call.start), end: Some(self.journal.mint().now()), ..result };
        SettledCall { call, result, declined, edited }
    }

    /// Answers what a call still asks, before it settles.
    pub(crate) async fn withdraw_request(&self, session: &SessionId, call: &ToolCall) -> Result<(), Error> {
        self.requests.withdraw(session, &call.part, call.waiting.as_ref()).await
    }

    async fn attempt(
        &self,
        setting: &CallSurroundings,
        call: &ToolCall,
        repeats: Option<Repetition>,
        places: &Semaphore,
    ) -> Result<(ToolResult, bool, Vec<PathBuf>), Error> {
        let refuse = |text: &str| ToolResult::new(&call.id, &call.tool, Outcome::Error, text);
        let mut setting = setting.clone();
        let asked_before = match self.permit_repetition(&mut setting, call, repeats).await? {
            Permit::Refuse { text, declined } => {
                let result = ToolResult { metadata: Some(refusal_mark()), ..refuse(&text) };
                return Ok((result, declined, Vec::new()));
            }
            Permit::Run { asked } => asked,
        };
        let Some(tool) = setting.offer.get(&call.tool) else {
            let input = setting.offer.unknown(&call.tool);
            let text = input.get("error").and_then(Value::as_str).unwrap_or("There is no such tool.");
            return Ok((refuse(text), false, Vec::new()));
        };
        let asking = (Arc::clone(&tool), call.input.clone(), Arc::clone(&setting.scope));
        let needs = unless_stopped(&setting.cancel, move || asking.0.needs(&asking.1, &asking.2)).await?;
        let needs = match needs.unwrap_or(Err(Failure::Cancelled)) {
            Ok(needs) => needs,
            Err(Failure::Cancelled) => return Ok((refuse(INTERRUPTED), false, Vec::new())),
            Err(failure) => return Ok((refuse(&failure.to_string()), false, Vec::new())),
        };
        let granted: Arc<[Need]> = needs.clone().into();
        let asked = match self.permit(&mut setting, call, needs).await? {
            Permit::Refuse { text, declined } => return Ok((refuse(&text), declined, Vec::new())),
            Permit::Run { asked } => asked,
        };
        let setting = &setting;
        // A call that waits for a person or for a subagent takes no place from those that work.
        let place = async {
            match tool.effect() {
                Effect::Repeatable => None,
                Effect::Pure | Effect::Edit | Effect::Opaque => places.acquire().await.ok(),
            }
        };
        let _place = tokio::select! {
            biased;
            () = setting.cancel.cancelled() => return Ok((refuse(INTERRUPTED), false, Vec::new())),
            place = place => place,
        };
        let forecast = forecast::of(&tool, setting, call).await?;
        if asked || asked_before || !forecast.is_empty() {
            // From here on the call may have had an effect, and recovery has to know.
            let event = Event::ToolBegun { entry: call.entry.clone(), part: call.part.clone(), forecast };
            self.journal.append_owned(&setting.lease, vec![event]).await?;
        }
        let policy = Arc::clone(&setting.policy);
        let saved = self.requests.approvals(&setting.session, &setting.scope.worktree).await?;
        let readable =
            Readable::by(move |name| policy.decide(&saved, "read", &[name.to_owned()]) == Action::Allow);
        let seen = self.views.of(&setting.session.id);
        let (context, mut reports) = Context::new(Arc::clone(&setting.scope));
        let context = Context {
            cancel: setting.cancel.clone(),
            granted,
            readable,
            seen: Arc::clone(&seen),
            host: Arc::new(CallHost::new(Arc::clone(&self.host), setting.clone(), call.clone())),
            ..context
        };
        let rules = settlement::SettlementRules { limits: setting.config.tool_output, ..Default::default() };
        let running = settle(tool.as_ref(), call.input.clone(), context, rules);
        tokio::pin!(running);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => self.report(setting, call, report.metadata),
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(report) = reports.try_recv() {
            self.report(setting, call, report.metadata);
        }
        let (mut result, declined, edited) = match outcome {
            Ok(output) => {
                let edited = output.edited.clone();
                (self.completed(setting, call, output), false, edited)
            }
            Err(Failure::Cancelled) => (refuse(INTERRUPTED), false, Vec::new()),
            Err(failure) => {
                let declined = matches!(failure, Failure::Declined(_));
                (refuse(&failure.to_string()), declined, Vec::new())
            }
        };
        file_views::store_in(&seen, &mut result);
        Ok((result, declined, edited))
    }

    fn completed(&self, setting: &CallSurroundings, call: &ToolCall, output: Output) -> ToolResult {
        let attachments: Vec<Part> = output
            .attachments
            .into_iter()
            .map(|file| {
                let kind =
                    PartKind::File { mime: file.mime, filename: file.filename, url: file.url, source: None };
                Part::new(self.journal.mint().part(&setting.session), kind)
            })
            .collect();
        ToolResult {
            title: Some(output.title),
            metadata: Some(output.metadata),
            attachments: (!attachments.is_empty()).then_some(attachments),
            ..ToolResult::new(&call.id, &call.tool, Outcome::Completed, &output.output)
        }
    }

    fn report(&self, setting: &CallSurroundings, call: &ToolCall, metadata: everturn_model::Map) {
        let state = ToolState::Running {
            input: call.input.clone(),
            title: None,
            metadata: Some(metadata),
            start: call.start,
        };
        let (id, tool) = (call.id.clone(), call.tool.clone());
        let kind = PartKind::Tool { call: id, tool, state, hosted: false, metadata: None };
        let part = Box::new(Part::new(call.part.clone(), kind));
        let progress = Signal::Progress { message: call.entry.to_string(), part };
        self.journal.signal_unless(&setting.lost, &setting.session, progress);
    }
}
