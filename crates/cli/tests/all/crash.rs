//! `kill -9` of the real server at the worst moments, and what is there when it comes back.

use std::path::Path;
use std::time::Duration;

use everturn_store::{Options, Store};
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, opencode_config, within};
use serde_json::{Value, json};

use crate::shell::Home;
use crate::stage::{Stage, prompt};

/// How often something is looked at while it is waited for.
const GLANCE: Duration = Duration::from_millis(20);

async fn stage() -> Stage {
    Stage::with(Path::new(env!("CARGO_BIN_EXE_everturn")), ModelServer::start()).await
}

async fn accept(stage: &Stage, session: &str, text: &str) {
    let path = format!("/session/{session}/prompt_async");
    assert_eq!(stage.client().post(&path, &prompt(text)).await.ok().status, 204);
}

/// Waits until the session is idle and its last message is a complete answer; returns all messages.
pub(crate) async fn answered(stage: &Stage, session: &str) -> Vec<Value> {
    let waiting = async {
        loop {
            let messages = stage.messages(session).await;
            let status = stage.client().get("/session/status").await.ok().json();
            let info = messages.last().map(|message| message["info"].clone()).unwrap_or_default();
            let busy = status.get(session).is_some_and(|status| status["type"] != "idle");
            if !busy && info["role"] == "assistant" && info["finish"] == "stop" {
                return messages;
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    within("an answer and an idle session", waiting).await
}

/// Waits until this much of the text that streams is on the disk.
async fn saved(stage: &Stage, session: &str, text: &str) {
    let place = Options::folder(stage.server.home().join("data/everturn"), "own_crash_test");
    let store = Store::open(place).await.unwrap();
    let waiting = async {
        loop {
            let streams = store.streams(&session.into()).await.unwrap();
            if streams.iter().map(|stream| stream.text.as_str()).eq([text]) {
                return;
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    within("the text to be saved", waiting).await;
}

/// The texts of the person, or of the assistant, without what the server put in itself.
pub(crate) fn texts(messages: &[Value], role: &str) -> Vec<String> {
    let mine = messages.iter().filter(|message| message["info"]["role"] == role);
    let parts = mine.flat_map(|message| message["parts"].as_array().unwrap());
    let written = parts.filter(|part| part["type"] == "text" && part["synthetic"] != true);
    written.map(|part| part["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn right_after_a_prompt_was_accepted() {
    let mut stage = stage().await;
    for round in 0..5 {
        let session = stage.session("crash").await;
        let text = format!("SAY:answer {round}");
        accept(&stage, &session, &text).await;
        stage.server.kill9().await;
        stage.server.restart().await;
        let messages = answered(&stage, &session).await;
        assert_eq!(texts(&messages, "user"), [text]);
        assert_eq!(texts(&messages, "assistant").last().unwrap(), &format!("answer {round}"));
    }
}

#[tokio::test]
async fn in_mid_stream() {
    let mut stage = stage().await;
    let session = stage.session("crash").await;
    let mut events = stage.client().events("/event").await;
    let text = "HOLD:half SAY:alpha beta gamma delta";
    accept(&stage, &session, text).await;
    stage.model.held("half").await;
    events.wait_for(|data| data.pointer("/properties/delta") == Some(&json!("gamma "))).await;
    saved(&stage, &session, "alpha beta gamma ").await;
    stage.server.kill9().await;
    stage.model.abandoned("half").await;
    stage.model.release("half");

    stage.server.restart().await;
    let messages = answered(&stage, &session).await;
    assert_eq!(texts(&messages, "user"), [text]);
    let said = texts(&messages, "assistant");
    assert_eq!(
        (said.len(), said[0].as_str()),
        (2, "alpha beta gamma "),
        "what was saved, then the rest: {said:?}"
    );
    let request = stage.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(request.contains("alpha beta gamma "), "the model sees how far it came: {request}");
    assert!(request.contains("was restarted"), "the model is told what happened: {request}");
}

#[tokio::test]
async fn in_the_middle_of_a_command() {
    let mut stage = stage().await;
    let session = stage.session("crash").await;
    // The command leaves a line, then stands still until the test and its folder are gone.
    let command = "echo ran >> lines; while [ -e lines ]; do sleep 0.1; done";
    accept(&stage, &session, &format!("TOOL:bash:{command}\nSAY:went on")).await;
    let started = async {
        while std::fs::read_to_string(stage.repo.join("lines")).unwrap_or_default() != "ran\n" {
            tokio::time::sleep(GLANCE).await;
        }
    };
    within("the command to leave its line", started).await;
    stage.server.kill9().await;
    let asked = stage.model.prompts().len();

    stage.server.restart().await;
    let messages = answered(&stage, &session).await;
    assert_eq!(texts(&messages, "assistant"), ["went on"]);
    assert_eq!(stage.repo.read("lines"), "ran\n", "a command is never run twice");
    let tool = messages
        .iter()
        .flat_map(|message| message["parts"].as_array().unwrap())
        .find(|part| part["type"] == "tool")
        .expect("the call of the tool");
    assert_eq!(tool["state"]["status"], "error", "{tool}");
    assert_eq!(tool["state"]["metadata"]["everturn"]["outcome"], "unknown", "{tool}");

    let requests = stage.model.prompts();
    assert_eq!(requests.len(), asked + 1, "one more request after the restart");
    let result = requests[asked]["messages"].as_array().unwrap().iter().rfind(|one| one["role"] == "tool");
    let told = result.expect("a result for the call")["content"].to_string();
    assert!(told.contains("unknown"), "the model is told that nobody knows: {told}");
}

/// The requests of a kind that wait, once there are some.
pub(crate) async fn pending(stage: &Stage, path: &str) -> Value {
    let pending = async {
        loop {
            let pending = stage.client().get(path).await.ok().json();
            if pending.as_array().is_some_and(|list| !list.is_empty()) {
                return pending;
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    within("the request to be there again", pending).await
}

#[tokio::test]
async fn while_a_question_is_asked() {
    let mut stage = stage().await;
    let session = stage.session("crash").await;
    let mut events = stage.client().events("/event").await;
    let option = json!({"label": "red", "description": "a colour"});
    let question = json!({"question": "Which?", "header": "Colour", "options": [option]});
    let call = json!({"questions": [question]});
    accept(&stage, &session, &format!("JSONTOOL:question:{call}\nSAY:was answered")).await;
    let asked = events.wait_for_type("question.asked").await["properties"].clone();
    stage.server.kill9().await;

    stage.server.restart().await;
    assert_eq!(pending(&stage, "/question").await, json!([asked]), "the same question under the same id");
    let id = asked["id"].as_str().unwrap();
    stage.client().post(&format!("/question/{id}/reply"), &json!({"answers": [["red"]]})).await.ok();
    let messages = answered(&stage, &session).await;
    assert_eq!(texts(&messages, "assistant"), ["was answered"]);
    let request = stage.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(request.contains(r#"\"Which?\"=\"red\""#), "the model is told the answer: {request}");
}

#[tokio::test]
async fn while_a_subagent_works() {
    let mut stage = stage().await;
    let session = stage.session("crash").await;
    accept(&stage, &session, "TOOL:task:MUTE:child SAY:the child is done\nSAY:the parent is done").await;
    stage.model.held("child").await;
    let children = stage.client().get(&format!("/session/{session}/children")).await.ok().json();
    stage.server.kill9().await;
    stage.model.release("child");

    stage.server.restart().await;
    let messages = answered(&stage, &session).await;
    assert_eq!(texts(&messages, "assistant"), ["the parent is done"]);
    let after = stage.client().get(&format!("/session/{session}/children")).await.ok().json();
    let ids = |list: &Value| list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
    assert_eq!((ids(&after), ids(&after).len()), (ids(&children), 1), "the task is not begun twice");
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let call = parts.into_iter().find(|part| part["type"] == "tool").expect("the call of the tool");
    assert_eq!(call["state"]["status"], "completed", "{call}");
    assert!(call["state"]["output"].as_str().unwrap().contains("\nthe child is done\n"), "{call}");
}

#[tokio::test]
async fn while_a_permission_is_asked_for() {
    let mut stage = stage().await;
    let session = stage.session("crash").await;
    let mut events = stage.client().events("/event").await;
    accept(&stage, &session, "TOOL:read:/etc/hostname\nSAY:was allowed").await;
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    stage.server.kill9().await;

    stage.server.restart().await;
    assert_eq!(pending(&stage, "/permission").await, json!([asked]), "the same request under the same id");
    let id = asked["id"].as_str().unwrap();
    stage.client().post(&format!("/permission/{id}/reply"), &json!({"reply": "once"})).await.ok();
    let messages = answered(&stage, &session).await;
    assert_eq!(texts(&messages, "assistant"), ["was allowed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_has_the_data_in_it_takes_no_accepted_prompt() {
    // What was recorded of the folder, and what was searched in it, dropped the server's locks on its database. The next
    // command took it for unused, deleted the log under the server, and all that was accepted from then on was lost.
    let (model, mut home) = (ModelServer::start(), Home::new());
    let data = home.work().join("data");
    std::fs::create_dir(&data).unwrap();
    home.set("EVERTURN_DATA", &data);
    let mut config = opencode_config(&model.base_url());
    config["permission"] = json!({"*": "allow", "secret_file": "allow", "external_directory": "allow"});
    home.configure(&config);
    let mut options = ServerOptions::with_model(&model.base_url());
    options.directory = Some(home.work().to_owned());
    options.config = config;
    options.environment = vec![("EVERTURN_DATA".to_owned(), data.display().to_string())];
    let mut server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let client = server.client();
    let begin = async |text: &str| {
        let made = client.post("/session", &json!({"title": text})).await.ok().json();
        let id = made["id"].as_str().unwrap().to_owned();
        let prompt = json!({"parts": [{"type": "text", "text": text}]});
        client.post(&format!("/session/{id}/message"), &prompt).await.ok();
        id
    };
    begin("TOOL:bash:true\nSAY:one").await;
    let search = json!({"pattern": "session", "path": data});
    begin(&format!("JSONTOOL:grep:{search}\nSAY:two")).await;
    home.run(&["session", "list"]).success();
    let last = begin("SAY:three").await;
    server.kill9().await;
    let shown = home.run(&["session", "show", &last]).success();
    assert!(shown.contains("SAY:three") && shown.contains("  three"), "{shown}");
}
