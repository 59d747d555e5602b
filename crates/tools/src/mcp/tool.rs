//! A server's tool as one of ours.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::content::open_schema;
use super::server::McpServer;
use super::{CallProgress, McpError, ToolInfo, readable};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The most bytes of a description that the model is told.
const DESCRIPTION_MAX: usize = 8 * 1024;

/// The largest schema that the model is told, in bytes.
const SCHEMA_MAX: usize = 64 * 1024;

/// A tool of a server.
#[derive(Debug)]
pub(super) struct McpTool {
    name: String,
    /// The server's name for it.
    theirs: String,
    title: String,
    description: String,
    schema: Value,
    server: Arc<McpServer>,
}

impl McpTool {
    /// The tool under the name that it has here.
    pub(super) fn new(name: String, info: &ToolInfo, server: Arc<McpServer>) -> Self {
        let written = info.description.as_deref().or(info.title.as_deref()).unwrap_or_default();
        let mut description = readable(written, DESCRIPTION_MAX);
        if description.trim().is_empty() {
            description =
                format!("The tool '{}' of the MCP server '{}'.", readable(&info.name, 256), server.name());
        }
        let raw = info.input_schema.as_ref().map(|raw| raw.get()).unwrap_or_default();
        let schema = if raw.len() > SCHEMA_MAX {
            description.push_str("\n\n(What it takes is too long to be listed.)");
            open_schema()
        } else {
            object(serde_json::from_str(raw).unwrap_or_default())
        };
        let title = readable(info.title.as_deref().unwrap_or(&info.name), 256);
        Self { name, theirs: info.name.clone(), title, description, schema, server }
    }

    async fn execute(&self, input: Value, context: Context) -> Result<Output, Failure> {
        let arguments = match input {
            Value::Object(_) => input,
            Value::Null => json!({}),
            _ => {
                return Err(Failure::InvalidInput(format!(
                    "The arguments of '{}' must be an object.",
                    self.name
                )));
            }
        };
        if context.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let report = |progress: &CallProgress| context.report(shown(progress));
        match self.server.call(&self.theirs, &arguments, &context.cancel, report).await {
            Ok(answered) => answered.output(self.title.clone()),
            Err(fault) => Err(Failure::Failed(self.explain(&fault))),
        }
    }

    /// A fault in words for the model.
    fn explain(&self, fault: &McpError) -> String {
        let server = self.server.name();
        match fault {
            McpError::Refused { message, .. } => {
                format!("The MCP server '{server}' refused the call: {message}")
            }
            McpError::Cancelled => format!(
                "The call was cancelled and the MCP server '{server}' was told so. What it had done by then is not known."
            ),
            McpError::TimedOut(_) => format!(
                "The MCP server '{server}' was told to stop because {fault}. What it had done by then is not known."
            ),
            McpError::Closed(_)
            | McpError::SessionLost
            | McpError::NeedsAuth(_)
            | McpError::Malformed(_)
            | McpError::Configuration(_) => format!(
                "The call to the MCP server '{server}' failed: {fault}. Do without it, or say what is needed of it."
            ),
        }
    }
}

/// A schema with an object at its top, which is what providers take.
fn object(schema: Value) -> Value {
    match schema {
        Value::Object(mut schema) => {
            schema.insert("type".to_owned(), json!("object"));
            if !schema.get("properties").is_some_and(Value::is_object) {
                schema.insert("properties".to_owned(), json!({}));
            }
            Value::Object(schema)
        }
        _ => open_schema(),
    }
}

fn shown(progress: &CallProgress) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("progress".to_owned(), json!(progress.progress));
    if let Some(total) = progress.total {
        metadata.insert("total".to_owned(), json!(total));
    }
    if let Some(message) = &progress.message {
        metadata.insert("message".to_owned(), json!(message));
    }
    metadata
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Opaque
    }

    fn needs(&self, _input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        let all = || vec!["*".to_owned()];
        let need =
            Need { permission: self.name.clone(), patterns: all(), always: all(), metadata: Map::new() };
        Ok(vec![need])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(self.execute(input, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_objects() {
        let check = |schema: Value, expected: Value| assert_eq!(object(schema), expected);
        check(Value::Null, open_schema());
        check(json!([1]), open_schema());
        check(json!({}), json!({"type": "object", "properties": {}}));
        let full = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        check(full.clone(), full);
        check(
            json!({"type": ["object", "null"], "properties": 7}),
            json!({"type": "object", "properties": {}}),
        );
    }
}
