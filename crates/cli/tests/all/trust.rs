//! What a project's configuration asks for, shown and trusted on the command line and in clients.

use std::path::Path;
use std::process::Stdio;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, Repo, within};
use serde_json::{Value, json};

use crate::opencode;
use crate::shell::Home;
use crate::tmux::{Screen, Terminal};

fn bring(home: &Home, config: &Value) {
    std::fs::write(home.work().join("opencode.json"), config.to_string()).unwrap();
}

/// What a project wants the model to be called, and where that is.
fn provider(model: &ModelServer) -> Value {
    json!({"options": {"baseURL": model.base_url()}, "models": {"m": {}}})
}

#[test]
fn a_project_is_trusted_as_it_is_shown() {
    let model = ModelServer::start();
    let home = Home::new();
    bring(&home, &json!({"model": "theirs/m", "provider": {"theirs": provider(&model)}}));
    let refused = home.run(&["run", "--model", "theirs/m", "SAY:x"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    let told = "this project's configuration asks for more than you have trusted (model, provider.theirs): `everturn trust` shows it";
    assert!(refused.stderr.starts_with(told), "{refused:?}");
    assert!(model.requests().is_empty());

    let shown = home.run(&["trust", "--show"]).success();
    assert!(
        shown.contains("model: which model answers, and who gets the conversation\n  \"theirs/m\"\n"),
        "{shown}"
    );
    assert!(
        shown.contains("provider.theirs: where conversations and keys are sent, and which keys\n"),
        "{shown}"
    );
    // Nobody can be asked in a pipe.
    let unasked = home.run(&["trust"]);
    assert_eq!(unasked.status, Some(1), "{unasked:?}");
    assert!(unasked.stderr.contains("nobody can be asked here: add --yes"), "{unasked:?}");
    let unknown = home.run(&["trust", "--yes", "mcp.x"]).failure(1);
    assert!(unknown.contains("does not ask for mcp.x, only for model, provider.theirs"), "{unknown}");

    assert_eq!(home.run(&["trust", "--yes"]).status, Some(0));
    let said = home.run(&["run", "SAY:from theirs"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "from theirs\n"), "{said:?}");

    // What has changed is shown beside what it was, and has to be trusted again.
    bring(&home, &json!({"model": "theirs/other", "provider": {"theirs": provider(&model)}}));
    let shown = home.run(&["trust", "--show"]).success();
    assert!(shown.contains("  -\"theirs/m\"\n") && shown.contains("  +\"theirs/other\"\n"), "{shown}");
    assert!(!shown.contains("provider.theirs"), "{shown}");
    let report: Value = serde_json::from_str(&home.run(&["trust", "--json"]).success()).unwrap();
    assert_eq!(report["held"], json!([{"name": "model", "asks": "theirs/other", "before": "theirs/m"}]));

    // Taking back is asked about as well: it was done at once.
    let unasked = home.run(&["trust", "--revoke"]).failure(1);
    assert!(unasked.contains("nobody can be asked here: add --yes"), "{unasked}");
    let none = home.run(&["trust", "--revoke", "mcp.x", "--yes"]).failure(1);
    assert!(none.contains("mcp.x is not trusted in "), "{none}");
    let root = home.work().canonicalize().unwrap();
    let told = format!("1 thing of {} is not trusted any more\n", root.display());
    assert_eq!(home.run(&["trust", "--revoke", "model", "--yes"]).success(), told);
    assert_eq!(home.run(&["trust", "--revoke", "--yes"]).success(), told);
    let nothing = home.run(&["trust", "--revoke"]);
    let told = format!("nothing of {} is trusted\n", root.display());
    assert_eq!((nothing.status, nothing.stderr), (Some(0), told));
    let report: Value = serde_json::from_str(&home.run(&["trust", "--json"]).success()).unwrap();
    assert_eq!(report["held"].as_array().map(Vec::len), Some(2), "{report}");
}

#[test]
fn what_looks_like_a_key_is_not_shown() {
    // Whoever looked over the person's shoulder, or read the log of a script, had it.
    let home = Home::new();
    let server = |key: &str| json!({"mcp": {"docs": {"type": "local", "command": ["docs", "--key", key]}}});
    let (old, new) = ("sk-proj-Ab3dEf6hIj9kLm2n", "sk-proj-Zz3dEf6hIj9kLm2n");
    let check = |key: &str, lines: &[&str]| {
        bring(&home, &server(key));
        let shown = home.run(&["trust", "--show"]).success();
        assert!(lines.iter().all(|line| shown.contains(line)), "{shown}");
        let report = home.run(&["trust", "--json"]).success();
        assert!(report.contains(r#""[hidden]""#), "{report}");
        assert!([shown, report].iter().all(|text| !text.contains("sk-proj")), "{lines:?}");
    };
    check(old, &["    \"[hidden]\"\n"]);
    assert_eq!(home.run(&["trust", "--yes"]).status, Some(0));
    // That it has changed can be seen.
    check(new, &["  -    \"[hidden before]\"\n", "  +    \"[hidden]\"\n"]);
}

#[test]
fn a_script_says_beforehand_that_a_project_is_trusted() {
    let model = ModelServer::start();
    let home = Home::new();
    bring(&home, &json!({"model": "theirs/m", "provider": {"theirs": provider(&model)}}));
    let said = home.run(&["run", "--trust", "SAY:at once"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "at once\n"), "{said:?}");
    assert!(said.stderr.starts_with("trusted in "), "{said:?}");
    // It is remembered.
    let again = home.run(&["run", "SAY:again"]);
    assert_eq!((again.status, again.stdout.as_str()), (Some(0), "again\n"), "{again:?}");
}

#[test]
fn a_broken_file_stops_no_command() {
    let home = Home::new();
    std::fs::write(home.work().join("opencode.json"), "{\"model\" 1}").unwrap();
    let listed = home.run(&["models"]);
    assert_eq!(listed.status, Some(0), "{listed:?}");
    let place = format!("configuration: {}:1:10: ", home.work().join("opencode.json").display());
    assert!(listed.stderr.contains(&place), "{listed:?}");
}

#[test]
fn a_file_that_is_named_and_not_there_stops_no_command() {
    // A file with a mistake in it was named, and one that was missing stopped everything.
    let mut home = Home::new();
    home.set("OPENCODE_CONFIG", "/nowhere/opencode.json");
    let told = "configuration: OPENCODE_CONFIG: it names /nowhere/opencode.json, which is not there";
    let shown = home.run(&["doctor"]);
    assert!(shown.status == Some(0) && shown.stdout.contains(told), "{shown:?}");
    let listed = home.run(&["models"]);
    assert!(listed.status == Some(0) && listed.stderr.contains(told), "{listed:?}");
}

#[test]
fn only_the_word_trust_trusts_a_project_in_a_run() {
    let (own, theirs) = (ModelServer::start(), ModelServer::start());
    let home = Home::new();
    home.configure(
        &json!({"model": "own/m", "provider": {"own": provider(&own)}, "permission": {"*": "allow"}}),
    );
    bring(&home, &json!({"model": "theirs/m", "provider": {"theirs": provider(&theirs)}}));
    let said = home.run(&["run", "--yes", "SAY:by mine"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "by mine\n"), "{said:?}");
    // One line about it, and none about a permission that was refused.
    let lines: Vec<&str> = said.stderr.lines().collect();
    let told = "this project's configuration asks for more than you have trusted (model, provider.theirs): `everturn trust` shows it";
    assert_eq!((lines[0], lines.len()), (told, 2), "{said:?}");
    assert!(lines[1].starts_with("session ses_"), "{said:?}");
    assert!(theirs.requests().is_empty());
    let report: Value = serde_json::from_str(&home.run(&["trust", "--json"]).success()).unwrap();
    assert_eq!(report["held"].as_array().map(Vec::len), Some(2), "{report}");
}

/// A server in a repository that wants another model and a server of its own. Fields are dropped in this order.
struct Scene {
    server: EverturnServer,
    own: ModelServer,
    theirs: ModelServer,
    repo: Repo,
}

impl Scene {
    async fn new() -> Self {
        let server = include_str!("../../../tools/tests/all/mcp/scripted.py");
        let (own, theirs) = (ModelServer::start(), ModelServer::start());
        let repo = Repo::new(&[("docs.py", server)]);
        let mut options = ServerOptions::with_model(&own.base_url());
        options.config.as_object_mut().unwrap().remove("enabled_providers");
        options.directory = Some(repo.path().to_owned());
        let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
        let scene = Self { server, own, theirs, repo };
        scene.bring("plain");
        scene
    }

    /// Writes the configuration of the repository.
    fn bring(&self, mode: &str) {
        let config = json!({"model": "theirs/m", "provider": {"theirs": provider(&self.theirs)},
            "mcp": {"docs": {"type": "local", "command": ["python3", "docs.py", mode, "/dev/null"]}}});
        self.repo.write("opencode.json", config.to_string());
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    async fn session(&self) -> String {
        let session = self.client().post("/session", &json!({})).await.ok().json();
        session["id"].as_str().unwrap().to_owned()
    }

    /// Prompts without naming a model, and waits for the answer: the model, and what it said.
    async fn prompt(&self, session: &str, text: &str) -> (String, String) {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        let said = self.client().post(&format!("/session/{session}/message"), &body).await.ok().json();
        let text = said["parts"].as_array().unwrap().iter().find_map(|part| part["text"].as_str()).unwrap();
        (said["info"]["providerID"].as_str().unwrap().to_owned(), text.to_owned())
    }

    async fn waiting(&self) -> Vec<Value> {
        self.client().get("/permission").await.ok().json().as_array().unwrap().clone()
    }

    async fn reply(&self, request: &Value, reply: &str) {
        let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
        assert_eq!(self.client().post(&path, &json!({"reply": reply})).await.ok().json(), json!(true));
    }
}

fn offers(prompt: &Value, tool: &str) -> bool {
    prompt["tools"].to_string().contains(tool)
}

#[tokio::test]
async fn a_client_is_asked_for_trust_and_the_next_prompt_has_it() {
    let scene = Scene::new().await;
    let mut events = scene.client().events("/event").await;
    let session = scene.session().await;
    assert_eq!(scene.prompt(&session, "SAY:mine").await, ("fake".to_owned(), "mine".to_owned()));
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    assert_eq!(
        (&asked["permission"], &asked["patterns"], &asked["sessionID"]),
        (&json!("project_trust"), &json!(["mcp.docs", "provider.theirs", "model"]), &json!(session))
    );
    assert_eq!(asked["metadata"]["folder"], scene.repo.dir());
    assert_eq!(scene.waiting().await, std::slice::from_ref(&asked));
    assert!(!offers(&scene.own.prompts()[0], "docs_echo"));
    assert!(scene.theirs.requests().is_empty());

    scene.reply(&asked, "always").await;
    // The session stays with its model, unless it is told otherwise, and has the server; a new one has both.
    assert_eq!(scene.prompt(&session, "SAY:mine").await.0, "fake");
    assert!(offers(&scene.own.prompts()[1], "docs_echo"));
    let next = scene.session().await;
    assert_eq!(scene.prompt(&next, "SAY:theirs").await, ("theirs".to_owned(), "theirs".to_owned()));
    assert!(offers(&scene.theirs.prompts()[0], "docs_echo"));
    assert_eq!(scene.waiting().await, [] as [Value; 0]);

    scene.bring("names");
    scene.prompt(&next, "SAY:x").await;
    let waiting = scene.waiting().await;
    let items = waiting[0]["metadata"]["items"].as_array().unwrap();
    assert_eq!((waiting.len(), items.len(), &items[0]["name"]), (1, 1, &json!("mcp.docs")), "{waiting:?}");
    let diff = items[0]["diff"].as_str().unwrap();
    assert!(diff.contains("-    \"plain\",\n+    \"names\",\n"), "{diff}");
    assert!(!offers(scene.theirs.prompts().last().unwrap(), "docs_"), "it is held again");
}

#[tokio::test]
async fn a_request_for_trust_outlives_the_server_and_can_be_refused() {
    let mut scene = Scene::new().await;
    let session = scene.session().await;
    scene.prompt(&session, "SAY:x").await;
    let before = scene.waiting().await;
    assert_eq!(before.len(), 1, "{before:?}");
    scene.server.kill9().await;
    scene.server.restart().await;
    assert_eq!(scene.waiting().await, before);
    // What clients say by themselves trusts nothing.
    scene.reply(&before[0], "once").await;
    scene.prompt(&session, "SAY:x").await;
    let again = scene.waiting().await;
    assert_eq!((again.len(), &again[0]["metadata"]), (1, &before[0]["metadata"]));
    scene.reply(&again[0], "reject").await;
    scene.server.restart().await;
    scene.prompt(&session, "SAY:x").await;
    assert_eq!(scene.waiting().await, [] as [Value; 0]);
    let other = scene.session().await;
    assert_eq!(scene.prompt(&other, "SAY:mine").await.0, "fake");
    assert!(scene.theirs.requests().is_empty());
    assert_eq!(scene.waiting().await.len(), 1, "another session is asked");
}

#[tokio::test]
async fn opencodes_sdk_lists_and_answers_a_request_for_trust() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    scene.prompt(&session, "SAY:x").await;
    let mut command = tokio::process::Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/trust.mjs"));
    command.arg(opencode::package("@opencode-ai/sdk/dist/v2/index.js"));
    command.args([scene.server.base_url(), &scene.server.auth_header().unwrap(), scene.repo.dir()]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the program that uses the SDK", command.output()).await;
    let output = output.expect("node runs: install node 18 or newer, or run ./test, which installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let got: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(got["asked"][0]["permission"], "project_trust");
    assert_eq!((&got["answers"], &got["left"]), (&json!([true]), &json!([])));
    let next = scene.session().await;
    assert_eq!(scene.prompt(&next, "SAY:theirs").await.0, "theirs");
}

#[tokio::test]
async fn opencodes_terminal_shows_what_it_would_trust() {
    let scene = Scene::new().await;
    scene.repo.write("opencode.json", r#"{"snapshot": false}"#);
    let home = tempfile::tempdir().unwrap();
    let words = ["attach", scene.server.base_url()];
    let terminal =
        Terminal::open(opencode::program(), &words, &opencode::environment(home.path()), scene.repo.path());
    terminal.shows("Ask anything").await;
    terminal.enter("SAY:x").await;
    let asked = |screen: &Screen| {
        screen.text().contains("Call tool project_trust") && screen.text().contains("Allow always")
    };
    terminal.until("the request", asked).await;
    terminal.press(&["Right"]);
    terminal.press(&["Enter"]);
    let shown = |screen: &Screen| {
        let text = screen.text();
        text.contains("- snapshot: false") && text.contains("Confirm")
    };
    terminal.until("what is trusted", shown).await;
    terminal.press(&["Enter"]);
    let config = format!("/config?directory={}", scene.repo.dir());
    let trusted = async {
        while scene.client().get(&config).await.ok().json()["snapshot"] != false {
            tokio::task::yield_now().await;
        }
    };
    within("the setting to count", trusted).await;
}

#[tokio::test]
async fn what_is_in_a_file_that_a_project_names_is_shown_and_trusted() {
    // The name of the file was trusted: what was written there afterwards ran, and had the key sent elsewhere.
    let (first, second) = (ModelServer::start(), ModelServer::start());
    let home = Home::new();
    let ran = home.work().join("ran");
    let write = |url: &str, word: &str| {
        std::fs::write(home.work().join("url.txt"), format!("{url}\n")).unwrap();
        std::fs::write(home.work().join("cmd.txt"), format!("echo {word} >> {}\n", ran.display())).unwrap();
    };
    bring(
        &home,
        &json!({
            "model": "theirs/m",
            "provider": {"theirs": {"options": {"baseURL": "{file:./url.txt}"}, "models": {"m": {}}}},
            "mcp": {"s": {"type": "local", "command": ["sh", "-c", "{file:./cmd.txt}"]}},
        }),
    );
    write(&first.base_url(), "one");
    let shown = home.run(&["trust", "--show"]).success();
    assert!(shown.contains(&first.base_url()) && shown.contains("echo one >> "), "{shown}");
    assert_eq!(home.run(&["trust", "--yes"]).status, Some(0));
    home.run(&["mcp", "list"]).success();
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), "one\n");
    let said = home.run(&["run", "SAY:by theirs"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "by theirs\n"), "{said:?}");
    let before = std::fs::read_to_string(&ran).unwrap();

    write(&second.base_url(), "two");
    let shown = home.run(&["trust", "--show"]).success();
    let lines = |mark: &str| -> String {
        shown.lines().filter(|line| line.trim_start().starts_with(mark)).collect::<Vec<_>>().join("\n")
    };
    let (gone, added) = (lines("-"), lines("+"));
    assert!(gone.contains(&first.base_url()) && gone.contains("echo one >> "), "{shown}");
    assert!(added.contains(&second.base_url()) && added.contains("echo two >> "), "{shown}");
    home.run(&["mcp", "list"]).success();
    assert_eq!(home.run(&["run", "SAY:x"]).status, Some(1));
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), before);
    assert!(second.requests().is_empty());
}
