//! What the feed could not read takes effect nevertheless: events that another process wrote, and that are damaged in the
//! log. What they say is in the rows.

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::request::Reply;
use everturn_testkit::damage::damage_arriving;
use everturn_testkit::within;

use crate::bench::Bench;
use crate::beside::{OtherProcess, end, overhear};
use crate::permission::ask;
use crate::saving::said;

/// Waits until the bus says that something is missing.
async fn missed(bench: &mut Bench) {
    bench.notice(|update| matches!(update, SessionUpdate::Gap).then_some(())).await;
}

#[tokio::test]
async fn an_answer_that_the_feed_missed_reaches_the_call() {
    let mut bench = Bench::new().await;
    let other = bench.beside_quietly().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    damage_arriving(bench.data(), "request.answered");
    other.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    missed(&mut bench).await;
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: read it");
    other.close().await;
}

#[tokio::test]
async fn an_interrupt_that_the_feed_missed_stops_the_turn() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    said(&mut bench, "two ").await;
    damage_arriving(bench.data(), "interrupt.requested");
    OtherProcess::patient(&bench).await.tell(vec![Event::InterruptRequested {}]).await;
    missed(&mut bench).await;
    bench.settled().await;
    assert_eq!(bench.transcript().await[1..], ["assistant: one two  !aborted"]);
}

#[tokio::test]
async fn a_session_that_began_elsewhere_while_the_feed_missed_it_is_busy() {
    let bench = Bench::new().await;
    let mut updates = bench.engine.bus().listen();
    damage_arriving(bench.data(), "step.started");
    let other = OtherProcess::patient(&bench).await;
    let lease = other.take().await;
    let (answer, begun) = other.begin(None);
    other.write(&lease, vec![begun]).await;
    // What is written before the feed has passed the gap is part of it.
    while !matches!(within("a gap", updates.recv()).await.unwrap(), SessionUpdate::Gap) {}
    let busy = async {
        while bench.engine.drains().statuses() != [(bench.session.id.clone(), Signal::Busy)] {
            tokio::task::yield_now().await;
        }
    };
    within("the session to be busy", busy).await;
    other.write(&lease, vec![end(answer)]).await;
    other.store.release(lease).await.unwrap();
    // After a gap the rows say whether it rests, and the feed may be behind them.
    let mut heard = overhear(&mut updates, &bench, |heard| heard.len() == 2).await;
    heard.sort();
    assert_eq!(heard, ["idle", "step.ended"]);
    assert_eq!(bench.engine.drains().statuses(), []);
}
