//! The surroundings of a request: what a model is given besides the conversation.
//!
//! The conversation is in the log already. Its surroundings (who answers, with which tools and settings) seldom change, so
//! each of them is recorded once in a session, with the first step that uses it, and later steps name it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Map;
use crate::session::ModelRef;

/// How many different surroundings a session records. What comes after that is not kept.
pub const FRAME_LIMIT: usize = 128;

/// The largest surroundings that are recorded, in bytes of their JSON.
pub const FRAME_SIZE_LIMIT: usize = 1024 * 1024;

/// What a request consists of besides the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestFrame {
    /// The agent that answers.
    pub agent: String,
    /// Its instructions.
    pub prompt: String,
    /// What is said after everything else of the instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What is said after the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<String>,
    /// The model that answers.
    pub model: ModelRef,
    /// The model's name on the wire.
    pub wire: String,
    /// What the model takes in besides text; none when nobody described it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<Vec<String>>,
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<OfferedTool>,
    /// Whether they are called.
    #[serde(default)]
    pub calls: CallsWanted,
    /// The output limit in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The share of likely words that are considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How hard the model tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How many tokens it may think for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u64>,
    /// Fields that the configuration adds, without what may be secret.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map,
}

/// A tool as the model was told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Arc<Value>,
}

/// Whether tools are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsWanted {
    /// As the model decides.
    #[default]
    Some,
    /// None may be called.
    None,
    /// At least one must be called.
    One,
}

/// By what a request is known that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestDigests {
    /// The surroundings that were recorded in this session; none where they were too large or too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// The body as it was sent.
    pub body: String,
    /// How many bytes of text it had; zero where that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(size: &u64) -> bool {
    *size == 0
}
