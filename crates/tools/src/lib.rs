//! What an agent can do to the machine: read and change files, run commands, and undo its own changes.
//!
//! A tool call has two phases on purpose. [`Tool::needs`] says, without acting, what a person must permit;
//! the engine settles that durably; only then does [`Tool::run`] act. A crash in between therefore never
//! leaves an effect that nobody allowed, and [`Tool::effect`] tells recovery whether a call that had begun
//! may be run again, must be checked on disk first, or must never be repeated.
//!
//! The crate knows nothing of sessions, models or storage: callers give it a [`Scope`] and get back an
//! [`Output`] or a [`Failure`], both in the words that the model will read.
//!
//! # Layout
//!
//! - [`tool`]: the [`Tool`] trait and the values that cross it
//! - [`registry`]: the tools by name in layers, and what the model is told about them in one turn
//! - [`settlement`]: the one way in which every call ends
//! - [`host`]: what a tool may ask of the session that called it
//! - [`seen`]: what a session last saw of each file
//! - [`scope`]: where paths resolve and which of them lie outside the project
//! - [`bound`]: the size limit of text for the model, and the files that keep the rest
//! - [`mcp`]: tools, resources and prompts of other programs
//! - [`patch`]: unified diffs in the shape that clients already parse
//! - [`target`]: a path resolved once and checked against what was permitted
//! - [`mod@grep`], [`mod@glob`], [`mod@list`]: the tools that look for files
//! - [`webfetch`], [`websearch`]: the tools that use the web
//! - [`mod@read`], [`mod@write`], [`mod@edit`], [`apply_patch`]: the file tools
//! - [`mod@todo`], [`question`], [`task`], [`plan`]: the task list, questions, subagents and plan mode, which act on
//!   the session
//! - [`instructions`]: what a person wants every agent to follow, from `AGENTS.md` files
//! - [`skills`]: guides for particular work; [`skill`]: the tool that loads one
//! - [`places`]: where instructions and skills are looked for, and what may be read there without asking
//! - [`bash`]: the command tool, with its output capture and background jobs
//! - [`peer`]: who is at the other end of a connection
//! - [`process`]: programs that leave nothing behind; the supervisor
//! - [`pty`]: terminals that clients look at and type into
//! - [`shell`]: what a command line would run, for permission rules
//! - [`project`]: what repository a folder belongs to, and which one it is
//! - [`protected`]: files that make programs run by themselves
//! - [`protected_home`]: the same for a home folder
//! - [`invalid`]: the answer to a call that cannot be run
//! - [`snapshot`]: content-addressed pictures of a worktree: capture, diff, restore
//! - [`input`]: the schema of arguments, and decoding with errors a model can act on
//! - `attributes`: what a file has besides its content, kept when that is replaced
//! - [`foreign_file`]: reading what a person or a project names, bounded in bytes and time
//! - `folder`: folders as handles that no link can redirect
//! - [`front_matter`]: the YAML at the beginning of Markdown files
//! - `ignore_rules`: which files of ignore rules are read
//! - `indentation`: how the indentation of a model's text becomes that of a file
//! - `regular_file`: reading ordinary files only, so that no read waits or goes on without end
//! - `replacement`: all-or-nothing changes of files
//! - `walk`: walking a folder by ignore rules, never out of it
//! - `web`: HTTP requests within limits, and only to the hosts that they were meant for
//! - `wildcard`: the patterns of file names

pub mod apply_patch;
mod attributes;
pub mod bash;
pub mod bound;
pub mod edit;
mod folder;
pub mod foreign_file;
pub mod front_matter;
pub mod glob;
pub mod grep;
pub mod host;
mod ignore_rules;
mod indentation;
pub mod input;
pub mod instructions;
pub mod invalid;
pub mod list;
pub mod mcp;
pub mod patch;
pub mod peer;
pub mod places;
pub mod plan;
pub mod process;
pub mod project;
pub mod protected;
pub mod protected_home;
pub mod pty;
pub mod question;
pub mod read;
pub mod registry;
mod regular_file;
mod replacement;
pub mod scope;
pub mod seen;
pub mod settlement;
pub mod shell;
pub mod skill;
pub mod skills;
pub mod snapshot;
pub mod target;
pub mod task;
pub mod todo;
pub mod tool;
mod walk;
mod web;
pub mod webfetch;
pub mod websearch;
mod wildcard;
pub mod write;

pub use host::Host;
pub use places::{Observed, Places};
pub use process::Secrets;
pub use registry::{Registry, Spec, ToolOffer, ToolSettings};
pub use scope::Scope;
pub use seen::SeenFiles;
pub use settlement::settle;
pub use snapshot::Snapshots;
pub use tool::{
    Attachment, BoxFuture, Context, Effect, Failure, Forecast, ForecastVerdict, Need, Output, Progress,
    Readable, Tool,
};
