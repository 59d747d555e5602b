//! Slash commands: prompts that somebody has written before, with gaps.
//!
//! They come from the configuration and from Markdown files, from MCP servers, and one is built in. What a text says is to
//! be run is run as a command of its agent: in the sandbox, by the rules, and a person is asked where an agent would ask.
//! The prompt is admitted when all of that is done, and nothing of it is in the log before.

mod interpolation;
mod mentions;
mod template;

use std::path::Path;
use std::sync::Arc;

use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Session, SessionId};
use everturn_tools::bash::BashTool;

use crate::bus::Signal;
use crate::config::{AgentRole, CommandDefinition};
use crate::configurations::Configurations;
use crate::confinement::Confinement;
use crate::inbox::{PartInput, PromptInbox};
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::mcp::McpServers;
use crate::models::Models;
use crate::projects::{Location, Projects};
use crate::requests::Requests;
use crate::{Config, Error, Prompt, bounds};
pub use interpolation::is_of_command;
use template::TemplatePiece;

/// How much is typed behind the name of a command, in bytes.
pub(crate) const ARGUMENTS_LIMIT: usize = 256 * 1024;

/// How many commands the text of one runs.
pub(crate) const INTERPOLATION_LIMIT: usize = 16;

/// The command that is built in.
const INIT: &str = "init";

const INIT_PURPOSE: &str = "guided AGENTS.md setup";

const INIT_TEXT: &str = "Write the file `AGENTS.md` at the root of this project, or improve the one that is there. It is \
what an agent reads before it works here, so it says what cannot be seen at once: how to build, test and lint, also one \
test alone; how the code is laid out and which way dependencies go; conventions of style, names and errors that are really \
kept; and what goes wrong when somebody does not know it.

Look before you write: the README, the manifests and scripts, the CI, rules for other agents such as `CLAUDE.md`, \
`.cursorrules` and `.github/copilot-instructions.md`, and the code itself. Write down only what you have seen, in short \
sections, without what is true of every project. Keep what is right in a file that is there, and what its authors chose \
to say. Ask if something important can be decided by the person only.

$ARGUMENTS";

/// Where a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSource {
    /// It is configured, or built in.
    Configuration,
    /// An MCP server offers it.
    Server,
}

/// A command as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCommand {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: CommandSource,
    /// What is known of it. The text of a server's is asked for when it is used.
    pub definition: CommandDefinition,
    /// Its gaps.
    pub hints: Vec<String>,
}

/// A command that somebody gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenCommand {
    /// The id of the message that it becomes, where the client chose one.
    pub id: Option<EntryId>,
    /// Its name.
    pub name: String,
    /// What was typed behind it.
    pub arguments: String,
    /// The agent that the person speaks to.
    pub agent: Option<String>,
    /// The model that the person speaks to, by its name.
    pub model: Option<String>,
    /// The variant of that model.
    pub variant: Option<String>,
    /// What is attached.
    pub parts: Vec<PartInput>,
}

/// Lists and runs commands; clones share it.
#[derive(Debug, Clone)]
pub struct SlashCommands {
    pub(crate) journal: Journal,
    pub(crate) configurations: Configurations,
    pub(crate) projects: Projects,
    pub(crate) models: Models,
    pub(crate) confinement: Confinement,
    pub(crate) mcp: McpServers,
    pub(crate) requests: Requests,
    pub(crate) inbox: PromptInbox,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) tool: BashTool,
}

/// Where a command is given, and by whose rules.
struct SlashCommandPlace {
    session: Session,
    location: Location,
    config: Arc<Config>,
    /// The agent that gets it.
    agent: String,
}

impl SlashCommands {
    /// The commands of a place, by name.
    pub async fn list(&self, config: &Config, location: &Location) -> Vec<KnownCommand> {
        let mut known: Vec<KnownCommand> = configured(config);
        for (name, prompt) in self.mcp.prompts(location).await {
            // What the person has written counts.
            if known.iter().all(|command| command.name != name) {
                let hints = (1..=prompt.arguments.len()).map(|number| format!("${number}")).collect();
                let definition =
                    CommandDefinition { description: prompt.description, ..CommandDefinition::default() };
                known.push(KnownCommand { name, source: CommandSource::Server, definition, hints });
            }
        }
        known.sort_by(|a, b| a.name.cmp(&b.name));
        known
    }

