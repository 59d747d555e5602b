//! One tool call: what it needs, whether that is allowed, and what came of it.

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::part::PartKind;
use everturn_model::permission::{self, Action, Rule};
use everturn_model::request::{Ask, CallRef, Request};
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{EntryId, Event, Millis, Part, PartId, Session};
use everturn_store::{Authority, Lease};
use everturn_tools::{Context, Failure, Need, Offer, Output, Readable, Scope, settle, settlement};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::asks::Answer;
use crate::bus::Signal;
use crate::guidance::unless_stopped;
use crate::host::CallHost;
use crate::{Engine, Error, sights};

/// What the model is told when the person says no. Clients look for these words.
const REJECTED: &str = "The user rejected permission to use this specific tool call.";

/// What the model is told when the work was stopped before the call could end.
pub(crate) const INTERRUPTED: &str = "Tool execution aborted";

/// What the model is told when nobody knows whether the call took effect.
pub(crate) const UNKNOWN: &str = "The outcome of this call is unknown: the process ended while it ran, so it may have \
taken effect in full, in part or not at all. It was not run again. Check the actual state before you go on.";

/// A call that is about to run.
#[derive(Debug, Clone)]
pub(crate) struct Call {
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
}

impl Call {
    /// The call, as its requests name it.
    pub(crate) fn caller(&self) -> CallRef {
        CallRef { entry: self.entry.clone(), call: self.id.clone(), part: Some(self.part.clone()) }
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The call.
    pub(crate) call: Call,
    /// Its result.
    pub(crate) result: ToolResult,
    /// True when the person said no and nothing more: the session waits for them.
    pub(crate) declined: bool,
    /// Files it wrote.
    pub(crate) edited: Vec<PathBuf>,
}

/// Where and as whom calls run.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The session as the turn began.
    pub(crate) session: Arc<Session>,
    /// Folders.
    pub(crate) scope: Arc<Scope>,
    /// The tools as the model was told about them.
    pub(crate) offer: Arc<Offer>,
    /// The rules of the turn's agent: a later switch does not change a call's policy.
    pub(crate) rules: Arc<Vec<Rule>>,
    /// The right to run the session.
    pub(crate) lease: Lease,
    /// Fires when the work must stop.
    pub(crate) cancel: CancellationToken,
}

enum Verdict {
    /// Go on; whether somebody had to be asked.
    Run {
        asked: bool,
    },
    Refuse {
        text: String,
        declined: bool,
    },
}

impl Engine {
    /// Runs a call to its end. Whatever happens, there is a result.
    pub(crate) async fn execute(self, place: Place, call: Call) -> Settled {
        let (result, declined, edited) = match self.attempt(&place, &call).await {
            Ok(parts) => parts,
            Err(error) => {
                let text = format!("The call could not be run: {error}");
                (ToolResult::new(&call.id, &call.tool, Outcome::Error, &text), false, Vec::new())
            }
        };
        let result = ToolResult { start: Some(call.start), end: Some(self.mint().now()), ..result };
        Settled { call, result, declined, edited }
    }

    async fn attempt(&self, place: &Place, call: &Call) -> Result<(ToolResult, bool, Vec<PathBuf>), Error> {
        let refuse = |text: &str| ToolResult::new(&call.id, &call.tool, Outcome::Error, text);
        let Some(tool) = place.offer.get(&call.tool) else {
            let input = place.offer.unknown(&call.tool);
            let text = input.get("error").and_then(Value::as_str).unwrap_or("There is no such tool.");
            return Ok((refuse(text), false, Vec::new()));
        };
        let asking = (Arc::clone(&tool), call.input.clone(), Arc::clone(&place.scope));
        let needs = unless_stopped(&place.cancel, move || asking.0.needs(&asking.1, &asking.2)).await?;
        let needs = match needs.unwrap_or(Err(Failure::Cancelled)) {
            Ok(needs) => needs,
            Err(Failure::Cancelled) => return Ok((refuse(INTERRUPTED), false, Vec::new())),
            Err(failure) => return Ok((refuse(&failure.to_string()), false, Vec::new())),
        };
        let granted: Arc<[Need]> = needs.clone().into();
        match self.permit(place, call, needs).await? {
            Verdict::Refuse { text, declined } => return Ok((refuse(&text), declined, Vec::new())),
            Verdict::Run { asked: false } => {}
            Verdict::Run { asked: true } => {
                // From here on the call may have had an effect, and recovery has to know.
                let event = Event::ToolBegun { entry: call.entry.clone(), part: call.part.clone() };
                let authority = Authority::Owned(place.lease.clone());
                self.append(&place.session.id, authority, vec![event]).await?;
            }
        }
        let (rules, saved) =
            (Arc::clone(&place.rules), self.0.store.approvals(&place.session.project).await?);
        let readable = Readable::by(move |name| {
            permission::decide(&rules, &saved, "read", &[name.to_owned()]) == Action::Allow
        });
        let seen = self.0.sights.of(&place.session.id);
        let (context, mut reports) = Context::new(Arc::clone(&place.scope));
        let context = Context {
            cancel: place.cancel.clone(),
            granted,
            readable,
            seen: Arc::clone(&seen),
            host: Arc::new(CallHost { engine: self.clone(), place: place.clone(), call: call.clone() }),
            ..context
        };
        let rules = settlement::Rules { limits: self.config().tool_output, ..Default::default() };
        let running = settle(tool.as_ref(), call.input.clone(), context, rules);
        tokio::pin!(running);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => self.report(place, call, report.metadata),
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(report) = reports.try_recv() {
            self.report(place, call, report.metadata);
        }
        let (mut result, declined, edited) = match outcome {
            Ok(output) => {
                let edited = output.edited.clone();
                (self.completed(place, call, output), false, edited)
            }
            Err(Failure::Cancelled) => (refuse(INTERRUPTED), false, Vec::new()),
            Err(failure) => {
                let declined = matches!(failure, Failure::Declined(_));
                (refuse(&failure.to_string()), declined, Vec::new())
            }
        };
        sights::keep(&seen, &mut result);
        Ok((result, declined, edited))
    }

