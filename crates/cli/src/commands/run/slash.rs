//! `everturn run --command`: a slash command in place of a prompt.

use anyhow::{Result, bail};
use everturn_engine::commands::{GivenCommand, is_of_command};
use everturn_engine::projects::Location;
use everturn_engine::{Config, Engine, Error, SessionUpdate};
use everturn_model::inbox::InboxItem;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{Event, SessionId};

use super::{LONGEST_SUBJECT, RefusedWork, RunCommand};
use crate::table;

impl RunCommand {
    /// Ensures that there is such a command: a typing error should leave no session behind.
    pub(super) async fn check_command(
        &self,
        engine: &Engine,
        config: &Config,
        location: &Location,
    ) -> Result<()> {
        let Some(name) = &self.command else { return Ok(()) };
        let known = engine.commands().list(config, location).await;
        let held = config.held.contains_key(&format!("command.{name}"));
        if !held && known.iter().all(|command| command.name != *name) {
            let names: Vec<&str> = known.iter().map(|command| command.name.as_str()).collect();
            bail!("there is no command {name}; known: {}", names.join(", "));
        }
        Ok(())
    }

    /// Gives the command. What its text asks for is answered as what the work asks for is.
    pub(super) async fn give(&self, engine: &Engine, session: &SessionId, name: &str) -> Result<InboxItem> {
        let given = GivenCommand {
            name: name.to_owned(),
            arguments: self.message.join(" "),
            agent: self.agent.clone(),
            model: self.model.clone(),
            ..GivenCommand::default()
        };
        let mut updates = engine.bus().listen();
        let running = engine.commands().run(session, given);
        tokio::pin!(running);
        let mut refused = false;
        let done = loop {
            let update = tokio::select! {
                biased;
                done = &mut running => break done,
                update = updates.recv() => update,
            };
            match update {
                Ok(SessionUpdate::Committed(committed)) => {
                    let ours = committed.tree.session.id == *session;
                    if let Event::RequestAsked { request } = &committed.record.event
                        && ours
                    {
                        refused |= self.answer_command(engine, request).await?;
                    }
                }
                Ok(SessionUpdate::Live(_)) => {}
                // Something may have been missed, and somebody waits for each answer.
                Ok(SessionUpdate::Gap) | Err(_) => {
                    updates = engine.bus().listen();
                    for (asker, request) in engine.requests().waiting().await? {
                        if asker == *session {
                            refused |= self.answer_command(engine, &request).await?;
                        }
                    }
                }
            }
        };
        match done {
            Err(_) if refused => Err(RefusedWork.into()),
            done => Ok(done?),
        }
    }

    /// Answers what the text of a command asks for. True when it is refused.
    async fn answer_command(&self, engine: &Engine, request: &Request) -> Result<bool> {
        let Ask::Permission { permission, patterns, .. } = &request.ask else { return Ok(false) };
        if !is_of_command(request) {
            return Ok(false);
        }
        let reply = if self.yes { Reply::Once } else { Reply::Reject };
        match engine.requests().reply(&request.id, reply, None).await {
            // Somebody else was faster.
            Ok(()) | Err(Error::NoRequest(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if !self.yes {
            let what: String = patterns.join(", ").chars().take(LONGEST_SUBJECT).collect();
            table::note(format!(
                "`{permission}` was asked for and refused ({what}); --yes allows all that is asked for"
            ));
        }
        Ok(!self.yes)
    }
}
