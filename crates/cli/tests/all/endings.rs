//! Whatever a provider does, a run ends in time, and its terminal and `session show` say why.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use everturn_testkit::hostile_provider::{HostileProvider, Malice};
use everturn_testkit::{ModelServer, opencode_config};
use serde_json::{Value, json};

use crate::shell::{Home, Outcome};

/// How long a run may take whose limits are below a second.
const IN_TIME: Duration = Duration::from_secs(30);

/// A run with a provider, and how its session is shown afterwards.
fn run(config: &Value, prompt: &str) -> (Outcome, String) {
    let home = Home::new();
    home.configure(config);
    let began = Instant::now();
    let outcome = home.run(&["run", prompt]);
    assert!(began.elapsed() < IN_TIME, "{prompt}: {:?}", began.elapsed());
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--json"]).success()).expect("a list");
    let shown = home.run(&["session", "show", listed[0]["id"].as_str().unwrap()]).success();
    (outcome, shown)
}

/// That a run failed, and that the terminal and the session say why.
fn check(config: &Value, prompt: &str, reason: &str) -> (Outcome, String) {
    let (outcome, shown) = run(config, prompt);
    assert_eq!(outcome.status, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    let error = shown.split_once("  error: ").map(|(_, error)| error);
    assert!(error.is_some_and(|error| error.contains(reason)), "{shown}");
    assert!(!shown.contains("a turn is open"), "{shown}");
    (outcome, shown)
}

#[test]
fn a_provider_that_hangs_or_only_drips_is_given_up() {
    for malice in [Malice::Hangs, Malice::Drips] {
        let provider = HostileProvider::start(malice);
        let config = provider.config(&json!({"inactivity": 0.3, "turn": 1}));
        check(&config, "hello", "the provider sent nothing for 0.3 seconds");
    }
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let model = ModelServer::start();
    let mut config = opencode_config(&model.base_url());
    config["limits"] = json!({"turn": 0.5});
    let reason = "The provider took longer for this turn than the 500 milliseconds that are allowed.";
    let (outcome, shown) = check(&config, "SLOW:40 TEXT:500", reason);
    assert!(outcome.stdout.starts_with("word0 ") && shown.contains("  word0 "), "what came is kept: {shown}");
}

#[test]
fn a_provider_that_breaks_off_every_answer_is_given_up() {
    let provider = HostileProvider::start(Malice::Cuts);
    let reason = "the provider's answer is incomplete: it ended without a finish reason";
    let (outcome, shown) = check(&provider.config(&json!({})), "hello", reason);
    // Each answer has one word. The numbers between them are those of the names that it was asked for.
    for text in [&outcome.stdout, &shown] {
        let words: HashSet<&str> = text.split_whitespace().filter(|word| word.starts_with("word")).collect();
        assert_eq!((words.len(), text.matches("word").count()), (3, 3), "{text}");
    }
    assert!(
        outcome.stderr.contains(&format!("attempt 2 failed: {reason}; the next one is in ")),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_pause_that_a_provider_asks_for_is_told_and_waited_for() {
    // Nothing was shown meanwhile, as if it hung.
    let model = ModelServer::start();
    let (outcome, shown) = run(&opencode_config(&model.base_url()), "ERR:429x1 RETRY-AFTER:2 SAY:at last");
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(0), "at last\n"), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("attempt 1 failed: fake error; the next one is in 2 s"),
        "{}",
        outcome.stderr
    );
    assert!(shown.contains("  [attempt 1 failed] fake error\n  at last"), "{shown}");
}

#[test]
fn a_pause_that_is_too_long_ends_the_run() {
    let model = ModelServer::start();
    check(
        &opencode_config(&model.base_url()),
        "ERR:429 RETRY-AFTER:90000",
        "The provider asks to wait 25 hours",
    );
    assert_eq!(model.prompts().len(), 1);
}

#[test]
fn an_answer_that_was_cut_short_is_no_success() {
    // It ended with status 0 and without a word.
    let home = Home::new();
    let cut = |finish: &str| {
        let script = json!([{"text": "as far as it goes", "finish": finish}]);
        std::fs::write(home.work().join("cut.json"), script.to_string()).unwrap();
        home.run(&["run", "--model", "scripted/./cut.json", "go"])
    };
    for (finish, reason) in [("length", "reached the longest length"), ("content-filter", "filter")] {
        let outcome = cut(finish);
        assert_eq!(outcome.status, Some(1), "{finish}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(reason), "{finish}: {}", outcome.stderr);
    }
    assert_eq!(cut("stop").status, Some(0));
}

#[test]
fn a_key_that_is_refused_is_named_with_what_to_do() {
    let model = ModelServer::start();
    let home = Home::new();
    home.configure(&opencode_config(&model.base_url()));
    let refused = home.run(&["run", "ERR:401"]).failure(1);
    let expected = "fake does not accept the key: fake error; `everturn auth set fake` gives it another one";
    assert!(refused.contains(expected), "{refused}");
}
