//! Drains that meet another process: work that is done elsewhere, interrupts that are told late, failures while waiting.

use everturn_model::entry::{Assistant, Entry, User};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::{Body, Event, Extra, FaultKind, Finish, Money, Part, Tokens};
use everturn_store::{Authority, NewEvent, Store};
use everturn_testkit::{ModelServer, opencode_config, within};
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;

use super::*;
use crate::sessions::NewSession;
use crate::{Config, Configurations, Engine, Options, Prompt, SessionUpdate};

/// An engine with a session, and the store as another process has it.
struct Stage {
    model: ModelServer,
    engine: Engine,
    session: Session,
    other: Store,
    _folders: (TempDir, TempDir),
}

impl Stage {
    /// A quiet one has no feed: the test tells.
    async fn new(quiet: bool) -> Self {
        let model = ModelServer::recorded();
        let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = opencode_config(&model.base_url());
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        let configurations = Configurations::fixed(config, data.path());
        let options = Options { quiet, configurations, ..Options::new(data.path(), work.path()) };
        let engine = Engine::open(options).await.unwrap();
        let location = engine.projects().location(None).await.unwrap();
        let new = NewSession { title: Some("a title".into()), ..NewSession::default() };
        let session = engine.sessions().create(&location, new).await.unwrap();
        let other = Store::open(everturn_store::Options::folder(data.path(), "own_other")).await.unwrap();
        Self { model, engine, session, other, _folders: (data, work) }
    }

    /// Writes as the other process.
    async fn write(&self, authority: Authority, events: Vec<Event>) {
        let mint = self.engine.mint();
        let new = events.into_iter().map(|event| NewEvent { id: mint.event(), time: mint.now(), event });
        self.other.append(&self.session.id, authority, new.collect()).await.unwrap();
    }

    /// An interrupt, and then a prompt, through the other process.
    async fn interrupt_and_prompt(&self, text: &str) {
        let (mint, session) = (self.engine.mint(), &self.session);
        let item = InboxItem {
            id: mint.entry(session),
            time: mint.now(),
            delivery: Delivery::Steer,
            reply: true,
            user: User::default(),
            parts: vec![Part::new(mint.part(session), PartKind::text(text))],
            extra: Extra::default(),
            resume: true,
            place: None,
            revision: 0,
        };
        let events = vec![Event::InterruptRequested {}, Event::PromptAdmitted { item: Box::new(item) }];
        self.write(Authority::Open, events).await;
    }

    /// The beginning and the end of a turn of the other process.
    fn turn(&self) -> (Event, Event) {
        let mint = self.engine.mint();
        let entry = mint.entry(&self.session);
        let begun = Entry::new(entry.clone(), None, mint.now(), Body::Assistant(Assistant::default()));
        let (finish, tokens, cost) = (Finish::Stop, Tokens::default(), Money::ZERO);
        let (snapshot, files, parts, declined, estimated, error) =
            (None, None, Vec::new(), false, false, None);
        let ended = Event::StepEnded {
            entry,
            finish,
            tokens,
            cost,
            snapshot,
            files,
            parts,
            declined,
            estimated,
            error,
            structured: None,
        };
        (Event::StepStarted { entry: Box::new(begun), frame: None }, ended)
    }

    async fn settled(&self) {
        within("the session to settle", self.engine.drains().settled(&self.session.id)).await;
    }

    /// How the answers ended, in order.
    async fn faults(&self) -> Vec<Option<FaultKind>> {
        let nodes = self.engine.sessions().conversation(&self.session.id, None).await.unwrap().nodes;
        let answers = nodes.into_iter().filter_map(|node| match node.entry.body {
            Body::Assistant(answer) => Some(answer.error),
            _ => None,
        });
        answers.map(|error| error.map(|error| error.kind)).collect()
    }
}

/// Waits until a bus says this: an event by its name, a signal in short.
async fn hear(updates: &mut Receiver<SessionUpdate>, wanted: &str) {
    let heard = async {
        loop {
            let said = match updates.recv().await.unwrap() {
                SessionUpdate::Committed(committed) => committed.record.event.name().to_owned(),
                SessionUpdate::Live(live) => match &live.signal {
                    Signal::Busy => "busy".to_owned(),
                    Signal::Idle => "idle".to_owned(),
                    Signal::Delta { text, .. } => format!("text: {text}"),
                    _ => continue,
                },
                SessionUpdate::Gap => continue,
            };
            if said == wanted {
                return;
            }
        }
    };
    within(wanted, heard).await;
}

