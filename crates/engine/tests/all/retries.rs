//! Retries: what is tried again, and when, is in the log before the pause, for clients and for the next process.

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::part::PartKind;

use crate::bench::Bench;

fn retrying(update: &SessionUpdate) -> Option<(u32, String, i64)> {
    match update {
        SessionUpdate::Live(live) => match &live.signal {
            Signal::Retry { attempt, message, next } => Some((*attempt, message.clone(), *next)),
            _ => None,
        },
        _ => None,
    }
}

async fn scheduled(bench: &Bench) -> Vec<(u64, i64)> {
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let found = log.iter().filter_map(|record| match &record.event {
        Event::RetryScheduled { part, next, .. } => match &part.kind {
            PartKind::Retry { attempt, .. } => Some((*attempt, *next)),
            _ => None,
        },
        _ => None,
    });
    found.collect()
}

#[tokio::test]
async fn a_retry_is_in_the_log_before_its_pause() {
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("ERR:429x1 RETRY-AFTER:1 SAY:at last");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (attempt, message, next) = bench.notice(retrying).await;
    assert_eq!((attempt, message.as_str()), (1, "fake error"));
    assert_eq!(scheduled(&bench).await, [(1, next)]);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!(session.retry.map(|retry| (retry.attempt, retry.next)), Some((1, next)));
    bench.settled().await;
    assert_eq!(bench.transcript().await[1], "assistant: at last");
    assert_eq!(bench.engine.sessions().get(&bench.session.id).await.unwrap().retry, None);
    let parts = bench.nodes().await.pop().unwrap().parts;
    let retries = parts.iter().filter(|part| matches!(part.kind, PartKind::Retry { .. })).count();
    assert_eq!(retries, 1, "clients see it");
}

#[tokio::test]
async fn a_restart_in_the_pause_goes_on_with_the_same_step() {
    // It was forgotten: the next process closed the step and began another one at once.
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("ERR:429x1 RETRY-AFTER:3 SAY:at last");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (_, _, next) = bench.notice(retrying).await;
    bench.restart().await;
    // Before anything was read of it.
    let status = Signal::Retry { attempt: 1, message: "fake error".to_owned(), next };
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), status)]);
    let (attempt, _, again) = bench.notice(retrying).await;
    assert_eq!((attempt, again), (1, next), "for as long as it was to wait");
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: ERR:429x1 RETRY-AFTER:3 SAY:at last", "assistant: at last"]);
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let steps = log.iter().filter(|record| matches!(record.event, Event::StepStarted { .. })).count();
    assert_eq!((steps, bench.model.prompts().len()), (1, 2));
    let ended = log.iter().find(|record| matches!(record.event, Event::StepEnded { .. })).unwrap();
    assert!(ended.time >= next, "not before its time");
}

#[tokio::test]
async fn a_stop_ends_the_pause() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("ERR:429 RETRY-AFTER:600")).await.unwrap();
    bench.notice(retrying).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(bench.transcript().await[1], "assistant:  !aborted");
    assert_eq!(bench.engine.sessions().get(&bench.session.id).await.unwrap().retry, None);
}

#[tokio::test]
async fn attempts_are_counted_on_after_a_restart() {
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("ERR:429x2 RETRY-AFTER:1 SAY:at last");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.notice(retrying).await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!(bench.transcript().await[1], "assistant: at last");
    let attempts: Vec<u64> = scheduled(&bench).await.into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

#[tokio::test]
async fn a_restart_in_the_pause_after_a_cut_answer_does_not_write_into_that_answer() {
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("DROP:1x1 SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.notice(retrying).await;
    bench.restart().await;
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(
        (said.len(), said[1].as_str(), said[2].as_str()),
        (4, "assistant: one  !cut off", "synthetic")
    );
    assert!(said[3].starts_with("assistant: ") && !said[3].contains('!'), "{said:?}");
}

#[tokio::test]
async fn a_session_is_busy_again_after_the_pause() {
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("ERR:429x1 RETRY-AFTER:1 HOLD:x SAY:one two");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.notice(retrying).await;
    let mut busy = false;
    bench
        .notice(|update| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Busy => {
                    busy = true;
                    None
                }
                Signal::Delta { .. } => Some(()),
                _ => None,
            },
            _ => None,
        })
        .await;
    assert!(busy, "clients are told");
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}
