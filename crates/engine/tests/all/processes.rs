//! Two engines on one database, as two processes have it: nobody waits forever for what the other one did.

use everturn_engine::{Engine, Error, Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::part::PartKind;
use everturn_model::request::Reply;
use everturn_store::{Authority, NewEvent, Store};
use everturn_testkit::within;
use tokio::sync::broadcast::Receiver;

use crate::bench::Bench;
use crate::permission::ask;

#[tokio::test]
async fn a_prompt_admitted_beside_the_runner_is_answered() {
    let bench = Bench::new().await;
    let other = bench.beside().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    other.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    bench.model.release("x");
    within("the other engine to see the end", other.drains().settled(&bench.session.id)).await;
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said.iter().filter(|line| *line == "assistant: second").count(), 1, "{said:?}");
    other.close().await;
}

#[tokio::test]
async fn an_answer_given_elsewhere_reaches_the_call() {
    let mut bench = Bench::new().await;
    let other = bench.beside().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    other.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: read it");
    other.close().await;
}

#[tokio::test]
async fn an_interrupt_from_elsewhere_stops_the_turn() {
    let bench = Bench::new().await;
    let other = bench.beside().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    other.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
    assert!(bench.transcript().await[1].ends_with("!aborted"));
    other.close().await;
}

#[tokio::test]
async fn a_command_that_the_person_allowed_runs_once_although_its_process_died() {
    // An answer given to a process that died was once taken as not acted upon by one that had started before it.
    let extra = serde_json::json!({"permission": {"bash": "ask"}});
    let mut bench = Bench::configured(extra).await;
    let elder = bench.beside().await;
    let log = bench.repo.join("runs");
    let prompt = format!("TOOL:bash:echo ran >> {}; echo begun; sleep 600\nSAY:looked", log.display());
    let request = ask(&mut bench, &prompt).await;
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.notice(crate::turn::begun).await;
    within("the engine to end", bench.engine.close()).await;
    bench.engine = elder;
    bench.engine.recover().await.unwrap();
    // The lease of the engine that ended is free once it is gone.
    bench.settled().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\n");
    let said = bench.transcript().await;
    assert!(said[2].starts_with("result: Unknown"), "{said:?}");
}

#[tokio::test]
async fn an_interrupt_through_a_process_that_waits_for_the_runner_stops_the_runner() {
    // The waiting process had a slot of its own, and only that was stopped.
    let bench = Bench::new().await;
    let other = bench.beside().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    other.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    other.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert!(said[1].ends_with("!aborted"), "{said:?}");
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
    other.close().await;
}

