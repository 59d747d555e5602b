//! What a project's configuration asks for, shown and trusted on the command line.

use everturn_testkit::ModelServer;
use serde_json::{Value, json};

use crate::shell::Home;

fn bring(home: &Home, config: &Value) {
    std::fs::write(home.work().join("opencode.json"), config.to_string()).unwrap();
}

/// What a project wants the model to be called, and where that is.
fn provider(model: &ModelServer) -> Value {
    json!({"options": {"baseURL": model.base_url()}, "models": {"m": {}}})
}

#[test]
fn a_project_is_trusted_as_it_is_shown() {
    let model = ModelServer::start();
    let home = Home::new();
    bring(&home, &json!({"model": "theirs/m", "provider": {"theirs": provider(&model)}}));
    let refused = home.run(&["run", "--model", "theirs/m", "SAY:x"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    let told = "this project's configuration asks for more than you have trusted (model, provider.theirs): `everturn trust` shows it";
    assert!(refused.stderr.starts_with(told), "{refused:?}");
    assert!(model.requests().is_empty());

    let shown = home.run(&["trust", "--show"]).success();
    assert!(
        shown.contains("model: which model answers, and who gets the conversation\n  \"theirs/m\"\n"),
        "{shown}"
    );
    assert!(
        shown.contains("provider.theirs: where conversations and keys are sent, and which keys\n"),
        "{shown}"
    );
    // Nobody can be asked in a pipe.
    let unasked = home.run(&["trust"]);
    assert_eq!(unasked.status, Some(1), "{unasked:?}");
    assert!(unasked.stderr.contains("nobody can be asked here: add --yes"), "{unasked:?}");
    let unknown = home.run(&["trust", "--yes", "mcp.x"]).failure(1);
    assert!(unknown.contains("does not ask for mcp.x, only for model, provider.theirs"), "{unknown}");

    assert_eq!(home.run(&["trust", "--yes"]).status, Some(0));
    let said = home.run(&["run", "SAY:from theirs"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "from theirs\n"), "{said:?}");

    // What has changed is shown beside what it was, and has to be trusted again.
    bring(&home, &json!({"model": "theirs/other", "provider": {"theirs": provider(&model)}}));
    let shown = home.run(&["trust", "--show"]).success();
    assert!(shown.contains("  -\"theirs/m\"\n") && shown.contains("  +\"theirs/other\"\n"), "{shown}");
    assert!(!shown.contains("provider.theirs"), "{shown}");
    let report: Value = serde_json::from_str(&home.run(&["trust", "--json"]).success()).unwrap();
    assert_eq!(report["held"], json!([{"name": "model", "asks": "theirs/other", "before": "theirs/m"}]));

    let revoked = home.run(&["trust", "--revoke"]).success();
    assert!(revoked.starts_with("2 things of "), "{revoked}");
    let report: Value = serde_json::from_str(&home.run(&["trust", "--json"]).success()).unwrap();
    assert_eq!(report["held"].as_array().map(Vec::len), Some(2), "{report}");
}

#[test]
fn a_script_says_beforehand_that_a_project_is_trusted() {
    let model = ModelServer::start();
    let home = Home::new();
    bring(&home, &json!({"model": "theirs/m", "provider": {"theirs": provider(&model)}}));
    let said = home.run(&["run", "--trust", "SAY:at once"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "at once\n"), "{said:?}");
    assert!(said.stderr.starts_with("trusted in "), "{said:?}");
    // It is remembered.
    let again = home.run(&["run", "SAY:again"]);
    assert_eq!((again.status, again.stdout.as_str()), (Some(0), "again\n"), "{again:?}");
}

#[test]
fn a_broken_file_stops_no_command() {
    let home = Home::new();
    std::fs::write(home.work().join("opencode.json"), "{\"model\" 1}").unwrap();
    let listed = home.run(&["models"]);
    assert_eq!(listed.status, Some(0), "{listed:?}");
    let place = format!("configuration: {}:1:10: ", home.work().join("opencode.json").display());
    assert!(listed.stderr.contains(&place), "{listed:?}");
}
