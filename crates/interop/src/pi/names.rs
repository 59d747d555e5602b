//! The ids by which pi knows entries.
//!
//! Imported entries keep the id that their line has. Entries made here, and those of version 1, which had no ids, get
//! eight hex digits that follow from our own id, so that every export of a session gives the same file.

use std::collections::{HashMap, HashSet};

use everturn_model::entry::Compaction;
use everturn_model::tree::Node;
use everturn_model::{Body, EntryId};

/// What pi calls the entries of one session.
#[derive(Debug, Default)]
pub(super) struct EntryNames {
    names: HashMap<EntryId, EntryName>,
    taken: HashSet<String>,
}

#[derive(Debug)]
struct EntryName {
    id: Option<String>,
    /// What a child names as its parent, where that is a later line of the same entry.
    tail: Option<String>,
    /// What a child follows instead, where this entry has no line that can be followed.
    instead: Option<Option<EntryId>>,
}

impl EntryNames {
    /// The names of these entries, read from a file of this version.
    pub(super) fn of(nodes: &[Node], version: u64) -> Self {
        let mut names = Self::default();
        let own = |node: &Node| node.entry.origin.is_some() && version > 1;
        let given = nodes.iter().filter(|node| own(node));
        names.taken.extend(given.filter_map(|node| node.entry.origin.as_ref()?.id.clone()));
        for node in nodes {
            let id = if own(node) {
                node.entry.origin.as_ref().and_then(|origin| origin.id.clone())
            } else {
                Some(names.derive(node.entry.id.as_str()))
            };
            let skipped = id.is_none() || is_unwritten(node) || is_trailing(node);
            let instead = skipped.then(|| node.entry.parent.clone());
            names.names.insert(node.entry.id.clone(), EntryName { id, tail: None, instead });
        }
        names
    }

    /// A new id that follows from a text.
    pub(super) fn derive(&mut self, text: &str) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        loop {
            for byte in text.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            let id = format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff));
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }

    /// The id of an entry; none for lines that have none.
    pub(super) fn id(&self, entry: &EntryId) -> Option<&str> {
        self.names.get(entry)?.id.as_deref()
    }

    /// The id that a child of this entry names as its parent; none at the root.
    pub(super) fn parent(&self, entry: Option<&EntryId>) -> Option<&str> {
        let mut next = entry?;
        for _ in 0..=self.names.len() {
            let name = self.names.get(next)?;
            match &name.instead {
                None => return name.tail.as_deref().or(name.id.as_deref()),
                Some(instead) => next = instead.as_ref()?,
            }
        }
        None
    }

    /// Says that children of this entry follow a later line of it.
    pub(super) fn continue_at(&mut self, entry: &EntryId, tail: String) {
        if let Some(name) = self.names.get_mut(entry) {
            name.tail = Some(tail);
        }
    }
}

/// True for entries that pi cannot have: hidden ones, and compactions that have not ended.
pub(super) fn is_unwritten(node: &Node) -> bool {
    node.entry.hidden || matches!(&node.entry.body, Body::Compaction(Compaction { summary: None, .. }))
}

/// True for entries made here that do not move the leaf. pi's leaf is its last line, so they go after the leaf.
pub(super) fn is_trailing(node: &Node) -> bool {
    node.entry.origin.is_none() && matches!(node.entry.body, Body::Label { .. } | Body::Title { .. })
}

#[cfg(test)]
mod tests {
    use everturn_model::Entry;

    use super::*;

    #[test]
    fn derived_ids_are_stable_and_never_taken() {
        let mut names = EntryNames::default();
        let first = names.derive("msg_1");
        assert_eq!((first.len(), first.clone()), (8, EntryNames::default().derive("msg_1")));
        assert_ne!(names.derive("msg_1"), first);
    }

    #[test]
    fn children_of_a_label_made_here_follow_what_the_label_follows() {
        let node = |id: &str, parent: Option<&str>, body| {
            Node::new(Entry::new(EntryId::from(id), parent.map(EntryId::from), 1, body), Vec::new())
        };
        let switch = || Body::ThinkingSwitch { level: None };
        let label = Body::Label { target: None, label: None };
        let nodes = [node("a", None, switch()), node("b", Some("a"), label), node("c", Some("b"), switch())];
        let names = EntryNames::of(&nodes, 3);
        assert_eq!(names.parent(Some(&EntryId::from("b"))), names.id(&EntryId::from("a")));
    }
}
