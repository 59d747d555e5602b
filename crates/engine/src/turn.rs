//! One Provider Turn, in the order of the design: context, promotion, model, history, snapshot, stream, tools, close.
//!
//! Everything that must survive is in the log before it has an effect: a prompt is promoted before the model sees it,
//! a call is recorded before its tool starts, a result before the model hears of it.

mod boundary;
mod intake;

use std::sync::Arc;
use std::time::Duration;

use everturn_llm::{Event as Delta, Request, ToolChoice, ToolSpec};
use everturn_model::entry::{Assistant, Body, Entry, UserSummary};
use everturn_model::fault::{ApiFault, Fault, FaultKind};
use everturn_model::finish::Finish;
use everturn_model::inbox::Delivery;
use everturn_model::part::PartKind;
use everturn_model::session::{FileDiff, Summary};
use everturn_model::tree::Node;
use everturn_model::{
    EntryId, Event, Map, Money, Part, Record, Session, Tokens, Tree, fold, path, permission, permission::Rule,
};
use everturn_store::{Authority, Lease, NewEvent};
use everturn_tools::snapshot::TreeId;
use everturn_tools::{Offer, Registry, Scope, Snapshots};
use futures_util::StreamExt as _;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::bus::Signal;
use crate::calls::{Call, INTERRUPTED, Place, Settled};
use crate::drain::Work;
use crate::models::Chosen;
use crate::project::Location;
use crate::{Engine, Error, history};
use intake::Intake;

/// How often streamed text is saved at least.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// What is said of a tool that the provider ran itself and left without a result.
const UNSAID: &str = "The provider did not say what came of this call.";

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The model goes on with what its tools gave.
    Continue,
    /// The model is done.
    Done,
    /// The person said no to a call: the session waits for them.
    Declined,
    /// It failed or was interrupted, and has said so.
    Failed,
    /// The process is ending; the next one goes on.
    Closing,
}

/// A turn at work.
pub(crate) struct Turn<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) lease: &'e Lease,
    pub(crate) cancel: &'e CancellationToken,
    pub(crate) tree: Tree,
    work: Work,
}

/// What a turn needs from its surroundings once it knows its model.
struct Stage {
    place: Place,
    chosen: Chosen,
    assistant: EntryId,
    request: Request,
    snapshots: Option<Arc<Snapshots>>,
}

