//! Session files of pi and omp: real ones made by the real programs, hand-made ones and random ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on fails; clippy.toml covers test functions but not their helpers"
)]

mod cases;
mod damage;
mod golden;
mod meaning;
mod native;
mod property;
mod roundtrip;

use std::fs;
use std::path::PathBuf;

use everturn_interop::pi::{self, SessionFile};
use everturn_model::derived_ids::DerivedIds;
use everturn_model::event::{Event, Record};
use everturn_model::{Tree, fold};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pi")
}

/// The names of all input files.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .filter(|name| !name.ends_with(".after-open"))
        .collect();
    names.sort();
    names
}

fn source(name: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{name}.jsonl"))).unwrap()
}

/// A golden, where the real program gave one.
fn golden(name: &str, kind: &str) -> Option<Value> {
    let bytes = fs::read(folder().join(format!("{name}.expected-{kind}.json"))).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn omp_golden(name: &str) -> Option<Value> {
    let bytes = fs::read(folder().join(format!("omp18/{name}.omp-18.2.3.json"))).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

/// The tree of a file, through the log: its creation and its import are written, stored as JSON and folded.
fn import(file: &SessionFile) -> Tree {
    let mut mint = DerivedIds::new("records");
    let events = [
        Event::SessionCreated { session: Box::new(file.session.clone()) },
        Event::SessionImported { dialect: pi::DIALECT.to_owned(), seed: Box::new(file.seed.clone()) },
    ];
    let records: Vec<Record> = (0..)
        .zip(events)
        .map(|(seq, event)| {
            let stored = serde_json::to_string(&event).unwrap();
            let event: Event = serde_json::from_str(&stored).unwrap();
            let time = file.session.time.updated;
            Record { id: mint.event(time), session: file.session.id.clone(), seq, time, event, subject: None }
        })
        .collect();
    let tree = fold::replay(&records).unwrap().unwrap();
    let direct = file.tree();
    assert_eq!(tree.nodes(), direct.nodes());
    assert_eq!(tree.session.leaf, direct.session.leaf);
    tree
}

fn tree(bytes: &[u8]) -> Tree {
    import(&pi::read(bytes).unwrap())
}

/// The values of a file's lines, for comparing files as JSON.
fn values(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let text = text.trim_start_matches('\u{feff}');
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
