//! Forks of sessions that are at work: the copy says what was still going on, and goes on by itself.

use everturn_engine::{Prompt, SessionUpdate};
use everturn_model::Event;
use everturn_model::part::PartKind;
use everturn_model::tool::ToolState;
use everturn_testkit::within;

use crate::bench::Bench;

#[tokio::test]
async fn a_fork_of_an_answer_that_is_being_written_ends_with_what_was_saved() {
    // Of the answer it said nothing at all, and it stayed open for good.
    let mut bench = Bench::new().await;
    let source = bench.session.id.clone();
    bench.engine.inbox().admit(&source, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench.streamed("two ").await;
    within("the text to be saved", async {
        let quiet = bench.beside_quietly().await;
        while !quiet.sessions().conversation(&source, None).await.unwrap().nodes.iter().any(|node| {
            node.parts
                .iter()
                .any(|part| matches!(&part.kind, PartKind::Text { text, .. } if text == "one two "))
        }) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let fork = bench.engine.sessions().fork(&source, None).await.unwrap();
    assert_eq!(
        bench.transcript_of(&fork.id).await,
        ["user: HOLD:x SAY:one two three", "assistant: one two  !cut off"]
    );
    bench.engine.drains().abort(&source).await.unwrap();
}

#[tokio::test]
async fn a_fork_of_a_call_that_waits_says_that_it_runs_elsewhere() {
    // It said that the process had ended.
    let mut bench = Bench::new().await;
    let source = bench.session.id.clone();
    bench.engine.inbox().admit(&source, Prompt::text("TOOL:read:/etc/hosts")).await.unwrap();
    bench
        .notice(|update| match update {
            SessionUpdate::Committed(committed) => {
                matches!(committed.record.event, Event::RequestAsked { .. }).then_some(())
            }
            _ => None,
        })
        .await;
    let fork = bench.engine.sessions().fork(&source, None).await.unwrap();
    assert!(!fork.open, "nobody works on it");
    let nodes = bench.engine.sessions().conversation(&fork.id, None).await.unwrap().nodes;
    let states = nodes.iter().flat_map(|node| &node.parts).filter_map(|part| match &part.kind {
        PartKind::Tool { state: ToolState::Error { result, .. }, .. } => Some(result.output.as_str()),
        PartKind::Tool { state, .. } => Some(state.status()),
        _ => None,
    });
    let states: Vec<_> = states.collect();
    assert_eq!(states, ["This call was still running in the session that this one was copied from."]);
    bench.engine.inbox().admit(&fork.id, Prompt::text("SAY:goes on")).await.unwrap();
    within("the fork to settle", bench.engine.drains().settled(&fork.id)).await;
    assert_eq!(bench.transcript_of(&fork.id).await.last().unwrap(), "assistant: goes on");
    bench.engine.drains().abort(&source).await.unwrap();
}
