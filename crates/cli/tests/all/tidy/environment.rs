//! Variables and home folders are read in one place, so that everything else can be run with any environment.

use super::{check, code, shipped};

/// The one place for variables, and the one for home folders.
const READERS: [(&str, &[&str]); 2] = [
    ("crates/cli/src/environment.rs", &["var_os", "vars_os"]),
    ("crates/cli/src/settings.rs", &["home_dir"]),
];

/// Names that mean the environment of this process wherever they stand: as calls, as values and in imports.
const NAMES: [&str; 7] = ["var_os", "vars_os", "home_dir", "BaseDirs", "ProjectDirs", "UserDirs", "getenv"];

/// Names that mean it when they come from `env`: alone they are ordinary words.
const OF_ENV: [&str; 3] = ["var", "vars", "*"];

/// The words and signs of a text without its comments, each with the line it is in.
pub(super) fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (number, mut rest) in code(text) {
        while let Some(first) = rest.chars().next() {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            let end = match rest.find(|character| !is_word(character)) {
                Some(0) if rest.starts_with("::") => 2,
                Some(0) => first.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            };
            let (token, after) = rest.split_at(end);
            if !token.trim().is_empty() {
                tokens.push((number, token));
            }
            rest = after;
        }
    }
    tokens
}

/// Where a text reads the environment, however it spells it, with the word that does.
fn reads(text: &str) -> Vec<(usize, &str)> {
    let tokens = tokens(text);
    let mut reads = Vec::new();
    for (at, (number, token)) in tokens.iter().enumerate() {
        let mut after = tokens[at + 1..].iter().map(|(_, token)| *token);
        match *token {
            name if NAMES.contains(&name) => reads.push((*number, name)),
            "env" => match (after.next(), after.next()) {
                // Under another name it could not be followed.
                (Some("as"), _) => reads.push((*number, "env as")),
                (Some("::"), Some("{")) => {
                    let listed = after.take_while(|token| *token != "}");
                    let read = listed.filter(|token| OF_ENV.contains(token) || *token == "as");
                    reads.extend(read.map(|token| (*number, token)));
                }
                (Some("::"), Some(name)) if OF_ENV.contains(&name) => reads.push((*number, name)),
                _ => {}
            },
            _ => {}
        }
    }
    reads
}

#[test]
fn the_environment_is_read_in_one_place() {
    let mut complaints = Vec::new();
    let mut found = Vec::new();
    // The kit for tests is never part of the product, and starts programs that need a PATH.
    for (file, text) in shipped().into_iter().filter(|(file, _)| !file.starts_with("crates/testkit/")) {
        let known = READERS.iter().find(|(reader, _)| *reader == file).map_or(&[][..], |(_, names)| names);
        for (number, read) in reads(&text) {
            match known.iter().find(|name| **name == read) {
                Some(name) => found.push(*name),
                None => complaints.push(format!("{file}:{number}: `{read}` belongs into one of {READERS:?}")),
            }
        }
    }
    for (reader, names) in READERS {
        assert!(names.iter().all(|name| found.contains(name)), "{reader} reads {names:?}: {found:?}");
    }
    check(&complaints);
}

#[test]
fn the_environment_is_recognised_however_it_is_spelt() {
    for (text, words) in [
        (r#"let home = std::env::var("HOME");"#, &["var"][..]),
        (r#"let home = env::var::<&str>("HOME");"#, &["var"]),
        ("use std::env::var_os;\n\nlet home = var_os(name);", &["var_os", "var_os"]),
        ("use std::env::{self, var};", &["var"]),
        ("use std::env::{\n    args,\n    vars as all,\n};", &["vars", "as"]),
        ("use std::env::*;", &["*"]),
        ("use std::env as surroundings;", &["env as"]),
        ("use std::env::{self as surroundings};", &["as"]),
        ("names.filter_map(std::env::var_os)", &["var_os"]),
        ("let all = std::env\n    ::vars();", &["vars"]),
        ("let home = std::env::home_dir();", &["home_dir"]),
        ("let base = directories::BaseDirs::new()?;", &["BaseDirs"]),
        ("let home = unsafe { libc::getenv(name) };", &["getenv"]),
        ("let system = std::env::consts::OS;", &[]),
        ("if env::args_os().nth(1)? != ARGUMENT {", &[]),
        ("let (var, vars) = (environment.var(name), 2 * 3);", &[]),
        (r#"concat!("everturn/", env!("CARGO_PKG_VERSION"))"#, &[]),
        ("// as std::env::var does", &[]),
    ] {
        let found: Vec<&str> = reads(text).into_iter().map(|(_, word)| word).collect();
        assert_eq!(found, words, "{text}");
    }
}
