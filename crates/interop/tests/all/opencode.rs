//! OpenCode round trips: real data of the real program goes into the tree and comes out the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod data;
mod event;
mod export;
mod files;
mod hand;
mod meaning;
mod random;
mod rows;
mod v2;
