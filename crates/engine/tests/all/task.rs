//! Tasks: a session of another agent does the work, and the one that gave it waits.

use std::time::Duration;

use everturn_engine::sessions::NewSession;
use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::permission::{Action, Rule};
use everturn_model::request::{Ask, Reply};
use everturn_model::tool::ToolState;
use everturn_model::{Session, SessionId};
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission::asked;

/// The line that makes the model give a task.
fn task(agent: &str, prompt: &str, id: Option<&str>) -> String {
    let mut input = json!({"description": "sub work", "prompt": prompt, "subagent_type": agent});
    if let Some(id) = id {
        input["task_id"] = id.into();
    }
    format!("JSONTOOL:task:{input}\n")
}

async fn children(bench: &Bench) -> Vec<Session> {
    bench.engine.sessions().children(&bench.session.id).await.unwrap()
}

async fn only_child(bench: &Bench) -> SessionId {
    let children = children(bench).await;
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].id.clone()
}

/// The results of the session's calls, oldest first.
async fn results(bench: &Bench) -> Vec<String> {
    let transcript = bench.transcript().await;
    transcript.iter().filter_map(|line| line.strip_prefix("result: ").map(str::to_owned)).collect()
}

fn completed(id: &SessionId, text: &str) -> String {
    format!(
        "Completed <task id=\"{id}\" state=\"completed\">\n<task_result>\n{text}\n</task_result>\n</task>"
    )
}

fn error(id: &SessionId, text: &str) -> String {
    format!("Error <task id=\"{id}\" state=\"error\">\n<task_error>\n{text}\n</task_error>\n</task>")
}

