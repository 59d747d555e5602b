//! Prompts of MCP servers, which are slash commands here.

use everturn_tools::mcp::PromptInfo;

use super::McpServers;
use crate::projects::Location;

impl McpServers {
    /// The prompts of the connected servers of a place, each under the name of its slash command.
    pub(crate) async fn prompts(&self, location: &Location) -> Vec<(String, PromptInfo)> {
        let Some(servers) = self.found(location).await else { return Vec::new() };
        servers.settled().await;
        let prompts = servers.prompts().await;
        prompts.into_iter().map(|(server, prompt)| (command_name(&server, &prompt.name), prompt)).collect()
    }

    /// The words of the prompt that a slash command means, with its arguments in their order; the last of them takes all
    /// that is left. None where no server has it.
    ///
    /// # Errors
    /// In words, when the server does not give it.
    pub(crate) async fn prompt(
        &self,
        location: &Location,
        command: &str,
        words: &[String],
    ) -> Option<Result<String, String>> {
        let servers = self.found(location).await?;
        servers.settled().await;
        let prompts = servers.prompts().await;
        let (server, prompt) =
            prompts.into_iter().find(|(server, prompt)| command_name(server, &prompt.name) == command)?;
        let last = prompt.arguments.len().saturating_sub(1);
        let named = prompt.arguments.iter().enumerate().filter_map(|(at, argument)| {
            let given = words.get(at..)?;
            let given = if at == last { given } else { given.get(..1)? };
            (!given.is_empty()).then(|| (argument.name.clone(), given.join(" ")))
        });
        let text = servers.prompt(&server, &prompt.name, &named.collect()).await?;
        Some(text.map_err(|fault| fault.to_string()))
    }
}

/// The name of the slash command that a prompt of a server is.
fn command_name(server: &str, prompt: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    let plain = |name: &str| name.chars().map(plain).collect::<String>();
    format!("{}:{}", plain(server), plain(prompt))
}
