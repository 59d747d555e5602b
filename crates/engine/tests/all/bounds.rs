//! How much is done at once: turns of all sessions, and tools of a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everturn_engine::sessions::NewSession;
use everturn_engine::{Options, Prompt, SessionUpdate};
use everturn_model::part::PartKind;
use everturn_model::{Event, Session, SessionId};
use everturn_testkit::within;
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bench::Bench;

/// With so many places for turns.
async fn places(turns: usize) -> Bench {
    Bench::with(|_| json!({}), |options| options.turns = turns).await
}

async fn another(bench: &Bench) -> Session {
    let location = bench.engine.projects().location(None).await.unwrap();
    let new = NewSession { title: Some("another".into()), ..NewSession::default() };
    bench.engine.sessions().create(&location, new).await.unwrap()
}

/// Prompts a session and waits until its turn is in the log, so that it streams or waits for its place.
async fn begin(bench: &mut Bench, session: &SessionId, text: &str) {
    bench.engine.inbox().admit(session, Prompt::text(text)).await.unwrap();
    bench
        .notice(|update| match update {
            SessionUpdate::Committed(committed) if committed.tree.session.id == *session => {
                matches!(committed.record.event, Event::StepStarted { .. }).then_some(())
            }
            _ => None,
        })
        .await;
}

async fn settled(bench: &Bench, session: &SessionId) {
    within("the session", bench.engine.drains().settled(session)).await;
}

#[tokio::test]
async fn only_so_many_turns_stream_at_once() {
    let mut bench = places(2).await;
    let (first, second, third) =
        (bench.session.id.clone(), another(&bench).await.id, another(&bench).await.id);
    begin(&mut bench, &first, "HOLD:a SAY:one more").await;
    begin(&mut bench, &second, "HOLD:b SAY:two more").await;
    bench.model.held("a").await;
    bench.model.held("b").await;
    begin(&mut bench, &third, "HOLD:c SAY:three more").await;
    assert_eq!(bench.model.prompts().len(), 2);
    assert!(bench.engine.drains().is_running(&third));
    bench.model.release("a");
    // The third one begins after the first one is done, while the second one still has its place.
    let order = bench
        .notice({
            let mut ended = false;
            move |update| {
                let SessionUpdate::Committed(committed) = update else { return None };
                match &committed.record.event {
                    Event::StepEnded { .. } => {
                        ended |= committed.tree.session.id == first;
                        None
                    }
                    Event::PartAdded { part, .. } if matches!(part.kind, PartKind::StepStart { .. }) => {
                        (committed.tree.session.id == third).then_some(ended)
                    }
                    _ => None,
                }
            }
        })
        .await;
    assert!(order, "it had no place yet");
    bench.model.release("b");
    bench.model.release("c");
    for session in [second, bench.session.id.clone()] {
        settled(&bench, &session).await;
    }
}

#[tokio::test]
async fn no_session_waits_for_another_to_be_done() {
    let mut bench = places(1).await;
    let first = bench.session.id.clone();
    let steps: String =
        ["a", "b", "c"].map(|name| format!("JSONTOOL:read:{{\"filePath\":\"{name}.txt\"}}\n")).concat();
    begin(&mut bench, &first, &format!("first\nHOLD:a\n{steps}SAY:done")).await;
    bench.model.held("a").await;
    let mut others = Vec::new();
    for name in ["second", "third", "fourth"] {
        let other = another(&bench).await.id;
        begin(&mut bench, &other, &format!("{name}\n{steps}SAY:done")).await;
        others.push(other);
    }
    bench.model.release("a");
    for session in others.iter().chain([&first]) {
        settled(&bench, session).await;
    }
    let names = ["first", "second", "third", "fourth"];
    let asked: Vec<&str> = bench
        .model
        .prompts()
        .iter()
        .filter_map(|prompt| {
            let text = prompt["messages"].to_string();
            names.into_iter().find(|name| text.contains(&format!("{name}\\n")))
        })
        .collect();
    assert_eq!(asked.len(), 16, "{asked:?}");
    assert_eq!(asked[..4], names, "{asked:?}");
}

