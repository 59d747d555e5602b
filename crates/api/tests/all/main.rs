//! The HTTP face over a real listener, a real engine and a scripted model.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on shall fail at once"
)]

mod events;
mod gate;
mod mcp;
mod messages;
mod requests;
mod sessions;
mod settings;
mod streaming;
mod support;
