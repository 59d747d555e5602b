//! What stops a drain, wakes it, and takes its session away.

use everturn_store::FeedItem;
use everturn_testkit::{opencode_config, within};
use futures_util::FutureExt as _;
use tempfile::TempDir;

use super::*;
use crate::bus::{Bus, SessionUpdate};
use crate::feed_follower::FeedFollower;
use crate::requests::WaitingCalls;
use crate::sessions::NewSession;
use crate::{Config, Configurations, Engine, Options, Prompt};

fn slots(owned: bool) -> (DrainSlots, SessionId, CancellationToken) {
    let (slots, id) = (DrainSlots::default(), SessionId::new("ses_1"));
    let (_, slot) = DrainSlot::new(owned);
    let cancel = slot.cancel.clone();
    slots.with(|all| all.insert(id.clone(), slot));
    (slots, id, cancel)
}

fn begin(slots: &DrainSlots, id: &SessionId, interrupts: u64) {
    slots.with(|all| {
        let slot = all.get_mut(id).unwrap();
        slot.begun = Some(interrupts);
        slot.stop_if_interrupted();
    });
}

#[test]
fn an_interrupt_from_elsewhere_stops_the_work_that_it_was_meant_for() {
    let (slots, id, cancel) = slots(true);
    begin(&slots, &id, 2);
    slots.look_again(&id);
    slots.interrupt(&id, 2);
    assert!(!cancel.is_cancelled(), "it was asked for before the work began");
    slots.interrupt(&id, 3);
    assert!(cancel.is_cancelled());
    assert!(!slots.with(|all| all.get(&id).unwrap().again), "what woke it before is stopped too");
}

#[test]
fn a_prompt_from_elsewhere_has_the_work_look_again() {
    let (slots, id, _) = slots(true);
    slots.look_again(&id);
    assert!(slots.with(|all| all.get(&id).unwrap().again));
}

#[test]
fn an_interrupt_that_is_told_before_the_work_knows_where_it_began_is_not_lost() {
    let (slots, id, cancel) = slots(true);
    slots.interrupt(&id, 1);
    assert!(!cancel.is_cancelled());
    begin(&slots, &id, 0);
    assert!(cancel.is_cancelled());
}

#[tokio::test]
async fn a_drain_that_waits_for_another_process_is_woken_and_not_stopped() {
    let (slots, id, cancel) = slots(false);
    begin(&slots, &id, 0);
    slots.interrupt(&id, 1);
    assert!(!cancel.is_cancelled(), "the other process has the work");
    slots.notify_waiting(&id);
    let changed_elsewhere = slots.with(|all| Arc::clone(&all.get(&id).unwrap().changed_elsewhere));
    changed_elsewhere.notified().await;
}

#[test]
fn a_session_is_lost_when_another_process_goes_on_with_the_answer_of_this_one() {
    let (slots, id, _) = slots(true);
    let (ours, theirs) = (EntryId::new("msg_2"), EntryId::new("msg_1"));
    let lost = slots.with(|all| {
        let slot = all.get_mut(&id).unwrap();
        slot.answer = Some(ours.clone());
        slot.lost.clone()
    });
    assert!(!slots.lose(&id, &theirs), "it was told late, and written before this process had the session");
    assert!(!lost.is_cancelled());
    assert!(slots.lose(&id, &ours));
    assert!(lost.is_cancelled());
}

#[test]
fn a_session_that_the_feed_has_called_lost_is_not_noted_as_lost_again() {
    // By then it may be at rest, and clients know it: they were told once more.
    let (slots, id, _) = slots(true);
    let (ours, elsewhere) = (EntryId::new("msg_1"), BusyElsewhere::default());
    slots.with(|all| all.get_mut(&id).unwrap().answer = Some(ours.clone()));
    assert!(slots.lose(&id, &ours));
    slots.leave(&id, &elsewhere);
    assert!(!elsewhere.has(&id));
}

#[test]
fn a_session_whose_lease_is_gone_is_noted_as_lost_before_the_feed_says_so() {
    let (slots, id, _) = slots(true);
    let (ours, elsewhere) = (EntryId::new("msg_1"), BusyElsewhere::default());
    slots.with(|all| all.get_mut(&id).unwrap().answer = Some(ours.clone()));
    slots.follow(&id, 7);
    slots.leave(&id, &elsewhere);
    assert!(!slots.lose(&id, &ours), "it is known");
    // If the other one is done already, all of that is still to be told, and then that the session rests.
    assert!(!elsewhere.end(&id, None));
    assert!(elsewhere.end(&id, Some(7)));
}

