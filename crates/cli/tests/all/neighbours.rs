//! Two projects on one server at once: nothing of one is seen in the other, in answers, events, requests to models or
//! permissions.
//!
//! Everything of the one has the word `aldebaran` in it, everything of the other `betelgeuse`. Each has its own model, agent, rules,
//! skills and MCP server, trusted by the person.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EventReader, EverturnServer, ModelServer, Repo, within};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::stage::prompt;

/// The words.
const ALPHA: &str = "aldebaran";
const BETA: &str = "betelgeuse";

/// What a client of one folder looks at.
const LOOKED_AT: [&str; 18] = [
    "/config",
    "/agent",
    "/provider",
    "/config/providers",
    "/permission",
    "/question",
    "/session",
    "/session/status",
    "/mcp",
    "/command",
    "/skill",
    "/experimental/tool/ids",
    "/experimental/resource",
    "/path",
    "/vcs",
    "/project/current",
    "/lsp",
    "/formatter",
];

/// The program of the reference server.
fn program() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm").into_os_string();
    let folder = PathBuf::from(std::env::var_os("EVERTURN_TEST_NPM").unwrap_or_else(default));
    let program = folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(program.exists(), "MCP's reference server is missing: run ./test, which installs it");
    program
}

/// Starts the reference server and gives its address.
async fn reference_server() -> (Child, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("node");
    command.arg(program()).arg("streamableHttp").env("PORT", port.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().expect("node runs, ./test installs it");
    within("MCP's reference server", async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    (child, format!("http://127.0.0.1:{port}/mcp"))
}

/// A project of its own kind. Fields are dropped in this order.
struct Neighbour {
    word: &'static str,
    repo: Repo,
    model: ModelServer,
    _server: Child,
}

impl Neighbour {
    async fn new(word: &'static str) -> Self {
        let (server, url) = reference_server().await;
        let model = ModelServer::start();
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": format!("{word} provider"),
            "options": {"baseURL": model.base_url(), "apiKey": format!("{word}-key")},
            "models": {format!("{word}-model"): {"tool_call": true}}});
        let config = json!({
            "model": format!("{word}/{word}-model"), "small_model": format!("{word}/{word}-model"),
            "provider": {word: provider},
            "agent": {format!("{word}-agent"): {"prompt": format!("You are of {word}."), "mode": "primary"}},
            // Each denies another tool.
            "permission": {if word == ALPHA { "grep" } else { "glob" }: "deny", "question": "allow"},
            "mcp": {format!("{word}-server"): {"type": "remote", "url": url}},
            "command": {format!("{word}-command"): {"template": format!("do {word}")}},
            "instructions": ["more.md"], "username": format!("{word}-person"),
        });
        let skill = format!("---\nname: {word}-skill\ndescription: of {word}\n---\nwords of {word}\n");
        let skill_file = format!(".opencode/skill/{word}-skill/SKILL.md");
        let repo = Repo::new(&[
            ("opencode.json", &config.to_string()),
            ("AGENTS.md", &format!("Instructions of {word}.\n")),
            ("more.md", &format!("More of {word}.\n")),
            (&skill_file, &skill),
        ]);
        Self { word, repo, model, _server: server }
    }

    fn at(&self, path: &str) -> String {
        format!("{path}{}directory={}", if path.contains('?') { '&' } else { '?' }, self.repo.dir())
    }

    async fn session(&self, client: &Client) -> String {
        let made =
            client.post(&self.at("/session"), &json!({"title": format!("{} session", self.word)})).await;
        made.ok().json()["id"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt without waiting for its answer.
    async fn ask(&self, client: &Client, session: &str, text: &str) {
        let body =
            json!({"agent": format!("{}-agent", self.word), "parts": [{"type": "text", "text": text}]});
        client.post(&self.at(&format!("/session/{session}/prompt_async")), &body).await.ok();
    }

    /// What waits for a person here.
    async fn waiting(&self, client: &Client, path: &str) -> Vec<Value> {
        client.get(&self.at(path)).await.ok().json().as_array().unwrap().clone()
    }
}

/// A server that was started in neither of them, and the person's trust in both.
async fn serve(neighbours: [&Neighbour; 2]) -> EverturnServer {
    let mut options = ServerOptions::with_model("http://127.0.0.1:1");
    options.config["permission"] = json!({"edit": "ask"});
    options.config.as_object_mut().unwrap().remove("enabled_providers");
    let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let home = server.home();
    for neighbour in neighbours {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(["trust", "--yes"]).current_dir(neighbour.repo.path());
        command.env("HOME", home).env("XDG_STATE_HOME", home.join("state"));
        command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
        let output = command.env("OPENCODE_CONFIG", home.join("opencode.json")).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    server
}

/// Expects that what belongs to one has nothing of the other in it, and something of its own if it shall.
fn check(what: &str, of: &Neighbour, other: &Neighbour, text: &str) {
    assert!(!text.contains(other.word), "{what} of {} has {}: {text}", of.word, other.word);
    assert!(!text.contains(other.repo.dir()), "{what} of {} has the other folder: {text}", of.word);
}

/// Waits until a session is idle.
async fn idle(events: &mut EventReader, session: &str) {
    let is_idle = |data: &Value| data["type"] == "session.idle" && data["properties"]["sessionID"] == session;
    events.wait_for(is_idle).await;
}

#[tokio::test]
async fn two_projects_on_one_server_see_nothing_of_each_other() {
    let (alpha, beta) = tokio::join!(Neighbour::new(ALPHA), Neighbour::new(BETA));
    let server = serve([&alpha, &beta]).await;
    let client = server.client();
    let (mut heard, mut heard_beta) =
        (client.events(&alpha.at("/event")).await, client.events(&beta.at("/event")).await);
    let (session, other) = (alpha.session(&client).await, beta.session(&client).await);

    // Both at work: answers are held in the middle.
    let question = json!({"questions": [{"question": "of betelgeuse?", "header": "betelgeuse", "options": [
        {"label": "betelgeuse", "description": "betelgeuse"}]}]});
    alpha.ask(&client, &session, "HOLD:a\nSAY:aldebaran answers").await;
    beta.ask(&client, &other, &format!("JSONTOOL:question:{question}\nSAY:betelgeuse answers")).await;
    within("the first answer", alpha.model.held("a")).await;
    heard_beta.wait_for_type("question.asked").await;
    for path in LOOKED_AT {
        for (of, beside) in [(&alpha, &beta), (&beta, &alpha)] {
            let reply = client.get(&of.at(path)).await.ok();
            check(path, of, beside, &reply.body);
        }
    }
    let of_alpha = async |path: &str| client.get(&alpha.at(path)).await.ok().body;
    for path in ["/config", "/agent", "/provider", "/config/providers", "/session", "/mcp", "/skill"] {
        assert!(of_alpha(path).await.contains(ALPHA), "{path}");
    }
    let status: Value = serde_json::from_str(&of_alpha("/session/status").await).unwrap();
    assert_eq!(status.as_object().unwrap().keys().collect::<Vec<_>>(), [&session]);
    assert_eq!(alpha.waiting(&client, "/question").await, Vec::<Value>::new());
    let asked = beta.waiting(&client, "/question").await;
    let reply = format!("/question/{}/reply", asked[0]["id"].as_str().unwrap());
    client.post(&beta.at(&reply), &json!({"answers": [["betelgeuse"]]})).await.ok();
    alpha.model.release("a");
    idle(&mut heard, &session).await;
    idle(&mut heard_beta, &other).await;

    // The rules of one do not hold in the other: each denies another tool.
    let look = "TOOL:grep:nowhere\nTOOL:glob:nowhere\nSAY:looked";
    for (of, id, events) in [(&alpha, &session, &mut heard), (&beta, &other, &mut heard_beta)] {
        of.ask(&client, id, look).await;
        idle(events, id).await;
        let messages = client.get(&of.at(&format!("/session/{id}/message"))).await.ok().json();
        let calls =
            messages.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
        let failed: Vec<&str> = calls
            .filter(|part| part["state"]["status"] == "error")
            .map(|part| part["tool"].as_str().unwrap())
            .collect();
        assert_eq!(failed, [if of.word == ALPHA { "grep" } else { "glob" }], "{messages}");
    }

    // An agent of the one is nobody in the other.
    let wrong = json!({"agent": "betelgeuse-agent", "parts": [{"type": "text", "text": "SAY:x"}]});
    let refused = client.post(&alpha.at(&format!("/session/{session}/message")), &wrong).await;
    assert_eq!(refused.status, 400, "{}", refused.body);

    // What is approved for good in the one is asked for in the other.
    alpha.ask(&client, &session, "TOOL:write:one.txt=one\nSAY:written").await;
    let asked = heard.wait_for_type("permission.asked").await;
    assert_eq!(alpha.waiting(&client, "/permission").await.len(), 1);
    assert_eq!(beta.waiting(&client, "/permission").await, Vec::<Value>::new());
    let reply = format!("/permission/{}/reply", asked["properties"]["id"].as_str().unwrap());
    client.post(&alpha.at(&reply), &json!({"reply": "always"})).await.ok();
    idle(&mut heard, &session).await;
    alpha.ask(&client, &session, "TOOL:write:two.txt=two\nSAY:written").await;
    idle(&mut heard, &session).await;
    assert_eq!(alpha.repo.read("two.txt"), "two");
    beta.ask(&client, &other, "TOOL:write:three.txt=three\nSAY:not written").await;
    let asked = heard_beta.wait_for_type("permission.asked").await;
    assert!(!beta.repo.join("three.txt").exists());
    let reply = format!("/permission/{}/reply", asked["properties"]["id"].as_str().unwrap());
    client.post(&beta.at(&reply), &json!({"reply": "reject"})).await.ok();
    idle(&mut heard_beta, &other).await;

    // Everything that was heard and sent.
    for (of, beside, events, foreign) in
        [(&alpha, &beta, &heard, &other), (&beta, &alpha, &heard_beta, &session)]
    {
        let heard = events.seen();
        assert!(heard.len() > 10, "{} events", heard.len());
        for event in heard {
            check("an event", of, beside, &event.text);
            assert!(!event.text.contains(foreign.as_str()), "{}", event.text);
        }
        let sent = of.model.requests();
        assert!(!sent.is_empty());
        for request in &sent {
            check("a request to the model", of, beside, &request.to_string());
        }
        let prompt = of.model.prompts()[0].to_string();
        for own in ["You are of", "Instructions of", "More of", "of"] {
            assert!(prompt.contains(&format!("{own} {}", of.word)), "{own}: {prompt}");
        }
        assert!(prompt.contains(&format!("{}-server_echo", of.word)), "{prompt}");
    }
}

#[tokio::test]
async fn what_a_project_denies_holds_wherever_the_server_was_started() {
    // The server had one configuration, that of its own folder, and told every client of what waits in any.
    let here = Repo::new(&[("a.txt", "hello\n")]);
    let strict =
        r#"{"permission": {"bash": "deny", "edit": "ask"}, "agent": {"reviewer": {"prompt": "Review."}}}"#;
    let there = Repo::new(&[("opencode.json", strict)]);
    let model = ModelServer::start();
    let mut options = ServerOptions::with_model(&model.base_url());
    options.directory = Some(here.path().to_owned());
    let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    let client = server.client();
    let look = async |route: &str, repo: &Repo| {
        client.get(&format!("{route}?directory={}", repo.dir())).await.ok().json()
    };
    let place = format!("?directory={}", there.dir());
    let session = client.post(&format!("/session{place}"), &json!({})).await.ok().json();
    let path = format!("/session/{}", session["id"].as_str().unwrap());
    let run = json!({"command": "echo ran > ran", "description": "d"});
    client
        .post(&format!("{path}/message{place}"), &prompt(&format!("JSONTOOL:bash:{run}\nSAY:ok")))
        .await
        .ok();
    assert!(!there.join("ran").exists());
    let names = |agents: Value| agents.as_array().unwrap().iter().any(|agent| agent["name"] == "reviewer");
    assert_eq!((names(look("/agent", &there).await), names(look("/agent", &here).await)), (true, false));
    assert_eq!(look("/config", &there).await["agent"]["reviewer"]["prompt"], "Review.");
    assert_eq!(look("/config", &here).await["agent"]["reviewer"], Value::Null);
    // What waits there is nothing to whoever works here.
    let mut events = client.events(&format!("/event{place}")).await;
    let write = json!({"filePath": "new.txt", "content": "x"});
    let body = prompt(&format!("JSONTOOL:write:{write}\nSAY:ok"));
    client.post(&format!("{path}/prompt_async{place}"), &body).await.ok();
    events.wait_for_type("permission.asked").await;
    for route in ["/permission", "/session/status"] {
        let (theirs, ours) = (look(route, &there).await, look(route, &here).await);
        let count = |list: &Value| list.as_array().map_or_else(|| list.as_object().unwrap().len(), Vec::len);
        assert_eq!((count(&theirs), count(&ours)), (1, 0), "{route}: {theirs} {ours}");
    }
}
