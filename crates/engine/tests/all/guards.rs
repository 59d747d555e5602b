//! Guards: a model that makes the same calls again and again is stopped by a rule or by a person.

use everturn_engine::{Error, Prompt};
use everturn_model::request::{Ask, Reply, Request};
use serde_json::json;

use crate::bench::Bench;
use crate::permission::{ask, asked};

/// A prompt after which the model makes these calls, each in an answer of its own.
fn calling(calls: &[&str], said: &str) -> String {
    format!("{}\nSAY:{said}", calls.join("\n"))
}

const LOOK: &str = "TOOL:read:a.txt";
const LIST: &str = "TOOL:bash:ls";

/// What is asked for a tool that was called so often.
fn about(request: &Request, tool: &str) {
    let Ask::Permission { permission, patterns, always, metadata } = &request.ask else {
        panic!("{request:?}")
    };
    let tools = vec![tool.to_owned()];
    assert_eq!((permission.as_str(), patterns, always), ("doom_loop", &tools, &tools));
    assert_eq!(metadata["tool"], tool);
}

/// How many calls have a result.
async fn results(bench: &Bench) -> usize {
    bench.transcript().await.iter().filter(|line| line.starts_with("result:")).count()
}

#[tokio::test]
async fn the_third_time_the_same_call_is_asked_for_although_each_is_in_an_answer_of_its_own() {
    let mut bench = Bench::new().await;
    let first = ask(&mut bench, &calling(&[LOOK; 7], "done")).await;
    about(&first, "read");
    assert_eq!(results(&bench).await, 2);
    // From what was allowed they are counted anew.
    bench.engine.requests().reply(&first.id, Reply::Once, None).await.unwrap();
    let second = asked(&mut bench).await;
    about(&second, "read");
    assert_eq!(results(&bench).await, 5);
    bench.engine.requests().reply(&second.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    assert_eq!(results(&bench).await, 7);
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: done");
    let late = bench.engine.requests().reply(&second.id, Reply::Once, None).await;
    assert!(matches!(late, Err(Error::NoRequest(_))), "{late:?}");
}

#[tokio::test]
async fn calls_that_are_repeated_in_turn_are_asked_for() {
    let check = async |calls: &[&str], results_before: Option<usize>, tool: &str| {
        let mut bench = Bench::new().await;
        let request = ask(&mut bench, &calling(calls, "never said")).await;
        about(&request, tool);
        if let Some(before) = results_before {
            assert_eq!(results(&bench).await, before);
        }
        bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
        bench.settled().await;
        assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
    };
    check(&[LOOK, LIST].repeat(5), Some(5), "bash").await;
    let other = "JSONTOOL:read:{\"limit\": 1, \"filePath\": \"a.txt\"}";
    check(&["TOOL:bash:pwd", LIST, other].repeat(4), Some(8), "read").await;
    // The order of the fields is no difference, and within one answer it is the same.
    let same = "JSONTOOL:read:{\"filePath\": \"a.txt\", \"limit\": 1}";
    check(&["TOGETHER:3", other, same, other], None, "read").await;
}

#[tokio::test]
async fn what_fails_before_it_begins_is_a_loop_too() {
    // It was refused for ever: there is no such tool, the file is missing, a rule is against it.
    let check = async |call: &str, tool: &str| {
        let mut bench = Bench::configured(json!({"permission": {"bash": {"rm *": "deny"}}})).await;
        about(&ask(&mut bench, &calling(&[call; 40], "never said")).await, tool);
        bench.engine.drains().abort(&bench.session.id).await.unwrap();
    };
    check("JSONTOOL:no_such_tool:{}", "no_such_tool").await;
    check("TOOL:read:missing.txt", "read").await;
    check("TOOL:bash:rm a.txt", "bash").await;
}

#[tokio::test]
async fn a_prompt_begins_anew() {
    let bench = Bench::new().await;
    for _ in 0..3 {
        bench.say(&calling(&[LOOK; 2], "done")).await;
    }
    assert_eq!(results(&bench).await, 6);
}

#[tokio::test]
async fn a_loop_that_was_rejected_with_words_is_asked_for_each_time() {
    let mut bench = Bench::new().await;
    let mut request = ask(&mut bench, &calling(&[LOOK; 4], "understood")).await;
    bench.engine.requests().reply(&request.id, Reply::Reject, Some("look elsewhere".into())).await.unwrap();
    request = asked(&mut bench).await;
    about(&request, "read");
    bench.engine.requests().reply(&request.id, Reply::Reject, Some("really".into())).await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert!(said[6].ends_with("They said: look elsewhere"), "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: understood");
}

#[tokio::test]
async fn a_loop_that_was_allowed_for_good_is_not_asked_for_again() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &calling(&[LOOK; 12], "done")).await;
    bench.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
    bench.settled().await;
    assert_eq!(results(&bench).await, 12);
    // Another tool is another question.
    about(&ask(&mut bench, &calling(&[LIST; 3], "done")).await, "bash");
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}

