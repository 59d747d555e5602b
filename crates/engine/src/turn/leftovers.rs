//! Leftovers: what a restart does with a turn that was cut off.
//!
//! The log says what is certain. Streamed text that was saved is kept; a tool that changes nothing, or
//! the same when it runs twice, runs again; a call that still waits for a person goes on waiting under the same
//! request; an edit is judged by its files (`edits`); and any other call that may have had an effect
//! is never run twice: it settles as *unknown* and the model is told to look. Then the conversation goes on by itself.
//!
//! Unless somebody has stopped it: before the turn was taken over, which is in the log, or since then. It ends then as it
//! would have where it began: no call runs, the sessions that work on its tasks stop too, and the reason is in the log.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{EntryId, Event, Fault, FaultKind, Part, PartId, Tree, path};
use everturn_store::Lease;
use everturn_tools::{Effect, Registry};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::cut_turn::CutTurn;
use super::edits::CutOffEdits;
use super::fault::aborted;
use super::results::unfinished;
use super::{ProviderTurns, Turn, parking, retry, subtask};
use crate::Error;
use crate::calls::{
    CallSurroundings, EditVerdict, INTERRUPTED, RunningCalls, SettledCall, ToolCall, UNKNOWN,
};
use crate::delegation::delegate_of;
use crate::requests::kept_policy;
use crate::structured::{self, ShapedAnswer};
use crate::worker::NextWork;

const CUT_OFF: &str = "The server ended while this answer was being written.";

const GO_ON: &str = "The server was restarted while you were answering. What you had written is above. Go on from there \
without repeating it.";

/// What is to be done about a call that has no result.
enum Remedy {
    /// It never began.
    Stopped(ToolCall),
    /// Nobody knows.
    Unknown(ToolCall),
    /// It edited its files, and only its result is missing.
    Applied(ToolCall),
    /// It may run: it changes nothing, has the same effect when run twice, or has not begun, or its files are as they
    /// were before.
    Run(ToolCall),
}

/// What became of a turn that an earlier process left open.
#[derive(Debug)]
pub(crate) enum ClosedLeftovers {
    /// It is closed, or there was none: the conversation goes on.
    Settled(Tree),
    /// Somebody had stopped it. It is closed, and clients know why.
    Stopped(Tree),
    /// This process ends before that is done.
    Closing,
}

