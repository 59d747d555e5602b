//! What a path means.
//!
//! The conversation is the path from a root to a leaf. Selections, the Context Epoch, the compaction cut and the sums
//! of usage are functions of the path, so a branch or a revert never leaves stale state behind; the session row only
//! caches the leaf's.

use std::collections::{HashMap, HashSet};

use crate::entry::{Body, Compaction};
use crate::session::ModelRef;
use crate::tool::ToolResult;
use crate::tree::{Node, Tree};
use crate::{EntryId, Money, Session, Tokens};

/// The nodes from the root to `leaf`. A parent that is missing ends the walk, and so does a cycle.
#[must_use]
pub fn to<'a>(tree: &'a Tree, leaf: Option<&EntryId>) -> Vec<&'a Node> {
    let mut nodes = Vec::new();
    let mut seen = HashSet::new();
    let mut next = leaf;
    while let Some(node) = next.and_then(|id| tree.node(id)) {
        if !seen.insert(&node.entry.id) {
            break;
        }
        next = node.entry.parent.as_ref();
        nodes.push(node);
    }
    nodes.reverse();
    nodes
}

/// What a path selects and sums up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathState {
    /// The agent for the next turn.
    pub agent: Option<String>,
    /// The model for the next turn.
    pub model: Option<ModelRef>,
    /// The thinking level for the next turn.
    pub thinking: Option<String>,
    /// The newest Context Epoch.
    pub epoch: Option<EntryId>,
    /// The newest finished compaction.
    pub compaction: Option<EntryId>,
    /// Tokens of the turns on it.
    pub tokens: Tokens,
    /// Their cost.
    pub cost: Money,
}

impl PathState {
    /// The state that a session row caches.
    #[must_use]
    pub fn cached(session: &Session) -> Self {
        Self {
            agent: session.agent.clone(),
            model: session.model.clone(),
            thinking: session.thinking.clone(),
            epoch: session.epoch.clone(),
            compaction: session.compaction.clone(),
            tokens: session.tokens,
            cost: session.cost,
        }
    }

    /// Puts the state into a session row.
    pub fn store(self, session: &mut Session) {
        session.agent = self.agent;
        session.model = self.model;
        session.thinking = self.thinking;
        session.epoch = self.epoch;
        session.compaction = self.compaction;
        session.tokens = self.tokens;
        session.cost = self.cost;
    }

    /// Goes one entry further.
    pub fn step(&mut self, node: &Node) {
        let entry = &node.entry;
        match &entry.body {
            Body::User(user) => {
                set(&mut self.agent, user.agent.as_ref());
                set(&mut self.model, user.model.as_ref());
            }
            // The model of a task is not the conversation's.
            Body::Assistant(assistant) if assistant.delegated => {}
            Body::Assistant(assistant) => set(&mut self.model, assistant.model.as_ref()),
            Body::AgentSwitch { agent } => self.agent = Some(agent.clone()),
            Body::ModelSwitch { model } => self.model = Some(model.clone()),
            Body::ThinkingSwitch { level } => self.thinking.clone_from(level),
            Body::Epoch { .. } => self.epoch = Some(entry.id.clone()),
            // One that was undone has ended nothing.
            Body::Compaction(compaction) if compaction.summary.is_some() && !entry.hidden => {
                self.compaction = Some(entry.id.clone());
                self.epoch = None;
            }
            _ => {}
        }
        if let Some(assistant) = entry.body.assistant()
            && !entry.hidden
        {
            self.tokens = self.tokens.plus(&assistant.tokens);
            self.cost += assistant.cost;
        }
    }
}

fn set<T: Clone>(slot: &mut Option<T>, value: Option<&T>) {
    if let Some(value) = value {
        *slot = Some(value.clone());
    }
}

/// The state at the end of a path.
pub fn state<'a>(path: impl IntoIterator<Item = &'a Node>) -> PathState {
    let mut state = PathState::default();
    for node in path {
        state.step(node);
    }
    state
}

/// The results on a path, by the assistant that they belong to and the id of the call.
pub type ResultsByCall<'a> = HashMap<(&'a EntryId, &'a str), &'a ToolResult>;

/// The results on a path. A result belongs to the nearest assistant above it that holds the call; a call that was
/// settled twice keeps the last result.
#[must_use]
pub fn results<'a>(path: &[&'a Node]) -> ResultsByCall<'a> {
    let mut holder: HashMap<&str, &EntryId> = HashMap::new();
    let mut results = HashMap::new();
    for node in path {
        match &node.entry.body {
            Body::ToolResult { result } if !node.entry.hidden => {
                if let Some(assistant) = holder.get(result.call.as_str()) {
                    results.insert((*assistant, result.call.as_str()), result.as_ref());
                }
            }
            _ => {
                for call in node.parts.iter().filter_map(|part| part.kind.call()) {
                    holder.insert(call, &node.entry.id);
                }
            }
        }
    }
    results
}

/// The part of a path that the model sees: the newest finished compaction (if any), then the indices that follow it:
/// what it keeps from before itself, and everything after it.
#[must_use]
pub fn visible(path: &[&Node]) -> (Option<usize>, Vec<usize>) {
    let cut = path.iter().rposition(|node| {
        matches!(&node.entry.body, Body::Compaction(Compaction { summary: Some(_), .. }))
            && !node.entry.hidden
    });
    let Some(cut) = cut else { return (None, (0..path.len()).collect()) };
    let first_kept = path.get(cut).and_then(|node| match &node.entry.body {
        Body::Compaction(compaction) => compaction.first_kept.as_ref(),
        _ => None,
    });
    let kept = first_kept
        .and_then(|first| path.iter().take(cut).position(|node| &node.entry.id == first))
        .unwrap_or(cut);
    (Some(cut), (kept..cut).chain(cut + 1..path.len()).collect())
}
