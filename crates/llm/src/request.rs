//! What a model call asks for, in terms no provider owns.
//!
//! `metadata` on a block is whatever a protocol attached to it when the block was streamed; it is opaque to the
//! caller and only has to come back unchanged.

use std::fmt;

use serde_json::{Map, Value};

/// One model call.
#[derive(Clone, Default, PartialEq)]
pub struct Request {
    /// The model's id on the wire.
    pub model: String,
    /// System prompt parts, in order.
    pub system: Vec<String>,
    /// The conversation, oldest first. See [`crate::repair`].
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Whether the model may, must or must not call a tool.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens.
    pub max_output: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Extra HTTP headers; they win over the provider's own.
    pub headers: Vec<(String, String)>,
    /// A stable key by which the provider may find its prompt cache.
    pub cache_key: Option<String>,
    /// Fields merged into the request body last.
    pub options: Map<String, Value>,
}

impl fmt::Debug for Request {
    /// Header values are left out: they may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Request")
            .field("model", &self.model)
            .field("system", &self.system)
            .field("messages", &self.messages)
            .field("tools", &self.tools)
            .field("tool_choice", &self.tool_choice)
            .field("max_output", &self.max_output)
            .field("temperature", &self.temperature)
            .field("headers", &headers)
            .field("cache_key", &self.cache_key)
            .field("options", &self.options)
            .finish()
    }
}

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the user said.
    User(Vec<Content>),
    /// What the model answered.
    Assistant(Vec<Block>),
    /// What a tool gave back.
    Tool {
        /// The call this answers.
        call_id: String,
        /// The tool's name.
        name: String,
        /// What the model shall read.
        output: String,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// An instruction that entered in mid-conversation.
    System(String),
}

/// A piece of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// An attachment.
    Media {
        /// Its media type.
        mime: String,
        /// A `data:` or `http(s):` address.
        url: String,
        /// A name to show.
        filename: Option<String>,
    },
}

/// A piece of an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Visible text.
    Text {
        /// The text.
        text: String,
        /// As streamed.
        metadata: Option<Value>,
    },
    /// Reasoning.
    Reasoning {
        /// The text.
        text: String,
        /// As streamed.
        metadata: Option<Value>,
    },
    /// A tool call.
    ToolCall {
        /// The call id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        input: Value,
        /// As streamed.
        metadata: Option<Value>,
    },
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its arguments.
    pub schema: Value,
}

/// Whether the model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called.
    Required,
}