impl ProviderTurns {
    /// Closes a turn that an earlier process left open.
    pub(crate) async fn settle_leftovers(
        &self,
        tree: Tree,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<ClosedLeftovers, Error> {
        let tree = match self.settle_compaction(tree, lease, cancel).await? {
            ClosedLeftovers::Settled(tree) => tree,
            closed => return Ok(closed),
        };
        let Some(assistant) = open_assistant(&tree).filter(|_| tree.session.open_compaction.is_none()) else {
            return Ok(ClosedLeftovers::Settled(tree));
        };
        let id = tree.session.id.clone();
        let stopped = tree.session.stopping || cancel.is_cancelled();
        let parks = !stopped && parking::is_due(&tree.session, self.services.journal.mint().now());
        let work = NextWork { promote: Vec::new(), compaction: None, model: None };
        let mut turn = Turn::new(&self.services, lease, cancel, tree, work);
        let parked = if parks { Some(turn.park().await?) } else { None };
        // One that was stopped runs nothing, and cannot fail by it.
        if parked.is_none() && !stopped {
            turn.begin_recovery(&assistant).await?;
        }
        if !stopped && parked.is_none() && retry::waiting_step(&turn.tree).is_some() {
            return Ok(ClosedLeftovers::Settled(turn.tree));
        }
        let saved = self.services.store.streams(&id).await?;
        let saved: HashMap<PartId, String> =
            saved.into_iter().map(|saved| (saved.part, saved.text)).collect();
        let ends = end_texts(&turn.tree, &assistant, &saved);
        let wrote = saved.values().any(|text| !text.is_empty()) || has_text(&turn.tree, &assistant);
        let left = self.cut_turn(&turn, &assistant, &saved).await?;
        let edits = CutOffEdits::found(&turn.tree, &assistant);
        let open = self.open_calls(&turn.tree, &assistant, |part| !part.kind.is_hosted());
        let verdicts = edits.clone().verdicts(open.iter().map(|call| call.part.clone()).collect()).await?;
        let config = self.services.configurations.at(Path::new(&turn.session().directory)).await;
        let tools = structured::over(config.tools_over(self.services.mcp.own_tools()), &turn.tree);
        let remedies = remedies(&tools, &turn.tree, open, &verdicts);
        let hosted = self.open_calls(&turn.tree, &assistant, |part| part.kind.is_hosted());
        tracing::info!(session = %id, calls = remedies.len(), "continuing a turn that was cut off");
        if let Some(reason) = parked {
            // As one that was stopped, so that nothing is run; the model goes on when a person lets it.
            self.stop_calls(&mut turn, hosted, remedies, &edits).await?;
            let error = Fault::new(FaultKind::CutOff, CUT_OFF);
            let remains = Box::new(left.remains(&turn));
            let mut events = ends;
            events.push(Event::StepFailed { entry: assistant, error, resumes: true, remains });
            turn.commit(events).await?;
            turn.tell_parked(reason);
            return Ok(ClosedLeftovers::Stopped(turn.tree));
        }
        if stopped {
            self.stop_calls(&mut turn, hosted, remedies, &edits).await?;
            return self.stop(turn, &assistant, ends, left).await;
        }
        if !ends.is_empty() {
            turn.commit(ends).await?;
        }
        for call in hosted {
            turn.settle(unfinished(call, self.services.journal.mint().now(), INTERRUPTED)).await?;
        }
        if let Some(retry) = turn.session().retry.clone() {
            turn.wait_for(&retry).await;
            if self.services.lifecycle.is_closing() {
                turn.leave_in_order().await?;
                return Ok(ClosedLeftovers::Closing);
            }
        }
        if remedies.is_empty() && !called(&turn.tree, &assistant) {
            if cancel.is_cancelled() {
                return self.stop(turn, &assistant, Vec::new(), left).await;
            }
            let error = Fault::new(FaultKind::CutOff, CUT_OFF);
            let remains = Box::new(left.remains(&turn));
            let mut events = vec![Event::StepFailed { entry: assistant, error, resumes: true, remains }];
            if wrote {
                events.push(turn.go_on(GO_ON));
            }
            turn.commit(events).await?;
            return Ok(ClosedLeftovers::Settled(turn.tree));
        }
        let runs = remedies.iter().any(|remedy| matches!(remedy, Remedy::Run(_)));
        let Some(declined) = self.apply(&mut turn, remedies, &edits).await? else {
            turn.leave_in_order().await?;
            return Ok(ClosedLeftovers::Closing);
        };
        let left = if runs { left.after_calls().await } else { left };
        if cancel.is_cancelled() {
            return self.stop(turn, &assistant, Vec::new(), left).await;
        }
        let answer = match structured::answer(&turn.tree, &assistant) {
            ShapedAnswer::Given(answer) => Some(answer),
            ShapedAnswer::Tried(_) => None,
        };
        let ended = left.ended(&turn, assistant, declined, answer);
        turn.commit(vec![ended]).await?;
        Ok(ClosedLeftovers::Settled(turn.tree))
    }

    /// Settles the calls of a turn that was stopped before it was taken over.
    async fn stop_calls(
        &self,
        turn: &mut Turn<'_>,
        hosted: Vec<ToolCall>,
        remedies: Vec<Remedy>,
        edits: &CutOffEdits,
    ) -> Result<(), Error> {
        let stopped = hosted.into_iter().map(Remedy::Stopped).chain(remedies);
        for remedy in stopped {
            let remedy = match remedy {
                Remedy::Run(call) => {
                    self.stop_task(turn, &call).await?;
                    Remedy::Stopped(call)
                }
                remedy @ (Remedy::Stopped(_) | Remedy::Unknown(_) | Remedy::Applied(_)) => remedy,
            };
            self.apply(turn, vec![remedy], edits).await?;
        }
        Ok(())
    }

    /// Stops the session that works on the task of a call, if one does.
    async fn stop_task(&self, turn: &Turn<'_>, call: &ToolCall) -> Result<(), Error> {
        let part = turn.tree.node(&call.entry).and_then(|node| node.part(&call.part));
        let Some(child) = part.and_then(delegate_of) else { return Ok(()) };
        let drains = &self.services.drains;
        if drains.abort_task(&turn.session().id, &child).await? {
            // Its process has died too, and it waits to be taken over.
            drains.wake(&child);
        }
        Ok(())
    }

    /// Closes a turn that somebody stopped, as one that is stopped where it runs.
    async fn stop(
        &self,
        mut turn: Turn<'_>,
        assistant: &EntryId,
        events: Vec<Event>,
        left: CutTurn,
    ) -> Result<ClosedLeftovers, Error> {
        let remains = left.remains(&turn);
        turn.give_up(assistant, aborted(), events, remains).await?;
        Ok(ClosedLeftovers::Stopped(turn.tree))
    }

    /// Those calls of a turn that have no result.
    fn open_calls(&self, tree: &Tree, assistant: &EntryId, wanted: impl Fn(&Part) -> bool) -> Vec<ToolCall> {
        let path = path::to(tree, tree.session.leaf.as_ref());
        let settled = path::results(&path);
        let node = tree.node(assistant);
        let by_person =
            node.and_then(|node| node.entry.body.assistant()).is_some_and(|answer| answer.delegated);
        let parts = node.into_iter().flat_map(|node| &node.parts);
        let open = |part: &Part| {
            let PartKind::Tool { call, tool, state, .. } = &part.kind else { return None };
            if state.is_settled() || settled.contains_key(&(assistant, call.as_str())) {
                return None;
            }
            let start = match state {
                ToolState::Running { start, .. } => *start,
                _ => self.services.journal.mint().now(),
            };
            Some(ToolCall {
                entry: assistant.clone(),
                part: part.id.clone(),
                id: call.clone(),
                tool: tool.clone(),
                input: state.input().clone(),
                start,
                waiting: part.open.as_ref().and_then(|open| Some(open.request.as_ref()?.request.clone())),
                again: true,
                by_person,
            })
        };
        parts.filter(|part| wanted(part)).filter_map(open).collect()
    }

    /// Settles calls; whether a person declined one of them. None when this process ends before all are settled.
    async fn apply(
        &self,
        turn: &mut Turn<'_>,
        remedies: Vec<Remedy>,
        edits: &CutOffEdits,
    ) -> Result<Option<bool>, Error> {
        let mut declined = false;
        // As in the turn that made them, calls run in parallel: one that waits holds up no other.
        let mut running = RunningCalls::new(self.services.journal.mint().clone());
        for remedy in remedies {
            let settled = match remedy {
                Remedy::Stopped(call) => unfinished(call, self.services.journal.mint().now(), INTERRUPTED),
                Remedy::Unknown(call) => {
                    let result = ToolResult {
                        start: Some(call.start),
                        end: Some(self.services.journal.mint().now()),
                        ..ToolResult::new(&call.id, &call.tool, Outcome::Unknown, UNKNOWN)
                    };
                    SettledCall { call, result, declined: false, edited: Vec::new() }
                }
                Remedy::Applied(call) => edits.settled(turn, call),
                Remedy::Run(call) => {
                    running.start(&self.services.calls, self.setting(turn, &call).await?, &turn.tree, call);
                    continue;
                }
            };
            turn.settle(settled).await?;
        }
        while let Some(settled) = running.next().await {
            if self.services.lifecycle.is_closing() {
                return Ok(None);
            }
            declined |= settled.declined;
            if turn.cancel.is_cancelled() {
                // It may not have got as far as waiting for it.
                self.stop_task(turn, &settled.call).await?;
            }
            turn.settle(settled).await?;
        }
        Ok(Some(declined))
    }

    async fn setting(&self, turn: &Turn<'_>, call: &ToolCall) -> Result<CallSurroundings, Error> {
        let session = turn.session();
        let location = self.services.projects.location(Some(&session.directory)).await?;
        let open = open_assistant(&turn.tree).and_then(|id| turn.tree.node(&id)?.entry.body.assistant());
        // The agent of a task that the person gave is not the one that gives it.
        let agent = open.filter(|answer| !answer.delegated).and_then(|answer| answer.agent.clone());
        self.services.views.recall(&session.id, &path::to(&turn.tree, session.leaf.as_ref()));
        let config = self.services.configurations.at(&location.directory).await;
        let registry = self.services.mcp.registry(&config, &location, turn.cancel).await;
        let agents = config.agents();
        let now = agent.map_or_else(|| agents.policy(session), |name| agents.policy_of(&name, session));
        let now = match call.input.get("subagent_type").and_then(Value::as_str) {
            Some(agent) if call.by_person => subtask::permitted(&now, agent),
            _ => now,
        };
        let policy = call.waiting.as_ref().map_or_else(|| now.clone(), |request| kept_policy(request, &now));
        Ok(CallSurroundings {
            session: Arc::new(turn.session().clone()),
            scope: Arc::new(self.services.scope(&location, &config, &policy, turn).await),
            offer: Arc::new(structured::over(config.tools_over(&registry), &turn.tree).offer()),
            policy: Arc::new(policy),
            plan: turn.plan(&location),
            config,
            lease: turn.lease.clone(),
            lost: turn.lost.clone(),
            cancel: turn.cancel.child_token(),
        })
    }
}

/// Calls of a turn that have no result, with what is to be done about each.
fn remedies(
    tools: &Registry,
    tree: &Tree,
    open: Vec<ToolCall>,
    verdicts: &HashMap<PartId, EditVerdict>,
) -> Vec<Remedy> {
    let remedy = |call: ToolCall| {
        let effect = tools.get(&call.tool).map(|tool| tool.effect());
        let pure = matches!(effect, Some(Effect::Pure | Effect::Repeatable));
        let verdict = verdicts.get(&call.part).copied().unwrap_or(EditVerdict::Unknown);
        let may_run = pure || verdict == EditVerdict::Untouched;
        // Without a request the call began at once; with one it began only if that was recorded.
        let waiting = call.waiting.filter(|_| may_run || !has_begun(tree, &call.entry, &call.part));
        let call = ToolCall { waiting, ..call };
        if !is_running(tree, &call) {
            Remedy::Stopped(call)
        } else if call.waiting.is_some() || may_run {
            Remedy::Run(call)
        } else if verdict == EditVerdict::Applied {
            Remedy::Applied(call)
        } else {
            Remedy::Unknown(call)
        }
    };
    open.into_iter().map(remedy).collect()
}

/// The newest assistant on the path, if its turn is not closed.
pub(super) fn open_assistant(tree: &Tree) -> Option<EntryId> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let newest = path.into_iter().rev().find(|node| matches!(node.entry.body, Body::Assistant(_)))?;
    let open = newest.entry.body.assistant().is_some_and(|assistant| assistant.completed.is_none());
    open.then(|| newest.entry.id.clone())
}

