//! Two servers on one database: whoever is attached to one of them follows what the other one runs, and what is said to
//! one of them takes effect in the other.
//!
//! Each test prints how long what it waited for took; `docs/benchmarks.md` says how to see that.

mod run;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use everturn_model::SessionId;
use everturn_store::Store;
use everturn_testkit::http::EventReader;
use everturn_testkit::postgres::{Postgres, TestDatabase};
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, Repo};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::stage::{PASSWORD, offline, prompt};
use crate::tmux::Terminal;
use crate::{opencode, stage};

/// The line under an answer, while it is made and when it is complete.
const OPEN: &str = "▣  Build · Fake One";
const DONE: &str = "▣  Build · Fake One · done";

/// Two servers that share their data. Fields are dropped in this order: the servers go first.
struct Pair {
    /// The one that is listened to and spoken to.
    near: EverturnServer,
    /// The one that runs the sessions.
    far: EverturnServer,
    model: ModelServer,
    repo: Repo,
    data: TempDir,
    database: Option<TestDatabase>,
}

impl Pair {
    async fn on_a_file() -> Self {
        Self::on(None).await
    }

    async fn on_a_server() -> Self {
        Self::on(Some(Postgres::shared().database())).await
    }

    async fn on(database: Option<TestDatabase>) -> Self {
        let (model, data) = (ModelServer::recorded(), tempfile::tempdir().unwrap());
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        let options = || {
            let mut options = ServerOptions::with_model(&model.base_url());
            options.password = Some(PASSWORD.to_owned());
            options.directory = Some(repo.path().to_owned());
            options.environment = offline();
            let mut say = |name: &str, value: String| options.environment.push((name.to_owned(), value));
            say("EVERTURN_DATA", data.path().display().to_string());
            if let Some(database) = &database {
                say("EVERTURN_DATABASE", database.url());
            }
            options
        };
        let binary = Path::new(env!("CARGO_BIN_EXE_everturn"));
        let far = EverturnServer::start(binary, options()).await;
        let near = EverturnServer::start(binary, options()).await;
        Self { near, far, model, repo, data, database }
    }

