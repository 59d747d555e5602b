//! Limits at the door: how deep, how large and how many, and what a client is told. Nothing that is refused is stored.

use everturn_testkit::http::HttpReply;
use serde_json::{Value, json};

use crate::support::{Face, error};

/// Lists in lists.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

/// Expects that a request is refused in words that hold these.
fn check(reply: &HttpReply, words: &str) {
    let body = reply.json();
    let (name, message) = error(&body);
    assert_eq!((reply.status, name), (400, "BadRequest"), "{message}");
    assert!(message.contains(words), "{message}");
}

#[tokio::test]
async fn data_that_is_nested_too_deep_is_refused_at_every_door() {
    // It was stored once, and the session could never be read again.
    let face = Face::start().await;
    let id = face.session().await;
    let answer = face.prompt(&id, "SAY:first words").await;
    let before = face.messages(&id).await;
    let words = "levels deep; at most 64 are allowed";

    let metadata = json!({"deep": nested(122)});
    check(&face.client.post("/session", &json!({"metadata": metadata})).await, words);
    check(&face.client.patch(&format!("/session/{id}"), &json!({"metadata": metadata})).await, words);
    let text = json!({"type": "text", "text": "x", "metadata": metadata});
    for route in ["message", "prompt_async"] {
        let reply = face.client.post(&format!("/session/{id}/{route}"), &json!({"parts": [text]})).await;
        check(&reply, words);
    }
    let mut part = answer["parts"][1].clone();
    part["metadata"] = metadata;
    let message = answer["info"]["id"].as_str().unwrap();
    let path = format!("/session/{id}/message/{message}/part/{}", part["id"].as_str().unwrap());
    check(&face.client.patch(&path, &part).await, words);
    check(&face.client.post("/question/que_none/reply", &json!({"answers": nested(122)})).await, words);

    assert_eq!(face.messages(&id).await, before);
    assert_eq!(face.client.get("/session").await.ok().json().as_array().unwrap().len(), 1);
    // What is a little flatter is taken, and read back as it was.
    part["metadata"] = json!({"deep": nested(60)});
    assert_eq!(face.client.patch(&path, &part).await.ok().json(), part);
    assert_eq!(face.messages(&id).await[1]["parts"][1], part);
}

#[tokio::test]
async fn arguments_that_are_nested_too_deep_are_an_invalid_call() {
    let face = Face::start().await;
    let id = face.session().await;
    let deep = json!({"command": "echo hi", "description": nested(122)});
    face.prompt(&id, &format!("JSONTOOL:bash:{deep}\nSAY:I see")).await;
    let messages = face.messages(&id).await;
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    let told = call["state"]["output"].as_str().unwrap();
    assert!(told.contains("nested 123 levels deep; at most 64 are allowed"), "{call}");
    assert_eq!(Face::text(&messages[2]), "I see");
}

