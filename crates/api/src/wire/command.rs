//! Slash commands as clients see and give them.

use everturn_engine::commands::{CommandSource, GivenCommand, KnownCommand};
use everturn_engine::inbox::PartInput;
use everturn_model::{EntryId, PartId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::FilePartSource;
use super::prompt::PromptPart;
use crate::answer::shaped;
use crate::input::Id;

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Command")]
pub(crate) struct CommandInfo {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[schemars(with = "Option<CommandOrigin>")]
    source: &'static str,
    /// Its text; empty where a server is asked for it.
    template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtask: Option<bool>,
    /// The gaps of the text.
    hints: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the words of a field")]
enum CommandOrigin {
    Command,
    Mcp,
    Skill,
}

impl CommandInfo {
    /// A command as clients see it.
    pub(crate) fn of(command: KnownCommand) -> Self {
        let KnownCommand { name, source, definition, hints } = command;
        Self {
            name,
            description: definition.description,
            agent: definition.agent,
            model: definition.model,
            source: match source {
                CommandSource::Configuration => "command",
                CommandSource::Server => "mcp",
            },
            template: definition.template,
            subtask: definition.subtask,
            hints,
        }
    }
}

/// A command that is given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandBody {
    /// The id that its message is to have. The same command under the same id again is the same command.
    #[serde(rename = "messageID")]
    message: Option<Id<EntryId>>,
    /// The agent that the person speaks to.
    agent: Option<String>,
    /// The model that the person speaks to, as `provider/model`.
    model: Option<String>,
    /// What was typed behind its name.
    arguments: String,
    /// Its name.
    command: String,
    variant: Option<String>,
    /// Files that come with it.
    parts: Option<Vec<CommandPart>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct CommandPart {
    id: Option<Id<PartId>>,
    #[serde(flatten)]
    kind: CommandPartKind,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CommandPartKind {
    File {
        mime: String,
        filename: Option<String>,
        url: String,
        #[schemars(with = "Option<FilePartSource>")]
        source: Option<Value>,
    },
}

impl From<CommandPart> for PartInput {
    fn from(CommandPart { id, kind }: CommandPart) -> Self {
        let CommandPartKind::File { mime, filename, url, source } = kind;
        PromptPart::file(id, mime, filename, url, source).into()
    }
}

impl CommandBody {
    /// What the engine is asked for.
    pub(crate) fn into_given(self) -> GivenCommand {
        GivenCommand {
            id: self.message.map(|id| id.0),
            name: self.command,
            arguments: self.arguments,
            agent: self.agent,
            model: self.model,
            variant: self.variant,
            parts: self.parts.into_iter().flatten().map(PartInput::from).collect(),
        }
    }
}

/// That `AGENTS.md` is to be written.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct InitBody {
    #[serde(rename = "modelID")]
    model: String,
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "messageID")]
    message: Id<EntryId>,
}

impl InitBody {
    /// The command that does it.
    pub(crate) fn into_given(self) -> GivenCommand {
        GivenCommand {
            id: Some(self.message.0),
            name: "init".to_owned(),
            model: Some(format!("{}/{}", self.provider, self.model)),
            ..GivenCommand::default()
        }
    }
}

shaped! {
    CommandInfo as CommandInfo,
}
