//! An interrupt that comes between the death of a process and the takeover ends the work as one that comes while the
//! process lives.

use everturn_engine::{Engine, Prompt, SessionUpdate, Signal};
use everturn_model::{Event, SessionId};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use crate::bench::Bench;
use crate::beside::OtherProcess;
use crate::permission::asked;

/// Where the work stands when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// In the middle of an answer, two words of which have come.
    Writing,
    /// A call waits for a person, here or in a task.
    Asking,
    /// The model of a task is silent.
    Delegating,
}

/// Gives an engine a prompt and waits until the work stands there.
async fn begin(bench: &mut Bench, engine: &Engine, prompt: &str, standing: Standing) {
    engine.inbox().admit(&bench.session.id, Prompt::text(prompt)).await.unwrap();
    match standing {
        Standing::Writing => {
            let two = |update: &SessionUpdate| match update {
                SessionUpdate::Live(live) => match &live.signal {
                    Signal::Delta { text, .. } => text.ends_with("two ").then_some(()),
                    _ => None,
                },
                SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
            };
            bench.notice(two).await;
        }
        Standing::Asking => drop(asked(bench).await),
        Standing::Delegating => bench.model.held("x").await,
    }
}

/// What a bus says of the session until its turn has failed: events by their name, signals in short.
async fn overhear(updates: &mut Receiver<SessionUpdate>, id: &SessionId) -> Vec<String> {
    let mut heard = Vec::new();
    within("the turn to end", async {
        while heard.last().is_none_or(|last| last != "step.failed") {
            match in_short(&updates.recv().await.unwrap(), id) {
                // Whoever stops a session of another process writes that down, and before it is what that one did.
                Some(said) if said == "interrupt.requested" => heard.clear(),
                // Whoever takes a session over says so.
                // Whoever was at work has recorded what the provider had said by then; that is nothing to be heard.
                Some(said) if !["busy", "usage.reported"].contains(&said.as_str()) => heard.push(said),
                _ => {}
            }
        }
    })
    .await;
    heard
}

/// What an update says of a session.
fn in_short(update: &SessionUpdate, id: &SessionId) -> Option<String> {
    match update {
        SessionUpdate::Committed(committed) if committed.record.session == *id => {
            match &committed.record.event {
                // A call that was taken over says again which session works on its task.
                Event::ToolProgress { .. } => None,
                // While a call runs, what was used is recorded when there is time.
                Event::UsageReported { .. } => None,
                event => Some(event.name().to_owned()),
            }
        }
        SessionUpdate::Live(live) if live.session == *id => match &live.signal {
            Signal::Busy => Some("busy".to_owned()),
            Signal::Idle => Some("idle".to_owned()),
            Signal::Failed { error } => Some(format!("failed: {}", error.text())),
            _ => None,
        },
        _ => None,
    }
}

/// The session and those that work on its tasks.
async fn family(bench: &Bench) -> Vec<SessionId> {
    let children = bench.engine.sessions().children(&bench.session.id).await.unwrap();
    [bench.session.id.clone()].into_iter().chain(children.into_iter().map(|child| child.id)).collect()
}

/// What is left of an interrupted prompt: what was heard, the conversations, and how often the model was asked.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    heard: Vec<String>,
    said: Vec<Vec<String>>,
    asked: usize,
}

impl Remains {
    async fn of(bench: &Bench, mut updates: Receiver<SessionUpdate>) -> Self {
        let mut heard = overhear(&mut updates, &bench.session.id).await;
        let mut said = Vec::new();
        for id in family(bench).await {
            within("the session to settle", bench.engine.drains().settled(&id)).await;
            let session = bench.engine.sessions().get(&id).await.unwrap();
            assert!(!session.open, "{session:?}");
            said.push(bench.transcript_of(&id).await);
        }
        assert_eq!(bench.engine.requests().waiting().await.unwrap(), [], "nobody is asked any more");
        assert_eq!(bench.engine.drains().statuses(), []);
        // Whatever else was said by the time that the session rests.
        while let Ok(update) = updates.try_recv() {
            heard.extend(in_short(&update, &bench.session.id));
        }
        Self { heard, said, asked: bench.model.prompts().len() }
    }
}

