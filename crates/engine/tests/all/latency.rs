//! How soon one process sees what another one does, by a clock that only the test moves: what takes too long there waits
//! for a timer, and no machine is too slow for it. Text is promised within half a second, all else within 300 milliseconds.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::request::Reply;
use everturn_testkit::deadline::PATIENCE;
use everturn_testkit::postgres::{Postgres, TestDatabase};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::bench::Bench;
use crate::permission::ask;
use crate::saving::{Clock, SAVED, said, saved};

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

/// Moves the clock, by no more than `limit`, until an update is as wanted. Gives what is left of that time.
async fn check_within(
    clock: &Clock,
    limit: Duration,
    updates: &mut Receiver<SessionUpdate>,
    wanted: impl Fn(&SessionUpdate) -> bool,
) -> Duration {
    let mut left = limit;
    while left >= STEP {
        clock.advance(STEP).await;
        left -= STEP;
        // What the timers have begun needs time of the machine. It is given another step rather than much of that, because
        // the look that was under way may have been made too early.
        if comes(updates, PATIENCE / 60, &wanted).await {
            return left;
        }
    }
    panic!("nothing came within {limit:?}");
}

fn is_event(update: &SessionUpdate, wanted: impl Fn(&Event) -> bool) -> bool {
    matches!(update, SessionUpdate::Committed(committed) if wanted(&committed.record.event))
}

/// A bench on a file, or on a database of a server.
async fn bench_on(database: Option<&TestDatabase>) -> Bench {
    Bench::with(|_| json!({}), |options| options.database = database.map(TestDatabase::url)).await
}

async fn check_text(database: Option<&TestDatabase>) {
    let mut bench = bench_on(database).await;
    let (other, store) = (bench.beside().await, bench.other_store().await);
    let mut updates = other.bus().listen();
    let clock = Clock::stop();
    let prompt = Prompt::text("SLOW:150 HOLD:end SAY:one two three four five");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    said(&mut bench, "one ").await;
    // What was just said is saved in the first part of the time, and found in the second.
    let save = SAVED;
    clock.advance(save).await;
    assert_eq!(saved(&store, &bench, |text| text.starts_with("one ")).await, Ok(()));
    // Once the beginning was seen, no commit is left that would make the other process look.
    let seen = RefCell::new(String::new());
    let grown_to = |update: &SessionUpdate, end: &str| {
        if let SessionUpdate::Live(live) = update
            && let Signal::Delta { text, .. } = &live.signal
        {
            seen.borrow_mut().push_str(text);
        }
        seen.borrow().ends_with(end)
    };
    let promised = Duration::from_millis(500);
    check_within(&clock, promised - save, &mut updates, |update| grown_to(update, " ")).await;
    said(&mut bench, "four ").await;
    clock.advance(save).await;
    assert_eq!(saved(&store, &bench, |text| text == "one two three four ").await, Ok(()));
    if !seen.borrow().ends_with("four ") {
        check_within(&clock, promised - save, &mut updates, |update| grown_to(update, "four ")).await;
    }
    assert_eq!(*seen.borrow(), "one two three four ");

    drop(clock);
    tokio::time::resume();
    bench.model.release("end");
    bench.settled().await;
    other.close().await;
}

#[tokio::test]
async fn text_is_seen_within_half_a_second_on_one_file() {
    check_text(None).await;
}

#[tokio::test]
async fn text_is_seen_within_half_a_second_on_one_postgres() {
    check_text(Some(&Postgres::shared().database())).await;
}

/// The time in which a prompt, an answer and an interrupt take effect.
const SOON: Duration = Duration::from_millis(300);

/// A session whose model has begun to speak and waits. Its process commits nothing more: each commit of its own would make
/// it look for those of others.
async fn at_work(database: Option<&TestDatabase>) -> Bench {
    let mut bench = bench_on(database).await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    said(&mut bench, "one ").await;
    bench.model.held("x").await;
    bench
}

async fn check_prompt(database: Option<&TestDatabase>) {
    let bench = at_work(database).await;
    let other = bench.beside().await;
    let mut updates = bench.engine.bus().listen();
    let clock = Clock::stop();
    let prompt = Prompt::text("HOLD:y SAY:three four");
    let prompt = other.inbox().admit(&bench.session.id, prompt).await.unwrap().id;
    let admitted = |event: &Event| matches!(event, Event::PromptAdmitted { item } if item.id == prompt);
    let left = check_within(&clock, SOON, &mut updates, |update| is_event(update, admitted)).await;
    // It cannot begin before the turn at work has ended, and needs no other time than that.
    bench.model.release("x");
    let begun = |event: &Event| matches!(event, Event::StepStarted { entry, .. } if entry.parent.as_ref() == Some(&prompt));
    check_within(&clock, left, &mut updates, |update| is_event(update, begun)).await;
    drop(clock);
    tokio::time::resume();
    bench.model.held("y").await;
    bench.model.release("y");
    bench.settled().await;
    let expected = [
        "user: HOLD:x SAY:one two",
        "assistant: one two",
        "user: HOLD:y SAY:three four",
        "assistant: three four",
    ];
    assert_eq!(bench.transcript().await, expected);
    other.close().await;
}

#[tokio::test]
async fn a_prompt_takes_effect_soon_on_one_file() {
    check_prompt(None).await;
}

#[tokio::test]
async fn a_prompt_takes_effect_soon_on_one_postgres() {
    check_prompt(Some(&Postgres::shared().database())).await;
}

async fn check_answer(database: Option<&TestDatabase>) {
    let mut bench = bench_on(database).await;
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
async fn an_answer_takes_effect_soon_on_one_file() {
    check_answer(None).await;
}

#[tokio::test]
async fn an_answer_takes_effect_soon_on_one_postgres() {
    check_answer(Some(&Postgres::shared().database())).await;
}

async fn check_interrupt(database: Option<&TestDatabase>) {
    let bench = at_work(database).await;
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

#[tokio::test]
async fn an_interrupt_takes_effect_soon_on_one_file() {
    check_interrupt(None).await;
}

#[tokio::test]
async fn an_interrupt_takes_effect_soon_on_one_postgres() {
    check_interrupt(Some(&Postgres::shared().database())).await;
}
