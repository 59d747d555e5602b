//! The inbox: from an accepted prompt to a part of the conversation.

use everturn_engine::Prompt;
use everturn_model::entry::Body;
use everturn_model::inbox::Delivery;
use everturn_model::{EntryId, Event};

use super::sent;
use crate::bench::Bench;

fn queued(text: &str) -> Prompt {
    Prompt { delivery: Delivery::Queue, ..Prompt::text(text) }
}

async fn admit(bench: &Bench, prompt: Prompt) -> EntryId {
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap().id
}

/// What the users and the answers said, oldest first.
async fn said(bench: &Bench) -> Vec<String> {
    bench.transcript().await
}

#[tokio::test]
async fn an_admitted_prompt_is_pending_input_and_not_yet_history() {
    let bench = Bench::new().await;
    admit(&bench, Prompt { resume: false, ..Prompt::text("SAY:one") }).await;
    let tree = bench.engine.sessions().tree(&bench.session.id).await.unwrap();
    assert_eq!((tree.inbox.len(), tree.nodes().len()), (1, 0));
    assert_eq!(bench.model.prompts().len(), 0);
}

#[tokio::test]
async fn an_admitted_prompt_is_replayed_after_a_restart() {
    let mut bench = Bench::new().await;
    admit(&bench, Prompt { resume: false, ..Prompt::text("SAY:one") }).await;
    bench.restart().await;
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    bench.settled().await;
    assert_eq!(said(&bench).await, ["user: SAY:one", "assistant: one"]);
}

#[tokio::test]
async fn promotion_takes_the_prompt_from_the_inbox_and_appends_its_message_in_one_event() {
    let bench = Bench::new().await;
    let id = admit(&bench, Prompt::text("SAY:one")).await;
    bench.settled().await;
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let promoted = log
        .iter()
        .filter(|record| matches!(&record.event, Event::PromptPromoted { id: own, .. } if *own == id));
    assert_eq!(promoted.count(), 1);
    let tree = bench.engine.sessions().tree(&bench.session.id).await.unwrap();
    assert!(tree.inbox.is_empty() && matches!(tree.node(&id).unwrap().entry.body, Body::User(_)));
}

#[tokio::test]
async fn steers_promote_at_the_next_boundary_while_the_drain_goes_on() {
    let bench = Bench::new().await;
    admit(&bench, Prompt::text("HOLD:x\nTOOL:bash:true\nSAY:first")).await;
    bench.model.held("x").await;
    admit(&bench, Prompt::text("SAY:steered")).await;
    bench.model.release("x");
    bench.settled().await;
    let said = said(&bench).await;
    let kinds: Vec<&str> = said.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(kinds, ["user", "assistant", "result", "user", "assistant"]);
    assert_eq!(said[4], "assistant: steered");
}

#[tokio::test]
async fn several_steers_promote_together_in_the_order_of_their_admission() {
    let bench = Bench::new().await;
    admit(&bench, Prompt::text("HOLD:x SAY:first")).await;
    bench.model.held("x").await;
    for text in ["SAY:a", "SAY:b", "SAY:c"] {
        admit(&bench, Prompt::text(text)).await;
    }
    bench.model.release("x");
    bench.settled().await;
    assert_eq!(said(&bench).await[2..], ["user: SAY:a", "user: SAY:b", "user: SAY:c", "assistant: c"]);
}

#[tokio::test]
async fn a_queued_prompt_does_not_promote_while_the_drain_requires_continuation() {
    let bench = Bench::new().await;
    admit(&bench, Prompt::text("HOLD:x\nTOOL:bash:true\nSAY:first")).await;
    bench.model.held("x").await;
    admit(&bench, queued("SAY:queued")).await;
    bench.model.release("x");
    bench.settled().await;
    let said = said(&bench).await;
    assert_eq!(said[3..], ["assistant: first", "user: SAY:queued", "assistant: queued"]);
}

#[tokio::test]
async fn queued_prompts_promote_one_at_a_time_and_steers_go_before_the_next() {
    let bench = Bench::new().await;
    admit(&bench, Prompt::text("HOLD:x SAY:first")).await;
    bench.model.held("x").await;
    admit(&bench, queued("HOLD:y SAY:one")).await;
    admit(&bench, queued("SAY:two")).await;
    bench.model.release("x");
    bench.model.held("y").await;
    admit(&bench, Prompt::text("SAY:steer")).await;
    bench.model.release("y");
    bench.settled().await;
    let expected = [
        "user: HOLD:y SAY:one",
        "assistant: one",
        "user: SAY:steer",
        "assistant: steer",
        "user: SAY:two",
        "assistant: two",
    ];
    assert_eq!(said(&bench).await[2..], expected);
}

#[tokio::test]
async fn a_drain_leaves_no_trace_of_its_own_in_the_log() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let names: Vec<&str> = log.iter().map(|record| record.event.name()).collect();
    assert!(names.iter().all(|name| !name.contains("drain") && !name.contains("execution")), "{names:?}");
}

#[tokio::test]
async fn omitting_resume_wakes_the_session_and_resume_false_only_admits() {
    let bench = Bench::new().await;
    admit(&bench, Prompt { resume: false, ..Prompt::text("SAY:later") }).await;
    bench.settled().await;
    assert_eq!(bench.model.prompts().len(), 0);
    admit(&bench, Prompt::text("SAY:now")).await;
    bench.settled().await;
    assert_eq!(said(&bench).await, ["user: SAY:later", "user: SAY:now", "assistant: now"]);
}

#[tokio::test]
async fn interrupting_an_idle_session_does_nothing() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let before = said(&bench).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(said(&bench).await, before);
    bench.say("SAY:two").await;
    assert_eq!(said(&bench).await.last().unwrap(), "assistant: two");
}

#[tokio::test]
async fn the_model_sees_a_prompt_only_after_its_promotion() {
    let bench = Bench::new().await;
    admit(&bench, Prompt::text("HOLD:x SAY:first")).await;
    bench.model.held("x").await;
    admit(&bench, queued("SAY:queued")).await;
    assert!(sent(&bench).iter().all(|message| !message.contains("queued")));
    bench.model.release("x");
    bench.settled().await;
    assert!(sent(&bench).iter().any(|message| message.contains("queued")));
}
