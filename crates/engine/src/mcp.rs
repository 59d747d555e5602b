//! The MCP servers of the places that sessions work in.
//!
//! A set of servers is started when a turn, or a client that asks for them, first needs it in a worktree; where none is
//! configured nothing happens. A server that a project's own configuration names is code from a repository: it is held
//! until the person has said that it may run there, and held again when its definition changes. It runs in that project
//! and nowhere else, whichever folders clients name.

mod trust;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use everturn_tools::Registry;
use everturn_tools::mcp::{Launch, McpOptions, McpTiming, ResourceContent, ServerDefinition, Servers};
use everturn_tools::process::{Launcher, Secrets};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use everturn_tools::mcp::{Resource, ServerStatus};
pub use trust::Trust;

use crate::lifecycle::Lifecycle;
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
    /// Those that a project's own configuration names or changes.
    from_project: BTreeSet<String>,
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

    /// Says which servers the configuration of the project at `root` names or changes.
    #[must_use]
    pub fn with_project_servers(mut self, names: BTreeSet<String>, root: &Path) -> Self {
        self.from_project = names;
        root.clone_into(&mut self.root);
        self
    }

    /// The servers that the project brings, with what identifies each.
    pub fn from_project(&self) -> impl Iterator<Item = (&str, &ServerDefinition)> {
        self.servers
            .iter()
            .filter(|(name, _)| self.from_project.contains(*name))
            .map(|(name, server)| (&**name, server))
    }

    /// The root of the project that brings them.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every server with whether it is to be started in a worktree.
    #[must_use]
    pub fn launches(&self, worktree: &Path, trust: &Trust) -> BTreeMap<String, (ServerDefinition, Launch)> {
        let launch = |(name, server): (&String, &ServerDefinition)| {
            (name.clone(), (server.clone(), self.launch(name, server, worktree, trust)))
        };
        self.servers.iter().map(launch).collect()
    }

    /// Servers whose configuration cannot be used, and why.
    #[must_use]
    pub fn invalid(&self) -> &BTreeMap<String, String> {
        &self.invalid
    }

    fn launch(&self, name: &str, server: &ServerDefinition, worktree: &Path, trust: &Trust) -> Launch {
        // The same command may run other code in another folder, and nobody has looked at that.
        if self.from_project.contains(name) && worktree != self.root {
            return Launch::Held(format!(
                "the configuration of {} brings the server, and it runs only there, not in {}",
                self.root.display(),
                worktree.display()
            ));
        }
        if self.from_project.contains(name) && !trust.allows(&self.root, name, server) {
            return Launch::Held(format!(
                "this project's configuration brings the server, and nobody has allowed it to run here: look at what \
                 it does, then run `everturn mcp trust {name}` in {}",
                self.root.display()
            ));
        }
        if server.enabled { Launch::Now } else { Launch::Off }
    }
}

/// The servers of the worktrees that sessions work in; clones share them.
#[derive(Debug, Clone)]
pub struct McpServers {
    config: Arc<Config>,
    /// Which of a project's own servers are allowed.
    trust: Trust,
    /// The engine's own tools.
    tools: Registry,
    /// The binary that watches over local servers.
    supervisor: Option<PathBuf>,
    lifecycle: Lifecycle,
    /// The running sets, by worktree.
    sets: Arc<Mutex<HashMap<PathBuf, ServerSet>>>,
}

#[derive(Debug)]
struct ServerSet {
    servers: Arc<Servers>,
    /// Counts uses, so that the set that was not used for longest is known.
    used: u64,
}

impl McpServers {
    /// The servers that are configured; none is started yet. `state` is where approvals are kept.
    pub(crate) fn new(
        config: Arc<Config>,
        state: &Path,
        tools: Registry,
        supervisor: Option<PathBuf>,
        lifecycle: Lifecycle,
    ) -> Self {
        Self { config, trust: Trust::new(state), tools, supervisor, lifecycle, sets: Arc::default() }
    }

