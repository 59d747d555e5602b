//! What a tool may ask of the session that called it.
//!
//! The crate knows nothing of sessions. The few tools that act on one (the task list, questions, subagents, plan
//! mode, skills) do so through this trait, which the engine implements for each call; [`NoHost`] stands in where
//! there is no session.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tool::{BoxFuture, Failure};

/// The session of a call.
pub trait Host: Send + Sync + fmt::Debug {
    /// The task list.
    fn todos(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, Failure>>;

    /// Replaces the task list.
    fn set_todos(&self, todos: Vec<TodoItem>) -> BoxFuture<'_, Result<(), Failure>>;

    /// Asks the person and waits; the answer holds the chosen labels of each question. [`Failure::Declined`] when
    /// the person does not want to answer.
    fn ask(&self, questions: Vec<AskedQuestion>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>>;

    /// Has another agent do a task in a session of its own, and waits for its last message.
    ///
    /// `started` is called as soon as that session is there, so that clients can show it while it runs.
    fn delegate<'a>(
        &'a self,
        task: DelegatedTask,
        started: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<TaskReport, Failure>>;

    /// The agents that a task may be given to, with what each is for.
    fn delegates(&self) -> Vec<(String, String)>;

    /// What tells this session from others.
    fn session(&self) -> String;

    /// Where the plan of this session is written.
    fn plan_file(&self) -> PathBuf;

    /// Has another agent go on from the next turn, with a note to it in the person's place.
    fn hand_over(&self, agent: &str, note: &str) -> BoxFuture<'_, Result<(), Failure>>;

    /// The skill of this name, or a failure that names those there are.
    fn skill(&self, name: &str) -> BoxFuture<'_, Result<LoadedSkill, Failure>>;
}

/// One item of the task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoItem {
    /// What is to be done, in a few words
    pub content: String,
    /// pending, in_progress, completed or cancelled
    pub status: String,
    /// high, medium or low
    pub priority: String,
}

/// One question to the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedQuestion {
    /// The whole question
    pub question: String,
    /// A label of at most 30 characters
    pub header: String,
    /// The answers to choose from
    pub options: Vec<QuestionChoice>,
    /// Whether several answers may be chosen
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// Whether the person may type an answer of their own; they may if nothing is said
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
}

/// One answer to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionChoice {
    /// One to five words
    pub label: String,
    /// What choosing it means
    pub description: String,
}

/// A task for another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedTask {
    /// Three to five words for people.
    pub description: String,
    /// What that agent is told.
    pub prompt: String,
    /// Which agent.
    pub agent: String,
    /// The session of an earlier task to go on with.
    pub resume: Option<String>,
}

/// The session that works on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegate {
    /// Its id.
    pub session: String,
    /// The session that gave the task.
    pub parent: String,
    /// Its model as provider and model, where one was chosen.
    pub model: Option<(String, String)>,
}

impl Delegate {
    /// What clients find the session by.
    #[must_use]
    pub fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("parentSessionId".to_owned(), json!(self.parent));
        metadata.insert("sessionId".to_owned(), json!(self.session));
        if let Some((provider, model)) = &self.model {
            metadata.insert("model".to_owned(), json!({ "modelID": model, "providerID": provider }));
        }
        metadata
    }

    /// The id of the session that [`metadata`](Self::metadata) names, if it is such.
    #[must_use]
    pub fn session_in(metadata: &Map<String, Value>) -> Option<&str> {
        metadata.get("parentSessionId")?;
        metadata.get("sessionId")?.as_str()
    }
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// The session that worked on it.
    pub delegate: Delegate,
    /// Whether it failed.
    pub failed: bool,
    /// Its last message, or why it failed.
    pub text: String,
}

/// A skill with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSkill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its file, as an absolute path.
    pub location: PathBuf,
    /// The text behind the front matter.
    pub content: String,
    /// Files beside it, as absolute paths, a few at most.
    pub files: Vec<PathBuf>,
}

/// Stands in where there is no session: whatever needs one fails and says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

fn none<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, Failure>> {
    Box::pin(async { Err(Failure::Failed("This tool works only in a session.".to_owned())) })
}

impl Host for NoHost {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, Failure>> {
        none()
    }

    fn set_todos(&self, _todos: Vec<TodoItem>) -> BoxFuture<'_, Result<(), Failure>> {
        none()
    }

    fn ask(&self, _questions: Vec<AskedQuestion>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        none()
    }

    fn delegate<'a>(
        &'a self,
        _task: DelegatedTask,
        _started: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<TaskReport, Failure>> {
        none()
    }

    fn delegates(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn session(&self) -> String {
        String::new()
    }

    fn plan_file(&self) -> PathBuf {
        PathBuf::new()
    }

    fn hand_over(&self, _agent: &str, _note: &str) -> BoxFuture<'_, Result<(), Failure>> {
        none()
    }

    fn skill(&self, _name: &str) -> BoxFuture<'_, Result<LoadedSkill, Failure>> {
        none()
    }
}
