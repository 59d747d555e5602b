//! Questions to the person: asked by a call, answered by anybody, kept across restarts.

use everturn_engine::Error;
use everturn_model::request::{Ask, Reply, Request};
use serde_json::json;

use crate::bench::Bench;
use crate::permission::{ask, asked, offered};

/// A prompt that makes the model ask one question, then say `after`.
pub(crate) fn prompt(after: &str) -> String {
    let option = |label: &str| json!({"label": label, "description": "a colour"});
    let question = json!({"question": "Which colour?", "header": "Colour", "options": [option("red"), option("blue")], "custom": false});
    format!("JSONTOOL:question:{}\nSAY:{after}", json!({"questions": [question]}))
}

const ANSWERED: &str = "result: Completed The person answered:\n\"Which colour?\"=\"blue, or green\"";

fn chosen() -> Vec<Vec<String>> {
    vec![vec!["blue".to_owned(), "or green".to_owned()]]
}

#[tokio::test]
async fn an_answer_goes_to_the_model() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &prompt("thanks")).await;
    assert!(request.id.as_str().starts_with("que_"), "{request:?}");
    let Ask::Question { questions } = &request.ask else { panic!("{request:?}") };
    assert_eq!(questions[0]["header"], "Colour");
    // It was dropped, and clients offered a field for words that were not wanted.
    assert_eq!(questions[0]["custom"], false);
    let few = bench.engine.requests().answer(&request.id, Vec::new()).await;
    assert!(matches!(few, Err(Error::Invalid(_))), "{few:?}");
    let permission = bench.engine.requests().reply(&request.id, Reply::Once, None).await;
    assert!(matches!(permission, Err(Error::NoRequest(_))), "{permission:?}");
    bench.engine.requests().answer(&request.id, chosen()).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await[2..], [ANSWERED, "assistant: thanks"]);
    let twice = bench.engine.requests().answer(&request.id, chosen()).await;
    assert!(matches!(twice, Err(Error::NoRequest(_))), "{twice:?}");
}

#[tokio::test]
async fn a_dismissed_question_ends_the_work() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &prompt("never said")).await;
    bench.engine.requests().dismiss(&request.id).await.unwrap();
    bench.settled().await;
    assert_eq!(
        bench.transcript().await[1..],
        ["assistant: (question)", "result: Error The person dismissed the question without an answer."]
    );
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn who_may_not_ask_is_not_offered_to_and_a_call_all_the_same_is_refused() {
    let bench = Bench::configured(json!({"permission": {"question": "deny"}})).await;
    bench.say(&prompt("went on")).await;
    assert!(!offered(&bench).contains(&"question".to_owned()));
    let said = bench.transcript().await;
    assert!(said[2].starts_with("result: Error"), "{said:?}");
    assert_eq!(
        (said[3].as_str(), bench.engine.requests().waiting().await.unwrap()),
        ("assistant: went on", Vec::new())
    );
}

#[tokio::test]
async fn a_permission_that_is_rejected_dismisses_the_question_beside_it() {
    let mut bench = Bench::new().await;
    let both = format!("TOGETHER:2\nTOOL:read:/etc/hosts\n{}", prompt("understood"));
    let mut requests = [ask(&mut bench, &both).await, asked(&mut bench).await];
    requests.sort_by(|one, other| one.id.cmp(&other.id));
    let words = Some("neither".to_owned());
    bench.engine.requests().reply(&requests[0].id, Reply::Reject, words).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
    let said = bench.transcript().await;
    let told = said.iter().filter(|line| line.starts_with("result: Error") && line.ends_with("neither"));
    assert_eq!(told.count(), 2, "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: understood");
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &prompt("never said")).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
    assert_eq!(bench.transcript().await[2], "result: Error Tool execution aborted");
    assert!(bench.engine.requests().answer(&request.id, chosen()).await.is_err());
}

async fn waits(bench: &Bench, request: &Request) {
    assert_eq!(
        bench.engine.requests().waiting().await.unwrap(),
        [(bench.session.id.clone(), request.clone())]
    );
}

#[tokio::test]
async fn a_question_survives_under_its_id() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &prompt("thanks")).await;
    for _ in 0..2 {
        bench.restart().await;
        waits(&bench, &request).await;
    }
    bench.engine.requests().answer(&request.id, chosen()).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await[2..], [ANSWERED, "assistant: thanks"]);
}

#[tokio::test]
async fn a_question_behind_a_permission_survives_without_asking_for_that_again() {
    let mut bench = Bench::configured(json!({"permission": {"question": "ask"}})).await;
    let permission = ask(&mut bench, &prompt("thanks")).await;
    bench.engine.requests().reply(&permission.id, Reply::Once, None).await.unwrap();
    let request = asked(&mut bench).await;
    bench.restart().await;
    waits(&bench, &request).await;
    bench.engine.requests().answer(&request.id, chosen()).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await[2..], [ANSWERED, "assistant: thanks"]);
}

#[tokio::test]
async fn an_answer_that_came_while_nobody_ran_is_found() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, &prompt("thanks")).await;
    let other = bench.beside().await;
    bench.engine.close().await;
    other.requests().answer(&request.id, chosen()).await.unwrap();
    other.close().await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!(bench.transcript().await[2..], [ANSWERED, "assistant: thanks"]);
}
