//! The crate's tests from outside, in one binary: real files in temporary folders, real processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod apply_patch;
mod bash;
mod bounds;
mod confinement;
mod edit;
mod files;
mod foreign_file;
mod glob;
mod grep;
mod harness;
mod instructions;
mod jobs;
mod limits;
mod list;
mod mcp;
mod peer;
mod project;
mod properties;
mod pty;
mod read;
mod registry;
mod sandbox;
mod scope;
mod server;
mod session;
mod shell;
mod skills;
mod snapshot;
mod snapshot_race;
mod special;
mod webfetch;
mod websearch;
mod write;
mod zoo;
