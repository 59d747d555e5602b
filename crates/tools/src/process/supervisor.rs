//! The process between us and a program: it stays until everything that the program started has ended.
//!
//! It is our own binary with a hidden first argument; [`dispatch`] must be the first thing that `main` does, because
//! every command waits for it. Its standard input is the socket to us, its other streams are the program's.

use std::env;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod watch;

/// The argument that makes a supervisor of our binary.
pub const ARGUMENT: &str = "__supervisor";

/// Does the work of a supervisor if this process was started as one, and returns its exit status when all is done.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    if env::args_os().nth(1)? != ARGUMENT {
        return None;
    }
    #[cfg(target_os = "linux")]
    let code = watch::run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    #[cfg(not(target_os = "linux"))]
    let code = ExitCode::FAILURE;
    Some(code)
}