/// The names of the tools that a request to the model offers.
fn offered(request: &Value) -> Vec<&str> {
    request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_child_does_the_work() {
    let bench = Bench::new().await;
    bench.say("TOOL:task:SAY:child speaks").await;
    let child = only_child(&bench).await;
    assert_eq!(results(&bench).await, [completed(&child, "child speaks")]);
    let row = bench.engine.sessions().get(&child).await.unwrap();
    let deny = ["question", "plan_enter", "plan_exit", "todowrite", "task"];
    let deny = deny.map(|name| Rule::new(name, "*", Action::Deny));
    let config = bench.engine.configurations().at(bench.repo.path()).await;
    let parent = &config.agents().all()[0];
    assert_eq!(parent.name, "build");
    assert_eq!(
        (row.title.as_str(), row.agent.as_deref(), row.permission),
        (
            "sub work (@general subagent)",
            Some("general"),
            Some(parent.policy.clone().within(deny).flattened())
        )
    );
    assert_eq!(bench.transcript_of(&child).await, ["user: SAY:child speaks", "assistant: child speaks"]);
    let nodes = bench.nodes().await;
    let result = nodes.iter().find_map(|node| match &node.entry.body {
        Body::ToolResult { result } => Some(result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    let metadata = json!({
        "parentSessionId": bench.session.id, "sessionId": child,
        "model": {"modelID": "fake-1", "providerID": "fake"}, "truncated": false,
    });
    assert_eq!(
        (result.title.as_deref(), Value::from(result.metadata.unwrap())),
        (Some("sub work"), metadata)
    );
    let requests = bench.model.prompts();
    let of_parent = offered(&requests[0]);
    assert!(of_parent.contains(&"task") && of_parent.contains(&"question"), "{of_parent:?}");
    let of_child = offered(&requests[1]);
    assert!(of_child.contains(&"bash") && of_child.contains(&"edit"), "{of_child:?}");
    for never in ["question", "plan_enter", "plan_exit", "todowrite", "task"] {
        assert!(!of_child.contains(&never), "{of_child:?}");
    }
    let told = requests[0]["tools"].to_string();
    assert!(told.contains("- explore: ") && told.contains("- general: "), "{told}");
}

#[tokio::test]
async fn who_looks_later_finds_the_child_of_a_running_call() {
    let mut bench = Bench::new().await;
    let prompt = task("general", "HOLD:x SAY:done", None);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    let live = bench.notice(|notice| match notice {
        SessionUpdate::Live(live) => match &live.signal {
            Signal::Progress { part, .. } => Some(part.clone()),
            _ => None,
        },
        SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
    });
    let live = live.await;
    bench.model.held("x").await;
    let child = only_child(&bench).await;
    let stored = bench.nodes().await.into_iter().flat_map(|node| node.parts).find(|part| part.id == live.id);
    for part in [stored.unwrap(), *live] {
        let PartKind::Tool { state: ToolState::Running { metadata: Some(metadata), .. }, .. } = part.kind
        else {
            panic!("{part:?}")
        };
        assert_eq!(metadata["sessionId"], child.as_str());
    }
    bench.model.release("x");
    bench.settled().await;
}

#[tokio::test]
async fn tasks_of_one_answer_work_side_by_side() {
    let bench = Bench::new().await;
    let lines = task("general", "HOLD:a SAY:first", None) + &task("explore", "HOLD:b SAY:second", None);
    let prompt = format!("TOGETHER:2\n{lines}SAY:both");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    bench.model.held("a").await;
    bench.model.held("b").await;
    bench.model.release("b");
    bench.model.release("a");
    bench.settled().await;
    let mut results = results(&bench).await;
    results.sort_by_key(|result| result.contains("second"));
    assert!(results[0].contains("\nfirst\n") && results[1].contains("\nsecond\n"), "{results:?}");
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: both");
    assert_eq!(children(&bench).await.len(), 2);
}

#[tokio::test]
async fn an_unknown_agent_is_told_which_there_are() {
    let bench = Bench::new().await;
    bench.say(&(task("plan", "SAY:x", None) + "SAY:sorry")).await;
    let results = results(&bench).await;
    assert!(results[0].starts_with("Error There is no agent named 'plan'"), "{results:?}");
    assert!(results[0].contains("- explore: ") && results[0].contains("- general: "), "{results:?}");
    assert_eq!(children(&bench).await, []);
}

#[tokio::test]
async fn a_task_goes_on_in_its_session() {
    let bench = Bench::new().await;
    bench.say(&(task("general", "SAY:first", None) + "SAY:ok")).await;
    let child = only_child(&bench).await;
    bench.say(&(task("general", "SAY:second", Some(child.as_str())) + "SAY:ok")).await;
    assert_eq!(only_child(&bench).await, child);
    assert_eq!(results(&bench).await[1], completed(&child, "second"));
    let transcript = ["user: SAY:first", "assistant: first", "user: SAY:second", "assistant: second"];
    assert_eq!(bench.transcript_of(&child).await, transcript);
    // A session that is no child of this one is not told apart from one that is not there.
    for other in [bench.session.id.as_str(), "ses_nowhere"] {
        bench.say(&(task("general", "SAY:third", Some(other)) + "SAY:ok")).await;
        let results = results(&bench).await;
        let expected = format!("Error This session has given no task with the id '{other}'.");
        assert!(results.last().unwrap().starts_with(&expected), "{results:?}");
    }
}

#[tokio::test]
async fn who_stops_the_parent_stops_the_child() {
    let bench = Bench::new().await;
    let prompt = task("general", "HOLD:x SAY:never said", None);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    bench.model.held("x").await;
    let child = only_child(&bench).await;
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    assert!(!bench.engine.drains().is_running(&child));
    let transcript = bench.transcript_of(&child).await;
    assert!(transcript.last().unwrap().ends_with("!aborted"), "{transcript:?}");
    assert_eq!(results(&bench).await, ["Error Tool execution aborted"]);
}

#[tokio::test]
async fn a_failed_child_is_told_with_its_error() {
    let bench = Bench::new().await;
    bench.say(&(task("general", "REFUSE SAY:x", None) + "SAY:sorry")).await;
    let child = only_child(&bench).await;
    let text = "The provider's filter ended the answer. Another wording, or another model, may get further.";
    assert_eq!(results(&bench).await, [error(&child, text)]);
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: sorry");
}

#[tokio::test]
async fn a_child_may_do_no_more_than_its_parent() {
    let bench = Bench::new().await;
    let line = task("general", "TOOL:write:a.txt=changed\nSAY:tried", None);
    let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text(&(line + "SAY:ok")) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let child = only_child(&bench).await;
    let transcript = bench.transcript_of(&child).await;
    assert!(transcript[2].starts_with("result: Error"), "{transcript:?}");
    assert_eq!(bench.repo.read("a.txt"), "hello\n");
}

#[tokio::test]
async fn an_exploring_child_only_looks() {
    let bench = Bench::new().await;
    let line = task("explore", "TOOL:bash:touch made\nTOOL:read:a.txt\nSAY:looked", None);
    bench.say(&(line + "SAY:ok")).await;
    let child = only_child(&bench).await;
    let transcript = bench.transcript_of(&child).await;
    assert!(transcript[2].starts_with("result: Error"), "{transcript:?}");
    assert!(transcript[4].starts_with("result: Completed"), "{transcript:?}");
    assert!(!bench.repo.join("made").exists());
}

#[tokio::test]
async fn a_child_asks_where_its_parent_must() {
    // A wide rule to ask was dropped for a child whose own rules allow only some things, which it then did unasked.
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let ask = Some(vec![Rule::new("*", "*", Action::Ask)]);
    let new = NewSession { permission: ask, title: Some("asks".into()), ..NewSession::default() };
    bench.session = bench.engine.sessions().create(&location, new).await.unwrap();
    let line = task("explore", "TOOL:read:a.txt\nTOOL:bash:touch made\nSAY:looked", None);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&(line + "SAY:ok"))).await.unwrap();
    for wanted in ["task", "read"] {
        let request = asked(&mut bench).await;
        let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
        assert_eq!(permission, wanted);
        bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    }
    bench.settled().await;
    let transcript = bench.transcript_of(&only_child(&bench).await).await;
    assert!(transcript[2].starts_with("result: Completed"), "{transcript:?}");
    assert!(
        transcript[4].starts_with("result: Error"),
        "what it may not do is not asked about: {transcript:?}"
    );
    assert!(!bench.repo.join("made").exists());
}

#[tokio::test]
async fn a_child_that_is_taken_up_again_may_do_no_more_than_its_parent_now() {
    // A planning agent, which changes nothing, went on with a child of the building one, which could.
    let bench = Bench::new().await;
    bench.say(&(task("general", "SAY:first", None) + "SAY:ok")).await;
    let child = only_child(&bench).await;
    let write = "JSONTOOL:write:{\"filePath\":\"new.txt\",\"content\":\"x\"}\nSAY:second";
    let text = task("general", write, Some(child.as_str())) + "SAY:ok";
    let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text(&text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let transcript = bench.transcript_of(&child).await;
    assert!(transcript[4].starts_with("result: Error Not allowed"), "{transcript:?}");
    assert!(!bench.repo.join("new.txt").exists());
}

#[tokio::test]
async fn a_no_to_the_child_is_told_to_the_parent() {
    let mut bench = Bench::configured(json!({"permission": {"bash": "ask"}})).await;
    let line = task("general", "TOOL:bash:touch made\nSAY:done", None);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&(line + "SAY:understood"))).await.unwrap();
    let request = asked(&mut bench).await;
    let child = only_child(&bench).await;
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), [(child.clone(), request.clone())]);
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    let text = "It stopped because the person did not permit one of its calls.";
    assert_eq!(results(&bench).await, [error(&child, text)]);
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: understood");
}