#[tokio::test]
async fn what_is_too_large_for_its_place_is_refused() {
    let face = Face::start().await;
    let id = face.session().await;
    let before = face.client.get(&format!("/session/{id}")).await.ok().json();
    let rule = json!({"permission": "bash", "pattern": "*", "action": "ask"});
    let many: Value =
        (0..1001).map(|key| (key.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let sessions = [
        (json!({"title": "x".repeat(4097)}), "title has 4097 bytes; at most 4096"),
        (json!({"title": "a\u{0}b"}), "title holds a NUL"),
        (json!({"metadata": many}), "metadata has 1001 entries; at most 1000"),
        (json!({"metadata": {"a": "x".repeat(256 * 1024)}}), "at most 262144"),
        (json!({"permission": vec![rule.clone(); 1001]}), "permission has 1001 entries; at most 1000"),
        (
            json!({"title": "fine", "permission": [{"permission": "bash", "pattern": "x".repeat(4097), "action": "ask"}]}),
            "pattern has 4097 bytes",
        ),
    ];
    for (body, words) in &sessions {
        check(&face.client.post("/session", body).await, words);
        check(&face.client.patch(&format!("/session/{id}"), body).await, words);
    }
    check(&face.client.post("/session", &json!({"agent": "x".repeat(257)})).await, "agent has 257 bytes");
    let text = json!({"type": "text", "text": "x"});
    let long = "x".repeat(257);
    let prompts = [
        (json!({"parts": vec![text.clone(); 10_001]}), "parts has 10001 entries; at most 10000"),
        (json!({"agent": long, "parts": [text]}), "agent has 257 bytes; at most 256"),
        (json!({"model": {"providerID": "p", "modelID": long}, "parts": [text]}), "model has 257 bytes"),
        (json!({"messageID": format!("msg_{long}"), "parts": [text]}), "at most 256 bytes"),
        (json!({"messageID": "msg_a\u{0}b", "parts": [text]}), "of one line"),
        (
            json!({"parts": [{"type": "file", "mime": "a/b", "filename": long, "url": "x:y"}]}),
            "filename has 257",
        ),
    ];
    for (body, words) in &prompts {
        check(&face.client.post(&format!("/session/{id}/prompt_async"), body).await, words);
    }
    assert_eq!(face.client.get(&format!("/session/{id}")).await.ok().json(), before);
    assert_eq!(face.messages(&id).await, Vec::<Value>::new());
    assert_eq!(face.client.get("/session").await.ok().json().as_array().unwrap().len(), 1);
    let most = json!({"title": "é".repeat(2048)});
    assert_eq!(face.client.patch(&format!("/session/{id}"), &most).await.ok().json()["title"], most["title"]);
}

#[tokio::test]
async fn folders_and_ids_that_no_system_takes_are_refused_as_such() {
    // They were internal errors.
    let face = Face::start().await;
    let long = "x".repeat(256);
    let folders = [
        ("/srv/a%00b".to_owned(), "directory holds a NUL"),
        (format!("/srv/{long}"), "a name of more than 255 bytes"),
        (format!("/srv/{}", "deep/".repeat(1000)), "at most 4096 are allowed"),
    ];
    for (folder, words) in &folders {
        check(&face.client.get(&format!("/session?directory={folder}")).await, words);
        let there = face.client.clone().with_header("x-opencode-directory", folder);
        check(&there.get("/session").await, words);
        check(&there.post("/session", &json!({})).await, words);
    }
    check(&face.client.get("/session?search=a%00b").await, "search holds a NUL");
    for id in [format!("ses_{long}"), "ses_a%00b".to_owned(), "ses_a%0Ab".to_owned()] {
        check(&face.client.get(&format!("/session/{id}")).await, "is not an id of one line");
        check(&face.client.get(&format!("/session/{id}/message/msg_{id}")).await, "is not an id of one line");
    }
    check(
        &face.client.post(&format!("/question/que_{long}/reply"), &json!({"answers": []})).await,
        "is not an id",
    );
}

#[tokio::test]
async fn a_part_is_replaced_by_a_part_of_its_kind_only() {
    // Whatever had the right ids was stored.
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt(&id, "TOOL:bash:echo hi\nSAY:done").await;
    let before = face.messages(&id).await;
    let parts: Vec<&Value> = before.iter().flat_map(|message| message["parts"].as_array().unwrap()).collect();
    let path = |part: &Value| {
        let (message, part) = (part["messageID"].as_str().unwrap(), part["id"].as_str().unwrap());
        format!("/session/{id}/message/{message}/part/{part}")
    };
    let text = parts.iter().find(|part| part["type"] == "text").unwrap();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    let with = |part: &Value, key: &str, value: Value| {
        let mut other = part.clone();
        other[key] = value;
        other
    };
    let nonsense = [
        (text, with(text, "type", json!("nonsense")), "there are no parts of the type \"nonsense\""),
        (text, with(text, "type", Value::Null), "there are no parts of the type \"\""),
        (text, with(text, "text", json!(5)), "no part of the type \"text\""),
        (text, with(text, "text", Value::Null), "no part of the type \"text\""),
        (text, with(text, "time", json!("now")), "no part of the type \"text\""),
        (text, with(text, "metadata", json!([1])), "no part of the type \"text\""),
        (text, with(text, "id", json!("prt_other")), "id must be"),
        (text, with(text, "sessionID", json!("ses_other")), "sessionID must be"),
        (text, with(text, "type", json!("reasoning")), "is of another type"),
        (tool, with(tool, "state", json!({"status": "completed"})), "no part of the type \"tool\""),
        (tool, with(tool, "state", json!({"status": "odd", "input": {}})), "no part of the type \"tool\""),
        (tool, with(tool, "callID", json!("x".repeat(300))), "call has 300 bytes"),
    ];
    for (part, body, words) in &nonsense {
        check(&face.client.patch(&path(part), body).await, words);
    }
    check(&face.client.patch(&path(text), &json!([text])).await, "no parts of the type");
    assert_eq!(face.messages(&id).await, before);
    // Every part as it was shown is a part.
    for part in &parts {
        assert_eq!(&face.client.patch(&path(part), part).await.ok().json(), *part);
    }
    assert_eq!(face.messages(&id).await, before);
}
