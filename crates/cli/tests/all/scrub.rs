//! A leaked secret is removed from the command line.

use std::path::Path;

use everturn_testkit::damage::damage_event;
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::{Home, Outcome};
use crate::stage::prompt;

const SECRET: &str = "hunter2-hunter2";

/// A home whose data are in a folder of their own, with a session that holds the secret, and its id.
fn leaked() -> (Home, TempDir, String) {
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    home.run(&["run", "--model", "scripted/demo", &format!("the key is {SECRET}, use it")]);
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--json"]).success()).expect("a list");
    let id = listed[0]["id"].as_str().expect("an id").to_owned();
    assert!(holds_secret(data.path()));
    (home, data, id)
}

fn scrub(home: &Home) -> Outcome {
    home.run_with(&["scrub", "--reason", "it was pasted"], &format!("{SECRET}\r\n"))
}

/// Whether a file in a folder has the secret in it.
fn holds_secret(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds_secret(&path);
        }
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    })
}

#[test]
fn a_secret_from_standard_input_is_removed_from_all_files() {
    let (home, data, id) = leaked();
    // The end of its line is not part of it.
    let scrubbed = scrub(&home).success();
    assert_eq!(scrubbed, "2 events of 1 session and 0 large payloads were changed\n");
    assert!(!holds_secret(data.path()));
    let shown = home.run(&["session", "show", &id]).success();
    assert!(shown.contains("the key is [scrubbed], use it"), "{shown}");
    let audit = home.run(&["doctor", "--audit"]).success();
    assert!(audit.contains(" scrub ") && audit.contains("it was pasted"), "{audit}");
    let again = scrub(&home).success();
    assert_eq!(again, "0 events of 0 sessions and 0 large payloads were changed\n");
}

#[test]
fn a_session_that_cannot_be_cleaned_is_an_error() {
    let (home, data, id) = leaked();
    damage_event(data.path(), &id, 1);
    let left = scrub(&home);
    assert_eq!(left.status, Some(1), "{}", left.stderr);
    assert!(left.stderr.starts_with(&format!("{id} is unchanged: ")), "{}", left.stderr);
    assert!(
        left.stderr.ends_with("everturn: the secret is still in 1 session: see above\n"),
        "{}",
        left.stderr
    );
    assert!(holds_secret(data.path()));
}

#[test]
fn files_that_commands_wrote_and_that_hold_it_are_named() {
    let (home, data, _) = leaked();
    let folder = data.path().join("temporary/ses_1/deep");
    std::fs::create_dir_all(&folder).unwrap();
    // Where one block that is read ends and the next begins.
    let mut content = vec![b'-'; 1024 * 1024 - 5];
    content.extend_from_slice(SECRET.as_bytes());
    std::fs::write(folder.join("key"), content).unwrap();
    std::fs::write(folder.join("other"), "hunter2-hunter").unwrap();
    std::os::unix::fs::symlink("key", folder.join("link")).unwrap();
    let left = scrub(&home);
    let file = folder.join("key").display().to_string();
    let expected = format!(
        "{file} was written by a command and still holds it: delete it\n\
         everturn: the secret is still in 1 file: see above\n"
    );
    assert_eq!((left.status, left.stderr.as_str()), (Some(1), expected.as_str()));
    assert_eq!(left.stdout, "2 events of 1 session and 0 large payloads were changed\n");
    std::fs::remove_file(file).unwrap();
    scrub(&home).success();
}

#[tokio::test]
async fn a_session_that_is_at_work_may_write_the_secret_again() {
    let (home, data, _) = leaked();
    let model = ModelServer::start();
    let mut options = ServerOptions::with_model(&model.base_url());
    options.directory = Some(home.work().to_owned());
    options.environment = vec![("EVERTURN_DATA".to_owned(), data.path().display().to_string())];
    let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let made = server.client().post("/session", &json!({})).await.ok().json();
    let id = made["id"].as_str().expect("an id");
    server.client().post(&format!("/session/{id}/prompt_async"), &prompt("HOLD:x SAY:one two")).await.ok();
    model.held("x").await;
    let scrubbed = scrub(&home);
    assert_eq!(scrubbed.status, Some(1), "{}", scrubbed.stderr);
    assert_eq!(scrubbed.stdout, "2 events of 1 session and 0 large payloads were changed\n");
    let note = format!("{id} is at work, and what it is writing was not seen\n");
    assert!(scrubbed.stderr.contains(&note), "{}", scrubbed.stderr);
    let complaint =
        "everturn: the secret may be written again by 1 session at work: run it again after that\n";
    assert!(scrubbed.stderr.ends_with(complaint), "{}", scrubbed.stderr);
}
