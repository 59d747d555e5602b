//! The HTTP face over a real listener, a real engine and a scripted model.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on shall fail at once"
)]

mod commands;
mod connections;
mod contract;
mod document;
mod events;
mod gate;
mod inbox;
mod limits;
mod mcp;
mod messages;
mod requests;
mod sessions;
mod settings;
mod shapes;
mod shell;
mod streaming;
mod support;
