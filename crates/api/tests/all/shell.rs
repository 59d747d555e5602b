//! Commands that a person runs.

use serde_json::{Value, json};

use crate::support::Face;

async fn run(face: &Face, session: &str, command: &str) -> Value {
    let body = json!({"agent": "build", "command": command});
    face.client.post(&format!("/session/{session}/shell"), &body).await.ok().json()
}

#[tokio::test]
async fn a_command_is_answered_with_what_it_printed() {
    let face = Face::start().await;
    let id = face.session().await;
    let answer = run(&face, &id, "echo shell").await;
    let messages = face.messages(&id).await;
    assert_eq!((messages.len(), &messages[1]), (2, &answer));
    let (user, info) = (&messages[0], &answer["info"]);
    assert_eq!((info["role"].as_str(), &info["parentID"]), (Some("assistant"), &user["info"]["id"]));
    assert_eq!(info["path"], json!({"cwd": face.repo.dir(), "root": face.repo.dir()}));
    let said = &user["parts"][0];
    let words = json!("The following tool was executed by the user");
    assert_eq!((&said["text"], &said["synthetic"]), (&words, &json!(true)));
    let mut state = answer["parts"][0]["state"].clone();
    state.as_object_mut().unwrap().remove("time");
    let expected = json!({"status": "completed", "title": "", "input": {"command": "echo shell"},
        "output": "shell\n", "metadata": {"output": "shell\n"}});
    assert_eq!(state, expected);
    let failed = run(&face, &id, "exit 3").await;
    let state = &failed["parts"][0]["state"];
    assert_eq!(
        (&state["status"], &state["metadata"]),
        (&json!("completed"), &json!({"output": "", "exit": 3}))
    );
}

#[tokio::test]
async fn a_command_is_refused_while_the_session_works_and_where_there_is_none() {
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt_async(&id, "HOLD:x SAY:one").await;
    face.model.held("x").await;
    let body = json!({"agent": "build", "command": "echo never >> never"});
    let refused = face.client.post(&format!("/session/{id}/shell"), &body).await;
    assert_eq!((refused.status, refused.json()["_tag"].as_str()), (409, Some("SessionBusyError")));
    assert_eq!(face.client.post("/session/ses_none/shell", &body).await.status, 404);
    let unknown = json!({"agent": "nobody", "command": "echo never >> never"});
    let other = face.session().await;
    assert_eq!(face.client.post(&format!("/session/{other}/shell"), &unknown).await.status, 400);
    let none = json!({"agent": "build"});
    assert_eq!(face.client.post(&format!("/session/{other}/shell"), &none).await.status, 400);
    assert!(!face.repo.join("never").exists());
    face.model.release("x");
}
