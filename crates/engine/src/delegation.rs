//! Tasks that one session gives to another: a child session of its own, one prompt, and the last message back.
//!
//! Child and prompt have ids that follow from the call's part, so a call that runs again after a crash finds what it
//! had begun instead of beginning twice. The child is a session like any other: it recovers by itself, and the call
//! that waits for it is settled with its outcome.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_model::entry::Body;
use everturn_model::event::SessionChange;
use everturn_model::finish::Finish;
use everturn_model::ids::{Stamp, other};
use everturn_model::part::PartKind;
use everturn_model::permission::{self, Action, Policy, Rule};
use everturn_model::session::ModelRef;
use everturn_model::tool::ToolState;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Part, PartId, Session, SessionId, Tree, path};
use everturn_store::Store;
use everturn_tools::Failure;
use everturn_tools::host::{Delegate, DelegatedTask, TaskReport};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::agents::NOT_FOR_SUBAGENTS;
use crate::bus::SessionUpdate;
use crate::calls::{CallSurroundings, ToolCall};
use crate::drains::Drains;
use crate::host::failed;
use crate::inbox::PromptInbox;
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::projects::Projects;
use crate::requests::Requests;
use crate::sessions::{NewSession, Sessions};
use crate::{Error, Prompt};

/// The services that delegation works with.
#[derive(Debug)]
pub(crate) struct DelegationServices {
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    pub(crate) sessions: Sessions,
    pub(crate) projects: Projects,
    pub(crate) inbox: PromptInbox,
    pub(crate) requests: Requests,
    pub(crate) drains: Drains,
    pub(crate) lifecycle: Lifecycle,
}

/// Gives tasks to child sessions.
#[derive(Debug)]
pub(crate) struct Delegation {
    services: DelegationServices,
    claims: ChildClaims,
    /// How long a child may show no progress.
    patience: Duration,
}

impl Delegation {
    /// Delegation that gives a child up when it shows no progress for as long as `patience`.
    pub(crate) fn new(services: DelegationServices, patience: Duration) -> Self {
        Self { services, claims: ChildClaims::default(), patience }
    }

    /// Gives a task of a call to a child session and waits until it has come to an end. `delegates` are the agents that
    /// it may be given to.
    pub(crate) async fn run_task(
        &self,
        setting: &CallSurroundings,
        call: &ToolCall,
        delegates: &[(String, String)],
        task: DelegatedTask,
        started: &(dyn Fn(&Delegate) + Send + Sync),
    ) -> Result<TaskReport, Failure> {
        let Self { services, claims, patience } = self;
        TaskHandover { services, claims, patience: *patience, setting, call }
            .run_task(delegates, task, started)
            .await
    }
}

/// One task of one call.
struct TaskHandover<'a> {
    services: &'a DelegationServices,
    claims: &'a ChildClaims,
    patience: Duration,
    setting: &'a CallSurroundings,
    call: &'a ToolCall,
}

