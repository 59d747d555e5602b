//! The crate's tests from outside, in one binary: real files in temporary folders, real processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod bash;
mod bounds;
mod edit;
mod files;
mod harness;
mod instructions;
mod project;
mod read;
mod registry;
mod scope;
mod skills;
mod snapshot;
mod special;
mod write;
