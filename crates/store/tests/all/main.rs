//! Integration tests of the store, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod append;
mod author;
mod campaign;
mod crash;
mod faults;
mod history;
mod lease;
mod migration;
mod opening;
mod postgres;
mod power;
mod processes;
mod refusal;
mod server;
mod watch;
