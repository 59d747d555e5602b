//! What has to be in the log before something happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everturn_engine::{Notice, Prompt, Signal};
use everturn_testkit::{Refusal, within};
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use serde_json::{Value, json};

use crate::bench::Bench;

/// A tool that counts how often it was touched.
#[derive(Debug, Default)]
struct Probe {
    /// How often it was asked what it needs, which comes before all else.
    asked: AtomicUsize,
    run: AtomicUsize,
}

impl Probe {
    fn touched(&self) -> (usize, usize) {
        (self.asked.load(Ordering::SeqCst), self.run.load(Ordering::SeqCst))
    }
}

/// The probe as a tool, while the test keeps the probe itself.
#[derive(Debug)]
struct Probing(Arc<Probe>);

impl Tool for Probing {
    fn name(&self) -> &str {
        "probe"
    }
    fn description(&self) -> &str {
        "counts"
    }
    fn schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effect(&self) -> Effect {
        Effect::Opaque
    }
    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    }
    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        self.0.run.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Output::default()) })
    }
}

#[tokio::test]
async fn a_tool_does_not_start_before_its_call_is_in_the_log() {
    // A tool that was started beside the commit of its call, and not after it, went unnoticed.
    let probe = Arc::new(Probe::default());
    let tool = Arc::new(Probing(Arc::clone(&probe)));
    let mut data = std::path::PathBuf::new();
    let change = |options: &mut everturn_engine::Options| {
        options.tools.register(tool).unwrap().keep();
        data.clone_from(&options.paths.data);
    };
    let mut bench = Bench::with(|_| json!({}), change).await;

    let refusal = Refusal::of(&data, "tool.called");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("JSONTOOL:probe:{}\nSAY:done")).await.unwrap();
    let failure = bench
        .notice(|notice| match notice {
            Notice::Live(live) => match &live.signal {
                Signal::Failed { error } => Some(format!("{error:?}")),
                _ => None,
            },
            Notice::Committed(_) => None,
        })
        .await;
    assert!(failure.contains("the test takes no tool.called"), "{failure}");
    assert_eq!(probe.touched(), (0, 0), "the call is not in the log");

    refusal.lift();
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    bench.settled().await;
    assert_eq!(probe.touched(), (0, 0), "what was never recorded is not run later");
    // The tool is one that runs.
    bench.say("JSONTOOL:probe:{}\nSAY:done").await;
    assert_eq!(probe.touched(), (1, 1));
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: done");
}
