//! The engine's handle.
//!
//! A service is one subject: a type with its own state and methods, which is given the services that it works with and knows
//! no others. The handle only leads to them.

use std::path::Path;
use std::sync::Arc;

use everturn_store::{Observer, Store};

use crate::bus::Bus;
use crate::commands::SlashCommands;
use crate::compaction::Compactions;
use crate::composition::{EngineServices, FeedServices};
use crate::configurations::Configurations;
use crate::drains::Drains;
use crate::feed_follower::{FeedFollower, MissedUpdates};
use crate::guidance::Guidance;
use crate::imports::Imports;
use crate::inbox::PromptInbox;
use crate::mcp::McpServers;
use crate::mint::Mint;
use crate::models::Models;
use crate::options::{Options, Paths};
use crate::outputs::ToolOutputs;
use crate::projects::Projects;
use crate::requests::Requests;
use crate::reverts::Reverts;
use crate::sent_requests::SentRequests;
use crate::sessions::Sessions;
use crate::shell::ShellCommands;
use crate::spending::Spending;
use crate::trash::Trash;
use crate::{Config, Error};

/// A running engine; clones share it.
#[derive(Debug, Clone)]
pub struct Engine(Arc<EngineServices>);

impl Engine {
    /// Opens the store and makes an engine on it. Nothing runs until something is asked or [`Engine::recover`].
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let mint = Mint::new(Arc::clone(&options.world));
        let base = FeedServices::default();
        let follower =
            FeedFollower::new(base.bus.clone(), base.slots.clone(), base.waiting.clone(), base.busy.clone());
        let gaps = follower.gaps();
        let observer: Option<Observer> =
            (!options.quiet).then(|| Arc::new(move |item| follower.take(item)) as Observer);
        let owner = mint.other("own");
        let data = &options.paths.data;
        let mut store_options = match &options.database {
            Some(url) => everturn_store::Options::server(url, data, &owner),
            None => everturn_store::Options::folder(data, &owner),
        };
        store_options.observer = observer;
        store_options.commit_hook.clone_from(&options.commit_hook);
        let store = Store::open(store_options).await?;
        if !options.quiet {
            base.busy.begin(store.run_elsewhere().await?);
        }
        let missed = MissedUpdates::new(store.clone(), gaps);
        Ok(Self(Arc::new(EngineServices::compose(store, mint, base, missed, options))))
    }

    /// Stops accepting work, leaves running turns as they are for the next start, and waits for what must end.
    pub async fn close(&self) {
        self.0.lifecycle.close().await;
        self.0.mcp.close().await;
    }

    /// Continues every session that a crash or a stop left with work to do, and says how many.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recover(&self) -> Result<usize, Error> {
        self.0.recovery.recover().await
    }

    /// Continues sessions whose process died while they were at work.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn adopt(&self) -> Result<(), Error> {
        self.0.recovery.adopt().await
    }

    /// Committed events and live signals.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        self.0.journal.bus()
    }

    /// New ids and the time.
    #[must_use]
    pub fn mint(&self) -> &Mint {
        self.0.journal.mint()
    }

    /// What is configured, by folder.
    #[must_use]
    pub fn configurations(&self) -> &Configurations {
        &self.0.configurations
    }

    /// The folders.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.0.paths
    }

    /// The folder that requests without one mean.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The names of the tools where this is configured.
    #[must_use]
    pub fn tool_names(&self, config: &Config) -> Vec<String> {
        config.tools_over(&self.0.tools).offer().names().map(str::to_owned).collect()
    }

    /// Sessions as a whole: create, read, change, fork.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Where prompts are accepted.
    #[must_use]
    pub fn inbox(&self) -> &PromptInbox {
        &self.0.inbox
    }

    /// Summaries in place of what no longer fits.
    #[must_use]
    pub fn compactions(&self) -> &Compactions {
        &self.0.compactions
    }

    /// The sessions at work.
    #[must_use]
    pub fn drains(&self) -> &Drains {
        &self.0.drains
    }

    /// Permission requests and questions, and their answers.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.0.requests
    }

    /// What folders belong to.
    #[must_use]
    pub fn projects(&self) -> &Projects {
        &self.0.projects
    }

    /// Instructions and skills.
    #[must_use]
    pub fn guidance(&self) -> &Guidance {
        &self.0.guidance
    }

    /// The models and the way to them.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.0.models
    }

    /// The MCP servers.
    #[must_use]
    pub fn mcp(&self) -> &McpServers {
        &self.0.mcp
    }

    /// Undo and redo.
    #[must_use]
    pub fn reverts(&self) -> &Reverts {
        &self.0.reverts
    }

    /// Commands that a person runs.
    #[must_use]
    pub fn shell(&self) -> &ShellCommands {
        &self.0.shell
    }

    /// Slash commands.
    #[must_use]
    pub fn commands(&self) -> &SlashCommands {
        &self.0.commands
    }

    /// Sessions of other programs.
    #[must_use]
    pub fn imports(&self) -> &Imports {
        &self.0.imports
    }

    /// The trash.
    #[must_use]
    pub fn trash(&self) -> &Trash {
        &self.0.trash
    }

    /// What the sessions have used.
    #[must_use]
    pub fn spending(&self) -> &Spending {
        &self.0.spending
    }

    /// What models were sent.
    #[must_use]
    pub fn sent_requests(&self) -> &SentRequests {
        &self.0.sent
    }

    /// Long output of tools.
    #[must_use]
    pub fn outputs(&self) -> &ToolOutputs {
        &self.0.outputs
    }
}
