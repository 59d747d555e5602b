//! How many steps an agent takes for one prompt.
//!
//! A step is one turn: a request and what the model asked for in it. They are counted on the path, from the newest prompt
//! on, so a restart and a branch come to the same number, and whatever is promoted lets the agent begin anew, once however
//! many prompts it was.

use everturn_model::entry::Body;
use everturn_model::tree::Node;

/// What is said behind the conversation in the last step.
pub(crate) const LAST_STEP: &str = "This is the last step that you may take for this prompt: no tool can be called any \
more. Answer in text. Say what is done, what is not, and what should be done next.";

/// Whether the next turn on a path is the last one that an agent with this allowance may take.
pub(crate) fn is_last(path: &[&Node], allowance: Option<u64>) -> bool {
    allowance.is_some_and(|allowance| taken(path) + 1 >= allowance)
}

/// The steps since the newest prompt. One that failed was none: what it was for is tried again.
fn taken(path: &[&Node]) -> u64 {
    let since = path.iter().rev().take_while(|node| !matches!(node.entry.body, Body::User(_)));
    let steps = since.filter(|node| match &node.entry.body {
        Body::Assistant(assistant) => assistant.error.is_none() && !assistant.delegated,
        _ => false,
    });
    steps.fold(0, |count, _| count + 1)
}