    fn completed(&self, place: &Place, call: &Call, output: Output) -> ToolResult {
        let attachments: Vec<Part> = output
            .attachments
            .into_iter()
            .map(|file| {
                let kind =
                    PartKind::File { mime: file.mime, filename: file.filename, url: file.url, source: None };
                Part::new(self.mint().part(&place.session), kind)
            })
            .collect();
        ToolResult {
            title: Some(output.title),
            metadata: Some(output.metadata),
            attachments: (!attachments.is_empty()).then_some(attachments),
            ..ToolResult::new(&call.id, &call.tool, Outcome::Completed, &output.output)
        }
    }

    fn report(&self, place: &Place, call: &Call, metadata: everturn_model::Map) {
        let state = ToolState::Running {
            input: call.input.clone(),
            title: None,
            metadata: Some(metadata),
            start: call.start,
        };
        let (id, tool) = (call.id.clone(), call.tool.clone());
        let kind = PartKind::Tool { call: id, tool, state, hosted: false, metadata: None };
        let part = Box::new(Part::new(call.part.clone(), kind));
        self.signal(&place.session, Signal::Progress { entry: call.entry.clone(), part });
    }

    async fn permit(&self, place: &Place, call: &Call, needs: Vec<Need>) -> Result<Verdict, Error> {
        // A call asks its own questions when it runs: it was permitted before, and has begun.
        let running = matches!(&call.waiting, Some(Request { ask: Ask::Question { .. }, .. }));
        let waiting = call.waiting.as_ref().filter(|_| !running);
        let mut asked = waiting.is_some();
        if let Some(request) = waiting {
            let answer = self.ask_again(&place.session, request, &place.cancel).await?;
            if let Some(refusal) = refusal(answer) {
                return Ok(refusal);
            }
        }
        // Nobody is asked about a call that another of its needs forbids.
        let forbidden = |need: &&Need| {
            permission::decide(&place.rules, &[], &need.permission, &need.patterns) == Action::Deny
        };
        if let Some(need) = needs.iter().find(forbidden) {
            return Ok(denial(need));
        }
        for need in needs {
            let saved = self.0.store.approvals(&place.session.project).await?;
            match permission::decide(&place.rules, &saved, &need.permission, &need.patterns) {
                Action::Allow => {}
                Action::Deny => return Ok(denial(&need)),
                Action::Ask if running => {}
                // The request that was answered above was for this need; the others are asked as ever.
                Action::Ask if waiting.is_some_and(|request| asks_for(request, &need)) => {}
                Action::Ask => {
                    asked = true;
                    let caller = call.caller();
                    let Need { permission, patterns, always, metadata } = need;
                    let ask = Ask::Permission { permission, patterns, always, metadata };
                    let answer = self.ask(&place.session, ask, caller, &place.cancel).await?;
                    if let Some(refusal) = refusal(answer) {
                        return Ok(refusal);
                    }
                }
            }
        }
        Ok(Verdict::Run { asked })
    }
}

fn denial(need: &Need) -> Verdict {
    let text = format!(
        "Not allowed: a rule is against {} on {}. Find another way or say that it cannot be \
         done.",
        need.permission,
        need.patterns.join(", ")
    );
    Verdict::Refuse { text, declined: false }
}

fn refusal(answer: Answer) -> Option<Verdict> {
    match answer {
        Answer::Allowed => None,
        Answer::Rejected(None) => Some(Verdict::Refuse { text: REJECTED.to_owned(), declined: true }),
        Answer::Rejected(Some(message)) => {
            let text = format!("{REJECTED} They said: {message}");
            Some(Verdict::Refuse { text, declined: false })
        }
        // Labels are no permission.
        Answer::Interrupted | Answer::Chosen(_) => {
            Some(Verdict::Refuse { text: INTERRUPTED.to_owned(), declined: false })
        }
    }
}

fn asks_for(request: &Request, need: &Need) -> bool {
    match &request.ask {
        Ask::Permission { permission, patterns, .. } => {
            permission == &need.permission && patterns == &need.patterns
        }
        Ask::Question { .. } => false,
    }
}
