//! Files that would be waited for, or read without end, if anybody did: nothing hangs on them.

use std::path::{Path, PathBuf};
use std::process::Command;

use everturn_testkit::{ModelServer, within};
use serde_json::json;

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
        ("{file:./pipe}", "it is a named pipe, not an ordinary file"),
        ("{file:/dev/zero}", "it is a device, not an ordinary file"),
        ("{file:/proc/self/pagemap}", "it has more than 4194304 bytes"),
    ] {
        let home = Home::new();
        pipe(home.work().join("pipe"));
        let config = json!({"provider": {"p": {"options": {"apiKey": place}}}});
        std::fs::write(home.work().join("opencode.json"), config.to_string()).unwrap();
        let complaint = home.run(&["models"]).failure(1);
        assert!(complaint.contains(reason), "{place}: {complaint}");
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
