//! The log: for people as text, for programs as JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::shell::Home;

#[test]
fn a_program_can_read_the_log() {
    let mut home = Home::new();
    home.set("EVERTURN_LOG", "info");
    home.set("EVERTURN_LOG_FORMAT", "json");
    let outcome = home.run(&["demo"]);
    let lines: Vec<Value> =
        outcome.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let ended = |line: &&Value| line["fields"]["message"] == "close";
    let spans: BTreeSet<&str> =
        lines.iter().filter(ended).filter_map(|line| line["span"]["name"].as_str()).collect();
    assert_eq!(spans, ["provider_call", "session", "tool_call", "turn"].into());
    let tool = lines.iter().filter(ended).find(|line| line["span"]["tool"] == "edit").expect("the edit");
    assert_eq!(tool["span"]["outcome"], "Completed");
    assert!(tool["span"]["duration_ms"].is_u64(), "{tool}");
    let around: Vec<&str> =
        tool["spans"].as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(around, ["session", "turn"]);
}

#[test]
fn a_format_that_is_none_is_said() {
    let mut home = Home::new();
    home.set("EVERTURN_LOG_FORMAT", "yaml");
    let outcome = home.run(&["demo"]);
    assert!(
        outcome.stderr.contains("EVERTURN_LOG_FORMAT is neither `text` nor `json`"),
        "{}",
        outcome.stderr
    );
}
