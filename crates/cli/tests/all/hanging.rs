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
