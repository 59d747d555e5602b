//! Events of the moment, and the envelope of all events.

use everturn_interop::opencode::v1::FaultView;
use everturn_model::Millis;
use serde::Serialize;
use serde_json::Value;

use super::session::SessionStatus;

/// An event.
#[derive(Debug, Serialize)]
pub(crate) struct Payload<'a, P> {
    /// Its id.
    pub(crate) id: &'a str,
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    /// What it says.
    pub(crate) properties: &'a P,
}

/// Something about a session, and nothing more.
#[derive(Debug, Serialize)]
pub(crate) struct SessionOnly<'a> {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
}

/// What a session is doing.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
    /// What it is doing.
    pub(crate) status: SessionStatus,
}

/// Text that was added to a part.
#[derive(Debug, Serialize)]
pub(crate) struct Delta<'a> {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
    /// The message.
    #[serde(rename = "messageID")]
    pub(crate) message: &'a str,
    /// The part.
    #[serde(rename = "partID")]
    pub(crate) part: &'a str,
    /// The field of the part.
    pub(crate) field: &'static str,
    /// The text.
    pub(crate) delta: &'a str,
}

/// A part as it looks now.
#[derive(Debug, Serialize)]
pub(crate) struct PartUpdated<'a> {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
    /// The part.
    pub(crate) part: Value,
    /// When it looked so.
    pub(crate) time: Millis,
}

/// Something failed.
#[derive(Debug, Serialize)]
pub(crate) struct Failed<'a> {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
    /// What.
    pub(crate) error: FaultView<'a>,
}

/// A slash command was carried out.
#[derive(Debug, Serialize)]
pub(crate) struct CommandExecuted<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session: &'a str,
    /// What was typed behind it.
    pub(crate) arguments: &'a str,
    /// The message that came of it.
    #[serde(rename = "messageID")]
    pub(crate) message: &'a str,
}
