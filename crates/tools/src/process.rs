//! Programs that the agent runs. None of them outlives its call.
//!
//! Between us and a program is a **supervisor**: our own binary, started again with a hidden argument. It adopts
//! every process that the program leaves behind, also daemons that detached themselves, so it always knows whether
//! anything still runs and can stop all of it. We hold it by a socket. When that closes, because the call was dropped
//! or because we were killed, the supervisor stops everything and ends.
//!
//! Without a supervisor, and on systems other than Linux, a program is held by its process group alone: whatever leaves
//! the group (`setsid`, daemons) is not stopped, and nothing is stopped when we are killed.
//!
//! # Layout
//!
//! - [`supervisor`]: the process between us and a program
//! - `announcement`: how supervisors are found
//! - `control`: what the two sides say to each other
//! - `launch`: starting a program; [`Launcher`]
//! - `program`: a program from its start until nothing of it is left
//! - `process_tree`: finding and stopping processes, through `/proc`
//! - `group`: process groups
//! - `environment`: variables that programs must not see
//! - [`sandbox`]: what a program sees, changes and reaches, where it is not everything

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "much of it is for supervisors and sandboxes, which there are on Linux alone")
)]

#[cfg(target_os = "linux")]
mod announcement;
mod control;
mod environment;
mod group;
mod launch;
#[cfg(target_os = "linux")]
mod process_tree;
mod program;
pub mod sandbox;
pub mod supervisor;

#[cfg(target_os = "linux")]
pub(crate) use announcement::supervisors_for_agents;
pub use environment::{Secrets, is_secret};
pub use launch::Launcher;
pub(crate) use launch::{ProgramStart, ProgramStreams};
#[cfg(target_os = "linux")]
pub(crate) use process_tree::{
    adopted_children, ancestry, below, is_below_a_program, is_hiding, is_of_a_call, started_programs, threads,
};
#[cfg(target_os = "linux")]
pub(crate) use program::had_programs_lately;
pub(crate) use program::{Cleanup, Exit, RunningProgram};
