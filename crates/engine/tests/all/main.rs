//! Integration tests of the engine, one binary: a real store, real tools, real files, a scripted model over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod agents;
mod attachments;
mod bench;
mod beside;
mod bounds;
mod budgets;
mod by_name;
mod calls;
mod commands;
mod compaction;
mod context;
mod cost;
mod crash_matrix;
mod edits;
mod file_views;
mod forks;
mod gap;
mod guards;
mod history;
mod imports;
mod inbox;
mod kept_rules;
mod latency;
mod leaving;
mod lifecycle;
mod limits;
mod locations;
mod mcp;
mod media;
mod order;
mod parking;
mod permission;
mod plan;
mod processes;
mod project;
mod project_trust;
mod question;
mod recover;
mod relations;
mod replay;
mod retries;
mod revert;
mod rule_stacks;
mod saving;
mod sent_requests;
mod shell;
mod spans;
mod spending;
mod stopping;
mod subtask;
mod takeover;
mod task;
mod titles;
mod todo;
mod trash;
mod turn;
mod unheeded;
mod usage;
mod validity;
mod waiting;
mod waiting_prompts;