/// Whether a call that had to ask was about to act.
fn has_begun(tree: &Tree, entry: &EntryId, part: &PartId) -> bool {
    let part = tree.node(entry).and_then(|node| node.part(part));
    part.and_then(|part| part.open.as_ref()).is_some_and(|open| open.begun)
}

/// Ends text and reasoning that was streaming, with what was saved of it.
fn end_texts(tree: &Tree, assistant: &EntryId, saved: &HashMap<PartId, String>) -> Vec<Event> {
    let parts = tree.node(assistant).into_iter().flat_map(|node| &node.parts);
    let open = parts.filter(|part| match &part.kind {
        PartKind::Text { time, .. } | PartKind::Reasoning { time, .. } => {
            time.is_some_and(|time| time.end.is_none())
        }
        _ => false,
    });
    open.map(|part| Event::PartEnded {
        entry: assistant.clone(),
        part: part.id.clone(),
        text: saved.get(&part.id).cloned().unwrap_or_default(),
        metadata: None,
    })
    .collect()
}

fn has_text(tree: &Tree, assistant: &EntryId) -> bool {
    let parts = tree.node(assistant).into_iter().flat_map(|node| &node.parts);
    parts.into_iter().any(|part| matches!(&part.kind, PartKind::Text { text, .. } if !text.is_empty()))
}

/// True when the model called a tool of this machine.
pub(super) fn called(tree: &Tree, assistant: &EntryId) -> bool {
    let local = |part: &Part| part.kind.call().is_some() && !part.kind.is_hosted();
    tree.node(assistant).is_some_and(|node| node.parts.iter().any(local))
}

fn is_running(tree: &Tree, call: &ToolCall) -> bool {
    let part = tree.node(&call.entry).and_then(|node| node.part(&call.part));
    matches!(part.map(|part| &part.kind), Some(PartKind::Tool { state: ToolState::Running { .. }, .. }))
}
