//! Integration tests of the store, one binary.

mod append;
mod history;
mod lease;
mod opening;
