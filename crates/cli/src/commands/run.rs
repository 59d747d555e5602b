//! `everturn run`: one prompt, answered in this terminal by an engine in this process.
//!
//! It shows what the bus tells. What the bus has lost is read from the log: see [`RunCommand::catch_up`].
//!
//! - `output`: what was shown

mod output;

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use everturn_engine::projects::Location;
use everturn_engine::sessions::{Filter, NewSession};
use everturn_engine::{Engine, Error, Prompt, SessionUpdate, Signal};
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{Event, Session, SessionId};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::session::lookup;
use crate::settings::{self, Listeners};
use crate::table;
use output::RunOutput;

/// Answer one prompt here and now
#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// The prompt
    #[arg(required = true)]
    message: Vec<String>,
    /// The model: provider/model, a part of its name, or scripted/ and the path of a script
    #[arg(short, long)]
    model: Option<String>,
    /// The agent
    #[arg(long)]
    agent: Option<String>,
    /// Go on in this session
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    /// Go on in the newest session of this project
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    newest: bool,
    /// Say yes to every permission request instead of no
    #[arg(long)]
    yes: bool,
}

impl RunCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let engine = settings::open(&settings::working_folder()?, Listeners::Some).await?;
            settings::remove_old_output(&engine).await;
            let result = self.run(&engine).await;
            engine.close().await;
            result
        })
    }

    async fn run(&self, engine: &Engine) -> Result<()> {
        let location = engine.projects().location(None).await?;
        let found = self.find(engine, &location).await?;
        let folder = found.as_ref().map_or(location.directory.as_path(), |found| Path::new(&found.directory));
        // Before the session is made: a typing error, or a missing key, should leave none behind.
        let model = match (&self.model, &found) {
            (Some(name), _) => Some(engine.models().named(name, folder)?),
            (None, None) => Some(engine.models().default_model(folder)?),
            (None, Some(_)) => None,
        };
        if model.is_some() {
            engine.models().choose(model.as_ref(), folder)?;
        }
        if let Some(agent) = &self.agent {
            engine.agents().check(agent)?;
        }
        let session = match found {
            Some(session) => session,
            None => engine.sessions().create(&location, NewSession::default()).await?,
        };
        let prompt = Prompt { model, agent: self.agent.clone(), ..Prompt::text(&self.message.join(" ")) };
        let updates = engine.bus().listen();
        let interrupts = interrupts()?;
        let item = engine.inbox().admit(&session.id, prompt).await?;
        let mut shown = RunOutput::new(table::text, session.id.clone(), item.id);
        self.answer_waiting(engine, &session.id).await?;
        let stopped = self.follow(engine, updates, interrupts, &mut shown).await?;
        engine.drains().settled(&session.id).await;
        // A turn that fails says so before the end of its text is in the log.
        if shown.has_missed() {
            self.catch_up(engine, &mut shown).await?;
        }
        shown.finish();
        table::note(format!("session {}", session.id));
        if stopped && shown.failure().is_some() {
            bail!("the work was stopped");
        }
        // Whoever deletes a session stops its work first.
        if shown.is_deleted() || (shown.failure().is_some() && is_gone(engine, &session.id).await?) {
            return Err(explain_deletion(engine, &session.id).await);
        }
        match shown.failure() {
            Some(message) => bail!(message.to_owned()),
            None => Ok(()),
        }
    }

    /// The session to go on in; none asks for a new one.
    async fn find(&self, engine: &Engine, location: &Location) -> Result<Option<Session>> {
        Ok(match (&self.session, self.newest) {
            (Some(id), _) => Some(lookup::listed(engine, id).await?),
            (None, true) => {
                let filter = Filter { roots: true, limit: Some(1), ..Filter::default() };
                let newest = engine.projects().sessions(location, filter).await?.into_iter().next();
                Some(newest.context("there is no session to go on in")?)
            }
            (None, false) => None,
        })
    }

    /// Shows what happens until the session is idle after the prompt, or gone. True when a person has stopped the work.
    async fn follow<P: FnMut(&str)>(
        &self,
        engine: &Engine,
        mut updates: Receiver<SessionUpdate>,
        mut interrupts: unix::Signal,
        shown: &mut RunOutput<P>,
    ) -> Result<bool> {
        let mut stopping = false;
        // Whether the end may have been among what was missed.
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
                    stopping = true;
                    if table::is_watched() {
                        // The terminal has written ^C into the line.
                        table::note("");
                    }
                    table::note("stopping; Ctrl-C again leaves at once");
                    let (engine, id) = (engine.clone(), shown.session().clone());
                    tokio::spawn(async move { engine.drains().abort(&id).await });
                }
                update = updates.recv() => match update {
                    Ok(SessionUpdate::Gap) | Err(RecvError::Lagged(_)) => {
                        // Before the state is read, so that nothing falls between the two.
                        updates = engine.bus().listen();
                        self.catch_up(engine, shown).await?;
                        doubtful = true;
                    }
                    Ok(update) => self.show(engine, &update, shown).await?,
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
        self.answer_waiting(engine, &id).await
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
                Signal::Busy | Signal::Retry { .. } | Signal::Progress { .. } | Signal::FileEdited { .. } => {
                }
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
                    self.answer(engine, request).await?;
                }
            }
            SessionUpdate::Live(_) | SessionUpdate::Gap => {}
        }
        Ok(())
    }

    /// Answers what the session waited for before: another process may be at work on it, and does not go on without.
    async fn answer_waiting(&self, engine: &Engine, session: &SessionId) -> Result<()> {
        let children = engine.sessions().children(session).await?;
        for (asker, request) in engine.requests().waiting().await? {
            if asker == *session || children.iter().any(|child| child.id == asker) {
                self.answer(engine, &request).await?;
            }
        }
        Ok(())
    }

    /// Answers a request, whichever process asks: nobody else may be there to do so.
    async fn answer(&self, engine: &Engine, request: &Request) -> Result<()> {
        let (answered, note) = match request.ask {
            Ask::Question { .. } => {
                let note = "a question was asked, and nobody is here to answer it";
                (engine.requests().dismiss(&request.id).await, Some(note))
            }
            Ask::Permission { .. } => {
                let reply = if self.yes { Reply::Once } else { Reply::Reject };
                let note = "a permission was asked for and refused; --yes allows";
                (engine.requests().reply(&request.id, reply, None).await, (!self.yes).then_some(note))
            }
        };
        match answered {
            Ok(()) => {
                if let Some(note) = note {
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

/// What a person does to stop the work.
fn interrupts() -> Result<unix::Signal> {
    unix::signal(SignalKind::interrupt()).context("cannot listen for signals")
}

/// Whether a session is not there any more, or in the trash.
async fn is_gone(engine: &Engine, id: &SessionId) -> Result<bool> {
    match engine.sessions().get(id).await {
        Ok(_) => Ok(false),
        Err(Error::NoSession(_)) => Ok(true),
        Err(error) => Err(error.into()),
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
