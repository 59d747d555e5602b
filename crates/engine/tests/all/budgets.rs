//! Budgets: what a session, with those that work for it, or a project uses up before a person is asked, between two turns.

use everturn_engine::Prompt;
use everturn_engine::sessions::NewSession;
use everturn_model::inbox::Delivery;
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{Event, Session, SessionId};
use everturn_testkit::Repo;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission::{ask, asked};

/// A bench in which a session may take so many steps.
async fn steps(most: u64) -> Bench {
    Bench::configured(json!({"budget": {"session": {"steps": most}}})).await
}

/// A prompt after which the model makes so many calls, each in a turn of its own.
fn looking(times: usize, said: &str) -> String {
    let calls: String = (1..=times).map(|at| format!("TOOL:bash:echo {at}\n")).collect();
    format!("{calls}SAY:{said}")
}

/// What is asked about a budget.
fn about(request: &Request, subject: &str, note: &str) {
    let Ask::Permission { permission, patterns, always, metadata } = &request.ask else {
        panic!("{request:?}")
    };
    let subjects = vec![subject.to_owned()];
    assert_eq!((permission.as_str(), patterns, always), ("budget", &subjects, &subjects));
    assert_eq!(metadata["note"], note);
    assert_eq!(request.call, None);
}

async fn reply(bench: &Bench, request: &Request, reply: Reply) {
    bench.engine.requests().reply(&request.id, reply, None).await.unwrap();
}

async fn session(bench: &Bench) -> Session {
    bench.engine.sessions().get(&bench.session.id).await.unwrap()
}

async fn last(bench: &Bench) -> String {
    bench.transcript().await.pop().unwrap()
}

async fn waiting(bench: &Bench) -> Vec<(SessionId, Request)> {
    bench.engine.requests().waiting().await.unwrap()
}

