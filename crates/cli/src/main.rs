//! The program: all of it is in the library beside it.

use std::process::ExitCode;

/// Much that a turn does is small values of JSON, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    everturn::run()
}
