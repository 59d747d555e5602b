//! Permission requests and questions.

use std::process::Command;

use everturn_engine::Prompt;
use everturn_model::SessionId;
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
async fn what_a_guard_stops_is_asked_for_like_a_permission() {
    let face = Face::with(|config| config["budget"] = json!({"session": {"steps": 4}})).await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, &format!("{}SAY:never said", "TOOL:read:a.txt\n".repeat(9))).await;
    let looping = events.wait_for_type("permission.asked").await["properties"].clone();
    let messages = face.messages(&id).await;
    assert_eq!((&looping["permission"], &looping["patterns"]), (&json!("doom_loop"), &json!(["read"])));
    assert_eq!(looping["tool"]["messageID"], messages.last().unwrap()["info"]["id"]);
    let reply = async |request: &serde_json::Value, reply: &str| {
        let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
        face.client.post(&path, &json!({ "reply": reply })).await
    };
    assert_eq!(reply(&looping, "once").await.ok().json(), json!(true));
    let paused = events.wait_for_type("permission.asked").await["properties"].clone();
    assert_eq!((&paused["permission"], &paused["patterns"]), (&json!("budget"), &json!(["session steps"])));
    assert!(paused.get("tool").is_none() && paused.get("policy").is_none(), "{paused}");
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([paused]));
    let answers = async || face.messages(&id).await.len();
    assert_eq!(answers().await, 5, "the prompt, and four turns");
    let busy = face.client.get("/session/status").await.ok().json();
    assert_eq!(busy[&id], json!({"type": "busy"}), "it waits for somebody");
    assert_eq!(reply(&paused, "reject").await.ok().json(), json!(true));
    events.wait_for_type("session.idle").await;
    assert_eq!(reply(&paused, "once").await.status, 404);
    assert_eq!((answers().await, face.client.get("/permission").await.ok().json()), (5, json!([])));
}

#[tokio::test]
async fn what_is_asked_in_one_folder_is_listed_in_no_other() {
    let face = Face::with(|config| config["permission"] = json!({"bash": "ask"})).await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, "TOOL:bash:echo allowed").await;
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    let other = everturn_testkit::Repo::new(&[("b.txt", "elsewhere\n")]);
    let listed = async |folder: &std::path::Path| {
        let list = format!("/permission?directory={}", folder.display());
        face.client.get(&list).await.ok().json()
    };
    assert_eq!((listed(face.repo.path()).await, listed(other.path()).await), (json!([asked]), json!([])));
}

/// Sends a request with the token, and says how it was answered.
const PROGRAM: &str = r#"
import base64, sys, urllib.error, urllib.request
method, url, body = sys.argv[1:]
login = "Basic " + base64.b64encode(b"opencode:the token").decode()
headers = {"authorization": login, "content-type": "application/json"}
request = urllib.request.Request(url, data=body.encode(), headers=headers, method=method)
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as refused:
    print(refused.code)
"#;

