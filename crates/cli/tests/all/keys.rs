//! Keys in the environment of the server: they work, and nobody else reads them.

use std::path::Path;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, opencode_config};
use serde_json::{Value, json};

use crate::shell::Home;
use crate::stage::prompt;

/// What is searched for, each test its own: whoever starts a program with keys has them until it has started itself again.
/// It is written in two pieces wherever it is not meant to be found.
type Canary = [&'static str; 2];

const OF_A_SERVER: Canary = ["canary", "0123456789"];
const OF_A_RUN: Canary = ["canary", "9876543210"];

/// A command that shows every variable with the canary in it of every process that it can look at, itself included.
fn search(canary: Canary) -> String {
    let canary = canary.join("'-'");
    let look = format!("OWN={canary} cat /proc/[0-9]*/environ 2>/dev/null");
    format!("{look} | tr '\\0' '\\n' | grep -a {canary} | sort -u")
}

/// What that command finds where no other process has one.
fn found(canary: Canary) -> String {
    format!("OWN={}\n", canary.join("-"))
}

/// A configuration with a key from a variable of a name that nobody knows. There is no sandbox: in it no other process is
/// seen, whatever it has.
fn config(model: &ModelServer) -> Value {
    let mut config = opencode_config(&model.base_url());
    config["provider"]["fake"]["options"]["apiKey"] = json!("{env:ODD_NAME}");
    config["permission"] = json!("allow");
    config["sandbox"] = json!("off");
    config
}

fn variables(canary: Canary) -> Vec<(String, String)> {
    let canary = canary.join("-");
    let keys = ["ODD_NAME", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "EXA_API_KEY"];
    keys.into_iter()
        .chain(["EVERTURN_SERVER_PASSWORD"])
        .map(|name| (name.to_owned(), format!("{canary}-{name}")))
        .collect()
}

#[tokio::test]
async fn a_command_of_the_agent_finds_no_key_in_any_process() {
    // The environment that the server was started with could be read by everything of the same account.
    let model = ModelServer::start();
    let mut options = ServerOptions::with_model(&model.base_url());
    options.config = config(&model);
    options.environment = variables(OF_A_SERVER);
    options.password = Some(format!("{}-EVERTURN_SERVER_PASSWORD", OF_A_SERVER.join("-")));
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let client = server.client();
    let session = client.post("/session", &json!({})).await.ok().json();
    let path = format!("/session/{}/message", session["id"].as_str().unwrap());
    client.post(&path, &prompt(&format!("TOOL:bash:{}", search(OF_A_SERVER)))).await.ok();
    let messages = client.get(&path).await.ok().json();
    let parts = messages.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
    let outputs: Vec<&Value> =
        parts.filter(|part| part["type"] == "tool").map(|part| &part["state"]["output"]).collect();
    assert_eq!(outputs, [&json!(found(OF_A_SERVER))]);
    // The key and the password are used all the same.
    let sent = model.arrivals();
    let key = format!("Bearer {}-ODD_NAME", OF_A_SERVER.join("-"));
    assert!(sent.iter().all(|request| request.headers.get("authorization") == Some(&key)), "{sent:?}");
    // Nothing is left open by which they were handed over, and standard input is the real one.
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let links: Vec<String> = files
        .filter_map(|file| Some(std::fs::read_link(file.ok()?.path()).ok()?.display().to_string()))
        .collect();
    assert!(links.iter().any(|link| link == "/dev/null"), "{links:?}");
    assert!(!links.iter().any(|link| link.starts_with("/memfd:")), "{links:?}");
    let input = std::fs::read_link(format!("/proc/{}/fd/0", server.pid())).unwrap();
    assert_eq!(input, Path::new("/dev/null"));
    assert!(server.stop().await.success());
}

#[test]
fn a_run_keeps_its_keys_and_its_arguments() {
    let model = ModelServer::start();
    let mut home = Home::new();
    let file = home.work().join("settings.json");
    std::fs::write(&file, config(&model).to_string()).unwrap();
    home.set("OPENCODE_CONFIG", &file);
    for (name, value) in variables(OF_A_RUN) {
        home.set(&name, value);
    }
    let outcome = home.run(&["run", &format!("TOOL:bash:{}\nSAY:two  words", search(OF_A_RUN))]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.ends_with("two  words\n"), "{}", outcome.stdout);
    let listed = home.run(&["session", "list", "--json"]).success();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let shown = home.run(&["session", "show", listed[0]["id"].as_str().unwrap(), "--json"]).success();
    assert!(shown.contains(&format!("\"output\": {}", json!(found(OF_A_RUN)))), "{shown}");
    let key = format!("Bearer {}-ODD_NAME", OF_A_RUN.join("-"));
    assert_eq!(model.arrivals()[0].headers.get("authorization"), Some(&key));
}
