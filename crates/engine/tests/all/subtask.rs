//! Tasks that a person gives to another agent with a prompt, and agents that a prompt mentions.

use everturn_engine::inbox::PartInput;
use everturn_engine::{Error, Prompt};
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::{Session, SessionId};
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;

fn task(agent: &str, prompt: &str) -> PartInput {
    from_command(agent, prompt, None)
}

fn from_command(agent: &str, prompt: &str, command: Option<&str>) -> PartInput {
    PartInput::new(PartKind::Subtask {
        prompt: prompt.to_owned(),
        description: "sub work".to_owned(),
        agent: agent.to_owned(),
        model: None,
        command: command.map(str::to_owned),
    })
}

fn prompt(parts: Vec<PartInput>) -> Prompt {
    Prompt { parts, ..Prompt::text("") }
}

async fn say(bench: &Bench, parts: Vec<PartInput>) {
    bench.engine.inbox().admit(&bench.session.id, prompt(parts)).await.unwrap();
    bench.settled().await;
}

async fn children(bench: &Bench) -> Vec<Session> {
    let mut children = bench.engine.sessions().children(&bench.session.id).await.unwrap();
    children.sort_by_key(|child| child.time.created);
    children
}

fn completed(id: &SessionId, text: &str) -> String {
    format!(
        "result: Completed <task id=\"{id}\" state=\"completed\">\n<task_result>\n{text}\n</task_result>\n</task>"
    )
}

/// What the model was sent last, as roles with their texts.
fn sent(bench: &Bench) -> Vec<String> {
    let request = bench.model.prompts().pop().unwrap();
    let messages =
        request["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("|")
        }
        _ => String::new(),
    };
    messages
        .map(|message| {
            let called = message.pointer("/tool_calls/0/function/name").and_then(Value::as_str);
            let called = called.map(|name| format!("({name})")).unwrap_or_default();
            format!("{}: {}{called}", message["role"].as_str().unwrap(), text(&message["content"]))
        })
        .collect()
}

#[tokio::test]
async fn a_prompt_of_only_a_task_has_the_agent_do_it_and_the_model_read_of_it() {
    // It was accepted and ignored: the model was asked nothing.
    let bench = Bench::new().await;
    say(&bench, vec![task("general", "SAY:child speaks")]).await;
    let children = children(&bench).await;
    let [child] = children.as_slice() else { panic!("{children:?}") };
    assert_eq!(
        (child.title.as_str(), child.agent.as_deref()),
        ("sub work (@general subagent)", Some("general"))
    );
    assert_eq!(bench.transcript_of(&child.id).await, ["user: SAY:child speaks", "assistant: child speaks"]);
    let said = bench.transcript().await;
    assert_eq!(
        said[..3],
        ["user: ".to_owned(), "assistant: (task)".to_owned(), completed(&child.id, "child speaks")]
    );
    assert!(said.len() == 4 && said[3].starts_with("assistant: "), "{said:?}");
    let sent = sent(&bench);
    assert_eq!(sent[..2], ["user: The following tool was executed by the user", "assistant: (task)"]);
    assert!(sent.len() == 3 && sent[2].contains("child speaks"), "{sent:?}");
    let nodes = bench.nodes().await;
    let given =
        nodes.iter().find_map(|node| node.entry.body.assistant().filter(|answer| answer.delegated)).unwrap();
    let shown =
        (given.agent.as_deref(), given.step, given.finish.as_ref().map(|finish| finish.word().to_owned()));
    assert_eq!(shown, (Some("general"), None, Some("tool-calls".to_owned())));
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((session.open, session.steps), (false, 1));
}

#[tokio::test]
async fn tasks_are_given_one_after_the_other_and_what_else_is_asked_comes_after_them() {
    let bench = Bench::new().await;
    let text = PartInput::new(PartKind::text("SAY:all of it"));
    say(&bench, vec![task("general", "SAY:one"), text, task("explore", "SAY:two")]).await;
    let children = children(&bench).await;
    let [one, two] = children.as_slice() else { panic!("{children:?}") };
    let expected = [
        "user: SAY:all of it".to_owned(),
        "assistant: (task)".to_owned(),
        completed(&one.id, "one"),
        "assistant: (task)".to_owned(),
        completed(&two.id, "two"),
    ];
    let said = bench.transcript().await;
    assert_eq!((said.len(), &said[..5]), (6, &expected[..]));
    assert_eq!((one.agent.as_deref(), two.agent.as_deref()), (Some("general"), Some("explore")));
    // What was given is not given again.
    bench.say("SAY:next").await;
    assert_eq!(self::children(&bench).await.len(), 2);
    assert_eq!(bench.transcript().await[6..], ["user: SAY:next", "assistant: next"]);
}

