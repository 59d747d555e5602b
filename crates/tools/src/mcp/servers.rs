//! A set of servers, as one project has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::naming::Naming;
use super::server::McpServer;
use super::{Connection, McpError, PromptInfo, Resource, ResourceContent, ServerDefinition};
use crate::process::Launcher;
use crate::process::sandbox::SandboxPolicy;
use crate::registry::Registry;

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpTiming {
    /// Connecting to a server whose configuration says nothing about it.
    pub connect: Duration,
    /// A call without progress.
    pub silence: Duration,
    /// A call with it.
    pub longest: Duration,
    /// A process between being told to end and being told more strongly.
    pub grace: Duration,
    /// The first pause between two attempts to connect; each one is twice the one before.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// Attempts, before they are given up until the server is next used.
    pub patience: Duration,
    /// How long a connection must hold before pauses start over.
    pub stable: Duration,
    /// A turn's wait for servers that are still connecting, and a call's for one that is about to come back.
    pub settle: Duration,
    /// The pause between two looks at a server's changed tools.
    pub relist: Duration,
    /// The answer to a ping, by which a server that left a call unanswered shows that it is alive.
    pub ping: Duration,
}

impl Default for McpTiming {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(30),
            silence: seconds(120),
            longest: seconds(3600),
            grace: seconds(1),
            first_pause: seconds(1),
            longest_pause: seconds(60),
            patience: seconds(300),
            stable: seconds(30),
            settle: seconds(5),
            relist: seconds(1),
            ping: seconds(10),
        }
    }
}

/// Where servers run.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// The project's folder: where processes start, and what servers are told that it is.
    pub directory: PathBuf,
    /// How processes are started, and what they must not see; how long they may take to end is part of the times.
    pub launcher: Launcher,
    /// Those that are confined.
    pub confined: Option<ConfinedServers>,
    /// How long things may take.
    pub timing: McpTiming,
}

/// Servers that are confined.
#[derive(Debug, Clone)]
pub struct ConfinedServers {
    /// Their names.
    pub names: BTreeSet<String>,
    /// What their processes run in.
    pub confinement: ServerConfinement,
}

/// What the processes of servers run in.
#[derive(Debug, Clone)]
pub enum ServerConfinement {
    /// A sandbox, and what they may see, change and reach in it.
    Sandbox(Box<SandboxPolicy>),
    /// Nothing: they do what the account can.
    Open,
    /// Nothing that would do, so they are not started. The text says why.
    Impossible(String),
}

/// Whether a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// It is.
    Now,
    /// It is switched off.
    Off,
    /// Somebody must allow it first; the text says how.
    Held(String),
}

/// What a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerStatus {
    /// It is being connected to.
    Connecting,
    /// Its tools can be called.
    Connected,
    /// It is switched off.
    Disabled,
    /// It is not there, for this reason.
    Failed(String),
    /// It wants to know who is calling.
    NeedsAuth(String),
}

/// Servers that are kept connected until [`Servers::close`], or until this is dropped.
#[derive(Debug)]
pub struct Servers {
    servers: BTreeMap<String, Arc<McpServer>>,
    registry: Registry,
    /// When one of them was started last.
    started: Mutex<Instant>,
    settle: Duration,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Servers {
    /// Begins to connect, in the background. The servers' tools appear in a layer over `below`.
    #[must_use]
    pub fn start(
        servers: BTreeMap<String, (ServerDefinition, Launch)>,
        below: &Registry,
        options: &McpOptions,
    ) -> Self {
        let registry = below.layer();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let names: Vec<String> = servers.keys().cloned().collect();
        let start = |(name, (server, launch)): (String, (ServerDefinition, Launch))| {
            let naming = Naming::new(&name, names.iter().map(String::as_str), below.clone());
            let mut options = options.clone();
            options.confined = options.confined.filter(|confined| confined.names.contains(&name));
            if let Some(ServerConfinement::Sandbox(policy)) =
                options.confined.as_ref().map(|confined| &confined.confinement)
            {
                options.launcher.sandbox = Some(SandboxPolicy::clone(policy));
            }
            let server = Arc::new(McpServer::new(&name, server, launch, options, naming, registry.clone()));
            tasks.spawn(Arc::clone(&server).run(stop.clone()));
            (name, server)
        };
        let servers = servers.into_iter().map(start).collect();
        let settle = options.timing.settle;
        Self { servers, registry, started: Mutex::new(Instant::now()), settle, tasks, stop }
    }

    /// The tools of these servers, over those below.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What each server is doing.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<String, ServerStatus> {
        self.servers.iter().map(|(name, server)| (name.clone(), server.status())).collect()
    }

