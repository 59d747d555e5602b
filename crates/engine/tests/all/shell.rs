//! Commands that a person runs in a session.

use everturn_engine::sessions::NewSession;
use everturn_engine::shell::ShellCommand;
use everturn_engine::{Engine, Error, Prompt, SessionUpdate, Signal};
use everturn_model::entry::{Body, Shell};
use everturn_model::part::PartKind;
use everturn_model::tool::{Outcome, ToolState};
use everturn_model::tree::Node;
use everturn_model::{Event, SessionId};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::bench::Bench;

fn command(text: &str) -> ShellCommand {
    ShellCommand { command: text.to_owned(), ..ShellCommand::default() }
}

/// Begins a command and does not wait for its end.
fn begin(engine: &Engine, id: &SessionId, text: &str) -> JoinHandle<Result<String, Error>> {
    let (engine, id, command) = (engine.clone(), id.clone(), command(text));
    tokio::spawn(async move { engine.shell().run(&id, command).await })
}

async fn run(bench: &Bench, text: &str) -> String {
    within("the command to end", bench.engine.shell().run(&bench.session.id, command(text))).await.unwrap()
}

/// Begins a command that prints a line and does not end, and waits for the line.
async fn begin_long(bench: &mut Bench, before: &str) -> JoinHandle<Result<String, Error>> {
    let ran = begin(&bench.engine, &bench.session.id, &format!("{before}echo begun; exec sleep 600"));
    shown(bench, "begun\n").await;
    ran
}

