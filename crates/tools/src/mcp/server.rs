//! One configured server: connect, register its tools, notice its end, try again.
//!
//! All of it happens in a task of its own. Others see the state, and wait for it only as long as they choose.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::content::CallResult;
use super::naming::Naming;
use super::tool::McpTool;
use super::{
    CallProgress, Connection, Launch, McpError, McpOptions, McpTiming, ResourceContent, ServerAddress,
    ServerConfinement, ServerDefinition, ServerStatus,
};
use crate::registry::{Registry, ToolRegistration};

/// What a server is doing.
#[derive(Debug, Clone)]
pub(super) enum ServerState {
    Connecting,
    Connected(Arc<Connection>),
    /// Another attempt follows.
    Waiting(String),
    /// Another attempt follows when somebody wants it.
    Resting(String),
    NeedsAuth(String),
    Off,
    Held(String),
}

/// One configured server.
#[derive(Debug)]
pub(super) struct McpServer {
    name: String,
    server: ServerDefinition,
    options: McpOptions,
    naming: Naming,
    registry: Registry,
    state: watch::Sender<ServerState>,
    launch: watch::Sender<Launch>,
    /// Ends a pause.
    wake: Notify,
    tools: Mutex<Vec<ToolRegistration>>,
}

/// Why a connection that was there is none any more.
enum ConnectionEnd {
    Stopped,
    Lost(McpError),
}

