//! What servers list: tools, resources and prompts.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A tool as its server describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// The name it is called by.
    pub name: String,
    /// A name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON schema of its arguments, as it came.
    #[serde(default)]
    pub input_schema: Option<Box<RawValue>>,
}

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default)]
    pub mime_type: Option<String>,
}

/// Words that a server has ready.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// What it has to be told, in order.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

/// Something that a prompt has to be told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
}

/// The words of a prompt, as a conversation.
#[derive(Debug, Deserialize)]
pub(super) struct PromptAnswer {
    messages: Vec<PromptMessage>,
}

#[derive(Debug, Deserialize)]
struct PromptMessage {
    content: Value,
}

impl PromptAnswer {
    /// Its texts. What is no text does not come along.
    pub(super) fn text(&self) -> String {
        let texts = self.messages.iter().filter_map(|message| {
            let content = &message.content;
            let embedded = content.pointer("/resource/text");
            content.get("text").or(embedded).and_then(Value::as_str)
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
