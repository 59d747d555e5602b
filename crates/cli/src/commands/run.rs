//! `everturn run`: one prompt, answered in this terminal by an engine in this process.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use everturn_engine::bus::{Committed, continuation};
use everturn_engine::projects::Location;
use everturn_engine::sessions::{Filter, NewSession};
use everturn_engine::{Engine, Error, Prompt, SessionUpdate, Signal};
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::tool::Outcome;
use everturn_model::{Body, EntryId, Event, PartId, Session, SessionId};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;

use super::session::lookup;
use crate::settings::{self, Listeners};
use crate::table;

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

/// What was shown so far.
#[derive(Debug)]
struct RunOutput {
    /// The session and the prompt.
    session: SessionId,
    prompt: EntryId,
    /// Whether the prompt was told of. What was idle before is no sign of its end.
    admitted: bool,
    /// How much of each text.
    texts: HashMap<PartId, usize>,
    /// Why the last turn failed.
    failure: Option<String>,
}

impl RunOutput {
    fn new(session: SessionId, prompt: EntryId) -> Self {
        Self { session, prompt, admitted: false, texts: HashMap::new(), failure: None }
    }

    /// Shows what is new of a text.
    fn add(&mut self, part: &PartId, offset: usize, text: &str) {
        let shown = self.texts.entry(part.clone()).or_default();
        // After a gap it goes on with what comes next.
        table::text(continuation(*shown, offset, text).unwrap_or(text));
        *shown = (*shown).max(offset + text.len());
    }

    /// Ends a text with what was not shown of it: that of another process comes in pieces, and not to its end.
    fn end(&mut self, part: &PartId, text: &str) {
        let shown = self.texts.remove(part).unwrap_or_default();
        table::line(text.get(shown..).unwrap_or_default());
    }
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
        let mut updates = engine.bus().listen();
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        let mut stopping = false;
        let item = engine.inbox().admit(&session.id, prompt).await?;
        let mut shown = RunOutput::new(session.id.clone(), item.id);
        self.answer_waiting(engine, &session.id).await?;
        loop {
            let update = tokio::select! {
                update = updates.recv() => update,
                _ = interrupts.recv() => {
                    // Work that a person stopped is over: without this it would look as if the process had died, and the
                    // next one would go on with it.
                    if stopping {
                        bail!("left before the session {} had stopped", session.id);
                    }
                    stopping = true;
                    if table::is_watched() {
                        // The terminal has written ^C into the line.
                        table::note("");
                    }
                    table::note("stopping; Ctrl-C again leaves at once");
                    let (engine, id) = (engine.clone(), session.id.clone());
                    tokio::spawn(async move { engine.drains().abort(&id).await });
                    continue;
                }
            };
            match update {
                Ok(SessionUpdate::Gap) | Err(RecvError::Lagged(_)) => {
                    table::note("(some of the output was not shown)");
                }
                Ok(update) => {
                    if self.show(engine, &update, &mut shown).await? {
                        break;
                    }
                }
                Err(RecvError::Closed) => break,
            }
        }
        engine.drains().settled(&session.id).await;
        table::note(format!("session {}", session.id));
        match shown.failure {
            Some(_) if stopping => bail!("the work was stopped"),
            Some(message) => bail!(message),
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

    /// Shows an update; true when the session is idle after the prompt.
    async fn show(&self, engine: &Engine, update: &SessionUpdate, shown: &mut RunOutput) -> Result<bool> {
        match update {
            SessionUpdate::Live(live) if live.session == shown.session => match &live.signal {
                Signal::Delta { part, offset, text, .. } => shown.add(part, *offset, text),
                Signal::Failed { error } => {
                    shown.failure = Some(error.text().to_owned());
                }
                Signal::Idle => return Ok(shown.admitted),
                _ => {}
            },
            SessionUpdate::Committed(committed) if committed.record.session == shown.session => {
                match &committed.record.event {
                    Event::PromptAdmitted { item } if item.id == shown.prompt => shown.admitted = true,
                    // What failed before is not what was asked for here.
                    Event::StepStarted { .. } => shown.failure = None,
                    Event::PartEnded { part, text, .. } if is_text(committed) => shown.end(part, text),
                    Event::ToolSettled { entry, .. } => {
                        if let Body::ToolResult { result } = &entry.body {
                            let (sign, said) = match result.outcome {
                                Outcome::Completed => ("✓", result.title.as_deref().unwrap_or_default()),
                                _ => ("✗", result.output.lines().next().unwrap_or_default()),
                            };
                            table::line(format!("{sign} {} {said}", result.tool));
                        }
                    }
                    Event::RequestAsked { request } => self.answer(engine, request).await?,
                    _ => {}
                }
            }
            // A subagent asks in a session of its own.
            SessionUpdate::Committed(committed) => {
                if let Event::RequestAsked { request } = &committed.record.event
                    && committed.tree.session.parent.as_ref() == Some(&shown.session)
                {
                    self.answer(engine, request).await?;
                }
            }
            _ => {}
        }
        Ok(false)
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
            // Somebody else was faster.
            Err(Error::NoRequest(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the part that has ended is one that is shown.
fn is_text(committed: &Committed) -> bool {
    let Event::PartEnded { entry, part, .. } = &committed.record.event else { return false };
    let part = committed.tree.node(entry).and_then(|node| node.part(part));
    matches!(part.map(|part| &part.kind), Some(PartKind::Text { .. } | PartKind::Reasoning { .. }))
}
