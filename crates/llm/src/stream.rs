//! What a model call yields: typed events, the reason it ended and what it cost.
//!
//! Order within a stream: `Start`, then blocks, then `StepFinish`, then `Finish`. `Usage` may come anywhere between. Text and reasoning blocks are
//! opened, filled and closed; a tool call is `ToolInputStart`, deltas, `ToolInputEnd` and then either `ToolCall` or
//! `ToolCallMalformed` with the same id. A tool that the provider runs itself is a `HostedCall` and, unless the
//! answer pauses for it, a `HostedResult`; nobody else has to do anything about them. A stream that fails ends in
//! `Err` instead, and blocks still open at that point stay open: only the caller knows what it wants to keep of them.

use std::pin::Pin;

use futures_util::Stream;
use serde_json::Value;

use crate::Error;

/// The events of one model call, lazily connected.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, Error>> + Send>>;

/// One thing that happened in a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The provider accepted the request.
    Start,
    /// What the provider has counted so far: it counts even if the answer never gets to its end. Each replaces the one
    /// before, and `StepFinish` replaces them all.
    Usage(Usage),
    /// A reasoning block opens.
    ReasoningStart {
        /// Names the block within this stream.
        id: String,
    },
    /// More reasoning text.
    ReasoningDelta {
        /// The block it belongs to.
        id: String,
        /// The text to append.
        text: String,
    },
    /// A reasoning block closes.
    ReasoningEnd {
        /// The block that closes.
        id: String,
        /// What the provider wants back verbatim when the block is replayed.
        metadata: Option<Value>,
    },
    /// A text block opens.
    TextStart {
        /// Names the block within this stream.
        id: String,
    },
    /// More text.
    TextDelta {
        /// The block it belongs to.
        id: String,
        /// The text to append.
        text: String,
    },
    /// A text block closes.
    TextEnd {
        /// The block that closes.
        id: String,
        /// What the provider wants back verbatim when the block is replayed.
        metadata: Option<Value>,
    },
    /// The model begins to write a tool call.
    ToolInputStart {
        /// The call id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of the call's arguments, as raw JSON text.
    ToolInputDelta {
        /// The call id.
        id: String,
        /// The text to append.
        text: String,
    },
    /// The arguments are complete.
    ToolInputEnd {
        /// The call id.
        id: String,
    },
    /// A complete tool call whose arguments are a JSON object.
    ToolCall {
        /// The call id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        input: Value,
        /// The arguments as the model wrote them.
        raw: String,
        /// What the provider wants back verbatim when the call is replayed.
        metadata: Option<Value>,
    },
    /// A tool call that cannot be run as written.
    ToolCallMalformed {
        /// The call id.
        id: String,
        /// The tool's name; empty when the model gave none.
        name: String,
        /// The arguments as the model wrote them.
        raw: String,
        /// Why they cannot be used.
        reason: String,
    },
    /// The provider runs one of its own tools.
    HostedCall {
        /// The call id.
        id: String,
        /// The provider's name for the tool.
        name: String,
        /// The arguments.
        input: Value,
        /// What the provider wants back verbatim when the call is replayed.
        metadata: Option<Value>,
    },
    /// One of the provider's own tools is done.
    HostedResult {
        /// The call id.
        id: String,
        /// The provider's name for the tool.
        name: String,
        /// The result in the provider's own words.
        output: Value,
        /// Whether it failed.
        is_error: bool,
        /// What the provider wants back verbatim when the result is replayed.
        metadata: Option<Value>,
    },
    /// The model is done with this call.
    StepFinish {
        /// Why it stopped.
        reason: FinishReason,
        /// What it used.
        usage: Usage,
        /// What the provider said about the answer: its id, its model, its own word for the reason.
        metadata: Option<Value>,
    },
    /// The stream is over and complete.
    Finish,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// It had nothing more to say.
    Stop,
    /// It made a pause in its own work, and goes on when it is given back what it has said.
    Paused,
    /// The output limit was reached.
    Length,
    /// It waits for tool results.
    ToolCalls,
    /// The provider's filter cut it off.
    ContentFilter,
    /// The provider reported a failure as the reason.
    Error,
    /// No reason or one this crate does not know.
    Unknown,
}

impl FinishReason {
    /// The reason as written on the wire and in stored sessions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Paused => "paused",
            Self::Length => "length",
            Self::ToolCalls => "tool-calls",
            Self::ContentFilter => "content-filter",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Tokens used by one model call, in disjoint counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Visible output tokens, without reasoning.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// Prompt tokens read from a cache.
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    pub cache_write: u64,
    /// The provider's own total, where it gave one.
    pub total: Option<u64>,
}
