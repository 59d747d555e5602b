//! Calls that run in parallel. Each comes back with its result, even if its task died.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use everturn_model::Tree;
use everturn_model::tool::{Outcome, ToolResult};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::Instrument as _;

use super::{CallSurroundings, SettledCall, ToolCall, ToolCalls};
use crate::guards::{CallRepetition, Repetition};
use crate::mint::Mint;

/// How many tools of a turn run at once. Those that only wait for somebody else do not count.
const TOOLS_AT_ONCE: usize = 16;

/// The calls of a turn that run.
#[derive(Debug)]
pub(crate) struct RunningCalls {
    /// The places of those that have been permitted.
    places: Arc<Semaphore>,
    tasks: JoinSet<SettledCall>,
    calls: HashMap<Id, ToolCall>,
    /// The calls of the conversation so far, once one of this turn was started.
    repetition: Option<CallRepetition>,
    mint: Mint,
}

impl RunningCalls {
    /// None yet.
    pub(crate) fn new(mint: Mint) -> Self {
        let places = Arc::new(Semaphore::new(TOOLS_AT_ONCE));
        Self { places, tasks: JoinSet::new(), calls: HashMap::new(), repetition: None, mint }
    }

    /// Starts a call that is in the tree, after those that came before it.
    pub(crate) fn start(
        &mut self,
        calls: &ToolCalls,
        setting: CallSurroundings,
        tree: &Tree,
        call: ToolCall,
    ) {
        let repeats = self.repetition(tree, &call);
        let places = Arc::clone(&self.places);
        let execution = calls.clone().execute(setting, call.clone(), repeats, places);
        let task = self.tasks.spawn(execution.in_current_span());
        self.calls.insert(task.id(), call);
    }

    /// Whether a call completes a loop. The conversation is looked through once in a turn.
    fn repetition(&mut self, tree: &Tree, call: &ToolCall) -> Option<Repetition> {
        match &mut self.repetition {
            // After a restart some of the calls in between have settled, and are not started again.
            Some(calls) if !call.again => calls.add(&call.tool, &call.input),
            slot => {
                let (calls, repeats) = CallRepetition::up_to(tree, &call.part);
                *slot = Some(calls);
                repeats
            }
        }
    }

    /// Whether none runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next call that has ended; none when none runs. Nothing is lost when nobody waits for it any more.
    pub(crate) async fn next(&mut self) -> Option<SettledCall> {
        loop {
            match self.tasks.join_next_with_id().await? {
                Ok((id, settled)) => {
                    self.calls.remove(&id);
                    return Some(settled);
                }
                Err(error) => {
                    // Each task was noted when it was started.
                    if let Some(call) = self.calls.remove(&error.id()) {
                        return Some(died(call, error, &self.mint));
                    }
                }
            }
        }
    }
}

/// The result of a call whose task died. Whether it took effect is not known.
fn died(call: ToolCall, error: JoinError, mint: &Mint) -> SettledCall {
    let reason = match error.try_into_panic() {
        Ok(panic) => format!("it failed with \"{}\"", message(&*panic)),
        Err(_) => "it was cut off".to_owned(),
    };
    tracing::error!(tool = call.tool, call = call.id, reason, "the task of a call died");
    let text = format!(
        "The call to {} did not come to an end: {reason}, because of a defect and not because of its arguments. It may \
         have taken effect in full, in part or not at all. Check the actual state before you go on.",
        call.tool
    );
    let result = ToolResult {
        start: Some(call.start),
        end: Some(mint.now()),
        ..ToolResult::new(&call.id, &call.tool, Outcome::Unknown, &text)
    };
    SettledCall { call, result, declined: false, edited: Vec::new() }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
