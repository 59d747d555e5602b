//! The process between us and a program: it stays until everything that the program started has ended.
//!
//! It is our own binary with a hidden first argument; [`dispatch`] must be the first thing that `main` does, because
//! every command waits for it. Its standard input is the socket to us, its other streams are the program's.

use std::env;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use super::sandbox::probe;
use super::sandbox::report::PROBE_ARGUMENT;

#[cfg(target_os = "linux")]
mod watch;

/// The argument that makes a supervisor of our binary.
pub const ARGUMENT: &str = "__supervisor";

/// What it is called among processes.
pub(super) const NAME: &str = "everturn";

/// Does the work of a supervisor if this process was started as one, or finds out what there is for a sandbox, and returns its exit status when all is done.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    let argument = env::args_os().nth(1)?;
    if argument != ARGUMENT && argument != PROBE_ARGUMENT {
        return None;
    }
    #[cfg(target_os = "linux")]
    let done = if argument == ARGUMENT { watch::run() } else { probe::run() };
    #[cfg(not(target_os = "linux"))]
    let done: Result<(), ()> = Err(());
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
