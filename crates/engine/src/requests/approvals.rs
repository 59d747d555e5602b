//! Approvals: what people approve for good, which calls that releases, and by which rules a call goes on that has waited.

use std::path::{Path, PathBuf};

use everturn_model::permission::{Action, Policy, Rule};
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{EntryId, Session, SessionId};
use everturn_tools::project::repository;
use futures_util::future::join_all;

use super::{Requests, ignore_gone, permission_answer};
use crate::Error;
use crate::background::blocking;
use crate::confinement::decide_within;

impl Requests {
    /// What people have approved for good where a session works: in that folder, not in every clone of the project.
    pub(crate) async fn approvals(&self, session: &Session, worktree: &Path) -> Result<Vec<Rule>, Error> {
        Ok(self.store.approvals(&session.project, &worktree.to_string_lossy()).await?)
    }

    /// Keeps what a person approves in the folder where a session works.
    pub(super) async fn approve(&self, session: &Session, rules: Vec<Rule>) -> Result<(), Error> {
        let (folder, now) = (worktree(&session.directory).await?, self.journal.mint().now());
        Ok(self.store.approve(&session.project, &folder.to_string_lossy(), rules, now).await?)
    }

    /// Answers what a new approval allows now.
    pub(super) async fn release(&self, approved_in: &Session) -> Result<(), Error> {
        let folder = worktree(&approved_in.directory).await?;
        let saved = self.approvals(approved_in, &folder).await?;
        let mut allowed = Vec::new();
        for (id, request) in self.waiting().await? {
            let Ask::Permission { permission, patterns, .. } = &request.ask else { continue };
            // No rule decides about trust in a project, or about what it costs.
            if request.call.is_none() {
                continue;
            }
            let session = match self.journal.session(&id).await {
                Err(Error::NoSession(_)) => continue,
                session => session?,
            };
            if session.project != approved_in.project || worktree(&session.directory).await? != folder {
                continue;
            }
            let now = self.policy_now(&session, &request).await?;
            let turns = kept_policy(&request, &now);
            if decide_within(&turns, &saved, permission, patterns) == Action::Allow {
                allowed.push((id, request));
            }
        }
        self.settle_all(&allowed, Reply::Always).await
    }

    /// Answers requests for permission, all at once, so that the store can commit the answers together.
    async fn settle_all(&self, waiting: &[(SessionId, Request)], reply: Reply) -> Result<(), Error> {
        let settled = waiting.iter().map(|(session, request)| {
            self.settle(session, &request.id, permission_answer(request, reply, None))
        });
        join_all(settled).await.into_iter().try_for_each(ignore_gone)
    }

    /// What the agent of the turn that asked may do by now, whatever the session has been switched to since.
    async fn policy_now(&self, session: &Session, request: &Request) -> Result<Policy, Error> {
        match &request.call {
            Some(call) => self.policy_of_turn(session, &call.entry).await,
            None => Ok(self.configurations.at(Path::new(&session.directory)).await.agents().policy(session)),
        }
    }

    async fn policy_of_turn(&self, session: &Session, turn: &EntryId) -> Result<Policy, Error> {
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let node = self.store.node(&session.id, turn).await?;
        let agent = node.and_then(|node| node.entry.body.assistant()?.agent.clone());
        let agents = config.agents();
        Ok(agent.map_or_else(|| agents.policy(session), |name| agents.policy_of(&name, session)))
    }

    /// What a call may still do that has waited for a person: what its turn might do, without what was forbidden meanwhile.
    pub(crate) async fn policy_after(
        &self,
        id: &SessionId,
        turn: &EntryId,
        kept: &Policy,
    ) -> Result<Policy, Error> {
        let session = self.journal.session(id).await?;
        let now = self.policy_of_turn(&session, turn).await?;
        Ok(kept.clone().without_denied_by(&now))
    }
}

/// What the turn may do that asked. What has been forbidden since then is forbidden; nothing else has changed for it.
pub(crate) fn kept_policy(request: &Request, now: &Policy) -> Policy {
    let kept = request.policy.as_deref().unwrap_or(now);
    kept.clone().without_denied_by(now)
}

/// The folder that approvals hold in: the root of the repository, or else the folder itself.
async fn worktree(directory: &str) -> Result<PathBuf, Error> {
    let directory = PathBuf::from(directory);
    blocking(move || repository(&directory).map_or(directory, |found| found.root)).await
}