impl<'e> Turn<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        lease: &'e Lease,
        cancel: &'e CancellationToken,
        tree: Tree,
        work: Work,
    ) -> Self {
        Self { engine, lease, cancel, tree, work }
    }

    /// Appends events by the right of the owner and folds them into the turn's own tree.
    pub(crate) async fn commit(&mut self, events: Vec<Event>) -> Result<(), Error> {
        let time = self.engine.mint().now();
        let new: Vec<NewEvent> = events
            .into_iter()
            .map(|event| NewEvent { id: self.engine.mint().event(), time, event })
            .collect();
        let id = self.tree.session.id.clone();
        let authority = Authority::Owned(self.lease.clone());
        let appended = self.engine.0.store.append(&id, authority, new.clone()).await?;
        for (seq, NewEvent { id: event_id, time, event }) in (appended.first..).zip(new) {
            let record = Record { id: event_id, session: id.clone(), seq, time, event, subject: None };
            let folded = fold::apply(&mut self.tree, &record);
            debug_assert!(folded.is_ok(), "the store folded it: {folded:?}");
        }
        self.tree.session = (*appended.session).clone();
        Ok(())
    }

    pub(crate) fn session(&self) -> &Session {
        &self.tree.session
    }

    /// Runs the turn to its end.
    pub(crate) async fn run(&mut self) -> Result<End, Error> {
        let location = self.engine.location(Some(&self.session().directory)).await?;
        let agent = self.agent();
        let rules = self.engine.rules_of(&agent.name, self.session());
        let sources = self.observe(&location, rules.clone()).await?;
        let mut events = self.open(&sources)?;
        if !self.session().open && !self.wants_answer() {
            self.commit(events).await?;
            return Ok(End::Continue);
        }
        events.extend(self.update(&sources, &events));
        let wanted = self.selected_model();
        let chosen = match self.engine.choose(wanted.as_ref(), &location.directory) {
            Ok(chosen) => chosen,
            Err(error) => {
                self.commit(events).await?;
                return self.refuse(&error).await;
            }
        };
        let snapshots = self.engine.snapshots(&location);
        let before = capture(snapshots.clone());

        let assistant = self.begin_step(&location, &agent, &chosen, &mut events);
        let user = events.iter().rev().find_map(|event| match event {
            Event::PromptPromoted { id, .. } => Some(id.clone()),
            _ => None,
        });
        let summary = match user {
            Some(entry) => Some(Event::TurnSummarized {
                entry,
                summary: UserSummary::default(),
                session: self.session().summary.clone().unwrap_or_default(),
            }),
            None => summarize(self.engine, &self.tree).await?,
        };
        events.extend(summary);
        self.commit(events).await?;
        self.engine.name_later(self.session(), &self.tree);

        let path = path::to(&self.tree, self.session().leaf.as_ref());
        self.engine.0.sights.recall(&self.session().id, &path);
        let registry = self.engine.registry(&location, self.cancel).await;
        let offer = self.offer(&registry, &chosen, &rules);
        let request = self.request(&chosen, &agent, &offer, &location);
        let place = Place {
            session: Arc::new(self.session().clone()),
            scope: Arc::new(Scope {
                directory: location.directory.clone(),
                worktree: location.worktree.clone(),
                output_dir: self.engine.paths().data.join("tool-output"),
            }),
            offer: Arc::new(offer),
            rules: Arc::new(rules),
            lease: self.lease.clone(),
            cancel: self.cancel.child_token(),
        };
        self.converse(Stage { place, chosen, assistant, request, snapshots }, before).await
    }

    fn wants_answer(&self) -> bool {
        self.work.promote.iter().any(|id| self.tree.waiting(id).is_some_and(|item| item.reply))
    }

    fn agent(&self) -> crate::agent::Agent {
        let last = self.work.promote.iter().rev().find_map(|id| self.tree.waiting(id)?.user.agent.clone());
        let name =
            last.or_else(|| self.session().agent.clone()).unwrap_or_else(|| self.engine.default_agent());
        let agents = self.engine.agents();
        let found = agents.iter().find(|agent| agent.name == name);
        // One that is gone since the prompt was admitted answers still, but by its name it may do nothing.
        found.cloned().unwrap_or_else(|| crate::agent::Agent {
            name,
            description: None,
            mode: "primary",
            hidden: true,
            permission: Vec::new(),
            prompt: agents.first().map_or("", |agent| agent.prompt),
        })
    }

    fn selected_model(&self) -> Option<everturn_model::session::ModelRef> {
        let last = self.work.promote.iter().rev().find_map(|id| self.tree.waiting(id)?.user.model.clone());
        last.or_else(|| self.session().model.clone())
    }

    fn begin_step(
        &self,
        location: &Location,
        agent: &crate::agent::Agent,
        chosen: &Chosen,
        events: &mut Vec<Event>,
    ) -> EntryId {
        let id = self.engine.mint().entry(self.session());
        let mut parent = self.session().leaf.clone();
        let mut answers = last_user(&self.tree).map(|node| node.entry.wire_id().to_owned());
        for event in &*events {
            match event {
                Event::EntryAdded { entry, .. } => parent = Some(entry.id.clone()),
                Event::PromptPromoted { id, .. } => {
                    parent = Some(id.clone());
                    answers = Some(id.to_string());
                }
                _ => {}
            }
        }
        let assistant = Assistant {
            agent: Some(agent.name.clone()),
            model: Some(chosen.reference.clone()),
            answers,
            cwd: Some(location.directory.display().to_string()),
            root: Some(location.worktree.display().to_string()),
            ..Assistant::default()
        };
        let entry = Entry::new(id.clone(), parent, self.engine.mint().now(), Body::Assistant(assistant));
        events.push(Event::StepStarted { entry: Box::new(entry) });
        id
    }

    /// The tools of this turn: those that the model can use, the person has not switched off and the rules do not
    /// forbid altogether.
    fn offer(&self, registry: &Registry, chosen: &Chosen, rules: &[Rule]) -> Offer {
        if !chosen.model.abilities.tool_call {
            return Offer::default();
        }
        let off = last_user(&self.tree).and_then(|node| match &node.entry.body {
            Body::User(user) => user.tools.as_ref(),
            _ => None,
        });
        registry.offer().filter(|tool| {
            off.and_then(|off| off.get(tool.name())?.as_bool()) != Some(false)
                && !permission::hides(rules, tool.permission())
        })
    }

    fn request(
        &self,
        chosen: &Chosen,
        agent: &crate::agent::Agent,
        offer: &Offer,
        location: &Location,
    ) -> Request {
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let baseline = path.iter().rev().find_map(|node| match &node.entry.body {
            Body::Epoch { baseline, .. } => Some(baseline.clone()),
            _ => None,
        });
        let user = last_user(&self.tree).and_then(|node| match &node.entry.body {
            Body::User(user) => Some(user),
            _ => None,
        });
        let plan = crate::agent::plan_file(self.session(), &location.worktree, &self.engine.paths().data);
        let mut system = vec![agent.prompt.to_owned()];
        system.extend(crate::agent::plan_note(agent, &plan));
        system.extend(baseline);
        system.extend(user.and_then(|user| user.system.clone()));
        let setting = chosen.setting();
        Request {
            origin: chosen.origin(),
            model: chosen.model.wire.to_string(),
            system,
            messages: history::messages(&path, chosen.takes),
            tools: offer
                .specs()
                .into_iter()
                .map(|spec| ToolSpec { name: spec.name, description: spec.description, schema: spec.schema })
                .collect(),
            tool_choice: ToolChoice::Auto,
            max_output: (chosen.model.limits.output > 0).then(|| chosen.model.limits.output.min(32_000)),
            temperature: None,
            headers: Vec::new(),
            cache_key: Some(self.session().id.to_string()),
            reasoning: setting.reasoning,
            options: setting.options,
            ..Request::default()
        }
    }

    /// Talks to the provider and runs what it asks for.
    async fn converse(&mut self, stage: Stage, before: JoinHandle<Option<TreeId>>) -> Result<End, Error> {
        let mut stream = stage.chosen.provider.stream(stage.request.clone());
        let mut before = Some(before);
        let mut start: Option<TreeId> = None;
        let mut intake = Intake::new(stage.assistant.clone());
        let mut calls: JoinSet<Settled> = JoinSet::new();
        let mut declined = false;
        let mut tries = 0;
        let mut save = tokio::time::interval(SAVE_EVERY);
        save.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let closing = self.engine.0.closing.clone();
        let mut streaming = true;
        while streaming || !calls.is_empty() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    stage.place.cancel.cancel();
                    drop(stream);
                    let fault = Fault::new(FaultKind::Aborted, "Aborted");
                    return self.fail(&stage, intake, calls, fault, start).await;
                }
                () = closing.cancelled() => {
                    intake.save(self);
                    return Ok(End::Closing);
                }
                Some(done) = calls.join_next(), if !calls.is_empty() => {
                    if let Ok(settled) = done {
                        declined |= settled.declined;
                        intake.settled(&settled.call.part);
                        self.settle(settled).await?;
                    }
                }
                delta = stream.next(), if streaming => match delta {
                    Some(Ok(Delta::Start)) => {
                        if let Some(before) = before.take() {
                            start = before.await.ok().flatten();
                            self.start_step(&stage.assistant, start.as_ref()).await?;
                        }
                    }
                    Some(Ok(delta)) => {
                        for call in intake.take(self, delta).await? {
                            calls.spawn(self.engine.clone().execute(stage.place.clone(), call));
                        }
                    }
                    Some(Err(error)) => {
                        tries += 1;
                        let wait = if intake.is_fresh() { self.retry_delay(tries, &error) } else { None };
                        match wait {
                            Some(wait) => {
                                self.wait(tries, &error, wait).await;
                                stream = stage.chosen.provider.stream(stage.request.clone());
                            }
                            None => {
                                drop(stream);
                                let fault = fault(&stage.chosen, &error);
                                return self.fail(&stage, intake, calls, fault, start).await;
                            }
                        }
                    }
                    None => streaming = false,
                },
                _ = save.tick(), if intake.is_open() => intake.save(self),
            }
        }
        self.close(stage, intake, start, declined).await
    }

    async fn start_step(&mut self, assistant: &EntryId, snapshot: Option<&TreeId>) -> Result<(), Error> {
        let kind = PartKind::StepStart { snapshot: snapshot.map(|tree| tree.as_str().to_owned()) };
        let part = Box::new(Part::new(self.engine.mint().part(self.session()), kind));
        self.commit(vec![Event::PartAdded { entry: assistant.clone(), part }]).await
    }

    /// Records a call's result; the model hears of it afterwards.
    pub(crate) async fn settle(&mut self, mut settled: Settled) -> Result<(), Error> {
        self.name_loaded(&settled.call, &mut settled.result).await?;
        for file in &settled.edited {
            self.engine.signal(self.session(), Signal::FileEdited { file: file.display().to_string() });
        }
        let id = self.engine.mint().entry(self.session());
        let body = Body::ToolResult { result: Box::new(settled.result) };
        let entry = Entry::new(id, self.session().leaf.clone(), self.engine.mint().now(), body);
        self.commit(vec![Event::ToolSettled {
            entry: Box::new(entry),
            assistant: Some(settled.call.entry),
            part: Some(settled.call.part),
        }])
        .await
    }

    /// Closes the step: usage, files, and whether the model goes on.
    async fn close(
        &mut self,
        stage: Stage,
        intake: Intake,
        start: Option<TreeId>,
        declined: bool,
    ) -> Result<End, Error> {
        let called = intake.called();
        let Some(finish) = intake.finish() else {
            let fault = Fault::internal("The provider's answer ended before it was complete.");
            return self.fail(&stage, intake, JoinSet::new(), fault, start).await;
        };
        for call in intake.unsaid() {
            let settled = unfinished(call, self.engine.mint().now(), UNSAID);
            self.settle(settled).await?;
        }
        let (reason, usage) = finish;
        if let Some(words) = given_up(&reason).filter(|_| !called) {
            return self.fail(&stage, intake, JoinSet::new(), Fault::internal(words), start).await;
        }
        let reason = match (called, reason) {
            (true, _) => Finish::ToolCalls,
            (false, Finish::ToolCalls) => Finish::Unknown,
            (false, reason) => reason,
        };
        let end = if called { capture(stage.snapshots.clone()).await.ok().flatten() } else { start.clone() };
        let files = match (&stage.snapshots, &start, &end) {
            (Some(snapshots), Some(from), Some(to)) if from != to => changed(snapshots, from, to),
            _ => Vec::new(),
        };
        let cost = stage.chosen.pricing().cost(&usage);
        let snapshot = end.map(|tree| tree.as_str().to_owned());
        let finish_part =
            PartKind::StepFinish { reason: reason.clone(), snapshot: snapshot.clone(), tokens: usage, cost };
        let mut parts = vec![Part::new(self.engine.mint().part(self.session()), finish_part)];
        if let (false, Some(from)) = (files.is_empty(), &start) {
            let kind = PartKind::Patch { hash: from.as_str().to_owned(), files: files.clone() };
            parts.push(Part::new(self.engine.mint().part(self.session()), kind));
        }
        let event = step_ended(&stage.assistant, reason, usage, cost, snapshot, files, parts, declined);
        self.commit(vec![event]).await?;
        Ok(match (called, declined) {
            (true, false) => End::Continue,
            (true, true) => End::Declined,
            (false, _) => End::Done,
        })
    }

    fn retry_delay(&self, tries: u32, error: &everturn_llm::Error) -> Option<Duration> {
        everturn_llm::retry::Policy::default().delay(tries, error, self.engine.mint().chance())
    }

    async fn wait(&self, attempt: u32, error: &everturn_llm::Error, wait: Duration) {
        let next = self.engine.mint().now() + i64::try_from(wait.as_millis()).unwrap_or_default();
        let retry = Signal::Retry { attempt, message: error.provider_message(), next };
        self.engine.set_status(&self.session().id, retry.clone());
        self.engine.signal(self.session(), retry);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.cancel.cancelled() => {}
            () = self.engine.0.closing.cancelled() => {}
        }
        self.engine.set_status(&self.session().id, Signal::Busy);
        self.engine.signal(self.session(), Signal::Busy);
    }

    /// A turn that cannot begin: the prompt is promoted, the failure is an answer that says why.
    async fn refuse(&mut self, error: &Error) -> Result<End, Error> {
        let id = self.engine.mint().entry(self.session());
        let answers = last_user(&self.tree).map(|node| node.entry.wire_id().to_owned());
        let assistant = Assistant {
            agent: self.session().agent.clone(),
            model: self.session().model.clone(),
            answers,
            cwd: Some(self.session().directory.clone()),
            root: Some(self.session().directory.clone()),
            ..Assistant::default()
        };
        let entry = Entry::new(
            id.clone(),
            self.session().leaf.clone(),
            self.engine.mint().now(),
            Body::Assistant(assistant),
        );
        self.commit(vec![Event::StepStarted { entry: Box::new(entry) }]).await?;
        self.give_up(&id, Fault::internal(error.to_string()), Vec::new()).await
    }

    /// Ends a turn that failed or was interrupted: what was streamed is kept, what ran is settled.
    async fn fail(
        &mut self,
        stage: &Stage,
        mut intake: Intake,
        mut calls: JoinSet<Settled>,
        fault: Fault,
        start: Option<TreeId>,
    ) -> Result<End, Error> {
        stage.place.cancel.cancel();
        let called = intake.called();
        let rest = intake.abandon();
        let mut unsettled = intake.unsettled();
        while let Some(done) = calls.join_next().await {
            if let Ok(mut settled) = done {
                unsettled.retain(|call| call.part != settled.call.part);
                if settled.result.outcome != everturn_model::tool::Outcome::Completed {
                    settled.result.output = INTERRUPTED.to_owned();
                }
                self.settle(settled).await?;
            }
        }
        for call in unsettled {
            let settled = unfinished(call, self.engine.mint().now(), INTERRUPTED);
            self.settle(settled).await?;
        }
        let mut rest = rest;
        if called {
            rest.extend(self.leave_traces(stage, start).await);
        }
        self.give_up(&stage.assistant, fault, rest).await
    }

    /// The files that a step changed before it was stopped, so that it can be undone like any other.
    async fn leave_traces(&self, stage: &Stage, start: Option<TreeId>) -> Vec<Event> {
        let end = capture(stage.snapshots.clone()).await.ok().flatten();
        let (Some(snapshots), Some(from), Some(to)) = (&stage.snapshots, start, end) else {
            return Vec::new();
        };
        let files = changed(snapshots, &from, &to);
        if files.is_empty() {
            return Vec::new();
        }
        let kinds = [
            PartKind::Snapshot { snapshot: to.as_str().to_owned() },
            PartKind::Patch { hash: from.as_str().to_owned(), files },
        ];
        let part = |kind| Box::new(Part::new(self.engine.mint().part(self.session()), kind));
        kinds.map(|kind| Event::PartAdded { entry: stage.assistant.clone(), part: part(kind) }).into()
    }

    async fn give_up(
        &mut self,
        assistant: &EntryId,
        error: Fault,
        mut events: Vec<Event>,
    ) -> Result<End, Error> {
        self.engine.signal(self.session(), Signal::Failed { error: error.clone() });
        self.engine.signal(self.session(), Signal::Idle);
        if self.cancel.is_cancelled() {
            // Who stops the session stops all of it: prompts that came meanwhile join the conversation unanswered.
            let waiting = self.engine.0.store.tail(&self.session().id, 0).await?;
            self.tree.inbox = waiting.map(|tail| tail.inbox).unwrap_or_default();
            let mut leaf = self.session().leaf.clone();
            for item in self.tree.inbox.iter().filter(|item| item.delivery == Delivery::Steer) {
                let parent = leaf.replace(item.id.clone());
                events.push(Event::PromptPromoted { id: item.id.clone(), parent });
            }
        }
        events.push(Event::StepFailed { entry: assistant.clone(), error, resumes: false });
        self.commit(events).await?;
        Ok(End::Failed)
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one event")]
fn step_ended(
    entry: &EntryId,
    finish: Finish,
    tokens: Tokens,
    cost: Money,
    snapshot: Option<String>,
    files: Vec<String>,
    parts: Vec<Part>,
    declined: bool,
) -> Event {
    Event::StepEnded {
        entry: entry.clone(),
        finish,
        tokens,
        cost,
        snapshot,
        files: Some(files),
        parts,
        declined,
    }
}

/// A call that came to nothing, with the words for it.
pub(crate) fn unfinished(call: Call, now: i64, words: &str) -> Settled {
    use everturn_model::tool::{Outcome, ToolResult};
    let result = ToolResult {
        start: Some(call.start),
        end: Some(now),
        ..ToolResult::new(&call.id, &call.tool, Outcome::Error, words)
    };
    Settled { call, result, declined: false, edited: Vec::new() }
}

pub(crate) fn last_user(tree: &Tree) -> Option<&Node> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    path.into_iter().rev().find(|node| matches!(node.entry.body, Body::User(_)) && !node.entry.hidden)
}

