//! Summaries as clients ask for them.

use schemars::JsonSchema;
use serde::Deserialize;

/// What a conversation is to be summed up with.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SummarizeBody {
    #[serde(rename = "providerID")]
    pub(crate) provider: String,
    #[serde(rename = "modelID")]
    pub(crate) model: String,
    /// Whether it is shown as one that nobody asked for.
    #[serde(default)]
    pub(crate) auto: bool,
}
