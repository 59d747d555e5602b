//! A session and those that belong to it, each once.
//!
//! Nothing keeps sessions that come from elsewhere from belonging to each other, so whoever goes through a family
//! remembers who was there.

use std::collections::HashSet;

use everturn_model::{Session, SessionId};

/// A family while it is gathered: for each [`next`](Self::next) one, those that belong to it are [added](Self::add).
#[derive(Debug)]
pub(crate) struct Family {
    members: Vec<SessionId>,
    seen: HashSet<SessionId>,
    next: usize,
}

impl Family {
    /// A session alone.
    pub(crate) fn of(id: &SessionId) -> Self {
        Self { members: vec![id.clone()], seen: HashSet::from([id.clone()]), next: 0 }
    }

    /// The family of a session among `all`.
    pub(crate) fn among(id: &SessionId, all: &[Session]) -> Vec<SessionId> {
        let mut family = Self::of(id);
        while let Some(parent) = family.next() {
            let children = all.iter().filter(|session| session.parent.as_ref() == Some(&parent));
            family.add(children.map(|child| child.id.clone()));
        }
        family.into_members()
    }

    /// The next one whose own are not known yet.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        let next = self.members.get(self.next).cloned()?;
        self.next += 1;
        Some(next)
    }

    /// Takes in those that belong to one of them.
    pub(crate) fn add(&mut self, children: impl IntoIterator<Item = SessionId>) {
        for child in children {
            if self.seen.insert(child.clone()) {
                self.members.push(child);
            }
        }
    }

    /// All of them, each behind the one it belongs to.
    pub(crate) fn into_members(self) -> Vec<SessionId> {
        self.members
    }
}
