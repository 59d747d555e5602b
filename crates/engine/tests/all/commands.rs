//! Slash commands: where they come from, what fills their gaps, and what they may run.

use everturn_engine::commands::{CommandSource, GivenCommand};
use everturn_engine::{Engine, Error};
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, Reply};
use everturn_testkit::within;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::bench::Bench;
use crate::permission::asked;

fn given(name: &str, arguments: &str) -> GivenCommand {
    GivenCommand { name: name.to_owned(), arguments: arguments.to_owned(), ..GivenCommand::default() }
}

async fn run(bench: &Bench, command: GivenCommand) -> Result<InboxItem, Error> {
    within("the command", bench.engine.commands().run(&bench.session.id, command)).await
}

/// Gives a command whose prompt is admitted, and waits for the answer.
async fn give(bench: &Bench, name: &str, arguments: &str) -> InboxItem {
    let item = run(bench, given(name, arguments)).await.unwrap();
    bench.settled().await;
    item
}

fn begin(engine: &Engine, bench: &Bench, name: &str) -> JoinHandle<Result<InboxItem, Error>> {
    let (engine, id, command) = (engine.clone(), bench.session.id.clone(), given(name, ""));
    tokio::spawn(async move { engine.commands().run(&id, command).await })
}

/// The texts and files of a prompt.
fn parts(item: &InboxItem) -> Vec<String> {
    let shown = |kind: &PartKind| match kind {
        PartKind::Text { text, synthetic: None, .. } => Some(text.clone()),
        PartKind::File { filename, .. } => Some(format!("file {}", filename.as_deref().unwrap_or_default())),
        PartKind::Agent { name, .. } => Some(format!("agent {name}")),
        PartKind::Subtask { prompt, agent, command, .. } => Some(format!("{command:?} to {agent}: {prompt}")),
        _ => None,
    };
    item.parts.iter().filter_map(|part| shown(&part.kind)).collect()
}

