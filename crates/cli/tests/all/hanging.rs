//! Files that would be waited for, or read without end, if anybody did: nothing hangs on them.

use std::path::{Path, PathBuf};
use std::process::Command;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, within};
use serde_json::{Map, Value, json};

use crate::shell::Home;
use crate::stage::Stage;

/// A pipe that nobody writes to.
fn pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a Unicode path")
}

#[test]
fn commands_refuse_what_is_no_ordinary_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path().join("pipe"));
    for arguments in [
        &["inspect", text(&pipe)][..],
        &["session", "import", text(&pipe)],
        &["restore", text(&pipe)],
        &["inspect", "/dev/zero"],
        &["session", "import", "/dev/zero"],
    ] {
        let home = Home::new();
        let complaint = home.run(arguments).failure(1);
        assert!(complaint.contains("not an ordinary file"), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_configuration_does_not_make_commands_wait() {
    for (place, reason) in [
        ("{file:PIPE}", "it is a named pipe, not an ordinary file"),
        ("{file:/dev/zero}", "it is a device, not an ordinary file"),
        ("{file:/proc/self/pagemap}", "it has more than 1048576 bytes"),
    ] {
        let home = Home::new();
        let path = pipe(home.work().join("pipe"));
        let place = place.replace("PIPE", text(&path));
        let config = json!({"provider": {"p": {"options": {"apiKey": place}}}});
        home.configure(&config);
        let listed = home.run(&["models"]);
        assert_eq!(listed.status, Some(0), "{place}: {listed:?}");
        assert!(listed.stderr.contains("`provider.p` is left out"), "{place}: {listed:?}");
        assert!(listed.stderr.contains(reason), "{place}: {listed:?}");
    }
}

#[tokio::test]
async fn a_server_ends_although_a_file_would_be_waited_for() {
    // Looking for a key waited for the pipe, and so did the end of the server.
    let mut stage = Stage::with(Path::new(env!("CARGO_BIN_EXE_everturn")), ModelServer::start()).await;
    let folder = stage.server.home().join("data/opencode");
    std::fs::create_dir_all(&folder).unwrap();
    pipe(folder.join("auth.json"));
    within("an answer", stage.client().get("/provider")).await.ok();
    let said = stage.server.stderr();
    assert!(said.contains("not an ordinary file"), "{said}");
    assert!(stage.server.stop().await.success());
}

#[tokio::test]
async fn a_server_answers_and_ends_while_rules_are_put_together() {
    // The list of agents was made where requests are answered: until it was there, nobody else got an answer, and the server
    // did not end.
    let mut options = ServerOptions::with_model("http://127.0.0.1:9");
    // Each has to do with all others, so that there is no end of what they say together.
    let action = |at: usize| Value::from(if at.is_multiple_of(2) { "deny" } else { "allow" });
    let rules: Map<String, Value> = (0..400).map(|at| (format!("*word{at}*"), action(at))).collect();
    options.config["permission"] = json!({"bash": rules});
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    // More than are worked on at once.
    let ask = |client: Client| tokio::spawn(async move { client.get("/agent").await });
    let asking: Vec<_> = (0..8).map(|_| ask(server.client())).collect();
    for _ in 0..20 {
        within("an answer", server.client().get("/session")).await.ok();
    }
    assert!(asking.iter().all(|asking| !asking.is_finished()), "there was an end of it");
    asking.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(server.stop().await.success());
}
