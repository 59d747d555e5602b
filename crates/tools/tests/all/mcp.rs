//! MCP servers of all kinds: a scripted one that misbehaves, one over HTTP that loses sessions and cuts streams, and
//! the real reference server from npm.

mod everything;
mod http;
mod set;
mod stdio;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everturn_testkit::within;
use everturn_tools::mcp::{Launch, McpOptions, McpTiming, ServerDefinition, ServerStatus, Servers};
use everturn_tools::process::{Launcher, Secrets, is_secret};
use everturn_tools::{Context, Failure, Output, Registry, Scope, Tool, ToolSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sandbox::supervisor;

/// Times that do not make a test wait.
fn quick() -> McpTiming {
    McpTiming {
        grace: Duration::from_millis(200),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(100),
        relist: Duration::from_millis(1),
        settle: Duration::from_secs(30),
        ..McpTiming::default()
    }
}

/// A set of servers in a folder of its own.
struct Bench {
    folder: TempDir,
    servers: Servers,
}

impl Bench {
    fn start(servers: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self::timed(servers, quick())
    }

    fn timed(servers: impl IntoIterator<Item = (&'static str, Value)>, timing: McpTiming) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let read = |(name, value): (&str, Value)| {
            (name.to_owned(), (ServerDefinition::from_value(&value).unwrap(), Launch::Now))
        };
        let servers: BTreeMap<_, _> = servers.into_iter().map(read).collect();
        let directory = folder.path().canonicalize().unwrap();
        let launcher = Launcher {
            supervisor: Some(supervisor()),
            secrets: Secrets::found_by(secret_names),
            ..Launcher::default()
        };
        let options = McpOptions { directory, launcher, confined: None, timing };
        let below = Registry::builtin(&ToolSettings::default());
        Self { servers: Servers::start(servers, &below, &options), folder }
    }

    /// The scripted server in a mode, under the name `s`, once its first attempt has ended.
    async fn scripted(mode: &str) -> Self {
        Self::scripted_timed(mode, quick()).await
    }

    async fn scripted_timed(mode: &str, timing: McpTiming) -> Self {
        let bench = Self::timed([("s", scripted(mode, None))], timing);
        within("the first attempt", bench.servers.settled()).await;
        bench
    }

    fn directory(&self) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The names of the servers' own tools.
    fn names(&self) -> Vec<String> {
        let builtin = Registry::builtin(&ToolSettings::default());
        let offer = self.servers.registry().offer();
        offer.names().filter(|name| builtin.get(name).is_none()).map(str::to_owned).collect()
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.servers.registry().get(name).unwrap_or_else(|| panic!("{name} is not among {:?}", self.names()))
    }

    fn context(&self) -> Context {
        let directory = self.directory();
        let output_dir = directory.join("output");
        Context::new(Arc::new(Scope {
            worktree: directory.clone(),
            directory,
            output_dir,
            home: "".into(),
            sandbox: None,
        }))
        .0
    }

    async fn call(&self, name: &str, input: Value) -> Result<Output, Failure> {
        within(name, self.tool(name).run(input, self.context())).await
    }

    async fn text(&self, name: &str, input: Value) -> String {
        match self.call(name, input).await {
            Ok(output) => output.output,
            Err(failure) => panic!("{name}: {failure}"),
        }
    }

    fn status(&self, name: &str) -> ServerStatus {
        self.servers.statuses().remove(name).unwrap()
    }

    /// Waits for a state of a server.
    async fn until(&self, name: &str, wanted: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
        within("another state", async {
            loop {
                let status = self.status(name);
                if wanted(&status) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }
}

/// The configuration of the scripted server.
fn scripted(mode: &str, trace: Option<&Path>) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/mcp/scripted.py");
    let mut command = vec!["python3".to_owned(), script.to_owned(), mode.to_owned()];
    command.push(trace.map_or_else(|| "trace".to_owned(), |path| path.display().to_string()));
    json!({"type": "local", "command": command})
}

/// Waits until a file has something in it, and reads it.
async fn content(path: &Path) -> String {
    within("a trace of the server", async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

/// Whether there is a process of this number that has not ended.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The names that the program keeps to itself, found as it finds them, and one that every test has.
fn secret_names() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| is_secret(name) || name == "CARGO_MANIFEST_DIR").collect()
}
