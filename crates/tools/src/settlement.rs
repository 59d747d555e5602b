//! The one way in which every call ends: in time, within bounds, whatever the tool does.
//!
//! A tool that panics fails its own call and nothing else. A tool that goes on after it was told to stop is left
//! behind after [`SettlementRules::grace`]. The text of a result, and that of a failure, fits the limits before
//! anyone sees it, and so do the files that travel with it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use crate::bound::{OutputLimits, bound, fits};
use crate::tool::{Context, Failure, Output, Tool};

/// How calls are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettlementRules {
    /// The largest text that goes to the model whole.
    pub limits: OutputLimits,
    /// How long a tool may go on after it was told to stop.
    pub grace: Duration,
    /// The most bytes of the addresses of files that travel with an output.
    pub attachments: usize,
}

impl Default for SettlementRules {
    fn default() -> Self {
        Self {
            limits: OutputLimits::default(),
            grace: Duration::from_secs(10),
            // 20 MiB as base64.
            attachments: 28 * 1024 * 1024,
        }
    }
}

/// Runs a call to its end.
pub async fn settle(
    tool: &dyn Tool,
    input: Value,
    context: Context,
    rules: SettlementRules,
) -> Result<Output, Failure> {
    let (cancel, dir) = (context.cancel.clone(), context.scope.output_dir.clone());
    let name = tool.name().to_owned();
    let running = AssertUnwindSafe(async move { tool.run(input, context).await }).catch_unwind();
    tokio::pin!(running);
    let patience = async {
        cancel.cancelled().await;
        tokio::time::sleep(rules.grace).await;
    };
    let ended = tokio::select! {
        biased;
        ended = &mut running => ended,
        () = patience => {
            tracing::warn!(tool = name, "a cancelled call did not stop in time and was left behind");
            return Err(Failure::Failed(format!(
                "'{name}' was told to stop and did not. It was left behind; what it did is not known."
            )));
        }
    };
    let outcome = ended.unwrap_or_else(|_| {
        tracing::error!(tool = name, "a tool panicked");
        Err(Failure::Failed(format!("'{name}' failed because of a defect of its own, not of the arguments.")))
    });
    // Writing a large text to disk is not for the threads that carry the streams.
    tokio::task::spawn_blocking(move || match outcome {
        Ok(output) => Ok(shape(output, rules, &dir)),
        Err(failure) => Err(shorten(failure, rules.limits, &dir)),
    })
    .await
    .unwrap_or_else(|_| Err(Failure::Failed(format!("The result of '{name}' could not be kept."))))
}

/// Makes an output fit.
fn shape(mut output: Output, rules: SettlementRules, dir: &std::path::Path) -> Output {
    let mut room = rules.attachments;
    let before = output.attachments.len();
    output.attachments.retain(|file| match room.checked_sub(file.url.len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    });
    let dropped = before - output.attachments.len();
    if dropped > 0 {
        output.output.push_str(&format!("\n\n({dropped} files were too large to be attached.)"));
    }
    // A tool that shaped its text itself knows better what matters, and may add a few lines of its own to what it
    // shows; the limit still holds against one that only says so.
    let limits = if output.shaped {
        OutputLimits { lines: rules.limits.lines * 2, bytes: rules.limits.bytes * 2 }
    } else {
        rules.limits
    };
    if fits(&output.output, limits) {
        return output;
    }
    let bounded = bound(std::mem::take(&mut output.output), rules.limits, dir);
    output.output = bounded.text;
    output.metadata.insert("truncated".to_owned(), Value::Bool(true));
    // A path that the tool manages itself stays.
    if output.output_path.is_none() {
        if let Some(path) = &bounded.path {
            output.metadata.insert("outputPath".to_owned(), json!(path.display().to_string()));
        }
        output.output_path = bounded.path;
    }
    output
}

fn shorten(failure: Failure, limits: OutputLimits, dir: &std::path::Path) -> Failure {
    match failure {
        Failure::InvalidInput(text) => Failure::InvalidInput(bound(text, limits, dir).text),
        Failure::Failed(text) => Failure::Failed(bound(text, limits, dir).text),
        other @ (Failure::Declined(_) | Failure::Cancelled) => other,
    }
}
