//! Copying entries into another session.
//!
//! A copy stands on its own: its ids are new, follow from the session and the order of the entries, and ascend, and
//! whatever an entry says of another one is said of the copy.

use std::collections::{HashMap, HashSet};

use crate::derived_ids::DerivedIds;
use crate::entry::{Body, Compaction, Shell};
use crate::event::Seed;
use crate::fault::{Fault, FaultKind};
use crate::ids::{RANDOM, Stamp};
use crate::part::{PartKind, Span};
use crate::tool::{Outcome, ToolResult, ToolState};
use crate::tree::Node;
use crate::{EntryId, Millis, PartId, SessionId};

const STILL_RUNNING: &str = "This call was still running in the session that this one was copied from.";

const COPIED: &str = "This answer was still being written when the session was copied.";

/// The same entries under new ids for `session`; parents come before children. The copy of `leaf` is the new leaf.
#[must_use]
pub fn copy(session: &SessionId, mut nodes: Vec<Node>, leaf: Option<&EntryId>, now: Millis) -> Seed {
    let mut mint = DerivedIds::new(session.as_str());
    // Above the clock, so that what is written next in the fork sorts after the copy.
    mint.above(EntryId::mint(Stamp::at(now, 0), [0; RANDOM]).as_str());
    // All names first: an entry may speak of one that comes later.
    let mut names: HashMap<String, EntryId> = HashMap::with_capacity(nodes.len());
    for node in &mut nodes {
        rename(node, &mut mint, &mut names);
    }
    for node in &mut nodes {
        refer(node, &names);
        for part in &mut node.parts {
            part.id = mint.part(0);
            // What a call asked for is answered in the session that asked.
            part.open = None;
        }
    }
    let leaf = leaf.and_then(|leaf| names.get(leaf.as_str()).cloned());
    Seed { nodes, leaf, ..Seed::default() }
}

/// Closes what was still being written when it was copied: `saved` has the text so far of parts that are open. The copy is
/// nobody's work, so what is open in it would stay so.
pub fn close_open(nodes: &mut [Node], saved: &HashMap<PartId, String>, now: Millis) {
    let settled: HashSet<String> = nodes
        .iter()
        .filter_map(|node| match &node.entry.body {
            Body::ToolResult { result } => Some(result.call.clone()),
            _ => None,
        })
        .collect();
    let open =
        |node: &&mut Node| node.entry.body.assistant().is_some_and(|answer| answer.completed.is_none());
    for node in nodes.iter_mut().filter(open) {
        for part in &mut node.parts {
            match &mut part.kind {
                PartKind::Text { text, time, .. } | PartKind::Reasoning { text, time, .. } => {
                    if let Some(saved) = saved.get(&part.id) {
                        text.clone_from(saved);
                    }
                    if let Some(Span { end: end @ None, .. }) = time {
                        *end = Some(now);
                    }
                }
                PartKind::Tool { call, tool, state, .. }
                    if !state.is_settled() && !settled.contains(call) =>
                {
                    let start = match state {
                        ToolState::Running { start, .. } => Some(*start),
                        _ => None,
                    };
                    let result = ToolResult::new(call, tool, Outcome::Error, STILL_RUNNING);
                    let result = Box::new(ToolResult { start, end: Some(now), ..result });
                    *state = ToolState::Error { input: state.input().clone(), result };
                }
                _ => {}
            }
        }
        if let Body::Shell(shell) = &mut node.entry.body {
            shell.output.get_or_insert_with(|| STILL_RUNNING.to_owned());
        }
        if let Some(answer) = node.entry.body.assistant_mut() {
            answer.completed = Some(now);
            answer.error = Some(Fault::new(FaultKind::CutOff, COPIED));
        }
    }
}

/// Gives an entry its new ids and remembers the old ones.
fn rename(node: &mut Node, mint: &mut DerivedIds, names: &mut HashMap<String, EntryId>) {
    let new = mint.entry(0);
    let old = std::mem::replace(&mut node.entry.id, new.clone());
    if let Some(wire) = node.entry.wire.take() {
        names.insert(wire, new.clone());
    }
    names.insert(old.to_string(), new);
    node.entry.origin = None;
    if let Body::Shell(Shell { pair: Some(pair), .. })
    | Body::Compaction(Compaction { pair: Some(pair), .. }) = &mut node.entry.body
    {
        let second = mint.entry(0);
        names.insert(std::mem::replace(&mut pair.second, second.to_string()), second);
    }
}

/// Makes an entry refer to the copies instead of the originals.
fn refer(node: &mut Node, names: &HashMap<String, EntryId>) {
    let copy_of = |id: EntryId| names.get(id.as_str()).cloned();
    let entry = &mut node.entry;
    entry.parent = entry.parent.take().and_then(copy_of);
    if let Body::Compaction(compaction) = &mut entry.body {
        compaction.first_kept = compaction.first_kept.take().and_then(copy_of);
    }
    if let Body::Label { target, .. } = &mut entry.body {
        *target = target.take().and_then(copy_of);
    }
    if let Some(assistant) = entry.body.assistant_mut() {
        // The surroundings are in the log of the original.
        assistant.sent = None;
    }
    if let Some(assistant) = entry.body.assistant_mut()
        && let Some(answers) = &mut assistant.answers
        && let Some(new) = names.get(answers.as_str())
    {
        *answers = new.to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    fn user(id: &str, parent: Option<&str>) -> Node {
        let parent = parent.map(EntryId::new);
        Node::new(
            Entry::new(EntryId::new(id), parent, 1, Body::User(crate::entry::User::default())),
            Vec::new(),
        )
    }

    #[test]
    fn a_copy_keeps_its_shape_under_new_ids_even_where_children_come_first() {
        let nodes = vec![user("msg_b", Some("msg_a")), user("msg_a", None), user("msg_c", Some("msg_b"))];
        let seed =
            copy(&SessionId::new("ses_x"), nodes.clone(), Some(&EntryId::new("msg_c")), 1_794_711_664_171);
        let [b, a, c] = seed.nodes.as_slice() else { panic!("{seed:?}") };
        assert_eq!(b.entry.parent.as_ref(), Some(&a.entry.id));
        assert_eq!(c.entry.parent.as_ref(), Some(&b.entry.id));
        assert_eq!(seed.leaf.as_ref(), Some(&c.entry.id));
        assert!(b.entry.id < a.entry.id && a.entry.id < c.entry.id, "ids ascend in the order of the entries");
        let again = copy(&SessionId::new("ses_x"), nodes, Some(&EntryId::new("msg_c")), 1_794_711_664_171);
        assert_eq!(again, seed, "the same copy gives the same ids");
    }
}
