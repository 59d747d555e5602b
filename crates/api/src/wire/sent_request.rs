//! A request to a model as clients see it.

use everturn_engine::sent_requests::SentRequest;
use everturn_model::{EntryId, Millis, SessionId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::answer::shaped;

/// What a model was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownRequest {
    #[serde(rename = "sessionID")]
    #[schemars(with = "String")]
    session: SessionId,
    /// The answer that it got.
    #[serde(rename = "messageID")]
    #[schemars(with = "String")]
    message: EntryId,
    /// Which turn it is, from 1 on.
    turn: usize,
    time: Millis,
    agent: String,
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
    /// Whether the body is what was sent, to the byte; otherwise it is what this version would send.
    exact: bool,
    /// Whether something of it is not shown, since it may be secret.
    masked: bool,
    /// The body.
    body: Value,
}

impl ShownRequest {
    /// A request as clients see it.
    pub(crate) fn of(session: &SessionId, sent: &SentRequest) -> Self {
        Self {
            session: session.clone(),
            message: sent.entry.clone(),
            turn: sent.turn,
            time: sent.time,
            agent: sent.agent.clone(),
            provider: sent.model.provider.clone(),
            model: sent.model.model.clone(),
            exact: sent.exact,
            masked: sent.masked,
            body: serde_json::from_str(&sent.body).unwrap_or_else(|_| sent.body.clone().into()),
        }
    }
}

shaped! { ShownRequest as ShownRequest }