#[tokio::test]
async fn a_rule_allows_loops() {
    let bench = Bench::configured(json!({"permission": {"doom_loop": "allow"}})).await;
    bench.say(&calling(&[LOOK; 12], "done")).await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: done");
}

#[tokio::test]
async fn a_rule_refuses_loops_and_ends_the_work_of_a_model_that_does_not_listen() {
    // A model that sends the same call for ever went on for ever, with nobody there to ask.
    let bench = Bench::configured(json!({"permission": {"doom_loop": "deny"}})).await;
    bench.say(&calling(&["TOOL:bash:echo x >> ledger"; 40], "never said")).await;
    assert_eq!(bench.repo.read("ledger"), "x\nx\n");
    let said = bench.transcript().await;
    let refused: Vec<&String> = said.iter().filter(|line| line.starts_with("result: Error")).collect();
    assert_eq!(refused.len(), 3, "{said:?}");
    assert!(refused[0].contains("so it was not run again"), "{refused:?}");
    assert_eq!(
        *refused[2],
        "result: Error The model has made this call three times with the same input. A rule is against that (doom_loop \
         bash), so the work ends here."
    );
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
    // The next prompt is answered.
    bench.say("SAY:here").await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: here");
}

#[tokio::test]
async fn a_rule_refuses_loops_and_lets_a_model_go_on_that_listens() {
    let bench = Bench::configured(json!({"permission": {"doom_loop": "deny"}})).await;
    bench.say(&calling(&[LOOK, LOOK, LOOK, LIST, LOOK], "done")).await;
    let said = bench.transcript().await;
    assert_eq!(said.iter().filter(|line| line.starts_with("result: Error")).count(), 1, "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: done");
}

#[tokio::test]
async fn a_loop_waits_over_a_restart_and_no_call_of_it_runs_twice() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &calling(&["TOOL:bash:echo x >> ledger"; 4], "done")).await;
    for _ in 0..2 {
        bench.restart().await;
        let waiting = bench.engine.requests().waiting().await.unwrap();
        assert_eq!(waiting, [(bench.session.id.clone(), request.clone())]);
    }
    assert_eq!(bench.repo.read("ledger"), "x\nx\n");
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.repo.read("ledger"), "x\nx\nx\nx\n");
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: done");
}

#[tokio::test]
async fn a_call_of_a_loop_that_was_allowed_and_cut_off_is_not_run_again() {
    // Only calls that ask for something else say that they begin: this one was taken for one that had not.
    let mut bench = Bench::new().await;
    let command = "TOOL:bash:echo x >> ledger; grep -c x ledger | grep 3 && tail -f ledger";
    let request = ask(&mut bench, &calling(&[command; 3], "done")).await;
    about(&request, "bash");
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    let ledger = bench.repo.join("ledger");
    let written = async || {
        while std::fs::read_to_string(&ledger).unwrap().lines().count() < 3 {
            tokio::task::yield_now().await;
        }
    };
    everturn_testkit::within("the third call", written()).await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!(bench.repo.read("ledger"), "x\nx\nx\n");
    let said = bench.transcript().await;
    assert!(said[6].starts_with("result: Unknown"), "{said:?}");
}

#[tokio::test]
async fn a_loop_that_a_person_stops_can_be_gone_on_from() {
    let mut bench = Bench::new().await;
    ask(&mut bench, &calling(&[LOOK; 3], "never said")).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:here")).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: here");
}
