//! The binary from outside: the real clients, crashes, commands, and the order of the house.
//!
//! With `EVERTURN_TEST_SERVER` set to another program, the tests that reach the server only through its clients run
//! against that one instead: with OpenCode's own server they show that the tests expect what OpenCode does.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on shall fail at once"
)]

mod approval;
mod attach;
mod commands;
mod compact;
mod crash;
mod damage;
mod decisions;
mod demo;
mod doctor;
mod earlier;
mod endings;
mod feed;
mod flood;
mod hanging;
mod hostile;
mod hostile_model;
mod hosts;
mod inbox;
mod keys;
mod kills;
mod lag;
mod logging;
mod mcp;
mod models;
mod neighbours;
mod neutral;
mod opencode;
mod phases;
mod sandbox;
mod scripts;
mod scrub;
mod sdk;
mod serve;
mod shelf;
mod shell;
mod stage;
mod supervisor;
mod terminal;
mod tidy;
mod tmux;
mod trust;
