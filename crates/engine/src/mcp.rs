//! The MCP servers of the places that sessions work in.
//!
//! A set of servers is started when a turn, or a client that asks for them, first needs it in a worktree; where none is
//! configured nothing happens. A server that a project's own configuration names is code from a repository: it is held
//! until the person trusts it there, and held again when its definition changes. It runs in that project and nowhere
//! else, because the configuration of other folders does not name it.

mod prompts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::Map;
use everturn_tools::Registry;
use everturn_tools::mcp::{
    ConfinedServers, Launch, McpOptions, McpTiming, ResourceContent, ServerDefinition, Servers,
};
use everturn_tools::process::Launcher;
use everturn_tools::process::sandbox::{SandboxMachine, SandboxNetwork};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use everturn_tools::mcp::{Resource, ServerStatus};

use crate::config::SandboxChoice;
use crate::configurations::Configurations;
use crate::confinement::{Confinement, server_network, server_policy};
use crate::lifecycle::Lifecycle;
use crate::options::Paths;
use crate::projects::Location;
use crate::{Config, Error};

/// How many worktrees may have their servers running at once.
const SETS_MAX: usize = 16;

/// The servers that are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredServers {
    servers: BTreeMap<String, ServerDefinition>,
    /// Those whose configuration cannot be used, and why.
    invalid: BTreeMap<String, String>,
    /// Those that a project's configuration names or changes, and that nobody trusts as they are.
    held: BTreeSet<String>,
    /// Those that a project's configuration names or changes, and that the person trusts: programs of a repository, which
    /// run in a sandbox.
    brought: BTreeSet<String>,
    /// The root of that project.
    root: PathBuf,
}

impl ConfiguredServers {
    /// Reads OpenCode's `mcp` object.
    pub(crate) fn read(value: &Value) -> Self {
        let mut configured = Self::default();
        for (name, value) in value.as_object().into_iter().flatten() {
            match ServerDefinition::from_value(value) {
                Ok(server) => drop(configured.servers.insert(name.clone(), server)),
                // A line that only switches off what another file may define.
                Err(_)
                    if value.get("type").is_none() && value.get("enabled") == Some(&Value::Bool(false)) => {}
                Err(error) => drop(configured.invalid.insert(name.clone(), error.to_string())),
            }
        }
        configured
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.invalid.is_empty()
    }

    /// Adds the servers that a project asks for and nobody trusts, among everything that it asks for.
    #[must_use]
    pub(crate) fn with_held(mut self, asked: &BTreeMap<String, Value>, root: &Path) -> Self {
        let servers = asked.iter().filter_map(|(item, value)| Some((item.strip_prefix("mcp.")?, value)));
        for (name, value) in servers {
            self.held.insert(name.to_owned());
            // What changes a server of the person's keeps that from running: which one is meant is not guessed.
            if self.servers.contains_key(name) {
                continue;
            }
            let held = Self::read(&[(name.to_owned(), value.clone())].into_iter().collect::<Map>().into());
            self.servers.extend(held.servers);
            self.invalid.extend(held.invalid);
        }
        root.clone_into(&mut self.root);
        self
    }

    /// Says which of them a project brings.
    #[must_use]
    pub(crate) fn brought(mut self, names: BTreeSet<String>) -> Self {
        self.brought = names;
        self
    }

    /// Leaves out servers, each for a reason.
    #[must_use]
    pub(crate) fn without(mut self, stopped: BTreeMap<String, String>) -> Self {
        let there = stopped.into_iter().filter(|(name, _)| self.servers.remove(name).is_some());
        self.invalid.extend(there);
        self
    }

    /// Every server with whether it is to be started.
    #[must_use]
    pub fn launches(&self) -> BTreeMap<String, (ServerDefinition, Launch)> {
        let launch = |(name, server): (&String, &ServerDefinition)| {
            (name.clone(), (server.clone(), self.launch(name, server)))
        };
        self.servers.iter().map(launch).collect()
    }

    /// The servers that may run once somebody trusts them.
    pub fn held(&self) -> impl Iterator<Item = (&str, &ServerDefinition)> {
        self.servers
            .iter()
            .filter(|(name, _)| self.held.contains(*name))
            .map(|(name, server)| (&**name, server))
    }

    /// Servers whose configuration cannot be used, and why.
    #[must_use]
    pub fn invalid(&self) -> &BTreeMap<String, String> {
        &self.invalid
    }

    fn launch(&self, name: &str, server: &ServerDefinition) -> Launch {
        if self.held.contains(name) {
            return Launch::Held(format!(
                "this project's configuration brings the server, and nobody has allowed it to run here: look at what \
                 it does, then run `everturn mcp trust {name}` in {}",
                self.root.display()
            ));
        }
        if server.enabled { Launch::Now } else { Launch::Off }
    }

