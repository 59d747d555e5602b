//! The warden alone. `everturn` contains it; this binary lets the crate's tests run it.

use std::process::ExitCode;

use everturn_tools::process::warden;

fn main() -> ExitCode {
    warden::dispatch().unwrap_or(ExitCode::FAILURE)
}
