//! Who decides, on the real binary: whoever has the connection when the decision comes, and nobody who has left it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

use everturn_testkit::within;

use crate::approval::{LEAVER, Scene};

/// Runs a program that no server has started, and waits for its end.
async fn run(scene: &Scene, arguments: &[&str], environment: &[(&str, &str)]) {
    let mut program = Command::new("python3");
    program.current_dir(scene.repo.path()).args(arguments).envs(environment.iter().copied());
    assert!(within("a program", program.status()).await.unwrap().success(), "{arguments:?}");
}

#[tokio::test]
async fn a_decision_goes_by_who_sends_it_and_not_by_who_has_connected() {
    let scene = Scene::new(Some("off")).await;
    let url = scene.url();
    // Nothing that was started here is above it, so it is let in; that a call has started it shows when it is looked for.
    run(&scene, &["answer.py", &url, "marked.txt"], &[("EVERTURN_CALL", "call_of_another_server")]).await;
    let told = scene.told("marked.txt").await;
    assert!(told.starts_with("403 ") && told.contains("a program that the agent started"), "{told}");
    // It does all else that a person's program does.
    run(&scene, &["ask.py", &url, "reads.txt", "plain"], &[("EVERTURN_CALL", "call_of_another_server")])
        .await;
    assert_eq!(scene.told("reads.txt").await, "HTTP/1.1 200 OK");
    // The person's own client decides.
    run(&scene, &["answer.py", &url, "person.txt"], &[]).await;
    assert_eq!(scene.told("person.txt").await, "200");
    assert_eq!(scene.server.client().get("/permission").await.ok().json(), json!([]));
}

#[tokio::test]
async fn who_has_left_decides_nothing_and_changes_nothing() {
    let scene = Scene::new(Some("off")).await;
    std::fs::write(scene.repo.join("leave.py"), LEAVER).unwrap();
    let path = format!("/session/{}", scene.session);
    // It hears of them when they are long gone, and cannot tell whose programs they were.
    let process = Pid::from_raw(scene.server.pid()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    run(&scene, &["answer.py", &scene.url(), "leave"], &[]).await;
    run(&scene, &["leave.py", &format!("{}{path}", scene.server.base_url()), "2"], &[]).await;
    kill_process(process, Signal::CONT).unwrap();

    let client = scene.server.client();
    let refused = async {
        while scene.server.stderr().matches("a request was refused").count() < 3 {
            let waiting = client.get("/permission").await.ok().json();
            assert_eq!(waiting.as_array().map(Vec::len), Some(1), "it was answered: {waiting}");
            let session = client.get(&path).await.ok().json();
            assert_eq!(session["permission"], Value::Null, "it was changed: {session}");
        }
    };
    within("all three to be refused", refused).await;
    assert_eq!(scene.server.stderr().matches("found=Gone").count(), 3, "{}", scene.server.stderr());
    let waiting = client.get("/permission").await.ok().json();
    assert_eq!(waiting.as_array().map(Vec::len), Some(1), "{waiting}");
    assert_eq!(client.get(&path).await.ok().json()["permission"], Value::Null);
}
