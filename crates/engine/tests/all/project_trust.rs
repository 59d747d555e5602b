//! What a project's configuration asks for, as a request to the person: it holds nothing up, no rule grants it, and only
//! what was shown is trusted.

use everturn_engine::sessions::NewSession;
use everturn_engine::{Engine, Error, Prompt};
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{Map, SessionId};
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission;

const PROJECT: &str = "opencode.json";

/// The program of the project's server, which is started only where it is trusted.
const SERVER: &str = include_str!("../../../tools/tests/all/mcp/scripted.py");

/// A project that wants a server, and another agent.
fn wanted(agent: &str) -> String {
    let server = json!({"type": "local", "command": ["python3", "docs.py", "plain", "/dev/null"]});
    json!({"mcp": {"docs": server}, "default_agent": agent}).to_string()
}

async fn bench(person: Value) -> Bench {
    Bench::found(person, &[(PROJECT, &wanted("plan")), ("docs.py", SERVER)]).await
}

/// The requests for trust that wait in a session.
async fn waiting(engine: &Engine, session: &SessionId) -> Vec<Request> {
    let waiting = engine.requests().waiting().await.unwrap();
    let own = waiting.into_iter().filter(|(id, request)| id == session && request.trust_digest().is_some());
    own.map(|(_, request)| request).collect()
}

/// The only one.
async fn asked(bench: &Bench) -> Request {
    let mut waiting = waiting(&bench.engine, &bench.session.id).await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting.remove(0)
}

async fn reply(bench: &Bench, request: &Request, reply: Reply) {
    bench.engine.requests().reply(&request.id, reply, None).await.unwrap();
}

fn parts(request: &Request) -> (&str, &[String], &[String], &Map) {
    match &request.ask {
        Ask::Permission { permission, patterns, always, metadata } => {
            (permission, patterns, always, metadata)
        }
        Ask::Question { .. } => panic!("{request:?}"),
    }
}

async fn held(bench: &Bench) -> Vec<String> {
    bench.config().await.held.keys().cloned().collect()
}

/// Whether the model was told last of the tools of the project's server.
fn has_server(bench: &Bench) -> bool {
    bench.model.prompts().pop().unwrap()["tools"].to_string().contains("docs_echo")
}

#[tokio::test]
async fn a_client_is_asked_and_the_work_goes_on() {
    let bench = bench(json!({})).await;
    bench.say("SAY:by the person's own rules").await;
    assert_eq!(bench.transcript().await[1], "assistant: by the person's own rules");
    let request = asked(&bench).await;
    assert_eq!(request.call, None);
    let (permission, patterns, always, metadata) = parts(&request);
    assert_eq!(
        (permission, patterns),
        ("project_trust", &["mcp.docs".to_owned(), "default_agent".into()][..])
    );
    assert_eq!(
        always,
        ["mcp.docs: python3 docs.py plain /dev/null (command); local (type)", "default_agent: plan"]
    );
    let item = metadata["items"][1].as_object().unwrap();
    let shown = ["name", "words", "content", "diff"].map(|key| item.get(key).and_then(Value::as_str));
    assert_eq!(shown, [Some("default_agent"), Some("which agent answers"), Some("\"plan\"\n"), None]);
    assert_eq!(metadata["folder"], bench.repo.dir());
    assert!(!has_server(&bench));
    // Once, however often the session goes on.
    bench.say("SAY:again").await;
    assert_eq!(asked(&bench).await, request);

    reply(&bench, &request, Reply::Always).await;
    assert_eq!(held(&bench).await, [] as [&str; 0]);
    bench.say("SAY:with the server").await;
    // Its tools were missing in the first turn: nobody waited for a server that was started after the others.
    assert!(has_server(&bench));
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
    // What has changed is asked for again, and nothing else.
    bench.repo.write(PROJECT, wanted("build"));
    bench.say("SAY:changed").await;
    let changed = asked(&bench).await;
    let (_, patterns, always, metadata) = parts(&changed);
    assert_eq!(patterns, ["default_agent"]);
    assert_eq!(always, ["default_agent: + build; - plan"]);
    assert_eq!(metadata["items"][0]["diff"], "-\"plan\"\n+\"build\"\n");
}

#[tokio::test]
async fn what_a_terminal_has_no_room_for_is_asked_for_after_that() {
    // OpenCode's terminal drew the lines over each other and cut them, so that commands and addresses could not be seen.
    let servers: serde_json::Map<String, Value> = (0..9)
        .map(|number| {
            (format!("s{number}"), json!({"type": "local", "command": ["touch", "PWN"], "enabled": false}))
        })
        .collect();
    let project = json!({"mcp": servers}).to_string();
    let bench = Bench::found(json!({}), &[(PROJECT, &project)]).await;
    bench.say("SAY:x").await;
    let first = asked(&bench).await;
    let (_, _, always, metadata) = parts(&first);
    assert_eq!((always.len(), &metadata["more"]), (6, &json!(3)));
    assert!(always.iter().all(|row| row.contains("touch PWN (command)") && row.len() <= 66), "{always:?}");
    reply(&bench, &first, Reply::Always).await;
    let rest = asked(&bench).await;
    assert_eq!(parts(&rest).1, ["mcp.s6", "mcp.s7", "mcp.s8"]);
    reply(&bench, &rest, Reply::Always).await;
    assert_eq!(held(&bench).await, [] as [&str; 0]);
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
}

