//! Integration tests of the store, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod contract;
mod events;
mod history;
mod model;
mod opening;
mod place;
mod story;
mod upkeep;
mod upkeep_aside;
mod upkeep_trash;
mod upkeep_verify;
