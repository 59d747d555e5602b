//! The binary as the supervisor of the commands it runs.

use std::time::{Duration, Instant};

use crate::shell::Home;

/// Whether a process with this in its command line is alive.
fn alive(marker: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line);
        line.contains(marker) && line.starts_with("sleep")
    })
}

#[test]
fn a_command_sees_no_keys_and_leaves_no_daemon() {
    let mut home = Home::new();
    for name in ["ANTHROPIC_API_KEY", "DEEPINFRA_API_KEY", "EVERTURN_LOG", "OPENAI_API_KEY_2"] {
        home.set(name, "error");
    }
    home.set("ORDINARY", "seen");
    // Keys that the configuration names are keys, whatever the names: commands were shown them.
    for name in ["MY_OWN", "MY_HEADER", "MY_SEARCH"] {
        home.set(name, "hidden");
    }
    let options = serde_json::json!({"apiKey": "{env:MY_OWN}", "headers": {"X-A": "Bearer {env:MY_HEADER}"},
        "baseURL": "http://127.0.0.1:9/{env:ORDINARY}"});
    let config = serde_json::json!({"provider": {"mine": {"options": options}},
        "websearch": {"provider": "exa", "key": "{env:MY_SEARCH}"}});
    home.configure(&config);
    let marker = format!("8{:07}.25", std::process::id());
    let command = format!(
        "echo ${{ANTHROPIC_API_KEY-none}} ${{DEEPINFRA_API_KEY-none}} ${{EVERTURN_LOG-none}} ${{OPENAI_API_KEY_2-none}} \
         ${{MY_OWN-none}} ${{MY_HEADER-none}} ${{MY_SEARCH-none}} $ORDINARY > seen; \
         tr '\\0' ' ' < /proc/$PPID/cmdline > supervisor; setsid -f env -i sleep {marker}"
    );
    let input = serde_json::json!({ "command": command, "description": "look" });
    let steps = serde_json::json!([
        { "text": "Looking.", "tools": [{ "name": "bash", "input": input }] },
        { "text": "Done." },
    ]);
    std::fs::write(home.work().join("play.json"), steps.to_string()).unwrap();
    let started = Instant::now();
    let played = home.run(&["run", "--model", "scripted/./play.json", "look"]);
    assert_eq!(played.status, Some(0), "{}", played.stderr);
    let read = |name: &str| std::fs::read_to_string(home.work().join(name)).unwrap();
    assert_eq!(read("seen"), "none none none none none none none seen\n");
    assert_eq!(read("supervisor"), "everturn __supervisor ");
    assert!(!alive(&marker));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_mcp_server_leaves_no_daemon() {
    // It was held by its process group alone, which a daemon is not in.
    let home = Home::new();
    let marker = format!("8{:07}.75", std::process::id());
    let line =
        format!("tr '\\0' ' ' < /proc/$PPID/cmdline > supervisor; setsid -f env -i sleep {marker}; exit 3");
    let config = serde_json::json!({"mcp": {"s": {"type": "local", "command": ["sh", "-c", line]}}});
    std::fs::write(home.work().join("opencode.json"), config.to_string()).unwrap();
    assert_eq!(home.run(&["mcp", "trust", "s", "--yes"]).status, Some(0));
    let listed = home.run(&["mcp", "list"]);
    assert!(
        listed.stdout.contains("the server ended (exit status: 3)"),
        "{}{}",
        listed.stdout,
        listed.stderr
    );
    assert_eq!(std::fs::read_to_string(home.work().join("supervisor")).unwrap(), "everturn __supervisor ");
    assert!(!alive(&marker));
}
