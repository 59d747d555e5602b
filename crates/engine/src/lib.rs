//! Runs sessions: the only crate that sees the store, the models and the tools together.
//!
//! An [`Engine`] accepts prompts into a session's inbox, promotes them, drives provider turns, runs tools with the
//! permissions they need, and recovers what a crash left open. Everything that happens is an event in the log before
//! anybody hears of it; what is only of the moment (streamed text, busy and idle) goes over the [`bus`].
//!
//! # Layout
//! - [`seams`]: the clock and the source of chance
//! - [`mint`]: ids above the floor of their session
//! - [`bus`]: committed events and live signals, in order
//! - [`config`], [`agent`], [`project`]: what is configured, who acts, where
//! - [`models`]: from a model's name to a provider, its limits and its prices
//! - [`sessions`]: create, list, rename, archive, trash, fork
//! - [`inbox`]: admission of prompts
//! - `attachment`: files and resources that come with a prompt
//! - [`drain`]: one drain per session, wakes, interrupts
//! - `turn`: one provider turn, from promotion to its end
//! - `calls`: the tool calls of a turn
//! - [`asks`]: permission requests, questions and their answers
//! - `delegation`: tasks that one session gives to another
//! - `host`: what a tool may do to the session that called it
//! - `sights`: what each session last saw of the files
//! - `history`: from the path to what a provider is given
//! - `context`: the system context of an epoch, and what changes in it
//! - `guidance`: where instructions and skills are
//! - [`mcp`]: the MCP servers of a place, and which of them a person has allowed
//! - [`revert`]: undo and redo of messages and files
//! - `recover`: what a restart does with what was open
//! - [`import`]: sessions of other programs

pub mod agent;
pub mod asks;
mod attachment;
pub mod bus;
mod calls;
pub mod config;
mod context;
mod delegation;
pub mod drain;
pub mod engine;
mod error;
mod guidance;
mod history;
mod host;
pub mod import;
pub mod inbox;
pub mod mcp;
pub mod mint;
pub mod models;
pub mod project;
mod recover;
pub mod revert;
pub mod seams;
pub mod sessions;
mod sights;
mod title;
mod turn;

pub use bus::{Live, Notice, Signal};
pub use config::Config;
pub use engine::{Engine, Options};
pub use error::Error;
pub use everturn_tools::host::Skill;
pub use everturn_tools::places::ProjectFiles;
pub use inbox::Prompt;

/// The version of the program, as sessions record it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
