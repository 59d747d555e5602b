//! `everturn mcp`: the MCP servers of a folder.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Subcommand;
use everturn_engine::Config;
use everturn_engine::mcp::ServerStatus;
use everturn_model::secret_shape::mask;
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
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Take that back
    Untrust {
        /// The servers; all of the project if none is named
        names: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl McpCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let config = settings::config(&settings::working_folder()?)?;
        match self {
            Self::List => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on(list(&config))
            }
            Self::Trust { names, yes } => trust(&config, &names, yes),
            Self::Untrust { names, yes } => untrust(&config, &names, yes),
        }
    }
}

async fn list(config: &Arc<Config>) -> Result<()> {
    let configured = &config.mcp;
    if configured.is_empty() {
        table::note("no MCP server is configured: `mcp` in opencode.json names them");
        return Ok(());
    }
    let named = Arc::clone(config);
    let launcher = Launcher {
        supervisor: settings::supervisor(),
        secrets: Secrets::found_by(move || named.secrets()),
        ..Launcher::default()
    };
    let options = McpOptions {
        directory: config.root.clone(),
        launcher,
        confined: settings::confined_servers(config)?,
        timing: McpTiming { settle: McpTiming::default().connect, ..McpTiming::default() },
    };
    let below = Registry::builtin(&ToolSettings::default());
    let servers = Servers::start(configured.launches(), &below, &options);
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
        rows.push(vec![name, state.to_owned(), mask(&details).into_owned()]);
    }
    rows.sort();
    table::rows(&["SERVER", "STATE", "TOOLS"], rows);
    servers.close().await;
    Ok(())
}

fn trust(config: &Config, names: &[String], yes: bool) -> Result<()> {
    let held: Vec<(&str, &ServerDefinition)> = config.mcp.held().collect();
    if let Some(name) = names.iter().find(|name| !held.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = held.iter().map(|(known, _)| *known).collect();
        match known.as_slice() {
            [] => bail!("no MCP server waits for it here; your own need no permission"),
            known => bail!("no MCP server {name} waits for it here, only {}", known.join(", ")),
        }
    }
    if held.is_empty() {
        table::note("no MCP server waits for it here; your own need no permission");
        return Ok(());
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let chosen: Vec<_> = held.into_iter().filter(|(name, _)| is_chosen(name)).collect();
    let root = config.root.display();
    if !yes {
        chosen.iter().for_each(|(name, server)| table::line(format!("{name}: {}", summary(server))));
        table::confirm_change(
            &format!("May all of this run in {root}, as it is now?"),
            "nothing is trusted",
        )?;
    }
    let trust = settings::trust()?;
    for (name, server) in chosen {
        let item = format!("mcp.{name}");
        if let Some(value) = config.held.get(&item) {
            trust.grant(&config.root, [(item.as_str(), value)])?;
            table::line(format!("{name} may run in {root}: {}", summary(server)));
        }
    }
    Ok(())
}

fn untrust(config: &Config, names: &[String], yes: bool) -> Result<()> {
    let trust = settings::trust()?;
    let granted = trust.granted(&config.root)?;
    let servers = granted.keys().filter_map(|item| item.strip_prefix("mcp."));
    let servers: Vec<&str> =
        servers.filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == name)).collect();
    let root = config.root.display();
    if !servers.is_empty() && !yes {
        let question = format!("May {} not run in {root} any more?", servers.join(", "));
        table::confirm_change(&question, "what may run is as before")?;
    }
    let items: Vec<String> = servers.iter().map(|name| format!("mcp.{name}")).collect();
    let count = if items.is_empty() { 0 } else { trust.revoke(&config.root, &items)? };
    table::line(format!("{} may not run in {root} any more", table::counted(count, "server", "servers")));
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
