//! Commands that a person runs in a session (`!command` in OpenCode's terminal).
//!
//! A command and a turn exclude each other: it runs under the session's lease, while the drain is paused, and prompts that
//! come meanwhile wait. It is in the log before it starts and again when it has ended, however it ended; the model reads of
//! it with the next prompt. One whose process died is settled by whoever takes the session over, and never run again.

use std::path::Path;
use std::sync::Arc;

use everturn_model::entry::{Assistant, Body, Entry, Pair, Shell, User};
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{EntryId, Event, Map, Millis, Part, PartId, Session, SessionId, Tree};
use everturn_store::Lease;
use everturn_tools::bash::{BashTool, PersonCommandEnd, check_command};
use everturn_tools::{Context, Failure};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::bus::Signal;
use crate::configurations::Configurations;
use crate::confinement::Confinement;
use crate::drains::Drains;
use crate::feed_follower::MissedUpdates;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::lifecycle::Lifecycle;
use crate::models::Models;
use crate::projects::{Location, Projects};
use crate::reverts::Reverts;
use crate::worker::is_due;
use crate::{Error, bounds};

/// What stands for something that a person had done without a model: a command, or a task of another agent.
pub(crate) const EXECUTED: &str = "The following tool was executed by the user";

/// The tool that clients see a command as.
const TOOL: &str = "bash";

const STOPPED: &str = "(The command was stopped by the person.)";

const CLOSED: &str = "(The command was stopped: the server ended.)";

const UNKNOWN: &str = "The outcome of this command is unknown: the server ended while it ran, so it may have taken effect \
in full, in part or not at all. It was not run again.";

/// A command that a person wants to run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShellCommand {
    /// The id of the message that it becomes, where the client chose one.
    pub id: Option<EntryId>,
    /// The agent that the person speaks to.
    pub agent: Option<String>,
    /// The model that the person speaks to.
    pub model: Option<ModelRef>,
    /// The command line.
    pub command: String,
}

/// Runs commands of a person; clones share it.
#[derive(Debug, Clone)]
pub struct ShellCommands {
    pub(crate) journal: Journal,
    pub(crate) configurations: Configurations,
    pub(crate) projects: Projects,
    pub(crate) models: Models,
    pub(crate) confinement: Confinement,
    pub(crate) reverts: Reverts,
    pub(crate) leases: Leases,
    pub(crate) drains: Drains,
    pub(crate) missed: MissedUpdates,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) tool: BashTool,
}

impl ShellCommands {
    /// Runs a command and waits until it has ended; the id of its second message, which says how, comes back. It goes on
    /// if nobody waits any more.
    ///
    /// # Errors
    /// When the session is at work, the command cannot be run as it is, or the id is used for something else.
    pub async fn run(&self, session: &SessionId, command: ShellCommand) -> Result<String, Error> {
        bounds::check_shell(&command)?;
        check_command(&command.command).map_err(|failure| Error::Invalid(failure.to_string()))?;
        self.journal.session(session).await?;
        if let Some(id) = &command.id
            && let Some(seen) = self.ran_before(session, id, &command.command).await?
        {
            return Ok(seen);
        }
        if self.lifecycle.is_closing() {
            return Err(Error::Busy(session.clone()));
        }
        let (done, ended) = oneshot::channel();
        let (shell, id) = (self.clone(), session.clone());
        // Closing waits for it, and so it is in the log how the command ended.
        self.lifecycle.spawn(async move {
            drop(done.send(shell.run_at_rest(&id, command).await));
        });
        // Whoever panicked has let go of the session, and its drain settles the command.
        ended.await.unwrap_or_else(|_| Err(Error::Busy(session.clone())))
    }

    /// The second message of a command that was run under an id before.
    async fn ran_before(
        &self,
        session: &SessionId,
        id: &EntryId,
        command: &str,
    ) -> Result<Option<String>, Error> {
        if !EntryId::is_well_formed(id.as_str()) {
            return Err(Error::Invalid(format!("a message id begins with msg_, not {id}")));
        }
        if self.journal.waiting_prompt(session, id).await?.is_some() {
            return Err(Error::Conflict(id.to_string()));
        }
        let Some(node) = self.journal.node(session, id).await? else { return Ok(None) };
        match node.entry.body {
            Body::Shell(Shell { command: before, pair: Some(pair), .. }) if before == command => {
                Ok(Some(pair.second))
            }
            _ => Err(Error::Conflict(id.to_string())),
        }
    }

