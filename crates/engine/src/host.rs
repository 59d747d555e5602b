//! The session as its own tools see it: what a call may do to the session that made it.
//!
//! Each call gets a host of its own, so whatever a tool does carries the call's name: a question belongs to the call
//! that asked it, and a restart finds it again.

use std::path::PathBuf;

use everturn_model::part::PartKind;
use everturn_model::permission::{self, Action};
use everturn_model::request::{Ask, Request};
use everturn_model::{Event, Map, todo};
use everturn_store::Authority;
use everturn_tools::host::{Delegate, Question, Report, Skill, Task, Todo};
use everturn_tools::{BoxFuture, Failure, Host};
use serde_json::json;

use crate::asks::Answer;
use crate::calls::{Call, Place};
use crate::inbox::PartInput;
use crate::{Engine, Error, Prompt, agent, delegation};

/// What the model is told when the person does not answer.
const DISMISSED: &str = "The person dismissed the question without an answer.";

/// The session of one call.
#[derive(Debug)]
pub(crate) struct CallHost {
    pub(crate) engine: Engine,
    pub(crate) place: Place,
    pub(crate) call: Call,
}

impl CallHost {
    async fn write_todos(&self, todos: Vec<Todo>) -> Result<(), Error> {
        let keep =
            |Todo { content, status, priority }| todo::Todo { content, status, priority, extra: Map::new() };
        let event = Event::TodoUpdated { todos: todos.into_iter().map(keep).collect() };
        let authority = Authority::Owned(self.place.lease.clone());
        self.engine.append(&self.place.session.id, authority, vec![event]).await?;
        Ok(())
    }

    async fn question(&self, questions: Vec<Question>) -> Result<Answer, Error> {
        let (session, cancel) = (&self.place.session, &self.place.cancel);
        let questions = json!(questions);
        match &self.call.waiting {
            // An earlier process asked, and may have got the answer already.
            Some(request @ Request { ask: Ask::Question { questions: asked }, .. })
                if *asked == questions =>
            {
                self.engine.ask_again(session, request, cancel).await
            }
            _ => {
                let caller = self.call.caller();
                self.engine.ask(session, Ask::Question { questions }, caller, cancel).await
            }
        }
    }

    /// Admits a prompt to another agent in the person's place. Its id follows from the call, so that it is admitted once
    /// however often the call is run.
    async fn switch(&self, agent: String, text: String) -> Result<(), Error> {
        let (_, id) = delegation::ids(&self.call.part)
            .ok_or_else(|| Error::Invalid("the call has no id of the usual form".to_owned()))?;
        let kind = PartKind::Text { text, synthetic: Some(true), ignored: None, time: None, metadata: None };
        let parts = vec![PartInput { id: None, kind }];
        let prompt = Prompt { id: Some(id), agent: Some(agent), parts, ..Prompt::text("") };
        self.engine.prompt(&self.place.session.id, prompt).await?;
        Ok(())
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("The session could not do it: {error}"))
}

impl Host for CallHost {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<Todo>, Failure>> {
        Box::pin(async {
            let todos = self.engine.todos(&self.place.session.id).await.map_err(failed)?;
            let show = |todo: todo::Todo| Todo {
                content: todo.content,
                status: todo.status,
                priority: todo.priority,
            };
            Ok(todos.into_iter().map(show).collect())
        })
    }

    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { self.write_todos(todos).await.map_err(failed) })
    }

    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        Box::pin(async {
            match self.question(questions).await.map_err(failed)? {
                Answer::Chosen(labels) => Ok(labels),
                Answer::Rejected(None) => Err(Failure::Declined(DISMISSED.to_owned())),
                Answer::Rejected(Some(message)) => {
                    Err(Failure::Failed(format!("{DISMISSED} They said: {message}")))
                }
                // A permission answers no question.
                Answer::Interrupted | Answer::Allowed => Err(Failure::Cancelled),
            }
        })
    }

    fn delegate<'a>(
        &'a self,
        task: Task,
        started: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(self.hand_out(task, started))
    }

    fn delegates(&self) -> Vec<(String, String)> {
        let mut delegates = agent::delegates(self.engine.agents());
        let rules = &self.place.rules;
        delegates.retain(|(name, _)| {
            permission::decide(rules, &[], "task", std::slice::from_ref(name)) != Action::Deny
        });
        delegates
    }

    fn plan_file(&self) -> PathBuf {
        let Place { session, scope, .. } = &self.place;
        agent::plan_file(session, &scope.worktree, &self.engine.paths().data)
    }

    fn hand_over(&self, agent: &str, note: &str) -> BoxFuture<'_, Result<(), Failure>> {
        let (agent, note) = (agent.to_owned(), note.to_owned());
        Box::pin(async { self.switch(agent, note).await.map_err(failed) })
    }

    fn skill(&self, name: &str) -> BoxFuture<'_, Result<Skill, Failure>> {
        let name = name.to_owned();
        Box::pin(async move {
            let location = self.engine.location(Some(&self.place.session.directory)).await.map_err(failed)?;
            self.engine.skill_of(&location, &name).await
        })
    }
}