#[tokio::test]
async fn streamed_text_is_read_where_no_bus_brings_it() {
    let bench = Bench::new().await;
    let (told, untold) = (bench.beside().await, bench.beside_quietly().await);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench.model.held("x").await;
    // It is saved a few times a second.
    let saved = async {
        while answer(&untold, &bench).await != "one two " {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("the engine without a bus to see the text", saved).await;
    for engine in [&bench.engine, &told] {
        assert_eq!(answer(engine, &bench).await, "", "who is told of each piece would see it twice");
    }
    bench.model.release("x");
    bench.settled().await;
    for engine in [&bench.engine, &told, &untold] {
        assert_eq!(answer(engine, &bench).await, "one two three");
    }
    told.close().await;
}

/// What an engine's bus said of a session: the events, the text, and what it is doing.
#[derive(Debug, Default)]
struct Overheard {
    seqs: Vec<u64>,
    text: String,
    statuses: Vec<&'static str>,
}

impl Overheard {
    /// Listens until this is so.
    async fn until(
        &mut self,
        updates: &mut Receiver<SessionUpdate>,
        bench: &Bench,
        so: impl Fn(&Self) -> bool,
    ) {
        within("what the bus says", async {
            while !so(self) {
                match updates.recv().await.unwrap() {
                    SessionUpdate::Committed(committed) if committed.record.session == bench.session.id => {
                        self.seqs.push(committed.record.seq);
                    }
                    SessionUpdate::Live(live) if live.session == bench.session.id => match &live.signal {
                        Signal::Busy => self.statuses.push("busy"),
                        Signal::Idle => self.statuses.push("idle"),
                        Signal::Delta { offset, text, .. } => {
                            assert_eq!(*offset, self.text.len());
                            assert_eq!(live.directory, bench.session.directory);
                            self.text.push_str(text);
                        }
                        _ => {}
                    },
                    SessionUpdate::Committed(_) | SessionUpdate::Live(_) => {}
                    SessionUpdate::Gap => panic!("nothing was missed"),
                }
            }
        })
        .await;
    }
}

async fn check_bus(bench: &Bench) {
    let other = bench.beside().await;
    let (mut updates, mut heard) = (other.bus().listen(), Overheard::default());
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench.model.held("x").await;
    heard.until(&mut updates, bench, |heard| heard.text == "one two ").await;
    assert_eq!(other.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    bench.model.release("x");
    heard.until(&mut updates, bench, |heard| heard.statuses.last() == Some(&"idle")).await;
    assert_eq!(heard.statuses, ["busy", "idle"]);
    assert_eq!(other.drains().statuses(), []);
    bench.settled().await;
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let last = log.last().unwrap().seq;
    heard.until(&mut updates, bench, |heard| heard.seqs.last() == Some(&last)).await;
    assert_eq!(heard.seqs, (1..=last).collect::<Vec<u64>>(), "each event once and in order");
    other.close().await;
}

#[tokio::test]
async fn the_turn_of_another_process_comes_by_the_bus() {
    check_bus(&Bench::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_turn_of_another_host_comes_by_the_bus() {
    let database = everturn_testkit::Postgres::shared().database();
    let bench =
        Bench::with(|_| serde_json::json!({}), |options| options.database = Some(database.url())).await;
    check_bus(&bench).await;
}

#[tokio::test]
async fn a_session_that_another_process_runs_is_busy_from_the_start() {
    let bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    let other = bench.beside().await;
    assert_eq!(other.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    bench.model.release("x");
    bench.settled().await;
    other.close().await;
}

#[tokio::test]
async fn a_prompt_for_a_session_that_rests_elsewhere_runs_where_it_was_given() {
    let bench = Bench::new().await;
    let other = bench.beside().await;
    bench.say("SAY:first").await;
    other.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    within("the other engine to answer", other.drains().settled(&bench.session.id)).await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: second");
    other.close().await;
}

/// Another engine that ended in the middle of an answer, as a process that was killed does: the session is left as it
/// was, and the bench's engine has been told so far.
async fn cut_off(bench: &Bench) -> (Receiver<SessionUpdate>, Overheard) {
    let other = bench.beside().await;
    let (mut updates, mut heard) = (bench.engine.bus().listen(), Overheard::default());
    other.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench.model.held("x").await;
    heard.until(&mut updates, bench, |heard| heard.text == "one two ").await;
    within("the other engine to end", other.close()).await;
    drop(other);
    // Nobody runs it any more once the other store is gone.
    let lock = async {
        while !bench.engine.sessions().streaming_parts().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within("the other one's lock to be free", lock).await;
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    (updates, heard)
}

#[tokio::test]
async fn the_saved_text_of_a_process_that_died_is_read() {
    // It was left out, as text is that somebody streams, until the session was taken over.
    let bench = Bench::new().await;
    cut_off(&bench).await;
    assert_eq!(answer(&bench.engine, &bench).await, "one two ");
}

#[tokio::test]
async fn a_session_that_is_deleted_after_its_process_died_is_not_busy() {
    // It was for as long as the server ran: only an event of the session could have ended it.
    for purge in [false, true] {
        let bench = Bench::new().await;
        let (mut updates, mut heard) = cut_off(&bench).await;
        let command = bench.beside_quietly().await;
        if purge {
            command.trash().purge(&bench.session.id).await.unwrap();
        } else {
            command.sessions().trash(&bench.session.id).await.unwrap();
        }
        heard.until(&mut updates, &bench, |heard| heard.statuses.last() == Some(&"idle")).await;
        assert_eq!(bench.engine.drains().statuses(), [], "purge: {purge}");
    }
}

#[tokio::test]
async fn work_for_a_session_that_is_deleted_elsewhere_ends_at_once() {
    // It was tried again ten times, for six minutes, or for as long as the other process had the session.
    for purge in [false, true] {
        let bench = Bench::new().await;
        let id = &bench.session.id;
        let other = bench.other_store().await;
        let lease = other.acquire(id).await.unwrap();
        bench.engine.inbox().admit(id, Prompt::text("SAY:never")).await.unwrap();
        if purge {
            assert!(other.purge(id, bench.engine.mint().now()).await.unwrap());
        } else {
            trash(&bench, &other).await;
            other.release(lease).await.unwrap();
        }
        bench.settled().await;
        assert_eq!(bench.engine.drains().statuses(), [], "purge: {purge}");
        assert_eq!(bench.model.prompts(), Vec::<String>::new(), "the model is not asked");
    }
}

#[tokio::test]
async fn a_turn_stops_when_its_session_is_deleted_elsewhere() {
    // Whoever deletes a session between two turns finds nothing to stop: the next turn ran to its end in the trash.
    let bench = Bench::new().await;
    let other = bench.other_store().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    trash(&bench, &other).await;
    bench.settled().await;
    bench.model.abandoned("x").await;
}

/// Puts the session into the trash and does nothing else.
async fn trash(bench: &Bench, store: &Store) {
    let (id, time) = (bench.engine.mint().event(), bench.engine.mint().now());
    let event = NewEvent { id, time, event: Event::SessionTrashed {} };
    store.append(&bench.session.id, Authority::Open, vec![event]).await.unwrap();
}

#[tokio::test]
async fn an_interrupt_that_came_before_the_takeover_stops_the_turn() {
    // Only interrupts that came after the takeover counted: the model was asked again.
    let bench = Bench::new().await;
    cut_off(&bench).await;
    let asked = bench.model.prompts().len();
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said.last().unwrap(), "assistant: one two  !aborted", "{said:?}");
    assert_eq!(bench.model.prompts().len(), asked, "the model is not asked again");
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_prompt_that_came_after_the_interrupt_is_answered() {
    let bench = Bench::new().await;
    cut_off(&bench).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.say("SAY:something else").await;
    let said = bench.transcript().await;
    assert!(said.contains(&"assistant: one two  !aborted".to_owned()), "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: something else", "{said:?}");
    assert_eq!(bench.engine.drains().statuses(), []);
}

#[tokio::test]
async fn a_message_of_a_turn_that_was_cut_off_is_not_changed_before_the_turn_is_closed() {
    // It was hidden with what had to be known of its calls, and the prompt was run anew.
    let bench = Bench::new().await;
    cut_off(&bench).await;
    bench.model.release("x");
    let nodes = bench.nodes().await;
    let open = nodes.iter().find(|node| node.entry.body.assistant().is_some()).unwrap().entry.id.clone();
    let refused = bench.engine.sessions().hide_message(&bench.session.id, &open).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    // Nobody else would see now that its process died.
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said[1..3], ["assistant: one two  !cut off", "synthetic"], "{said:?}");
    bench.engine.sessions().hide_message(&bench.session.id, &open).await.unwrap();
}

/// The text of the answer as an engine shows it.
async fn answer(engine: &Engine, bench: &Bench) -> String {
    let nodes = engine.sessions().conversation(&bench.session.id, None).await.unwrap().nodes;
    let answers = nodes.iter().filter(|node| node.entry.body.assistant().is_some());
    let texts = answers.flat_map(|node| &node.parts).filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