#[tokio::test]
async fn what_runs_and_where_things_are_sent_is_asked_for_first() {
    // By their names, others took the room that there is: where keys would be sent was not shown.
    let address = format!("http://{}.example/v1", "evil".repeat(20));
    let project = json!({
        "default_agent": "plan", "instructions": ["/srv/words.md"], "snapshot": false,
        "permission": {"bash": "allow", "edit": "allow", "webfetch": "allow"},
        "provider": {"acme": {"options": {"baseURL": address, "apiKey": "{env:ACME_KEY}"}}},
        "mcp": {"docs": {"type": "local", "command": ["docs"], "enabled": false}},
    });
    let bench = Bench::found(json!({}), &[(PROJECT, &project.to_string())]).await;
    bench.say("SAY:x").await;
    let first = asked(&bench).await;
    let (_, patterns, always, _) = parts(&first);
    assert_eq!(patterns[..2], ["mcp.docs", "provider.acme"]);
    assert!(always.iter().any(|row| row.contains("{env:ACME_KEY}")), "{always:?}");
    // A terminal of 80 columns has room for no more.
    assert!(always.len() <= 6 && always.iter().all(|row| row.chars().count() <= 66), "{always:?}");
    assert!(always.iter().any(|row| row.chars().count() == 66), "{always:?}");
}

#[tokio::test]
async fn once_trusts_nothing_because_clients_say_it_by_themselves() {
    let bench = bench(json!({})).await;
    bench.say("SAY:x").await;
    let first = asked(&bench).await;
    reply(&bench, &first, Reply::Once).await;
    assert_eq!(held(&bench).await, ["default_agent", "mcp.docs"]);
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
    bench.say("SAY:x").await;
    assert_ne!(asked(&bench).await.id, first.id);
}

#[tokio::test]
async fn what_was_refused_is_not_asked_for_again_in_the_session() {
    let mut bench = bench(json!({})).await;
    bench.say("SAY:x").await;
    let request = asked(&bench).await;
    reply(&bench, &request, Reply::Reject).await;
    bench.say("SAY:x").await;
    bench.restart().await;
    bench.say("SAY:x").await;
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
    assert_eq!(held(&bench).await, ["default_agent", "mcp.docs"]);
    // Something else was not refused; and what was, still is when it comes back.
    bench.repo.write(PROJECT, r#"{"default_agent": "plan"}"#);
    bench.say("SAY:x").await;
    assert_eq!(parts(&asked(&bench).await).1, ["default_agent"]);
    bench.repo.write(PROJECT, wanted("plan"));
    bench.say("SAY:x").await;
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, [], "the other one was taken back");
    // Another session is asked for itself, a copy of this one too.
    let fork = bench.engine.sessions().fork(&bench.session.id, None).await.unwrap();
    bench.engine.inbox().admit(&fork.id, Prompt::text("SAY:x")).await.unwrap();
    within("the fork", bench.engine.drains().settled(&fork.id)).await;
    assert_eq!(waiting(&bench.engine, &fork.id).await.len(), 1);
}

#[tokio::test]
async fn no_rule_and_no_other_approval_trusts_a_project() {
    let everything = json!({"permission": {"*": "allow", "project_trust": "allow", "external_directory": "ask"},
        "agent": {"build": {"permission": {"project_trust": "allow"}}}});
    let mut bench = bench(everything).await;
    let call = permission::ask(&mut bench, "SAY:x").await;
    assert!(call.trust_digest().is_some());
    bench.settled().await;
    // Something else is approved for good in the same project, and something else is refused.
    for answer in [Reply::Always, Reply::Reject] {
        let file = if answer == Reply::Always { "/etc/hostname" } else { "/usr/lib/os-release" };
        let other = permission::ask(&mut bench, &format!("TOOL:read:{file}\nSAY:ok")).await;
        assert_eq!(parts(&other).0, "external_directory");
        reply(&bench, &other, answer).await;
        bench.settled().await;
        assert_eq!(asked(&bench).await, call);
    }
    assert_eq!(held(&bench).await, ["default_agent", "mcp.docs"]);
    // The other way round, too: whoever trusts nothing has not refused a call.
    let other = permission::ask(&mut bench, "TOOL:read:/usr/lib/os-release\nSAY:read").await;
    reply(&bench, &call, Reply::Reject).await;
    reply(&bench, &other, Reply::Once).await;
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: read");
}

