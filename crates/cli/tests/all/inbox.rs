//! Prompts that wait, from the command line: listed, changed, put in another order, taken back, and gone on with.

use std::path::Path;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, opencode_config};
use serde_json::{Value, json};

use crate::shell::Home;

fn inbox(home: &Home, arguments: &[&str]) -> Value {
    let printed = home.run(&[&["session", "inbox"], arguments, &["--json"]].concat()).success();
    serde_json::from_str(&printed).unwrap_or_else(|cause| panic!("{cause}: {printed}"))
}

fn in_short(inbox: &Value) -> Vec<(&str, &str)> {
    let prompts = inbox["prompts"].as_array().unwrap().iter();
    prompts.map(|prompt| (prompt["text"].as_str().unwrap(), prompt["delivery"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_goes_on_with_what_waited_since_a_session_was_stopped() {
    let (model, data, mut home) = (ModelServer::start(), tempfile::tempdir().unwrap(), Home::new());
    home.set("EVERTURN_DATA", data.path());
    home.configure(&opencode_config(&model.base_url()));
    let mut options = ServerOptions::with_model(&model.base_url());
    options.directory = Some(home.work().to_owned());
    options.environment = vec![("EVERTURN_DATA".to_owned(), data.path().display().to_string())];
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let session = server.client().post("/session", &json!({"title": "t"})).await.ok().json();
    let id = session["id"].as_str().unwrap();
    let prompt = |text: &str| json!({"parts": [{"type": "text", "text": text}]});
    server
        .client()
        .post(&format!("/session/{id}/prompt_async"), &prompt("HOLD:x SAY:never ending"))
        .await
        .ok();
    model.held("x").await;
    let mut messages = Vec::new();
    for text in ["SAY:one", "SAY:two", "SAY:three"] {
        let path = format!("/everturn/session/{id}/inbox");
        let mut body = prompt(text);
        body["delivery"] = json!("queue");
        let added = server.client().post(&path, &body).await.ok().json();
        messages.push(added["message"]["info"]["id"].as_str().unwrap().to_owned());
    }
    server.client().post(&format!("/session/{id}/abort"), &json!({})).await.ok();
    assert!(server.stop().await.success());

    let listed = home.run(&["session", "inbox", id]);
    let (table, note) = (listed.stdout, listed.stderr);
    assert!(
        table.contains(&messages[0]) && table.contains("queue") && table.contains("SAY:three"),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert_eq!(note, format!("they are held; `everturn session resume {id}` goes on with them\n"));
    let shown = home.run(&["session", "show", id]).success();
    assert!(shown.contains("3 prompts wait, held; `everturn session resume"), "{shown}");

    let list = home.run(&["session", "list"]).success();
    assert!(list.contains(" state ") && list.contains(" held "), "{list}");
    let added = inbox(&home, &[id, "--add", "SAY:four"]);
    let enqueued = inbox(&home, &[id, "--enqueue", "SAY:five"]);
    let five = [("SAY:four", "steer"), ("SAY:five", "queue")];
    assert_eq!(in_short(&enqueued)[3..], five);
    for added in [&added["prompts"][3], &enqueued["prompts"][4]] {
        assert_eq!(added["resume"], json!(false));
        inbox(&home, &[id, "--cancel", added["messageID"].as_str().unwrap()]);
    }
    inbox(&home, &[id, "--cancel", &messages[1]]);
    inbox(&home, &[id, "--edit", &messages[0], "SAY:other"]);
    let ordered = inbox(&home, &[id, "--first", &messages[2], &messages[0]]);
    assert_eq!(in_short(&ordered), [("SAY:three", "queue"), ("SAY:other", "queue")]);
    let steered = inbox(&home, &[id, "--steer", &messages[2]]);
    assert_eq!(in_short(&steered), [("SAY:three", "steer"), ("SAY:other", "queue")]);
    assert_eq!((&steered["held"], &steered["promoted"]), (&json!(true), &json!(false)));

    model.release("x");
    let resumed = home.run(&["session", "resume", id]);
    assert_eq!(resumed.stdout, "three\nother\n", "{}", resumed.stderr);
    assert_eq!((resumed.status, resumed.stderr), (Some(0), format!("session {id}\n")));
    let list = home.run(&["session", "list"]).success();
    assert!(!list.contains(" state "), "{list}");
    let late = home.run(&["session", "inbox", id, "--cancel", &messages[0]]);
    let said = "that prompt is part of the conversation already; nothing was changed\nno prompt waits in this session\n";
    assert_eq!((late.status, late.stderr.as_str()), (Some(0), said));
    let nothing = home.run(&["session", "resume", id]).failure(1);
    assert!(nothing.contains("nothing waits in the session"), "{nothing}");
}

#[test]
fn other_words_leave_what_else_a_prompt_says() {
    // Its attachments, its instructions and the tools that it switched off were dropped.
    let home = Home::new();
    let begun = home.run(&["run", "--model", "scripted/demo", "hello"]);
    let id = begun.stderr.trim().strip_prefix("session ").unwrap();
    let listed = inbox(&home, &[id, "--add", "one"]);
    let message = listed["prompts"][0]["messageID"].as_str().unwrap();
    assert_eq!(in_short(&inbox(&home, &[id, "--edit", message, "two"])), [("two", "steer")]);
    let empty = home.run(&["session", "inbox", id, "--edit", message, " "]).failure(1);
    assert!(empty.contains("the prompt is empty"), "{empty}");
    assert_eq!(in_short(&inbox(&home, &[id])), [("two", "steer")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_stopped_from_the_command_line_whichever_process_runs_it() {
    let (model, data, mut home) = (ModelServer::start(), tempfile::tempdir().unwrap(), Home::new());
    home.set("EVERTURN_DATA", data.path());
    home.configure(&opencode_config(&model.base_url()));
    let mut options = ServerOptions::with_model(&model.base_url());
    options.directory = Some(home.work().to_owned());
    options.environment = vec![("EVERTURN_DATA".to_owned(), data.path().display().to_string())];
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let session = server.client().post("/session", &json!({"title": "t"})).await.ok().json();
    let id = session["id"].as_str().unwrap();
    let resting = home.run(&["session", "abort", id]);
    assert_eq!((resting.status, resting.stdout.as_str()), (Some(0), ""));
    assert_eq!(resting.stderr, "nothing is at work in this session, and no prompt waits\n");
    let prompt = json!({"parts": [{"type": "text", "text": "HOLD:x SAY:never ending"}]});
    server.client().post(&format!("/session/{id}/prompt_async"), &prompt).await.ok();
    model.held("x").await;
    let stopped = home.run(&["session", "abort", id]);
    assert_eq!((stopped.status, stopped.stdout), (Some(0), format!("{id} rests\n")), "{}", stopped.stderr);
    let shown = home.run(&["session", "show", id]).success();
    assert!(shown.contains("error: ") && !shown.contains("a turn is open"), "{shown}");
    // What a process left that has died is stopped too, and nobody goes on with it.
    server.client().post(&format!("/session/{id}/prompt_async"), &prompt).await.ok();
    model.held("x").await;
    server.kill9().await;
    let stopped = home.run(&["session", "abort", id]);
    assert_eq!(stopped.status, Some(0), "{}", stopped.stderr);
    let shown = home.run(&["session", "show", id]).success();
    assert!(!shown.contains("a turn is open"), "{shown}");
}
