//! The supervisor alone. `everturn` contains it; this binary lets the crate's tests run it.

use std::process::ExitCode;

use everturn_tools::process::supervisor;

fn main() -> ExitCode {
    supervisor::dispatch().unwrap_or(ExitCode::FAILURE)
}