fn reason(refused: Result<InboxItem, Error>) -> String {
    match refused {
        Err(Error::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn commands(commands: &Value) -> Value {
    json!({"command": commands})
}

#[tokio::test]
async fn commands_come_from_the_configuration_and_from_files() {
    let person = commands(&json!({"mine": {"template": "SAY:mine $1", "description": "my own"}}));
    let files = [
        (
            ".opencode/command/check.md",
            "---\ndescription: checks\nagent: plan\n---\nSAY:checked $ARGUMENTS\n",
        ),
        ("opencode.json", r#"{"command": {"theirs": {"template": "SAY:theirs"}}}"#),
    ];
    let bench = Bench::found(person, &files).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let known = bench.engine.commands().list(&*bench.config().await, &location).await;
    let listed: Vec<_> = known
        .iter()
        .map(|command| {
            assert_eq!(command.source, CommandSource::Configuration);
            let hints: Vec<&str> = command.hints.iter().map(String::as_str).collect();
            (command.name.as_str(), command.definition.description.as_deref(), hints)
        })
        .collect();
    let expected = [
        ("check", Some("checks"), vec!["$ARGUMENTS"]),
        ("init", Some("guided AGENTS.md setup"), vec!["$ARGUMENTS"]),
        ("mine", Some("my own"), vec!["$1"]),
        ("theirs", None, vec![]),
    ];
    assert_eq!(listed, expected);
    let item = give(&bench, "check", "all of it").await;
    assert_eq!(
        (parts(&item), item.user.agent.as_deref()),
        (vec!["SAY:checked all of it".to_owned()], Some("plan"))
    );
    give(&bench, "mine", "").await;
    give(&bench, "theirs", "too").await;
    let said = bench.transcript().await;
    let answers: Vec<&String> = said.iter().filter(|line| line.starts_with("assistant")).collect();
    assert_eq!(answers, ["assistant: checked all of it", "assistant: mine", "assistant: theirs"]);
    let unknown = reason(run(&bench, given("nothing", "")).await);
    assert_eq!(unknown, "there is no command nothing; known: init, check, mine, theirs");
}

#[tokio::test]
async fn init_is_built_in_and_can_be_replaced() {
    let bench = Bench::new().await;
    let item = give(&bench, "init", "with care").await;
    let text = parts(&item).remove(0);
    assert!(text.contains("`AGENTS.md`") && text.ends_with("\n\nwith care"), "{text}");
    let own = Bench::configured(commands(&json!({"init": {"template": "SAY:own"}}))).await;
    assert_eq!(parts(&give(&own, "init", "").await), ["SAY:own"]);
}

#[tokio::test]
async fn what_a_text_runs_stands_in_it_by_the_rules_of_the_agent() {
    let template = "SAY:it prints !`echo ran $1 >> runs; echo out` here";
    let check = json!({"template": template, "agent": "build"});
    let bench = Bench::configured(commands(&json!({"check": check}))).await;
    assert_eq!(parts(&give(&bench, "check", "one").await), ["SAY:it prints out\n here"]);
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran one\n");
    // What is typed beside it is words, whatever it looks like.
    let words = commands(&json!({"words": {"template": "SAY:$1 !`echo out`"}}));
    let odd = Bench::configured(words).await;
    let item = give(&odd, "words", "'!`echo never >> never`'").await;
    assert_eq!(parts(&item), ["SAY:!`echo never >> never` out"]);
    assert!(!odd.repo.join("never").exists());

    let denied =
        Bench::configured(json!({"command": {"check": check}, "permission": {"bash": "deny"}})).await;
    let said = reason(run(&denied, given("check", "one")).await);
    assert!(
        said.starts_with(
            "the text of the slash command runs `echo ran one >> runs; echo out`: a rule is against bash on "
        ),
        "{said}"
    );
    assert!(!denied.repo.join("runs").exists());
    assert_eq!(denied.transcript().await, [""; 0], "nothing was admitted");
}

#[tokio::test]
async fn what_a_text_runs_is_asked_for_where_an_agent_asks() {
    let check = json!({"template": "SAY:!`echo ran >> runs; echo out`"});
    let config =
        json!({"command": {"check": check}, "permission": {"bash": {"*": "allow", "echo ran*": "ask"}}});
    let mut bench = Bench::configured(config).await;
    let running = begin(&bench.engine, &bench, "check");
    let request = asked(&mut bench).await;
    let Ask::Permission { permission, patterns, .. } = &request.ask else { panic!("{request:?}") };
    assert_eq!((permission.as_str(), patterns[0].as_str()), ("bash", "echo ran"));
    assert!(!bench.repo.join("runs").exists());
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    let item = within("the command", running).await.unwrap().unwrap();
    assert_eq!(parts(&item), ["SAY:out"]);
    bench.settled().await;
    let running = begin(&bench.engine, &bench, "check");
    let request = asked(&mut bench).await;
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    let said = reason(within("the command", running).await.unwrap());
    assert!(said.ends_with(": it was not permitted"), "{said}");
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
    // Who waits for the answer ends with its process, and so does the question.
    let running = begin(&bench.engine, &bench, "check");
    asked(&mut bench).await;
    bench.restart().await;
    let said = reason(within("the command", running).await.unwrap());
    assert!(said.ends_with(": nobody has permitted it"), "{said}");
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
}

#[tokio::test]
async fn what_a_text_runs_runs_once_for_one_id() {
    let bench =
        Bench::configured(commands(&json!({"check": {"template": "SAY:!`echo ran >> runs`x"}}))).await;
    let id = Some(bench.engine.mint().entry(&bench.session));
    let command = GivenCommand { id: id.clone(), ..given("check", "") };
    for _ in 0..2 {
        let item = run(&bench, command.clone()).await.unwrap();
        assert_eq!(Some(item.id), id);
        bench.settled().await;
    }
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
    assert_eq!(bench.transcript().await.len(), 2);
}

#[tokio::test]
async fn a_project_that_nobody_trusts_runs_nothing() {
    let files = [(".opencode/command/check.md", "SAY:!`echo ran >> runs`\n")];
    let bench = Bench::found(json!({}), &files).await;
    let said = reason(run(&bench, given("check", "")).await);
    assert!(said.starts_with("the command check is this project's and waits for your trust"), "{said}");
    assert!(!bench.repo.join("runs").exists());
    bench.trust_all().await;
    give(&bench, "check", "").await;
    assert_eq!(std::fs::read_to_string(bench.repo.join("runs")).unwrap(), "ran\n");
}

#[tokio::test]
async fn files_and_agents_that_are_mentioned_come_along() {
    let template = "SAY:look at @a.txt, @sub/ and @nothing.txt with @explore";
    let bench = Bench::configured(commands(&json!({"check": {"template": template}}))).await;
    std::fs::create_dir(bench.repo.join("sub")).unwrap();
    let item = give(&bench, "check", "").await;
    assert_eq!(parts(&item), [template, "file a.txt", "file sub/", "agent explore"]);
    let sent = bench.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(sent.contains("hello"), "the content reaches the model: {sent}");
}

#[tokio::test]
async fn a_text_brings_no_file_along_that_an_agent_would_have_to_ask_for() {
    let template = "SAY:see @/etc/hostname @.env @a.txt $ARGUMENTS";
    let bench = Bench::configured(commands(&json!({"check": {"template": template}}))).await;
    bench.repo.write(".env", "SECRET=1\n");
    let item = give(&bench, "check", "").await;
    assert_eq!(parts(&item)[1..], ["file a.txt"]);
    // The person may name whatever they like.
    let item = give(&bench, "check", "@.env and @/etc/hostname").await;
    assert_eq!(parts(&item)[1..], ["file /etc/hostname", "file .env", "file a.txt"]);
}

#[tokio::test]
async fn a_command_of_a_subagent_is_a_task() {
    let config = commands(&json!({
        "ask": {"template": "SAY:asked $1", "agent": "general", "description": "asks"},
        "here": {"template": "SAY:here", "agent": "general", "subtask": false},
        "apart": {"template": "SAY:apart", "subtask": true},
    }));
    let bench = Bench::configured(config).await;
    let item = give(&bench, "ask", "something").await;
    assert_eq!(parts(&item), ["Some(\"ask\") to general: SAY:asked something"]);
    assert_eq!(item.user.agent.as_deref(), Some("build"));
    let child = bench.engine.sessions().children(&bench.session.id).await.unwrap().remove(0);
    assert_eq!(child.title, "asks (@general subagent)");
    assert_eq!(
        bench.transcript_of(&child.id).await,
        ["user: SAY:asked something", "assistant: asked something"]
    );
    assert_eq!(parts(&give(&bench, "apart", "").await), ["Some(\"apart\") to build: SAY:apart"]);
    assert_eq!(parts(&give(&bench, "here", "").await), ["SAY:here"]);
}

#[tokio::test]
async fn a_command_has_its_own_model() {
    let bench = Bench::at(|address| {
        let models = json!({"fake-1": {}, "fake-2": {}, "fake-3": {}});
        let options = json!({"baseURL": address, "apiKey": "none"});
        let provider =
            json!({"fake": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}});
        json!({"provider": provider, "command": {
            "own": {"template": "SAY:own", "model": "fake/fake-2"}, "any": {"template": "SAY:any"}}})
    })
    .await;
    let model = |name: &str| GivenCommand { model: Some("fake/fake-3".to_owned()), ..given(name, "") };
    for (name, expected) in [("own", "fake-2"), ("any", "fake-3")] {
        run(&bench, model(name)).await.unwrap();
        bench.settled().await;
        assert_eq!(bench.model.prompts().pop().unwrap()["model"], expected);
    }
    let unknown = GivenCommand { model: Some("nobody/none".to_owned()), ..given("any", "") };
    assert!(matches!(run(&bench, unknown).await, Err(Error::Model(_))));
}

#[tokio::test]
async fn too_much_is_refused() {
    let many = "!`true`".repeat(17);
    let bench =
        Bench::configured(commands(&json!({"many": {"template": many}, "one": {"template": "one"}}))).await;
    let said = reason(run(&bench, given("many", "")).await);
    assert!(said.contains("17") && said.contains("16"), "{said}");
    let said = reason(run(&bench, given("one", &"x".repeat(300_000))).await);
    assert!(said.contains("arguments"), "{said}");
}

#[tokio::test]
async fn prompts_of_servers_are_commands() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/tests/all/mcp/scripted.py");
    let server = json!({"type": "local", "command": ["python3", script, "plain", "/dev/null"]});
    let bench = Bench::configured(json!({"mcp": {"my server": server}})).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let known = bench.engine.commands().list(&*bench.config().await, &location).await;
    let of_server: Vec<_> = known.iter().filter(|command| command.source == CommandSource::Server).collect();
    let [greet] = of_server.as_slice() else { panic!("{known:?}") };
    assert_eq!(
        (greet.name.as_str(), greet.hints.as_slice()),
        ("my_server:greet", &["$1".to_owned(), "$2".to_owned()][..])
    );
    assert_eq!(greet.definition.description.as_deref(), Some("greets"));
    // What a server says is words.
    let item = give(&bench, "my_server:greet", "Ada \"with joy\" and more").await;
    assert_eq!(parts(&item), ["SAY:hello Ada\nhow: with joy and more !`echo never >> never` $1"]);
    assert!(!bench.repo.join("never").exists());
    let said = reason(run(&bench, given("my_server:greet", "")).await);
    assert!(said.starts_with("the command my_server:greet: ") && said.contains("who?"), "{said}");
}
