//! The engine's handle and what it holds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_model::{Event, Session, SessionId};
use everturn_store::{Appended, Authority, NewEvent, Observer, Store};
use everturn_tools::places::ProjectFiles;
use everturn_tools::task::Task;
use everturn_tools::{Registry, Settings, Snapshots};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{self, Agent};
use crate::asks::Asks;
use crate::bus::{Bus, Live, Notice, Signal};
use crate::delegation::Claims;
use crate::drain::Drains;
use crate::guidance::blocking;
use crate::mcp;
use crate::mint::Mint;
use crate::project::{Known, Location, Repositories};
use crate::seams::{System, World};
use crate::sights::Sights;
use crate::{Config, Error};
use everturn_llm::Keyring;

/// How long a subagent may show no progress, unless told otherwise: three times as long as the longest command may
/// take, so that nothing which still works is given up, and short enough that a session which waits for it is not lost
/// for the day. A person who has not answered yet does not count.
pub const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How long Managed Tool Output Files are kept, in milliseconds: seven days.
const OUTPUTS_KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

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
    /// Settings.
    pub config: Config,
    /// Whether instructions and skills of projects count.
    pub project_files: ProjectFiles,
    /// The keys of providers.
    pub keys: Keyring<'static>,
    /// The tools.
    pub tools: Registry,
    /// The binary that can be a warden of MCP servers; see [`everturn_tools::process`].
    pub warden: Option<PathBuf>,
    /// Time and chance.
    pub world: Arc<dyn World>,
    /// The PostgreSQL server that keeps the sessions; none keeps them in the data folder.
    pub database: Option<String>,
    /// How long a subagent may show no progress before its task is given up. See [`PATIENCE`].
    pub patience: Duration,
    /// True when nobody will listen to the bus: commits are then not shown to it.
    pub quiet: bool,
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
            config: Config::default(),
            project_files: ProjectFiles::default(),
            keys: Keyring::new(&|_| None, Vec::new()),
            tools: Registry::builtin(&Settings::default()),
            warden: None,
            world: Arc::new(System),
            database: None,
            patience: PATIENCE,
            quiet: false,
        }
    }
}

/// A running engine; clones share it.
#[derive(Debug, Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) mint: Mint,
    pub(crate) config: Config,
    pub(crate) project_files: ProjectFiles,
    pub(crate) keys: Keyring<'static>,
    pub(crate) paths: Paths,
    pub(crate) directory: PathBuf,
    pub(crate) tools: Registry,
    pub(crate) warden: Option<PathBuf>,
    pub(crate) mcp: mcp::Sets,
    pub(crate) agents: Vec<Agent>,
    pub(crate) patience: Duration,
    pub(crate) locations: RwLock<HashMap<PathBuf, Known>>,
    pub(crate) resolving: tokio::sync::Mutex<()>,
    pub(crate) repositories: Repositories,
    pub(crate) drains: Drains,
    pub(crate) asks: Asks,
    pub(crate) claims: Claims,
    pub(crate) sights: Sights,
    pub(crate) snapshots: Mutex<HashMap<PathBuf, Arc<Snapshots>>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