    async fn run_at_rest(&self, id: &SessionId, command: ShellCommand) -> Result<String, Error> {
        let work = |lease: Lease| async move {
            tokio::select! {
                biased;
                ran = self.run_owned(&lease, command) => ran,
                never = self.missed.interrupted(id, |count| self.drains.interrupt(id, count)) => match never {},
            }
        };
        let ran = self.leases.at_rest(id, work).await;
        // For what came meanwhile; and if the end could not be recorded, the drain does it.
        if is_due(&self.journal.outline(id).await?) {
            self.drains.wake(id);
        }
        ran
    }

    async fn run_owned(&self, lease: &Lease, command: ShellCommand) -> Result<String, Error> {
        let id = &lease.session;
        let session = self.journal.outline(id).await?.session;
        // A turn that was left open is continued by its drain, and a command that was cut off is settled by it.
        if session.is_at_work() {
            return Err(Error::Busy(id.clone()));
        }
        self.drains.begin(id, session.interrupts);
        let cancel = self.drains.cancellation(id);
        let location = self.projects.location(Some(&session.directory)).await?;
        let (started, mut events) = self.begin(lease, &session, &location, command).await?;
        if cancel.is_cancelled() {
            return Err(Error::Invalid("the command was stopped before it began".to_owned()));
        }
        self.journal.signal(&session, Signal::Busy);
        events.push(started.event());
        if let Err(error) = self.journal.append_owned(lease, events).await {
            self.journal.signal(&session, Signal::Idle);
            return Err(error);
        }
        let (end, closing) = self.follow(&session, &location, &started, cancel).await;
        let ended = started.ended(end, closing, self.journal.mint().now());
        self.journal.append_owned(lease, vec![ended]).await?;
        self.drains.set_status(id, Signal::Idle);
        self.journal.signal(&session, Signal::Idle);
        Ok(started.second)
    }

    /// What a command begins with, and what is to be recorded before it.
    async fn begin(
        &self,
        lease: &Lease,
        session: &Session,
        location: &Location,
        command: ShellCommand,
    ) -> Result<(StartedShell, Vec<Event>), Error> {
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let agents = config.agents();
        let agent = command.agent.or_else(|| session.agent.clone()).unwrap_or_else(|| agents.default_name());
        agents.check(&agent)?;
        let of_agent = agents.named(&agent).and_then(|agent| agent.model.as_deref());
        // No model is needed to run a command: there may be none yet.
        let model = match self.models.of(&config).selected(command.model.clone(), of_agent, session) {
            Ok(model) => Some(model),
            Err(_) => command.model,
        };
        let events = match session.revert {
            Some(_) => self.reverts.committing(lease).await?,
            None => Vec::new(),
        };
        let moved = events.iter().find_map(|event| match event {
            Event::LeafMoved { to, .. } => Some(to.clone()),
            _ => None,
        });
        let mint = self.journal.mint();
        let time = mint.now();
        let started = StartedShell {
            entry: command.id.unwrap_or_else(|| mint.entry(session)),
            parent: moved.unwrap_or_else(|| session.leaf.clone()),
            time,
            told: mint.part(session),
            second: mint.entry(session).to_string(),
            part: mint.part(session),
            call: mint.other("tool"),
            command: command.command,
            agent,
            model,
            cwd: location.directory.display().to_string(),
            root: location.worktree.display().to_string(),
        };
        Ok((started, events))
    }

    /// Runs the command and shows what it prints. True with its end when this process ends.
    async fn follow(
        &self,
        session: &Session,
        location: &Location,
        started: &StartedShell,
        cancel: CancellationToken,
    ) -> (Result<PersonCommandEnd, Failure>, bool) {
        let scope = self.confinement.scope(&location.directory, &location.worktree, None);
        let (context, mut reports) = Context::new(Arc::new(scope));
        let context = Context { cancel: cancel.clone(), ..context };
        let config = self.configurations.at(&location.directory).await;
        let tool = BashTool { limits: config.tool_output, ..self.tool.clone() };
        let running = tool.run_for_person(&started.command, context);
        tokio::pin!(running);
        let mut closing = false;
        let end = loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => self.show(session, started, report.metadata),
                end = &mut running => break end,
                () = self.lifecycle.closing(), if !cancel.is_cancelled() => {
                    closing = true;
                    cancel.cancel();
                }
            }
        };
        while let Ok(report) = reports.try_recv() {
            self.show(session, started, report.metadata);
        }
        (end, closing)
    }

    /// Shows what a command has printed.
    fn show(&self, session: &Session, started: &StartedShell, metadata: Map) {
        if metadata.get("output").and_then(Value::as_str).is_none_or(str::is_empty) {
            return;
        }
        let part = Box::new(started.part(started.running(Some(metadata))));
        self.journal.signal(session, Signal::Progress { message: started.second.clone(), part });
    }
}

