//! The log, the engine and the store speak no dialect: the words of OpenCode's contract are in `interop` and `api`
//! alone.
//!
//! The words are made from the recorded contract (`fixtures/opencode/contract-words.py`): names of errors and schemas,
//! types of events, fields in camel case.

use std::collections::{BTreeMap, BTreeSet};

use super::{check, code, read, shipped};

const WORDS: &str = "fixtures/opencode/contract-words-1.18.33.txt";

/// The crates that speak no dialect.
const PLAIN: [&str; 3] = ["crates/engine/", "crates/model/", "crates/store/"];

/// Files that have to know what they read, and why.
const READERS: [(&str, &str); 2] = [
    ("crates/engine/src/import", "imports read what OpenCode wrote"),
    (
        "crates/model/src/earlier.rs",
        "logs of earlier versions hold names of OpenCode, and are never rewritten",
    ),
];

/// Words of the contract that are words of ours too, and why.
const OURS: [(&str, &str); 9] = [
    ("session.created", "an event of ours: the first one of every log, as it is in OpenCode's"),
    ("SessionCreated", "an event of ours"),
    ("todo.updated", "an event of ours, which has the task list and not OpenCode's shape of it"),
    ("TodoUpdated", "an event of ours"),
    ("FileDiff", "a type of ours; it is stored under names of our own"),
    ("ModelRef", "a type of ours; it is stored under names of our own"),
    ("ToolState", "a type of ours; it is stored under names of our own"),
    ("FileEdited", "a signal of ours, which is in no log"),
    ("baseURL", "a key of the configuration, named in a message to the person who wrote it"),
];

/// The words of the contract, and the names of its two versions.
fn words() -> BTreeMap<String, String> {
    let text = read(WORDS);
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    let mut words: BTreeMap<String, String> =
        pairs.map(|(kind, word)| (word.to_owned(), kind.to_owned())).collect();
    for kind in ["error", "event", "field", "schema"] {
        assert!(
            words.values().filter(|found| *found == kind).count() > 30,
            "there are words of the kind {kind}"
        );
    }
    words.extend(["v1", "v2", "V1", "V2"].map(|word| (word.to_owned(), "version".to_owned())));
    words
}

/// The words in a line of code: with dots and hyphens for types of events, and each piece alone.
fn pieces(line: &str) -> BTreeSet<&str> {
    let plain = |character: char| character.is_ascii_alphanumeric();
    let long = line.split(move |character: char| !plain(character) && !"_.-".contains(character));
    let long = long.map(|word| word.trim_matches(['.', '-', '_']));
    long.clone().chain(long.flat_map(move |word| word.split(move |c: char| !plain(c) && c != '_'))).collect()
}

/// Whether a word with dots is the field of a value, as in `project.updated = now`: the type of an event is a literal.
fn is_field(line: &str, word: &str) -> bool {
    word.contains('.') && !line.contains(&format!("\"{word}"))
}

#[test]
fn the_log_the_engine_and_the_store_speak_no_dialect() {
    let words = words();
    let mut complaints = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in shipped() {
        let reads = READERS.iter().any(|(reader, _)| file.starts_with(reader));
        if !PLAIN.iter().any(|plain| file.starts_with(plain)) || reads {
            continue;
        }
        for (number, line) in code(&text) {
            for word in pieces(line).into_iter().filter(|word| !is_field(line, word)) {
                let Some(kind) = words.get(word) else { continue };
                match OURS.iter().find(|(listed, _)| *listed == word) {
                    Some((listed, _)) => drop(used.insert(*listed)),
                    None => complaints.push(format!("{file}:{number}: {word} is a {kind} of OpenCode")),
                }
            }
        }
    }
    let idle = OURS.iter().map(|(word, _)| *word).filter(|listed| !used.contains(listed));
    complaints.extend(idle.map(|word| format!("{word} is listed here and is nowhere any more")));
    check(&complaints);
}

#[test]
fn words_are_found_in_code() {
    let found =
        pieces(r#"let fault = json!({"name": "APIError", "type": "session.next.moved"}); // x.isRetryable"#);
    for word in ["APIError", "session.next.moved", "session", "isRetryable", "fault"] {
        assert!(found.contains(word), "{word}");
    }
    assert!(!found.contains("Error"));
    assert!(is_field("project.updated = self.now();", "project.updated"));
    assert!(!is_field(r#"let kind = "project.updated";"#, "project.updated"));
    assert!(!is_field(r#"let text = "{\"type\":\"project.updated\"}";"#, "project.updated"));
    assert!(!is_field("let name = clientName;", "clientName"));
}