#[tokio::test]
async fn a_parent_that_waits_for_its_child_holds_no_place() {
    // With a place for the whole turn, one session with one subagent would wait for itself for ever.
    let bench = places(1).await;
    let task = json!({"description": "sub work", "prompt": "SAY:from below", "subagent_type": "general"});
    bench.say(&format!("JSONTOOL:task:{task}\nSAY:done")).await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: done");
}

#[tokio::test]
async fn a_turn_that_waits_for_a_place_can_be_stopped() {
    let mut bench = places(1).await;
    let (first, second) = (bench.session.id.clone(), another(&bench).await.id);
    begin(&mut bench, &first, "HOLD:a SAY:one more").await;
    bench.model.held("a").await;
    begin(&mut bench, &second, "SAY:never").await;
    within("the stop", bench.engine.drains().abort(&second)).await.unwrap();
    settled(&bench, &second).await;
    assert_eq!(bench.transcript_of(&second).await, ["user: SAY:never", "assistant:  !aborted"]);
    bench.model.release("a");
    bench.settled().await;
    // And it takes nobody's place.
    bench.say("SAY:again").await;
    assert_eq!(bench.model.prompts().len(), 2);
}

/// Two tools: calls of the one wait for the other, which lets them go on once so many of them run.
#[derive(Debug)]
struct Gathering {
    gate: Semaphore,
    running: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug)]
struct Gathered(Arc<Gathering>);

#[derive(Debug)]
struct Opening(Arc<Gathering>);

impl Tool for Gathered {
    fn name(&self) -> &'static str {
        "gathered"
    }

    fn description(&self) -> &'static str {
        "Waits."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> Effect {
        Effect::Opaque
    }

    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }

    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async {
            let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.most.fetch_max(running, Ordering::SeqCst);
            let _passed = self.0.gate.acquire().await;
            self.0.running.fetch_sub(1, Ordering::SeqCst);
            Ok(Output::default())
        })
    }
}

impl Tool for Opening {
    fn name(&self) -> &'static str {
        "opening"
    }

    fn description(&self) -> &'static str {
        "Lets the others go on."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    /// As of one that acts on sessions, and may wait for them.
    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }

    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async {
            while self.0.running.load(Ordering::SeqCst) < 16 {
                tokio::task::yield_now().await;
            }
            // More of them would begin now.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            self.0.gate.add_permits(1_000);
            Ok(Output::default())
        })
    }
}

#[tokio::test]
async fn sixteen_tools_of_a_turn_run_at_once_and_the_others_after_them() {
    // All of them did, however many the model asked for. One that waits for others takes no place from them.
    let gathering = Arc::new(Gathering { gate: Semaphore::new(0), running: 0.into(), most: 0.into() });
    let register = {
        let (gathered, opening) = (Gathered(Arc::clone(&gathering)), Opening(Arc::clone(&gathering)));
        move |options: &mut Options| {
            options.tools.register(Arc::new(gathered)).unwrap().keep();
            options.tools.register(Arc::new(opening)).unwrap().keep();
        }
    };
    let bench = Bench::with(|_| json!({}), register).await;
    // The same call again and again would be asked about.
    let calls: String = (0..32).map(|number| format!("JSONTOOL:gathered:{{\"n\":{number}}}\n")).collect();
    bench.say(&format!("TOGETHER:33\n{calls}JSONTOOL:opening:{{}}\nSAY:done")).await;
    let transcript = bench.transcript().await;
    assert_eq!(transcript.iter().filter(|line| line.starts_with("result: Completed")).count(), 33);
    let most = gathering.most.load(Ordering::SeqCst);
    assert_eq!((transcript.last().unwrap().as_str(), most), ("assistant: done", 16));
}
