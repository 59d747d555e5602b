//! `everturn mcp` on the real binary: what a project brings does not run before the person says so.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::shell::Home;

/// A server that leaves a file where it runs.
fn server(mode: &str) -> Value {
    let line = format!("echo ran > ran; exec python3 scripted.py {mode} /dev/null");
    json!({"type": "local", "command": ["sh", "-c", line]})
}

fn write(folder: &Path, mcp: &Value) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("opencode.json"), json!({"mcp": mcp}).to_string()).unwrap();
}

#[test]
fn what_a_project_brings_runs_only_when_it_is_allowed() {
    let mut home = Home::new();
    let configuration = tempfile::tempdir().unwrap();
    home.set("XDG_CONFIG_HOME", configuration.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/tests/all/mcp/scripted.py");
    fs::copy(script, home.work().join("scripted.py")).unwrap();
    let ran = home.work().join("ran");
    write(home.work(), &json!({"s": server("plain")}));
    let listed = home.run(&["mcp", "list"]).success();
    assert!(listed.contains("not allowed") && listed.contains("everturn mcp trust s"), "{listed}");
    assert!(!ran.exists(), "it ran");

    // It was allowed without a question, which `everturn trust` asks.
    let unasked = home.run(&["mcp", "trust"]);
    assert_eq!(unasked.status, Some(1), "{unasked:?}");
    assert!(unasked.stdout.starts_with("s: ") && unasked.stdout.contains("exec python3"), "{unasked:?}");
    assert!(unasked.stderr.contains("nobody can be asked here: add --yes"), "{unasked:?}");
    home.run(&["mcp", "list"]).success();
    assert!(!ran.exists(), "it ran");
    let allowed = home.run(&["mcp", "trust", "--yes"]).success();
    assert!(allowed.contains("s may run in ") && allowed.contains("exec python3"), "{allowed}");
    let listed = home.run(&["mcp", "list"]).success();
    assert!(listed.contains("connected") && listed.contains("s_echo"), "{listed}");
    assert!(ran.exists());

    // Another definition under the same name is another server.
    fs::remove_file(&ran).unwrap();
    write(home.work(), &json!({"s": server("names")}));
    let listed = home.run(&["mcp", "list"]).success();
    assert!(listed.contains("not allowed"), "{listed}");
    home.run(&["mcp", "trust", "s", "--yes"]).success();
    let unasked = home.run(&["mcp", "untrust", "s"]).failure(1);
    assert!(unasked.contains("nobody can be asked here: add --yes"), "{unasked}");
    let revoked = home.run(&["mcp", "untrust", "s", "--yes"]).success();
    assert!(revoked.starts_with("1 server may not run in "), "{revoked}");
    home.run(&["mcp", "list"]).success();
    assert!(!ran.exists(), "it ran");
    let unknown = home.run(&["mcp", "trust", "t"]).failure(1);
    assert!(unknown.contains("no MCP server t waits for it here, only s"), "{unknown}");

    // A server of the person's own needs no permission, until a project changes it.
    write(&configuration.path().join("opencode"), &json!({"mine": server("plain")}));
    write(home.work(), &json!({}));
    let listed = home.run(&["mcp", "list"]).success();
    assert!(listed.contains("connected") && listed.contains("mine_echo"), "{listed}");
    fs::remove_file(&ran).unwrap();
    write(home.work(), &json!({"mine": {"environment": {"NODE_OPTIONS": "--require ./evil.js"}}}));
    let listed = home.run(&["mcp", "list"]).success();
    assert!(listed.contains("not allowed"), "{listed}");
    assert!(!ran.exists(), "it ran");
}