#[tokio::test]
async fn a_task_of_a_command_is_summed_up() {
    let bench = Bench::new().await;
    say(&bench, vec![from_command("build", "SAY:reviewed", Some("review"))]).await;
    let said = bench.transcript().await;
    assert_eq!((said.len(), said[3].as_str()), (5, "synthetic"));
    let told = "user: Sum up for the person what the task above gave, and go on with your work.";
    assert_eq!(sent(&bench).last().unwrap(), told);
    // An agent that conversations are held with is as good as another one, if the person says so.
    assert_eq!(children(&bench).await[0].agent.as_deref(), Some("build"));
}

#[tokio::test]
async fn a_task_has_its_own_model_and_the_conversation_keeps_its() {
    let bench = Bench::at(|address| {
        let models = json!({"fake-1": {}, "fake-2": {}});
        let options = json!({"baseURL": address, "apiKey": "none"});
        json!({"provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}}})
    })
    .await;
    bench.say("SAY:first").await;
    let mut given = task("general", "SAY:by another");
    if let PartKind::Subtask { model, .. } = &mut given.kind {
        *model = Some(ModelRef { provider: "fake".into(), model: "fake-2".into(), variant: None });
    }
    say(&bench, vec![given]).await;
    let asked: Vec<String> =
        bench.model.prompts().iter().map(|request| request["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(asked, ["fake-1", "fake-2", "fake-1"]);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!(session.model.unwrap().model, "fake-1");
}

#[tokio::test]
async fn who_stops_the_session_stops_the_task() {
    let bench = Bench::new().await;
    let id = bench.session.id.clone();
    bench.engine.inbox().admit(&id, prompt(vec![task("general", "HOLD:x SAY:one two")])).await.unwrap();
    bench.model.held("x").await;
    within("the stop", bench.engine.drains().abort(&id)).await.unwrap();
    let said = bench.transcript().await;
    assert_eq!(said[1..], ["assistant: (task) !aborted", "result: Error Tool execution aborted"]);
    let child = &children(&bench).await[0];
    assert!(!bench.engine.sessions().get(&child.id).await.unwrap().open);
    bench.model.release("x");
    bench.say("SAY:and on").await;
    assert_eq!(bench.transcript().await[3..], ["user: SAY:and on", "assistant: and on"]);
    assert_eq!(children(&bench).await.len(), 1, "it is not given again");
}

#[tokio::test]
async fn a_task_goes_on_after_a_restart_in_the_same_session() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    bench.engine.inbox().admit(&id, prompt(vec![task("explore", "HOLD:x SAY:one two")])).await.unwrap();
    bench.model.held("x").await;
    let before = children(&bench).await;
    bench.model.release("x");
    bench.restart().await;
    bench.settled().await;
    let after = children(&bench).await;
    assert_eq!(after.iter().map(|child| &child.id).collect::<Vec<_>>(), [&before[0].id]);
    let said = bench.transcript().await;
    assert!(said[2].starts_with("result: Completed"), "{said:?}");
    assert_eq!(said.len(), 4, "{said:?}");
}

#[tokio::test]
async fn what_the_person_denies_is_not_given_to_another_agent() {
    let bench = Bench::configured(json!({"permission": {"task": "deny"}})).await;
    say(&bench, vec![task("general", "SAY:never")]).await;
    let said = bench.transcript().await;
    assert!(said[2].starts_with("result: Error"), "{said:?}");
    assert_eq!(children(&bench).await, []);
    // Whoever asks for it need not be asked.
    let bench = Bench::configured(json!({"permission": {"task": "ask"}})).await;
    say(&bench, vec![task("general", "SAY:asked for")]).await;
    assert_eq!(children(&bench).await.len(), 1);
}

#[tokio::test]
async fn an_agent_that_is_mentioned_is_asked_of_the_model() {
    let bench = Bench::new().await;
    let mention = PartInput::new(PartKind::Agent { name: "explore".to_owned(), source: None });
    say(&bench, vec![PartInput::new(PartKind::text("SAY:look around")), mention]).await;
    let sent = sent(&bench);
    let told = "The person wants the agent `explore` for this: call the tool `task` with `subagent_type` \"explore\", and \
                write its prompt from the message above and from what it has to know of this conversation.";
    assert!(sent[0].contains("SAY:look around") && sent[0].contains(told), "{sent:?}");
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_refused_at_once() {
    let bench = Bench::new().await;
    let mention = PartInput::new(PartKind::Agent { name: "nobody".to_owned(), source: None });
    for part in [mention, task("nobody", "x")] {
        let refused = bench.engine.inbox().admit(&bench.session.id, prompt(vec![part])).await;
        let Err(Error::Invalid(said)) = refused else { panic!("{refused:?}") };
        assert!(said.starts_with("there is no agent nobody; known: build, "), "{said}");
    }
    assert!(bench.nodes().await.iter().all(|node| !matches!(node.entry.body, Body::User(_))));
}
