//! A hostile model: lines that reach for secrets, sockets, ports and files that run by themselves. Each is first run
//! without the sandbox, where it gets through, and then in it, where none does.
//!
//! What the rules would ask a person about is run as well, with nothing permitted: the wall does not lean on them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use everturn_testkit::hostile::{HostileField, HostileMachine, ReachGenerator, corpus};
use everturn_tools::peer::{PeerProcess, caller};
use everturn_tools::process::sandbox::{SandboxPart, SandboxSettings};
use everturn_tools::{Scope, Tool as _};
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::json;

use super::{EnclosedBash, all, as_ordinary_user, enclosed, enclosed_by, require_whole};
use crate::bash::quick;
use crate::harness::Project;

/// How many lines run side by side.
const SIDE_BY_SIDE: usize = 6;

/// How many made lines share a field and a sandbox.
const BATCH: usize = 50;

/// How often and how long it is waited for what was sent.
const ARRIVALS: usize = 100;
const ARRIVAL: Duration = Duration::from_millis(20);

/// How many lines are made: all of them in a long campaign.
const MADE: usize = 300;
const MADE_IN_FULL: usize = 5000;

/// Whether the wall is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wall {
    Up,
    Down,
}

impl Wall {
    /// The machine; with a wall its port says nothing to programs of an agent, as the server does.
    fn machine(self) -> &'static HostileMachine {
        static UP: LazyLock<HostileMachine> = LazyLock::new(|| {
            HostileMachine::start("up", |peer, local| caller(peer, local) != PeerProcess::Person)
        });
        static DOWN: LazyLock<HostileMachine> = LazyLock::new(|| HostileMachine::start("down", |_, _| false));
        match self {
            Self::Up => &UP,
            Self::Down => &DOWN,
        }
    }
}

/// A field with a project in which the tool works.
struct WorkedField {
    field: HostileField,
    project: Project,
}

impl WorkedField {
    fn new(wall: Wall) -> Self {
        let mut project = Project::new();
        let base = project.outside();
        project.scope = Arc::new(Scope { home: base.join("haus"), ..Scope::clone(&project.scope) });
        Self { field: HostileField::plant(&base, wall.machine()), project }
    }
}

/// The sandbox as it is by default.
fn settings() -> SandboxSettings {
    SandboxSettings { parts: all(), ..SandboxSettings::default() }
}

/// The tool that a model has.
fn tool(wall: Wall) -> EnclosedBash {
    match wall {
        Wall::Up => enclosed_by(settings()),
        Wall::Down => quick().into(),
    }
}

/// Runs something in a field, and tells what it printed.
async fn run(worked: &WorkedField, wall: Wall, text: &str) -> String {
    let command = worked.field.place(&format!("export HOME=@HOME\n{text}"));
    let input = json!({"command": command, "description": "hostile", "timeout": 300_000});
    match worked.project.run_with(Vec::new(), &tool(wall), input).await {
        Ok(output) => output.output,
        Err(failure) => failure.to_string(),
    }
}

/// What a line gets at or does, in a field of its own.
async fn attempt(wall: Wall, line: &str) -> Vec<String> {
    let worked = WorkedField::new(wall);
    let said = run(&worked, wall, line).await;
    let mut harm = worked.field.harm(&said);
    // What was sent may still be on its way.
    for _ in 0..ARRIVALS {
        if !harm.is_empty() || wall == Wall::Up || !line.contains("@CAPTURE") {
            break;
        }
        tokio::time::sleep(ARRIVAL).await;
        harm = worked.field.harm(&said);
    }
    harm
}

/// The lines with what they got at or did.
async fn attempts<'a>(wall: Wall, lines: impl Iterator<Item = &'a str>) -> Vec<(&'a str, Vec<String>)> {
    let attempts = stream::iter(lines).map(|line| async move { (line, attempt(wall, line).await) });
    attempts.buffer_unordered(SIDE_BY_SIDE).collect().await
}

/// Runs lines one after the other in one field; each has a shell of its own, and begins with its number.
async fn attempt_batch(wall: Wall, lines: &[String]) -> (String, Vec<String>) {
    let worked = WorkedField::new(wall);
    let placed: String = lines.iter().map(|line| worked.field.place(line) + "\0").collect();
    worked.project.file("lines", placed);
    let driver = "n=0; while IFS= read -r -d '' line <&7; do printf '\\n@%s\\n' $n; n=$((n + 1)); \
                  timeout 5 bash -c \"$line\" 7<&- < /dev/null 2>&1; done 7< lines; echo; echo @end";
    let said = run(&worked, wall, driver).await;
    let harm = worked.field.harm(&said);
    (said, harm)
}

