//! `everturn mcp`: the MCP servers of a folder.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Subcommand;
use everturn_engine::mcp::{ConfiguredServers, ServerStatus};
use everturn_tools::mcp::{McpOptions, McpTiming, ServerAddress, ServerDefinition, Servers};
use everturn_tools::process::{Launcher, Secrets};
use everturn_tools::{Registry, ToolSettings};

use crate::{settings, table};

/// Lists MCP servers, and allows those that a project brings.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connect to every server that may run here, and say what it has
    List,
    /// Allow servers of this project's configuration to run here, as they are now
    Trust {
        /// The servers; all of the project if none is named
        names: Vec<String>,
    },
    /// Take that back
    Untrust {
        /// The servers; all of the project if none is named
        names: Vec<String>,
    },
}

impl McpCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let folder = settings::working_folder()?;
        let configured = settings::config(&folder)?.mcp;
        match self {
            Self::List => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on(list(&configured))
            }
            Self::Trust { names } => trust(&configured, &names),
            Self::Untrust { names } => untrust(&configured, &names),
        }
    }
}

async fn list(configured: &ConfiguredServers) -> Result<()> {
    if configured.is_empty() {
        table::note("no MCP server is configured: `mcp` in opencode.json names them");
        return Ok(());
    }
    let folder = settings::working_folder()?;
    let config = settings::config(&folder)?;
    let launcher = Launcher {
        supervisor: settings::supervisor(),
        secrets: Secrets::found_by(move || config.secrets()),
        ..Launcher::default()
    };
    let options = McpOptions {
        directory: configured.root().to_owned(),
        launcher,
        timing: McpTiming { settle: McpTiming::default().connect, ..McpTiming::default() },
    };
    let below = Registry::builtin(&ToolSettings::default());
    let launches = configured.launches(configured.root(), &settings::trust()?);
    let servers = Servers::start(launches, &below, &options);
    servers.settled().await;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, reason) in configured.invalid() {
        rows.push(vec![
            name.clone(),
            "failed".to_owned(),
            format!("its configuration cannot be used: {reason}"),
        ]);
    }
    for (name, status) in servers.statuses() {
        let (state, details) = match status {
            ServerStatus::Connected => ("connected", servers.tools(&name).join(", ")),
            ServerStatus::Disabled => ("disabled", String::new()),
            ServerStatus::Failed(reason) if servers.held(&name).is_some() => ("not allowed", reason),
            ServerStatus::Failed(reason) => ("failed", reason),
            ServerStatus::NeedsAuth(reason) => ("needs a login", reason),
            ServerStatus::Connecting => ("connecting", "it takes its time".to_owned()),
        };
        rows.push(vec![name, state.to_owned(), details]);
    }
    rows.sort();
    table::rows(&["SERVER", "STATE", "TOOLS"], rows);
    servers.close().await;
    Ok(())
}

fn trust(configured: &ConfiguredServers, names: &[String]) -> Result<()> {
    let from_project: Vec<(&str, &ServerDefinition)> = configured.from_project().collect();
    let unknown = names.iter().find(|name| !from_project.iter().any(|(known, _)| known == name));
    if let Some(name) = unknown {
        let known: BTreeSet<&str> = from_project.iter().map(|(name, _)| *name).collect();
        if known.is_empty() {
            bail!("this project's configuration brings no MCP server; your own need no permission");
        }
        let known: Vec<&str> = known.into_iter().collect();
        bail!("this project's configuration brings no MCP server {name}, only {}", known.join(", "));
    }
    let chosen: Vec<(&str, &ServerDefinition)> = from_project
        .into_iter()
        .filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name))
        .collect();
    if chosen.is_empty() {
        table::note("this project's configuration brings no MCP server; your own need no permission");
        return Ok(());
    }
    settings::trust()?.allow(configured.root(), chosen.iter().copied())?;
    for (name, server) in chosen {
        table::line(format!("{name} may run in {}: {}", configured.root().display(), summary(server)));
    }
    Ok(())
}

fn untrust(configured: &ConfiguredServers, names: &[String]) -> Result<()> {
    let count = settings::trust()?.revoke(configured.root(), names)?;
    table::line(format!("{count} servers may not run in {} any more", configured.root().display()));
    Ok(())
}

/// What would be run or called, without the values that may be keys.
fn summary(server: &ServerDefinition) -> String {
    match &server.endpoint {
        ServerAddress::Local { command, environment, .. } => {
            let variables: Vec<&str> = environment.keys().map(String::as_str).collect();
            let with =
                if variables.is_empty() { String::new() } else { format!(" with {}", variables.join(", ")) };
            format!("{command:?}{with}")
        }
        ServerAddress::Remote { url, headers } => {
            let names: Vec<&str> = headers.keys().map(String::as_str).collect();
            let with = if names.is_empty() { String::new() } else { format!(" with {}", names.join(", ")) };
            format!("{}{with}", url.split(['?', '#']).next().unwrap_or_default())
        }
    }
}
