//! What can go wrong, by what the caller can do about it.

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::SessionId;

use crate::cursor::BadCursor;

/// An error of the store. It can be cloned, because one failure may be the answer to many callers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// There is no such session: tell the person.
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// The session exists already.
    #[error("session {0} exists already")]
    Exists(SessionId),
    /// The session was deleted for good: its id is never used again.
    #[error("session {0} was deleted for good")]
    Purged(SessionId),
    /// Another process runs this session: try again later or go there.
    #[error("session {session} is run by another process ({owner})")]
    Busy {
        /// The session.
        session: SessionId,
        /// Who has it.
        owner: String,
    },
    /// A revert is staged: commit or clear it first.
    #[error("session {0} has a staged revert")]
    Staged(SessionId),
    /// The lease passed to somebody else: stop working on the session.
    #[error("the lease on session {0} is lost; another process has taken it over")]
    Fenced(SessionId),
    /// The events do not fit the session: a fault of the caller, or a race it has to resolve.
    #[error("the event does not fit session {session}: {source}")]
    Unfit {
        /// The session.
        session: SessionId,
        /// Why.
        source: everturn_model::fold::Error,
    },
    /// The event holds something that could be written and never read again: nothing was stored.
    #[error(
        "an event of session {session} is nested {depth} levels deep, and at most {limit} are stored; nothing was saved. Send flatter data",
        limit = everturn_model::json::STORED_DEPTH_LIMIT
    )]
    TooDeep {
        /// The session.
        session: SessionId,
        /// How deep it is nested.
        depth: usize,
    },
    /// So many prompts wait in the session that no other one is taken.
    #[error(
        "{limit} prompts wait in session {0}, and no more may; wait until some are answered, or take some back",
        limit = everturn_model::inbox::WAITING_LIMIT
    )]
    InboxFull(SessionId),
    /// No turn is open and no prompt waits: there is nothing to stop.
    #[error("session {0} has nothing to stop")]
    Idle(SessionId),
    /// The session was set aside because it is damaged; nothing is written to it.
    #[error("session {session} was set aside: {reason}; `everturn doctor` says what helps")]
    Quarantined {
        /// The session.
        session: SessionId,
        /// What is wrong with it.
        reason: String,
    },
    /// A row cannot be understood.
    #[error("session {session} is damaged at {place}: {reason}; `everturn doctor` says what helps")]
    Corrupt {
        /// The session.
        session: String,
        /// Which row.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The log itself is damaged, so nothing can be rebuilt from it.
    #[error(
        "the log of session {session} cannot be followed past event {seq}: {reason}; restore the session from a backup, or delete it for good"
    )]
    Broken {
        /// The session.
        session: SessionId,
        /// The first event that is wrong.
        seq: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The session was written to each time it was about to be changed.
    #[error("session {0} changes faster than it can be worked on: stop its run and try again")]
    Changing(SessionId),
    /// A scrub was asked for that cannot be done.
    #[error("nothing was scrubbed: {0}")]
    Scrub(&'static str),
    /// A page was asked for with a cursor that is not ours.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    /// The commit may or may not have reached the disk: look for the event in the log, or append it again under its id,
    /// which adds nothing if it is there.
    #[error(
        "it is not known whether the change to session {session} was saved ({reason}); look it up before trying again"
    )]
    Unknown {
        /// The session.
        session: String,
        /// What happened.
        reason: String,
    },
    /// The database was made by a newer version, so it is only read.
    #[error(
        "{place} has schema {found}, and this version knows {known}: it can be read but not written; update everturn to write"
    )]
    Newer {
        /// The file or server.
        place: String,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// A process of an earlier version works with the database, so it is not brought up to date.
    #[error(
        "an older everturn ({by}) works with {place}, and would not understand what this version writes; nothing was changed. Stop it, then try again"
    )]
    OlderAtWork {
        /// The file or server.
        place: String,
        /// That process, in words by which a person finds it.
        by: String,
    },
    /// The file is not a database of ours.
    #[error(
        "{path} is not an Everturn database ({reason}); nothing was changed. Move it away or name another folder"
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Something is there already where a backup or a restored store should go.
    #[error("{0} is there already, and nothing of it was overwritten: move it away or name another place")]
    Occupied(String),
    /// The file is ours and damaged.
    #[error(
        "{path} is damaged ({reason}); nothing was changed. Move it away, keep it, and restore a backup with `everturn restore`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The full-text index is damaged, and nothing else: try again.
    #[error(
        "the full-text index in {path} is damaged; nothing was saved. It is made anew as soon as something is written: try again"
    )]
    Index {
        /// The file.
        path: PathBuf,
    },
    /// The folder is on a file system where locks cannot be trusted.
    #[error("{path} is on a network file system ({kind}), where SQLite can lose data: use a local folder")]
    NetworkFolder {
        /// The folder.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// The file system refused.
    #[error(
        "{path} cannot be used ({source}): check that it is there, that this account may use it, and that the disk works"
    )]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// The disk is full; nothing was saved.
    #[error(
        "there is no space left for {path}; nothing of this change was saved. Free some space and try again"
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The copy that is made before an upgrade does not fit on the disk.
    #[error(
        "the database is copied to {copy} before it is upgraded, which needs {needed} bytes, and {free} are free; nothing was changed. Free some space and try again"
    )]
    NoSpaceForCopy {
        /// Where the copy would be.
        copy: PathBuf,
        /// How many bytes it may take.
        needed: u64,
        /// How many bytes there are.
        free: u64,
    },
    /// SQLite refused; nothing was acknowledged.
    #[error("database: {0}")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// The server cannot be reached: wait, or check the address.
    #[error(
        "the PostgreSQL server at {address} cannot be reached: {reason}. Check that it runs and that the address is right"
    )]
    Unreachable {
        /// Host and port.
        address: String,
        /// Why.
        reason: String,
    },
    /// The server does not let us in.
    #[error(
        "the PostgreSQL server at {address} refuses the user or the password: {reason}. Check both in the address of the database"
    )]
    Refused {
        /// Host and port.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The server has no such database.
    #[error(
        "the PostgreSQL server at {address} has no such database: {reason}. Create it, or correct its name in the address"
    )]
    NoDatabase {
        /// Host and port.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The address of the server cannot be understood.
    #[error(
        "the address of the database is not right: {0}. It looks like postgres://user:password@host:5432/database"
    )]
    Address(String),
    /// The server refused a statement; nothing was acknowledged.
    #[error("database server: {0}")]
    Server(String),
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// What the file system refused at this place.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source: Arc::new(source) }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}
