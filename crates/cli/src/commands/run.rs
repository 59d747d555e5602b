//! `everturn run`: one prompt, answered in this terminal by an engine in this process.
//!
//! It shows what the bus tells. What the bus has lost is read from the log: see [`RunCommand::catch_up`].
//!
//! - `output`: what was shown
//! - `slash`: slash commands

mod output;
mod slash;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use everturn_engine::projects::Location;
use everturn_engine::sessions::{Filter, NewSession};
use everturn_engine::{Engine, Error, Prompt, SessionUpdate, Signal};
use everturn_model::budget::BUDGET;
use everturn_model::fault::{Fault, FaultKind};
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{EntryId, Event, Session, SessionId};
use everturn_store::WrittenBy;
use serde_json::Value;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::session::lookup;
use super::trust;
use crate::plain::flatten;
use crate::settings::{self, Listeners};
use crate::table;
use output::RunOutput;

/// How much is shown of what a permission was asked for, in characters.
const LONGEST_SUBJECT: usize = 200;

/// How long after its work was stopped a session may be deleted, and how often that is looked up.
const DELETION: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// What a script can tell by how it ended.
const STATUSES: &str = "Exit status:
  0  the prompt was answered
  1  it was not
  2  the arguments are wrong
  3  something was refused, or a question was asked, and the work stopped there";

/// The work stopped because nobody was there to allow or answer something. It has been told what.
#[derive(Debug)]
pub(crate) struct RefusedWork;

impl fmt::Display for RefusedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work stopped where something was refused")
    }
}

impl std::error::Error for RefusedWork {}

impl RefusedWork {
    /// How the process ends then.
    pub(crate) const STATUS: u8 = 3;
}

/// Answer one prompt here and now
#[derive(Debug, Args)]
#[command(after_help = STATUSES)]
pub(crate) struct RunCommand {
    /// The prompt
    #[arg(required_unless_present_any = ["resume", "command"])]
    message: Vec<String>,
    /// Give this slash command, with the prompt as its arguments
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
    /// The model: provider/model, a part of its name, or scripted/ and the path of a script
    #[arg(short, long)]
    model: Option<String>,
    /// The agent
    #[arg(long)]
    agent: Option<String>,
    /// Go on in this session
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    /// Go on in the newest session of this project, or of this folder outside of repositories
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    newest: bool,
    /// Go on with the prompts that wait in the session since it was stopped, as `everturn session resume` does
    #[arg(long, conflicts_with_all = ["message", "model", "agent", "command"])]
    resume: bool,
    /// Say yes to every permission request instead of no; this trusts no project, and lets no loop and no used-up budget go on
    #[arg(long)]
    yes: bool,
    /// Trust what this project's configuration asks for, as `everturn trust --yes` does
    #[arg(long)]
    trust: bool,
}