impl TaskHandover<'_> {
    async fn run_task(
        &self,
        delegates: &[(String, String)],
        task: DelegatedTask,
        started: &(dyn Fn(&Delegate) + Send + Sync),
    ) -> Result<TaskReport, Failure> {
        let parent = &self.setting.session;
        if parent.parent.is_some() {
            let text = "This session works on a task itself and cannot give work on. Do it yourself.";
            return Err(Failure::Failed(text.to_owned()));
        }
        check_agent(&task.agent, delegates)?;
        let (fresh, prompt) =
            ids(&self.call.part).ok_or_else(|| failed("the call has no id of the usual form"))?;
        let child = match &task.resume {
            Some(id) => self.resumed(&SessionId::from(id.as_str())).await?,
            None => self.child(fresh, &task).await.map_err(failed)?,
        };
        let Some(_claim) = self.claims.take(&child.id) else { return Err(at_work(&child.id)) };
        if task.resume.is_some() {
            self.bind(&child).await.map_err(failed)?;
        }
        let model = self.model().await.map_err(failed)?;
        let delegate = Delegate {
            session: child.id.to_string(),
            parent: parent.id.to_string(),
            model: model.clone().map(|model| (model.provider, model.model)),
        };
        self.announce(&delegate).await.map_err(failed)?;
        started(&delegate);
        let admitted =
            Prompt { id: Some(prompt.clone()), agent: Some(task.agent), model, ..Prompt::text(&task.prompt) };
        self.services.inbox.admit(&child.id, admitted).await.map_err(failed)?;
        self.wait(&child.id).await?;
        let tree = self.services.journal.tree(&child.id).await.map_err(failed)?;
        let (failed, text) = match outcome(&tree, &prompt) {
            Ok(text) => (false, text),
            Err(text) => (true, text),
        };
        Ok(TaskReport { delegate, failed, text })
    }

    /// An earlier child of this session, if it rests.
    async fn resumed(&self, id: &SessionId) -> Result<Session, Failure> {
        let parent = &self.setting.session.id;
        let found = match self.services.journal.session(id).await {
            Ok(session) => Some(session).filter(|session| session.parent.as_ref() == Some(parent)),
            Err(Error::NoSession(_)) => None,
            Err(error) => return Err(failed(error)),
        };
        // Other people's sessions are none of the model's business, not even whether they are there.
        let child = found.ok_or_else(|| {
            Failure::Failed(format!(
                "This session has given no task with the id '{id}'. Leave `task_id` out to begin a new one."
            ))
        })?;
        // After a restart the work may be this call's own.
        if self.services.drains.is_running(id) && !self.call.again {
            return Err(at_work(id));
        }
        Ok(child)
    }

    /// Limits an earlier child to what this session may do now as well: its agent, and what the person lets it do, may
    /// have changed since. Earlier limits stay, since they may be a person's decision about this very child.
    async fn bind(&self, child: &Session) -> Result<(), Error> {
        if child.permission.as_ref() == Some(&self.bounds()) {
            return Ok(());
        }
        // What bounds do not mention they do not bind.
        let earlier = child.permission.iter().flatten().cloned();
        let earlier: Vec<Rule> = [Rule::new("*", "*", Action::Allow)].into_iter().chain(earlier).collect();
        let rules = permission::bounded(&earlier, &self.bounds());
        if child.permission.as_ref() != Some(&rules) {
            let change = SessionChange::Permission { rules: Some(rules) };
            let event = Event::SessionChanged { changes: vec![change] };
            self.services.journal.append(&child.id, vec![event]).await?;
        }
        Ok(())
    }

    /// The child session of this call, made unless an earlier process has made it.
    async fn child(&self, id: SessionId, task: &DelegatedTask) -> Result<Session, Error> {
        let parent = &self.setting.session;
        if let Some(found) = self.services.store.session(&id).await? {
            let ours = found.parent.as_ref() == Some(&parent.id) && found.time.trashed.is_none();
            return if ours { Ok(found) } else { Err(Error::Conflict(id.to_string())) };
        }
        let location = self.services.projects.location(Some(&parent.directory)).await?;
        let new = NewSession {
            id: Some(id),
            parent: Some(parent.id.clone()),
            title: Some(format!("{} (@{} subagent)", task.description, task.agent)),
            agent: Some(task.agent.clone()),
            permission: Some(self.bounds()),
            ..NewSession::default()
        };
        self.services.sessions.create(&location, new).await
    }

    /// What a child may do at most: what this session may do now, without what is not for subagents.
    fn bounds(&self) -> Vec<Rule> {
        let denied = NOT_FOR_SUBAGENTS.map(|name| Rule::new(name, "*", Action::Deny));
        Policy::clone(&self.setting.policy).within(denied).flattened()
    }

    /// The model of the turn that made the call.
    async fn model(&self) -> Result<Option<ModelRef>, Error> {
        let node = self.services.journal.node(&self.setting.session.id, &self.call.entry).await?;
        let spoke = node.and_then(|node| node.entry.body.assistant()?.model.clone());
        Ok(spoke.or_else(|| self.setting.session.model.clone()))
    }

    /// Keeps with the call which session works on it, for clients that come later.
    async fn announce(&self, delegate: &Delegate) -> Result<(), Error> {
        let event = Event::ToolProgress {
            entry: self.call.entry.clone(),
            part: self.call.part.clone(),
            metadata: delegate.metadata(),
        };
        self.services.journal.append_owned(&self.setting.lease, vec![event]).await?;
        Ok(())
    }

    /// Waits until the child rests. Stopping the parent stops the child.
    async fn wait(&self, child: &SessionId) -> Result<(), Failure> {
        let DelegationServices { journal, drains, lifecycle, .. } = self.services;
        let patience = self.patience;
        let mut updates = journal.bus().listen();
        let settled = drains.settled(child);
        let over = tokio::time::sleep(patience);
        tokio::pin!(settled, over);
        loop {
            tokio::select! {
                biased;
                // The process ends: the next one waits again.
                () = lifecycle.closing() => return Err(Failure::Cancelled),
                () = self.setting.cancel.cancelled() => {
                    drains.abort(child).await.map_err(failed)?;
                    return Err(Failure::Cancelled);
                }
                () = &mut settled => return Ok(()),
                update = updates.recv() => {
                    if shows_progress(update, child) {
                        over.as_mut().reset(Instant::now() + patience);
                    }
                }
                () = &mut over => {
                    if self.waits_for_person(child).await {
                        over.as_mut().reset(Instant::now() + patience);
                        continue;
                    }
                    drains.abort(child).await.map_err(failed)?;
                    return Err(Failure::Failed(format!(
                        "The task was stopped: it showed no progress for {} minutes. What it did until then is in \
                         the session {child}; pass that as `task_id` to go on with it.",
                        patience.as_secs() / 60
                    )));
                }
            }
        }
    }

    async fn waits_for_person(&self, session: &SessionId) -> bool {
        let requests = self.services.requests.waiting().await.unwrap_or_default();
        requests.iter().any(|(asking, _)| asking == session)
    }
}