    /// Waits for servers that are still connecting, but not longer than a short while after one was started, and gives
    /// those another try that were given up.
    pub async fn settled(&self) {
        self.servers.values().filter(|server| server.is_resting()).for_each(|server| server.wake());
        let all = join_all(self.servers.values().map(|server| server.settled()));
        let started = *self.started.lock().unwrap_or_else(PoisonError::into_inner);
        timeout_at(started + self.settle, all).await.ok();
    }

    /// Waits as long for servers that are connecting now, for somebody who asks how they are.
    pub async fn settled_by_now(&self) {
        self.servers.values().filter(|server| server.is_resting()).for_each(|server| server.wake());
        let all = join_all(self.servers.values().map(|server| server.settled()));
        timeout(self.settle, all).await.ok();
    }

    /// What the connected servers have to read, by server. One that does not list it in a short while is left out.
    pub async fn resources(&self) -> Vec<(String, Resource)> {
        let listed = self.servers.iter().filter_map(|(name, server)| Some((name, server.connection()?)));
        let listed = listed.map(async |(name, connection)| {
            let resources = match timeout(self.settle, connection.resources()).await {
                Ok(Ok(resources)) => resources,
                Ok(Err(fault)) => {
                    tracing::warn!(server = name, %fault, "an MCP server's resources are not listed");
                    Vec::new()
                }
                Err(_) => {
                    tracing::warn!(server = name, "an MCP server takes too long to list its resources");
                    Vec::new()
                }
            };
            resources.into_iter().map(move |resource| (name.clone(), resource))
        });
        join_all(listed).await.into_iter().flatten().collect()
    }

    /// The prompts of the connected servers, by server. One that does not list them in a short while is left out.
    pub async fn prompts(&self) -> Vec<(String, PromptInfo)> {
        let listed = self.servers.iter().filter_map(|(name, server)| Some((name, server.connection()?)));
        let listed = listed.map(async |(name, connection)| {
            let prompts = match timeout(self.settle, connection.prompts()).await {
                Ok(Ok(prompts)) => prompts,
                Ok(Err(fault)) => {
                    tracing::warn!(server = name, %fault, "an MCP server's prompts are not listed");
                    Vec::new()
                }
                Err(_) => {
                    tracing::warn!(server = name, "an MCP server takes too long to list its prompts");
                    Vec::new()
                }
            };
            prompts.into_iter().map(move |prompt| (name.clone(), prompt))
        });
        join_all(listed).await.into_iter().flatten().collect()
    }

    /// The words of a prompt of a server; nothing if there is no such server.
    ///
    /// # Errors
    /// When the server is not connected and does not come back in a short while, and when it has no such prompt.
    pub async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Option<Result<String, McpError>> {
        Some(self.servers.get(server)?.prompt(name, arguments).await)
    }

    /// Reads a resource of a server; nothing if there is no such server.
    ///
    /// # Errors
    /// When the server is not connected and does not come back in a short while, and when it has no such resource.
    pub async fn resource(&self, server: &str, uri: &str) -> Option<Result<ResourceContent, McpError>> {
        Some(self.servers.get(server)?.resource(uri).await)
    }

    /// Whether there is a server of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.servers.contains_key(name)
    }

    /// The reason why a server may not be started, if there is one.
    #[must_use]
    pub fn held(&self, name: &str) -> Option<String> {
        match self.servers.get(name)?.launch() {
            Launch::Held(reason) => Some(reason),
            Launch::Now | Launch::Off => None,
        }
    }

    /// Starts or stops a server, or tries again at once. False if there is no such server.
    pub fn set(&self, name: &str, launch: Launch) -> bool {
        let Some(server) = self.servers.get(name) else { return false };
        if launch == Launch::Now {
            *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        server.set(launch);
        server.wake();
        true
    }

    /// Waits until a server is not connecting any more.
    pub async fn settled_one(&self, name: &str) {
        if let Some(server) = self.servers.get(name) {
            timeout_at(Instant::now() + self.settle, server.settled()).await.ok();
        }
    }

    /// The connection to a server, while there is one.
    #[must_use]
    pub fn connection(&self, name: &str) -> Option<Arc<Connection>> {
        self.servers.get(name)?.connection()
    }

    /// The names of a server's tools as they are called here, sorted.
    #[must_use]
    pub fn tools(&self, name: &str) -> Vec<String> {
        self.servers.get(name).map(|server| server.tools()).unwrap_or_default()
    }

    /// Ends all servers and waits until nothing of them is left.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
