//! How an engine is opened: its folders, settings, keys and tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everturn_llm::Keyring;
use everturn_store::CommitHook;
use everturn_tools::places::ProjectFiles;
use everturn_tools::process::sandbox::SandboxMachine;
use everturn_tools::{Registry, Secrets, ToolSettings};

use crate::Config;
use crate::configurations::Configurations;
use crate::context::ContextRegistry;
use crate::world::{System, World};

/// How long a subagent may show no progress, unless told otherwise: three times as long as the longest command may
/// take, so that nothing which still works is given up, and short enough that a session which waits for it is not lost
/// for the day. A person who has not answered yet does not count.
pub const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How many turns of all sessions stream their answers at once, unless told otherwise. The others wait for a place.
pub const TURNS: usize = 256;

/// Folders that the server uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// The person's home.
    pub home: PathBuf,
    /// Where state is kept.
    pub state: PathBuf,
    /// Where configuration is kept.
    pub config: PathBuf,
    /// Where OpenCode keeps its configuration, which counts here too.
    pub opencode: PathBuf,
    /// Where data is kept: the database, snapshots, tool output.
    pub data: PathBuf,
}

/// How to open an engine.
#[derive(Clone)]
pub struct Options {
    /// Folders.
    pub paths: Paths,
    /// The folder that requests without one mean.
    pub directory: PathBuf,
    /// What is configured, by folder.
    pub configurations: Configurations,
    /// Whether instructions and skills of projects count.
    pub project_files: ProjectFiles,
    /// The keys of providers.
    pub keys: Keyring<'static>,
    /// The tools.
    pub tools: Registry,
    /// What the model is told of its surroundings. Whoever keeps a clone can register more.
    pub context: ContextRegistry,
    /// Variables of the environment that MCP servers must not see.
    pub secrets: Secrets,
    /// The binary that can be a supervisor of MCP servers; see [`everturn_tools::process`].
    pub supervisor: Option<PathBuf>,
    /// What there is for sandboxes around commands and MCP servers of projects.
    pub sandbox: SandboxMachine,
    /// Time and randomness.
    pub world: Arc<dyn World>,
    /// The PostgreSQL server that keeps the sessions; none keeps them in the data folder.
    pub database: Option<String>,
    /// How long a subagent may show no progress before its task is given up. See [`PATIENCE`].
    pub patience: Duration,
    /// How many turns stream their answers at once. See [`TURNS`].
    pub turns: usize,
    /// True when nobody will listen to the bus: commits are then not shown to it.
    pub quiet: bool,
    /// Called around commits: tests end the process there.
    pub commit_hook: Option<CommitHook>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address of the database holds its password.
        formatter
            .debug_struct("Options")
            .field("paths", &self.paths)
            .field("directory", &self.directory)
            .field("quiet", &self.quiet)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Options for a data folder and a working folder, with nothing configured.
    #[must_use]
    pub fn new(data: &Path, directory: &Path) -> Self {
        Self {
            paths: Paths { data: data.to_owned(), ..Paths::default() },
            directory: directory.to_owned(),
            configurations: Configurations::fixed(Config::default(), data),
            project_files: ProjectFiles::default(),
            keys: Keyring::new(&|_| None, Vec::new()),
            tools: Registry::builtin(&ToolSettings::default()),
            context: ContextRegistry::default(),
            secrets: Secrets::default(),
            supervisor: None,
            sandbox: SandboxMachine::unused(),
            world: Arc::new(System),
            database: None,
            patience: PATIENCE,
            turns: TURNS,
            quiet: false,
            commit_hook: None,
        }
    }
}
