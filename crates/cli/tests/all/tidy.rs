//! The order of the house: who may depend on whom, and that no file is forgotten or grows too long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The longest source file allowed, in lines.
const LONGEST: usize = 800;

/// The crates of the workspace and those of them that each may use.
const DIRECTION: [(&str, &[&str]); 9] = [
    ("everturn-model", &[]),
    ("everturn-store", &["everturn-model"]),
    ("everturn-llm", &["everturn-model"]),
    ("everturn-tools", &["everturn-model"]),
    ("everturn-interop", &["everturn-model"]),
    (
        "everturn-engine",
        &["everturn-interop", "everturn-llm", "everturn-model", "everturn-store", "everturn-tools"],
    ),
    ("everturn-api", &["everturn-engine", "everturn-interop", "everturn-model"]),
    (
        "everturn",
        &[
            "everturn-api",
            "everturn-engine",
            "everturn-interop",
            "everturn-llm",
            "everturn-model",
            "everturn-store",
            "everturn-tools",
        ],
    ),
    ("everturn-testkit", &[]),
];

/// Crates of others that only some of ours may use.
const WALLS: [(&str, &[&str]); 5] = [
    ("rusqlite", &["everturn-store", "everturn-testkit"]),
    ("tokio-postgres", &["everturn-store", "everturn-testkit"]),
    ("axum", &["everturn-api", "everturn-testkit"]),
    ("clap", &["everturn"]),
    ("anyhow", &["everturn"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn output(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Each crate with what it needs outside its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = output(cargo, &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let needed = |package: &Value| {
        let all = list(&package["dependencies"]);
        all.iter().filter(|dependency| dependency["kind"] != "dev").map(name).collect()
    };
    list(&metadata["packages"]).iter().map(|package| (name(package), needed(package))).collect()
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

#[test]
fn crates_use_one_another_in_one_direction() {
    let allowed: BTreeMap<&str, &[&str]> = DIRECTION.into();
    let packages = dependencies();
    let gone = allowed.keys().filter(|package| !packages.contains_key(**package));
    let mut complaints: Vec<String> = gone.map(|package| format!("there is no {package} any more")).collect();
    for (package, needed) in packages {
        let Some(allowed) = allowed.get(package.as_str()) else {
            complaints.push(format!("{package} has no place in DIRECTION"));
            continue;
        };
        let own = needed.iter().filter(|name| name.as_str() == "everturn" || name.starts_with("everturn-"));
        let wrong = own.filter(|name| !allowed.contains(&name.as_str()));
        complaints.extend(wrong.map(|name| format!("{package} must not use {name}")));
    }
    check(&complaints);
}

#[test]
fn some_dependencies_stay_behind_walls() {
    let mut complaints = Vec::new();
    for (package, needed) in dependencies() {
        let wrong =
            WALLS.iter().filter(|(name, users)| needed.contains(*name) && !users.contains(&package.as_str()));
        complaints.extend(wrong.map(|(name, users)| format!("{package} uses {name}: only {users:?} may")));
    }
    check(&complaints);
}

/// The modules that a file declares, with the files they may be in.
fn modules(file: &str) -> Vec<[String; 2]> {
    let (folder, name) = file.rsplit_once('/').unwrap();
    let below = match name {
        "main.rs" | "lib.rs" | "mod.rs" => folder.to_owned(),
        _ => file.trim_end_matches(".rs").to_owned(),
    };
    let declared = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')).map(str::to_owned)
    };
    let text = read(file);
    let names = text.lines().filter_map(declared);
    names.map(|name| [format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")]).collect()
}

#[test]
fn no_test_file_is_forgotten() {
    let all: BTreeSet<String> = files()
        .into_iter()
        .filter(|file| file.starts_with("crates/") && file.contains("/tests/") && file.ends_with(".rs"))
        .collect();
    let mut reached: BTreeSet<String> =
        all.iter().filter(|file| file.ends_with("/tests/all/main.rs")).cloned().collect();
    assert!(reached.len() > 1, "one binary of tests in several crates");
    let mut open: Vec<String> = reached.iter().cloned().collect();
    // Tests within a crate may have files of their own too.
    open.extend(files().into_iter().filter(|file| file.contains("/src/") && file.ends_with("/tests.rs")));
    while let Some(file) = open.pop() {
        let fresh = modules(&file).into_iter().flatten().filter(|file| all.contains(file));
        open.extend(fresh.filter(|file| reached.insert(file.clone())));
    }
    let lost = all.difference(&reached);
    check(
        &lost
            .map(|file| format!("{file}: no mod line leads here from tests/all/main.rs or src/…/tests.rs"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn files_say_what_they_are_and_stay_short() {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        let text = read(file);
        if !text.starts_with("//!") {
            complaints.push(format!("{file}: does not open with //!"));
        }
        let lines = text.lines().count();
        if file.contains("/src/") && lines > LONGEST {
            complaints.push(format!("{file}: {lines} lines, more than {LONGEST}"));
        }
    }
    check(&complaints);
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    // In pieces, so that this file does not name them itself.
    let places = ["/wo|rk/", "/ro|ot/", "/ho|me/", "sha|red/reference", "sha|red/bench", "sha|red/fixtures"]
        .map(|place| place.replace('|', ""));
    let mut complaints = Vec::new();
    for file in files() {
        for (number, line) in read(&file).lines().enumerate() {
            let named = places.iter().filter(|place| line.contains(place.as_str()));
            complaints.extend(named.map(|place| format!("{file}:{}: {place}", number + 1)));
        }
    }
    check(&complaints);
}
