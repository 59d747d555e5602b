//! What is configured of a slash command, in a file of configuration or as a Markdown file of its own.

use std::collections::BTreeMap;

use serde_json::Value;

/// A slash command: a prompt with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandDefinition {
    /// Its text: `$1` and `$ARGUMENTS` stand for what is typed behind its name, `` !`command` `` for what a command prints,
    /// and `@file` for a file that comes with it.
    pub template: String,
    /// What it is for.
    pub description: Option<String>,
    /// The agent that gets it.
    pub agent: Option<String>,
    /// The model that gets it.
    pub model: Option<String>,
    /// Whether it is a task of its own; none leaves that to the kind of its agent.
    pub subtask: Option<bool>,
}

impl CommandDefinition {
    /// Reads OpenCode's object of one command; none without a text.
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| {
            let text = value.get(key).and_then(Value::as_str)?;
            (!text.trim().is_empty()).then(|| text.to_owned())
        };
        Some(Self {
            template: text("template")?,
            description: text("description"),
            agent: text("agent"),
            model: text("model"),
            subtask: value.get("subtask").and_then(Value::as_bool),
        })
    }
}

/// Reads OpenCode's `command` object.
pub(super) fn read_commands(value: &Value) -> BTreeMap<String, CommandDefinition> {
    let named = value.as_object().into_iter().flatten();
    named.filter_map(|(name, value)| Some((name.clone(), CommandDefinition::read(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_without_a_text_is_none() {
        let value = json!({
            "check": {"template": "Check $1", "description": "checks", "agent": "plan", "model": "a/b", "subtask": true},
            "plain": {"template": "text", "subtask": "yes", "description": " "},
            "empty": {"template": " "},
            "none": {"description": "nothing"},
            "word": "text",
        });
        let plain = CommandDefinition { template: "text".to_owned(), ..CommandDefinition::default() };
        let check = CommandDefinition {
            template: "Check $1".to_owned(),
            description: Some("checks".to_owned()),
            agent: Some("plan".to_owned()),
            model: Some("a/b".to_owned()),
            subtask: Some(true),
        };
        assert_eq!(read_commands(&value), [("check".to_owned(), check), ("plain".to_owned(), plain)].into());
        assert_eq!(read_commands(&json!("text")), [].into());
    }
}