    /// The engine's own tools, without those of servers.
    pub(crate) fn own_tools(&self) -> &Registry {
        &self.tools
    }

    /// The tools in a place: the engine's own and those of the servers there. Waits for servers that are connecting,
    /// but not for long.
    pub(crate) async fn registry(&self, location: &Location, cancel: &CancellationToken) -> Registry {
        let Some(servers) = self.set(location) else { return self.tools.clone() };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.lifecycle.closing() => {}
            () = servers.settled() => {}
        }
        servers.registry().clone()
    }

    /// What the servers of a place are doing.
    pub async fn statuses(&self, location: &Location) -> BTreeMap<String, ServerStatus> {
        let invalid = |(name, reason): (&String, &String)| {
            (name.clone(), ServerStatus::Failed(format!("its configuration cannot be used: {reason}")))
        };
        let mut statuses: BTreeMap<_, _> = self.config.mcp.invalid.iter().map(invalid).collect();
        if let Some(servers) = self.set(location) {
            servers.settled_by_now().await;
            statuses.extend(servers.statuses());
        }
        statuses
    }

    /// What the connected servers of a place have to read, each with the name of its server.
    pub async fn resources(&self, location: &Location) -> Vec<(String, Resource)> {
        let Some(servers) = self.set(location) else { return Vec::new() };
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
        let reading = match self.set(location) {
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
        let servers = self.set(location).filter(|servers| servers.contains(name));
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
    pub fn disconnect(&self, location: &Location, name: &str) -> Result<(), Error> {
        let servers = self.set(location).filter(|servers| servers.contains(name));
        let servers = servers.ok_or_else(|| Error::NoServer(name.to_owned()))?;
        // What nobody has allowed stays held.
        if servers.held(name).is_none() {
            servers.set(name, Launch::Off);
        }
        Ok(())
    }

    fn set(&self, location: &Location) -> Option<Arc<Servers>> {
        let configured = &self.config.mcp;
        if configured.servers.is_empty() || self.lifecycle.is_closing() {
            return None;
        }
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let used = sets.values().map(|set| set.used).max().unwrap_or_default() + 1;
        if let Some(set) = sets.get_mut(&location.worktree) {
            set.used = used;
            let servers = Arc::clone(&set.servers);
            drop(sets);
            self.release_servers(&servers, &location.worktree);
            return Some(servers);
        }
        if sets.len() >= SETS_MAX
            && let Some(oldest) = sets.iter().min_by_key(|(_, set)| set.used).map(|(place, _)| place.clone())
            && let Some(set) = sets.remove(&oldest)
        {
            self.lifecycle.spawn(async move { set.servers.close().await });
        }
        let config = Arc::clone(&self.config);
        let launcher = Launcher {
            supervisor: self.supervisor.clone(),
            secrets: Secrets::found_by(move || config.secrets()),
            ..Launcher::default()
        };
        let options =
            McpOptions { directory: location.worktree.clone(), launcher, timing: McpTiming::default() };
        let launches = configured.launches(&location.worktree, &self.trust);
        let servers = Arc::new(Servers::start(launches, &self.tools, &options));
        sets.insert(location.worktree.clone(), ServerSet { servers: Arc::clone(&servers), used });
        Some(servers)
    }

    /// Starts servers that were held and are allowed by now.
    fn release_servers(&self, servers: &Servers, worktree: &Path) {
        let configured = &self.config.mcp;
        let held: Vec<_> =
            configured.from_project().filter(|(name, _)| servers.held(name).is_some()).collect();
        if held.is_empty() {
            return;
        }
        for (name, server) in held {
            match configured.launch(name, server, worktree, &self.trust) {
                Launch::Held(_) => {}
                launch @ (Launch::Now | Launch::Off) => drop(servers.set(name, launch)),
            }
        }
    }

    /// Ends all servers.
    pub(crate) async fn close(&self) {
        let sets = std::mem::take(&mut *self.sets.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(sets.values().map(|set| set.servers.close())).await;
    }
}
