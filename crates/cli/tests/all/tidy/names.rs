//! Type names: one name has one meaning in the whole workspace.

use std::collections::{BTreeMap, BTreeSet};

use super::{check, code, shipped};

/// Names that may be there several times: once below each of these paths, and nowhere else.
const SHARED: [(&str, &[&str], &str); 14] = [
    (
        "Error",
        &["api", "engine", "interop", "llm", "model", "store"],
        "the error of a crate, always written with the crate where two meet: `store::Error`",
    ),
    ("Options", &["api", "engine", "store"], "what a crate is opened with, always written with the crate"),
    ("Decoder", PROTOCOLS, "the four protocols are built alike"),
    ("OpenBlock", PROTOCOLS, "the four protocols are built alike"),
    ("TokenCounts", PROTOCOLS, "the four protocols are built alike"),
    ("AnswerEncoder", TEST_PROTOCOLS, "the four protocols of the scripted model are built alike"),
    ("OpenPart", TEST_PROTOCOLS, "the four protocols of the scripted model are built alike"),
    ("FoundSchema", ENGINES, "the two engines are built alike"),
    ("Job", ENGINES, "the two engines are built alike"),
    ("JobAnswer", ENGINES, "the two engines are built alike"),
    ("Listed", ENGINES, "the two engines are built alike"),
    ("PendingAppend", ENGINES, "the two engines are built alike"),
    ("Pool", ENGINES, "the two engines are built alike"),
    ("WriterHandle", ENGINES, "the two engines are built alike"),
];

const PROTOCOLS: &[&str] =
    &["llm/src/anthropic", "llm/src/gemini", "llm/src/openai_chat", "llm/src/openai_responses"];

const TEST_PROTOCOLS: &[&str] = &[
    "testkit/src/model_server/wire/anthropic",
    "testkit/src/model_server/wire/chat",
    "testkit/src/model_server/wire/gemini",
    "testkit/src/model_server/wire/responses",
];

const ENGINES: &[&str] = &["store/src/postgres", "store/src/sqlite"];

/// The type that a line of code defines.
fn defined(line: &str) -> Option<&str> {
    let inner = line.starts_with(' ');
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => rest,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let (word, rest) = line.strip_prefix("unsafe ").unwrap_or(line).split_once(' ')?;
    // A `type` further in belongs to a trait or to its implementation.
    let defines = matches!(word, "struct" | "enum" | "trait" | "union") || word == "type" && !inner;
    let name = rest.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
    (defines && name.starts_with(|first: char| first.is_ascii_uppercase())).then_some(name)
}

/// All types with the files that define them, below `crates/`.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in shipped() {
        let file = file.trim_start_matches("crates/").to_owned();
        let names = code(&text).filter_map(|(_, line)| defined(line));
        names.for_each(|name| types.entry(name.to_owned()).or_default().push(file.clone()));
    }
    types
}

/// Whether each of the files lies below another one of the paths.
fn is_shared(files: &[String], paths: &[&str]) -> bool {
    let home = |file: &String| {
        let inside =
            |path: &&&str| file.strip_prefix(**path).is_some_and(|rest| rest.starts_with(['/', '.']));
        paths.iter().find(inside)
    };
    let homes: Option<BTreeSet<_>> = files.iter().map(home).collect();
    homes.is_some_and(|homes| homes.len() == files.len())
}

#[test]
fn one_type_name_has_one_meaning() {
    let types = types();
    assert!(types.len() > 500, "the types of all crates are found");
    let mut complaints = Vec::new();
    for (name, files) in types.iter().filter(|(_, files)| files.len() > 1) {
        let shared = SHARED.iter().any(|(shared, paths, _)| shared == name && is_shared(files, paths));
        if !shared {
            complaints.push(format!("{name} is {} types: {}", files.len(), files.join(", ")));
        }
    }
    let listed = SHARED.iter().map(|(name, ..)| *name);
    let idle = listed.filter(|name| types.get(*name).is_none_or(|files| files.len() < 2));
    complaints.extend(idle.map(|name| format!("{name} is listed here and is not several types")));
    check(&complaints);
}

#[test]
fn definitions_are_seen() {
    assert_eq!(defined("pub(crate) struct Lease<'l> {"), Some("Lease"));
    assert_eq!(defined("        pub enum $name {"), None);
    assert_eq!(defined("    pub enum Event {"), Some("Event"));
    assert_eq!(defined("type Row = (u64, String);"), Some("Row"));
    assert_eq!(defined("    type Error = Refusal;"), None);
    let files =
        ["store/src/sqlite.rs", "store/src/postgres/pool.rs", "store/src/postgres.rs"].map(str::to_owned);
    assert!(is_shared(&files[..2], ENGINES));
    assert!(!is_shared(&files, ENGINES));
}
