//! Slash commands.

use serde_json::json;

use crate::support::Face;

#[tokio::test]
async fn commands_are_listed_and_given() {
    let face = Face::with(|config| {
        config["command"] =
            json!({"check": {"template": "SAY:checked $1", "description": "checks", "agent": "build"}});
    })
    .await;
    let listed = face.client.get("/command").await.ok().json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|command| command["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["check", "init"]);
    let expected = json!({"name": "check", "description": "checks", "agent": "build", "source": "command",
        "template": "SAY:checked $1", "hints": ["$1"]});
    assert_eq!(listed[0], expected);
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    events.wait_for(|event| event["type"] == "server.connected").await;
    let body = json!({"command": "check", "arguments": "all of it", "agent": "build", "model": "fake/fake-1", "parts": []});
    let answer = face.client.post(&format!("/session/{id}/command"), &body).await.ok().json();
    assert_eq!(Face::text(&answer), "checked all of it");
    let executed = events.wait_for(|event| event["type"] == "command.executed").await;
    let expected = json!({"name": "check", "sessionID": id, "arguments": "all of it", "messageID": answer["info"]["id"]});
    assert_eq!(executed["properties"], expected);
    let unknown = json!({"command": "nothing", "arguments": ""});
    let refused = face.client.post(&format!("/session/{id}/command"), &unknown).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("there is no command nothing; known: init, check"), "{}", refused.body);
    let other = json!({"command": "check", "arguments": "", "parts": [{"type": "text", "text": "x"}]});
    assert_eq!(face.client.post(&format!("/session/{id}/command"), &other).await.status, 400);
    assert_eq!(face.client.post("/session/ses_none/command", &body).await.status, 404);
}

#[tokio::test]
async fn init_is_a_command_under_the_id_that_a_client_chose() {
    let face = Face::with(|config| config["command"] = json!({"init": {"template": "SAY:written"}})).await;
    let id = face.session().await;
    let message = face.engine.mint().entry(&face.engine.sessions().get(&id.as_str().into()).await.unwrap());
    let body = json!({"modelID": "fake-1", "providerID": "fake", "messageID": message});
    let done = face.client.post(&format!("/session/{id}/init"), &body).await.ok().json();
    assert_eq!(done, true);
    let messages = face.messages(&id).await;
    assert_eq!((&messages[0]["info"]["id"], Face::text(&messages[1]).as_str()), (&json!(message), "written"));
}