#[tokio::test]
async fn a_program_that_was_started_here_may_speak_and_not_decide() {
    // One in a person's terminal may change what the person can, and be an agent all the same.
    let face = Face::with(|config| config["permission"] = json!({"bash": "ask"})).await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, "TOOL:bash:echo allowed").await;
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    let request = asked["id"].as_str().unwrap();
    let send = async |method: &str, path: &str, body: &str| {
        let (url, mut program) = (format!("{}{path}", face.base), Command::new("python3"));
        program.args(["-c", PROGRAM, method, &url, body]);
        let done = tokio::task::spawn_blocking(move || program.output()).await.unwrap().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(send("PATCH", &format!("/session/{id}"), r#"{"title": "theirs"}"#).await, "200\n");
    for (path, body) in [
        (format!("/permission/{request}/reply"), r#"{"reply": "once"}"#),
        (format!("/session/{id}/permissions/{request}"), r#"{"response": "always"}"#),
    ] {
        assert_eq!(send("POST", &path, body).await, "403\n", "{path}");
    }
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([asked]));
    assert_eq!(face.client.get(&format!("/session/{id}")).await.ok().json()["title"], "theirs");
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
    within("the session to settle", face.engine.drains().settled(&id.as_str().into())).await;
    let messages = face.messages(&id).await;
    let parts = messages[1]["parts"].as_array().unwrap();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"]["status"], "error");
    assert!(!face.repo.join("x").exists());
}

#[tokio::test]
async fn trust_in_a_project_is_asked_for_like_a_permission() {
    let face = Face::found(&[("opencode.json", r#"{"snapshot": false}"#)]).await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    let answered = face.prompt(&id, "SAY:at once").await;
    assert_eq!(Face::text(&answered), "at once", "nothing waits for the answer");
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    let folder = face.repo.dir();
    let expected = json!({
        "id": asked["id"], "sessionID": id, "permission": "project_trust", "patterns": ["snapshot"],
        "always": ["snapshot: false"],
        "metadata": {"note": asked["metadata"]["note"], "folder": folder, "digest": asked["metadata"]["digest"],
            "more": 0, "items": [{"name": "snapshot", "words": "whether changes of files can be undone", "content": "false\n",
                "digest": asked["metadata"]["items"][0]["digest"], "lines": ["snapshot: false"]}]},
    });
    assert_eq!(asked, expected);
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([asked]));
    assert_eq!(face.client.get("/session/status").await.ok().json(), json!({}));
    let request = asked["id"].as_str().unwrap();
    let path = format!("/session/{id}/permissions/{request}");
    assert_eq!(face.client.post(&path, &json!({"response": "always"})).await.ok().json(), json!(true));
    let replied = events.wait_for_type("permission.replied").await["properties"].clone();
    assert_eq!(replied, json!({"sessionID": id, "requestID": request, "reply": "always"}));
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([]));
    let config = face.client.get("/config").await.ok().json();
    assert_eq!(config["snapshot"], false);
    let again = face.client.post(&format!("/permission/{request}/reply"), &json!({"reply": "always"})).await;
    assert_eq!((again.status, again.json()["_tag"].as_str()), (404, Some("PermissionNotFoundError")));
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

const QUESTIONS: &str = r#"[{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"like fire"},{"label":"blue","description":"like water"}]}]"#;

#[tokio::test]
async fn a_question_is_asked_listed_and_answered() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, &format!("JSONTOOL:question:{{\"questions\":{QUESTIONS}}}\nSAY:thanks")).await;
    let asked = events.wait_for_type("question.asked").await["properties"].clone();
    let request = asked["id"].as_str().unwrap();
    assert!(request.starts_with("que_"), "{asked}");
    let messages = face.messages(&id).await;
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    let questions: serde_json::Value = serde_json::from_str(QUESTIONS).unwrap();
    let tool = json!({"messageID": messages[1]["info"]["id"], "callID": call["callID"]});
    assert_eq!(asked, json!({"id": request, "sessionID": id, "questions": questions, "tool": tool}));
    assert_eq!(face.client.get("/question").await.ok().json(), json!([asked]));
    assert_eq!(face.client.get("/permission").await.ok().json(), json!([]));
    let path = format!("/question/{request}/reply");
    for bad in [json!({"answers": []}), json!({"answers": [["red"], ["blue"]]}), json!({"answers": "red"})] {
        assert_eq!(face.client.post(&path, &bad).await.status, 400, "{bad}");
    }
    let body = json!({"answers": [["blue"]]});
    assert_eq!(face.client.post(&path, &body).await.ok().json(), json!(true));
    let replied = events.wait_for_type("question.replied").await["properties"].clone();
    assert_eq!(replied, json!({"sessionID": id, "requestID": request, "answers": [["blue"]]}));
    events.wait_for_type("session.idle").await;
    let messages = face.messages(&id).await;
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["output"], "The person answered:\n\"Which colour?\"=\"blue\"");
    assert_eq!(call["state"]["metadata"], json!({"answers": [["blue"]], "truncated": false}));
    assert_eq!(Face::text(&messages[2]), "thanks");
    let again = face.client.post(&path, &body).await;
    assert_eq!((again.status, again.json()["_tag"].as_str()), (404, Some("QuestionNotFoundError")));
}

#[tokio::test]
async fn a_rejected_question_ends_the_work() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, &format!("JSONTOOL:question:{{\"questions\":{QUESTIONS}}}\nSAY:never")).await;
    let asked = events.wait_for_type("question.asked").await["properties"]["id"].clone();
    let asked = asked.as_str().unwrap();
    let reply = face.client.post(&format!("/question/{asked}/reject"), &json!({})).await;
    assert_eq!(reply.ok().json(), json!(true));
    let rejected = events.wait_for_type("question.rejected").await["properties"].clone();
    assert_eq!(rejected, json!({"sessionID": id, "requestID": asked}));
    events.wait_for_type("session.idle").await;
    let messages = face.messages(&id).await;
    assert_eq!(messages.len(), 2, "the model is not asked again");
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["status"], "error");
    assert_eq!(face.client.get("/question").await.ok().json(), json!([]));
}

