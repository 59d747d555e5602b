//! Calls whose task dies: they are settled with the reason, and the conversation goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everturn_engine::{Options, Prompt};
use everturn_testkit::within;
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bench::Bench;

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