impl McpServer {
    pub(super) fn new(
        name: &str,
        server: ServerDefinition,
        launch: Launch,
        options: McpOptions,
        naming: Naming,
        registry: Registry,
    ) -> Self {
        Self {
            name: name.to_owned(),
            server,
            options,
            naming,
            registry,
            // Until the task has looked at it, everything that is to start counts as starting.
            state: watch::Sender::new(match &launch {
                Launch::Now => ServerState::Connecting,
                Launch::Off => ServerState::Off,
                Launch::Held(reason) => ServerState::Held(reason.clone()),
            }),
            launch: watch::Sender::new(launch),
            wake: Notify::new(),
            tools: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn launch(&self) -> Launch {
        self.launch.borrow().clone()
    }

    /// Has the server started, stopped or held.
    pub(super) fn set(&self, launch: Launch) {
        if launch == Launch::Now {
            // At once, and not when its task has looked: whoever asks for its tools next waits for it.
            self.state.send_if_modified(|state| {
                let idle = matches!(state, ServerState::Off | ServerState::Held(_));
                if idle {
                    *state = ServerState::Connecting;
                }
                idle
            });
        }
        self.launch.send_if_modified(|present| {
            let other = *present != launch;
            *present = launch;
            other
        });
    }

    /// Ends a pause between two attempts. A server that is at rest counts as connecting from then on.
    pub(super) fn wake(&self) {
        self.wake.notify_waiters();
    }

    pub(super) fn status(&self) -> ServerStatus {
        match &*self.state.borrow() {
            ServerState::Connecting => ServerStatus::Connecting,
            ServerState::Connected(_) => ServerStatus::Connected,
            ServerState::Waiting(reason) | ServerState::Resting(reason) | ServerState::Held(reason) => {
                ServerStatus::Failed(reason.clone())
            }
            ServerState::NeedsAuth(reason) => ServerStatus::NeedsAuth(reason.clone()),
            ServerState::Off => ServerStatus::Disabled,
        }
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(&*self.state.borrow(), ServerState::Resting(_) | ServerState::NeedsAuth(_))
    }

    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            ServerState::Connected(connection) if !connection.is_closed() => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// The names of its tools, sorted.
    pub(super) fn tools(&self) -> Vec<String> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Waits until the server is not connecting any more.
    pub(super) async fn settled(&self) {
        self.state.subscribe().wait_for(|state| !matches!(state, ServerState::Connecting)).await.ok();
    }

    /// The connection, waiting a while for one that is about to come back.
    async fn reach(&self, patience: Duration) -> Result<Arc<Connection>, McpError> {
        if self.is_resting() {
            self.wake();
        }
        let mut state = self.state.subscribe();
        let there = |state: &ServerState| match state {
            ServerState::Connected(connection) => !connection.is_closed(),
            ServerState::Off | ServerState::Held(_) => true,
            ServerState::Connecting
            | ServerState::Waiting(_)
            | ServerState::Resting(_)
            | ServerState::NeedsAuth(_) => false,
        };
        timeout(patience, state.wait_for(there)).await.ok();
        self.connection().ok_or_else(|| {
            McpError::Closed(match self.status() {
                ServerStatus::Failed(reason) | ServerStatus::NeedsAuth(reason) => {
                    format!("it is not connected: {reason}")
                }
                ServerStatus::Disabled => "it is switched off".to_owned(),
                ServerStatus::Connecting | ServerStatus::Connected => "it is not connected yet".to_owned(),
            })
        })
    }

    /// Reads a resource of the server.
    pub(super) async fn resource(&self, uri: &str) -> Result<ResourceContent, McpError> {
        let patience = self.options.timing.settle;
        let contents = match self.reach(patience).await?.resource(uri).await {
            Err(McpError::SessionLost) => self.reach(patience).await?.resource(uri).await,
            contents => contents,
        };
        contents.map(ResourceContent::new)
    }

    /// The words of a prompt of the server.
    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<String, McpError> {
        let patience = self.options.timing.settle;
        match self.reach(patience).await?.prompt(name, arguments).await {
            Err(McpError::SessionLost) => self.reach(patience).await?.prompt(name, arguments).await,
            text => text,
        }
    }

    /// Calls a tool of the server.
    pub(super) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: &Value,
        cancel: &CancellationToken,
        mut report: impl FnMut(&CallProgress),
    ) -> Result<CallResult, McpError> {
        let patience = self.options.timing.settle;
        let reach = || async {
            tokio::select! {
                () = cancel.cancelled() => Err(McpError::Cancelled),
                reached = self.reach(patience) => reached,
            }
        };
        let connection = reach().await?;
        let outcome = match connection.call(tool, arguments, cancel, &mut report).await {
            // The server did not look at it, so that it can be sent again.
            Err(McpError::SessionLost) => reach().await?.call(tool, arguments, cancel, &mut report).await,
            outcome => outcome,
        };
        if let Err(McpError::TimedOut(_)) = &outcome {
            // Perhaps only the tool is slow. A server that does not even answer this is started again.
            let patience = self.options.timing.ping;
            tokio::spawn(async move {
                if !matches!(
                    timeout(patience, connection.ping()).await,
                    Ok(Ok(()) | Err(McpError::Refused { .. }))
                ) {
                    connection.fail(McpError::Closed("the server does not answer any more".to_owned()));
                }
            });
        }
        outcome
    }

    /// Keeps the server connected until `stop` fires, and leaves nothing of it then.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let McpTiming { first_pause, longest_pause, patience, stable, .. } = self.options.timing;
        let mut backoff = Backoff::new(first_pause, longest_pause, patience);
        while self.wanted(&stop).await {
            self.state.send_replace(ServerState::Connecting);
            let began = Instant::now();
            let fault = match self.connect(&stop).await {
                Some(Ok(connection)) => {
                    let ending = self.attend(&connection, &stop).await;
                    self.replace_tools(Vec::new());
                    // Before the waiting, so that nobody sees a server that is about to end.
                    self.state.send_replace(ServerState::Connecting);
                    connection.close().await;
                    match ending {
                        ConnectionEnd::Stopped => continue,
                        ConnectionEnd::Lost(fault) => fault,
                    }
                }
                Some(Err(fault)) => fault,
                None => continue,
            };
            if began.elapsed() > stable {
                backoff.reset();
            }
            tracing::debug!(server = self.name, %fault, "an MCP server is not connected");
            let pause = match fault {
                McpError::NeedsAuth(reason) => {
                    self.state.send_replace(ServerState::NeedsAuth(reason));
                    None
                }
                fault => {
                    let pause = backoff.pause();
                    let reason = fault.to_string();
                    if pause.is_none() {
                        tracing::warn!(
                            server = self.name,
                            reason,
                            "gave up on an MCP server until it is next used"
                        );
                        self.state.send_replace(ServerState::Resting(reason));
                        backoff.reset();
                    } else {
                        self.state.send_replace(ServerState::Waiting(reason));
                    }
                    pause
                }
            };
            self.rest(pause, &stop).await;
        }
        self.state.send_replace(ServerState::Off);
    }

