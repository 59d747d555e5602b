//! Integration tests of the store, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod author;
mod campaign;
mod contract;
mod cost;
mod crash;
mod damaged_feed;
mod earlier;
mod events;
mod faults;
mod history;
mod listener;
mod migration;
mod model;
mod opening;
mod place;
mod postgres;
mod power;
mod processes;
mod refusal;
mod server;
mod story;
mod upkeep;
mod upkeep_aside;
mod upkeep_backup;
mod upkeep_scrub;
mod upkeep_trash;
mod upkeep_verify;
