//! The inbox: prompts that were accepted and are not yet part of the conversation.

use serde::{Deserialize, Serialize};

use crate::entry::User;
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
}

impl From<StoredInboxItem> for InboxItem {
    fn from(stored: StoredInboxItem) -> Self {
        let StoredInboxItem { id, time, delivery, reply, mut user, parts, mut extra } = stored;
        earlier::digest(&mut user, &mut extra);
        Self { id, time, delivery, reply, user, parts, extra }
    }
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

impl InboxItem {
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
