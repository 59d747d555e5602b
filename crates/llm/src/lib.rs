//! Provider wire protocols lowered to one stream of typed events.
//!
//! A caller builds a [`ModelRequest`] in neutral terms, hands it to a [`Provider`] and polls an [`EventStream`].
//! The crate knows nothing of sessions, stores or tools: it does not decide whether to retry, what to keep or
//! what a tool call means. It promises three things. Each delta is handed out as soon as its bytes are there;
//! an answer that was cut short is an error and never looks like a finished one; and no credential appears in
//! an error, a `Debug` text or a log line.
//!
//! # Layout
//!
//! * [`request`]: what is asked: messages, tools, limits
//! * [`history`]: repair of a conversation so that every provider accepts it
//! * [`stream`]: what comes back: [`StreamEvent`], [`FinishReason`], [`Usage`]
//! * [`provider`]: the [`Provider`] trait
//! * [`error`]: [`Error`], by what the caller can do about it, and how an HTTP answer becomes one
//! * [`retry`]: when to ask again, as data
//! * [`secret`]: credentials that do not print themselves
//! * [`endpoint`]: where a provider is, and its key
//! * [`catalogue`]: which providers and models there are, what they can do and what they cost
//! * [`credential`]: finding and keeping the key of a provider
//! * `http`, `exchange`: the shared HTTP clients and limits; one model call from its request to its last event
//! * `body`, [`mod@replay`]: the body of an answer into events, from the network or from a record
//! * `protocol`: what each wire protocol has to know; `arguments`: tool arguments as models write them
//! * `attachment`: attachments, as far as protocols differ in what they accept
//! * `call_id`, `tool_name`, `tool_schema`: ids of calls, names and schemas of tools as providers take them
//! * `option`: the caller's own fields, put into a body
//! * `ordinary_file`: files that are read whole
//! * `model_id`: what the id of a model says about it
//! * [`anthropic`]: Anthropic Messages
//! * [`gemini`]: Google's `generateContent`
//! * [`openai_chat`]: OpenAI Chat Completions and the servers that speak it
//! * [`openai_responses`]: OpenAI Responses and the servers that speak it
//! * [`scripted`]: a provider that plays a script, without network

pub mod anthropic;
mod arguments;
mod attachment;
mod body;
mod call_id;
pub mod catalogue;
pub mod credential;
pub mod endpoint;
pub mod error;
mod exchange;
pub mod gemini;
pub mod history;
mod http;
mod model_id;
pub mod openai_chat;
pub mod openai_responses;
mod option;
mod ordinary_file;
mod protocol;
pub mod provider;
pub mod replay;
pub mod request;
pub mod retry;
pub mod scripted;
pub mod secret;
pub mod stream;
#[cfg(test)]
mod test_sample;
mod tool_name;
mod tool_schema;

pub use anthropic::Anthropic;
pub use catalogue::{Catalogue, ModelInfo, Protocol, ProviderInfo};
pub use credential::{AuthFile, Keyring};
pub use endpoint::Endpoint;
pub use error::{Error, HttpFailure};
pub use gemini::Gemini;
pub use history::repair;
pub use openai_chat::OpenAiChat;
pub use openai_responses::OpenAiResponses;
pub use provider::{PreparedRequest, Provider};
pub use replay::replay;
pub use request::{
    AnswerFormat, AnswerOrigin, Block, Content, Effort, Message, ModelRequest, Reasoning, ToolChoice,
    ToolSpec,
};
pub use scripted::Scripted;
pub use secret::Secret;
pub use stream::{EventStream, FinishReason, StreamEvent, Usage};
