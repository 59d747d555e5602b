//! Calls beside what else happens: they begin while the answer still comes, and are settled when their task dies or the
//! provider fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everturn_engine::{Options, Prompt};
use everturn_model::session::ModelRef;
use everturn_testkit::within;
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bench::Bench;
use crate::replay::polyglot;
use crate::turn::begun;

/// A tool that panics where nobody catches it: when it is asked for its name after its call was looked at.
#[derive(Debug, Default)]
struct Dying {
    /// Whether a call waits for ever instead.
    waits: AtomicBool,
    /// Whether the next one who asks for the name gets a panic.
    armed: AtomicBool,
    begun: Notify,
}

impl Tool for Dying {
    fn name(&self) -> &str {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "the tool fell over");
        "dying"
    }

    fn description(&self) -> &'static str {
        "Dies."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        self.armed.store(!self.waits.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(Vec::new())
    }

    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async {
            self.begun.notify_one();
            std::future::pending().await
        })
    }
}

fn with(tool: &Arc<Dying>) -> impl FnOnce(&mut Options) {
    let tool = Arc::clone(tool);
    move |options| options.tools.register(tool).unwrap().keep()
}

async fn check_died(bench: &Bench) {
    let transcript = bench.transcript().await;
    assert_eq!(transcript.len(), 4, "{transcript:?}");
    let reason =
        "result: Unknown The call to dying did not come to an end: it failed with \"the tool fell over\"";
    assert!(transcript[2].starts_with(reason), "{transcript:?}");
    assert_eq!(transcript[3], "assistant: ok");
    // The model hears of it.
    let heard = bench.model.prompts().pop().unwrap().to_string();
    assert!(heard.contains("the tool fell over"), "{heard}");
}

#[tokio::test]
async fn a_call_whose_task_dies_is_settled_with_the_reason() {
    // It was once left without a result, and nobody heard why.
    let tool = Arc::new(Dying::default());
    let bench = Bench::with(|_| json!({}), with(&tool)).await;
    bench.say("JSONTOOL:dying:{}\nSAY:ok").await;
    check_died(&bench).await;
}

#[tokio::test]
async fn a_call_whose_task_dies_in_recovery_is_settled_with_the_reason() {
    // The recovery once failed as a whole, was tried again ten times and then left the session open.
    let tool = Arc::new(Dying::default());
    let mut bench = Bench::with(|_| json!({}), with(&tool)).await;
    tool.waits.store(true, Ordering::SeqCst);
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("JSONTOOL:dying:{}\nSAY:ok")).await.unwrap();
    within("the call to begin", tool.begun.notified()).await;
    tool.waits.store(false, Ordering::SeqCst);
    bench.restart().await;
    bench.settled().await;
    check_died(&bench).await;
}

#[tokio::test]
async fn a_tool_begins_while_the_rest_of_the_answer_still_comes() {
    let mut bench = polyglot().await;
    let model = ModelRef { provider: "messages".into(), model: "one".into(), variant: None };
    let wait = "echo begun; until [ -e go ]; do sleep 0.05; done";
    let text = format!("TOGETHER:2 HOLD:x\nTOOL:bash:{wait}\nTOOL:read:a.txt\nSAY:done");
    let prompt = Prompt { model: Some(model), ..Prompt::text(&text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.model.held("x").await;
    bench.notice(begun).await;
    bench.repo.write("go", "");
    bench.model.release("x");
    bench.settled().await;
    let said = bench.transcript().await;
    let completed = said.iter().filter(|line| line.starts_with("result: Completed")).count();
    assert_eq!((completed, said.last().unwrap().as_str()), (2, "assistant: done"), "{said:?}");
}

#[tokio::test]
async fn a_call_before_a_failure_of_the_provider_is_settled_and_the_work_ends() {
    let bench = polyglot().await;
    let calls = "TOOL:bash:sleep 600\nTOOL:read:a.txt";
    let text = format!("TOGETHER:2 FAIL:invalid_request_error ERRTEXT:broken\n{calls}\nSAY:never said");
    bench.say_to("messages", "one", &text).await;
    let said = bench.transcript().await;
    assert!(said[1].starts_with("assistant: (bash)") && said[1].ends_with("!api"), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("result: ")), "{said:?}");
    assert_eq!(bench.model.prompts().len(), 1, "{said:?}");
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}
