//! Integration tests of the engine, one binary: a real store, real tools, real files, a scripted model over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod bench;
mod beside;
mod by_name;
mod calls;
mod context;
mod cost;
mod edits;
mod file_views;
mod forks;
mod gap;
mod imports;
mod inbox;
mod latency;
mod leaving;
mod locations;
mod mcp;
mod media;
mod order;
mod permission;
mod plan;
mod processes;
mod project;
mod project_trust;
mod question;
mod recover;
mod replay;
mod revert;
mod rule_stacks;
mod saving;
mod spans;
mod spending;
mod stopping;
mod takeover;
mod task;
mod titles;
mod todo;
mod trash;
mod turn;
mod unheeded;
mod waiting;
mod waiting_prompts;
