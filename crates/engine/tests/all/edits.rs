//! Edits that a crash cut off: their files show whether they happened, so none is lost and none is made twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everturn_engine::{Options, Prompt, SessionUpdate};
use everturn_model::Event;
use everturn_model::request::{Reply, Request};
use everturn_testkit::within;
use everturn_tools::edit::EditTool;
use everturn_tools::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::bench::Bench;
use crate::permission::{ask, asked};

/// Where a call is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutAt {
    /// Before it acts.
    Before,
    /// After it acted.
    After,
}

/// The real `edit`, whose first calls hang where the process is to end.
#[derive(Debug)]
struct Hanging {
    cut: CutAt,
    /// How many calls still hang.
    hanging: Semaphore,
    hung: Notify,
    runs: AtomicUsize,
}

impl Hanging {
    fn new(cut: CutAt, calls: usize) -> Arc<Self> {
        Arc::new(Self { cut, hanging: Semaphore::new(calls), hung: Notify::new(), runs: AtomicUsize::new(0) })
    }

    /// How often it was run.
    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Tool for Hanging {
    fn name(&self) -> &'static str {
        EditTool.name()
    }

    fn description(&self) -> &'static str {
        EditTool.description()
    }

    fn permission(&self) -> &'static str {
        EditTool.permission()
    }

    fn schema(&self) -> Value {
        EditTool.schema()
    }

    fn effect(&self) -> Effect {
        EditTool.effect()
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        EditTool.needs(input, scope)
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        EditTool.forecast(input, scope)
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            self.runs.fetch_add(1, Ordering::SeqCst);
            let Ok(hangs) = self.hanging.try_acquire() else { return EditTool.run(input, context).await };
            hangs.forget();
            if self.cut == CutAt::After {
                EditTool.run(input, context).await.unwrap();
            }
            self.hung.notify_one();
            std::future::pending().await
        })
    }
}

fn with(tool: &Arc<Hanging>) -> impl FnOnce(&mut Options) {
    let tool = Arc::clone(tool);
    move |options| options.tools.register(tool).unwrap().keep()
}

fn change(bench: &Bench, from: &str, to: &str) -> String {
    let path = bench.repo.join("a.txt");
    let input = json!({"filePath": path, "oldString": from, "newString": to});
    format!("JSONTOOL:edit:{input}\nSAY:done")
}

fn file(bench: &Bench) -> String {
    std::fs::read_to_string(bench.repo.join("a.txt")).unwrap()
}

/// A session whose edit hangs.
async fn hanging(tool: &Arc<Hanging>) -> Bench {
    let bench = Bench::with(|_| json!({}), with(tool)).await;
    let prompt = change(&bench, "hello", "goodbye");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    within("the call to hang", tool.hung.notified()).await;
    bench
}

#[tokio::test]
async fn an_edit_whose_file_has_it_is_settled_as_completed() {
    let tool = Hanging::new(CutAt::After, 1);
    let mut bench = hanging(&tool).await;
    assert_eq!(file(&bench), "goodbye\n");
    bench.restart().await;
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].starts_with("result: Completed The process ended before"), "{transcript:?}");
    assert_eq!(transcript[3], "assistant: done");
    assert_eq!((tool.runs(), file(&bench).as_str()), (1, "goodbye\n"), "it was not run again");
    let told = bench.model.prompts().pop().unwrap().to_string();
    assert!(told.contains("it took effect in full"), "{told}");

    // The session knows what is in the file now: another edit needs no reading before.
    let another = change(&bench, "goodbye", "welcome");
    bench.say(&another).await;
    assert_eq!(file(&bench), "welcome\n");
}

#[tokio::test]
async fn an_edit_whose_file_is_as_before_runs_again() {
    let tool = Hanging::new(CutAt::Before, 1);
    let mut bench = hanging(&tool).await;
    bench.restart().await;
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].starts_with("result: Completed Edit applied"), "{transcript:?}");
    assert_eq!((tool.runs(), file(&bench).as_str()), (2, "goodbye\n"));
}

