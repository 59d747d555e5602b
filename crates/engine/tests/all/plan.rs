//! Plan mode: into it and out of it, by the person's answer.

use everturn_engine::Prompt;
use everturn_model::entry::Body;
use everturn_model::permission::Action;
use everturn_model::request::{Ask, Request};
use serde_json::json;

use crate::bench::Bench;
use crate::permission::asked;

/// Has an agent call a plan tool, and waits for its question.
async fn call(bench: &mut Bench, agent: &str, tool: &str) -> Request {
    let text = format!("JSONTOOL:{tool}:{{}}\nSAY:{agent} goes on");
    let prompt = Prompt { agent: Some(agent.into()), ..Prompt::text(&text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    asked(bench).await
}

async fn answer(bench: &Bench, request: &Request, word: &str) {
    bench.engine.requests().answer(&request.id, vec![vec![word.to_owned()]]).await.unwrap();
    bench.settled().await;
}

/// The agents of the answers, oldest first, and the one that is selected.
async fn agents(bench: &Bench) -> (Vec<String>, Option<String>) {
    let spoke = bench.nodes().await.into_iter().filter_map(|node| match node.entry.body {
        Body::Assistant(assistant) => assistant.agent,
        _ => None,
    });
    (spoke.collect(), bench.engine.sessions().get(&bench.session.id).await.unwrap().agent)
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[tokio::test]
async fn with_a_yes_the_other_agent_goes_on() {
    for (from, tool, to) in [("plan", "plan_exit", "build"), ("build", "plan_enter", "plan")] {
        let mut bench = Bench::new().await;
        let request = call(&mut bench, from, tool).await;
        let Ask::Question { questions } = &request.ask else { panic!("{request:?}") };
        assert_eq!(
            (&questions[0]["options"][0]["label"], &questions[0]["options"][1]["label"]),
            (&"Yes".into(), &"No".into())
        );
        answer(&bench, &request, "Yes").await;
        assert_eq!(agents(&bench).await, (names(&[from, to]), Some(to.to_owned())));
        let transcript = bench.transcript().await;
        assert!(transcript[2].starts_with("result: Completed The person said yes."), "{transcript:?}");
        assert!(transcript[3].starts_with("user: ") && transcript[3].contains("plan"), "{transcript:?}");
        assert_eq!(transcript[4], "system", "the model is told where the plan is, or that planning is over");
        assert!(transcript[5].starts_with("assistant: Hello"), "{transcript:?}");
        let last = bench.model.prompts().pop().unwrap()["tools"].to_string();
        assert!(!last.contains(tool), "{to} is not offered {tool}: {last}");
    }
}

#[tokio::test]
async fn with_a_no_the_agent_goes_on_as_it_is() {
    for (from, tool) in [("plan", "plan_exit"), ("build", "plan_enter")] {
        let mut bench = Bench::new().await;
        let request = call(&mut bench, from, tool).await;
        answer(&bench, &request, "No").await;
        assert_eq!(agents(&bench).await, (names(&[from, from]), Some(from.to_owned())));
        assert_eq!(bench.transcript().await[3], format!("assistant: {from} goes on"));
    }
}

#[tokio::test]
async fn after_a_restart_the_answer_still_counts_once() {
    let mut bench = Bench::new().await;
    let request = call(&mut bench, "plan", "plan_exit").await;
    bench.restart().await;
    answer(&bench, &request, "Yes").await;
    assert_eq!(agents(&bench).await, (names(&["plan", "build"]), Some("build".to_owned())));
    let transcript = bench.transcript().await;
    assert_eq!(transcript.iter().filter(|line| line.starts_with("user:")).count(), 2, "{transcript:?}");
}

#[tokio::test]
async fn the_planning_agent_changes_nothing_but_its_plan() {
    let bench = Bench::new().await;
    let session = &bench.session;
    let name = format!(".opencode/plans/{}-{}.md", session.time.created, session.slug);
    let file = bench.repo.join(&name);
    let text = format!(
        "TOOL:write:{}=the plan\nTOOL:write:a.txt=changed\nTOOL:write:.opencode/plans/../x.md=x\nSAY:ok",
        file.display()
    );
    let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text(&text) };
    bench.engine.inbox().admit(&session.id, prompt).await.unwrap();
    bench.settled().await;
    let results: Vec<String> =
        bench.transcript().await.into_iter().filter(|line| line.starts_with("result:")).collect();
    assert!(results[0].starts_with("result: Completed"), "{results:?}");
    for denied in &results[1..] {
        assert!(denied.contains("a rule is against edit"), "{results:?}");
    }
    assert_eq!((bench.repo.read(&name).as_str(), bench.repo.read("a.txt").as_str()), ("the plan", "hello\n"));
    assert!(!bench.repo.join(".opencode/x.md").exists());
    let told = bench.model.prompts()[0]["messages"][0].to_string();
    assert!(told.contains(&name), "the agent is told where its plan is: {told}");
}

#[tokio::test]
async fn outside_a_repository_the_plan_is_kept_with_the_data() {
    // The folder was taken for the root of a repository, and the agent was told to write there. The test wrote the path
    // that it expected itself.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let bench = Bench::new().await;
    let location = bench.engine.projects().location(folder.to_str()).await.unwrap();
    let session = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
    let say = async |text: &str| {
        let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text(text) };
        bench.engine.inbox().admit(&session.id, prompt).await.unwrap();
        bench.engine.drains().settled(&session.id).await;
    };
    say("SAY:where?").await;
    let told = bench.model.prompts().pop().unwrap()["messages"][0]["content"].as_str().unwrap().to_owned();
    let file = told.split("the only one that you may change: ").nth(1).unwrap().lines().next().unwrap();
    say(&format!("TOOL:write:{file}=the plan\nTOOL:write:a.txt=changed\nSAY:ok")).await;
    assert_eq!(std::fs::read_to_string(file).unwrap(), "the plan");
    let data = bench.engine.paths().data.canonicalize().unwrap();
    assert!(std::path::Path::new(file).starts_with(data.join("plans")), "{file}");
    assert!(!folder.join("a.txt").exists() && !folder.join(".opencode").exists());
}

#[tokio::test]
async fn who_only_looks_changes_nothing_whatever_is_configured() {
    // To configure that edits need no asking, or are asked about, let the planning agent make them.
    for configured in [
        json!("allow"),
        json!({"edit": "allow"}),
        json!({"edit": "ask"}),
        json!({"edit": {"*.txt": "allow"}}),
    ] {
        let bench = Bench::configured(json!({"permission": configured})).await;
        let text = "JSONTOOL:write:{\"filePath\":\"new.txt\",\"content\":\"x\"}\nSAY:ok";
        let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text(text) };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
        bench.settled().await;
        let transcript = bench.transcript().await;
        assert!(transcript[2].starts_with("result: Error Not allowed"), "{configured}: {transcript:?}");
        assert!(!bench.repo.join("new.txt").exists(), "{configured}");
        let config = bench.engine.configurations().at(bench.repo.path()).await;
        let agents = config.agents().all().iter();
        for agent in agents.filter(|agent| agent.name != "build" && agent.name != "general") {
            let verdict = agent.policy.decide(&[], "edit", &["src/a.rs".to_owned()]);
            assert_eq!(verdict, Action::Deny, "{} with {configured}", agent.name);
        }
    }
}
