//! Integration tests of the engine, one binary: a real store, real tools, real files, a scripted model over HTTP.

mod bench;
mod inbox;
mod permission;
mod revert;
mod turn;