    /// Runs a command as far as it is a prompt, which comes back admitted.
    ///
    /// # Errors
    /// When there is no such command, what it runs is not permitted, or the prompt is refused.
    pub async fn run(&self, id: &SessionId, given: GivenCommand) -> Result<InboxItem, Error> {
        bounds::check_command(&given)?;
        let session = self.journal.session(id).await?;
        if let Some(message) = &given.id
            && let Some(waiting) = self.inbox.accepted_before(id, message).await?
        {
            // What it runs is not run twice.
            return Ok(waiting);
        }
        let location = self.projects.location(Some(&session.directory)).await?;
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let (definition, pieces) = self.text(&config, &location, &given).await?;
        let spoken_to = given.agent.clone().or_else(|| session.agent.clone());
        let spoken_to = spoken_to.unwrap_or_else(|| config.agents().default_name());
        let agent = definition.agent.clone().unwrap_or_else(|| spoken_to.clone());
        config.agents().check(&agent)?;
        let known = config.agents().named(&agent);
        let is_task = definition.subtask.unwrap_or_else(|| {
            definition.agent.is_some() && known.is_some_and(|agent| agent.role == AgentRole::Subagent)
        });
        let of_agent = known.filter(|_| definition.agent.is_some()).and_then(|agent| agent.model.clone());
        let finder = self.models.of(&config);
        let folder = location.directory.clone();
        let named = |name: &String| finder.named(name, &folder);
        let chosen = given.model.as_ref().map(named).transpose()?;
        let chosen =
            chosen.map(|model| ModelRef { variant: given.variant.clone().or(model.variant), ..model });
        let own = definition.model.as_ref().or(of_agent.as_ref()).map(named).transpose()?;
        let place = SlashCommandPlace { session, location, config, agent };
        let (text, mut parts) = self.fill(&place, pieces, &given.arguments).await?;
        let mut prompt = Prompt { id: given.id, ..Prompt::text("") };
        if is_task {
            let task = PartKind::Subtask {
                prompt: text,
                description: definition.description.unwrap_or_else(|| given.name.clone()),
                agent: place.agent,
                model: own.or_else(|| chosen.clone()),
                command: Some(given.name),
            };
            (prompt.agent, prompt.model) = (Some(spoken_to), chosen);
            prompt.parts = vec![PartInput::new(task)];
        } else {
            parts.insert(0, PartInput::new(PartKind::text(text)));
            (prompt.agent, prompt.model) = (Some(place.agent), own.or(chosen));
            prompt.parts = parts;
        }
        prompt.parts.extend(given.parts);
        self.inbox.admit(id, prompt).await
    }

    /// Tells clients that a command was carried out, and which message came of it.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn tell_done(
        &self,
        id: &SessionId,
        name: &str,
        arguments: &str,
        message: &str,
    ) -> Result<(), Error> {
        let session = self.journal.session(id).await?;
        let (name, arguments, message) = (name.to_owned(), arguments.to_owned(), message.to_owned());
        self.journal.signal(&session, Signal::CommandDone { name, arguments, message });
        Ok(())
    }

    /// What is known of a command, and its text with what was typed.
    async fn text(
        &self,
        config: &Config,
        location: &Location,
        given: &GivenCommand,
    ) -> Result<(CommandDefinition, Vec<TemplatePiece>), Error> {
        let all = configured(config);
        if let Some(known) = all.iter().find(|command| command.name == given.name) {
            let pieces = template::fill(&known.definition.template, &given.arguments);
            return Ok((known.definition.clone(), pieces));
        }
        let words = template::split(&given.arguments);
        if let Some(text) = self.mcp.prompt(location, &given.name, &words).await {
            let text =
                text.map_err(|reason| Error::Invalid(format!("the command {}: {reason}", given.name)))?;
            // A server says nothing that is run.
            return Ok((CommandDefinition::default(), vec![TemplatePiece::Text(text)]));
        }
        let held = config.held.contains_key(&format!("command.{}", given.name));
        let names: Vec<&str> = all.iter().map(|command| command.name.as_str()).collect();
        Err(Error::Invalid(if held {
            format!(
                "the command {} is this project's and waits for your trust: `everturn trust` shows it",
                given.name
            )
        } else {
            format!("there is no command {}; known: {}", given.name, names.join(", "))
        }))
    }

    /// The text with what its commands print, and what it mentions as parts beside it.
    async fn fill(
        &self,
        place: &SlashCommandPlace,
        pieces: Vec<TemplatePiece>,
        arguments: &str,
    ) -> Result<(String, Vec<PartInput>), Error> {
        let commands = pieces.iter().filter(|piece| matches!(piece, TemplatePiece::Shell(_))).count();
        bounds::check_interpolations(commands)?;
        let (mut text, mut words) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                TemplatePiece::Text(piece) => {
                    text.push_str(&piece);
                    words.push_str(&piece);
                }
                TemplatePiece::Shell(command) => {
                    text.push_str(&self.print(place, &command).await?);
                    // What a command prints mentions nothing.
                    words.push('\n');
                }
            }
        }
        let parts = self.mentioned(place, &words, arguments).await?;
        Ok((text.trim().to_owned(), parts))
    }
}

/// The commands that a configuration has, with the one that is built in.
fn configured(config: &Config) -> Vec<KnownCommand> {
    let init = CommandDefinition {
        template: INIT_TEXT.to_owned(),
        description: Some(INIT_PURPOSE.to_owned()),
        ..CommandDefinition::default()
    };
    let own = config.commands.iter().map(|(name, definition)| (name.clone(), definition.clone()));
    let builtin = (!config.commands.contains_key(INIT)).then(|| (INIT.to_owned(), init));
    builtin
        .into_iter()
        .chain(own)
        .map(|(name, definition)| {
            let hints = template::hints(&definition.template);
            KnownCommand { name, source: CommandSource::Configuration, definition, hints }
        })
        .collect()
}
