//! Permission requests and questions.

use everturn_testkit::within;
use serde_json::json;

use crate::support::Face;

#[tokio::test]
async fn asked_listed_answered() {
    let face = Face::with(|config| config["permission"] = json!({"bash": "ask"})).await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, "TOOL:bash:echo allowed").await;
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    assert_eq!((asked["sessionID"].as_str(), asked["permission"].as_str()), (Some(&*id), Some("bash")));
    assert_eq!(asked["patterns"], json!(["echo allowed"]));
    assert!(asked["always"].is_array() && asked["metadata"].is_object());
    let messages = face.messages(&id).await;
    assert_eq!(asked["tool"]["messageID"], messages[1]["info"]["id"]);
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([asked]));
    let request = asked["id"].as_str().unwrap();
    let path = format!("/permission/{request}/reply");
    assert_eq!(face.client.post(&path, &json!({"reply": "perhaps"})).await.status, 400);
    assert_eq!(face.client.post(&path, &json!({"reply": "once"})).await.ok().json(), json!(true));
    let replied = events.wait_for_type("permission.replied").await["properties"].clone();
    assert_eq!(replied, json!({"sessionID": id, "requestID": request, "reply": "once"}));
    events.wait_for_type("session.idle").await;
    let messages = face.messages(&id).await;
    let parts = messages[1]["parts"].as_array().unwrap();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"]["output"], "allowed\n");
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([]));
    let again = face.client.post(&path, &json!({"reply": "once"})).await;
    assert_eq!((again.status, again.json()["_tag"].as_str()), (404, Some("PermissionNotFoundError")));
}

#[tokio::test]
async fn rejected_by_the_older_route() {
    let face = Face::with(|config| config["permission"] = json!({"bash": "ask"})).await;
    let id = face.session().await;
    let other = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, "TOOL:bash:touch x").await;
    let asked = events.wait_for_type("permission.asked").await["properties"]["id"].clone();
    let asked = asked.as_str().unwrap();
    let body = json!({"response": "reject"});
    let wrong = face.client.post(&format!("/session/{other}/permissions/{asked}"), &body).await;
    assert_eq!(wrong.status, 404);
    let reply = face.client.post(&format!("/session/{id}/permissions/{asked}"), &body).await;
    assert_eq!(reply.ok().json(), json!(true));
    within("the session to settle", face.engine.settled(&id.as_str().into())).await;
    let messages = face.messages(&id).await;
    let parts = messages[1]["parts"].as_array().unwrap();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"]["status"], "error");
    assert!(!face.repo.join("x").exists());
}

#[tokio::test]
async fn no_questions_are_no_questions() {
    let face = Face::start().await;
    assert_eq!(face.client.get("/question").await.ok().json(), json!([]));
    for verb in ["reply", "reject"] {
        let reply = face.client.post(&format!("/question/que_none/{verb}"), &json!({"answers": []})).await;
        assert_eq!(
            (reply.status, reply.json()["_tag"].as_str()),
            (404, Some("QuestionNotFoundError")),
            "{verb}"
        );
    }
}
