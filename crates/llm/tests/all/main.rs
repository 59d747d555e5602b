//! Integration tests of the providers, through their public face.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on shall fail at once"
)]

mod anthropic;
mod canned;
mod catalogue;
mod chat;
mod credential;
mod errors;
mod failures;
mod gemini;
mod judge;
mod model_server;
mod properties;
mod responses;
mod scripted;
