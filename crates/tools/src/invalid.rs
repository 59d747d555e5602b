//! The answer to a call that cannot be run.
//!
//! A model that names an unknown tool or sends arguments that are not JSON still needs an answer to its call,
//! or the next request is malformed. The engine redirects such a call here; the answer is text to learn from.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The tool that answers calls nobody can run.
#[derive(Debug, Clone, Copy)]
pub struct InvalidTool;

/// The input for a call that cannot be run, with the reason in words for the model.
#[must_use]
pub fn input(tool: &str, error: &str) -> Value {
    json!({ "tool": tool, "error": error })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct InvalidInput {
    tool: String,
    error: String,
}

impl Tool for InvalidTool {
    fn name(&self) -> &'static str {
        "invalid"
    }

    fn description(&self) -> &'static str {
        "Answers calls that cannot be run. Do not call it."
    }

    fn schema(&self) -> Value {
        schema::<InvalidInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn advertised(&self) -> bool {
        false
    }

    fn needs(&self, _input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }

    fn run(&self, input: Value, _context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: InvalidInput = decode(self.name(), input)?;
            let mut metadata = Map::new();
            metadata.insert("truncated".to_owned(), Value::Bool(false));
            Ok(Output {
                title: "Invalid Tool".to_owned(),
                output: format!("The call to '{}' was not run: {}", input.tool, input.error),
                metadata,
                ..Output::default()
            })
        })
    }
}
