//! Commands of a person as clients send them.

use everturn_engine::shell::ShellCommand;
use everturn_model::EntryId;
use everturn_model::session::ModelRef;
use schemars::JsonSchema;
use serde::Deserialize;

use super::session::ModelInMessage;
use crate::input::Id;

/// A command to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShellBody {
    /// The id that its first message is to have. The same command under the same id again is the same command.
    #[serde(rename = "messageID")]
    message: Option<Id<EntryId>>,
    /// The agent that the person speaks to.
    agent: String,
    /// The model that the person speaks to.
    model: Option<ModelInMessage>,
    /// The command line.
    command: String,
}

impl ShellBody {
    /// What the engine is asked for.
    pub(crate) fn into_command(self) -> ShellCommand {
        ShellCommand {
            id: self.message.map(|id| id.0),
            agent: Some(self.agent),
            model: self.model.map(ModelRef::from),
            command: self.command,
        }
    }
}
