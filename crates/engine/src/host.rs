//! The session as its own tools see it: what a call may do to the session that made it.
//!
//! Each call gets a host of its own, so whatever a tool does carries the call's name: a question belongs to the call
//! that asked it, and a restart finds it again.

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::part::PartKind;
use everturn_model::permission::Action;
use everturn_model::request::{Ask, Request};
use everturn_model::{Event, Map, todo};
use everturn_tools::host::{AskedQuestion, Delegate, DelegatedTask, LoadedSkill, TaskReport, TodoItem};
use everturn_tools::{BoxFuture, Failure, Host};
use serde_json::json;

use crate::agents;
use crate::calls::{CallSurroundings, ToolCall};
use crate::delegation::{self, Delegation};
use crate::guidance::Guidance;
use crate::inbox::{PartInput, PromptInbox};
use crate::journal::Journal;
use crate::projects::Projects;
use crate::requests::{RequestAnswer, Requests};
use crate::sessions::Sessions;
use crate::{Error, Prompt};

/// What the model is told when the person does not answer.
const DISMISSED: &str = "The person dismissed the question without an answer.";

/// The services that tools reach.
#[derive(Debug)]
pub(crate) struct HostServices {
    pub(crate) journal: Journal,
    pub(crate) sessions: Sessions,
    pub(crate) inbox: PromptInbox,
    pub(crate) requests: Requests,
    pub(crate) projects: Projects,
    pub(crate) guidance: Guidance,
    pub(crate) delegation: Delegation,
}

/// The session of one call.
#[derive(Debug)]
pub(crate) struct CallHost {
    services: Arc<HostServices>,
    setting: CallSurroundings,
    call: ToolCall,
}

impl CallHost {
    /// The session of a call, as its tool sees it.
    pub(crate) fn new(services: Arc<HostServices>, setting: CallSurroundings, call: ToolCall) -> Self {
        Self { services, setting, call }
    }

    async fn write_todos(&self, todos: Vec<TodoItem>) -> Result<(), Error> {
        let keep = |TodoItem { content, status, priority }| todo::Todo {
            content,
            status,
            priority,
            extra: Map::new(),
        };
        let event = Event::TodoUpdated { todos: todos.into_iter().map(keep).collect() };
        self.services.journal.append_owned(&self.setting.lease, vec![event]).await?;
        Ok(())
    }

    async fn question(&self, questions: Vec<AskedQuestion>) -> Result<RequestAnswer, Error> {
        let (session, cancel) = (&self.setting.session, &self.setting.cancel);
        let questions = json!(questions);
        match &self.call.waiting {
            // An earlier process asked, and may have got the answer already.
            Some(request @ Request { ask: Ask::Question { questions: asked }, .. })
                if *asked == questions =>
            {
                self.services.requests.ask_again(session, request, cancel).await
            }
            _ => {
                let (caller, policy) = (self.call.caller(), &self.setting.policy);
                self.services.requests.ask(session, Ask::Question { questions }, caller, policy, cancel).await
            }
        }
    }

    /// Admits a prompt to another agent in the person's place. Its id follows from the call, so that it is admitted once
    /// however often the call is run.
    async fn switch(&self, agent: String, text: String) -> Result<(), Error> {
        let (_, id) = delegation::ids(&self.call.part)
            .ok_or_else(|| Error::Invalid("the call has no id of the usual form".to_owned()))?;
        let kind = PartKind::Text { text, synthetic: Some(true), ignored: None, time: None, metadata: None };
        let parts = vec![PartInput::new(kind)];
        let prompt = Prompt { id: Some(id), agent: Some(agent), parts, ..Prompt::text("") };
        self.services.inbox.admit(&self.setting.session.id, prompt).await?;
        Ok(())
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("The session could not do it: {error}"))
}

impl Host for CallHost {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, Failure>> {
        Box::pin(async {
            let todos = self.services.sessions.todos(&self.setting.session.id).await.map_err(failed)?;
            let show = |todo: todo::Todo| TodoItem {
                content: todo.content,
                status: todo.status,
                priority: todo.priority,
            };
            Ok(todos.into_iter().map(show).collect())
        })
    }

    fn set_todos(&self, todos: Vec<TodoItem>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { self.write_todos(todos).await.map_err(failed) })
    }

    fn ask(&self, questions: Vec<AskedQuestion>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        Box::pin(async {
            match self.question(questions).await.map_err(failed)? {
                RequestAnswer::Chosen(labels) => Ok(labels),
                RequestAnswer::Rejected(rejection) => Err(match rejection.words(DISMISSED) {
                    None => Failure::Declined(DISMISSED.to_owned()),
                    Some(words) => Failure::Failed(words),
                }),
                // A permission answers no question.
                RequestAnswer::Interrupted | RequestAnswer::Allowed => Err(Failure::Cancelled),
            }
        })
    }

    fn delegate<'a>(
        &'a self,
        task: DelegatedTask,
        started: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<TaskReport, Failure>> {
        Box::pin(async {
            let delegates = self.delegates();
            self.services.delegation.run_task(&self.setting, &self.call, &delegates, task, started).await
        })
    }

    fn delegates(&self) -> Vec<(String, String)> {
        let CallSurroundings { config, policy, .. } = &self.setting;
        let mut delegates = if self.call.by_person {
            agents::chosen_by_people(config.agents().all())
        } else {
            agents::delegates(config.agents().all())
        };
        delegates.retain(|(name, _)| policy.decide(&[], "task", std::slice::from_ref(name)) != Action::Deny);
        delegates
    }

    fn session(&self) -> String {
        self.setting.session.id.to_string()
    }

    fn plan_file(&self) -> PathBuf {
        self.setting.plan.clone()
    }

    fn hand_over(&self, agent: &str, note: &str) -> BoxFuture<'_, Result<(), Failure>> {
        let (agent, note) = (agent.to_owned(), note.to_owned());
        Box::pin(async { self.switch(agent, note).await.map_err(failed) })
    }

    fn skill(&self, name: &str) -> BoxFuture<'_, Result<LoadedSkill, Failure>> {
        let name = name.to_owned();
        Box::pin(async move {
            let location = self
                .services
                .projects
                .location(Some(&self.setting.session.directory))
                .await
                .map_err(failed)?;
            self.services.guidance.skill(&location, &name).await
        })
    }
}