impl RunCommand {
    /// The command that goes on in a session with what waits there.
    pub(crate) fn resume(session: String, yes: bool) -> Self {
        let (message, model, agent) = (Vec::new(), None, None);
        Self {
            message,
            command: None,
            model,
            agent,
            session: Some(session),
            newest: false,
            resume: true,
            yes,
            trust: false,
        }
    }

    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let folder = settings::working_folder()?;
            if self.trust {
                trust::grant_all(&folder)?;
            }
            let engine = settings::open(&folder, Listeners::Some).await?;
            settings::remove_old_output(&engine).await;
            let result = self.run(&engine).await;
            engine.close().await;
            result
        })
    }

    pub(super) async fn run(&self, engine: &Engine) -> Result<()> {
        let location = engine.projects().location(None).await?;
        if !self.resume && self.command.is_none() && self.message.join(" ").trim().is_empty() {
            bail!("the prompt is empty; say what is to be done");
        }
        let found = self.find(engine, &location).await?;
        if self.resume && found.is_none() {
            bail!("say which session is to go on: --session ID, or --continue for the newest");
        }
        let folder = found.as_ref().map_or(location.directory.as_path(), |found| Path::new(&found.directory));
        let config = engine.configurations().at(folder).await;
        let models = engine.models().of(&config);
        // Before the session is made: a typing error, or a missing key, should leave none behind.
        let model = match (&self.model, &found) {
            (Some(name), _) => Some(models.named(name, folder)?),
            (None, None) => Some(models.default_model(folder)?),
            (None, Some(_)) => None,
        };
        if model.is_some() {
            models.choose(model.as_ref(), folder)?;
        }
        match &self.agent {
            Some(agent) => config.agents().check(agent)?,
            None if found.is_none() => config.agents().check_default()?,
            None => {}
        }
        self.check_command(engine, &config, &location).await?;
        let session = match found {
            Some(session) => session,
            None => engine.sessions().create(&location, NewSession::default()).await?,
        };
        let updates = engine.bus().listen();
        let interrupts = interrupts()?;
        let mut shown = if self.resume {
            match go_on(engine, &session).await? {
                Some(first) => RunOutput::of_waiting(table::text, session.id.clone(), first),
                None => RunOutput::of_open_turn(table::text, session.id.clone()),
            }
        } else if let Some(name) = &self.command {
            let item = self.give(engine, &session.id, name).await?;
            RunOutput::new(table::text, session.id.clone(), item.id)
        } else {
            let prompt = Prompt { model, agent: self.agent.clone(), ..Prompt::text(&self.message.join(" ")) };
            let item = engine.inbox().admit(&session.id, prompt).await?;
            RunOutput::new(table::text, session.id.clone(), item.id)
        };
        self.answer_waiting(engine, &mut shown).await?;
        let stopped = self.follow(engine, updates, interrupts, &mut shown).await?;
        table::note(format!("session {}", session.id));
        let gone = match shown.failure() {
            // What was stopped here is not there any more only if that was told.
            Some(failure) if !stopped && !shown.is_deleted() => is_gone(engine, &session.id, failure).await?,
            _ => shown.is_deleted(),
        };
        if gone {
            return Err(explain_deletion(engine, &session.id).await);
        }
        // Somebody else may have stopped what the prompt waited behind.
        let aborted = shown.failure().is_some_and(|failure| failure.kind == FaultKind::Aborted);
        if (stopped || aborted) && !shown.is_begun() {
            let id = &session.id;
            bail!("the work was stopped before it began; `everturn session resume {id}` goes on with it");
        }
        if stopped && shown.failure().is_some() {
            bail!("the work was stopped");
        }
        match shown.failure() {
            Some(failure) => bail!(explained(failure)),
            None if shown.is_refused() => Err(RefusedWork.into()),
            None => Ok(()),
        }
    }

    /// The session to go on in; none asks for a new one.
    async fn find(&self, engine: &Engine, location: &Location) -> Result<Option<Session>> {
        Ok(match (&self.session, self.newest) {
            (Some(id), _) => Some(lookup::listed(engine, id).await?),
            (None, true) => {
                let filter = Filter { roots: true, limit: Some(1), ..Filter::default() };
                let newest = engine.projects().sessions_here(location, filter).await?.into_iter().next();
                Some(newest.context("there is no session to go on in")?)
            }
            (None, false) => None,
        })
    }

    /// Shows what happens until the session is idle after the prompt, or gone. True when a person has stopped the work.
    async fn follow<P: FnMut(&str)>(
        &self,
        engine: &Engine,
        updates: Receiver<SessionUpdate>,
        interrupts: unix::Signal,
        shown: &mut RunOutput<P>,
    ) -> Result<bool> {
        let stopped = self.follow_bus(engine, updates, interrupts, shown).await?;
        engine.drains().settled(shown.session()).await;
        // A turn that fails says so before the end of its text is in the log.
        if shown.has_missed() {
            self.catch_up(engine, shown).await?;
        }
        shown.finish();
        Ok(stopped)
    }

    /// Shows what the bus tells until the end of that.
    async fn follow_bus<P: FnMut(&str)>(
        &self,
        engine: &Engine,
        mut updates: Receiver<SessionUpdate>,
        mut interrupts: unix::Signal,
        shown: &mut RunOutput<P>,
    ) -> Result<bool> {
        let mut stopping = false;
        let mut stop = None;
        // Whether the end may have been among what was missed, or may never be told.
        let mut doubtful = false;
        while !shown.is_over() {
            tokio::select! {
                biased;
                _ = interrupts.recv() => {
                    // Work that a person stopped is over: without this it would look as if the process had died, and the
                    // next one would go on with it.
                    if stopping {
                        bail!("left before the session {} had stopped", shown.session());
                    }
                    if self.is_others_work(engine, shown).await? {
                        bail!(
                            "left; another process is at work on the session {}, and answers the prompt after that",
                            shown.session()
                        );
                    }
                    stopping = true;
                    if table::is_watched() {
                        // The terminal has written ^C into the line.
                        table::note("");
                    }
                    table::note("stopping; Ctrl-C again leaves at once");
                    let (engine, id) = (engine.clone(), shown.session().clone());
                    stop = Some(tokio::spawn(async move { engine.drains().abort(&id).await }));
                }
                // A prompt that was not begun is held, and then nothing is told of its end.
                _ = ended(&mut stop) => doubtful = true,
                update = updates.recv() => match update {
                    Ok(SessionUpdate::Gap) | Err(RecvError::Lagged(_)) => {
                        // Before the state is read, so that nothing falls between the two.
                        updates = engine.bus().listen();
                        self.catch_up(engine, shown).await?;
                        doubtful = true;
                    }
                    Ok(update) => {
                        let before = shown.failure().is_some();
                        self.show(engine, &update, shown).await?;
                        // It may have failed so that nothing more can be told, as on a damaged database.
                        doubtful |= shown.failure().is_some() && !before;
                    }
                    Err(RecvError::Closed) => return Ok(stopping),
                },
                () = engine.drains().settled(shown.session()), if doubtful => {
                    doubtful = false;
                    // Of a process that is still at work the bus will tell when it ends.
                    if !engine.drains().statuses().iter().any(|(id, _)| id == shown.session()) {
                        self.catch_up(engine, shown).await?;
                        return Ok(stopping);
                    }
                }
            }
        }
        Ok(stopping)
    }

    /// Whether the turn that is open is another process's, and not about the prompt: it is not ours to stop.
    async fn is_others_work<P: FnMut(&str)>(&self, engine: &Engine, shown: &RunOutput<P>) -> Result<bool> {
        let id = shown.session();
        if is_own_work(engine, shown) {
            return Ok(false);
        }
        match engine.sessions().get(id).await {
            Ok(session) => Ok(session.is_at_work()),
            Err(Error::NoSession(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows what was missed: asks the store for what happened since, and for what is streaming and waiting now.
    async fn catch_up<P: FnMut(&str)>(&self, engine: &Engine, shown: &mut RunOutput<P>) -> Result<()> {
        shown.miss();
        let id = shown.session().clone();
        // Before the tree, which then has every part that the log speaks of.
        let log = engine.sessions().log_after(&id, shown.seq()).await?;
        match engine.sessions().tree(&id).await {
            Ok(tree) => shown.take_log(&log, &tree),
            Err(Error::NoSession(_)) => {
                shown.delete();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let streaming = engine.sessions().streaming_parts().await?;
        for open in streaming.iter().filter(|open| open.session.id == id) {
            if let PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } = &open.part.kind {
                shown.add(&open.part.id, 0, text);
            }
        }
        self.answer_waiting(engine, shown).await
    }

    /// Shows an update.
    async fn show<P: FnMut(&str)>(
        &self,
        engine: &Engine,
        update: &SessionUpdate,
        shown: &mut RunOutput<P>,
    ) -> Result<()> {
        match update {
            SessionUpdate::Live(live) if live.session == *shown.session() => match &live.signal {
                Signal::Delta { part, offset, text, .. } => shown.add(part, *offset, text),
                Signal::Failed { error } => shown.fail(error),
                Signal::Idle => shown.rest(),
                Signal::Purged { .. } => shown.delete(),
                // This process may have taken over a turn that asks.
                Signal::Busy => self.answer_waiting(engine, shown).await?,
                // Otherwise nobody would know what is waited for.
                Signal::Retry { attempt, message, next } => {
                    shown.finish();
                    let seconds = (next - table::now()).max(0) as f64 / 1000.0;
                    table::note(flatten(&format!(
                        "attempt {attempt} failed: {message}; the next one is in {seconds:.0} s"
                    )));
                }
                Signal::Progress { .. } | Signal::FileEdited { .. } | Signal::CommandDone { .. } => {}
            },
            SessionUpdate::Committed(committed) => {
                let session = &committed.tree.session;
                let ours = session.id == *shown.session();
                if ours {
                    shown.take(&committed.record, &committed.tree);
                }
                // A subagent asks in a session of its own.
                if let Event::RequestAsked { request } = &committed.record.event
                    && (ours || session.parent.as_ref() == Some(shown.session()))
                {
                    match (request.trust_digest(), committed.by) {
                        (None, _) => self.answer(engine, request, shown).await?,
                        (Some(_), WrittenBy::Us) => put_off(engine, request).await?,
                        // Nothing waits for it, and it is for the person who works there.
                        (Some(_), WrittenBy::Others { .. }) => {}
                    }
                }
            }
            SessionUpdate::Live(_) | SessionUpdate::Gap => {}
        }
        Ok(())
    }

    /// Answers what the session waits for already.
    async fn answer_waiting<P: FnMut(&str)>(&self, engine: &Engine, shown: &mut RunOutput<P>) -> Result<()> {
        let session = shown.session().clone();
        let children = engine.sessions().children(&session).await?;
        for (asker, request) in engine.requests().waiting().await? {
            let ours = asker == session || children.iter().any(|child| child.id == asker);
            // Nothing waits for trust in the project, and somebody may be looking at the request in a client.
            if ours && request.trust_digest().is_none() {
                self.answer(engine, &request, shown).await?;
            }
        }
        Ok(())
    }

    /// Answers a request of the turn that the prompt is part of, whichever process runs it: nobody else may be there to
    /// do so. What another turn asks is for the person who began that.
    async fn answer<P: FnMut(&str)>(
        &self,
        engine: &Engine,
        request: &Request,
        shown: &mut RunOutput<P>,
    ) -> Result<()> {
        if !is_own_work(engine, shown) {
            if shown.wait_for_others() {
                table::note(
                    "another process asks something in this session; it goes on when that is answered there",
                );
            }
            return Ok(());
        }
        let (answered, note) = match &request.ask {
            Ask::Question { .. } => {
                let note = "a question was asked, and nobody is here to answer it".to_owned();
                (engine.requests().dismiss(&request.id).await, Some(note))
            }
            Ask::Permission { permission, patterns, metadata, .. } => {
                // Whoever allows whatever is asked for does not mean that it never ends.
                let yes = self.yes && !request.is_of_guard();
                let reply = if yes { Reply::Once } else { Reply::Reject };
                let what: String = patterns.join(", ").chars().take(LONGEST_SUBJECT).collect();
                let note = if request.is_of_guard() {
                    let note = metadata.get("note").and_then(Value::as_str).unwrap_or_default();
                    let way = if permission == BUDGET {
                        format!(
                            "`everturn session resume {}` goes on once `budget` in the configuration has more, or asks again",
                            shown.session()
                        )
                    } else {
                        format!("A client can be asked, or `{permission}` in `permission` allows it")
                    };
                    format!(
                        "`{permission}` was asked for and refused ({what}), because nobody is here to answer and --yes does \
                         not allow it. {note} {way}"
                    )
                } else {
                    format!(
                        "`{permission}` was asked for and refused ({what}); --yes allows all that is asked for"
                    )
                };
                (engine.requests().reply(&request.id, reply, None).await, (!yes).then_some(note))
            }
        };
        match answered {
            Ok(()) => {
                if let Some(note) = note {
                    // What is asked between two turns belongs to no answer.
                    shown.refuse(request.call.as_ref().map_or(&EntryId::from(""), |call| &call.entry));
                    table::note(note);
                }
                Ok(())
            }
            // Somebody else was faster, or has deleted the session, which is told.
            Err(Error::NoRequest(_) | Error::NoSession(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Why a turn failed, with what to do about it where its own words do not say.
fn explained(failure: &Fault) -> String {
    let text = failure.text();
    match &failure.kind {
        FaultKind::Authentication { provider } => {
            format!(
                "{provider} does not accept the key: {text}; `everturn auth set {provider}` gives it another one"
            )
        }
        FaultKind::ContextOverflow { .. } => {
            format!("the conversation is longer than the model takes: {text}")
        }
        _ => text.to_owned(),
    }
}

/// Waits for the end of a task, once.
async fn ended<T>(task: &mut Option<JoinHandle<T>>) {
    match task {
        Some(running) => drop(running.await),
        None => std::future::pending().await,
    }
    *task = None;
}

/// Lets a session go on with what waits in it. The first prompt of that comes back; none where a turn goes on.
async fn go_on(engine: &Engine, session: &Session) -> Result<Option<EntryId>> {
    let id = &session.id;
    let conversation = engine.sessions().conversation(id, Some(0)).await?;
    // Parked, or left by a process that is gone: what waits behind it comes after it.
    let open = conversation.session.open;
    let first = conversation.inbox.into_iter().next().map(|item| item.id).filter(|_| !open);
    if first.is_none() && !open {
        bail!("nothing waits in the session {id}; `everturn run --session {id} ...` gives it a prompt");
    }
    engine.drains().resume(id).await?;
    Ok(first)
}

/// Takes back the request for trust that this command made itself: only `--trust` trusts a project, whatever else is
/// allowed, and what is held was told at the start. A client is asked again.
async fn put_off(engine: &Engine, request: &Request) -> Result<()> {
    match engine.requests().put_off(&request.id).await {
        Ok(()) | Err(Error::NoRequest(_) | Error::NoSession(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the turn that is open is about the prompt, or this process has it.
fn is_own_work<P: FnMut(&str)>(engine: &Engine, shown: &RunOutput<P>) -> bool {
    shown.is_begun() || engine.drains().is_owned(shown.session())
}

/// What a person does to stop the work.
fn interrupts() -> Result<unix::Signal> {
    unix::signal(SignalKind::interrupt()).context("cannot listen for signals")
}

/// Whether a session is not there any more, or in the trash. Whoever deletes one stops its work first, so what was stopped
/// is looked at for a moment.
async fn is_gone(engine: &Engine, id: &SessionId, failure: &Fault) -> Result<bool> {
    let wait = if failure.kind == FaultKind::Aborted { DELETION } else { Duration::ZERO };
    let end = Instant::now() + wait;
    loop {
        match engine.sessions().get(id).await {
            Ok(_) if Instant::now() < end => tokio::time::sleep(LOOK).await,
            Ok(_) => return Ok(false),
            Err(Error::NoSession(_)) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What to say when somebody has deleted the session before the answer was there.
async fn explain_deletion(engine: &Engine, id: &SessionId) -> anyhow::Error {
    let deleted = "the session was deleted before the answer was complete";
    match lookup::listed(engine, id.as_str()).await {
        Ok(_) => anyhow!("{deleted}, and is back again"),
        Err(place) => anyhow!("{deleted}: {place}"),
    }
}

#[cfg(test)]
mod tests;
