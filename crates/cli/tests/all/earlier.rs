//! Stores that version 0.1 left behind: they open, say what they said then to the byte, and go on.
//!
//! `fixtures/everturn-0.1` has one on SQLite and one on PostgreSQL, and what the binary of that version said about them.
//! Starting a server continues what was at work, so those sessions are read by commands first, which let them be. The
//! folders that the sessions worked in are not here, as after a project was deleted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everturn_testkit::postgres::TestDatabase;
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, Postgres, Repo, fixtures};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::crash::{answered, pending, texts};
use crate::shell::Home;
use crate::stage::{Stage, prompt};

/// The folder of the sessions that belong to no repository.
const PLAIN: &str = "/tmp/everturn-fixture/plain";

/// How many commands run at once.
const AT_ONCE: usize = 4;

/// Where a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// A copy of a store, and what was said about it.
#[derive(Debug)]
struct Earlier {
    data: TempDir,
    database: Option<TestDatabase>,
    expected: TempDir,
    sessions: Sessions,
}

/// Its sessions by the names that they were made under.
#[derive(Debug)]
struct Sessions {
    /// In which nothing is left to do.
    closed: BTreeMap<String, String>,
    /// Which were at work when the server was killed.
    open: BTreeMap<String, String>,
    /// In the trash.
    trashed: String,
    /// Which nobody named: children, and imported ones.
    others: Vec<String>,
}

impl Earlier {
    fn new(kind: Kind) -> Self {
        let folder = || TempDir::with_prefix("everturn-earlier-").expect("a temporary folder");
        let (data, expected) = (folder(), folder());
        let archive = |name: &str| PathBuf::from(format!("everturn-0.1/{}{name}", kind.name()));
        fixtures::unpack(archive("-expected.tar.xz"), expected.path());
        let database = match kind {
            Kind::Sqlite => {
                fixtures::unpack(archive(".tar.xz"), data.path());
                None
            }
            Kind::Postgres => {
                let (database, dump) = (Postgres::shared().database(), expected.path().join("dump.sql"));
                fixtures::unpack_file(archive(".sql.xz"), &dump);
                database.restore(&dump);
                Some(database)
            }
        };
        let names = std::fs::read_to_string(expected.path().join("sessions.json")).expect("the names");
        let names: Value = serde_json::from_str(&names).expect("the names of the sessions");
        let named = |group: &str| serde_json::from_value(names[group].clone()).expect("names and ids");
        let sessions = Sessions {
            closed: named("closed"),
            open: named("open"),
            trashed: names["trashed"].as_str().expect("an id").to_owned(),
            others: serde_json::from_value(names["others"].clone()).expect("ids"),
        };
        Self { data, database, expected, sessions }
    }

    /// What the store is found by.
    fn environment(&self) -> Vec<(String, String)> {
        let data = self.data.path().to_str().expect("a Unicode path").to_owned();
        let mut environment = vec![("EVERTURN_DATA".to_owned(), data)];
        environment.extend(self.database.iter().map(|one| ("EVERTURN_DATABASE".to_owned(), one.url())));
        environment
    }

    /// The command line on this store.
    fn home(&self) -> Home {
        let mut home = Home::new();
        for (name, value) in self.environment() {
            home.set(&name, value);
        }
        home
    }

