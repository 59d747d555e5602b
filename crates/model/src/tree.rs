//! The tree: what folding a session's log gives.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::inbox::{InboxItem, WaitingPrompts};
use crate::request::Request;
use crate::todo::Todo;
use crate::{Entry, EntryId, FromJson as _, Part, PartId, RequestId, Session, ToJson};

/// An entry with its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The entry.
    pub entry: Entry,
    /// Its parts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Node {
    /// A node from an entry and its parts.
    #[must_use]
    pub fn new(entry: Entry, parts: Vec<Part>) -> Self {
        Self { entry, parts }
    }

    /// The part with this id.
    #[must_use]
    pub fn part(&self, id: &PartId) -> Option<&Part> {
        self.parts.iter().find(|part| &part.id == id)
    }
}

/// A node in the JSON that it is stored as, not read yet: most of it is text that some views show as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeJson {
    /// The entry's id.
    pub id: EntryId,
    /// The entry.
    pub entry: String,
    /// Its parts, in order.
    pub parts: Vec<String>,
}

impl NodeJson {
    /// A node as it is stored.
    ///
    /// # Errors
    /// When it holds what JSON cannot say.
    pub fn of(node: &Node) -> Result<Self, serde_json::Error> {
        let parts = node.parts.iter().map(ToJson::to_json).collect::<Result<_, _>>()?;
        Ok(Self { id: node.entry.id.clone(), entry: node.entry.to_json()?, parts })
    }

    /// How long the JSON is, in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no node is empty")]
    pub fn len(&self) -> usize {
        self.parts.iter().map(String::len).sum::<usize>() + self.entry.len()
    }

    /// The node.
    ///
    /// # Errors
    /// When the JSON is damaged.
    pub fn read(&self) -> Result<Node, serde_json::Error> {
        let parts = self.parts.iter().map(|part| Part::from_json(part)).collect::<Result<_, _>>()?;
        Ok(Node::new(Entry::from_json(&self.entry)?, parts))
    }
}

/// The state of one session: a whole one after folding its log, or the few rows that one event touches.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The session row.
    pub session: Session,
    /// Waiting prompts in the order of their admission.
    pub inbox: WaitingPrompts,
    /// Requests waiting for a person.
    pub requests: BTreeMap<RequestId, Request>,
    /// The task list.
    pub todos: Vec<Todo>,
    nodes: Vec<Node>,
    index: HashMap<EntryId, usize>,
}

impl Tree {
    /// A tree that has a session and nothing else.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Self {
            session,
            inbox: WaitingPrompts::default(),
            requests: BTreeMap::new(),
            todos: Vec::new(),
            nodes: Vec::new(),
            index: HashMap::new(),
        }
    }

    /// All nodes in the order in which they came into being.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: &EntryId) -> Option<&Node> {
        self.nodes.get(*self.index.get(id)?)
    }

    /// The node with this id, to change.
    pub fn node_mut(&mut self, id: &EntryId) -> Option<&mut Node> {
        self.nodes.get_mut(*self.index.get(id)?)
    }

    /// Puts a node in; false when its id is taken.
    pub fn insert(&mut self, node: Node) -> bool {
        if self.index.contains_key(&node.entry.id) {
            return false;
        }
        self.index.insert(node.entry.id.clone(), self.nodes.len());
        self.nodes.push(node);
        true
    }

    /// The nodes from the root to `leaf`, without a copy.
    #[must_use]
    pub fn into_path(mut self, leaf: Option<&EntryId>) -> Vec<Node> {
        let order: Vec<usize> = crate::path::to(&self, leaf)
            .into_iter()
            .filter_map(|node| self.index.get(&node.entry.id).copied())
            .collect();
        if order.len() == self.nodes.len() && order.is_sorted() {
            return self.nodes;
        }
        let mut slots: Vec<Option<Node>> = self.nodes.drain(..).map(Some).collect();
        order.into_iter().filter_map(|at| slots.get_mut(at).and_then(Option::take)).collect()
    }

    /// All nodes in the order in which they came into being, without a copy.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// The waiting prompt with this id.
    #[must_use]
    pub fn waiting(&self, id: &EntryId) -> Option<&InboxItem> {
        self.inbox.get(id)
    }
}
