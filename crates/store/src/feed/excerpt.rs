//! Events that another process wrote, with the rows that they touched.
//!
//! The rows are those of the moment of reading, which may be later than the event. What an event brings itself is taken
//! from the event, so that nothing shows before it has happened where that can be avoided. What touches a whole session
//! comes with the session's row alone: see [`Committed::lacks_rows`].

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_model::tree::Node;
use everturn_model::{Event, Record, SessionId, Tree};

use crate::Error;
use crate::append::{Committed, WrittenBy};
use crate::plan::NeededRows;

/// A session whose log is to be read.
#[derive(Debug, Clone)]
pub(crate) struct WantedLog {
    pub(crate) session: SessionId,
    /// From this seq on; none means from the first event after the moment that the look began from.
    pub(crate) first: Option<u64>,
}

/// What was found of a log: none when there is no such session, or nothing to read. One that cannot be read does not
/// keep the others from being read.
pub(crate) type FoundLog = Result<Option<Excerpt>, Error>;

/// A piece of a session's log, and the session as it was when that was read.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// The seq of the session's last event.
    pub(crate) head: u64,
    /// The events, in order.
    pub(crate) records: Vec<Record>,
    /// The session row and the rows that the events [need](needed).
    pub(crate) rows: Tree,
}

impl Excerpt {
    /// The events as the feed tells them.
    pub(crate) fn into_committed(self) -> Vec<Committed> {
        let Self { head, records, rows } = self;
        let committed = |record: Record| {
            let newest = record.seq == head;
            let tree = touched(&record.event, &rows);
            let by = WrittenBy::Others { newest };
            Committed { record: Arc::new(record), before: None, tree, by, follows: 0 }
        };
        records.into_iter().map(committed).collect()
    }
}

/// What an event shows: the session row and the rows that it touched.
fn touched(event: &Event, rows: &Tree) -> Tree {
    let mut tree = Tree::new(rows.session.clone());
    let touches = event.touches();
    if touches.whole {
        return tree;
    }
    if let Some(node) = brought(event) {
        tree.insert(node);
    }
    for id in touches.entries {
        let Some(found) = rows.node(id).filter(|_| tree.node(id).is_none()) else { continue };
        let mut node = Node::new(found.entry.clone(), Vec::new());
        match event {
            Event::PartStarted { part, .. } | Event::PartAdded { part, .. } => {
                node.parts.push((**part).clone());
            }
            _ => {
                let parts = found.parts.iter().filter(|part| touches.parts.contains(&&part.id));
                node.parts.extend(parts.cloned());
            }
        }
        tree.insert(node);
    }
    match event {
        Event::PromptAdmitted { item } | Event::PromptEdited { item } => tree.inbox.push((**item).clone()),
        Event::RequestAsked { request } => {
            tree.requests.insert(request.id.clone(), (**request).clone());
        }
        Event::TodoUpdated { todos } => tree.todos.clone_from(todos),
        _ => tree.inbox.extend(touches.inbox.iter().filter_map(|id| rows.waiting(id)).cloned()),
    }
    tree
}

/// The rows that have to be read to show events, each once: those that they touch and do not bring themselves.
pub(crate) fn needed(records: &[Record]) -> NeededRows {
    let (mut entries, mut parts, mut inbox) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in records.iter().map(|record| &record.event) {
        let touches = event.touches();
        if touches.whole {
            continue;
        }
        let brought = brought(event).map(|node| node.entry.id);
        let own = matches!(event, Event::PartStarted { .. } | Event::PartAdded { .. });
        for entry in touches.entries.into_iter().filter(|entry| Some(*entry) != brought.as_ref()) {
            entries.insert(entry);
            parts.extend(touches.parts.iter().filter(|_| !own).map(|part| (entry, *part)));
        }
        if !matches!(event, Event::PromptAdmitted { .. } | Event::PromptEdited { .. }) {
            inbox.extend(touches.inbox);
        }
    }
    NeededRows {
        whole: false,
        entries: entries.into_iter().cloned().collect(),
        parts: parts.into_iter().map(|(entry, part)| (entry.clone(), part.clone())).collect(),
        inbox: inbox.into_iter().cloned().collect(),
        requests: Vec::new(),
    }
}

/// The node that an event brings whole.
fn brought(event: &Event) -> Option<Node> {
    match event {
        Event::EntryAdded { entry, parts }
        | Event::ShellStarted { entry, parts }
        | Event::CompactionStarted { entry, parts } => Some(Node::new((**entry).clone(), parts.clone())),
        Event::StepStarted { entry, .. } | Event::Labeled { entry } | Event::ToolSettled { entry, .. } => {
            Some(Node::new((**entry).clone(), Vec::new()))
        }
        _ => None,
    }
}
