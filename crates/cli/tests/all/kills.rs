//! `kill -9` of the real server at moments that chance chooses, again and again on the same data.
//!
//! Several sessions are at work when it comes. What must hold after each restart: every prompt that was accepted is there
//! once and answered, no command ran twice, each call was settled once, every request to the model was valid, and nothing
//! is left running. Where each single commit is cut is `crash_matrix` in the engine's tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn_model::{Event, SessionId};
use everturn_store::{Options, Store};
use everturn_testkit::postgres::{Postgres, TestDatabase};
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, Repo, request_rules, within};

use crate::crash::{answered, texts};
use crate::stage::{PASSWORD, Stage, offline, prompt};

/// How often the server is killed.
fn kills() -> u64 {
    if std::env::var_os("EVERTURN_TEST_FULL").is_some_and(|value| value == "1") { 150 } else { 6 }
}

/// How many sessions work when it is.
const SESSIONS: u64 = 3;

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What a session is told to do. The number is unlike that of all others.
fn work(chance: &mut Chance, number: u64) -> String {
    match chance.below(5) {
        0 => format!("TOOL:bash:echo {number}a >> ledger; echo {number}b >> ledger\nSAY:done {number}"),
        1 => format!("THINK SLOW:10 SAY:one two three four five six {number}"),
        2 => format!("TOOL:write:file{number}=made\nTOOL:read:file{number}\nSAY:done {number}"),
        3 => format!(
            "TOOL:task:TOOL:bash:echo {number}c >> ledger\\nSAY:child {number}\nTOOL:bash:echo {number}d >> ledger\nSAY:done {number}"
        ),
        _ => format!(
            "TOGETHER:3\nTOOL:bash:echo {number}e >> ledger\nTOOL:read:a.txt\nTOOL:bash:sleep 0.1; echo {number}f >> ledger\nSAY:done {number}"
        ),
    }
}

/// A server whose data is in a database, if one is given.
async fn stage(database: Option<&TestDatabase>) -> Stage {
    let (model, repo) =
        (ModelServer::start(), Repo::new(&[("a.txt", "hello\n"), (".gitignore", "ledger\n")]));
    let mut options = ServerOptions::with_model(&model.base_url());
    options.password = Some(PASSWORD.to_owned());
    options.environment = offline();
    // Not in the repository: whatever works there is to be found by that.
    options.environment.extend(database.map(|database| ("EVERTURN_DATABASE".to_owned(), database.url())));
    let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
    Stage { server, model, repo }
}

async fn session(stage: &Stage) -> String {
    let path = format!("/session?directory={}", stage.repo.dir());
    let made = stage.client().post(&path, &serde_json::json!({"title": "killed"})).await.ok().json();
    made["id"].as_str().unwrap().to_owned()
}

async fn check(database: Option<TestDatabase>) {
    let mut stage = stage(database.as_ref()).await;
    let (mut chance, mut number) = (Chance(5), 0);
    let mut accepted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for round in 0..kills() {
        if round % 10 == 0 {
            accepted.clear();
            for _ in 0..SESSIONS {
                accepted.insert(session(&stage).await, Vec::new());
            }
        }
        for (session, texts) in &mut accepted {
            number += 1;
            let text = work(&mut chance, number);
            let path = format!("/session/{session}/prompt_async");
            assert_eq!(stage.client().post(&path, &prompt(&text)).await.ok().status, 204);
            texts.push(text);
        }
        tokio::time::sleep(Duration::from_millis(chance.below(400))).await;
        stage.server.kill9().await;
        stage.server.restart().await;
        for (session, expected) in &accepted {
            let messages = answered(&stage, session).await;
            assert_eq!(texts(&messages, "user"), *expected, "kill {round}");
        }
        check_ledger(&stage, round);
        let faults: Vec<_> = stage.model.arrivals().iter().flat_map(request_rules::broken).collect();
        assert_eq!(faults, Vec::<String>::new(), "kill {round}");
        let store = store(&stage, database.as_ref()).await;
        for session in accepted.keys() {
            check_log(&store, session, round).await;
        }
        let left = async {
            while !working_in(stage.repo.path()).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("nobody to work in the project", left).await;
    }
}

async fn store(stage: &Stage, database: Option<&TestDatabase>) -> Store {
    let folder = stage.server.home().join("data/everturn");
    let options = match database {
        None => Options::folder(folder, "own_kills_test"),
        Some(database) => Options::server(&database.url(), folder, "own_kills_test"),
    };
    Store::open(options).await.unwrap()
}

/// No command ran twice.
fn check_ledger(stage: &Stage, round: u64) {
    let ledger = std::fs::read_to_string(stage.repo.join("ledger")).unwrap_or_default();
    let mut lines: Vec<&str> = ledger.lines().collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "kill {round}: a command ran twice: {ledger}");
}

/// Each prompt was promoted once and each call settled once, also in the sessions of tasks.
async fn check_log(store: &Store, session: &str, round: u64) {
    let id = SessionId::new(session);
    let children = store.children(&id).await.unwrap().into_iter().map(|child| child.id);
    for id in [id.clone()].into_iter().chain(children) {
        let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for record in store.events(&id, None, usize::MAX).await.unwrap() {
            let key = match &record.event {
                Event::PromptAdmitted { item } => ("admitted", item.id.to_string()),
                Event::PromptPromoted { id, .. } => ("promoted", id.to_string()),
                Event::ToolCalled { part, .. } => ("called", part.to_string()),
                Event::ToolSettled { part: Some(part), .. } => ("settled", part.to_string()),
                _ => continue,
            };
            *counts.entry(key).or_default() += 1;
        }
        assert!(counts.values().all(|times| *times == 1), "kill {round}: twice: {counts:?}");
        // A call whose input was cut off is settled too.
        let follows = |(what, name): &(&str, String)| match *what {
            "admitted" => counts.contains_key(&("promoted", name.clone())),
            "called" => counts.contains_key(&("settled", name.clone())),
            _ => true,
        };
        assert!(counts.keys().all(follows), "kill {round}: something is left over: {counts:?}");
    }
}

/// The processes whose folder is in the project.
fn working_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_the_server_is_killed_its_sessions_go_on() {
    check(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_server_on_postgres_is_killed_its_sessions_go_on() {
    check(Some(Postgres::shared().database())).await;
}