#[tokio::test]
async fn steps_that_are_used_up_are_asked_for_before_the_next_turn() {
    let mut bench = steps(2).await;
    let first = ask(&mut bench, &looking(4, "done")).await;
    let note = "The budget of the session is used up: 2 of 2 (steps). Shall it go on with 2 more?";
    about(&first, "session steps", note);
    assert_eq!(last(&bench).await, "result: Completed 2");
    reply(&bench, &first, Reply::Once).await;
    let second = asked(&mut bench).await;
    let note = "The budget of the session is used up: 4 of 4 (steps). Shall it go on with 2 more?";
    about(&second, "session steps", note);
    assert_eq!(last(&bench).await, "result: Completed 4");
    reply(&bench, &second, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
    assert_eq!(session(&bench).await.steps, 5);
}

#[tokio::test]
async fn a_turn_is_never_cut_short_by_a_budget() {
    let mut bench = steps(1).await;
    let calls = "TOGETHER:3\nTOOL:bash:echo 1\nTOOL:bash:echo 2\nTOOL:bash:echo 3\nSAY:done";
    let request = ask(&mut bench, calls).await;
    let said = bench.transcript().await;
    assert_eq!(said.iter().filter(|line| line.starts_with("result: Completed")).count(), 3, "{said:?}");
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn what_is_granted_for_good_holds_in_this_session_alone() {
    let mut bench = steps(1).await;
    let request = ask(&mut bench, &looking(5, "done")).await;
    reply(&bench, &request, Reply::Always).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
    bench.restart().await;
    bench.say(&looking(3, "again")).await;
    assert_eq!(last(&bench).await, "assistant: again");
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.engine.inbox().admit(&other.id, Prompt::text(&looking(2, "done"))).await.unwrap();
    let request = asked(&mut bench).await;
    assert_eq!(waiting(&bench).await, [(other.id.clone(), request)]);
    bench.engine.drains().abort(&other.id).await.unwrap();
}

#[tokio::test]
async fn a_budget_that_is_not_extended_leaves_the_session_at_rest() {
    let mut bench = steps(1).await;
    let request = ask(&mut bench, &looking(2, "said at last")).await;
    let queued = Prompt { delivery: Delivery::Queue, ..Prompt::text("SAY:later") };
    bench.engine.inbox().admit(&bench.session.id, queued).await.unwrap();
    reply(&bench, &request, Reply::Reject).await;
    bench.settled().await;
    let now = session(&bench).await;
    assert_eq!((now.open, now.parked, now.waiting), (true, true, 1));
    let reason = "The budget of the session is used up: 1 of 1 (steps).";
    assert_eq!(now.parked_reason.unwrap().text(), reason);
    bench.restart().await;
    bench.settled().await;
    assert_eq!((last(&bench).await.as_str(), waiting(&bench).await), ("result: Completed 1", Vec::new()));
    // Whoever wants more says so, and is asked. Then everything is done that was left.
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    let request = asked(&mut bench).await;
    reply(&bench, &request, Reply::Always).await;
    bench.settled().await;
    let said = bench.transcript().await;
    assert!(said.iter().any(|line| line == "assistant: said at last"), "{said:?}");
    assert_eq!(last(&bench).await, "assistant: later");
}

#[tokio::test]
async fn what_is_asked_about_a_budget_survives_a_restart() {
    let mut bench = steps(1).await;
    let request = ask(&mut bench, &looking(1, "done")).await;
    for _ in 0..2 {
        bench.restart().await;
        assert_eq!(waiting(&bench).await, [(bench.session.id.clone(), request.clone())]);
    }
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let asked = log.iter().filter(|record| matches!(record.event, Event::RequestAsked { .. }));
    assert_eq!(asked.count(), 1, "it is asked once");
}

#[tokio::test]
async fn a_budget_that_was_extended_while_nobody_ran_is_there_after_the_restart() {
    let mut bench = steps(1).await;
    let request = ask(&mut bench, &looking(1, "done")).await;
    let other = bench.beside().await;
    bench.engine.close().await;
    other.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    other.close().await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn an_interrupt_withdraws_what_is_asked_about_a_budget() {
    let mut bench = steps(1).await;
    ask(&mut bench, &looking(1, "never said")).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(waiting(&bench).await, []);
    let now = session(&bench).await;
    assert_eq!((now.open, now.held), (false, false));
    assert_eq!(last(&bench).await, "result: Completed 1");
}

#[tokio::test]
async fn tokens_and_money_have_budgets_too() {
    let check = async |budget: Value, subject: &str, note: &str| {
        let mut bench = Bench::at(|url| {
            let mut config = everturn_testkit::opencode_config(url);
            let model = &mut config["provider"]["fake"]["models"]["fake-1"];
            model["cost"] = json!({"input": 2, "output": 10});
            json!({"provider": config["provider"], "budget": {"session": budget}})
        })
        .await;
        // Each turn has 1,100 tokens for 0.003 dollars.
        let request = ask(&mut bench, &format!("USAGE:1000,0,100,0\n{}", looking(4, "done"))).await;
        about(&request, subject, note);
        assert_eq!(last(&bench).await, "result: Completed 2");
        reply(&bench, &request, Reply::Always).await;
        bench.settled().await;
        assert_eq!(last(&bench).await, "assistant: done");
    };
    let note = "The budget of the session is used up: 2200 of 2000 (tokens). Shall it go on with 2000 more?";
    check(json!({"tokens": 2000}), "session tokens", note).await;
    let note =
        "The budget of the session is used up: $0.0060 of $0.0050 (cost). Shall it go on with $0.0050 more?";
    check(json!({"cost": 0.005}), "session cost", note).await;
}

#[tokio::test]
async fn what_works_for_a_session_uses_up_its_budget() {
    let mut bench = steps(3).await;
    let prompt = looking(4, "found").replace('\n', "\\n");
    let task = format!(
        "JSONTOOL:task:{{\"description\": \"sub work\", \"prompt\": \"{prompt}\", \"subagent_type\": \"general\"}}\nSAY:done"
    );
    let request = ask(&mut bench, &task).await;
    let children = bench.engine.sessions().children(&bench.session.id).await.unwrap();
    // The task had one turn of the session's, and two of its own.
    assert_eq!(children.len(), 1);
    assert_eq!(waiting(&bench).await, [(children[0].id.clone(), request.clone())]);
    let note = "The budget of the session is used up: 3 of 3 (steps). Shall it go on with 3 more?";
    about(&request, "session steps", note);
    reply(&bench, &request, Reply::Once).await;
    // What was granted to it was granted to the whole: it ends, and the session goes on until that is used up, too.
    let request = asked(&mut bench).await;
    assert_eq!(waiting(&bench).await, [(bench.session.id.clone(), request.clone())]);
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn a_project_has_a_budget_of_its_own() {
    let mut bench = Bench::configured(json!({"budget": {"project": {"steps": 2}}})).await;
    bench.say(&looking(1, "done")).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.engine.inbox().admit(&other.id, Prompt::text("SAY:here")).await.unwrap();
    let request = asked(&mut bench).await;
    let note = "The budget of the project is used up: 2 of 2 (steps). Shall it go on with 2 more?";
    about(&request, "project steps", note);
    // Another project is not concerned.
    let elsewhere = Repo::new(&[("b.txt", "elsewhere\n")]);
    let location = bench.engine.projects().location(elsewhere.path().to_str()).await.unwrap();
    let first = bench.session.clone();
    bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.say("SAY:free").await;
    assert_eq!(last(&bench).await, "assistant: free");
    // Nor is what was granted to one session granted to the others.
    reply(&bench, &request, Reply::Once).await;
    bench.session = other;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: here");
    bench.session = first;
    ask(&mut bench, "SAY:never said").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}

#[tokio::test]
async fn what_is_in_the_trash_has_used_up_the_budget_of_its_project() {
    // The one is added up session by session, the other by the store.
    for (measure, note) in [("steps", "2 of 2 (steps)"), ("tokens", "2200 of 2 (tokens)")] {
        let mut bench = Bench::configured(json!({"budget": {"project": {measure: 2}}})).await;
        let spend = format!("USAGE:1000,0,100,0\n{}", looking(1, "done"));
        match measure {
            "steps" => drop(bench.say(&spend).await),
            _ => {
                let request = ask(&mut bench, &spend).await;
                reply(&bench, &request, Reply::Once).await;
                bench.settled().await;
            }
        }
        bench.engine.sessions().trash(&bench.session.id).await.unwrap();
        let location = bench.engine.projects().location(None).await.unwrap();
        bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
        let request = ask(&mut bench, "SAY:here").await;
        let note = format!("The budget of the project is used up: {note}. Shall it go on with 2 more?");
        about(&request, &format!("project {measure}"), &note);
        bench.engine.drains().abort(&bench.session.id).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_granted_of_one_budget_is_granted_of_no_other() {
    let budgets = json!({"budget": {"session": {"steps": 1}, "project": {"steps": 1}}});
    let mut bench = Bench::configured(budgets).await;
    let request = ask(&mut bench, &looking(2, "done")).await;
    let used_up = |whose, used| {
        format!("The budget of the {whose} is used up: {used} of {used} (steps). Shall it go on with 1 more?")
    };
    about(&request, "session steps", &used_up("session", 1));
    reply(&bench, &request, Reply::Once).await;
    let request = asked(&mut bench).await;
    about(&request, "project steps", &used_up("project", 1));
    reply(&bench, &request, Reply::Always).await;
    let request = asked(&mut bench).await;
    about(&request, "session steps", &used_up("session", 2));
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn outside_of_repositories_each_folder_has_the_budget_of_a_project() {
    let mut bench = Bench::configured(json!({"budget": {"project": {"steps": 1}}})).await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for folder in &folders {
        let location = bench.engine.projects().location(folder.path().to_str()).await.unwrap();
        bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
        bench.say("SAY:free").await;
        assert_eq!(last(&bench).await, "assistant: free");
    }
    let location = bench.engine.projects().location(folders[0].path().to_str()).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let request = ask(&mut bench, "SAY:never said").await;
    let note = "The budget of the project is used up: 1 of 1 (steps). Shall it go on with 1 more?";
    about(&request, "project steps", note);
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}

#[tokio::test]
async fn once_more_is_as_much_as_the_question_says_however_far_the_last_turn_went() {
    // After 39 of 1 dollars it took 39 answers before the next turn.
    let mut bench = Bench::at(|url| {
        let mut config = everturn_testkit::opencode_config(url);
        config["provider"]["fake"]["models"]["fake-1"]["cost"] = json!({"input": 390_000, "output": 0});
        json!({"provider": config["provider"], "budget": {"session": {"cost": 1}}})
    })
    .await;
    let mut request = ask(&mut bench, &format!("USAGE:100,0,1,0\n{}", looking(2, "done"))).await;
    for used in ["$39.0000 of $1.0000", "$78.0000 of $40.0000"] {
        let note =
            format!("The budget of the session is used up: {used} (cost). Shall it go on with $1.0000 more?");
        about(&request, "session cost", &note);
        reply(&bench, &request, Reply::Once).await;
        if used.starts_with("$39") {
            request = asked(&mut bench).await;
        }
    }
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn a_new_prompt_goes_on_after_a_budget_was_not_extended() {
    for (whose, steps) in [("session", "session steps"), ("project", "project steps")] {
        let mut bench = Bench::configured(json!({"budget": {whose: {"steps": 1}}})).await;
        let request = ask(&mut bench, &looking(1, "said at last")).await;
        reply(&bench, &request, Reply::Reject).await;
        bench.settled().await;
        let now = session(&bench).await;
        assert_eq!((now.open, now.parked, now.held), (true, true, false));
        let reason = format!("The budget of the {whose} is used up: 1 of 1 (steps).");
        assert_eq!(now.parked_reason.unwrap().text(), reason);
        let request = ask(&mut bench, "SAY:and more").await;
        let note = format!("{reason} Shall it go on with 1 more?");
        about(&request, steps, &note);
        assert!(!session(&bench).await.parked);
        reply(&bench, &request, Reply::Always).await;
        bench.settled().await;
        assert_eq!(last(&bench).await, "assistant: and more");
        assert_eq!(session(&bench).await.parked_reason, None);
    }
}

#[tokio::test]
async fn an_interrupt_withdraws_what_is_asked_before_the_first_turn() {
    let mut bench = Bench::configured(json!({"budget": {"project": {"steps": 1}}})).await;
    bench.say("SAY:done").await;
    let location = bench.engine.projects().location(None).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    ask(&mut bench, "SAY:later").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
    assert_eq!((waiting(&bench).await, bench.transcript().await), (Vec::new(), Vec::new()));
    let now = session(&bench).await;
    assert_eq!((now.open, now.held, now.parked, now.waiting), (false, true, false, 1));
    // The prompt waits, and whoever lets it go on is asked again.
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    let request = asked(&mut bench).await;
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: later");
}

#[tokio::test]
async fn a_project_lowers_budgets_and_raises_none() {
    let check = async |own: Value, brought: u64, steps: usize| {
        let brought = json!({"budget": {"session": {"steps": brought}}}).to_string();
        let person = json!({"budget": {"session": own}});
        let mut bench = Bench::found(person, &[("opencode.json", &brought)]).await;
        ask(&mut bench, &looking(6, "never said")).await;
        assert_eq!(last(&bench).await, format!("result: Completed {steps}"));
        bench.engine.drains().abort(&bench.session.id).await.unwrap();
    };
    check(json!({"steps": 5}), 2, 2).await;
    check(json!({"steps": 2}), 5, 2).await;
    check(json!({}), 3, 3).await;
}

#[tokio::test]
async fn a_budget_that_is_raised_meanwhile_is_not_asked_about_any_more() {
    let mut bench = Bench::found(json!({"budget": {"session": {"steps": 1}}}), &[]).await;
    ask(&mut bench, &looking(1, "done")).await;
    let file = bench.data().join("own.json");
    let mut own: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    own["budget"]["session"]["steps"] = json!(10);
    std::fs::write(&file, own.to_string()).unwrap();
    bench.restart().await;
    bench.settled().await;
    assert_eq!((last(&bench).await.as_str(), waiting(&bench).await), ("assistant: done", Vec::new()));
}

#[tokio::test]
async fn no_rule_decides_about_a_budget_and_no_approval() {
    let rules = json!({"*": "allow", "budget": "allow", "external_directory": "ask"});
    let config = json!({"permission": rules, "budget": {"session": {"steps": 1}}});
    let mut bench = Bench::configured(config).await;
    let request = ask(&mut bench, &looking(1, "done")).await;
    let waits = [(bench.session.id.clone(), request.clone())];
    assert_eq!(waiting(&bench).await, waits);
    // What somebody approves for good in another session releases it as little, be it a budget or not.
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let prompt = Prompt::text("TOOL:read:/etc/hostname\nSAY:ok");
    bench.engine.inbox().admit(&other.id, prompt).await.unwrap();
    for _ in 0..2 {
        let second = asked(&mut bench).await;
        reply(&bench, &second, Reply::Always).await;
        assert!(waiting(&bench).await.contains(&waits[0]));
    }
    assert_eq!(waiting(&bench).await, waits);
    reply(&bench, &request, Reply::Once).await;
    bench.settled().await;
    assert_eq!(last(&bench).await, "assistant: done");
}

#[tokio::test]
async fn what_a_provider_never_counts_uses_up_budgets_too() {
    let check = async |budget: Value, subject: &str| {
        let mut bench = Bench::at(|url| {
            let mut config = everturn_testkit::opencode_config(url);
            config["provider"]["fake"]["models"]["fake-1"]["cost"] = json!({"input": 2, "output": 10});
            json!({"provider": config["provider"], "budget": {"session": budget}})
        })
        .await;
        let request = ask(&mut bench, &format!("USAGE:0,0,0,0\n{}", looking(2, "never said"))).await;
        let Ask::Permission { patterns, .. } = &request.ask else { panic!("{request:?}") };
        assert_eq!(patterns, &[subject.to_owned()]);
        assert_eq!(last(&bench).await, "result: Completed 1");
        bench.engine.drains().abort(&bench.session.id).await.unwrap();
    };
    check(json!({"tokens": 100}), "session tokens").await;
    check(json!({"cost": 0.0001}), "session cost").await;
}
