//! Measures how the cost of the sandbox grows with a project: a whole call of the `bash` tool with the command `true`, and
//! of what a `write` has to know before it may begin, at 1, 10 and 100 times a usual size.
//!
//! `cargo bench -p everturn-tools --bench scale` runs everything, `-- names` and the like one kind of project. Each
//! project is measured in a process of its own, so that what it keeps in memory can be told.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and fails at once when something is wrong"
)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_tools::bash::BashTool;
use everturn_tools::process::Launcher;
use everturn_tools::process::sandbox::{SandboxReport, SandboxSettings};
use everturn_tools::write::WriteTool;
use everturn_tools::{Context, Scope, Tool as _};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::projects::{KINDS, Kind};

mod projects;

/// The binary that can be a supervisor.
const SUPERVISOR: &str = env!("CARGO_BIN_EXE_everturn-supervisor");

/// How often a command is measured, after one that warms the cache.
const ROUNDS: usize = 7;

/// What a process is told that measures one project.
const ONE: &str = "--one";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [_, name, size] = arguments.as_slice() {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        measure(kind, size.parse().unwrap());
        return;
    }
    println!("| project with | | command | processor | first `write` | processor | memory |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let is_meant = |kind: &&Kind| arguments.is_empty() || arguments.iter().any(|name| name == kind.name);
    for kind in KINDS.iter().filter(is_meant) {
        for size in kind.sizes {
            let this = env::current_exe().unwrap();
            let done = Command::new(this).args([ONE, kind.name, &size.to_string()]).status().unwrap();
            assert!(done.success());
        }
    }
}

/// Measures one project, and prints its line.
fn measure(kind: &Kind, size: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let scope = scope(&root);
    (kind.make)(&scope.worktree, size);
    let launcher = Launcher { supervisor: Some(SUPERVISOR.into()), ..Launcher::default() };
    let tool = BashTool { launcher, ..BashTool::default() };
    let runtime = Runtime::new().unwrap();
    let before = in_memory();
    let (started, idle) = (Instant::now(), processor_time());
    let input = json!({ "filePath": scope.worktree.join("new.txt"), "content": "" });
    WriteTool.needs(&input, &scope).unwrap();
    let (write, looked) = (started.elapsed(), processor_time() - idle);
    let after = in_memory();
    runtime.block_on(run(&tool, &scope));
    let worked = processor_time();
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| runtime.block_on(run(&tool, &scope))).collect();
    times.sort_unstable();
    let worked = (processor_time() - worked) / u32::try_from(ROUNDS).unwrap();
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    println!(
        "| {} | {size} | {} | {} | {} | {} | {:.1} MB |",
        kind.says,
        milliseconds(times[times.len() / 2]),
        milliseconds(worked),
        milliseconds(write),
        milliseconds(looked),
        (after.saturating_sub(before)) as f64 / 1e6,
    );
}

fn scope(root: &Path) -> Arc<Scope> {
    let report = SandboxReport::probe(SUPERVISOR.as_ref()).unwrap();
    let worktree = root.join("project");
    fs::create_dir_all(&worktree).unwrap();
    Arc::new(Scope {
        directory: worktree.clone(),
        worktree,
        output_dir: root.join("output"),
        home: root.join("home"),
        sandbox: Some(SandboxSettings { parts: report.parts(), ..SandboxSettings::default() }),
    })
}

/// What of this process is in memory, in bytes.
fn in_memory() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// What this process and those that it has waited for have used of the processor, in hundredths of a second. Unlike the time
/// on the clock it says little about what else the machine does. The init of a sandbox, which makes the mounts, is not among
/// them: nobody waits for it.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let numbers = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = numbers.skip(11).take(4).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

async fn run(tool: &BashTool, scope: &Arc<Scope>) -> Duration {
    let (context, _reports) = Context::new(Arc::clone(scope));
    let started = Instant::now();
    let output = tool.run(json!({ "command": "true", "description": "nothing" }), context).await;
    let time = started.elapsed();
    assert_eq!(output.unwrap().metadata["exit"], 0);
    time
}