#[tokio::test]
async fn after_a_restart_the_call_is_settled_from_its_child() {
    let mut bench = Bench::new().await;
    let lines = task("general", "MUTE:a SAY:first", None) + &task("general", "MUTE:b SAY:second", None);
    let prompt = format!("TOGETHER:2\n{lines}SAY:both");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    bench.model.held("a").await;
    bench.model.held("b").await;
    let before: Vec<SessionId> = children(&bench).await.into_iter().map(|child| child.id).collect();
    bench.restart().await;
    bench.model.release("b");
    bench.model.release("a");
    bench.settled().await;
    let after: Vec<SessionId> = children(&bench).await.into_iter().map(|child| child.id).collect();
    assert_eq!(after, before, "the children are the same");
    let mut results = results(&bench).await;
    results.sort_by_key(|result| result.contains("second"));
    assert!(results[0].contains("\nfirst\n") && results[1].contains("\nsecond\n"), "{results:?}");
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: both");
    for child in after {
        let transcript = bench.transcript_of(&child).await;
        let prompts = transcript.iter().filter(|line| line.starts_with("user:")).count();
        assert_eq!(prompts, 1, "{transcript:?}");
    }
}

#[tokio::test]
async fn a_child_without_progress_is_given_up() {
    let patient = |options: &mut everturn_engine::Options| options.patience = Duration::from_millis(600);
    let bench = Bench::with(|_| json!({}), patient).await;
    bench.say(&(task("general", "MUTE:x SAY:never", None) + "SAY:went on")).await;
    let child = only_child(&bench).await;
    let results = results(&bench).await;
    assert!(results[0].starts_with("Error The task was stopped: it showed no progress"), "{results:?}");
    assert!(results[0].contains(child.as_str()), "{results:?}");
    assert!(!bench.engine.drains().is_running(&child));
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: went on");
}

#[tokio::test]
async fn one_task_is_gone_on_with_by_one_call_at_a_time() {
    // Two calls of one answer both went on with it, and were told each other's results.
    let bench = Bench::new().await;
    bench.say(&(task("general", "SAY:first", None) + "SAY:ok")).await;
    let child = only_child(&bench).await;
    let again = |prompt: &str| task("general", prompt, Some(child.as_str()));
    bench.say(&format!("TOGETHER:2\n{}{}SAY:ok", again("SAY:second"), again("SAY:third"))).await;
    let mut results = results(&bench).await.split_off(1);
    results.sort();
    let refused =
        format!("Error The task '{child}' is still at work. Wait for its answer, or begin a new one.");
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!(results[1], refused);
    assert!(["second", "third"].map(|text| completed(&child, text)).contains(&results[0]), "{results:?}");
}
