//! Drains that meet another process: work that is done elsewhere, interrupts that are told late, failures while waiting.

use everturn_model::entry::User;
use everturn_model::entry::{Assistant, Entry};
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::{Body, Event, Finish, Money, Tokens};
use everturn_model::{Extra, Part};
use everturn_store::{Authority, NewEvent, Store};
use everturn_testkit::{ModelServer, opencode_config, within};

use super::*;
use crate::sessions::NewSession;
use crate::{Config, Engine, Options, Prompt, SessionUpdate};

#[tokio::test]
async fn a_turn_that_began_after_an_interrupt_is_not_stopped_when_that_is_told_late() {
    // The count of interrupts was that of the first turn of a drain.
    let model = ModelServer::recorded();
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = opencode_config(&model.base_url());
    let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
    // Without a feed: the test tells.
    let options = Options { quiet: true, config, ..Options::new(data.path(), work.path()) };
    let engine = Engine::open(options).await.unwrap();
    let location = engine.projects().location(None).await.unwrap();
    let new = NewSession { title: Some("a title".into()), ..NewSession::default() };
    let session = engine.sessions().create(&location, new).await.unwrap();
    let (id, mint) = (&session.id, engine.mint());
    engine.inbox().admit(id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    model.held("x").await;
    let other = Store::open(everturn_store::Options::folder(data.path(), "own_other")).await.unwrap();
    let item = InboxItem {
        id: mint.entry(&session),
        time: mint.now(),
        delivery: Delivery::Steer,
        reply: true,
        user: User::default(),
        parts: vec![Part::new(mint.part(&session), PartKind::text("HOLD:y SAY:three four"))],
        extra: Extra::default(),
        interrupts: 0,
    };
    let events = [Event::InterruptRequested {}, Event::PromptAdmitted { item: Box::new(item) }];
    let new = events.map(|event| NewEvent { id: mint.event(), time: mint.now(), event });
    other.append(id, Authority::Open, new.into()).await.unwrap();
    model.release("x");
    model.held("y").await;
    engine.drains().interrupt(id, 1);
    model.release("y");
    within("the session to settle", engine.drains().settled(id)).await;
    let nodes = engine.sessions().conversation(id, None).await.unwrap().nodes;
    let answers: Vec<_> = nodes.iter().filter_map(|node| node.entry.body.assistant()).collect();
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.error.is_none()), "{answers:?}");
}

#[test]
fn who_only_waits_for_a_session_does_not_say_that_it_rests() {
    // A database that was locked for long made a server call a session idle that another process was running.
    let failed = Error::Conflict("the database is locked".to_owned());
    let idle = |owned| DrainFailure::of(&failed, owned).signals().contains(&Signal::Idle);
    assert!(!idle(false));
    assert!(idle(true));
}

#[tokio::test]
async fn a_drain_that_finds_the_work_done_leaves_nobody_waiting_for_it() {
    // Another process ended its work, and the feed said so, while a drain here was about to take the session. The feed
    // left it to the drain to say that the session is idle, and the drain found nothing to do and said nothing.
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = Engine::open(Options::new(data.path(), work.path())).await.unwrap();
    let location = engine.projects().location(None).await.unwrap();
    let session = engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let (id, mint) = (&session.id, engine.mint());
    let other = Store::open(everturn_store::Options::folder(data.path(), "own_other")).await.unwrap();
    let lease = other.acquire(id).await.unwrap();
    let write = async |event| {
        let new = NewEvent { id: mint.event(), time: mint.now(), event };
        other.append(id, Authority::Owned(lease.clone()), vec![new]).await.unwrap();
    };
    let mut updates = engine.bus().listen();
    let mut hear = async |wanted: &str| {
        let heard = async {
            loop {
                let said = match updates.recv().await.unwrap() {
                    SessionUpdate::Committed(committed) => committed.record.event.name(),
                    SessionUpdate::Live(live) if live.signal == Signal::Busy => "busy",
                    SessionUpdate::Live(live) if live.signal == Signal::Idle => "idle",
                    SessionUpdate::Live(_) | SessionUpdate::Gap => "something else",
                };
                if said == wanted {
                    return;
                }
            }
        };
        within(wanted, heard).await;
    };
    let entry = mint.entry(&session);
    let body = Body::Assistant(Assistant::default());
    let begun = Entry::new(entry.clone(), None, mint.now(), body);
    write(Event::StepStarted { entry: Box::new(begun) }).await;
    hear("busy").await;
    // The drain, which is woken and does not have the session.
    let pause = engine.drains().pause(id).unwrap();
    engine.drains().set_owned(id, false);
    engine.drains().wake(id);
    let (finish, tokens, cost) = (Finish::Stop, Tokens::default(), Money::ZERO);
    let (snapshot, files, parts, declined) = (None, None, Vec::new(), false);
    write(Event::StepEnded { entry, finish, tokens, cost, snapshot, files, parts, declined }).await;
    hear("step.ended").await;
    other.release(lease.clone()).await.unwrap();
    drop(pause);
    within("the drain to end", engine.drains().settled(id)).await;
    hear("idle").await;
    assert_eq!(engine.drains().statuses(), []);
}
