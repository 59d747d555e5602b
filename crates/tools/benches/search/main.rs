//! Measures grep and glob beside the `rg` program on the same files in the same run, and prints ratios.
//!
//! `cargo bench -p everturn-tools` runs everything, `-- --quick` with fewer samples, a word such as `-- literal` only
//! the lines that contain it. Ours is a whole call of the tool, from its arguments to the text for the model; the other
//! side is a whole run of `rg`, from starting the process to the end of its output, with flags that make it look at the
//! same files. Both are done in turn, after one run of each that warms the cache. Times depend on the machine; the
//! ratios are what `docs/benchmarks.md` records.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark prints, and fails at once when something is wrong"
)]

mod forest;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_tools::glob::GlobTool;
use everturn_tools::grep::GrepTool;
use everturn_tools::{Context, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How often each side is measured; the median counts.
const ROUNDS: usize = 31;

/// What both sides look for.
enum Hunt {
    Grep(&'static str),
    Glob(&'static str),
}

const HUNTS: [(&str, Hunt); 6] = [
    ("grep: literal, few hits", Hunt::Grep(forest::RARE)),
    ("grep: regex", Hunt::Grep(r"fn \w+_handler\(\w+: &str\) -> Result<u\d+>")),
    ("grep: many hits", Hunt::Grep("return")),
    ("grep: no hits", Hunt::Grep("nowhere_to_be_found")),
    ("glob: `**/*.rs`", Hunt::Glob("**/*.rs")),
    ("glob: rare `**/config.toml`", Hunt::Glob("**/config.toml")),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let rounds = if arguments.iter().any(|argument| argument == "--quick") { 7 } else { ROUNDS };
    let words: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let version = version();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let forest = forest::plant(&root);
    println!(
        "{version}; {} files, {} MB, {} of them ignored",
        forest.files,
        forest.bytes / 1_000_000,
        forest.ignored
    );
    println!();
    println!("| {} files | ours | `rg` | ratio | quickest: ours | `rg` | ratio |", forest.files);
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let runtime = Runtime::new().unwrap();
    for (name, hunt) in &HUNTS {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            compare(name, hunt, &root, &runtime, rounds);
        }
    }
}

fn compare(name: &str, hunt: &Hunt, root: &Path, runtime: &Runtime, rounds: usize) {
    agree(name, hunt, root, runtime);
    let mut times: [Vec<Duration>; 2] = Default::default();
    for round in 0..rounds {
        // Whoever comes second finds the processor as the first left it, so they take turns.
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let start = Instant::now();
            if side == 0 {
                ours(hunt, 100, root, runtime);
            } else {
                theirs(hunt, root);
            }
            times[side].push(start.elapsed());
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [median, least] = [rounds / 2, 0].map(|at| [times[0][at], times[1][at]]);
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let ratio = |[ours, theirs]: [Duration; 2]| ours.as_secs_f64() / theirs.as_secs_f64();
    println!(
        "| {name} | {} | {} | {:.2} | {} | {} | {:.2} |",
        ms(median[0]),
        ms(median[1]),
        ratio(median),
        ms(least[0]),
        ms(least[1]),
        ratio(least)
    );
}

/// Makes sure that both sides find the same: as many lines or files, as far as we show them.
fn agree(name: &str, hunt: &Hunt, root: &Path, runtime: &Runtime) {
    let theirs = theirs(hunt, root);
    let output = ours(hunt, 1000, root, runtime);
    let (key, shown) = match hunt {
        Hunt::Grep(_) => ("matches", output.metadata["matches"].as_u64().unwrap()),
        Hunt::Glob(_) => ("count", output.metadata["count"].as_u64().unwrap()),
    };
    let expected = theirs.min(1000);
    assert_eq!((shown, output.metadata["truncated"] == true), (expected, theirs > 1000), "{name}: {key}");
}

fn ours(hunt: &Hunt, limit: usize, root: &Path, runtime: &Runtime) -> Output {
    let scope = Scope {
        directory: root.to_owned(),
        worktree: root.to_owned(),
        output_dir: root.join(".git/output"),
        home: "/nowhere".into(),
        sandbox: None,
    };
    let context = Context::new(Arc::new(scope)).0;
    let call = |tool: &dyn Tool, input: Value| runtime.block_on(tool.run(input, context)).unwrap();
    match hunt {
        Hunt::Grep(pattern) => call(&GrepTool::default(), json!({ "pattern": pattern, "limit": limit })),
        Hunt::Glob(pattern) => call(&GlobTool::default(), json!({ "pattern": pattern, "limit": limit })),
    }
}

/// Runs `rg` over the same files, and counts the lines that it prints.
fn theirs(hunt: &Hunt, root: &Path) -> u64 {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--color=never", "--hidden", "--glob=!.git"]);
    match hunt {
        Hunt::Grep(pattern) => command.args(["--line-number", "--no-heading", "--regexp", pattern]).arg(root),
        Hunt::Glob(pattern) => command.args(["--files", "--glob", pattern]).arg(root),
    };
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.iter().filter(|byte| **byte == b'\n').count().try_into().unwrap()
}

fn version() -> String {
    let output = Command::new("rg").arg("--version").output().unwrap_or_else(|error| {
        panic!("rg is needed beside us and could not be started ({error}): install ripgrep, for example `apt-get install ripgrep`")
    });
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}
