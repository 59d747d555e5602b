//! Tools on offer, in the shape that OpenAI accepts.

use serde_json::{Value, json};

use crate::{ToolChoice, ToolSpec, tool_schema};

/// A function. Strict schemas are a dialect of their own, and asked for unless refused.
pub(super) fn definition(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool_schema::plain(&tool.schema),
        "strict": false,
    })
}

pub(super) fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        assert_eq!(choice(&ToolChoice::Auto), "auto");
        assert_eq!(choice(&ToolChoice::None), "none");
        assert_eq!(choice(&ToolChoice::Required), "required");
        assert_eq!(choice(&ToolChoice::Tool("x".into())), json!({"type": "function", "name": "x"}));
    }
}
