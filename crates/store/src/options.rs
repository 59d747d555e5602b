//! How a store is opened.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everturn_model::Record;

use crate::feed::Observer;

/// Where the data is.
#[derive(Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// In a folder of this machine, on SQLite.
    Folder(PathBuf),
    /// On a PostgreSQL server, for several hosts.
    Server(PostgresServer),
}

/// A PostgreSQL server.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresServer {
    /// Its address: `postgres://user:password@host:port/database`. `sslmode` and `sslrootcert` in its parameters say how
    /// the connection is protected.
    pub url: String,
    /// A folder of this machine where its processes tell each other that they live; all of them name the same one.
    pub folder: PathBuf,
}

impl fmt::Debug for StorePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => formatter.debug_tuple("Folder").field(folder).finish(),
            Self::Server(server) => formatter.debug_tuple("Server").field(server).finish(),
        }
    }
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address holds the password.
        formatter.debug_struct("Server").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Power loss: what was acknowledged is on the disk.
    #[default]
    Full,
    /// The death of the process; power loss may take the newest commits.
    Process,
}

/// How long an owner may be silent, and how often it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// An owner that was silent for so long may lose its sessions.
    pub patience: Duration,
    /// How often an owner says that it lives.
    pub beat: Duration,
    /// How often to look for commits of other processes where nothing announces them.
    pub look: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(15),
            beat: Duration::from_secs(5),
            look: Duration::from_millis(25),
        }
    }
}

/// A moment of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitMoment {
    /// Everything is written but the commit itself: nothing of it is there if the process dies now.
    Before,
    /// It is on the disk, and nobody has been told yet.
    After,
}

/// Called by the writer right before and right after each commit that puts events into the log, with those events. All
/// other writes wait meanwhile.
pub type CommitHook = Arc<dyn Fn(CommitMoment, &[&Record]) + Send + Sync>;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Where the data is.
    pub place: StorePlace,
    /// The name of this process in leases; unique.
    pub owner: String,
    /// Told of everything that is committed, by this process or another; without one nothing is looked for.
    pub observer: Option<Observer>,
    /// What a commit survives.
    pub durability: Durability,
    /// How leases age.
    pub timing: Timing,
    /// The SQLite file layer to use instead of the machine's own: tests put faults there.
    pub vfs: Option<String>,
    /// Called around commits: tests end the process there.
    pub commit_hook: Option<CommitHook>,
}

impl Options {
    /// A store in a folder, with everything else as usual.
    #[must_use]
    pub fn folder(folder: impl Into<PathBuf>, owner: &str) -> Self {
        Self::new(StorePlace::Folder(folder.into()), owner)
    }

    /// A store on a server, with everything else as usual.
    #[must_use]
    pub fn server(url: &str, folder: impl Into<PathBuf>, owner: &str) -> Self {
        let server = PostgresServer { url: url.to_owned(), folder: folder.into() };
        // The server announces commits of other processes; looking is only for when it cannot.
        let timing = Timing { look: Duration::from_secs(1), ..Timing::default() };
        Self { timing, ..Self::new(StorePlace::Server(server), owner) }
    }

    fn new(place: StorePlace, owner: &str) -> Self {
        Self {
            place,
            owner: owner.to_owned(),
            observer: None,
            durability: Durability::default(),
            timing: Timing::default(),
            vfs: None,
            commit_hook: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("place", &self.place)
            .field("owner", &self.owner)
            .field("durability", &self.durability)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
