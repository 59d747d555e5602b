//! Tasks that a person gives to another agent, as parts of a prompt.
//!
//! Each is a step of its own before the model is asked: a call of the tool `task` that no model made, in an answer that is
//! marked as such. It is recorded, run, stopped and taken up after a crash as every other call, and the model reads what
//! came of it with the rest of the conversation.

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::entry::{Body, Entry};
use everturn_model::event::StepRemains;
use everturn_model::part::PartKind;
use everturn_model::permission::{Action, Policy, Rule};
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolState};
use everturn_model::tree::Node;
use everturn_model::{Event, Finish, Money, Part, Tokens};
use serde_json::json;

use super::fault::aborted;
use super::opening::TurnOpening;
use super::{Turn, TurnEnd};
use crate::calls::{CallSurroundings, INTERRUPTED, RunningCalls, ToolCall};
use crate::projects::Location;
use crate::{Config, Error};

/// The tool that gives work to other agents.
const TOOL: &str = "task";

/// What the model is told after a task that came from a command.
const GO_ON: &str = "Sum up for the person what the task above gave, and go on with your work.";

/// A task that waits to be given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PersonTask {
    prompt: String,
    description: String,
    agent: String,
    model: Option<ModelRef>,
    command: Option<String>,
}

/// The first task since the newest answer of a model that has not been given yet. They are given in their order, so it is
/// known by how many have been.
pub(super) fn pending(path: &[&Node]) -> Option<PersonTask> {
    let is_given = |node: &&&Node| node.entry.body.assistant().is_some_and(|answer| answer.delegated);
    let answered = path
        .iter()
        .rposition(|node| matches!(&node.entry.body, Body::Assistant(answer) if !answer.delegated));
    let since = path.get(answered.map_or(0, |at| at + 1)..).unwrap_or_default();
    let given = since.iter().filter(is_given).count();
    let asked = since.iter().filter(|node| matches!(node.entry.body, Body::User(_)) && !node.entry.hidden);
    let parts = asked.flat_map(|node| &node.parts).filter(|part| !part.hidden);
    let mut tasks = parts.filter_map(|part| match &part.kind {
        PartKind::Subtask { prompt, description, agent, model, command } => Some(PersonTask {
            prompt: prompt.clone(),
            description: described(description, command.as_deref(), agent),
            agent: agent.clone(),
            model: model.clone(),
            command: command.clone(),
        }),
        _ => None,
    });
    tasks.nth(given)
}

/// A task in a few words, where the client has none.
fn described(description: &str, command: Option<&str>, agent: &str) -> String {
    match (description.trim(), command) {
        ("", Some(command)) => command.to_owned(),
        ("", None) => agent.to_owned(),
        (description, _) => description.to_owned(),
    }
}

/// What a session may do that gives a task which the person has asked for: nobody need be asked once more. What is denied
/// stays so.
pub(super) fn permitted(policy: &Policy, agent: &str) -> Policy {
    policy.clone().refined(&[Rule::new(TOOL, agent, Action::Allow)])
}

impl Turn<'_> {
    /// Gives a task, and waits until it is done: that is the whole turn.
    pub(super) async fn give_task(
        &mut self,
        task: PersonTask,
        mut opening: TurnOpening,
        location: Location,
        config: Arc<Config>,
        policy: Policy,
        plan: PathBuf,
    ) -> Result<TurnEnd, Error> {
        let (services, cancel, lifecycle) = (self.services, self.cancel, self.services.lifecycle.clone());
        let mint = services.journal.mint();
        let model = task.model.clone().or_else(|| self.selected_model());
        let model = model.or_else(|| services.models.of(&config).default_model(&location.directory).ok());
        let assistant = opening.start_task(&location, &task.agent, model);
        let input = json!({
            "description": task.description, "prompt": task.prompt, "subagent_type": task.agent,
        });
        let call = ToolCall {
            entry: assistant.clone(),
            part: mint.part(self.session()),
            id: mint.other("call"),
            tool: TOOL.to_owned(),
            input: input.clone(),
            start: mint.now(),
            waiting: None,
            again: false,
            by_person: true,
        };
        let (entry, part, raw) = (assistant.clone(), call.part.clone(), input.to_string());
        let state = ToolState::Pending { input: json!({}), raw: String::new() };
        let (id, tool) = (call.id.clone(), TOOL.to_owned());
        let kind = PartKind::Tool { call: id, tool, state, hosted: false, metadata: None };
        let begun = Box::new(Part::new(part.clone(), kind));
        opening.push(Some(Event::PartStarted { entry: entry.clone(), part: begun }));
        let named = Event::PartEnded { entry: entry.clone(), part: part.clone(), text: raw, metadata: None };
        opening.push(Some(named));
        let called = Event::ToolCalled { entry, part, input, hosted: false, metadata: None, progress: None };
        opening.push(Some(called));
        opening.summarize_promoted();
        if !self.begin(opening).await? {
            return Ok(TurnEnd::Stale);
        }
        services.drains.begin_answer(&self.session().id, &assistant);
        let policy = permitted(&policy, &task.agent);
        let setting = CallSurroundings {
            session: Arc::new(self.session().clone()),
            scope: Arc::new(services.scope(&location, &config, &policy, self).await),
            offer: Arc::new(config.tools_over(services.mcp.own_tools()).offer()),
            policy: Arc::new(policy),
            plan,
            config,
            lease: self.lease.clone(),
            lost: self.lost.clone(),
            cancel: cancel.child_token(),
        };
        let mut calls = RunningCalls::new(mint.clone());
        calls.start(&services.calls, setting, &self.tree, call);
        // A stop reaches the call as well, which stops the child and comes back.
        let settled = tokio::select! {
            biased;
            () = lifecycle.closing() => {
                self.leave_in_order().await?;
                return Ok(TurnEnd::Closing);
            }
            settled = calls.next() => settled,
        };
        if let Some(mut settled) = settled {
            if cancel.is_cancelled() && settled.result.outcome == Outcome::Error {
                settled.result.output = INTERRUPTED.to_owned();
            }
            self.settle(settled).await?;
        }
        if cancel.is_cancelled() {
            return self.give_up(&assistant, aborted(), Vec::new(), StepRemains::default()).await;
        }
        let mut events = vec![Event::StepEnded {
            entry: assistant,
            finish: Finish::ToolCalls,
            tokens: Tokens::default(),
            cost: Money::ZERO,
            snapshot: None,
            files: None,
            parts: Vec::new(),
            declined: false,
            estimated: false,
            error: None,
            structured: None,
        }];
        if task.command.is_some() {
            let body = Body::Synthetic { text: Some(GO_ON.to_owned()), origin_type: None, display: None };
            let (id, leaf) = (mint.entry(self.session()), self.session().leaf.clone());
            let entry = Box::new(Entry::new(id, leaf, mint.now(), body));
            events.push(Event::EntryAdded { entry, parts: Vec::new() });
        }
        self.commit(events).await?;
        Ok(TurnEnd::Continue)
    }
}
