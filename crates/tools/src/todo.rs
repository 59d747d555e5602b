//! The task list: `todowrite` replaces it, `todoread` shows it.
//!
//! The list is the session's, not the tool's: it is kept where the conversation is, and clients show it beside it.
//! Both give the list back as JSON, so that the model reads what it wrote.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::host::TodoItem;
use crate::input::{NoArguments, decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The words for how far a task is.
const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];

/// The words for how much a task matters.
const PRIORITIES: [&str; 3] = ["high", "medium", "low"];

/// The tool that replaces the task list.
#[derive(Debug, Clone, Copy)]
pub struct TodoWriteTool;

/// The tool that shows the task list.
#[derive(Debug, Clone, Copy)]
pub struct TodoReadTool;

#[derive(Debug, Deserialize, JsonSchema)]
struct TodoInput {
    /// The whole list as it is to be from now on
    todos: Vec<TodoItem>,
}

impl Tool for TodoWriteTool {
    fn name(&self) -> &'static str {
        "todowrite"
    }

    fn description(&self) -> &'static str {
        "Replaces the task list of this session, which the person sees while you work. Use it for work of three or \
         more steps, or when the person gives several tasks: send every item each time, have exactly one \
         `in_progress`, and mark an item `completed` as soon as it is done, not later in a batch. A single simple \
         step needs no list."
    }

    fn schema(&self) -> Value {
        schema::<TodoInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        check(decode(self.name(), input.clone())?)?;
        Ok(vec![anything(self.name())])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let todos = check(decode(self.name(), input)?)?;
            context.host.set_todos(todos.clone()).await?;
            show(&todos)
        })
    }
}

impl Tool for TodoReadTool {
    fn name(&self) -> &'static str {
        "todoread"
    }

    fn description(&self) -> &'static str {
        "Shows the task list of this session: what is done, what is under way and what is left."
    }

    fn schema(&self) -> Value {
        schema::<NoArguments>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, _input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(vec![anything(self.name())])
    }

    fn run(&self, _input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move { show(&context.host.todos().await?) })
    }
}

/// The need of a tool that touches nothing that rules could distinguish.
pub(crate) fn anything(permission: &str) -> Need {
    Need {
        permission: permission.to_owned(),
        patterns: vec!["*".to_owned()],
        always: vec!["*".to_owned()],
        metadata: Map::new(),
    }
}

/// The list, if its words are among those that clients know.
fn check(input: TodoInput) -> Result<Vec<TodoItem>, Failure> {
    for (number, todo) in (1..).zip(&input.todos) {
        let complain = |text: String| Err(Failure::InvalidInput(format!("Item {number} of `todos`: {text}")));
        if todo.content.trim().is_empty() {
            return complain("its content is empty; say what is to be done.".to_owned());
        }
        for (field, word, known) in
            [("status", &todo.status, &STATUSES[..]), ("priority", &todo.priority, &PRIORITIES[..])]
        {
            if !known.contains(&word.as_str()) {
                return complain(format!("the {field} '{word}' is none of {}.", known.join(", ")));
            }
        }
    }
    Ok(input.todos)
}

fn show(todos: &[TodoItem]) -> Result<Output, Failure> {
    let left = todos.iter().filter(|todo| todo.status != "completed").count();
    let output = serde_json::to_string_pretty(todos)
        .map_err(|error| Failure::Failed(format!("The list could not be shown: {error}")))?;
    let mut metadata = Map::new();
    metadata.insert("todos".to_owned(), json!(todos));
    metadata.insert("truncated".to_owned(), json!(false));
    Ok(Output { title: format!("{left} todos"), output, metadata, ..Output::default() })
}
