//! What a model call asks for, in terms of no particular provider.
//!
//! `metadata` on a block is whatever a protocol attached to it when the block was streamed; it is opaque to the
//! caller and only has to come back unchanged.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::tool_name::ToolNames;

/// One model call.
#[derive(Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// Who is asked, in the words in which the conversation says who answered.
    pub origin: AnswerOrigin,
    /// The model's id on the wire.
    pub model: String,
    /// System prompt parts, in order.
    pub system: Vec<String>,
    /// The conversation, oldest first. It is [repaired](crate::repair) before it leaves.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Whether the model may, must or must not call a tool.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens.
    pub max_output: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The share of likely words that are considered.
    pub top_p: Option<f64>,
    /// How much the model thinks before it answers.
    pub reasoning: Reasoning,
    /// The shape that the answer must have.
    pub format: Option<AnswerFormat>,
    /// Extra HTTP headers; they win over the provider's own.
    pub headers: Vec<(String, String)>,
    /// A stable key by which the provider may find its prompt cache.
    pub cache_key: Option<String>,
    /// Fields merged into the request body last.
    pub options: Map<String, Value>,
}

impl ModelRequest {
    /// The request with a conversation and with names of tools that every provider accepts.
    #[must_use]
    pub fn repaired(mut self) -> Self {
        self.messages = crate::repair(self.messages, &self.origin);
        ToolNames::of(&self).write(&mut self);
        self
    }
}

impl fmt::Debug for ModelRequest {
    /// Values of headers and options are left out: they may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Request")
            .field("origin", &self.origin)
            .field("model", &self.model)
            .field("system", &self.system)
            .field("messages", &self.messages)
            .field("tools", &self.tools)
            .field("tool_choice", &self.tool_choice)
            .field("max_output", &self.max_output)
            .field("temperature", &self.temperature)
            .field("top_p", &self.top_p)
            .field("reasoning", &self.reasoning)
            .field("format", &self.format)
            .field("headers", &headers)
            .field("cache_key", &self.cache_key)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Who answered: what a model signed or encrypted is of use to that model only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerOrigin {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// How much a model thinks before it answers. Providers know an effort, a budget or neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// How hard it tries.
    pub effort: Option<Effort>,
    /// How many tokens it may think for.
    pub budget: Option<u64>,
}

/// How hard a model tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// It answers at once.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As it usually does.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Max,
}

impl Effort {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 6] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Max];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }

    /// The effort that a word means.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

/// The shape that an answer must have.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerFormat {
    /// A name for it, of letters, digits and `_`.
    pub name: String,
    /// Its JSON schema.
    pub schema: Value,
}

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the user said.
    User(Vec<Content>),
    /// What a model answered.
    Assistant {
        /// In the order in which it said it.
        blocks: Vec<Block>,
        /// Which model that was; `None` when it is not known.
        origin: Option<AnswerOrigin>,
    },
    /// What a tool gave back.
    Tool {
        /// The call this answers.
        call_id: String,
        /// The tool's name.
        name: String,
        /// What the model shall read or see.
        output: Vec<Content>,
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

impl Content {
    /// All texts of a list, each on its own line.
    pub fn text_of(contents: &[Self]) -> String {
        let texts = contents.iter().filter_map(|content| match content {
            Self::Text(text) => Some(text.as_str()),
            Self::Media { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
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
    /// A call of a tool that the provider runs itself.
    HostedCall {
        /// The call id.
        id: String,
        /// The provider's name for the tool.
        name: String,
        /// The arguments.
        input: Value,
        /// As streamed.
        metadata: Option<Value>,
    },
    /// What a tool gave that the provider ran itself.
    HostedResult {
        /// The call id.
        id: String,
        /// The provider's name for the tool.
        name: String,
        /// The result in the provider's own words.
        output: Value,
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
    pub schema: Arc<Value>,
}

/// Whether the model calls tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called.
    Required,
    /// This tool must be called.
    Tool(String),
}