#[tokio::test]
async fn an_edit_whose_file_is_neither_is_unknown() {
    for cut in [CutAt::Before, CutAt::After] {
        let tool = Hanging::new(cut, 1);
        let mut bench = hanging(&tool).await;
        std::fs::write(bench.repo.join("a.txt"), "hello, somebody else\n").unwrap();
        bench.restart().await;
        bench.settled().await;
        let transcript = bench.transcript().await;
        assert!(transcript[2].starts_with("result: Unknown"), "{cut:?}: {transcript:?}");
        assert_eq!((tool.runs(), file(&bench).as_str()), (1, "hello, somebody else\n"), "{cut:?}");
    }
}

#[tokio::test]
async fn two_edits_of_one_file_are_not_told_apart() {
    // The second may undo the first: the file is as before both, and yet both have happened.
    let tool = Hanging::new(CutAt::Before, 2);
    let mut bench = Bench::with(|_| json!({}), with(&tool)).await;
    let path = bench.repo.join("a.txt");
    let call = |to: &str| json!({"filePath": path, "oldString": "hello", "newString": to});
    let calls = format!("JSONTOOL:edit:{}\nJSONTOOL:edit:{}", call("one"), call("two"));
    let prompt = format!("TOGETHER:2\n{calls}\nSAY:done");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    within("both calls to hang", async {
        while tool.hanging.available_permits() > 0 {
            tool.hung.notified().await;
        }
    })
    .await;
    bench.restart().await;
    bench.settled().await;
    let transcript = bench.transcript().await;
    let unknown = transcript.iter().filter(|line| line.starts_with("result: Unknown")).count();
    assert_eq!(unknown, 2, "{transcript:?}");
    assert_eq!((tool.runs(), file(&bench).as_str()), (2, "hello\n"));
}

#[tokio::test]
async fn an_edit_that_a_settled_one_has_undone_is_unknown() {
    // The file is as before the first one, which was therefore run again, and the second one was lost.
    let tool = Hanging::new(CutAt::After, 1);
    let mut bench = Bench::with(|_| json!({"permission": {"edit": "ask"}}), with(&tool)).await;
    let path = bench.repo.join("a.txt");
    let call = |from: &str, to: &str| json!({"filePath": path, "oldString": from, "newString": to});
    let calls =
        format!("JSONTOOL:edit:{}\nJSONTOOL:edit:{}", call("hello", "goodbye"), call("goodbye", "hello"));
    let first = ask(&mut bench, &format!("TOGETHER:2\n{calls}\nSAY:done")).await;
    let second = asked(&mut bench).await;
    // Two calls of one answer run side by side: whichever comes first may ask first.
    let of_first = |request: &Request| format!("{:?}", request.ask).contains("-hello");
    let (first, second) = if of_first(&first) { (first, second) } else { (second, first) };
    assert!(of_first(&first) && !of_first(&second), "{first:?} {second:?}");
    bench.engine.requests().reply(&first.id, Reply::Once, None).await.unwrap();
    within("the first call to hang", tool.hung.notified()).await;
    assert_eq!(file(&bench), "goodbye\n");
    bench.engine.requests().reply(&second.id, Reply::Once, None).await.unwrap();
    bench
        .notice(|notice| match notice {
            SessionUpdate::Committed(committed) => {
                matches!(committed.record.event, Event::ToolSettled { .. }).then_some(())
            }
            SessionUpdate::Live(_) | SessionUpdate::Gap => None,
        })
        .await;
    assert_eq!(file(&bench), "hello\n");
    bench.restart().await;
    bench.settled().await;
    let transcript = bench.transcript().await;
    let results: Vec<&String> = transcript.iter().filter(|line| line.starts_with("result: ")).collect();
    assert!(results[0].starts_with("result: Completed Edit applied"), "{results:?}");
    assert!(results[1].starts_with("result: Unknown"), "{results:?}");
    assert_eq!((tool.runs(), file(&bench).as_str()), (2, "hello\n"));
}

#[tokio::test]
async fn a_permission_that_was_given_is_not_asked_for_again() {
    let tool = Hanging::new(CutAt::Before, 1);
    let mut bench = Bench::with(|_| json!({"permission": {"edit": "ask"}}), with(&tool)).await;
    let prompt = change(&bench, "hello", "goodbye");
    let request = ask(&mut bench, &prompt).await;
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    within("the call to hang", tool.hung.notified()).await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!((tool.runs(), file(&bench).as_str()), (2, "goodbye\n"));
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let asked = log.iter().filter(|record| matches!(record.event, Event::RequestAsked { .. })).count();
    assert_eq!(asked, 1);
}