    /// Waits until the server is to run; false when it never will be again.
    async fn wanted(&self, stop: &CancellationToken) -> bool {
        let mut launch = self.launch.subscribe();
        loop {
            let present = launch.borrow_and_update().clone();
            match present {
                _ if stop.is_cancelled() => return false,
                Launch::Now => return true,
                Launch::Off => drop(self.state.send_replace(ServerState::Off)),
                Launch::Held(reason) => drop(self.state.send_replace(ServerState::Held(reason))),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                changed = launch.changed() => if changed.is_err() { return false },
            }
        }
    }

    /// Waits until the server is not to run any more.
    async fn unwanted(&self, stop: &CancellationToken) {
        let mut launch = self.launch.subscribe();
        tokio::select! {
            () = stop.cancelled() => {}
            _ = launch.wait_for(|launch| *launch != Launch::Now) => {}
        }
    }

    /// Connects and registers the tools; nothing if that is not wanted any more.
    async fn connect(
        self: &Arc<Self>,
        stop: &CancellationToken,
    ) -> Option<Result<Arc<Connection>, McpError>> {
        let McpOptions { directory, launcher, timing, confined } = &self.options;
        let confinement = confined.as_ref().map(|confined| &confined.confinement);
        if let (Some(ServerConfinement::Impossible(reason)), ServerAddress::Local { .. }) =
            (confinement, &self.server.endpoint)
        {
            return Some(Err(McpError::Configuration(reason.clone())));
        }
        // The greeting has its own limit, and each page of the list; this one is for all of it.
        let limit = 2 * self.server.timeout.unwrap_or(timing.connect);
        let connecting = async {
            let connection = Connection::open(&self.server, directory, launcher, *timing).await?;
            let listed = self.list(&connection).await;
            if let Err(fault) = listed {
                connection.close().await;
                return Err(fault);
            }
            Ok(Arc::new(connection))
        };
        let outcome = tokio::select! {
            () = self.unwanted(stop) => return None,
            outcome = timeout(limit, connecting) => outcome.unwrap_or(Err(McpError::TimedOut(limit))),
        };
        if let Ok(connection) = &outcome {
            self.state.send_replace(ServerState::Connected(Arc::clone(connection)));
        } else {
            self.replace_tools(Vec::new());
        }
        Some(outcome)
    }

    /// Looks after an open connection.
    async fn attend(self: &Arc<Self>, connection: &Connection, stop: &CancellationToken) -> ConnectionEnd {
        loop {
            tokio::select! {
                biased;
                () = self.unwanted(stop) => return ConnectionEnd::Stopped,
                fault = connection.closed() => return ConnectionEnd::Lost(fault),
                () = connection.tools_changed() => {
                    let listed = tokio::select! {
                        () = self.unwanted(stop) => return ConnectionEnd::Stopped,
                        listed = self.list(connection) => listed,
                    };
                    if let Err(fault) = listed {
                        tracing::warn!(server = self.name, %fault, "an MCP server's changed tools are not listed");
                    }
                    // A server that says so all the time is not asked all the time.
                    tokio::select! {
                        () = sleep(self.options.timing.relist) => {}
                        () = self.unwanted(stop) => {}
                        _ = connection.closed() => {}
                    }
                }
            }
        }
    }

    async fn list(self: &Arc<Self>, connection: &Connection) -> Result<(), McpError> {
        let tools = connection.tools().await?;
        let theirs: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut names = self.naming.names(&theirs);
        let mut registrations = Vec::new();
        for info in &tools {
            // The first of those that are listed twice.
            let Some(name) = names.remove(&info.name) else { continue };
            match self.registry.register(Arc::new(McpTool::new(name, info, Arc::clone(self)))) {
                Ok(registration) => registrations.push(registration),
                Err(error) => tracing::warn!(server = self.name, %error, "an MCP server's tool is left out"),
            }
        }
        self.replace_tools(registrations);
        Ok(())
    }

    fn replace_tools(&self, tools: Vec<ToolRegistration>) {
        let old = std::mem::replace(&mut *self.tools.lock().unwrap_or_else(PoisonError::into_inner), tools);
        drop(old);
    }

    async fn rest(&self, pause: Option<Duration>, stop: &CancellationToken) {
        let pausing = async {
            match pause {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.unwanted(stop) => {}
            () = self.wake.notified() => {}
            () = pausing => {}
        }
    }
}
