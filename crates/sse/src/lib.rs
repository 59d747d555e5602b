//! Server-sent events, as model providers and MCP servers send them.
//!
//! Both are read by the same rules and with the same limit; only what they make of an event differs, and that is theirs.
//! The crate does no I/O: pieces of a body go in, events come out.
//!
//! # Layout
//!
//! - [`decoder`]: from bytes to events

pub mod decoder;

pub use decoder::{EVENT_MAX, FrameTooLarge, SseDecoder, SseFrame};