/// The files that differ between two snapshots. Not knowing them must not undo a finished step.
fn changed(snapshots: &Snapshots, from: &TreeId, to: &TreeId) -> Vec<String> {
    let files = snapshots.changed(from, to).unwrap_or_else(|error| {
        tracing::warn!(error = error.to_string(), "changed files are not known");
        Vec::new()
    });
    files.iter().map(|file| file.display().to_string()).collect()
}

/// Records the files in the background.
fn capture(snapshots: Option<Arc<Snapshots>>) -> JoinHandle<Option<TreeId>> {
    tokio::task::spawn_blocking(move || {
        let snapshots = snapshots?;
        snapshots
            .capture()
            .inspect_err(|error| tracing::warn!(error = error.to_string(), "files were not recorded"))
            .ok()
    })
}

/// What the newest prompt's turns changed so far, as an event; none without a prompt.
pub(crate) async fn summarize(engine: &Engine, tree: &Tree) -> Result<Option<Event>, Error> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let Some(at) =
        path.iter().rposition(|node| matches!(node.entry.body, Body::User(_)) && !node.entry.hidden)
    else {
        return Ok(None);
    };
    let Some(user) = path.get(at) else { return Ok(None) };
    let (mut from, mut to) = (None, None);
    for part in path.iter().skip(at).flat_map(|node| &node.parts) {
        match &part.kind {
            PartKind::StepStart { snapshot: Some(snapshot) } if from.is_none() => {
                from = Some(snapshot.clone());
            }
            PartKind::StepFinish { snapshot: Some(snapshot), .. } => to = Some(snapshot.clone()),
            _ => {}
        }
    }
    let diffs = match (from, to) {
        (Some(from), Some(to)) if from != to => {
            let location = engine.location(Some(&tree.session.directory)).await?;
            let snapshots = engine.snapshots(&location);
            tokio::task::spawn_blocking(move || diffs(snapshots.as_deref()?, &from, &to)).await.ok().flatten()
        }
        _ => None,
    };
    Ok(Some(Event::TurnSummarized {
        entry: user.entry.id.clone(),
        summary: UserSummary { diffs: diffs.unwrap_or_default(), ..UserSummary::default() },
        // Clients of V1 expect these numbers to stay as they were at the last revert.
        session: tree
            .session
            .summary
            .clone()
            .map(|summary| Summary { diffs: None, ..summary })
            .unwrap_or_default(),
    }))
}

pub(crate) fn diffs(snapshots: &Snapshots, from: &str, to: &str) -> Option<Vec<FileDiff>> {
    let diffs = snapshots.diff(&from.parse().ok()?, &to.parse().ok()?).ok()?;
    let status = |status| Some(serde_json::to_value(status).ok()?.as_str()?.into());
    let convert = |diff: everturn_tools::snapshot::FileDiff| FileDiff {
        file: diff.file,
        patch: Some(diff.patch),
        additions: u64::try_from(diff.additions).unwrap_or_default(),
        deletions: u64::try_from(diff.deletions).unwrap_or_default(),
        status: status(diff.status),
        extra: Map::new(),
    };
    Some(diffs.into_iter().map(convert).collect())
}

/// What to tell when an answer ended in a way that is no end. Nobody should take it for a finished one.
fn given_up(reason: &Finish) -> Option<&'static str> {
    match reason {
        Finish::Error => Some("The provider gave up in the midst of its answer. Asking again may help."),
        Finish::ContentFilter => Some(
            "The provider's filter ended the answer. Another wording, or another model, may get further.",
        ),
        _ => None,
    }
}

/// A provider's failure.
fn fault(chosen: &Chosen, error: &everturn_llm::Error) -> Fault {
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
