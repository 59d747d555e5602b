//! How soon one process sees what another one does, by a clock that only the test moves: what takes too long there waits
//! for a timer, and no machine is too slow for it. Text is promised within half a second, all else within 300 milliseconds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::request::Reply;
use everturn_store::{Options, Store};
use everturn_testkit::deadline::PATIENCE;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::bench::Bench;
use crate::permission::ask;
use crate::saving::{Clock, said, saved};

/// How far the clock moves at once: as often as a process looks for what others do.
const STEP: Duration = Duration::from_millis(25);

/// Listens, by the clock on the wall, until an update is as wanted. False when none is for a long time.
async fn comes(
    updates: &mut Receiver<SessionUpdate>,
    patience: Duration,
    wanted: &impl Fn(&SessionUpdate) -> bool,
) -> bool {
    let end = Instant::now() + patience;
    loop {
        match updates.try_recv() {
            Ok(update) if wanted(&update) => return true,
            Ok(_) => {}
            Err(TryRecvError::Empty) if Instant::now() > end => return false,
            // Not a pause, as the clock stands still: the others go first.
            Err(TryRecvError::Empty) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Moves the clock, by no more than `limit`, until an update is as wanted.
async fn check_within(
    clock: &Clock,
    limit: Duration,
    updates: &mut Receiver<SessionUpdate>,
    wanted: impl Fn(&SessionUpdate) -> bool,
) {
    let mut moved = Duration::ZERO;
    while moved + STEP <= limit {
        clock.advance(STEP).await;
        moved += STEP;
        // What the timers have begun needs time of the machine. It is given another step rather than much of that, because
        // the look that was under way may have been made too early.
        if comes(updates, PATIENCE / 60, &wanted).await {
            return;
        }
    }
    panic!("nothing came within {limit:?}");
}

fn is_event(update: &SessionUpdate, wanted: impl Fn(&Event) -> bool) -> bool {
    matches!(update, SessionUpdate::Committed(committed) if wanted(&committed.record.event))
}

#[tokio::test]
async fn text_is_seen_within_half_a_second() {
    let mut data = PathBuf::new();
    let mut bench = Bench::with(|_| json!({}), |options| data.clone_from(&options.paths.data)).await;
    let other = bench.beside().await;
    let store = Store::open(Options::folder(data, "own_reader")).await.unwrap();
    let mut updates = other.bus().listen();
    let clock = Clock::stop();
    let prompt = Prompt::text("SLOW:40 HOLD:end SAY:one two three four five");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    said(&mut bench, "one ").await;
    clock.advance(Duration::from_millis(1)).await;
    assert_eq!(saved(&store, &bench, |text| text.starts_with("one ")).await, Ok(()));
    said(&mut bench, "four ").await;
    // What was just said is saved in the first part of the time, and found in the second.
    let save = Duration::from_millis(200);
    clock.advance(save).await;
    assert_eq!(saved(&store, &bench, |text| text == "one two three four ").await, Ok(()));
    let last = |update: &SessionUpdate| match update {
        SessionUpdate::Live(live) => {
            matches!(&live.signal, Signal::Delta { text, .. } if text.ends_with("four "))
        }
        SessionUpdate::Committed(_) | SessionUpdate::Gap => false,
    };
    check_within(&clock, Duration::from_millis(500) - save, &mut updates, last).await;

    drop(clock);
    tokio::time::resume();
    bench.model.release("end");
    bench.settled().await;
    other.close().await;
}

/// The time in which a prompt, an answer and an interrupt take effect.
const SOON: Duration = Duration::from_millis(300);

/// A session whose model has begun to speak and waits. Its process commits nothing more: each commit of its own would make
/// it look for those of others.
async fn at_work() -> Bench {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    said(&mut bench, "one ").await;
    bench.model.held("x").await;
    bench
}

#[tokio::test]
async fn a_prompt_is_seen_soon() {
    let bench = at_work().await;
    let other = bench.beside().await;
    let mut updates = bench.engine.bus().listen();
    let clock = Clock::stop();
    other.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    let admitted = |event: &Event| matches!(event, Event::PromptAdmitted { .. });
    check_within(&clock, SOON, &mut updates, |update| is_event(update, admitted)).await;
    drop(clock);
    tokio::time::resume();
    bench.model.release("x");
    bench.settled().await;
    other.close().await;
}

#[tokio::test]
async fn an_answer_takes_effect_soon() {
    let mut bench = Bench::new().await;
    let other = bench.beside().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nHOLD:end SAY:read it").await;
    let mut updates = bench.engine.bus().listen();
    let clock = Clock::stop();
    other.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    let settled = |event: &Event| matches!(event, Event::ToolSettled { .. });
    check_within(&clock, SOON, &mut updates, |update| is_event(update, settled)).await;
    drop(clock);
    tokio::time::resume();
    bench.model.release("end");
    bench.settled().await;
    other.close().await;
}

#[tokio::test]
async fn an_interrupt_takes_effect_soon() {
    let bench = at_work().await;
    let other = bench.beside().await;
    let mut updates = bench.engine.bus().listen();
    let clock = Clock::stop();
    other.drains().abort(&bench.session.id).await.unwrap();
    let failed = |event: &Event| matches!(event, Event::StepFailed { .. });
    check_within(&clock, SOON, &mut updates, |update| is_event(update, failed)).await;
    drop(clock);
    tokio::time::resume();
    bench.settled().await;
    other.close().await;
}
