//! Two hosts on one PostgreSQL: real servers with nothing in common but the database and the project.
//!
//! They do not share a data folder, so that nothing tells one that the other has died but its silence.

use std::path::Path;
use std::time::Duration;

use everturn_model::SessionId;
use everturn_store::{Options, Store};
use everturn_testkit::postgres::{Postgres, TestDatabase};
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, Repo, request_rules, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::crash::texts;
use crate::stage::{PASSWORD, offline, prompt};

/// How often something is looked at while it is waited for.
const GLANCE: Duration = Duration::from_millis(50);

/// Fields are dropped in this order: the servers go first.
struct Hosts {
    near: EverturnServer,
    far: EverturnServer,
    model: ModelServer,
    repo: Repo,
    database: TestDatabase,
}

impl Hosts {
    async fn start() -> Self {
        let (model, database) = (ModelServer::start(), Postgres::shared().database());
        let repo = Repo::new(&[("a.txt", "hello\n"), (".gitignore", "ledger\ngo\n")]);
        let options = || {
            let mut options = ServerOptions::with_model(&model.base_url());
            options.password = Some(PASSWORD.to_owned());
            options.directory = Some(repo.path().to_owned());
            options.environment = offline();
            options.environment.push(("EVERTURN_DATABASE".to_owned(), database.url()));
            options
        };
        let binary = Path::new(env!("CARGO_BIN_EXE_everturn"));
        let far = EverturnServer::start(binary, options()).await;
        let near = EverturnServer::start(binary, options()).await;
        Self { near, far, model, repo, database }
    }

    async fn session(&self) -> String {
        let made = self.far.client().post("/session", &json!({"title": "shared"})).await.ok().json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Stops the far host, or lets it go on, as a machine that sleeps does.
    fn signal_far(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.far.pid()).unwrap(), signal).unwrap();
    }

    async fn store(&self) -> Store {
        let options = Options::server(&self.database.url(), self.far.home(), "own_hosts_test");
        Store::open(options).await.unwrap()
    }

    /// Waits for what is to be in the project's ledger.
    async fn ledger(&self, expected: &str) {
        let written = async {
            while std::fs::read_to_string(self.repo.join("ledger")).unwrap_or_default() != expected {
                tokio::time::sleep(GLANCE).await;
            }
        };
        within(&format!("{expected:?} in the ledger"), written).await;
    }

    fn check_requests(&self) {
        let faults: Vec<_> = self.model.arrivals().iter().flat_map(request_rules::broken).collect();
        assert_eq!(faults, Vec::<String>::new());
    }
}

async fn say(client: &Client, session: &str, text: &str) {
    let path = format!("/session/{session}/prompt_async");
    assert_eq!(client.post(&path, &prompt(text)).await.ok().status, 204);
}

async fn messages(client: &Client, session: &str) -> Vec<Value> {
    let messages = client.get(&format!("/session/{session}/message")).await.ok().json();
    messages.as_array().unwrap().clone()
}

/// Waits until the newest answer is this one and complete, as this host tells it.
async fn answered(client: &Client, session: &str, text: &str) -> Vec<Value> {
    let waiting = async {
        loop {
            let messages = messages(client, session).await;
            let info = messages.last().map(|message| message["info"].clone()).unwrap_or_default();
            let said = texts(&messages, "assistant");
            if info["finish"] == "stop" && said.last().is_some_and(|last| last == text) {
                return messages;
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    within(&format!("the answer {text:?}"), waiting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_host_was_killed_is_finished_by_the_other() {
    let mut hosts = Hosts::start().await;
    let session = hosts.session().await;
    let command = "echo begun >> ledger; while [ -e a.txt ]; do sleep 0.1; done; echo over >> ledger";
    let text = format!("TOOL:bash:{command}\nSAY:finished");
    say(&hosts.far.client(), &session, &text).await;
    hosts.ledger("begun\n").await;
    hosts.far.kill9().await;
    let messages = answered(&hosts.near.client(), &session, "finished").await;
    assert_eq!(texts(&messages, "user"), [text]);
    let call = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let call = call.into_iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["metadata"]["everturn"]["outcome"], "unknown", "{call}");
    hosts.ledger("begun\n").await;
    hosts.check_requests();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_comes_back_after_its_session_was_taken_over_is_refused() {
    let hosts = Hosts::start().await;
    let session = hosts.session().await;
    let text = "HOLD:half SAY:alpha beta gamma delta";
    say(&hosts.far.client(), &session, text).await;
    hosts.model.held("half").await;
    hosts.signal_far(Signal::STOP);
    // The rest of the answer waits for the far host, and the near one asks again.
    hosts.model.release("half");
    answered(&hosts.near.client(), &session, "alpha beta gamma delta").await;
    let (store, id) = (hosts.store().await, SessionId::new(session.as_str()));
    let settled = async {
        loop {
            if !store.session(&id).await.unwrap().unwrap().open {
                return store.events(&id, None, usize::MAX).await.unwrap();
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    let before = within("the turn to end", settled).await;
    hosts.signal_far(Signal::CONT);
    // Both show the same, and the far one takes part again.
    let far = answered(&hosts.far.client(), &session, "alpha beta gamma delta").await;
    assert_eq!(far, messages(&hosts.near.client(), &session).await);
    say(&hosts.far.client(), &session, "SAY:back again").await;
    let far = answered(&hosts.far.client(), &session, "back again").await;
    assert_eq!(texts(&far, "user"), [text, "SAY:back again"]);
    let after = store.events(&id, None, usize::MAX).await.unwrap();
    let since: Vec<&str> = after[before.len()..].iter().map(|record| record.event.name()).collect();
    let next = since.iter().position(|name| *name == "prompt.admitted").unwrap();
    let own = ["turn.summarized", "title.changed", "usage.recorded"];
    assert!(since[..next].iter().all(|name| own.contains(name)), "the far host wrote: {since:?}");
    assert_eq!(since.iter().filter(|name| **name == "step.started").count(), 1, "{since:?}");
    hosts.check_requests();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_to_the_host_that_does_not_run_the_session_takes_effect() {
    let hosts = Hosts::start().await;
    let (near, far) = (hosts.near.client(), hosts.far.client());
    let session = hosts.session().await;
    say(&far, &session, "HOLD:first SAY:one two").await;
    hosts.model.held("first").await;
    say(&near, &session, "SAY:second").await;
    hosts.model.release("first");
    answered(&near, &session, "second").await;

    let mut events = near.events("/event").await;
    say(&far, &session, "TOOL:read:/etc/hostname\nSAY:read it").await;
    let asked = events.wait_for_type("permission.asked").await;
    let id = asked["properties"]["id"].as_str().unwrap();
    near.post(&format!("/permission/{id}/reply"), &json!({"reply": "once"})).await.ok();
    answered(&near, &session, "read it").await;

    let mut streamed = far.events("/event").await;
    say(&far, &session, "HOLD:last SAY:never to be finished").await;
    hosts.model.held("last").await;
    // An answer of which nothing came is not given to the model again, and its prompt goes out with the next one.
    streamed.wait_for_type("message.part.delta").await;
    near.post(&format!("/session/{session}/abort"), &json!({})).await.ok();
    hosts.model.abandoned("last").await;
    let stopped = async {
        loop {
            let messages = messages(&near, &session).await;
            if messages.last().unwrap()["info"]["error"]["name"] == "MessageAbortedError" {
                return;
            }
            tokio::time::sleep(GLANCE).await;
        }
    };
    within("the stop to be seen", stopped).await;
    say(&near, &session, "SAY:and on").await;
    answered(&far, &session, "and on").await;
    hosts.check_requests();
}
