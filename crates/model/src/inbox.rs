//! The inbox: prompts that were accepted and are not yet part of the conversation.

use std::collections::{BTreeMap, HashMap, btree_map};

use serde::{Deserialize, Serialize};

use crate::entry::User;
use crate::part::PartKind;
use crate::{EntryId, Extra, Millis, Part, earlier};

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
    /// Whether its admission wakes the session. One that does not is answered with the next that does.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub resume: bool,
    /// Where a person has put it among those that wait. Those without a place come after those with one, in the order of
    /// their admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// How often it was changed while it waited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: u32,
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
    #[serde(default = "default_true")]
    resume: bool,
    #[serde(default)]
    place: Option<u32>,
    #[serde(default)]
    revision: u32,
}

impl From<StoredInboxItem> for InboxItem {
    fn from(stored: StoredInboxItem) -> Self {
        let StoredInboxItem {
            id,
            time,
            delivery,
            reply,
            mut user,
            parts,
            mut extra,
            resume,
            place,
            revision,
        } = stored;
        earlier::digest(&mut user, &mut extra);
        Self { id, time, delivery, reply, user, parts, extra, resume, place, revision }
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
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl InboxItem {
    /// True when it asks for a compaction and not for an answer.
    #[must_use]
    pub fn is_compaction(&self) -> bool {
        matches!(self.parts.as_slice(), [Part { kind: PartKind::Compaction { .. }, .. }])
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
            && self.reply == other.reply
            && user(self) == user(other)
            && kinds(self) == kinds(other)
    }
}

/// How many prompts may wait in a session.
pub const WAITING_LIMIT: u64 = 1000;

/// The prompts that wait in a session, in the order in which they go on: those that a person has put somewhere, then the
/// others as they were admitted. One is found and taken out at the same cost however many there are: stopping ten thousand of
/// them once took seconds.
#[derive(Debug, Clone, Default)]
pub struct WaitingPrompts {
    items: BTreeMap<Rank, InboxItem>,
    ranks: HashMap<EntryId, Rank>,
    admitted: u64,
}

/// When a waiting prompt goes on: by its place, if it has one, and then by when it was admitted.
type Rank = (u64, u64);

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

    /// All of them, the next one first.
    pub fn iter(&self) -> btree_map::Values<'_, Rank, InboxItem> {
        self.items.values()
    }

    /// The one with this id.
    #[must_use]
    pub fn get(&self, id: &EntryId) -> Option<&InboxItem> {
        self.items.get(self.ranks.get(id)?)
    }

    /// Changes the one with this id; false when there is none.
    pub fn change(&mut self, id: &EntryId, change: impl FnOnce(&mut InboxItem)) -> bool {
        let Some(rank) = self.ranks.get(id).copied() else { return false };
        let Some(mut item) = self.items.remove(&rank) else { return false };
        change(&mut item);
        self.put(item, rank.1);
        true
    }

    /// Puts one behind those that have the same place, or none like it; one that has its id already makes way.
    pub fn push(&mut self, item: InboxItem) {
        self.remove(&item.id);
        self.admitted += 1;
        self.put(item, self.admitted);
    }

    fn put(&mut self, item: InboxItem, admitted: u64) {
        let rank = (item.place.map_or(u64::MAX, u64::from), admitted);
        self.ranks.insert(item.id.clone(), rank);
        self.items.insert(rank, item);
    }

    /// Takes one out.
    pub fn remove(&mut self, id: &EntryId) -> Option<InboxItem> {
        self.items.remove(&self.ranks.remove(id)?)
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
    type IntoIter = btree_map::IntoValues<Rank, InboxItem>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_values()
    }
}

impl<'a> IntoIterator for &'a WaitingPrompts {
    type Item = &'a InboxItem;
    type IntoIter = btree_map::Values<'a, Rank, InboxItem>;

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
            resume: true,
            place: None,
            revision: 0,
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

    #[test]
    fn prompts_that_were_put_somewhere_go_on_before_the_others() {
        let mut waiting: WaitingPrompts =
            ["msg_a", "msg_b", "msg_c", "msg_d"].map(item).into_iter().collect();
        let ids =
            |waiting: &WaitingPrompts| waiting.iter().map(|item| item.id.to_string()).collect::<Vec<_>>();
        for (place, id) in [(1, "msg_a"), (0, "msg_c"), (1, "msg_b")] {
            assert!(waiting.change(&id.into(), |item| item.place = Some(place)));
        }
        assert!(!waiting.change(&"msg_e".into(), |item| item.place = None));
        waiting.push(item("msg_e"));
        assert_eq!(ids(&waiting), ["msg_c", "msg_a", "msg_b", "msg_d", "msg_e"]);
        assert!(waiting.change(&"msg_c".into(), |item| item.place = None));
        assert_eq!(ids(&waiting), ["msg_a", "msg_b", "msg_c", "msg_d", "msg_e"], "as it was admitted");
    }
}