    /// A server on this store, which begins to work on what is open.
    async fn serve(&self, model: ModelServer) -> Stage {
        let repo = Repo::new(&[("answer.json", r#"[{"text": "still here"}]"#)]);
        let mut options = ServerOptions::with_model(&model.base_url());
        options.directory = Some(repo.path().to_owned());
        options.environment = self.environment();
        let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
        Stage { server, model, repo }
    }

    /// What was said then.
    fn said(&self, file: &str) -> String {
        let path = self.expected.path().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
    }

    /// Expects the same as then.
    fn check(&self, file: &str, now: &str) {
        // People read `session show`, and its words may become better.
        let then = self.said(file).replace("[1 files changed]", "[1 file changed]");
        // What nobody had written stood there as a person's.
        let mut now = now.replace("\nnote\n", "\nuser\n");
        // What a session does or waits for was not in the list.
        for state in ["idle", "busy", "waiting", "held", "parked", "retry"] {
            now = now.replace(&format!(",\n    \"state\": \"{state}\""), "");
        }
        let is_same = |(then, now): (&str, &str)| then == now || is_rounded(then, now);
        let as_many = then.lines().count() == now.lines().count();
        if !(as_many && then.lines().zip(now.lines()).all(is_same)) {
            let line = then.lines().zip(now.lines()).position(|pair| !is_same(pair));
            let line = line.unwrap_or_else(|| then.lines().count().min(now.lines().count()));
            let shown = |text: &str| text.lines().nth(line).unwrap_or_default().to_owned();
            panic!(
                "{file} is not what it was, from line {} on:\nthen {}\nnow  {}",
                line + 1,
                shown(&then),
                shown(&now)
            );
        }
    }

    /// Expects that every session is what its log says, and that none was lost.
    fn check_health(&self, events: impl Fn(u64, u64) -> bool) {
        let counts = |text: &str| -> (u64, u64) {
            let line = text.lines().next().expect("a first line");
            let (_, counts) = line.rsplit_once(": ").expect("what was counted");
            let numbers = counts.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
            (numbers[0], numbers[1])
        };
        let report = self.home().run(&["doctor"]).success();
        assert!(report.contains("every session is what its log says"), "{report}");
        let (then, now) = (counts(&self.said("doctor.txt")), counts(&report));
        assert_eq!(now.0, then.0, "sessions: {report}");
        assert!(events(then.1, now.1), "events: {then:?}, {now:?}");
    }

    /// A session in which nothing is left to do.
    fn closed(&self, name: &str) -> &str {
        self.sessions.closed.get(name).unwrap_or_else(|| panic!("a session {name}"))
    }

    /// A session that was at work.
    fn open(&self, name: &str) -> &str {
        self.sessions.open.get(name).unwrap_or_else(|| panic!("a session {name}"))
    }
}

/// A list of sessions without the columns that it has got since: what each does, and what it cost.
fn without_news(list: &str) -> String {
    let head = list.lines().next().unwrap();
    let (from, to) = (head.find("state").unwrap(), head.find("title").unwrap());
    let cut = |line: &str| format!("{}{}\n", line.split_at(from).0, line.split_at(to).1);
    list.lines().map(cut).collect()
}

/// Whether a line of `session show` says what was not said then: all that was used, what changed in files, what is at work.
fn is_news(line: &str) -> bool {
    let changes = line.starts_with('+') && line.contains(" lines in ");
    let work = ["a turn is open", "parked: ", "waits for "].iter().any(|word| line.starts_with(word));
    let waiting = ["prompt waits", "prompts wait"].iter().any(|word| line.ends_with(word));
    changes || work || waiting || line.ends_with("with all that is not shown here")
}

/// Everything that commands say.
fn is_read_as_before(kind: Kind) {
    let earlier = Earlier::new(kind);
    earlier.check_health(|then, now| then == now);
    let home = earlier.home();
    let all = ["session", "list", "--all", "--limit", "10000"];
    earlier.check("list.txt", &without_news(&home.run(&all).success()));
    let json = home.run(&[&all[..], &["--json"]].concat()).success();
    let mut sessions: Vec<Map<String, Value>> = serde_json::from_str(&json).unwrap();
    for session in &mut sessions {
        assert!(session.shift_remove("spent").is_some(), "{session:?}");
    }
    earlier.check("list.json", &format!("{}\n", serde_json::to_string_pretty(&sessions).unwrap()));
    earlier.check("search.txt", &home.run(&["session", "search", "--limit", "100", "answer"]).success());
    let Sessions { closed, open, others, trashed } = &earlier.sessions;
    let ids: Vec<&String> = closed.values().chain(open.values()).chain(others).collect();
    assert!(closed.len() > 100 && open.len() > 8 && !ids.contains(&trashed), "{} sessions", ids.len());
    // What is shown of closed sessions is compared over HTTP too; a connection to PostgreSQL takes its time.
    let shown = |id: &String| kind == Kind::Sqlite || open.values().any(|open| open == id);
    let compare = |id: &String| {
        earlier.check(&format!("export/{id}.json"), &home.run(&["session", "export", id]).success());
        if shown(id) {
            let shown = home.run(&["session", "show", id]).success();
            let known = shown.split_inclusive('\n').filter(|line| !is_news(line.trim_end()));
            earlier.check(&format!("show/{id}.txt"), &known.collect::<String>());
        }
    };
    std::thread::scope(|scope| {
        for some in ids.chunks(ids.len().div_ceil(AT_ONCE)) {
            scope.spawn(|| some.iter().for_each(|id| compare(id)));
        }
    });
    // Reading has changed nothing.
    earlier.check_health(|then, now| then == now);
}

#[test]
fn sqlite_is_read_as_before() {
    is_read_as_before(Kind::Sqlite);
}

#[test]
fn postgres_is_read_as_before() {
    is_read_as_before(Kind::Postgres);
}

/// What clients are shown of the sessions that no server changes by starting.
async fn is_served_as_before(kind: Kind) {
    let earlier = Earlier::new(kind);
    let stage = earlier.serve(ModelServer::start()).await;
    let client = stage.client();
    let Sessions { closed, others, .. } = &earlier.sessions;
    for id in closed.values().chain(others) {
        let reply = client.get(&format!("/session/{id}")).await.ok();
        earlier.check(&format!("http/{id}.json"), &reply.body);
        for what in ["message", "todo", "children", "diff"] {
            let reply = client.get(&format!("/session/{id}/{what}")).await.ok();
            earlier.check(&format!("http/{id}-{what}.json"), &reply.body);
        }
    }
    let listed = client.get(&format!("/session?directory={PLAIN}")).await.ok();
    assert!(listed.json().as_array().unwrap().len() > 2, "{}", listed.body);
    earlier.check("http/plain.json", &listed.body);
}

#[tokio::test]
async fn sqlite_is_served_as_before() {
    is_served_as_before(Kind::Sqlite).await;
}

#[tokio::test]
async fn postgres_is_served_as_before() {
    is_served_as_before(Kind::Postgres).await;
}

/// The calls of tools in a conversation, by name.
fn calls(messages: &[Value], tool: &str) -> Vec<Value> {
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter(|part| part["tool"] == tool).map(|part| part["state"].clone()).collect()
}

/// What was at work goes on: requests wait under their ids, and cut-off turns come to an end.
async fn finish_open_sessions(earlier: &Earlier, stage: &Stage) {
    let client = stage.client();
    let replies = [("permission", json!({"reply": "once"})), ("question", json!({"answers": [["red"]]}))];
    for (kind, answer) in replies {
        // Each folder has its own.
        let session = format!("/session/{}", earlier.sessions.open[&format!("open-{kind}")]);
        let session = client.get(&session).await.ok().json();
        let path = format!("/{kind}?directory={}", session["directory"].as_str().unwrap());
        let waiting = pending(stage, &path).await;
        earlier.check(&format!("http/{kind}.json"), &client.get(&path).await.ok().body);
        let id = waiting[0]["id"].as_str().unwrap();
        client.post(&format!("/{kind}/{id}/reply"), &answer).await.ok();
    }
    for (name, last) in [
        ("open-permission", Some("was allowed")),
        ("open-question", Some("was answered")),
        ("open-command", Some("went on")),
        ("open-permitted-command", Some("went on")),
        // The model is asked to go on, and says whatever it says to that.
        ("open-text", None),
        ("open-reasoning", None),
        ("open-silent", Some("spoke at last")),
        ("open-waiting", Some("the waiting prompts are answered")),
        ("open-task", Some("the parent is done")),
        ("open-task-child", Some("the child is done")),
    ] {
        let id = earlier.open(name);
        let messages = answered(stage, id).await;
        let said = texts(&messages, "assistant");
        if last.is_some() {
            assert_eq!(said.last().map(String::as_str), last, "{name}: {said:?}");
        }
        // All that was written before is still there, but for the answer that was cut off.
        let export: Value = serde_json::from_str(&earlier.said(&format!("export/{id}.json"))).unwrap();
        let before = export["messages"].as_array().unwrap();
        assert_eq!(texts(&messages, "user"), texts(before, "user"), "{name}");
        let kept = texts(before, "assistant");
        assert_eq!(said[..kept.len()], kept, "{name}: what was saved is kept");
        match name {
            "open-text" | "open-reasoning" | "open-waiting" => {
                assert_eq!((said.len(), &kept[..]), (2, &["alpha beta gamma ".to_owned()][..]), "{name}");
            }
            "open-permission" => assert_eq!(calls(&messages, "read")[0]["status"], "completed"),
            "open-question" => {
                let asked = &calls(&messages, "question")[0];
                assert!(asked["output"].as_str().unwrap().contains(r#""Which colour?"="red""#), "{asked}");
            }
            "open-command" | "open-permitted-command" => {
                let ran = calls(&messages, "bash");
                assert_eq!(ran.len(), 1, "{name}: {ran:?}");
                assert_eq!(ran[0]["metadata"]["everturn"]["outcome"], "unknown", "{name}: {ran:?}");
            }
            "open-task" => {
                let task = &calls(&messages, "task")[0];
                assert!(task["output"].as_str().unwrap().contains("\nthe child is done\n"), "{task}");
            }
            _ => {}
        }
    }
}

/// New prompts are answered after every kind of past, and the past stays.
async fn prompt_closed_sessions(earlier: &Earlier, stage: &Stage) {
    let spoken = prompt("SAY:still here");
    // What was asked of the scripted server is asked again where no answer came; a script answers regardless.
    let mut played = spoken.clone();
    played["model"] =
        json!({"providerID": "scripted", "modelID": stage.repo.join("answer.json").to_str().unwrap()});
    for (name, body) in [
        ("text", &spoken),
        ("empty", &spoken),
        ("tools", &spoken),
        ("reasoning", &spoken),
        ("long", &spoken),
        ("parts", &spoken),
        ("protocol-messages", &spoken),
        ("protocol-responses", &spoken),
        ("protocol-gemini", &spoken),
        ("hosted", &spoken),
        ("task", &spoken),
        ("mcp", &spoken),
        ("declined", &spoken),
        ("declined-with-words", &spoken),
        ("question-dismissed", &spoken),
        ("failed-401", &played),
        ("failed-500", &played),
        ("failed-overflow", &played),
        ("failed-in-midst", &played),
        ("failed-with-tools", &played),
        ("refused", &played),
        ("cut-by-length", &played),
        ("aborted-text", &spoken),
        ("aborted-silent", &spoken),
        ("aborted-tool", &spoken),
        ("aborted-task", &spoken),
        ("recovered-text", &spoken),
        ("recovered-command", &spoken),
        ("forked", &spoken),
        ("forked-at-message", &spoken),
        ("forked-failed", &played),
        ("forked-aborted", &spoken),
        ("unreverted", &spoken),
        ("message-hidden", &spoken),
        ("part-amended", &spoken),
        ("archived", &spoken),
        ("plain-text", &spoken),
        ("imported-export", &spoken),
        ("opencode-json-1.1.16-tools", &spoken),
        ("opencode-json-1.1.16-compacted", &spoken),
        ("opencode-json-1.1.16-aborted", &spoken),
        ("opencode-json-1.1.16-provider_error", &played),
        ("opencode-sqlite-1.18.33-attachments", &spoken),
        ("opencode-sqlite-1.18.33-fork_at_message", &spoken),
        ("opencode-sqlite-1.18.33-aborted", &spoken),
        ("opencode-v2-1.18.33-A", &spoken),
        ("opencode-v2-1.18.33-C", &spoken),
    ] {
        let id = earlier.closed(name);
        let answer = stage.client().post(&format!("/session/{id}/message"), body).await.ok().json();
        assert_eq!(texts(std::slice::from_ref(&answer), "assistant"), ["still here"], "{name}: {answer}");
        let before: Vec<Value> =
            serde_json::from_str(&earlier.said(&format!("http/{id}-message.json"))).unwrap();
        let after = stage.messages(id).await;
        assert_eq!(after.len(), before.len() + 2, "{name}");
        assert_eq!(after[..before.len()], before, "{name}: what was there stays");
    }
    // A prompt commits a staged revert: what it took back is no longer part of the conversation.
    let id = earlier.closed("reverted");
    stage.client().post(&format!("/session/{id}/message"), &spoken).await.ok();
    let messages = stage.messages(id).await;
    assert_eq!(texts(&messages, "assistant"), ["written 1", "still here"]);
    let session = stage.client().get(&format!("/session/{id}")).await.ok().json();
    assert_eq!(session.get("revert"), None, "{session}");
}

async fn goes_on(kind: Kind) {
    let earlier = Earlier::new(kind);
    let model = ModelServer::start();
    for name in ["half", "silent", "child", "never"] {
        model.release(name);
    }
    let mut stage = earlier.serve(model).await;
    finish_open_sessions(&earlier, &stage).await;
    prompt_closed_sessions(&earlier, &stage).await;
    assert!(stage.server.stop().await.success());
    earlier.check_health(|then, now| now > then);
}

#[tokio::test]
async fn sqlite_goes_on() {
    goes_on(Kind::Sqlite).await;
}

#[tokio::test]
async fn postgres_goes_on() {
    goes_on(Kind::Postgres).await;
}

/// Whether two lines differ in amounts of money alone, of which the digits behind the fourth were cut off then and are
/// rounded now.
fn is_rounded(then: &str, now: &str) -> bool {
    let amount = |word: &str| word.strip_prefix('$')?.trim_end_matches([',', ';']).parse::<f64>().ok();
    let is_same = |(then, now): (&str, &str)| {
        then == now
            || amount(then)
                .zip(amount(now))
                .is_some_and(|(then, now)| ((now - then) * 10_000.0).round() == 1.0)
    };
    let (then, now): (Vec<&str>, Vec<&str>) = (then.split(' ').collect(), now.split(' ').collect());
    then.len() == now.len() && then.into_iter().zip(now).all(is_same)
}
