//! What servers list: tools, resources and prompts.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::content::McpContent;

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

/// A prompt that a server has ready.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct McpPrompt {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// What it wants to know.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

/// What a prompt wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PromptMessage {
    /// Who says it: `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: McpContent,
}