/// Waits until a command shows a text, and says in which message.
async fn shown(bench: &mut Bench, wanted: &str) -> String {
    let found = |update: &SessionUpdate| match update {
        SessionUpdate::Live(live) => match &live.signal {
            Signal::Progress { message, part } => match &part.kind {
                PartKind::Tool { state: ToolState::Running { metadata: Some(metadata), .. }, .. } => {
                    (metadata["output"] == wanted).then(|| message.clone())
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    bench.notice(found).await
}

fn shell(node: &Node) -> &Shell {
    let Body::Shell(shell) = &node.entry.body else { panic!("{node:?}") };
    shell
}

/// The commands of a session, in order.
async fn commands(bench: &Bench) -> Vec<Node> {
    let nodes = bench.nodes().await.into_iter();
    nodes.filter(|node| matches!(node.entry.body, Body::Shell(_))).collect()
}

/// What the model is told about the commands, which stands before the words of the prompt.
async fn told(bench: &Bench) -> String {
    bench.say("SAY:seen").await;
    let messages = bench.model.prompts().pop().unwrap()["messages"].clone();
    let users = messages.as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let texts: Vec<String> = users.map(|message| text(&message["content"])).collect();
    texts.join("\n---\n")
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_command_is_recorded_shown_and_told_to_the_model() {
    let mut bench = Bench::new().await;
    let second = run(&bench, "echo shell").await;
    assert_eq!(shown(&mut bench, "shell\n").await, second);
    let nodes = commands(&bench).await;
    let [node] = nodes.as_slice() else { panic!("{nodes:?}") };
    let ran = shell(node);
    assert_eq!((ran.output.as_deref(), ran.exit), (Some("shell\n"), Some(0)));
    let pair = ran.pair.clone().unwrap();
    assert_eq!((&pair.second, ran.completed), (&second, pair.assistant.completed));
    assert_eq!(
        (pair.user.agent.as_deref(), pair.user.model.unwrap().model.as_str()),
        (Some("build"), "fake-1")
    );
    let [said, call] = node.parts.as_slice() else { panic!("{node:?}") };
    assert_eq!((said.second, call.second), (false, true));
    let PartKind::Tool { tool, state: ToolState::Completed { input, result }, .. } = &call.kind else {
        panic!()
    };
    assert_eq!((tool.as_str(), input), ("bash", &json!({"command": "echo shell"})));
    assert_eq!(
        (&*result.output, Value::from(result.metadata.clone().unwrap())),
        ("shell\n", json!({"output": "shell\n"}))
    );
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((session.is_at_work(), bench.engine.drains().is_running(&session.id)), (false, false));
    assert_eq!(told(&bench).await, "The person ran `echo shell` and got:\n\nshell\n\n\nSAY:seen");
}

#[tokio::test]
async fn a_command_that_fails_is_recorded_too() {
    let bench = Bench::new().await;
    run(&bench, "echo no >&2; exit 3").await;
    let nodes = commands(&bench).await;
    assert_eq!((shell(&nodes[0]).output.as_deref(), shell(&nodes[0]).exit), (Some("no\n"), Some(3)));
    let PartKind::Tool { state: ToolState::Completed { result, .. }, .. } = &nodes[0].parts[1].kind else {
        panic!()
    };
    assert_eq!(Value::from(result.metadata.clone().unwrap()), json!({"output": "no\n", "exit": 3}));
    let told = told(&bench).await;
    assert!(
        told.starts_with("The person ran `echo no >&2; exit 3` and got:\n\nno\n\nIt ended with status 3."),
        "{told}"
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_recorded_too() {
    let gone = |options: &mut everturn_engine::Options| options.supervisor = Some("/nowhere/gone".into());
    let bench = Bench::with(|_| json!({}), gone).await;
    run(&bench, "echo never").await;
    let nodes = commands(&bench).await;
    let words = "The command was not run: /nowhere/gone, which watches over commands, is gone. Everturn must be started again.";
    assert_eq!((shell(&nodes[0]).output.as_deref(), shell(&nodes[0]).exit), (Some(words), None));
    let PartKind::Tool { state: ToolState::Error { result, .. }, .. } = &nodes[0].parts[1].kind else {
        panic!()
    };
    assert_eq!((result.outcome, &*result.output), (Outcome::Error, words));
}

#[tokio::test]
async fn a_command_and_a_turn_exclude_each_other() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    bench.engine.inbox().admit(&id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.streamed("one ").await;
    let refused = bench.engine.shell().run(&id, command("echo never >> never")).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    bench.model.release("x");
    bench.settled().await;
    let gate = bench.repo.join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let ran = begin(&bench.engine, &id, "echo begun; cat gate");
    shown(&mut bench, "begun\n").await;
    let again = bench.engine.shell().run(&id, command("echo never >> never")).await;
    assert!(matches!(again, Err(Error::Busy(_))), "{again:?}");
    bench.engine.inbox().admit(&id, Prompt::text("SAY:afterwards")).await.unwrap();
    assert_eq!(bench.transcript().await.last().unwrap(), "shell", "the prompt waits");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "opened\n").unwrap()).await.unwrap();
    within("the command to end", ran).await.unwrap().unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said[2..], ["shell", "user: SAY:afterwards", "assistant: afterwards"]);
    assert_eq!(shell(&commands(&bench).await[0]).output.as_deref(), Some("begun\nopened\n"));
    assert!(!bench.repo.join("never").exists());
}

#[tokio::test]
async fn a_command_can_be_stopped_and_what_waits_behind_it_is_held() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    let ran = begin_long(&mut bench, "").await;
    bench.engine.inbox().admit(&id, Prompt::text("SAY:behind it")).await.unwrap();
    within("the stop", bench.engine.drains().abort(&id)).await.unwrap();
    ran.await.unwrap().unwrap();
    let output = "begun\n\n\n(The command was stopped by the person.)";
    assert_eq!(shell(&commands(&bench).await[0]).output.as_deref(), Some(output));
    bench.settled().await;
    let session = bench.engine.sessions().get(&id).await.unwrap();
    assert_eq!((session.is_at_work(), session.held, session.waiting), (false, true, 1));
    assert!(bench.engine.drains().resume(&id).await.unwrap());
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: behind it");
}

#[tokio::test]
async fn a_command_is_seen_and_stopped_from_another_process() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    let other = bench.beside().await;
    let mut updates = other.bus().listen();
    let ran = begin_long(&mut bench, "").await;
    let mut signal = async |wanted: Signal| {
        within("a signal", async {
            loop {
                if let SessionUpdate::Live(live) = updates.recv().await.unwrap()
                    && live.signal == wanted
                {
                    return;
                }
            }
        })
        .await;
    };
    signal(Signal::Busy).await;
    assert_eq!(other.drains().statuses(), [(id.clone(), Signal::Busy)]);
    let refused = other.shell().run(&id, command("echo never")).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    other.drains().abort(&id).await.unwrap();
    within("the command to end", ran).await.unwrap().unwrap();
    signal(Signal::Idle).await;
    assert_eq!(other.drains().statuses(), []);
    assert_eq!(commands(&bench).await.len(), 1);
    other.close().await;
}

#[tokio::test]
async fn a_server_that_ends_stops_its_command_and_says_so() {
    let mut bench = Bench::new().await;
    let ran = begin_long(&mut bench, "echo ran >> runs; ").await;
    bench.restart().await;
    ran.await.unwrap().unwrap();
    bench.settled().await;
    let output = "begun\n\n\n(The command was stopped: the server ended.)";
    assert_eq!(shell(&commands(&bench).await[0]).output.as_deref(), Some(output));
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
}

#[tokio::test]
async fn a_command_whose_process_died_is_settled_and_not_run_again() {
    let mut bench = Bench::new().await;
    let (id, engine) = (bench.session.id.clone(), &bench.engine);
    // As a killed process leaves it: what it recorded is that the command began.
    let begun = within("a command", engine.shell().run(&id, command("echo ran >> runs"))).await.unwrap();
    let log = engine.sessions().log(&id).await.unwrap();
    let started = log.iter().find(|record| matches!(record.event, Event::ShellStarted { .. })).unwrap();
    let location = engine.projects().location(None).await.unwrap();
    let left = engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let events =
        vec![NewEvent { id: engine.mint().event(), time: started.time, event: started.event.clone() }];
    bench.other_store().await.append(&left.id, Authority::Open, events).await.unwrap();
    assert!(engine.sessions().get(&left.id).await.unwrap().is_at_work());
    engine.inbox().admit(&left.id, Prompt::text("SAY:seen")).await.unwrap();
    within("the session to settle", engine.drains().settled(&left.id)).await;
    check_settled(&bench, &left.id, &begun).await;
    // And one that nobody prompts again.
    let left = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let event = started.event.clone();
    let events = vec![NewEvent { id: bench.engine.mint().event(), time: started.time, event }];
    bench.other_store().await.append(&left.id, Authority::Open, events).await.unwrap();
    bench.restart().await;
    within("the session to settle", bench.engine.drains().settled(&left.id)).await;
    check_settled(&bench, &left.id, &begun).await;
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
}

/// A command that was cut off is settled once, and the session rests.
async fn check_settled(bench: &Bench, id: &SessionId, second: &str) {
    let session = bench.engine.sessions().get(id).await.unwrap();
    assert!(!session.is_at_work(), "{session:?}");
    let nodes = bench.engine.sessions().conversation(id, None).await.unwrap().nodes;
    let ran = nodes.iter().find(|node| matches!(node.entry.body, Body::Shell(_))).unwrap();
    let unknown = "The outcome of this command is unknown: the server ended while it ran, so it may have taken effect in \
                   full, in part or not at all. It was not run again.";
    assert_eq!((shell(ran).output.as_deref(), shell(ran).exit), (Some(unknown), None));
    assert_eq!(shell(ran).pair.as_ref().unwrap().second, second);
    let PartKind::Tool { state: ToolState::Error { result, .. }, .. } = &ran.parts[1].kind else {
        panic!("{ran:?}")
    };
    assert_eq!((result.outcome, &*result.output), (Outcome::Unknown, unknown));
    let log = bench.engine.sessions().log(id).await.unwrap();
    assert_eq!(log.iter().filter(|record| matches!(record.event, Event::ShellEnded { .. })).count(), 1);
}

#[tokio::test]
async fn the_same_command_under_one_id_runs_once() {
    let bench = Bench::new().await;
    let id = Some(bench.engine.mint().entry(&bench.session));
    let once = ShellCommand { id, ..command("echo ran >> runs") };
    let (first, second) = (
        bench.engine.shell().run(&bench.session.id, once.clone()).await.unwrap(),
        bench.engine.shell().run(&bench.session.id, once.clone()).await.unwrap(),
    );
    assert_eq!(first, second);
    let other = ShellCommand { command: "echo other >> runs".to_owned(), ..once };
    let refused = bench.engine.shell().run(&bench.session.id, other).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
}

#[tokio::test]
async fn a_command_commits_a_staged_revert() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let second = bench.say("SAY:two").await;
    bench.engine.reverts().revert(&bench.session.id, &second, None).await.unwrap();
    run(&bench, "echo here").await;
    assert_eq!(bench.transcript().await, ["user: SAY:one", "assistant: one", "shell"]);
    assert_eq!(bench.engine.sessions().get(&bench.session.id).await.unwrap().revert, None);
}

#[tokio::test]
async fn much_output_is_kept_within_bounds() {
    let bench = Bench::new().await;
    run(&bench, "seq 1 100000").await;
    let nodes = commands(&bench).await;
    let output = shell(&nodes[0]).output.clone().unwrap();
    assert!(output.len() < 60_000 && output.starts_with("1\n2\n"), "{}", output.len());
    assert!(
        output.contains("tool-output"),
        "all of it is in a file: {}",
        output.lines().last().unwrap_or_default()
    );
}

#[tokio::test]
async fn a_command_that_no_system_takes_is_refused() {
    let bench = Bench::new().await;
    for (text, words) in [("echo \0".to_owned(), "NUL"), ("x".repeat(200_000), "200000 bytes")] {
        let refused = bench.engine.shell().run(&bench.session.id, command(&text)).await;
        let Err(Error::Invalid(said)) = refused else { panic!("{refused:?}") };
        assert!(said.contains(words), "{said}");
    }
    let agent = Some("nobody".to_owned());
    let refused =
        bench.engine.shell().run(&bench.session.id, ShellCommand { agent, ..command("true") }).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(commands(&bench).await, []);
}

#[tokio::test]
async fn a_copy_of_a_session_says_that_the_command_was_still_running() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    let ran = begin_long(&mut bench, "").await;
    let fork = bench.engine.sessions().fork(&id, None).await.unwrap();
    assert!(!fork.is_at_work());
    let copied = bench.engine.sessions().conversation(&fork.id, None).await.unwrap().nodes;
    let words = "This call was still running in the session that this one was copied from.";
    assert_eq!(shell(&copied[0]).output.as_deref(), Some(words));
    let PartKind::Tool { state: ToolState::Error { result, .. }, .. } = &copied[0].parts[1].kind else {
        panic!()
    };
    assert_eq!((result.outcome, &*result.output), (Outcome::Error, words));
    bench.engine.drains().abort(&id).await.unwrap();
    ran.await.unwrap().unwrap();
}
