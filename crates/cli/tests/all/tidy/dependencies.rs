//! Which crate may use which.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{check, output};

/// The crates of the workspace and those of them that each may use.
const DIRECTION: [(&str, &[&str]); 10] = [
    ("everturn-model", &[]),
    ("everturn-sse", &[]),
    ("everturn-store", &["everturn-model"]),
    ("everturn-llm", &["everturn-model", "everturn-sse"]),
    ("everturn-tools", &["everturn-model", "everturn-sse"]),
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
