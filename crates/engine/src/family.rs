//! A session and those that belong to it, each once.
//!
//! Nothing keeps sessions that come from elsewhere from belonging to each other, so whoever goes through a family
//! remembers who was there.

use std::collections::{HashMap, HashSet};

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

/// Which of some sessions belong to which.
#[derive(Debug)]
pub(crate) struct Families<'s>(HashMap<&'s SessionId, Vec<&'s SessionId>>);

impl<'s> Families<'s> {
    /// The families among `all`.
    pub(crate) fn of(all: &'s [Session]) -> Self {
        let mut children: HashMap<&SessionId, Vec<&SessionId>> = HashMap::new();
        for session in all {
            if let Some(parent) = &session.parent {
                children.entry(parent).or_default().push(&session.id);
            }
        }
        Self(children)
    }

    /// A session and those that belong to it, each behind the one it belongs to.
    pub(crate) fn members(&self, id: &SessionId) -> Vec<SessionId> {
        let mut family = Family::of(id);
        while let Some(parent) = family.next() {
            family.add(self.0.get(&parent).into_iter().flatten().copied().cloned());
        }
        family.into_members()
    }
}
