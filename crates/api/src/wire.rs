//! Shapes of requests and answers, as OpenCode's V1 protocol has them.
//!
//! Most are what is read or printed. Sessions, messages, parts and events are printed by `interop`; the types here that
//! describe them are read by the [document](crate::document) alone, and tests compare them with what is printed.
//!
//! # Layout
//! - `session`: sessions, new ones and changes of them
//! - `message`: messages
//! - `part`: parts of messages, and the states of tool calls
//! - `event_shape`: what the event streams tell
//! - `event`: events of the moment, and the envelope of all events
//! - `prompt`: prompts
//! - `command`: slash commands
//! - `shell`: commands of a person
//! - `compaction`: summaries on request
//! - `inbox`: prompts that wait
//! - `sent_request`: what a model was sent
//! - `request`: permission requests, questions and their answers
//! - `agent`: agents and skills
//! - `provider`: providers and models
//! - `project`: projects and paths
//! - `server`: MCP servers, and what is known of the server itself
//! - `secret`: what is never shown

pub(crate) mod agent;
pub(crate) mod command;
pub(crate) mod compaction;
pub(crate) mod event;
pub(crate) mod event_shape;
pub(crate) mod inbox;
pub(crate) mod message;
pub(crate) mod part;
pub(crate) mod project;
pub(crate) mod prompt;
pub(crate) mod provider;
pub(crate) mod request;
pub(crate) mod secret;
pub(crate) mod sent_request;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod shell;