    /// What tells one set of servers from another, whether they are held or not.
    fn digest(&self, sandbox: &SandboxChoice, network: SandboxNetwork) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(format!("{sandbox:?}{network:?}{:?}", self.brought).as_bytes());
        for (name, server) in &self.servers {
            hash.update(name.as_bytes()).update(b"\0").update(server.fingerprint().as_bytes());
            hash.update(&[u8::from(server.enabled)]);
        }
        hash.finalize().to_hex().to_string()
    }
}

/// The servers of the worktrees that sessions work in; clones share them.
#[derive(Debug, Clone)]
pub struct McpServers {
    configurations: Configurations,
    /// The engine's own tools.
    tools: Registry,
    /// How local servers are started.
    launcher: Launcher,
    confinement: Confinement,
    lifecycle: Lifecycle,
    /// The running sets.
    sets: Arc<Mutex<HashMap<SetKey, ServerSet>>>,
}

/// A worktree, and what tells the servers there from others: folders of one worktree may be configured differently.
type SetKey = (PathBuf, String);

#[derive(Debug)]
struct ServerSet {
    servers: Arc<Servers>,
    /// The folders whose configuration names just these servers.
    folders: BTreeSet<PathBuf>,
    /// Counts uses, so that the set that was not used for longest is known.
    used: u64,
}

impl McpServers {
    /// The servers that are configured; none is started yet.
    pub(crate) fn new(
        configurations: Configurations,
        tools: Registry,
        launcher: Launcher,
        confinement: Confinement,
        lifecycle: Lifecycle,
    ) -> Self {
        Self { configurations, tools, launcher, confinement, lifecycle, sets: Arc::default() }
    }

    /// The engine's own tools, without those of servers.
    pub(crate) fn own_tools(&self) -> &Registry {
        &self.tools
    }

    /// The tools in a place: the engine's own and those of the servers there. Waits for servers that are connecting,
    /// but not for long.
    pub(crate) async fn registry(
        &self,
        config: &Config,
        location: &Location,
        cancel: &CancellationToken,
    ) -> Registry {
        let ready = tokio::select! {
            ready = self.is_ready(config) => ready,
            () = cancel.cancelled() => false,
        };
        if !ready {
            return self.tools.clone();
        }
        let Some(servers) = self.set(config, location) else { return self.tools.clone() };
        tokio::select! {
            () = self.lifecycle.closing_or(cancel) => {}
            () = servers.settled() => {}
        }
        servers.registry().clone()
    }

    /// What the servers of a place are doing.
    pub async fn statuses(&self, location: &Location) -> BTreeMap<String, ServerStatus> {
        let invalid = |(name, reason): (&String, &String)| {
            (name.clone(), ServerStatus::Failed(format!("its configuration cannot be used: {reason}")))
        };
        let config = self.configurations.at(&location.directory).await;
        let mut statuses: BTreeMap<_, _> = config.mcp.invalid.iter().map(invalid).collect();
        if self.is_ready(&config).await
            && let Some(servers) = self.set(&config, location)
        {
            servers.settled_by_now().await;
            statuses.extend(servers.statuses());
        }
        statuses
    }

    /// What the connected servers of a place have to read, each with the name of its server.
    pub async fn resources(&self, location: &Location) -> Vec<(String, Resource)> {
        let Some(servers) = self.found(location).await else { return Vec::new() };
        servers.settled().await;
        servers.resources().await
    }

    /// Reads a resource of a server of a place.
    ///
    /// # Errors
    /// In words, when there is no such server, nobody has allowed it, or it cannot be read from.
    pub(crate) async fn read_resource(
        &self,
        location: &Location,
        server: &str,
        uri: &str,
    ) -> Result<ResourceContent, String> {
        let reading = match self.found(location).await {
            Some(servers) => servers.resource(server, uri).await,
            None => None,
        };
        let reading = reading.ok_or_else(|| "there is no MCP server of that name".to_owned())?;
        reading.map_err(|fault| fault.to_string())
    }

    /// Starts a server of a place, or tries again at once.
    ///
    /// # Errors
    /// When there is no such server, or nobody has allowed it.
    pub async fn connect(&self, location: &Location, name: &str) -> Result<(), Error> {
        let servers = self.found(location).await.filter(|servers| servers.contains(name));
        let servers = servers.ok_or_else(|| Error::NoServer(name.to_owned()))?;
        if let Some(reason) = servers.held(name) {
            return Err(Error::Invalid(reason));
        }
        servers.set(name, Launch::Now);
        servers.settled_one(name).await;
        Ok(())
    }

