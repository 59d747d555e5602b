//! Copies of a database file: a backup, and the way back.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{migrate, schema};
use crate::Error;
use crate::foreign::Database;

/// Copies a database into a new file, whole or not at all. What is there is not overwritten.
pub(super) fn copy(connection: &Connection, target: &Path) -> Result<(), Error> {
    let io = |source| Error::io(target, source);
    refuse(target)?;
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Only its owner may read it, from the start; SQLite fills an empty file that is there.
    let file =
        tempfile::Builder::new().prefix(".everturn-").suffix(".part").tempfile_in(folder).map_err(io)?;
    connection
        .execute("VACUUM INTO ?1", [file.path().display().to_string()])
        .map_err(|source| super::failure(target, source))?;
    file.as_file().sync_all().map_err(io)?;
    file.persist_noclobber(target).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Occupied(target.display().to_string()),
        _ => io(error.error),
    })?;
    // The name is on the disk only when its folder is.
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

fn refuse(target: &Path) -> Result<(), Error> {
    let there = std::fs::exists(target).map_err(|source| Error::io(target, source))?;
    if there { Err(Error::Occupied(target.display().to_string())) } else { Ok(()) }
}

/// Puts a backup into a folder that has no database yet, free of the leases of those who ran its sessions then.
pub(crate) fn restore(from: &Path, folder: &Path) -> Result<(), Error> {
    let target = schema::prepare(folder)?;
    refuse(&target)?;
    let io = |source| Error::io(folder, source);
    let work = tempfile::Builder::new().prefix(".everturn-").tempdir_in(folder).map_err(io)?;
    let fresh = private(from, work.path())?;
    let failure = |source: rusqlite::Error| super::failure(&fresh, source);
    super::keep_locks();
    let connection = Connection::open(&fresh).map_err(failure)?;
    connection.execute_batch("UPDATE session SET owner = NULL").map_err(failure)?;
    copy(&connection, &target)
}

/// Checks a backup and copies it into a folder of our own, under the name that a store expects.
pub(crate) fn private(from: &Path, folder: &Path) -> Result<PathBuf, Error> {
    // Said here, because SQLite would only say that it cannot open it.
    let found = std::fs::metadata(from).map_err(|source| Error::io(from, source))?;
    if !found.is_file() {
        return Err(Error::io(from, std::io::Error::other("it is not an ordinary file")));
    }
    std::fs::File::open(from).map_err(|source| Error::io(from, source))?;
    let not_ours = |error: Error| match error {
        Error::Sqlite(source) => match super::failure(from, source) {
            Error::Sqlite(source) => Error::NotOurs { path: from.to_owned(), reason: source.to_string() },
            damaged => damaged,
        },
        other => other,
    };
    let database = Database::open(from).map_err(not_ours)?;
    migrate::check(database.connection(), from)?;
    let fresh = folder.join("everturn.db");
    copy(database.connection(), &fresh)?;
    Ok(fresh)
}
