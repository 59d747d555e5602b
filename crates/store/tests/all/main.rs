//! Integration tests of the store, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod append;
mod history;
mod lease;
mod opening;
mod postgres;
mod watch;
