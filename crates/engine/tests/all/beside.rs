//! An engine beside another process, which the test plays with a store of its own: what that one writes, and in which
//! order, is in the test's hand.

use std::time::Duration;

use everturn_engine::sessions::NewSession;
use everturn_engine::{Error, Prompt, SessionUpdate, Signal};
use everturn_model::entry::{Assistant, Body, Entry, User};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Extra, Fault, Finish, Money, Part, Tokens};
use everturn_store::{Authority, Lease, NewEvent, Options, Store};
use everturn_testkit::within;
use tokio::sync::broadcast::Receiver;

use crate::bench::Bench;

/// The other process.
pub(crate) struct OtherProcess<'b> {
    bench: &'b Bench,
    pub(crate) store: Store,
}

impl<'b> OtherProcess<'b> {
    /// One that waits for so long before it takes over from a process that is silent.
    async fn new(bench: &'b Bench, patience: Duration) -> Self {
        let mut options = Options::folder(bench.data(), "own_other");
        options.timing.patience = patience;
        Self { bench, store: Store::open(options).await.unwrap() }
    }

    /// One that leaves the sessions of others alone.
    pub(crate) async fn patient(bench: &'b Bench) -> Self {
        Self::new(bench, Duration::from_secs(600)).await
    }

    /// Takes the session.
    pub(crate) async fn take(&self) -> Lease {
        within("the session to be free", async {
            loop {
                match self.store.acquire(&self.bench.session.id).await {
                    Ok(lease) => return lease,
                    Err(everturn_store::Error::Busy { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn write(&self, lease: &Lease, events: Vec<Event>) {
        self.append(Authority::Owned(lease.clone()), events).await;
    }

    /// Writes what anybody may write, at once: nobody sees one of them without the others.
    pub(crate) async fn tell(&self, events: Vec<Event>) {
        self.append(Authority::Open, events).await;
    }

    async fn append(&self, authority: Authority, events: Vec<Event>) {
        let mint = self.bench.engine.mint();
        let new = events.into_iter().map(|event| NewEvent { id: mint.event(), time: mint.now(), event });
        self.store.append(&self.bench.session.id, authority, new.collect()).await.unwrap();
    }

    /// A prompt as this process accepts it.
    fn accept(&self, text: &str) -> Event {
        let (mint, session) = (self.bench.engine.mint(), &self.bench.session);
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
        Event::PromptAdmitted { item: Box::new(item) }
    }

    /// The beginning of an answer after an entry.
    pub(crate) fn begin(&self, parent: Option<EntryId>) -> (EntryId, Event) {
        let mint = self.bench.engine.mint();
        let id = mint.entry(&self.bench.session);
        let entry = Entry::new(id.clone(), parent, mint.now(), Body::Assistant(Assistant::default()));
        (id, Event::StepStarted { entry: Box::new(entry), frame: None })
    }
}

/// The end of an answer.
pub(crate) fn end(entry: EntryId) -> Event {
    Event::StepEnded {
        entry,
        finish: Finish::Stop,
        tokens: Tokens::default(),
        cost: Money::ZERO,
        snapshot: None,
        files: None,
        parts: Vec::new(),
        declined: false,
        estimated: false,
        error: None,
        structured: None,
    }
}

/// What a bus said of the session: events by their name, signals in short.
pub(crate) async fn overhear(
    updates: &mut Receiver<SessionUpdate>,
    bench: &Bench,
    last: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    let mut heard = Vec::new();
    within("the bus to say so", async {
        while !last(&heard) {
            match updates.recv().await.unwrap() {
                SessionUpdate::Committed(committed) if committed.record.session == bench.session.id => {
                    heard.push(committed.record.event.name().to_owned());
                }
                SessionUpdate::Live(live) if live.session == bench.session.id => match &live.signal {
                    Signal::Busy => heard.push("busy".to_owned()),
                    Signal::Idle => heard.push("idle".to_owned()),
                    Signal::Failed { error } => heard.push(format!("failed: {}", error.text())),
                    Signal::Delta { text, .. } => heard.push(format!("text: {text}")),
                    _ => {}
                },
                _ => {}
            }
        }
    })
    .await;
    heard
}

pub(crate) fn is_idle(heard: &[String]) -> bool {
    heard.last().is_some_and(|last| last == "idle")
}

#[tokio::test]
async fn a_session_is_busy_until_the_other_process_has_nothing_left_to_do() {
    // Between two prompts that the other process answered, clients were told nothing, and then that it is busy again.
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    let mut updates = bench.engine.bus().listen();
    let lease = other.take().await;
    let (first, begun) = other.begin(None);
    other.write(&lease, vec![begun]).await;
    let item = bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    other.write(&lease, vec![end(first.clone())]).await;
    let both = |heard: &[String]| heard.last().is_some_and(|last| last == "step.ended");
    let heard = overhear(&mut updates, &bench, both).await;
    assert_eq!(heard, ["step.started", "busy", "prompt.admitted", "step.ended"]);
    let promoted = Event::PromptPromoted { id: item.id.clone(), parent: Some(first), revision: None };
    let (second, begun) = other.begin(Some(item.id));
    other.write(&lease, vec![promoted, begun]).await;
    other.write(&lease, vec![end(second)]).await;
    other.store.release(lease).await.unwrap();
    let heard = overhear(&mut updates, &bench, is_idle).await;
    assert_eq!(heard, ["prompt.promoted", "step.started", "step.ended", "idle"]);
    bench.settled().await;
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_failure_in_another_process_is_told_once() {
    // Only the clients of the process that ran the turn were told.
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    let mut updates = bench.engine.bus().listen();
    let lease = other.take().await;
    let (first, begun) = other.begin(None);
    let error = Fault::internal("cut off");
    // What goes on by itself is no failure.
    other
        .write(
            &lease,
            vec![
                begun,
                Event::StepFailed { entry: first.clone(), error, resumes: true, remains: Box::default() },
            ],
        )
        .await;
    let (second, begun) = other.begin(Some(first));
    let error = Fault::internal("no luck");
    other
        .write(
            &lease,
            vec![begun, Event::StepFailed { entry: second, error, resumes: false, remains: Box::default() }],
        )
        .await;
    other.store.release(lease).await.unwrap();
    let heard = overhear(&mut updates, &bench, is_idle).await;
    let expected =
        ["step.started", "busy", "step.failed", "step.started", "failed: no luck", "step.failed", "idle"];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn a_turn_whose_session_was_taken_over_ends_and_says_what_the_log_says() {
    // A process that had been stopped for so long that another one took its session over went on with its turn: it showed
    // text that no log has, and said that the session is busy when it was not.
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("HOLD:x SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (entry, part) = bench.streamed("two ").await;
    bench.model.held("x").await;
    let mut updates = bench.engine.bus().listen();
    let other = OtherProcess::new(&bench, Duration::ZERO).await;
    let lease = other.take().await;
    let (text, metadata) = ("one ".to_owned(), None);
    other.write(&lease, vec![Event::PartEnded { entry: entry.clone(), part, text, metadata }]).await;
    bench.model.abandoned("x").await;
    bench.model.release("x");
    let error = Fault::internal("taken over");
    other
        .write(&lease, vec![Event::StepFailed { entry, error, resumes: false, remains: Box::default() }])
        .await;
    other.store.release(lease).await.unwrap();
    let heard = overhear(&mut updates, &bench, is_idle).await;
    assert_eq!(heard, ["part.ended", "failed: taken over", "step.failed", "idle"]);
    bench.settled().await;
    assert_eq!(bench.transcript().await[1], "assistant: one  !internal");
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn what_the_one_that_took_a_session_over_leaves_is_done_here() {
    // The loss was not forgotten: whatever was begun here afterwards ended at once.
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("HOLD:x SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (entry, part) = bench.streamed("two ").await;
    let other = OtherProcess::new(&bench, Duration::ZERO).await;
    let lease = other.take().await;
    other.tell(vec![other.accept("SAY:left over")]).await;
    let (text, metadata) = ("one ".to_owned(), None);
    other.write(&lease, vec![Event::PartEnded { entry: entry.clone(), part, text, metadata }]).await;
    bench.model.abandoned("x").await;
    other.write(&lease, vec![end(entry)]).await;
    other.store.release(lease).await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said[1..], ["assistant: one ", "user: SAY:left over", "assistant: left over"]);
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_turn_that_is_stopped_after_its_session_was_taken_over_leaves_it_to_the_other_process() {
    // Clients were told that it failed and rests, and nothing of that was in the log. And the other process, which went on
    // with the turn, was not told that somebody had stopped it.
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("HOLD:x SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.streamed("two ").await;
    let other = OtherProcess::new(&bench, Duration::ZERO).await;
    let lease = other.take().await;
    let mut updates = bench.engine.bus().listen();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    bench.model.abandoned("x").await;
    // The drain may go on, and wait for what the other process leaves: it does where the turn had ended before the stop was
    // heard. It has only to leave the session.
    within("the turn to leave the session", async {
        while bench.engine.drains().is_owned(&bench.session.id) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let heard = overhear(&mut updates, &bench, |heard| heard.len() == 1).await;
    assert_eq!(heard, ["interrupt.requested"]);
    assert!(updates.try_recv().is_err(), "the other process says what becomes of the session");
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    other.store.release(lease).await.unwrap();
}

#[tokio::test]
async fn a_message_is_not_changed_while_another_process_has_the_session() {
    // Only the drains of the same process kept a message from being taken away under a turn.
    let bench = Bench::new().await;
    let message = bench.say("SAY:one").await;
    let other = OtherProcess::patient(&bench).await;
    let lease = other.take().await;
    let hide = || bench.engine.sessions().hide_message(&bench.session.id, &message);
    let refused = hide().await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert_eq!(bench.transcript().await, ["user: SAY:one", "assistant: one"]);
    other.store.release(lease).await.unwrap();
    hide().await.unwrap();
    // And the session is free again.
    other.take().await;
}

#[tokio::test]
async fn a_prompt_that_was_accepted_after_an_interrupt_is_answered() {
    // The turn that was stopped took all prompts along unanswered, also those that came after the interrupt.
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    // An answer without text is left out of the next request, whose last words would then hold the model again.
    bench.streamed("one ").await;
    let other = OtherProcess::patient(&bench).await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:before")).await.unwrap();
    let mut updates = bench.engine.bus().listen();
    other.tell(vec![Event::InterruptRequested {}, other.accept("SAY:after")]).await;
    let answered = |heard: &[String]| heard.iter().any(|said| said == "step.ended");
    overhear(&mut updates, &bench, answered).await;
    bench.settled().await;
    let said = bench.transcript().await;
    assert!(said[1].ends_with("!aborted"), "{said:?}");
    assert_eq!(said[2..], ["user: SAY:before", "user: SAY:after", "assistant: after"]);
    assert_eq!(bench.model.prompts().len(), 2, "both are answered together");
}

#[tokio::test]
async fn a_prompt_that_was_stopped_before_it_was_begun_waits_for_the_next() {
    // Only a turn that was open could be stopped through another process.
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    other.tell(vec![other.accept("SAY:one")]).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
    let now = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((now.interrupts, now.held), (1, true));
    // Whoever was about to begin finds the interrupt in the log.
    other.tell(vec![other.accept("SAY:two"), Event::InterruptRequested {}]).await;
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, Vec::<String>::new());
    assert!(bench.model.prompts().is_empty(), "the model was not asked");
    other.tell(vec![other.accept("SAY:three")]).await;
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said, ["user: SAY:one", "user: SAY:two", "user: SAY:three", "assistant: three"]);
}

#[tokio::test]
async fn a_prompt_that_waited_for_a_turn_that_nobody_ran_is_held_when_that_is_stopped() {
    // It joined the conversation without an answer.
    let bench = Bench::new().await;
    let other = OtherProcess::patient(&bench).await;
    let lease = other.take().await;
    let (first, begun) = other.begin(None);
    let (before, interrupt) = (other.accept("SAY:before"), Event::InterruptRequested {});
    other.write(&lease, vec![begun, before, interrupt]).await;
    other.store.release(lease).await.unwrap();
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["assistant:  !aborted"], "{first}");
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said, ["assistant:  !aborted", "user: SAY:before", "assistant: before"]);
    assert!(
        !bench.engine.drains().resume(&bench.session.id).await.unwrap(),
        "nothing keeps it from going on"
    );
}

#[tokio::test]
async fn why_a_deleted_session_stopped_is_told_before_that_it_is_idle() {
    // A client that leaves when a session is idle was not told: the process that deleted it called it idle at once, and
    // the one that ran it stopped after that.
    let bench = Bench::new().await;
    let runner = bench.beside().await;
    let mut updates = bench.engine.bus().listen();
    runner.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    overhear(&mut updates, &bench, |heard| heard.last().is_some_and(|last| last == "busy")).await;
    bench.engine.sessions().trash(&bench.session.id).await.unwrap();
    let heard = overhear(&mut updates, &bench, is_idle).await;
    let place = |wanted: &str| heard.iter().position(|heard| heard == wanted);
    assert!(place("failed: Aborted").is_some(), "{heard:?}");
    assert!(place("step.failed") < place("idle"), "{heard:?}");
    assert_eq!(bench.engine.drains().statuses(), []);
    within("the other engine to end", runner.close()).await;
}

#[tokio::test]
async fn a_session_that_was_taken_over_and_done_at_once_comes_to_rest() {
    // Whoever was stopped finds in one look that its session was taken over and that all is done. That this is said once,
    // even if the feed is faster than the drain, is in the tests of the drains.
    let mut bench = Bench::new().await;
    let prompt = Prompt::text("HOLD:x SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (entry, part) = bench.streamed("two ").await;
    bench.model.held("x").await;
    let mut updates = bench.engine.bus().listen();
    let other = OtherProcess::new(&bench, Duration::ZERO).await;
    let lease = other.take().await;
    let (text, metadata) = ("one ".to_owned(), None);
    let ended = Event::PartEnded { entry: entry.clone(), part, text, metadata };
    let error = Fault::internal("taken over");
    let failed = Event::StepFailed { entry: entry.clone(), error, resumes: true, remains: Box::default() };
    let (answer, begun) = other.begin(Some(entry));
    other.write(&lease, vec![ended, failed, begun, end(answer)]).await;
    other.store.release(lease).await.unwrap();
    let heard = overhear(&mut updates, &bench, is_idle).await;
    assert_eq!(heard, ["part.ended", "step.failed", "step.started", "step.ended", "idle"]);
    bench.settled().await;
    // What failed is no answer, so both prompts are answered now, and the first one says to hold.
    bench.model.release("x");
    bench.say("SAY:more").await;
    let heard = overhear(&mut updates, &bench, is_idle).await;
    assert_eq!(heard.first().unwrap(), "prompt.admitted", "{heard:?}");
}

/// A third process, after another one ran the session, was told nothing when the session went into the trash, and died.
async fn die_in_trash(bench: &Bench, updates: &mut Receiver<SessionUpdate>) -> Store {
    let other = OtherProcess::patient(bench).await;
    let lease = other.take().await;
    let (_, begun) = other.begin(None);
    other.write(&lease, vec![begun]).await;
    other.tell(vec![Event::SessionTrashed {}]).await;
    let trashed = |heard: &[String]| heard.last().is_some_and(|last| last == "session.trashed");
    assert_eq!(overhear(updates, bench, trashed).await, ["step.started", "busy", "session.trashed"]);
    // Now it is looked at, and found to be run.
    let third = Store::open(Options::folder(bench.data(), "own_third")).await.unwrap();
    reviewed(bench, &third).await;
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    drop(other);
    let free = async {
        while !third.run_elsewhere().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within("the other one's lock to be free", free).await;
    third
}

#[tokio::test]
async fn a_session_in_the_trash_rests_when_the_process_that_ran_it_has_died() {
    // No event says so, and whoever looks for sessions to go on with passes it by.
    let bench = Bench::new().await;
    let mut updates = bench.engine.bus().listen();
    die_in_trash(&bench, &mut updates).await;
    bench.engine.adopt().await.unwrap();
    assert_eq!(overhear(&mut updates, &bench, is_idle).await, ["idle"]);
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_session_that_left_the_trash_for_good_is_not_busy() {
    let bench = Bench::new().await;
    let mut updates = bench.engine.bus().listen();
    let third = die_in_trash(&bench, &mut updates).await;
    assert!(third.purge(&bench.session.id, bench.engine.mint().now()).await.unwrap());
    bench.engine.adopt().await.unwrap();
    reviewed(&bench, &third).await;
    assert_eq!(bench.engine.drains().statuses(), []);
}

/// Waits until what was asked before about sessions of other processes was answered: the answers come in order.
async fn reviewed(bench: &Bench, store: &Store) {
    let location = bench.engine.projects().location(None).await.unwrap();
    let session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let mint = bench.engine.mint();
    let lease = store.acquire(&session.id).await.unwrap();
    let id = mint.entry(&session);
    let entry = Entry::new(id.clone(), None, mint.now(), Body::Assistant(Assistant::default()));
    let events = [Event::StepStarted { entry: Box::new(entry), frame: None }, end(id)];
    let new = events.map(|event| NewEvent { id: mint.event(), time: mint.now(), event });
    let mut updates = bench.engine.bus().listen();
    store.append(&session.id, Authority::Owned(lease.clone()), new.into()).await.unwrap();
    store.release(lease).await.unwrap();
    within("another session to rest", async {
        loop {
            match updates.recv().await.unwrap() {
                SessionUpdate::Live(live) if live.session == session.id && live.signal == Signal::Idle => {
                    return;
                }
                _ => {}
            }
        }
    })
    .await;
}
