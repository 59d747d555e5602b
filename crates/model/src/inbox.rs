//! The inbox: prompts that were accepted and are not yet part of the conversation.

use std::collections::{BTreeMap, HashMap, btree_map};

use serde::{Deserialize, Serialize};

use crate::entry::User;
use crate::{EntryId, Extra, Millis, Part, Session, earlier};

/// When an Admitted Prompt is promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// At the next Safe Provider-Turn Boundary.
    Steer,
    /// One at a time, when the session would otherwise be idle.
    Queue,
}

/// An Admitted Prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredInboxItem")]
pub struct InboxItem {
    /// The id of the message it becomes; admission is idempotent by it.
    pub id: EntryId,
    /// When it was admitted.
    pub time: Millis,
    /// When it is promoted.
    pub delivery: Delivery,
    /// Whether its promotion starts a turn.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub reply: bool,
    /// The prompt.
    pub user: User,
    /// Its parts.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Fields of other programs.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,
    /// How often somebody had asked the session's work to stop when this was admitted: the fold says so of what waits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u64,
}

/// A prompt as it was stored, by this version or an earlier one.
#[derive(Deserialize)]
struct StoredInboxItem {
    id: EntryId,
    time: Millis,
    delivery: Delivery,
    #[serde(default = "default_true")]
    reply: bool,
    user: User,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    extra: Extra,
    #[serde(default)]
    interrupts: u64,
}

impl From<StoredInboxItem> for InboxItem {
    fn from(stored: StoredInboxItem) -> Self {
        let StoredInboxItem { id, time, delivery, reply, mut user, parts, mut extra, interrupts } = stored;
        earlier::digest(&mut user, &mut extra);
        Self { id, time, delivery, reply, user, parts, extra, interrupts }
    }
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl InboxItem {
    /// True when somebody asked for the work of its session to stop after this was admitted. What is queued is not work
    /// yet.
    #[must_use]
    pub fn is_stopped(&self, session: &Session) -> bool {
        self.delivery == Delivery::Steer && !self.is_after_stop(session)
    }

    /// True when nobody asked for the work of its session to stop after this was admitted.
    #[must_use]
    pub fn is_after_stop(&self, session: &Session) -> bool {
        self.interrupts >= session.interrupts
    }

    /// True when a second admission under the same id asks for the same thing. What was asked is known by its digest,
    /// where the program that admitted it kept one; what was filled in since (an attached file, a selection) may differ.
    #[must_use]
    pub fn same_request(&self, other: &Self) -> bool {
        if self.user.digest.is_some() && self.user.digest == other.user.digest {
            return self.id == other.id;
        }
        let user = |item: &Self| User { digest: None, ..item.user.clone() };
        let kinds = |item: &Self| item.parts.iter().map(|part| part.kind.clone()).collect::<Vec<_>>();
        self.id == other.id
            && self.delivery == other.delivery
            && user(self) == user(other)
            && kinds(self) == kinds(other)
    }
}

/// How many prompts may wait in a session.
pub const WAITING_LIMIT: usize = 1000;

/// The prompts that wait in a session, in the order of their admission. One is found and taken out at the same cost
/// however many there are: stopping ten thousand of them once took seconds.
#[derive(Debug, Clone, Default)]
pub struct WaitingPrompts {
    items: BTreeMap<u64, InboxItem>,
    places: HashMap<EntryId, u64>,
}

impl WaitingPrompts {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True when none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> btree_map::Values<'_, u64, InboxItem> {
        self.items.values()
    }

    /// The one with this id.
    #[must_use]
    pub fn get(&self, id: &EntryId) -> Option<&InboxItem> {
        self.items.get(self.places.get(id)?)
    }

    /// The one with this id, to change.
    pub fn get_mut(&mut self, id: &EntryId) -> Option<&mut InboxItem> {
        self.items.get_mut(self.places.get(id)?)
    }

    /// Puts one at the end; one that has its id already makes way.
    pub fn push(&mut self, item: InboxItem) {
        self.remove(&item.id);
        let place = self.items.last_key_value().map_or(0, |(last, _)| last + 1);
        self.places.insert(item.id.clone(), place);
        self.items.insert(place, item);
    }

    /// Takes one out.
    pub fn remove(&mut self, id: &EntryId) -> Option<InboxItem> {
        self.items.remove(&self.places.remove(id)?)
    }
}

impl PartialEq for WaitingPrompts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl Extend<InboxItem> for WaitingPrompts {
    fn extend<T: IntoIterator<Item = InboxItem>>(&mut self, items: T) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl FromIterator<InboxItem> for WaitingPrompts {
    fn from_iter<T: IntoIterator<Item = InboxItem>>(items: T) -> Self {
        let mut waiting = Self::default();
        waiting.extend(items);
        waiting
    }
}

impl IntoIterator for WaitingPrompts {
    type Item = InboxItem;
    type IntoIter = btree_map::IntoValues<u64, InboxItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_values()
    }
}

impl<'a> IntoIterator for &'a WaitingPrompts {
    type Item = &'a InboxItem;
    type IntoIter = btree_map::Values<'a, u64, InboxItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str) -> InboxItem {
        InboxItem {
            id: EntryId::new(id),
            time: 1,
            delivery: Delivery::Steer,
            reply: true,
            user: User::default(),
            parts: Vec::new(),
            extra: Extra::default(),
            interrupts: 0,
        }
    }

    #[test]
    fn prompts_wait_in_the_order_in_which_they_came() {
        let mut waiting: WaitingPrompts = ["msg_c", "msg_a", "msg_b"].map(item).into_iter().collect();
        assert_eq!(waiting.remove(&"msg_a".into()), Some(item("msg_a")));
        assert_eq!(waiting.remove(&"msg_a".into()), None);
        // One that was taken back and comes again stands at the end.
        waiting.extend(["msg_a", "msg_c"].map(item));
        assert_eq!(waiting, ["msg_b", "msg_a", "msg_c"].map(item).into_iter().collect());
        assert_ne!(waiting, ["msg_b", "msg_c", "msg_a"].map(item).into_iter().collect());
        assert_eq!((waiting.len(), waiting.get(&"msg_b".into())), (3, Some(&item("msg_b"))));
    }
}