async fn bench() -> Bench {
    Bench::configured(json!({"permission": {"bash": "ask"}})).await
}

/// Stops the work of a living process.
async fn stopped_alive(prompt: &str, standing: Standing) -> Remains {
    let mut bench = bench().await;
    let engine = bench.engine.clone();
    begin(&mut bench, &engine, prompt, standing).await;
    let updates = bench.engine.bus().listen();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    Remains::of(&bench, updates).await
}

/// Stops the work of a process that has died, before another one takes it over.
async fn stopped_dead(prompt: &str, standing: Standing) -> Remains {
    let mut bench = bench().await;
    let other = bench.beside().await;
    begin(&mut bench, &other, prompt, standing).await;
    within("the other engine to end", other.close()).await;
    drop(other);
    let updates = bench.engine.bus().listen();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    bench.engine.recover().await.unwrap();
    Remains::of(&bench, updates).await
}

/// Stops the work of a process that has died, after another one has taken it over.
async fn stopped_taken_over(prompt: &str, standing: Standing) -> Remains {
    let mut bench = bench().await;
    let engine = bench.engine.clone();
    begin(&mut bench, &engine, prompt, standing).await;
    drop(engine);
    bench.restart().await;
    let id = bench.session.id.clone();
    let busy = |update: &SessionUpdate| match update {
        SessionUpdate::Live(live) => (live.session == id && live.signal == Signal::Busy).then_some(()),
        SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
    };
    bench.notice(busy).await;
    let updates = bench.engine.bus().listen();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    Remains::of(&bench, updates).await
}

fn task(prompt: &str) -> String {
    let input = json!({"description": "sub work", "prompt": prompt, "subagent_type": "general"});
    format!("JSONTOOL:task:{input}\nSAY:never said")
}

#[tokio::test]
async fn an_answer_ends_as_if_its_process_lived() {
    // Clients of the process that took over were not told why the work had ended.
    let prompt = "HOLD:x SAY:one two three";
    let alive = stopped_alive(prompt, Standing::Writing).await;
    assert_eq!(alive.heard, ["failed: Aborted", "idle", "part.ended", "step.failed"]);
    assert_eq!(alive.said[0][1], "assistant: one two  !aborted");
    assert_eq!(stopped_dead(prompt, Standing::Writing).await, alive);
}

#[tokio::test]
async fn a_call_that_asks_ends_as_if_its_process_lived() {
    // The request stayed for good, although nobody waited for an answer, and the answer had no fault.
    let prompt = "TOOL:bash:echo no\nSAY:never said";
    let alive = stopped_alive(prompt, Standing::Asking).await;
    let heard = ["request.answered", "tool.settled", "failed: Aborted", "idle", "step.failed"];
    assert_eq!(alive.heard, heard);
    assert_eq!(alive.said[0][1..], ["assistant: (bash) !aborted", "result: Error Tool execution aborted"]);
    assert_eq!(stopped_dead(prompt, Standing::Asking).await, alive);
    assert_eq!(stopped_taken_over(prompt, Standing::Asking).await, alive);
}

#[tokio::test]
async fn a_question_ends_as_if_its_process_lived() {
    let prompt = crate::question::prompt("never said");
    let alive = stopped_alive(&prompt, Standing::Asking).await;
    assert_eq!(stopped_dead(&prompt, Standing::Asking).await, alive);
    assert_eq!(stopped_taken_over(&prompt, Standing::Asking).await, alive);
}

