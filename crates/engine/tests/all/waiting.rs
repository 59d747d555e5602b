//! A prompt for a session that another process has: how soon it is begun once the session is free, by a clock that only
//! the test moves, and what is said when it never is.

use std::time::{Duration, Instant};

use everturn_engine::{Prompt, SessionUpdate};
use everturn_model::Event;
use everturn_model::event::SessionChange;
use everturn_store::WrittenBy;
use everturn_testkit::deadline::PATIENCE;
use everturn_testkit::{Refusal, within};
use tokio::sync::broadcast::Receiver;

use crate::bench::Bench;
use crate::beside::{OtherProcess, end, overhear};
use crate::saving::Clock;

/// How far the clock moves at once: as often as a process looks for what others do.
const STEP: Duration = Duration::from_millis(25);

/// Gives a prompt to a session that another process has, and waits until it was found to have it.
async fn wait_for_it(bench: &Bench) {
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:at last")).await.unwrap();
    tokio::task::yield_now().await;
    // What is written after the drain has asked for the session is answered after that.
    let change = SessionChange::Metadata { metadata: None };
    bench.engine.sessions().change(&bench.session.id, vec![change]).await.unwrap();
}

/// Moves the clock by no more than `limit`, until this process begins a turn.
async fn check_begun(clock: &Clock, limit: Duration, updates: &mut Receiver<SessionUpdate>) {
    let mut moved = Duration::ZERO;
    while moved + STEP <= limit {
        clock.advance(STEP).await;
        moved += STEP;
        // By the clock on the wall: what the timers have begun needs time of the machine.
        let end = Instant::now() + PATIENCE / 60;
        while Instant::now() < end {
            match updates.try_recv() {
                Ok(SessionUpdate::Committed(committed))
                    if matches!(committed.record.event, Event::StepStarted { .. })
                        && committed.by == WrittenBy::Us =>
                {
                    return;
                }
                Ok(_) => {}
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
    panic!("nothing was begun within {limit:?}");
}

async fn check_end(bench: &Bench, clock: Clock) {
    drop(clock);
    tokio::time::resume();
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: at last");
}

#[tokio::test]
async fn a_session_that_was_given_back_is_taken_soon() {
    // Nothing is in the log of that.
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    let lease = other.take().await;
    let clock = Clock::stop();
    wait_for_it(&bench).await;
    let mut updates = bench.engine.bus().listen();
    other.store.release(lease).await.unwrap();
    // It is promised within 300 milliseconds.
    clock.advance(Duration::from_millis(200)).await;
    check_begun(&clock, Duration::from_millis(100), &mut updates).await;
    check_end(&bench, clock).await;
}

#[tokio::test]
async fn a_session_whose_turn_ended_elsewhere_is_taken_when_the_log_says_so() {
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    let mut updates = bench.engine.bus().listen();
    let lease = other.take().await;
    let (answer, begun) = other.begin(None);
    other.write(&lease, vec![begun]).await;
    let busy = |heard: &[String]| heard.last().is_some_and(|last| last == "busy");
    overhear(&mut updates, &bench, busy).await;
    let clock = Clock::stop();
    wait_for_it(&bench).await;
    other.write(&lease, vec![end(answer)]).await;
    other.store.release(lease).await.unwrap();
    // Sooner than it would be tried without that.
    check_begun(&clock, Duration::from_millis(200), &mut updates).await;
    check_end(&bench, clock).await;
}

#[tokio::test]
async fn a_session_that_could_not_be_taken_is_idle_when_nobody_wants_it_any_more() {
    let bench = Bench::new().await;
    let refusal = Refusal::of_owners(bench.data());
    let mut updates = bench.engine.bus().listen();
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:never")).await.unwrap();
    let failed = |heard: &[String]| heard.last().is_some_and(|last| last.starts_with("failed: "));
    let heard = overhear(&mut updates, &bench, failed).await;
    assert_eq!(heard.len(), 2, "whether it rests is not known: {heard:?}");
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    let mut heard = overhear(&mut updates, &bench, |heard| heard.len() == 2).await;
    heard.sort();
    assert_eq!(heard, ["idle", "interrupt.requested"], "in either order");
    refusal.lift();
    bench.settled().await;
    assert_eq!(bench.transcript().await, Vec::<String>::new());
    assert!(bench.engine.sessions().get(&bench.session.id).await.unwrap().held);
}
