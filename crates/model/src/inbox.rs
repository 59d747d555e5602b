//! The inbox: prompts that were accepted and are not yet part of the conversation.

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