    /// Makes a session at the far server and returns its id.
    async fn session(&self, title: &str) -> String {
        let made = self.far.client().post("/session", &json!({"title": title})).await.ok().json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// `everturn run` in a session, in a process of its own beside both servers.
    fn run(&self, session: &str, arguments: &[&str]) -> Command {
        let home = self.near.home();
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(["run", "--session", session]).args(arguments).current_dir(self.repo.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("OPENCODE_CONFIG", home.join("opencode.json")).envs(offline());
        command.env("EVERTURN_DATA", self.data.path());
        command.envs(self.database.iter().map(|database| ("EVERTURN_DATABASE", database.url())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// The store, as another process has it.
    async fn store(&self) -> Store {
        let options = match &self.database {
            None => everturn_store::Options::folder(self.data.path(), "own_test"),
            Some(database) => everturn_store::Options::server(&database.url(), self.data.path(), "own_test"),
        };
        Store::open(options).await.unwrap()
    }

    /// The events in a session's log: their ids and names.
    async fn log(&self, session: &str) -> Vec<(String, String)> {
        let store = self.store().await;
        let log = store.events(&SessionId::new(session), None, usize::MAX).await.unwrap();
        log.into_iter().map(|record| (record.id.to_string(), record.event.name().to_owned())).collect()
    }

    /// What a measurement is of.
    fn name(&self) -> &'static str {
        if self.database.is_some() { "PostgreSQL" } else { "SQLite" }
    }
}

async fn say(client: &Client, session: &str, text: &str) {
    client.post(&format!("/session/{session}/prompt_async"), &prompt(text)).await.ok();
}

fn is_of(event: &Value, kind: &str, session: &str) -> bool {
    event["type"] == kind && event["properties"]["sessionID"] == session
}

/// Waits for an event of a session.
async fn heard(events: &mut EventReader, kind: &str, session: &str) -> Value {
    events.wait_for(|event| is_of(event, kind, session)).await
}

/// Waits until a prompt was accepted.
async fn hears_prompt(events: &mut EventReader, session: &str, text: &str) {
    let accepted = |event: &Value| {
        is_of(event, "message.part.updated", session) && event["properties"]["part"]["text"] == text
    };
    events.wait_for(accepted).await;
}

/// The text that came piece by piece.
fn streamed(events: &EventReader, session: &str) -> String {
    let pieces = events.seen().into_iter().filter(|event| is_of(&event.data, "message.part.delta", session));
    pieces.map(|event| event.data["properties"]["delta"].as_str().unwrap().to_owned()).collect()
}

/// Waits until so much text came.
async fn hears_text(events: &mut EventReader, session: &str, text: &str) {
    while streamed(events, session) != text {
        heard(events, "message.part.delta", session).await;
    }
}

/// Waits until what the turns changed was said so often: once at the beginning of each, and once after its end.
async fn hears_changes(events: &mut EventReader, session: &str, times: usize) {
    let said = |events: &EventReader| {
        events.seen().iter().filter(|event| is_of(&event.data, "session.diff", session)).count()
    };
    while said(events) < times {
        heard(events, "session.diff", session).await;
    }
}

/// Gives a session the title that is the last event of its log.
async fn rename(client: &Client, session: &str) {
    client.patch(&format!("/session/{session}"), &json!({"title": "the last word"})).await.ok();
}

/// Waits for that.
async fn hears_name(events: &mut EventReader, session: &str) {
    let renamed = |event: &Value| event["properties"]["info"]["title"] == "the last word";
    events.wait_for(|event| is_of(event, "session.updated", session) && renamed(event)).await;
}

/// The events in the log that a client saw, in the order in which they came: the id, and the types of what it was told,
/// which has that id on the first. A session may be told twice for one event, so that only its type counts. What belongs to
/// the moment is left out.
fn durable(events: &EventReader, session: &str, log: &[(String, String)]) -> Vec<(String, BTreeSet<String>)> {
    let live = ["message.part.delta", "session.status", "session.idle"];
    let word = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let mut durable: Vec<(String, BTreeSet<String>)> = Vec::new();
    for event in events.seen().into_iter().map(|event| event.data) {
        let (id, kind) = (word(&event, "id"), word(&event, "type"));
        if event["properties"]["sessionID"] != session || live.contains(&kind.as_str()) {
            continue;
        }
        match durable.last_mut() {
            Some((_, kinds)) if log.iter().all(|(known, _)| *known != id) => drop(kinds.insert(kind)),
            _ => durable.push((id, BTreeSet::from([kind]))),
        }
    }
    durable
}

/// What a client shows of a part, each time that changes: the part as a whole replaces it, a piece is put behind it.
fn shown(events: &EventReader, part: &Value) -> Vec<String> {
    let mut texts = vec![String::new()];
    for event in events.seen() {
        let properties = &event.data["properties"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let next = match event.data["type"].as_str() {
            Some("message.part.updated") if properties["part"]["id"] == *part => {
                text(&properties["part"]["text"])
            }
            Some("message.part.delta") if properties["partID"] == *part => {
                texts.last().unwrap().clone() + &text(&properties["delta"])
            }
            _ => continue,
        };
        texts.push(next);
    }
    texts.dedup();
    texts
}

/// What clients are told of an accepted prompt, of the end of an answer, and of what a turn changed.
const PROMPTED: &[&str] = &["message.updated", "message.part.updated", "session.updated"];
const ENDED: &[&str] = &["message.part.updated", "message.updated"];
const SUMMARIZED: &[&str] = &["session.updated", "session.diff", "message.updated"];

/// The log of a session with two turns and a new title, and what clients are told of each event.
const FOLLOWED: &[(&str, &[&str])] = &[
    ("session.created", &["session.created"]),
    ("prompt.admitted", PROMPTED),
    ("entry.added", &[]),
    ("prompt.promoted", &[]),
    ("step.started", &["message.updated"]),
    ("turn.summarized", SUMMARIZED),
    ("part.added", &["message.part.updated"]),
    ("part.started", &["message.part.updated"]),
    ("part.ended", &["message.part.updated"]),
    ("step.ended", ENDED),
    ("turn.summarized", SUMMARIZED),
    ("prompt.admitted", PROMPTED),
    ("prompt.promoted", &[]),
    ("step.started", &["message.updated"]),
    ("turn.summarized", SUMMARIZED),
    ("part.added", &["message.part.updated"]),
    ("part.started", &["message.part.updated"]),
    ("part.ended", &["message.part.updated"]),
    ("step.ended", ENDED),
    ("turn.summarized", SUMMARIZED),
    ("title.changed", &["session.updated"]),
];

/// The same of a session whose process was killed in the middle of an answer.
const TAKEN_OVER: &[(&str, &[&str])] = &[
    ("session.created", &["session.created"]),
    ("prompt.admitted", PROMPTED),
    ("entry.added", &[]),
    ("prompt.promoted", &[]),
    ("step.started", &["message.updated"]),
    ("turn.summarized", SUMMARIZED),
    ("part.added", &["message.part.updated"]),
    ("part.started", &["message.part.updated"]),
    ("recovery.begun", &[]),
    ("part.ended", &["message.part.updated"]),
    ("step.failed", &["message.updated"]),
    ("entry.added", &["message.updated", "message.part.updated"]),
    ("step.started", &["message.updated"]),
    ("turn.summarized", SUMMARIZED),
    ("part.added", &["message.part.updated"]),
    ("part.started", &["message.part.updated"]),
    ("part.ended", &["message.part.updated"]),
    ("step.ended", ENDED),
    ("turn.summarized", SUMMARIZED),
    ("title.changed", &["session.updated"]),
];

/// Compares the log with the events that are expected in it, and with what a client saw: each of them once, in their order.
fn check_seen(events: &EventReader, session: &str, log: &[(String, String)], expected: &[(&str, &[&str])]) {
    let names: Vec<&str> = log.iter().map(|(_, name)| name.as_str()).collect();
    let known: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
    let shown = log.iter().zip(expected).filter(|(_, (_, kinds))| !kinds.is_empty());
    let shown: Vec<(String, BTreeSet<String>)> = shown
        .map(|((id, _), (_, kinds))| (id.clone(), kinds.iter().map(|kind| (*kind).to_owned()).collect()))
        .collect();
    assert_eq!(durable(events, session, log), shown);
}

fn print_time(pair: &Pair, what: &str, began: Instant) {
    print_duration(pair, what, began.elapsed());
}

#[expect(clippy::print_stdout, reason = "a figure for the benchmarks")]
fn print_duration(pair: &Pair, what: &str, took: Duration) {
    println!("{}: {what}: {:.0} ms", pair.name(), took.as_secs_f64() * 1000.0);
}

/// A client at the near server sees a turn that the far one runs as a client of the far one does.
async fn check_follows(pair: &Pair) {
    let mut near = pair.near.client().events("/event").await;
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("followed").await;
    for events in [&mut near, &mut far] {
        heard(events, "session.created", &session).await;
    }
    say(&pair.far.client(), &session, "HOLD:middle SAY:one two three").await;
    pair.model.held("middle").await;
    hears_text(&mut far, &session, "one two ").await;
    let began = Instant::now();
    hears_text(&mut near, &session, "one two ").await;
    print_time(pair, "text, from the client of the server that streams it to that of the other", began);
    let statuses = pair.near.client().get("/session/status").await.ok().json();
    assert_eq!(statuses[&session]["type"], "busy", "{statuses}");
    // What streams is brought by the events alone: who loads the messages would have it twice.
    let messages = pair.near.client().get(&format!("/session/{session}/message")).await.ok().json();
    assert!(!messages.to_string().contains("\"text\":\"one two "), "{messages}");

    // Who attaches now gets the text so far, and then what comes after it.
    let mut late = pair.near.client().events("/event").await;
    let so_far = late
        .wait_for(|event| {
            is_of(event, "message.part.updated", &session)
                && event["properties"]["part"]["text"] == "one two "
        })
        .await;
    assert_eq!(so_far["properties"]["part"]["type"], "text");

    pair.model.release("middle");
    for events in [&mut near, &mut far, &mut late] {
        heard(events, "session.idle", &session).await;
    }
    let part = &so_far["properties"]["part"]["id"];
    assert_eq!(shown(&late, part), ["", "one two ", "one two three"], "nothing is missing or there twice");
    for events in [&mut near, &mut far] {
        hears_changes(events, &session, 2).await;
    }
    // This is answered when the session has settled, so nothing comes behind the last title but by mistake.
    let far_client = pair.far.client();
    far_client.post(&format!("/session/{session}/message"), &prompt("SAY:the end")).await.ok();
    for events in [&mut near, &mut far] {
        hears_changes(events, &session, 4).await;
    }
    rename(&far_client, &session).await;
    for events in [&mut near, &mut far] {
        hears_name(events, &session).await;
    }
    let log = pair.log(&session).await;
    for events in [&near, &far] {
        check_seen(events, &session, &log, FOLLOWED);
    }
    let statuses = pair.near.client().get("/session/status").await.ok().json();
    assert_eq!(statuses.get(&session), None, "{statuses}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_a_turn_of_the_other_server_on_one_file() {
    check_follows(&Pair::on_a_file().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_a_turn_of_the_other_server_on_one_postgres() {
    check_follows(&Pair::on_a_server().await).await;
}

/// Prompts, answers and interrupts given to the near server for a session that the far one runs.
async fn check_takes_effect(pair: &Pair) {
    let mut near = pair.near.client().events("/event").await;
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("worked on").await;
    heard(&mut near, "session.created", &session).await;

    say(&pair.far.client(), &session, "HOLD:first SAY:one two").await;
    pair.model.held("first").await;
    say(&pair.near.client(), &session, "SAY:second").await;
    let began = Instant::now();
    let prompted = |event: &Value| {
        is_of(event, "message.part.updated", &session) && event["properties"]["part"]["text"] == "SAY:second"
    };
    far.wait_for(prompted).await;
    print_time(pair, "a prompt is seen by the server that runs the session", began);
    pair.model.release("first");
    let answered = |event: &Value| {
        is_of(event, "message.part.updated", &session) && event["properties"]["part"]["text"] == "second"
    };
    near.wait_for(answered).await;
    heard(&mut near, "session.idle", &session).await;

    say(&pair.far.client(), &session, "TOOL:read:/etc/hostname\nSAY:read it").await;
    let asked = heard(&mut near, "permission.asked", &session).await;
    let id = asked["properties"]["id"].as_str().unwrap().to_owned();
    pair.near.client().post(&format!("/permission/{id}/reply"), &json!({"reply": "once"})).await.ok();
    let began = Instant::now();
    let completed = |event: &Value| {
        is_of(event, "message.part.updated", &session)
            && event["properties"]["part"]["state"]["status"] == "completed"
    };
    far.wait_for(completed).await;
    print_time(pair, "a call goes on after its answer", began);
    heard(&mut near, "session.idle", &session).await;

    say(&pair.far.client(), &session, "HOLD:last SAY:never to be finished").await;
    pair.model.held("last").await;
    let stop = async {
        let began = Instant::now();
        pair.near.client().post(&format!("/session/{session}/abort"), &json!({})).await.ok();
        pair.model.abandoned("last").await;
        began.elapsed()
    };
    print_duration(pair, "an interrupt has stopped the call to the model", stop.await);
    let aborted = |event: &Value| {
        is_of(event, "message.updated", &session)
            && event["properties"]["info"]["error"]["name"] == "MessageAbortedError"
    };
    near.wait_for(aborted).await;
    heard(&mut near, "session.idle", &session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_to_one_server_takes_effect_in_the_other_on_one_file() {
    check_takes_effect(&Pair::on_a_file().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_to_one_server_takes_effect_in_the_other_on_one_postgres() {
    check_takes_effect(&Pair::on_a_server().await).await;
}

/// What touches a whole session is read by those who have to show it.
async fn check_moves(pair: &Pair) {
    let mut near = pair.near.client().events("/event").await;
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("taken back").await;
    // This is answered when the session has settled: a server tells that it is idle before it gives it back.
    pair.far.client().post(&format!("/session/{session}/message"), &prompt("SAY:one")).await.ok();
    let messages = pair.far.client().get(&format!("/session/{session}/message")).await.ok().json();
    let ids: Vec<&str> =
        messages.as_array().unwrap().iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    let revert = json!({"messageID": ids[0]});
    pair.far.client().post(&format!("/session/{session}/revert"), &revert).await.ok();
    say(&pair.far.client(), &session, "SAY:two").await;
    let answered = |event: &Value| {
        is_of(event, "message.part.updated", &session) && event["properties"]["part"]["text"] == "two"
    };
    for events in [&mut near, &mut far] {
        events.wait_for(answered).await;
        let removed =
            events.seen().into_iter().filter(|event| is_of(&event.data, "message.removed", &session));
        let removed: Vec<String> =
            removed.map(|event| event.data["properties"]["messageID"].as_str().unwrap().to_owned()).collect();
        assert_eq!(removed, ids);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_other_server_takes_back_is_removed_on_one_file() {
    check_moves(&Pair::on_a_file().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_other_server_takes_back_is_removed_on_one_postgres() {
    check_moves(&Pair::on_a_server().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_in_the_other_server_and_its_clients_see_it_whole() {
    let mut pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    let session = pair.session("taken over").await;
    say(&pair.far.client(), &session, "HOLD:half SAY:alpha beta gamma delta").await;
    pair.model.held("half").await;
    hears_text(&mut near, &session, "alpha beta gamma ").await;
    pair.far.kill9().await;
    pair.model.release("half");
    // The near server takes it on, ends what was begun, and goes on by itself.
    heard(&mut near, "session.idle", &session).await;
    hears_changes(&mut near, &session, 3).await;
    rename(&pair.near.client(), &session).await;
    hears_name(&mut near, &session).await;
    let log = pair.log(&session).await;
    check_seen(&near, &session, &log, TAKEN_OVER);
    let messages = pair.near.client().get(&format!("/session/{session}/message")).await.ok().json();
    let texts: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["info"]["role"] == "assistant")
        .flat_map(|message| message["parts"].as_array().unwrap())
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(texts.first(), Some(&"alpha beta gamma "), "{texts:?}");
    assert_eq!(texts.len(), 2, "what was saved, then the rest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_and_a_message_that_is_in_use_are_the_same_for_clients_of_both_servers() {
    let pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    let session = pair.session("failing").await;
    say(&pair.far.client(), &session, "HOLD:middle SAY:one two").await;
    pair.model.held("middle").await;
    let messages = pair.near.client().get(&format!("/session/{session}/message")).await.ok().json();
    let message = messages[0]["info"]["id"].as_str().unwrap();
    for server in [&pair.near, &pair.far] {
        let refused = server.client().delete(&format!("/session/{session}/message/{message}")).await;
        assert_eq!(refused.status, 409);
    }
    pair.model.release("middle");
    heard(&mut near, "session.idle", &session).await;

    say(&pair.far.client(), &session, "ERR:400 please").await;
    heard(&mut near, "session.idle", &session).await;
    let errors: Vec<Value> = near
        .seen()
        .into_iter()
        .filter(|event| is_of(&event.data, "session.error", &session))
        .map(|event| event.data["properties"]["error"]["name"].clone())
        .collect();
    assert_eq!(errors, ["APIError"]);
}

/// The real terminal, attached to the near server, shows what the far one runs.
async fn check_terminal(pair: &Pair) {
    let session = pair.session("seen from afar").await;
    let home = tempfile::tempdir().unwrap();
    let words = ["attach", pair.near.base_url(), "--session", &session];
    let environment = opencode::environment(home.path());
    let terminal = Terminal::open(opencode::program(), &words, &environment, pair.repo.path());
    terminal.shows("Build · Fake One Fake").await;

    let first = "HOLD:middle SAY:one two three";
    say(&pair.far.client(), &session, first).await;
    pair.model.held("middle").await;
    terminal.conversation(&[first, "one two", OPEN]).await;
    terminal.shows("esc interrupt").await;
    pair.model.release("middle");
    terminal.conversation(&[first, "one two three", DONE]).await;

    // And it is stopped from here.
    let second = "HOLD:again SAY:four five six";
    say(&pair.far.client(), &session, second).await;
    pair.model.held("again").await;
    terminal.conversation(&[first, "one two three", DONE, second, "four five", OPEN]).await;
    terminal.press(&["Escape"]);
    terminal.shows("again to interrupt").await;
    terminal.press(&["Escape"]);
    pair.model.abandoned("again").await;
    let interrupted = "▣  Build · Fake One · interrupted";
    terminal.conversation(&[first, "one two three", DONE, second, "four five", interrupted]).await;
}

#[tokio::test]
async fn the_terminal_follows_a_turn_of_the_other_server_on_one_file() {
    if stage::original().is_some() {
        return;
    }
    check_terminal(&Pair::on_a_file().await).await;
}

#[tokio::test]
async fn the_terminal_follows_a_turn_of_the_other_server_on_one_postgres() {
    if stage::original().is_some() {
        return;
    }
    check_terminal(&Pair::on_a_server().await).await;
}
