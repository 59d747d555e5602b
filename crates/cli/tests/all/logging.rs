//! The log: for people as text, for programs as JSON.

use std::collections::BTreeSet;
use std::path::Path;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, within};
use serde_json::{Value, json};

use crate::shell::Home;

/// The lines of a log that a program reads: all of them are objects.
fn objects(stderr: &str) -> Vec<Value> {
    let lines: Vec<Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(lines.iter().all(Value::is_object), "{stderr}");
    lines
}

#[test]
fn a_program_can_read_the_log() {
    let mut home = Home::new();
    home.set("EVERTURN_LOG", "info");
    home.set("EVERTURN_LOG_FORMAT", "json");
    let outcome = home.run(&["demo"]);
    let lines = objects(&outcome.stderr);
    let ended = |line: &&Value| line["fields"]["message"] == "close";
    let spans: BTreeSet<&str> =
        lines.iter().filter(ended).filter_map(|line| line["span"]["name"].as_str()).collect();
    assert_eq!(spans, ["provider_call", "session", "tool_call", "turn"].into());
    for line in lines.iter().filter(ended) {
        let span = &line["span"];
        assert_eq!(span["outcome"], "completed", "{line}");
        assert!(span["duration_ms"].is_u64() && span["session.id"].is_string(), "{line}");
    }
    let tool = lines.iter().filter(ended).find(|line| line["span"]["tool"] == "edit").expect("the edit");
    let around: Vec<&str> =
        tool["spans"].as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(around, ["session", "turn"]);
}

#[test]
fn a_person_can_read_the_log() {
    // Text showed nothing of the work: only JSON told of spans that end.
    let mut home = Home::new();
    home.set("EVERTURN_LOG", "info");
    let outcome = home.run(&["demo"]);
    for (name, facts) in [
        ("session", &[][..]),
        ("turn", &[]),
        ("provider_call", &["provider=", "model="]),
        ("tool_call", &["tool=\"edit\"", "call.id="]),
    ] {
        let ends = |line: &&str| line.contains("close") && line.contains(&format!("{name}{{session.id=ses_"));
        let said = |line: &str| {
            let span = line.rsplit_once(&format!("{name}{{")).map_or("", |(_, span)| span);
            ["outcome=\"completed\"", "duration_ms="].iter().chain(facts).all(|fact| span.contains(fact))
        };
        let mut found = outcome.stderr.lines().filter(ends);
        assert!(found.any(said), "{name} in {}", outcome.stderr);
    }
}

#[test]
fn whoever_reads_the_log_as_json_finds_nothing_else_there() {
    // Notes and errors for people were once between the objects.
    let mut home = Home::new();
    home.set("EVERTURN_LOG_FORMAT", "json");
    let outcome = home.run(&["run", "--model", "scripted/demo", "hello"]);
    let notes = objects(&outcome.stderr);
    let said = |line: &Value, level: &str, text: &str| {
        let message = line["fields"]["message"].as_str().unwrap_or_default();
        line["level"] == level && message.starts_with(text)
    };
    assert!(notes.iter().any(|line| said(line, "INFO", "session ses_")), "{}", outcome.stderr);

    let failed = home.run(&["session", "show", "ses_nothing"]);
    let [error] = &objects(&failed.stderr)[..] else { panic!("{}", failed.stderr) };
    assert!(said(error, "ERROR", "session not found: ses_nothing"), "{error}");
    assert_eq!(failed.status, Some(1));

    let wrong = home.run(&["session", "dance"]);
    let [error] = &objects(&wrong.stderr)[..] else { panic!("{}", wrong.stderr) };
    assert!(said(error, "ERROR", "error: unrecognized subcommand 'dance'"), "{error}");
    assert_eq!(wrong.status, Some(2));
    let help = home.run(&["--help"]).success();
    assert!(help.contains("Usage: everturn"), "{help}");
}

#[test]
fn settings_of_the_log_that_are_not_understood_are_told() {
    // What was to be logged was not, and neither were warnings.
    let unusable = [("EVERTURN_LOG", "everturn_engine=loud"), ("EVERTURN_LOG_FORMAT", "xml")];
    for (name, value) in unusable {
        let mut home = Home::new();
        home.set(name, value);
        let outcome = home.run(&["session", "list"]);
        assert_eq!(outcome.status, Some(0));
        let told = |line: &str| line.contains("WARN") && line.contains(name) && line.contains(value);
        assert!(outcome.stderr.lines().any(told), "{name}: {}", outcome.stderr);
    }
    let mut home = Home::new();
    home.set("EVERTURN_LOG", "everturn_engine=loud");
    home.set("EVERTURN_LOG_FORMAT", "json");
    let outcome = home.run(&["session", "list"]);
    let told = |line: &Value| line["level"] == "WARN" && line["fields"]["log"] == "everturn_engine=loud";
    assert!(objects(&outcome.stderr).iter().any(told), "{}", outcome.stderr);
}

#[tokio::test]
async fn everything_that_a_server_says_of_itself_is_json() {
    let model = ModelServer::start();
    let mut options = ServerOptions::with_model(&model.base_url());
    options.password = None;
    options.environment = vec![
        ("EVERTURN_LOG".to_owned(), "everturn_engine=info".to_owned()),
        ("EVERTURN_LOG_FORMAT".to_owned(), "json".to_owned()),
    ];
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let token = std::fs::read_to_string(server.home().join("data/everturn/token")).unwrap();
    server.options_mut().password = Some(token.trim().to_owned());
    let client = server.client();
    let session = client.post("/session", &json!({})).await.ok().json();
    let path = format!("/session/{}/prompt_async", session["id"].as_str().unwrap());
    client.post(&path, &json!({"parts": [{"type": "text", "text": "HOLD:x SAY:one two"}]})).await.ok();
    model.held("x").await;
    // What it had to do is continued by the next one, which says so.
    server.restart().await;
    model.release("x");
    let told = async |text: &str| {
        let wait = async {
            while !server.stderr().contains(text) {
                tokio::task::yield_now().await;
            }
        };
        within(text, wait).await;
    };
    told("continuing 1 session that was at work").await;
    told("\"name\":\"turn\"").await;
    let lines = objects(&server.stderr());
    let notes = lines.iter().filter(|line| line["target"] == "everturn::note");
    let notes: Vec<&str> = notes.map(|line| line["fields"]["message"].as_str().unwrap()).collect();
    assert!(notes[0].starts_with("user `opencode`, password in "), "{notes:?}");
    assert!(!server.stderr().contains(token.trim()), "a log is no place for a password");
    assert!(server.stop().await.success());
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
