//! What servers list: tools and resources.

use serde::Deserialize;
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