impl Engine {
    /// Opens the store and makes an engine on it. Nothing runs until something is asked or [`Engine::recover`].
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let mint = Mint::new(options.world);
        let bus = Bus::default();
        let observer: Option<Observer> = (!options.quiet).then(|| {
            let bus = bus.clone();
            Arc::new(move |committed| bus.send(Notice::Committed(committed))) as Observer
        });
        let owner = mint.other("own");
        let data = &options.paths.data;
        let mut place = match &options.database {
            Some(url) => everturn_store::Options::server(url, data, &owner),
            None => everturn_store::Options::folder(data, &owner),
        };
        place.observer = observer;
        let store = Store::open(place).await?;
        let agents = agent::agents(&options.config.permission, &options.paths.data);
        // The tool that gives work to other agents names them.
        let tools = options.tools.layer();
        if tools.get("task").is_some()
            && let Ok(task) = tools.register(Arc::new(Task::new(&agent::delegates(&agents))))
        {
            task.keep();
        }
        Ok(Self(Arc::new(Inner {
            store,
            bus,
            mint,
            config: options.config,
            project_files: options.project_files,
            keys: options.keys,
            paths: options.paths,
            directory: options.directory,
            tools,
            warden: options.warden,
            mcp: mcp::Sets::default(),
            agents,
            patience: options.patience,
            locations: RwLock::default(),
            resolving: tokio::sync::Mutex::default(),
            repositories: Repositories::default(),
            drains: Drains::default(),
            asks: Asks::default(),
            claims: Claims::default(),
            sights: Sights::default(),
            snapshots: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        })))
    }

    /// Stops accepting work, leaves running turns as they are for the next start, and waits for what must end.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.close_servers().await;
    }

    /// Committed events and live signals.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.0.bus
    }

    /// New ids and the time.
    #[must_use]
    pub fn mint(&self) -> &Mint {
        &self.0.mint
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
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

    /// The agents.
    #[must_use]
    pub fn agents(&self) -> &[Agent] {
        &self.0.agents
    }

    /// The names of the tools.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.0.tools.offer().names().map(str::to_owned).collect()
    }

    /// Removes Managed Tool Output Files that nobody has written to for a week, and says how many.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub async fn sweep_outputs(&self) -> Result<usize, Error> {
        let folder = self.0.paths.data.join("tool-output");
        let cutoff = u64::try_from(self.0.mint.now().saturating_sub(OUTPUTS_KEPT)).unwrap_or_default();
        let cutoff = std::time::UNIX_EPOCH + Duration::from_millis(cutoff);
        let place = folder.display().to_string();
        match blocking(move || everturn_tools::bound::sweep(&folder, cutoff)).await? {
            Ok(removed) => Ok(removed),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(source) => Err(Error::Io { context: format!("cannot look through {place}"), source }),
        }
    }

    /// Appends events to a session.
    pub(crate) async fn append(
        &self,
        session: &SessionId,
        authority: Authority,
        events: Vec<Event>,
    ) -> Result<Appended, Error> {
        let time = self.0.mint.now();
        let events = events
            .into_iter()
            .map(|event| NewEvent { id: self.0.mint.event(), time, event })
            .collect::<Vec<_>>();
        Ok(self.0.store.append(session, authority, events).await?)
    }

    /// Sends a signal of the moment.
    pub(crate) fn signal(&self, session: &Session, signal: Signal) {
        self.0.bus.send(Notice::Live(Arc::new(Live {
            session: session.id.clone(),
            project: session.project.clone(),
            directory: session.directory.clone(),
            signal,
        })));
    }

    /// The recorder of a worktree's files; none where recording is off or impossible.
    pub(crate) fn snapshots(&self, location: &Location) -> Option<Arc<Snapshots>> {
        if !self.0.config.snapshot {
            return None;
        }
        let mut open = self.0.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&location.worktree) {
            return Some(Arc::clone(found));
        }
        let folder = self.snapshot_folder(&location.project.id, &location.worktree);
        match Snapshots::open(folder, location.worktree.clone()) {
            Ok(snapshots) => {
                let snapshots = Arc::new(snapshots);
                open.insert(location.worktree.clone(), Arc::clone(&snapshots));
                Some(snapshots)
            }
            Err(error) => {
                tracing::warn!(error = error.to_string(), "files are not recorded");
                None
            }
        }
    }

    fn snapshot_folder(&self, project: &str, worktree: &Path) -> PathBuf {
        // Two clones of one project have files of their own.
        let name = worktree.display().to_string();
        let place = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.0.paths.data.join("snapshot").join(project).join(format!("{place:016x}"))
    }

    /// Takes the recorded files of a worktree along when it was moved; where there are some already, they stay.
    pub(crate) fn move_snapshots(&self, from: (&str, &Path), to: (&str, &Path)) {
        let (old, new) = (self.snapshot_folder(from.0, from.1), self.snapshot_folder(to.0, to.1));
        if old == new || !old.exists() || new.exists() {
            return;
        }
        self.0.snapshots.lock().unwrap_or_else(PoisonError::into_inner).remove(from.1);
        let made = new.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made.and_then(|()| std::fs::rename(&old, &new)) {
            tracing::warn!(
                error = error.to_string(),
                "the recorded files of a moved project were not taken along"
            );
        }
    }
}
