//! Runs sessions: the only crate that sees the store, the models and the tools together.
//!
//! An [`Engine`] accepts prompts into a session's inbox, promotes them, drives provider turns, runs tools with the
//! permissions they need, and recovers what a crash left open. Everything that happens is an event in the log before
//! anybody hears of it; the [`bus`] carries it, together with live signals (streamed text, busy and idle).
//!
//! # Layout
//! The handle, and what everything builds on:
//! - [`engine`]: the handle that leads to the services
//! - `composition`: where they are put together
//! - [`options`]: how an engine is opened
//! - `error`: what can go wrong
//! - [`world`]: the clock and random numbers
//! - [`mint`]: ids above the floor of their session
//! - [`bus`]: committed events and live signals of all processes, in order
//! - [`config`]: what is configured in one place
//! - [`configurations`]: the configuration that holds in each folder
//! - `lifecycle`: what goes on in the background, and that the engine is closing
//! - `background`: work that waits for the disk
//! - `journal`: the recording of events
//! - `leases`: the one way to work under a lease
//! - `feed_follower`: what other processes do, as the store's feed tells it
//!
//! Where and by whom:
//! - [`projects`]: what a folder belongs to, and sessions that follow their folder
//! - `snapshot_folders`: where the files of each worktree are recorded
//! - [`guidance`]: where instructions and skills are
//! - [`agents`]: who acts, under which rules
//! - [`models`]: from a model's name to a provider, its limits and its prices
//! - [`mcp`]: the MCP servers of a worktree
//! - `confinement`: the sandbox that programs run in
//! - [`outputs`]: long output of tools
//! - `temporary`: temporary files of commands
//!
//! What a prompt goes through:
//! - [`inbox`]: admission of prompts
//! - `bounds`: how large what comes in may be
//! - `attachments`: files, folders and resources that come with a prompt
//! - `data_url`: addresses that hold what they lead to
//! - [`drains`]: one drain for each session, wakes, interrupts
//! - `worker`: what a drain does
//! - `turn_places`: how many turns stream at once
//! - `turn`: one provider turn, from promotion to its end, and what a restart does with one that was cut off
//! - [`context`]: the system context of an epoch, and what changes in it
//! - `steps`: how many steps an agent takes for one prompt
//! - `structured`: answers in a shape that the prompt asks for
//! - `history`: from the path to what a provider is given
//! - [`compaction`]: summaries in place of what no longer fits
//! - `provider_call`: one call to a provider
//! - `calls`: the tool calls of a turn
//! - `guards`: what ends work that would go on for ever or cost too much
//! - [`requests`]: permission requests, questions and their answers
//! - `host`: what a tool may do to the session that called it
//! - `delegation`: tasks that one session gives to another
//! - `file_views`: what each session last saw of the files
//! - `titles`: names for sessions that nobody named
//! - `work_span`: how the work is seen in the log
//!
//! What else happens to sessions:
//! - [`sessions`]: create, list, rename, archive, trash, fork
//! - [`trash`]: what is in the trash, taking it out, deleting it for good
//! - `family`: a session and those that belong to it
//! - [`sent_requests`]: what a model was sent, shown again
//! - [`spending`]: what all sessions have used
//! - [`reverts`]: undo and redo of messages and files
//! - [`shell`]: commands that a person runs
//! - [`commands`]: slash commands
//! - `recovery`: which sessions go on by themselves
//! - [`imports`]: sessions of other programs

pub mod agents;
mod attachments;
mod background;
mod bounds;
pub mod bus;
mod calls;
pub mod commands;
pub mod compaction;
mod composition;
pub mod config;
pub mod configurations;
mod confinement;
pub mod context;
mod data_url;
mod delegation;
pub mod drains;
pub mod engine;
mod error;
mod family;
mod feed_follower;
mod file_views;
mod guards;
pub mod guidance;
mod history;
mod host;
pub mod imports;
pub mod inbox;
mod journal;
mod leases;
mod lifecycle;
pub mod mcp;
pub mod mint;
pub mod models;
pub mod options;
pub mod outputs;
pub mod projects;
mod provider_call;
mod recovery;
pub mod requests;
pub mod reverts;
pub mod sent_requests;
pub mod sessions;
pub mod shell;
mod snapshot_folders;
pub mod spending;
mod steps;
mod structured;
mod temporary;
mod titles;
pub mod trash;
mod turn;
mod turn_places;
mod work_span;
mod worker;
pub mod world;

pub use bus::{Live, SessionUpdate, Signal};
pub use config::Config;
pub use configurations::Configurations;
pub use engine::Engine;
pub use error::Error;
pub use everturn_tools::host::LoadedSkill;
pub use everturn_tools::peer;
pub use everturn_tools::places::ProjectFiles;
pub use inbox::Prompt;
pub use options::Options;

/// The version of the program, as sessions record it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
