//! The child process, with the model server standing in for the real binary.

use std::os::unix::fs::PermissionsExt;

use everturn_testkit::EverturnServer;
use everturn_testkit::process::ServerOptions;

/// A program that takes the server's arguments, tells its environment and listens.
fn stand_in(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("stand-in");
    let program = env!("CARGO_BIN_EXE_model-server");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >&2\necho run >> \"$XDG_DATA_HOME/runs\"\n\
         test -f \"$OPENCODE_CONFIG\" || exit 3\ntest -z \"$FAIL\" || exit 4\nexec {program} 0\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn start_kill_restart() {
    let folder = tempfile::tempdir().unwrap();
    let binary = stand_in(folder.path());
    let mut server = EverturnServer::start(&binary, ServerOptions::with_model("http://127.0.0.1:1/v1")).await;
    let first = server.base_url().to_owned();
    assert_eq!(server.client().get("/models").await.ok().json()["object"], "list");
    assert_eq!(server.auth_header().unwrap(), "Basic b3BlbmNvZGU6dGVzdC1wYXNzd29yZA==");

    let client = server.client();
    server.kill9().await;
    assert!(client.try_send("GET".parse().unwrap(), "/models", None).await.is_err());

    server.restart().await;
    assert!(server.client().get("/models").await.status == 200);
    server.restart().await;
    let runs = std::fs::read_to_string(server.home().join("data/runs")).unwrap();
    assert_eq!(runs, "run\nrun\nrun\n", "the same data for every run");
    assert!(server.stdout().contains(&first), "{}", server.stdout());
    assert!(server.stderr().contains("serve --hostname 127.0.0.1 --port 0"), "{}", server.stderr());
    assert!(!server.stop().await.success(), "the stand-in does not handle the signal");
}

#[tokio::test]
#[should_panic(expected = "the server ended before it listened")]
async fn a_server_that_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let binary = stand_in(folder.path());
    let mut options = ServerOptions::with_model("http://127.0.0.1:1/v1");
    options.environment.push(("FAIL".into(), "1".into()));
    EverturnServer::start(&binary, options).await;
}