#[tokio::test]
async fn an_answer_is_for_what_was_shown() {
    let bench = bench(json!({})).await;
    bench.say("SAY:x").await;
    let shown = asked(&bench).await;
    let other = json!({"mcp": {"docs": {"type": "local", "command": ["evil"]}}, "default_agent": "plan"});
    bench.repo.write(PROJECT, other.to_string());
    reply(&bench, &shown, Reply::Always).await;
    assert_eq!(held(&bench).await, ["default_agent", "mcp.docs"], "nothing of it");
    let again = asked(&bench).await;
    assert_ne!(again.id, shown.id);
    assert!(parts(&again).2[0].contains("evil"), "{again:?}");
    // It is as it was: that was not refused.
    bench.repo.write(PROJECT, wanted("plan"));
    bench.say("SAY:x").await;
    let request = asked(&bench).await;
    assert_eq!(request.ask, shown.ask);
    reply(&bench, &request, Reply::Always).await;
    assert_eq!(held(&bench).await, [] as [&str; 0]);
}

#[tokio::test]
async fn what_one_session_trusts_the_others_need_not_ask_for() {
    let bench = bench(json!({})).await;
    let elsewhere = bench.beside().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    elsewhere.inbox().admit(&other.id, Prompt::text("SAY:x")).await.unwrap();
    within("the other session", elsewhere.drains().settled(&other.id)).await;
    bench.say("SAY:x").await;
    let [here, there] = [asked(&bench).await, waiting(&elsewhere, &other.id).await.remove(0)];
    assert_ne!(here.id, there.id);
    assert_eq!(here.ask, there.ask);
    reply(&bench, &here, Reply::Always).await;
    assert_eq!(waiting(&elsewhere, &other.id).await, []);
    let late = elsewhere.requests().reply(&there.id, Reply::Always, None).await;
    assert!(matches!(late, Err(Error::NoRequest(_))), "{late:?}");
    elsewhere.close().await;
}

#[tokio::test]
async fn what_was_trusted_on_the_command_line_is_taken_back() {
    let bench = bench(json!({})).await;
    bench.say("SAY:x").await;
    asked(&bench).await;
    bench.trust_all().await;
    bench.say("SAY:x").await;
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
    assert!(has_server(&bench));
    // Whoever takes trust back is asked again.
    bench.trust().revoke(&bench.config().await.root, &[]).unwrap();
    bench.say("SAY:x").await;
    assert_eq!(parts(&asked(&bench).await).1, ["mcp.docs", "default_agent"]);
}

#[tokio::test]
async fn a_subagent_does_not_ask() {
    let bench = bench(json!({})).await;
    bench.say("TOOL:task:SAY:child speaks").await;
    let request = asked(&bench).await;
    let waiting = bench.engine.requests().waiting().await.unwrap();
    assert_eq!(waiting, [(bench.session.id.clone(), request)]);
    assert_eq!(bench.engine.sessions().children(&bench.session.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_request_stays_until_it_is_answered() {
    let mut bench = bench(json!({})).await;
    let prompt = Prompt::text("HOLD:x SAY:one two");
    let first = bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap().id;
    bench.model.held("x").await;
    let request = asked(&bench).await;
    // Neither a stop of the work nor a new start answers it, and the session rests beside it.
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.model.release("x");
    bench.settled().await;
    assert_eq!(asked(&bench).await, request);
    bench.restart().await;
    assert_eq!(asked(&bench).await, request);
    assert!(bench.engine.drains().statuses().is_empty());
    bench.engine.reverts().revert(&bench.session.id, &first, None).await.unwrap();
    assert_eq!(asked(&bench).await, request);
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    bench.engine.sessions().trash(&bench.session.id).await.unwrap();
    assert_eq!(waiting(&bench.engine, &bench.session.id).await, []);
    let refused = bench.engine.requests().reply(&request.id, Reply::Always, None).await;
    assert!(matches!(refused, Err(Error::NoRequest(_))), "{refused:?}");
    assert_eq!(held(&bench).await, ["default_agent", "mcp.docs"]);
    bench.engine.trash().restore(&bench.session.id).await.unwrap();
    assert_eq!(asked(&bench).await, request);
    // Put off, it is asked for when the session goes on.
    bench.engine.requests().put_off(&request.id).await.unwrap();
    bench.say("SAY:x").await;
    assert_ne!(asked(&bench).await.id, request.id);
}

#[tokio::test]
async fn a_prompt_that_nobody_can_answer_asks_too() {
    // Whoever has configured no model of their own saw nothing but that there is none.
    let bench = bench(json!({"model": null, "provider": {}})).await;
    let refused = bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:x")).await;
    assert!(matches!(refused, Err(Error::NoModel)), "{refused:?}");
    let request = asked(&bench).await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:x")).await.unwrap_err();
    assert_eq!(asked(&bench).await, request);
}
