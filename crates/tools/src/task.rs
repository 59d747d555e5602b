//! The `task` tool: has another agent do a piece of work in a session of its own.
//!
//! Only the last message comes back, so a long search costs this conversation a few lines. Several calls in one answer
//! work side by side.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::host;
use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// What the model is told, before the agents that there are.
const DESCRIPTION: &str = "Gives a piece of work to another agent, which does it in a session of its own and answers \
with one message. That agent sees nothing of this conversation: the prompt must say everything it needs to know, what \
is to be done, whether files may be changed, and what exactly to answer. Use it for work that stands alone, such as a \
broad search, and make several calls in one answer to have independent work done side by side. For a file that you can \
name or a text that one search finds, use the other tools yourself. The person does not see the answer: tell them what \
matters of it. To go on with the same agent where it stopped, pass the `task_id` of its answer.";

/// The tool that gives work to other agents.
#[derive(Debug, Clone)]
pub struct TaskTool {
    description: String,
}

impl Default for TaskTool {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl TaskTool {
    /// The tool for these agents, each with what it is for.
    #[must_use]
    pub fn new(agents: &[(String, String)]) -> Self {
        let mut description = DESCRIPTION.to_owned();
        if !agents.is_empty() {
            description.push_str("\n\nThe agents (`subagent_type`):");
        }
        for (name, purpose) in agents {
            description.push_str(&format!("\n- {name}: {purpose}"));
        }
        Self { description }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskInput {
    /// The work in three to five words, for the person
    description: String,
    /// Everything that the agent is told
    prompt: String,
    /// Which agent
    subagent_type: String,
    /// The id of an earlier task of this session, to go on with it
    task_id: Option<String>,
}

impl Tool for TaskTool {
    fn name(&self) -> &'static str {
        "task"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        schema::<TaskInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input = check(decode(self.name(), input.clone())?)?;
        let mut metadata = Map::new();
        metadata.insert("description".to_owned(), json!(input.description));
        metadata.insert("subagent_type".to_owned(), json!(input.subagent_type));
        Ok(vec![Need {
            permission: self.name().to_owned(),
            patterns: vec![input.subagent_type],
            always: vec!["*".to_owned()],
            metadata,
        }])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input = check(decode(self.name(), input)?)?;
            let task = host::DelegatedTask {
                description: input.description.clone(),
                prompt: input.prompt,
                agent: input.subagent_type,
                resume: input.task_id.filter(|id| !id.is_empty()),
            };
            let started = |delegate: &host::Delegate| context.report(delegate.metadata());
            let report = context.host.delegate(task, &started).await?;
            show(input.description, &report)
        })
    }
}

fn check(input: TaskInput) -> Result<TaskInput, Failure> {
    for (name, text) in [("description", &input.description), ("prompt", &input.prompt)] {
        if text.trim().is_empty() {
            return Err(Failure::InvalidInput(format!("The {name} is empty.")));
        }
    }
    Ok(input)
}

fn show(title: String, report: &host::TaskReport) -> Result<Output, Failure> {
    let host::TaskReport { delegate, failed, text } = report;
    let id = &delegate.session;
    if *failed {
        return Err(Failure::Failed(format!(
            "<task id=\"{id}\" state=\"error\">\n<task_error>\n{text}\n</task_error>\n</task>"
        )));
    }
    let mut metadata = delegate.metadata();
    metadata.insert("truncated".to_owned(), json!(false));
    Ok(Output {
        title,
        output: format!(
            "<task id=\"{id}\" state=\"completed\">\n<task_result>\n{text}\n</task_result>\n</task>"
        ),
        metadata,
        ..Output::default()
    })
}