    /// Stops a server of a place.
    ///
    /// # Errors
    /// When there is no such server.
    pub async fn disconnect(&self, location: &Location, name: &str) -> Result<(), Error> {
        let servers = self.found(location).await.filter(|servers| servers.contains(name));
        let servers = servers.ok_or_else(|| Error::NoServer(name.to_owned()))?;
        // What nobody has allowed stays held.
        if servers.held(name).is_none() {
            servers.set(name, Launch::Off);
        }
        Ok(())
    }

    /// The servers of a place, as it is configured now.
    async fn found(&self, location: &Location) -> Option<Arc<Servers>> {
        let config = self.configurations.at(&location.directory).await;
        if self.is_ready(&config).await { self.set(&config, location) } else { None }
    }

    /// Waits until it is known what servers can run in, unless there are none; false if the engine closes meanwhile.
    async fn is_ready(&self, config: &Config) -> bool {
        config.mcp.is_empty() || self.confinement.ready(self.lifecycle.closing()).await
    }

    fn set(&self, config: &Config, location: &Location) -> Option<Arc<Servers>> {
        if self.lifecycle.is_closing() {
            return None;
        }
        let configured = &config.mcp;
        let sandbox = config.sandbox.under(&server_policy(config));
        let key = (location.worktree.clone(), configured.digest(&sandbox, server_network(config)));
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave_others(&mut sets, &key, &location.directory);
        if configured.servers.is_empty() {
            return None;
        }
        let used = sets.values().map(|set| set.used).max().unwrap_or_default() + 1;
        if let Some(set) = sets.get_mut(&key) {
            set.used = used;
            set.folders.insert(location.directory.clone());
            let servers = Arc::clone(&set.servers);
            drop(sets);
            release(&servers, configured);
            return Some(servers);
        }
        if sets.len() >= SETS_MAX
            && let Some(oldest) = sets.iter().min_by_key(|(_, set)| set.used).map(|(key, _)| key.clone())
            && let Some(set) = sets.remove(&oldest)
        {
            self.lifecycle.spawn(async move { set.servers.close().await });
        }
        let options = McpOptions {
            directory: location.worktree.clone(),
            launcher: self.launcher.clone(),
            confined: confined(&self.confinement, config, &location.worktree),
            timing: McpTiming::default(),
        };
        let servers = Arc::new(Servers::start(configured.launches(), &self.tools, &options));
        let folders = [location.directory.clone()].into();
        sets.insert(key, ServerSet { servers: Arc::clone(&servers), folders, used });
        Some(servers)
    }

    /// Ends the servers that a folder's configuration has named before, unless another folder's still does.
    fn leave_others(&self, sets: &mut HashMap<SetKey, ServerSet>, key: &SetKey, folder: &Path) {
        for (_, set) in sets.iter_mut().filter(|(other, _)| *other != key) {
            set.folders.remove(folder);
        }
        for (_, set) in sets.extract_if(|_, set| set.folders.is_empty()) {
            self.lifecycle.spawn(async move { set.servers.close().await });
        }
    }

    /// Ends all servers.
    pub(crate) async fn close(&self) {
        let sets = std::mem::take(&mut *self.sets.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(sets.values().map(|set| set.servers.close())).await;
    }
}

/// Which of the configured servers run in a sandbox, for those who start them without an engine.
#[must_use]
pub fn confined_servers(config: &Config, paths: Paths, machine: SandboxMachine) -> Option<ConfinedServers> {
    confined(&Confinement::new(machine, Arc::new(paths)), config, &config.root)
}

/// Which servers run in a sandbox, and in which: those that a project brings, and the person's own if they want it.
fn confined(confinement: &Confinement, config: &Config, worktree: &Path) -> Option<ConfinedServers> {
    let configured = &config.mcp;
    let all = || configured.servers.keys().cloned().collect();
    let names: BTreeSet<String> = if config.sandbox.own_servers { all() } else { configured.brought.clone() };
    if names.is_empty() {
        return None;
    }
    Some(ConfinedServers { names, confinement: confinement.of_servers(config, worktree) })
}

/// Starts servers that were held and are trusted by now, and stops those that are trusted no more.
fn release(servers: &Servers, configured: &ConfiguredServers) {
    for (name, server) in &configured.servers {
        let launch = configured.launch(name, server);
        let was_held = servers.held(name).is_some();
        if was_held != matches!(launch, Launch::Held(_)) {
            servers.set(name, launch);
        }
    }
}