#[tokio::test]
async fn a_task_ends_as_if_its_process_lived() {
    // The session that worked on it was told to go on, and its model was asked again.
    let prompt = task("MUTE:x SAY:never said");
    let alive = stopped_alive(&prompt, Standing::Delegating).await;
    assert_eq!(alive.said[0][1..], ["assistant: (task) !aborted", "result: Error Tool execution aborted"]);
    assert_eq!(alive.said[1], ["user: MUTE:x SAY:never said", "assistant:  !aborted"]);
    assert_eq!(stopped_dead(&prompt, Standing::Delegating).await, alive);
}

#[tokio::test]
async fn a_task_that_asks_ends_as_if_its_process_lived() {
    // It was left asking.
    let prompt = task("TOOL:bash:echo no\nSAY:never said");
    let alive = stopped_alive(&prompt, Standing::Asking).await;
    assert_eq!(alive.said[1][1..], ["assistant: (bash) !aborted", "result: Error Tool execution aborted"]);
    assert_eq!(stopped_dead(&prompt, Standing::Asking).await, alive);
    assert_eq!(stopped_taken_over(&prompt, Standing::Asking).await, alive);
}

#[tokio::test]
async fn what_is_asked_after_the_interrupt_is_answered() {
    let mut bench = bench().await;
    let other = bench.beside().await;
    begin(&mut bench, &other, "TOOL:bash:echo no\nSAY:never said", Standing::Asking).await;
    within("the other engine to end", other.close()).await;
    drop(other);
    let mut updates = bench.engine.bus().listen();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    bench.say("SAY:something else").await;
    let said = bench.transcript().await;
    let expected = ["assistant: (bash) !aborted", "result: Error Tool execution aborted"];
    assert_eq!(said[1..3], expected, "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: something else", "{said:?}");
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
    let heard = overhear(&mut updates, &bench.session.id).await;
    let why = heard.iter().position(|heard| heard == "failed: Aborted");
    let idle = heard.iter().position(|heard| heard == "idle");
    assert!(why.is_some() && why < idle, "{heard:?}");
}

#[tokio::test]
async fn a_session_that_goes_on_after_the_end_of_a_stopped_turn_is_busy() {
    // The end of the turn that was stopped is told as idle, and then the prompt that came after the interrupt is answered.
    let mut bench = bench().await;
    let other = bench.beside().await;
    begin(&mut bench, &other, "HOLD:x SAY:one two three", Standing::Writing).await;
    within("the other engine to end", other.close()).await;
    drop(other);
    let store = bench.other_store().await;
    let interrupt = Event::InterruptRequested {};
    let (id, time) = (bench.engine.mint().event(), bench.engine.mint().now());
    let interrupt = NewEvent { id, time, event: interrupt };
    store.append(&bench.session.id, Authority::Open, vec![interrupt]).await.unwrap();
    let prompt = Prompt::text("HOLD:y SAY:something else");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    within("the answer", bench.model.held("y")).await;
    assert_eq!(bench.engine.drains().statuses(), [(bench.session.id.clone(), Signal::Busy)]);
    bench.model.release("y");
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: something else");
}

#[tokio::test]
async fn a_task_is_stopped_with_its_session_although_nobody_can_take_that_over() {
    // Whoever took the task over first went on with it, for a session that was stopped.
    let mut bench = bench().await;
    let runner = bench.beside().await;
    begin(&mut bench, &runner, &task("HOLD:x SAY:inner"), Standing::Delegating).await;
    within("the other engine to end", runner.close()).await;
    drop(runner);
    let other = OtherProcess::patient(&bench).await;
    let lease = other.take().await;
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    let child = family(&bench).await.remove(1);
    within("the task to settle", bench.engine.drains().settled(&child)).await;
    let session = bench.engine.sessions().get(&child).await.unwrap();
    assert_eq!((session.interrupts, session.open), (1, false));
    assert!(bench.transcript_of(&child).await.last().unwrap().ends_with("!aborted"));
    other.store.release(lease).await.unwrap();
    bench.settled().await;
}
