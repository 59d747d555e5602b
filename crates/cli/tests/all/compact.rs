//! Summaries in place of what no longer fits, and what they keep, from the command line.

use everturn_testkit::{ModelServer, opencode_config};
use serde_json::{Value, json};

use crate::shell::Home;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

/// A home with a session in which something was said.
fn begun() -> (ModelServer, Home, String) {
    let (model, home) = (ModelServer::start(), Home::new());
    home.configure(&opencode_config(&model.base_url()));
    let run = home.run(&["run", "SAY:one"]);
    let id = run.stderr.trim().strip_prefix("session ").expect("the session").to_owned();
    (model, home, id)
}

fn go_on(home: &Home, id: &str, prompt: &str) {
    let run = home.run(&["run", "--session", id, prompt]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_session_is_summed_up_and_gets_its_view_back() {
    let (model, home, id) = begun();
    let refused = home.run(&["session", "compact", &id]).failure(1);
    assert!(refused.contains("would keep all of them word for word"), "{refused}");
    let instructions = ["--instructions", "TELL:we began"];
    let made = home.run(&[&["session", "compact", &id, "--force"], &instructions[..]].concat()).success();
    assert!(
        made.contains(" 2 messages (") && made.contains("summed up, 0 messages (0 tokens) kept"),
        "{made}"
    );
    let listed = parse(&home.run(&["session", "compact", &id, "--list", "--json"]).success());
    let [record] = listed.as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!(
        (&record["summary"], &record["reason"], &record["undone"], &record["summed_up"]["messages"]),
        (&json!("we began"), &json!("manual"), &json!(false), &json!(2))
    );
    go_on(&home, &id, "SAY:two");
    let said = |text: &str| model.prompts().last().unwrap()["messages"].to_string().contains(text);
    assert!(said("What did we do so far?") && said("we began") && !said("SAY:one"));
    let undone = home.run(&["session", "compact", &id, "--undo"]).success();
    assert!(undone.contains("undone: the model sees 2 messages"), "{undone}");
    go_on(&home, &id, "SAY:three");
    assert!(said("SAY:one") && !said("we began"));
    let again = home.run(&["session", "compact", &id, "--undo"]).failure(1);
    assert!(again.contains("there is no compaction that could be undone"), "{again}");
    let redone = home.run(&["session", "compact", &id, "--redo", "--json"]).success();
    assert_eq!(parse(&redone)["undone"], false);
    let table = home.run(&["session", "compact", &id, "--list"]).success();
    assert!(table.contains("asked for"), "{table}");
}

#[test]
fn a_summary_that_fails_is_a_failure() {
    let (_model, home, id) = begun();
    let arguments = ["session", "compact", &id, "--force", "--instructions", "NOSUMMARY:400"];
    let failed = home.run(&arguments).failure(1);
    assert!(failed.contains("the conversation was not summed up: fake error"), "{failed}");
    let listed = home.run(&["session", "compact", &id, "--list"]).success();
    assert!(listed.contains("failed"), "{listed}");
    go_on(&home, &id, "SAY:all right");
}

#[test]
fn what_is_pinned_is_listed_and_goes_with_every_summary() {
    let (model, home, id) = begun();
    let none = home.run(&["session", "pin", &id]);
    assert_eq!((none.status, none.stderr.as_str()), (Some(0), "nothing is pinned in this session\n"));
    let pinned = home.run(&[
        "session",
        "pin",
        &id,
        "--goal",
        "ship it",
        "--fact",
        "port 4096",
        "--fact",
        "no network",
    ]);
    assert_eq!(pinned.success().lines().count(), 4);
    let left = parse(&home.run(&["session", "pin", &id, "--unpin", "1", "--json"]).success());
    assert_eq!(left, json!({"goal": "ship it", "facts": ["no network"]}));
    assert!(home.run(&["session", "pin", &id, "--unpin", "2"]).failure(1).contains("there is no fact 2"));
    assert!(home.run(&["session", "pin", &id, "--fact", " "]).failure(1).contains("a fact is empty"));
    let long = "x".repeat(5_000);
    assert!(home.run(&["session", "pin", &id, "--fact", &long]).failure(1).contains("pin"));
    home.run(&["session", "compact", &id, "--force", "--instructions", "TELL:so far"]).success();
    go_on(&home, &id, "SAY:two");
    let sent = model.prompts().last().unwrap()["messages"].to_string();
    assert!(sent.contains("<goal>\\nship it\\n</goal>") && sent.contains("- no network"), "{sent}");
    let cleared = home.run(&["session", "pin", &id, "--goal", "", "--unpin", "1"]);
    assert_eq!((cleared.status, cleared.stderr.as_str()), (Some(0), "nothing is pinned in this session\n"));
}
