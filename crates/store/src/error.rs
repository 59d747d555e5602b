//! What can go wrong, by what the caller can do about it.

use std::path::PathBuf;

use everturn_model::SessionId;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such session: tell the person.
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// The session exists already.
    #[error("session {0} exists already")]
    Exists(SessionId),
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
    /// A row cannot be understood.
    #[error(
        "session {session} is damaged at {place}: {reason}; `everturn doctor` can rebuild it from its log"
    )]
    Corrupt {
        /// The session.
        session: String,
        /// Which row.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The database was made by a newer version.
    #[error("{path} has schema {found}, and this version knows {known}: update everturn to open it")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
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
    /// The folder is on a file system where locks cannot be trusted.
    #[error("{path} is on a network file system ({kind}), where SQLite can lose data: use a local folder")]
    NetworkFolder {
        /// The folder.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite refused; nothing was acknowledged.
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}
