//! Models and keys on the command line.

use everturn_testkit::ModelServer;
use serde_json::{Value, json};

use crate::shell::Home;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

#[test]
fn the_catalogue_is_listed_with_prices_and_limits() {
    let mut home = Home::new();
    let listed = home.run(&["models"]);
    assert_eq!(listed.status, Some(0), "{}", listed.stderr);
    let head: Vec<&str> = listed
        .stdout
        .lines()
        .next()
        .unwrap()
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .map(str::trim)
        .collect();
    assert_eq!(
        head,
        ["MODEL", "CONTEXT", "OUTPUT", "IN $/M", "OUT $/M", "CACHED $/M", "ABLE TO", "VARIANTS"]
    );
    let find = |listed: &str, name: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} is not listed: {listed}")).to_owned()
    };
    let haiku = find(&listed.stdout, "anthropic/claude-haiku-4-5");
    let cells: Vec<&str> = haiku.split_whitespace().collect();
    assert_eq!(cells[1..7], ["200k", "64k", "1", "5", "0.1", "tools"], "{haiku}");
    assert!(listed.stderr.contains("there is no key for any of them yet"), "{}", listed.stderr);

    // With a key, what it opens is shown.
    home.set("ANTHROPIC_API_KEY", "sk-test-1234567");
    let own = home.run(&["models"]);
    assert!(
        own.stdout.lines().skip(1).all(|line| line.trim_start().starts_with("anthropic/")),
        "{}",
        own.stdout
    );
    assert!(own.stderr.contains("used unless configured: anthropic/claude-sonnet"), "{}", own.stderr);
    let all = home.run(&["models", "--all"]);
    assert_eq!(all.stdout, listed.stdout);
    assert!(!format!("{own:?}{all:?}").contains("1234567"), "a key is never shown");
}

#[test]
fn json_has_the_same_models_and_exact_prices() {
    let home = Home::new();
    let all = parse(&home.run(&["models", "--all", "--json"]).success());
    let rows = home.run(&["models", "--all"]).stdout.lines().count();
    assert_eq!(all.as_array().unwrap().len() + 1, rows);
    let one = parse(&home.run(&["models", "anthropic/claude-haiku-4-5", "--json"]).success());
    let [one] = one.as_array().unwrap().as_slice() else { panic!("{one}") };
    assert_eq!(one["limit"], json!({"context": 200_000, "input": null, "output": 64_000}));
    assert_eq!(
        one["dollarsPerMillionTokens"],
        json!({"input": 1, "output": 5, "cacheRead": 0.1, "cacheWrite": 1.25})
    );
    assert_eq!((&one["protocol"], &one["usable"]), (&json!("anthropic"), &json!(false)));
    assert!(all.as_array().unwrap().contains(one));
}

#[test]
fn an_unknown_model_names_the_nearest_ones() {
    let mut home = Home::new();
    home.set("ANTHROPIC_API_KEY", "sk-test-1234567");
    for arguments in [
        &["models", "anthropic/claude-sonet-4-5"][..],
        &["run", "--model", "anthropic/claude-sonet-4-5", "hello"],
    ] {
        let complaint = home.run(arguments).failure(1);
        assert!(complaint.contains("there is no model \"anthropic/claude-sonet-4-5\""), "{complaint}");
        assert!(complaint.contains("anthropic/claude-sonnet-4-5"), "{complaint}");
    }
    assert_eq!(home.run(&["session", "list", "--json"]).success().trim(), "[]", "no session was made for it");
}

#[test]
fn without_any_key_a_prompt_is_refused_and_leaves_nothing() {
    let home = Home::new();
    let complaint = home.run(&["run", "hello"]).failure(1);
    assert!(complaint.contains("no model can be used: there is no key for any provider"), "{complaint}");
    assert_eq!(home.run(&["session", "list", "--json"]).success().trim(), "[]", "no session was made for it");
}

#[test]
fn a_key_is_kept_in_a_private_file_and_never_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let said = home.run_with(&["auth", "set", "groq"], "sk-test-1234567\n").success();
    let path = said.trim().strip_prefix("kept in ").unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = home.run(&["auth", "list"]).success();
    assert!(listed.contains("groq") && !listed.contains("1234567"), "{listed}");
    let models = home.run(&["models"]);
    assert!(
        models.stdout.lines().skip(1).all(|line| line.trim_start().starts_with("groq/")),
        "{}",
        models.stdout
    );
    home.run(&["auth", "remove", "groq"]).success();
    assert!(home.run(&["auth", "remove", "groq"]).failure(1).contains("there is no key for groq"));
    assert!(
        home.run_with(&["auth", "set", "grok"], "x")
            .failure(1)
            .contains("there is no provider grok; did you mean groq or xai?")
    );
}

#[test]
fn a_local_server_works_with_nothing_but_its_address() {
    let model = ModelServer::start();
    let home = Home::new();
    let config = json!({"provider": {"local": {"options": {"baseURL": model.base_url()}}}});
    home.configure(&config);
    let said = home.run(&["run", "--model", "local/any-model:7b", "SAY:from here"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.stdout.contains("from here"), "{said:?}");
    let names: Vec<Value> = model.requests().iter().map(|request| request["model"].clone()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name == "any-model:7b"), "{names:?}");
}
