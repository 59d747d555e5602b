//! The test kit tested: what others build on has to hold.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on shall fail at once"
)]

mod model;
mod postgres;
mod process;
mod proxy;
mod repo;
