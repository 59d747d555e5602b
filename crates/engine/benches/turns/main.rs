//! Measures what a turn costs besides the model and the disk, and what many sessions that stream at once do.
//!
//! `cargo bench -p everturn-engine --bench turns` runs everything on SQLite; `-- turn` or `-- crowd` runs one, `-- --full`
//! lets the crowd stream for ten minutes. Times depend on the machine: what a commit takes is measured in the same run, on
//! the same disk.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark prints, and fails at once when something is wrong"
)]

mod commits;
mod crowd;
mod ground;
mod turn;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This program is the supervisor of the commands that it runs, as the product is of its.
    if let Some(code) = everturn_tools::process::supervisor::dispatch() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !named("turn") && !named("crowd");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        if all || named("turn") {
            turn::measure().await;
        }
        if all || named("crowd") {
            crowd::measure(if named("--full") { 600 } else { 20 }).await;
        }
    });
    ExitCode::SUCCESS
}
