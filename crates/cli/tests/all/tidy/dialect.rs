//! The log, the engine and the store speak no dialect: the words of OpenCode's contract are in `interop` and `api`
//! alone.
//!
//! The words are made from the recorded contract (`fixtures/opencode/contract-words.py`): names of errors and schemas,
//! types of events, fields in camel case, and the words for why a model stopped.

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

/// Words of the contract that one file alone may say, because they mean something of ours there, and what.
const OURS_IN: [(&str, &[&str], &str); 7] = [
    (
        "crates/engine/src/config/agent_definition.rs",
        &["maxSteps"],
        "a key of OpenCode's configuration files that people still have",
    ),
    ("crates/engine/src/structured/fit.rs", &["additionalProperties"], "a word of JSON schemas"),
    (
        "crates/engine/src/config/known_keys.rs",
        &["logLevel", "maxSteps", "stop"],
        "keys of OpenCode's configuration files, which are no mistake although they mean nothing here, and words that switch off",
    ),
    (
        "crates/model/src/finish.rs",
        &["content-filter", "error", "length", "stop", "tool-calls", "unknown"],
        "why a model stopped, as our log has it; what OpenCode's clients are told is said in `interop`",
    ),
    ("crates/model/src/tool.rs", &["error"], "the state of a call, as our log has it"),
    ("crates/engine/src/calls.rs", &["error"], "a field of what the model sent to a tool that there is not"),
    ("crates/engine/src/work_span.rs", &["unknown"], "what became of a piece of work, in spans"),
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
    assert!(words.values().any(|found| found == "finish"), "there are words for why a model stopped");
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

/// Whether a word that can be ordinary English stands alone in quotes, as in `finish == "stop"`.
fn is_alone(line: &str, word: &str) -> bool {
    line.contains(&format!("\"{word}\"")) || line.contains(&format!("\"{word}\\\""))
}

/// The words of the contract that a line of code says, with their kinds.
fn said<'l>(line: &'l str, words: &'l BTreeMap<String, String>) -> impl Iterator<Item = (&'l str, &'l str)> {
    let known = |word: &'l str| words.get(word).map(|kind| (word, kind.as_str()));
    pieces(line).into_iter().filter_map(known).filter(|(word, kind)| match *kind {
        "finish" => is_alone(line, word),
        _ => !is_field(line, word),
    })
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
            for (word, kind) in said(line, &words) {
                let here = OURS_IN.iter().find(|(place, listed, _)| *place == file && listed.contains(&word));
                if let Some((place, ..)) = here {
                    used.insert((*place, word.to_owned()));
                } else if OURS.iter().any(|(listed, _)| *listed == word) {
                    used.insert(("", word.to_owned()));
                } else {
                    complaints
                        .push(format!("{file}:{number}: {word} is a word of OpenCode's contract ({kind})"));
                }
            }
        }
    }
    let everywhere = OURS.iter().map(|(word, _)| ("", *word));
    let here = OURS_IN.iter().flat_map(|(place, words, _)| words.iter().map(|word| (*place, *word)));
    let idle = everywhere.chain(here).filter(|(place, word)| !used.contains(&(*place, (*word).to_owned())));
    complaints
        .extend(idle.map(|(place, word)| format!("{word} is listed here and is nowhere any more {place}")));
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

    let words = words();
    for (line, expected) in [
        (r#"if finish == "tool-calls" {"#, &[("tool-calls", "finish")][..]),
        (r#"Finish::Stop => "stop","#, &[("stop", "finish")]),
        (r#"let text = "{\"finish\":\"length\"}";"#, &[("length", "finish")]),
        (r#"let text = "the length of an error";"#, &[]),
        ("self.stop(); Some(other)", &[]),
        (r#"name: "APIError","#, &[("APIError", "error")]),
        (r"entry.responseBody = body;", &[("responseBody", "field")]),
    ] {
        assert_eq!(said(line, &words).collect::<Vec<_>>(), expected, "{line}");
    }
}
