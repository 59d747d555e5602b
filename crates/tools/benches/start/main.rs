//! Measures what the sandbox adds to a command: a whole call of the `bash` tool with it and without, in turn.
//!
//! `cargo bench -p everturn-tools --bench start` runs everything, `-- --quick` with fewer rounds. The command is `true`
//! in a project of 400 folders with a repository, another one in a folder, and protected files at several depths. Times depend on the machine and on what else it does; both sides
//! are measured in one run.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and fails at once when something is wrong"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_tools::bash::BashTool;
use everturn_tools::process::Launcher;
use everturn_tools::process::sandbox::{SandboxNetwork, SandboxPart, SandboxReport, SandboxSettings};
use everturn_tools::{Context, Scope, Tool as _};
use serde_json::json;
use tokio::runtime::Runtime;

/// The binary that can be a supervisor.
const SUPERVISOR: &str = env!("CARGO_BIN_EXE_everturn-supervisor");

/// How often each side is measured.
const ROUNDS: usize = 201;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 21 } else { ROUNDS };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let scope = Arc::new(project(&root));
    let report = SandboxReport::probe(SUPERVISOR.as_ref()).unwrap();
    println!("{:?}, Landlock {}; `true`, {rounds} rounds", report.level(), report.landlock);
    println!();
    println!("| | median | more than without | ratio | quickest | more than without |");
    println!("|---|---:|---:|---:|---:|---:|");
    let all = report.parts();
    let of = |parts: &BTreeSet<SandboxPart>, network| {
        let sandbox = SandboxSettings { parts: parts.clone(), network, ..SandboxSettings::default() };
        Arc::new(Scope { sandbox: Some(sandbox), ..(*scope).clone() })
    };
    let unmounted: BTreeSet<SandboxPart> =
        all.iter().copied().filter(|part| *part != SandboxPart::Mounts).collect();
    let sides = [
        ("without a sandbox", Arc::clone(&scope)),
        ("sandbox", of(&all, SandboxNetwork::Host)),
        ("sandbox, network of its own", of(&all, SandboxNetwork::Own)),
        ("sandbox without mounts", of(&unmounted, SandboxNetwork::Host)),
    ];
    let tool = tool();
    let runtime = Runtime::new().unwrap();
    let mut times = vec![Vec::new(); sides.len()];
    for round in 0..=rounds {
        for (at, (_, scope)) in sides.iter().enumerate() {
            let time = runtime.block_on(run(&tool, scope));
            // The first round warms the cache.
            if round > 0 {
                times[at].push(time);
            }
        }
    }
    let mut plain = None;
    for ((name, _), times) in sides.iter().zip(&mut times) {
        times.sort_unstable();
        let (median, quickest) = (times[times.len() / 2], times[0]);
        let plain = *plain.get_or_insert((median, quickest));
        let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
        println!(
            "| {name} | {} | {} | {:.2} | {} | {} |",
            milliseconds(median),
            milliseconds(median.saturating_sub(plain.0)),
            median.as_secs_f64() / plain.0.as_secs_f64(),
            milliseconds(quickest),
            milliseconds(quickest.saturating_sub(plain.1)),
        );
    }
}

/// A project with what the sandbox has to protect.
fn project(root: &Path) -> Scope {
    let worktree = root.join("project");
    for number in 0..400 {
        fs::create_dir_all(worktree.join(format!("packages/{}/src/{}", number % 20, number / 20))).unwrap();
    }
    for name in [
        ".git/HEAD",
        ".git/config",
        ".git/hooks/README",
        ".github/workflows/ci.yml",
        ".vscode/tasks.json",
        "AGENTS.md",
        "nested/.git/HEAD",
        "nested/.git/config",
        "packages/1/AGENTS.md",
        "packages/2/.vscode/tasks.json",
        "packages/3/src/4/AGENTS.md",
    ] {
        let path = worktree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    Scope {
        directory: worktree.clone(),
        worktree,
        output_dir: root.join("output"),
        home: root.join("home"),
        sandbox: None,
    }
}

fn tool() -> BashTool {
    let launcher = Launcher { supervisor: Some(SUPERVISOR.into()), ..Launcher::default() };
    BashTool { launcher, ..BashTool::default() }
}

async fn run(tool: &BashTool, scope: &Arc<Scope>) -> Duration {
    let (context, _reports) = Context::new(Arc::clone(scope));
    let started = Instant::now();
    let output = tool.run(json!({ "command": "true", "description": "nothing" }), context).await.unwrap();
    let time = started.elapsed();
    assert_eq!(output.metadata["exit"], 0);
    time
}