#[tokio::test]
async fn a_turn_that_began_after_an_interrupt_is_not_stopped_when_that_is_told_late() {
    // The count of interrupts was that of the first turn of a drain.
    let stage = Stage::new(true).await;
    let (engine, id) = (&stage.engine, &stage.session.id);
    engine.inbox().admit(id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    stage.model.held("x").await;
    stage.interrupt_and_prompt("HOLD:y SAY:three four").await;
    stage.model.release("x");
    stage.model.held("y").await;
    engine.drains().interrupt(id, 1);
    stage.model.release("y");
    stage.settled().await;
    assert_eq!(stage.faults().await, [None, None]);
}

#[tokio::test]
async fn a_turn_that_was_stopped_looks_for_prompts_that_came_after_that() {
    // They waited for the next one, where no feed tells of them.
    let stage = Stage::new(true).await;
    let (engine, id) = (&stage.engine, &stage.session.id);
    let mut updates = engine.bus().listen();
    engine.inbox().admit(id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    // Without any text the model would be asked for it again.
    hear(&mut updates, "text: one ").await;
    stage.interrupt_and_prompt("SAY:later").await;
    engine.drains().interrupt(id, 1);
    stage.settled().await;
    assert_eq!(stage.faults().await, [Some(FaultKind::Aborted), None]);
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
async fn a_session_that_another_process_is_done_with_is_idle_although_a_drain_waits_for_it() {
    // The feed left it to the drain to say that the session is idle, and the drain found nothing to do and said nothing.
    let stage = Stage::new(false).await;
    let (engine, id) = (&stage.engine, &stage.session.id);
    let lease = stage.other.acquire(id).await.unwrap();
    let mut updates = engine.bus().listen();
    let (begun, ended) = stage.turn();
    stage.write(Authority::Owned(lease.clone()), vec![begun]).await;
    hear(&mut updates, "busy").await;
    // The drain, which is woken and does not have the session.
    let pause = engine.drains().pause(id).unwrap();
    engine.drains().set_owned(id, false);
    engine.drains().wake(id);
    stage.write(Authority::Owned(lease.clone()), vec![ended]).await;
    hear(&mut updates, "step.ended").await;
    stage.other.release(lease).await.unwrap();
    drop(pause);
    stage.settled().await;
    hear(&mut updates, "idle").await;
    assert_eq!(engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_session_that_was_done_elsewhere_before_the_drain_here_had_lost_it_does_not_stay_busy() {
    // The feed told of all of it before the drain found its lease gone, and would tell nothing more.
    let stage = Stage::new(false).await;
    let (engine, id) = (&stage.engine, &stage.session.id);
    let mut updates = engine.bus().listen();
    // The drain, which has the session and writes no answer.
    let pause = engine.drains().pause(id).unwrap();
    let lease = stage.other.acquire(id).await.unwrap();
    let (begun, ended) = stage.turn();
    stage.write(Authority::Owned(lease.clone()), vec![begun, ended]).await;
    stage.other.release(lease).await.unwrap();
    hear(&mut updates, "idle").await;
    engine.drains().leave(id);
    assert!(engine.drains().is_busy_elsewhere(id));
    assert!(engine.drains().next(id).is_none());
    drop(pause);
    hear(&mut updates, "idle").await;
    assert_eq!(engine.drains().statuses(), []);
}

#[tokio::test]
async fn sessions_that_go_on_together_are_read_a_few_at_a_time() {
    // After a restart with many of them, whoever asked for something else waited for all.
    let stage = Stage::new(false).await;
    let (engine, id) = (&stage.engine, &stage.session.id);
    let worker = engine.drains().worker();
    assert_eq!(worker.readings.available_permits(), READINGS);
    let others = worker.readings.acquire_many(8).await.unwrap();
    let mut updates = engine.bus().listen();
    engine.inbox().admit(id, Prompt::text("SAY:one")).await.unwrap();
    within("the drain to have its session", async {
        while !engine.drains().is_owned(id) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // As long as it would take to read it.
    worker.journal.tree(id).await.unwrap();
    worker.journal.tree(id).await.unwrap();
    let mut heard = std::iter::from_fn(|| updates.try_recv().ok());
    let is_busy = |update| matches!(update, SessionUpdate::Live(live) if live.signal == Signal::Busy);
    assert!(!heard.any(is_busy), "it waits for its turn");
    drop(others);
    hear(&mut updates, "busy").await;
    stage.settled().await;
}
