//! Answers in a shape that the prompt asks for: the model gives them as the input of a tool that is made of the shape.
//!
//! What does not fit the shape comes back to the model as the result of its call, with what is wrong, as often as the
//! prompt allows. The call is in the log like any other, so a restart finds what was given.

mod fit;

use std::sync::Arc;

use everturn_model::entry::{AnswerShape, Body};
use everturn_model::part::PartKind;
use everturn_model::tool::Outcome;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Fault, FaultKind, Tree, path};
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Registry, Scope, Tool};
use serde_json::{Map, Value};

use crate::Error;

/// The name of the tool, as OpenCode's clients know it.
pub(crate) const TOOL: &str = "StructuredOutput";

/// What is said of it after everything else of the instructions.
pub(crate) const NOTE: &str = "The answer to this prompt is read by a program. When you are done, give it by calling \
`StructuredOutput` once, with the answer as its input. Nothing else that you say is read.";

/// The largest shape, in bytes of its JSON.
pub(crate) const SHAPE_LIMIT: usize = 256 * 1024;

/// The tool by which the answer is given.
#[derive(Debug)]
pub(crate) struct AnswerTool {
    schema: Value,
}

impl AnswerTool {
    /// A tool that takes answers of this shape.
    pub(crate) fn of(shape: &AnswerShape) -> Arc<dyn Tool> {
        Arc::new(Self { schema: shape.schema.clone() })
    }
}

impl Tool for AnswerTool {
    fn name(&self) -> &str {
        TOOL
    }

    fn description(&self) -> &str {
        "Gives the answer in the shape that was asked for. Call it once, when everything else is done: its input is the \
         answer, and nothing is said after it."
    }

    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        let fault = fit::fault(&self.schema, input);
        fault.map_or(Ok(Vec::new()), |fault| {
            Err(Failure::InvalidInput(format!(
                "The answer has not the shape that was asked for: {fault}. Call `{TOOL}` again with all of it."
            )))
        })
    }

    fn run(&self, _input: Value, _context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        let (title, output) = ("Structured Output".to_owned(), "The answer was taken.".to_owned());
        let output = Output {
            title,
            output,
            metadata: Map::from_iter([("valid".to_owned(), Value::Bool(true))]),
            shaped: false,
            attachments: Vec::new(),
            edited: Vec::new(),
            output_path: None,
        };
        Box::pin(async { Ok(output) })
    }
}

/// Ensures that a model can be asked for a shape.
///
/// # Errors
/// When it is too large, or is none of an object, which is what tools take.
pub(crate) fn check(shape: &AnswerShape) -> Result<(), Error> {
    if shape.schema.to_string().len() > SHAPE_LIMIT {
        return Err(Error::Invalid(format!("format.schema is longer than {} KiB", SHAPE_LIMIT / 1024)));
    }
    match shape.schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => Err(Error::Invalid("format.schema must be a schema of type object".to_owned())),
    }
}

/// The shape that the newest prompt of a path asks for.
pub(crate) fn wanted<'n>(path: &[&'n Node]) -> Option<&'n AnswerShape> {
    path.iter().rev().find_map(|node| match &node.entry.body {
        Body::User(user) if !node.entry.hidden => Some(user.format.as_ref()),
        _ => None,
    })?
}

/// The tools with the one by which the answer is given, where the newest prompt asks for one.
pub(crate) fn over(tools: Registry, tree: &Tree) -> Registry {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let Some(shape) = wanted(&path) else { return tools };
    let layer = tools.layer();
    // Its name is one that every provider takes.
    if let Ok(registration) = layer.register(AnswerTool::of(shape)) {
        registration.keep();
    }
    layer
}

/// What came of the calls by which an answer was to be given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ShapedAnswer {
    /// The answer.
    Given(Value),
    /// None that fits, after so many tries for this prompt.
    Tried(u64),
}

/// The answer in a step, or how often one was tried since the newest prompt.
pub(crate) fn answer(tree: &Tree, step: &EntryId) -> ShapedAnswer {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let results = path::results(&path);
    let since = path.iter().rev().take_while(|node| !matches!(node.entry.body, Body::User(_)));
    let mut tries = 0;
    for node in since {
        for part in &node.parts {
            let PartKind::Tool { call, tool, state, hosted: false, .. } = &part.kind else { continue };
            let Some(result) = results.get(&(&node.entry.id, call.as_str())).filter(|_| tool == TOOL) else {
                continue;
            };
            match result.outcome {
                Outcome::Completed if node.entry.id == *step => {
                    return ShapedAnswer::Given(state.input().clone());
                }
                Outcome::Completed => {}
                Outcome::Error | Outcome::Unknown => tries += 1,
            }
        }
    }
    ShapedAnswer::Tried(tries)
}

/// Why a prompt that asked for a shape has no answer.
pub(crate) fn fault(tries: u64) -> Fault {
    let words = match tries {
        0 => "The model answered without giving the structured output that was asked for.",
        _ => "The model gave no structured output of the shape that was asked for.",
    };
    Fault::new(FaultKind::StructuredOutput { retries: Some(tries.saturating_sub(1)) }, words)
}