#[tokio::test]
async fn what_a_deleted_session_asked_waits_for_nobody_until_it_is_restored() {
    // It stayed listed, and no answer was taken.
    let face = Face::with(|config| config["permission"] = json!({"bash": "ask"})).await;
    let (one, two) = (SessionId::new(face.session().await), SessionId::new(face.session().await));
    let mut events = face.client.events("/event").await;
    // Another server asks and ends: nobody takes back what it asked.
    let other = face.beside().await;
    other.inbox().admit(&one, Prompt::text("TOOL:bash:echo allowed")).await.unwrap();
    let permission = events.wait_for_type("permission.asked").await["properties"].clone();
    let prompt = format!("JSONTOOL:question:{{\"questions\":{QUESTIONS}}}\nSAY:thanks");
    other.inbox().admit(&two, Prompt::text(&prompt)).await.unwrap();
    let question = events.wait_for_type("question.asked").await["properties"].clone();
    within("the other server to end", other.close()).await;
    drop(other);
    let lists = async || {
        let list = async |path: &str| face.client.get(path).await.ok().json();
        (list("/permission").await, list("/question").await)
    };
    assert_eq!(lists().await, (json!([permission]), json!([question])));

    for session in [&one, &two] {
        face.client.delete(&format!("/session/{session}")).await.ok();
    }
    assert_eq!(lists().await, (json!([]), json!([])));
    let (asked, questioned) = (permission["id"].as_str().unwrap(), question["id"].as_str().unwrap());
    let once = (format!("/permission/{asked}/reply"), json!({"reply": "once"}));
    let older = (format!("/session/{one}/permissions/{asked}"), json!({"response": "once"}));
    let answer = (format!("/question/{questioned}/reply"), json!({"answers": [["blue"]]}));
    let reject = (format!("/question/{questioned}/reject"), json!({}));
    for ((path, body), error) in [
        (&once, "PermissionNotFoundError"),
        (&older, "NotFoundError"),
        (&answer, "QuestionNotFoundError"),
        (&reject, "QuestionNotFoundError"),
    ] {
        let refused = face.client.post(path, body).await;
        assert_eq!((refused.status, refused.json()["name"].as_str()), (404, Some(error)), "{path}");
    }

    for session in [&one, &two] {
        face.engine.trash().restore(session).await.unwrap();
    }
    assert_eq!(lists().await, (json!([permission]), json!([question])));
    for (path, body) in [&once, &answer] {
        assert_eq!(face.client.post(path, body).await.ok().json(), json!(true), "{path}");
    }
    assert_eq!(lists().await, (json!([]), json!([])));
}

#[tokio::test]
async fn the_task_list_is_told_and_listed() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    face.prompt_async(&id, "TOOL:todo:one;two;three").await;
    let todo =
        |content: &str, status: &str| json!({"content": content, "status": status, "priority": "medium"});
    let todos = json!([todo("one", "completed"), todo("two", "in_progress"), todo("three", "pending")]);
    let updated = events.wait_for_type("todo.updated").await["properties"].clone();
    assert_eq!(updated, json!({"sessionID": id, "todos": todos}));
    events.wait_for_type("session.idle").await;
    assert_eq!(face.client.get(&format!("/session/{id}/todo")).await.ok().json(), todos);
    let messages = face.messages(&id).await;
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["title"], "2 todos");
    assert_eq!(call["state"]["metadata"], json!({"todos": todos, "truncated": false}));
}
