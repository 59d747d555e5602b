//! The order of the house, checked.
//!
//! - `behaviours`: the page of behaviours names tests that there are
//! - `dependencies`: which crate may use which
//! - `dialect`: the log, the engine and the store speak no dialect
//! - `engine`: how long its files are, and how much its handle does
//! - `environment`: where variables and home folders are read
//! - `files`: no file is forgotten, too long or silent about itself
//! - `layout`: the Layout lists name the modules that there are
//! - `limits`: the table of limits says what the code says
//! - `links`: links lead to what is there
//! - `named_tests`: how pages name tests
//! - `names`: one type name, one meaning
//! - `output`: what is printed is printed in one place
//! - `pages`: what the pages name exists
//! - `style`: imports and derives look alike

mod behaviours;
mod dependencies;
mod dialect;
mod engine;
mod environment;
mod files;
mod layout;
mod limits;
mod links;
mod named_tests;
mod names;
mod output;
mod pages;
mod style;
mod threats;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn output(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The files that are or will be in the repository, except recorded material.
fn files() -> Vec<String> {
    let listed = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
    let there = |file: &&str| !file.starts_with("fixtures/") && root().join(file).is_file();
    listed.lines().filter(there).map(str::to_owned).collect()
}

fn read(file: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(file)).unwrap()).into_owned()
}

/// Fails with all complaints at once.
fn check(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A module that a file declares.
struct Declared {
    name: String,
    /// It is only there for tests.
    test: bool,
    /// The files it may be in.
    files: [String; 2],
}

/// The modules that a file declares and that have files of their own.
fn modules(file: &str) -> Vec<Declared> {
    let (folder, name) = file.rsplit_once('/').unwrap();
    let below = match name {
        "main.rs" | "lib.rs" | "mod.rs" => folder.to_owned(),
        _ => file.trim_end_matches(".rs").to_owned(),
    };
    let mut test = false;
    let mut declared = Vec::new();
    for line in read(file).lines().map(str::trim) {
        let bare = ["pub(crate) ", "pub(super) ", "pub "].iter().find_map(|prefix| line.strip_prefix(prefix));
        let name = bare.unwrap_or(line).strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
        if let Some(name) = name {
            let files = [format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")];
            declared.push(Declared { name: name.to_owned(), test, files });
        }
        // Other attributes may stand between this one and its module.
        test = line == "#[cfg(test)]" || test && line.starts_with("#[");
    }
    declared
}

/// Source files that are part of a crate and not of its tests, with their code and comments. Tests at their end are
/// left out.
fn shipped() -> Vec<(String, String)> {
    let roots = |file: &String| {
        let parts: Vec<&str> = file.split('/').collect();
        matches!(
            parts.as_slice(),
            ["crates", _, "src", "lib.rs" | "main.rs"] | ["crates", _, "src", "bin", _]
        )
    };
    let all = files();
    let mut open: Vec<String> = all.iter().filter(|file| roots(file)).cloned().collect();
    let mut shipped = Vec::new();
    while let Some(file) = open.pop() {
        let below = modules(&file).into_iter().filter(|module| !module.test);
        open.extend(below.flat_map(|module| module.files).filter(|file| all.contains(file)));
        let text = read(&file);
        let text = text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text.as_str(), |(text, _)| text);
        shipped.push((file, text.to_owned()));
    }
    shipped.sort();
    assert!(shipped.len() > 300, "the files of all crates are found");
    shipped
}

/// The lines of a text that are not comments, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}