/// Each line of a family gets through where nothing stands in its way, but for those that need a program that is missing.
async fn check_open(family: &str) {
    let lines = &corpus()[family];
    let attempts =
        attempts(Wall::Down, lines.iter().filter(|line| !line.drastic).map(|line| line.text)).await;
    let needed = |text: &str| lines.iter().any(|line| line.text == text && !line.optional);
    let harmless: Vec<&str> = attempts
        .into_iter()
        .filter(|(line, harm)| harm.is_empty() && needed(line))
        .map(|(line, _)| line)
        .collect();
    assert_eq!(harmless, Vec::<&str>::new());
}

/// No line of a family gets through the wall.
async fn check_walled(family: &str) {
    require_whole();
    let lines = &corpus()[family];
    let mut attempts = attempts(Wall::Up, lines.iter().map(|line| line.text)).await;
    attempts.retain(|(_, harm)| !harm.is_empty());
    assert!(attempts.is_empty(), "{attempts:#?}");
}

/// Three tests for each family: without the wall, with it, and with it as an ordinary user.
macro_rules! families {
    ($($test:ident: $name:literal,)*) => {
        /// The families that are tested.
        const FAMILIES: &[&str] = &[$($name,)*];

        mod open {
            $(#[tokio::test]
            async fn $test() {
                super::check_open($name).await;
            })*
        }

        mod walled {
            $(#[tokio::test]
            async fn $test() {
                super::check_walled($name).await;
            })*
        }

        mod ordinary {
            $(#[test]
            fn $test() {
                super::as_ordinary_user(&[concat!("sandbox::hostile::walled::", stringify!($test))]);
            })*
        }
    };
}

families! {
    archives: "archives",
    caches: "caches",
    environment: "environment",
    git: "git",
    globs: "globs",
    interpreters: "interpreters",
    jobs: "jobs",
    links: "links",
    paths: "paths",
    proc: "proc",
    protected_names: "protected names",
    redirections: "redirections",
    sending: "sending",
    sockets: "sockets",
    substitutions: "substitutions",
    variables: "variables",
}

#[test]
fn there_are_lines_enough() {
    let corpus = corpus();
    assert_eq!(corpus.keys().copied().collect::<Vec<_>>(), FAMILIES);
    let mut texts: Vec<&str> = corpus.values().flatten().map(|line| line.text).collect();
    let count = texts.len();
    assert!(count >= 400, "{count}");
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), count, "a line is there twice");
}

#[test]
fn where_a_part_is_missing_each_line_asks() {
    let project = Project::new();
    let mut generator = ReachGenerator::new(13);
    let made: Vec<String> = (0..MADE).map(|_| generator.line()).collect();
    let corpus = corpus();
    let written = corpus.values().flatten().map(|line| line.text);
    let lines: Vec<&str> = written.chain(made.iter().map(String::as_str)).collect();
    for part in SandboxPart::ALL {
        let tool = enclosed(SandboxPart::ALL.into_iter().filter(|other| *other != part).collect());
        for line in &lines {
            let needs = tool.needs(&crate::bash::command(line), &project.scope).unwrap();
            assert!(needs.iter().any(|need| need.permission == "outside_sandbox"), "without {part}: {line}");
        }
    }
}

#[tokio::test]
async fn made_lines_do_not_get_through_the_wall_either() {
    require_whole();
    let count = if std::env::var_os("EVERTURN_TEST_FULL").is_some() { MADE_IN_FULL } else { MADE };
    let mut generator = ReachGenerator::new(13);
    let lines: Vec<String> = (0..count).map(|_| generator.line()).collect();
    let batches = stream::iter(lines.chunks(BATCH))
        .map(|batch| async move { (batch, attempt_batch(Wall::Up, batch).await) });
    let batches: Vec<_> = batches.buffer_unordered(2).collect().await;
    let mut found = Vec::new();
    for (batch, (said, harm)) in batches {
        assert!(said.contains("@end"), "not all of them ran: {said}");
        if !harm.is_empty() {
            // Which of them it was.
            let mut single = attempts(Wall::Up, batch.iter().map(String::as_str)).await;
            single.retain(|(_, harm)| !harm.is_empty());
            found.push((harm, single));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test]
async fn made_lines_are_real_attempts() {
    let mut generator = ReachGenerator::new(13);
    let lines: Vec<String> = (0..60).map(|_| generator.line()).collect();
    let attempts = attempts(Wall::Down, lines.iter().map(String::as_str)).await;
    let harmless: Vec<&str> =
        attempts.iter().filter(|(_, harm)| harm.is_empty()).map(|(line, _)| *line).collect();
    assert!(harmless.len() <= lines.len() / 3, "{harmless:#?}");
}