#[test]
fn after_a_gap_everybody_looks_again() {
    // Whatever was left out of this went unnoticed: who waited for what the feed had missed, waited for good.
    let (slots, working, _) = slots(true);
    let waiting = SessionId::new("ses_2");
    let (_, slot) = DrainSlot::new(false);
    let changed_elsewhere = Arc::clone(&slot.changed_elsewhere);
    slots.with(|all| all.insert(waiting.clone(), slot));
    let (bus, busy) = (Bus::default(), BusyElsewhere::default());
    busy.add(waiting.clone(), Some(4));
    let follower = FeedFollower::new(bus.clone(), slots.clone(), WaitingCalls::default(), busy.clone());
    let (mut updates, gaps) = (bus.listen(), follower.gaps());
    follower.take(FeedItem::Gap);
    assert!(matches!(updates.try_recv(), Ok(SessionUpdate::Gap)), "clients are told");
    let again = |id| slots.with(|all| all.get(id).unwrap().again);
    assert!(again(&working), "a prompt may have come");
    assert!(!again(&waiting), "it looks anyway");
    assert!(changed_elsewhere.notified().now_or_never().is_some(), "the session may be free");
    assert!(!busy.end(&waiting, Some(4)), "more may have happened");
    assert!(gaps.has_changed().unwrap(), "an answer or an interrupt may have come");
}

/// An engine without a feed, and its folders.
async fn engine() -> (Engine, TempDir, TempDir) {
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Nobody answers there.
    let config = opencode_config("http://127.0.0.1:1/v1");
    let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
    let configurations = Configurations::fixed(config, data.path());
    let options = Options { quiet: true, configurations, ..Options::new(data.path(), work.path()) };
    (Engine::open(options).await.unwrap(), data, work)
}

#[tokio::test]
async fn an_answer_from_before_the_session_was_taken_again_takes_nothing_away() {
    // What another process wrote to it meanwhile may be told late.
    let (engine, _data, _work) = engine().await;
    let (drains, id, answer) = (engine.drains(), SessionId::new("ses_1"), EntryId::new("msg_1"));
    let _pause = drains.pause(&id).unwrap();
    drains.begin_answer(&id, &answer);
    drains.set_owned(&id, false);
    drains.set_owned(&id, true);
    assert!(!drains.slots.lose(&id, &answer));
}

#[tokio::test]
async fn a_drain_that_ends_while_the_engine_closes_is_not_followed_by_another() {
    let (engine, _data, _work) = engine().await;
    let (drains, id) = (engine.drains(), SessionId::new("ses_1"));
    let _pause = drains.pause(&id).unwrap();
    drains.wake(&id);
    assert!(drains.next(&id).is_some(), "it was woken");
    drains.wake(&id);
    engine.close().await;
    assert!(drains.next(&id).is_none());
}

/// A session whose drain has told that it is idle and records what is left of its turn, with the drain's end.
async fn resting(engine: &Engine) -> (Session, SessionPause) {
    let location = engine.projects().location(None).await.unwrap();
    let session = engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let pause = engine.drains().pause(&session.id).unwrap();
    engine.drains().set_status(&session.id, Signal::Idle);
    assert_eq!(engine.drains().statuses(), []);
    (session, pause)
}

#[tokio::test]
async fn a_session_that_gets_a_prompt_while_it_comes_to_rest_is_busy() {
    // Whoever asked for the state took the prompt for answered, and whoever waited to change the session went on waiting.
    let (engine, _data, _work) = engine().await;
    let (session, _pause) = resting(&engine).await;
    let waiting = engine.drains().clone();
    let id = session.id.clone();
    let waits = tokio::spawn(async move { waiting.rested(&id).await });
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    engine.inbox().admit(&session.id, Prompt::text("SAY:hello")).await.unwrap();
    assert_eq!(engine.drains().statuses(), [(session.id.clone(), Signal::Busy)]);
    within("the end of the wait", waits).await.unwrap();
}

#[tokio::test]
async fn a_prompt_that_comes_while_the_session_comes_to_rest_is_held_when_it_is_stopped() {
    // It was neither answered nor stopped, and answered after the next start.
    let (engine, _data, _work) = engine().await;
    let (session, pause) = resting(&engine).await;
    let prompt = engine.inbox().admit(&session.id, Prompt::text("SAY:never")).await.unwrap();
    let abort = engine.drains().abort(&session.id);
    let end = async {
        // A drain that begins before the stop is in the log takes the prompt, and is stopped with it.
        while !engine.sessions().get(&session.id).await.unwrap().held {
            tokio::task::yield_now().await;
        }
        drop(pause);
    };
    let (aborted, ()) = within("the abort", async { tokio::join!(abort, end) }).await;
    aborted.unwrap();
    within("the session to settle", engine.drains().settled(&session.id)).await;
    let tree = engine.sessions().tree(&session.id).await.unwrap();
    assert_eq!(tree.inbox.iter().map(|item| &item.id).collect::<Vec<_>>(), [&prompt.id]);
    assert_eq!((tree.session.held, tree.nodes().len()), (true, 0), "nobody began with it");
}

#[tokio::test]
async fn a_session_that_goes_on_after_a_gap_is_busy() {
    let (engine, _data, _work) = engine().await;
    let (session, _pause) = resting(&engine).await;
    engine.drains().slots.notify_all_waiting();
    assert!(engine.drains().next(&session.id).is_some());
    assert_eq!(engine.drains().statuses(), [(session.id, Signal::Busy)]);
}