/// Whether an update is of this session; what was missed may have been.
fn shows_progress(update: Result<SessionUpdate, RecvError>, session: &SessionId) -> bool {
    match update {
        Ok(SessionUpdate::Committed(committed)) => committed.record.session == *session,
        Ok(SessionUpdate::Live(live)) => live.session == *session,
        Ok(SessionUpdate::Gap) | Err(_) => true,
    }
}

fn check_agent(name: &str, known: &[(String, String)]) -> Result<(), Failure> {
    if known.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|(name, purpose)| format!("- {name}: {purpose}")).collect();
    let known = if known.is_empty() { "(none)".to_owned() } else { known.join("\n") };
    Err(Failure::Failed(format!(
        "There is no agent named '{name}' that a task can be given to. There are:\n{known}"
    )))
}

fn at_work(id: &SessionId) -> Failure {
    Failure::Failed(format!("The task '{id}' is still at work. Wait for its answer, or begin a new one."))
}

/// The children that calls of this process wait for; clones share them.
#[derive(Debug, Clone, Default)]
struct ChildClaims(Arc<Mutex<HashSet<SessionId>>>);

/// A child that one call has to itself: of two calls that go on with the same one, each would get the other's answer.
#[derive(Debug)]
struct ChildClaim {
    claims: ChildClaims,
    id: SessionId,
}

impl ChildClaims {
    fn take(&self, id: &SessionId) -> Option<ChildClaim> {
        let mut claimed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.insert(id.clone()).then(|| ChildClaim { claims: self.clone(), id: id.clone() })
    }
}

impl Drop for ChildClaim {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The ids of the session that a call makes and of the prompt that it admits, from the call's part.
pub(crate) fn ids(part: &PartId) -> Option<(SessionId, EntryId)> {
    let (_, rest) = part.as_str().split_once('_')?;
    let chance = rest.get(12..)?;
    let session = other("ses", Stamp::of(part.as_str())?.descending(), Default::default());
    let session = format!("{}{chance}", session.get(..16)?);
    Some((SessionId::from(session.as_str()), EntryId::from(format!("msg_{rest}").as_str())))
}

/// The session that works on a task of a call, as the call was told when it began.
pub(crate) fn delegate_of(part: &Part) -> Option<SessionId> {
    let PartKind::Tool { state: ToolState::Running { metadata: Some(metadata), .. }, .. } = &part.kind else {
        return None;
    };
    Delegate::session_in(metadata).map(SessionId::from)
}

/// The sessions that work on tasks of the calls of some entries, as far as those calls have no result.
pub(crate) fn open_tasks(nodes: &[Node]) -> Vec<SessionId> {
    let path: Vec<&Node> = nodes.iter().collect();
    let settled = path::results(&path);
    let open = |node: &Node, part: &Part| {
        part.kind.call().is_some_and(|call| !settled.contains_key(&(&node.entry.id, call)))
    };
    let parts = nodes.iter().flat_map(|node| node.parts.iter().filter(move |part| open(node, part)));
    parts.filter_map(delegate_of).collect()
}

/// The outcome of a child: its last message after the prompt, or why there is none.
fn outcome(tree: &Tree, prompt: &EntryId) -> Result<String, String> {
    let fail = |text: &str| Err(text.to_owned());
    let path = path::to(tree, tree.session.leaf.as_ref());
    let Some(asked) = path.iter().position(|node| &node.entry.id == prompt) else {
        return fail("It has not begun.");
    };
    let answers = path.iter().skip(asked + 1).rev();
    let last = answers.clone().find_map(|node| match &node.entry.body {
        Body::Assistant(assistant) => Some((node, assistant)),
        _ => None,
    });
    let Some((node, assistant)) = last else { return fail("It has not answered.") };
    if let Some(error) = &assistant.error {
        return Err(error.text().to_owned());
    }
    if tree.session.open {
        return fail("It stopped before it was done.");
    }
    if assistant.finish == Some(Finish::ToolCalls) {
        return fail("It stopped because the person did not permit one of its calls.");
    }
    let text = node.parts.iter().rev().find_map(|part| match &part.kind {
        PartKind::Text { text, .. } if !part.hidden && !text.trim().is_empty() => Some(text.clone()),
        _ => None,
    });
    Ok(text.unwrap_or_else(|| "It ended without a message.".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_child_and_one_prompt() {
        let part = PartId::from("prt_1dd26b678001xsgWsFmC5jmwSd");
        let (session, prompt) = ids(&part).unwrap();
        assert_eq!(session.as_str(), "ses_e22d94987ffexsgWsFmC5jmwSd");
        assert_eq!(prompt.as_str(), "msg_1dd26b678001xsgWsFmC5jmwSd");
        assert!(SessionId::is_well_formed(session.as_str()) && EntryId::is_well_formed(prompt.as_str()));
        assert_eq!(ids(&PartId::from("prt_x")), None);
    }
}
