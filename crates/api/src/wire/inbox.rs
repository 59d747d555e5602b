//! Prompts that wait, and what clients do to them.

use everturn_engine::inbox::WaitingOutcome;
use everturn_interop::opencode::v1::{self, Selected, V1Message};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::{EntryId, Session, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::MessageWithParts;
use super::prompt::PromptBody;
use crate::answer::shaped;
use crate::input::Id;

/// When a prompt that waits is promoted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeliveryShape {
    /// At the next boundary.
    Steer,
    /// One at a time, when the session would otherwise be idle.
    Queue,
}

impl From<DeliveryShape> for Delivery {
    fn from(shape: DeliveryShape) -> Self {
        match shape {
            DeliveryShape::Steer => Self::Steer,
            DeliveryShape::Queue => Self::Queue,
        }
    }
}

impl From<Delivery> for DeliveryShape {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Steer => Self::Steer,
            Delivery::Queue => Self::Queue,
        }
    }
}

/// A prompt with when it is to be answered.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NewWaitingPrompt {
    #[serde(flatten)]
    pub(crate) prompt: PromptBody,
    /// When it is promoted; at the next boundary unless said otherwise.
    pub(crate) delivery: Option<DeliveryShape>,
    /// False lets it wait for the next prompt that wants an answer, or until somebody resumes the session.
    pub(crate) resume: Option<bool>,
}

/// A change to a prompt that waits: its content, when it is promoted, or both.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct WaitingPromptChange {
    pub(crate) prompt: Option<PromptBody>,
    pub(crate) delivery: Option<DeliveryShape>,
}

/// In which order prompts that wait go on.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct InboxOrder {
    /// The messages, the next one first. What is not named comes after them.
    #[serde(rename = "messageIDs")]
    pub(crate) messages: Vec<Id<EntryId>>,
}

/// A prompt that waits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingPrompt {
    #[schemars(with = "MessageWithParts")]
    message: V1Message,
    delivery: DeliveryShape,
    /// Whether its admission let the session go on.
    resume: bool,
}

impl WaitingPrompt {
    /// A prompt as clients see it.
    pub(crate) fn of(session: &SessionId, item: &InboxItem) -> Self {
        let message = v1::inbox_message(session, item, Selected::default());
        Self { message, delivery: item.delivery.into(), resume: item.resume }
    }
}

/// The prompts that wait in a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionInbox {
    /// Whether they stay where they are until the next prompt, or until somebody resumes the session.
    pub(crate) held: bool,
    /// Whether the session waits for a person, who resumes it, and answers nothing before.
    pub(crate) parked: bool,
    /// Why it does, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The next one first.
    pub(crate) prompts: Vec<WaitingPrompt>,
}

impl SessionInbox {
    /// The inbox of a session as clients see it.
    pub(crate) fn of(session: &Session, waiting: &[InboxItem]) -> Self {
        let prompts = waiting.iter().map(|item| WaitingPrompt::of(&session.id, item)).collect();
        let reason = session.parked_reason.as_ref().map(|reason| reason.text().to_owned());
        Self { held: session.held, parked: session.parked, reason, prompts }
    }
}

/// What became of a change to a prompt that waited.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingPromptOutcome {
    /// True when it is part of the conversation already, so that nothing was changed.
    promoted: bool,
    /// The prompt as it is now, or was when it was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<WaitingPrompt>,
}

impl WaitingPromptOutcome {
    /// An outcome as clients see it.
    pub(crate) fn of(session: &SessionId, outcome: &WaitingOutcome) -> Self {
        match outcome {
            WaitingOutcome::Done(item) => {
                Self { promoted: false, prompt: Some(WaitingPrompt::of(session, item)) }
            }
            WaitingOutcome::Promoted => Self { promoted: true, prompt: None },
        }
    }
}

/// Whether a session goes on that did not.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Resumed {
    /// False when nothing kept it from going on.
    pub(crate) resumed: bool,
}

shaped! {
    WaitingPrompt as WaitingPrompt,
    SessionInbox as SessionInbox,
    WaitingPromptOutcome as WaitingPromptOutcome,
    Resumed as Resumed,
}