/// A command that was recorded and runs.
#[derive(Debug)]
struct StartedShell {
    entry: EntryId,
    parent: Option<EntryId>,
    time: Millis,
    /// The part of the first message.
    told: PartId,
    /// The second message, and its part.
    second: String,
    part: PartId,
    call: String,
    command: String,
    agent: String,
    model: Option<ModelRef>,
    cwd: String,
    root: String,
}

impl StartedShell {
    /// That it begins.
    fn event(&self) -> Event {
        let (agent, model) = (Some(self.agent.clone()), self.model.clone());
        let assistant = Assistant {
            agent: agent.clone(),
            model: model.clone(),
            answers: Some(self.entry.to_string()),
            cwd: Some(self.cwd.clone()),
            root: Some(self.root.clone()),
            ..Assistant::default()
        };
        let pair = Pair {
            user: User { agent, model, ..User::default() },
            second: self.second.clone(),
            second_time: self.time,
            assistant,
            ..Pair::default()
        };
        let shell = Shell {
            command: self.command.clone(),
            call: Some(self.call.clone()),
            pair: Some(Box::new(pair)),
            ..Shell::default()
        };
        let entry = Entry::new(self.entry.clone(), self.parent.clone(), self.time, Body::Shell(shell));
        let told = PartKind::Text {
            text: EXECUTED.to_owned(),
            synthetic: Some(true),
            ignored: None,
            time: None,
            metadata: None,
        };
        let parts = vec![Part::new(self.told.clone(), told), self.part(self.running(None))];
        Event::ShellStarted { entry: Box::new(entry), parts }
    }

    fn input(&self) -> Value {
        json!({ "command": self.command })
    }

    fn running(&self, metadata: Option<Map>) -> ToolState {
        ToolState::Running { input: self.input(), title: None, metadata, start: self.time }
    }

    fn part(&self, state: ToolState) -> Part {
        let (call, tool) = (self.call.clone(), TOOL.to_owned());
        let kind = PartKind::Tool { call, tool, state, hosted: false, metadata: None };
        Part { second: true, ..Part::new(self.part.clone(), kind) }
    }

    /// That it has ended.
    fn ended(&self, end: Result<PersonCommandEnd, Failure>, closing: bool, now: Millis) -> Event {
        let (start, end_time) = (Some(self.time), Some(now));
        let result = |outcome, output: &str| ToolResult {
            start,
            end: end_time,
            ..ToolResult::new(&self.call, TOOL, outcome, output)
        };
        let (output, exit, state) = match end {
            Ok(PersonCommandEnd { mut output, exit, stopped }) => {
                if stopped {
                    output.push_str(if output.is_empty() { "" } else { "\n\n" });
                    output.push_str(if closing { CLOSED } else { STOPPED });
                }
                let exit = exit.map(i64::from);
                let mut metadata = Map::new();
                metadata.insert("output".to_owned(), output.as_str().into());
                // As OpenCode has it, where all went well.
                if let Some(exit) = exit.filter(|exit| *exit != 0) {
                    metadata.insert("exit".to_owned(), exit.into());
                }
                let result = ToolResult { metadata: Some(metadata), ..result(Outcome::Completed, &output) };
                (output, exit, ToolState::Completed { input: self.input(), result: Box::new(result) })
            }
            Err(failure) => {
                let text = failure.to_string();
                let result = Box::new(result(Outcome::Error, &text));
                (text, None, ToolState::Error { input: self.input(), result })
            }
        };
        let part = Some(Box::new(self.part(state)));
        Event::ShellEnded { entry: self.entry.clone(), output, exit, part }
    }
}

/// The end of a command whose process died: nobody knows what became of it.
pub(crate) fn cut_off(tree: &Tree, now: Millis) -> Option<Event> {
    let entry = tree.session.shell.clone()?;
    let parts = tree.node(&entry).into_iter().flat_map(|node| &node.parts);
    let settled = |part: &Part| {
        let PartKind::Tool { call, tool, state, hosted, metadata } = &part.kind else { return None };
        let start = match state {
            ToolState::Running { start, .. } => Some(*start),
            _ => None,
        };
        let result =
            ToolResult { start, end: Some(now), ..ToolResult::new(call, tool, Outcome::Unknown, UNKNOWN) };
        let state = ToolState::Error { input: state.input().clone(), result: Box::new(result) };
        let kind = PartKind::Tool {
            call: call.clone(),
            tool: tool.clone(),
            state,
            hosted: *hosted,
            metadata: metadata.clone(),
        };
        Some(Box::new(Part { kind, ..part.clone() }))
    };
    let part = parts.filter(|part| part.second).find_map(settled);
    Some(Event::ShellEnded { entry, output: UNKNOWN.to_owned(), exit: None, part })
}
