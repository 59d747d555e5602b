//! What the text of a command runs: as the agent that gets it would run it.

use std::sync::Arc;

use everturn_model::permission::{Action, Policy};
use everturn_model::request::{Ask, Request};
use everturn_tools::bash::BashTool;
use everturn_tools::{Context, Need, Scope, Tool as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{SlashCommandPlace, SlashCommands};
use crate::Error;
use crate::background::blocking;
use crate::calls::{decide_need, denial_words};
use crate::requests::RequestAnswer;

/// The mark of a request in its metadata, by which it is known that no call waits for it.
const MARK: &str = "slashCommand";

impl SlashCommands {
    /// Runs a command of a text and gives what it prints. It asks as the tool `bash` does, and is refused where that is.
    pub(super) async fn print(&self, place: &SlashCommandPlace, command: &str) -> Result<String, Error> {
        let SlashCommandPlace { session, location, config, agent } = place;
        let policy = config.agents().policy_of(agent, session);
        if !self.confinement.ready(self.lifecycle.closing()).await {
            return Err(refused(command, "the server ends"));
        }
        let sandbox = self.confinement.of_commands(config, &policy, &session.id);
        let scope = Arc::new(self.confinement.scope(&location.directory, &location.worktree, sandbox));
        let tool = BashTool { limits: config.tool_output, ..self.tool.clone() };
        let input = json!({"command": command, "description": "for a slash command"});
        let looking = (tool.clone(), input.clone(), Arc::clone(&scope));
        let needs = blocking(move || looking.0.needs(&looking.1, &looking.2)).await?;
        let needs = needs.map_err(|failure| refused(command, &failure.to_string()))?;
        let cancel = CancellationToken::new();
        self.permit(place, &policy, &scope, command, &needs, &cancel).await?;
        let (context, _reports) = Context::new(scope);
        let context = Context { cancel: cancel.clone(), granted: needs.into(), ..context };
        let running = tool.run(input, context);
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = self.lifecycle.closing() => {
                cancel.cancel();
                running.await
            }
        };
        Ok(ended.map_err(|failure| refused(command, &failure.to_string()))?.output)
    }

    async fn permit(
        &self,
        place: &SlashCommandPlace,
        policy: &Policy,
        scope: &Scope,
        command: &str,
        needs: &[Need],
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        // Nobody is asked about a command that another of its needs forbids.
        if let Some(need) = needs.iter().find(|need| decide_need(scope, policy, &[], need) == Action::Deny) {
            return Err(refused(command, &denial_words(need)));
        }
        for need in needs {
            let saved = self.requests.approvals(&place.session, &scope.worktree).await?;
            match decide_need(scope, policy, &saved, need) {
                Action::Allow => {}
                Action::Deny => return Err(refused(command, &denial_words(need))),
                Action::Ask => {
                    let Need { permission, patterns, always, mut metadata } = need.clone();
                    metadata.insert(MARK.to_owned(), true.into());
                    let ask = Ask::Permission { permission, patterns, always, metadata };
                    match self.requests.ask_between_turns(&place.session, ask, cancel).await? {
                        RequestAnswer::Allowed => {}
                        RequestAnswer::Rejected(_) => return Err(refused(command, "it was not permitted")),
                        RequestAnswer::Interrupted | RequestAnswer::Chosen(_) => {
                            return Err(refused(command, "nobody has permitted it"));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn refused(command: &str, reason: &str) -> Error {
    Error::Invalid(format!("the text of the slash command runs `{command}`: {reason}"))
}

/// Whether a request is of a slash command: whoever waited for its answer is gone with the process that asked.
#[must_use]
pub fn is_of_command(request: &Request) -> bool {
    let Ask::Permission { metadata, .. } = &request.ask else { return false };
    request.call.is_none() && metadata.contains_key(MARK)
}
