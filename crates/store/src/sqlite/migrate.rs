//! Migrations: how an older file becomes one that this version knows.
//!
//! All of them run in the one transaction that also records them, so whoever is killed on the way leaves the old file.
//! Two processes may come at once: the second waits for the lock and finds the work done. Before anything is changed,
//! the whole file is copied beside itself, however little is changed: an older version can only read the file from then
//! on, and the copy is the way back to it. An older version that has the file open would go on writing as it knows, so
//! nothing is changed while one lives.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::{index, write};
use crate::row::SessionRow;
use crate::{Error, owner, shape};

/// Marks the file as ours: the bytes "Evtn".
const APPLICATION: i64 = 0x4576_746e;

/// What SQL alone cannot do.
type MigrationStep = fn(&Connection) -> Result<(), Error>;

/// A step from one schema to the next.
struct Migration {
    sql: &'static str,
    then: Option<MigrationStep>,
}

const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/sqlite/0001_spine.sql"), then: None },
    Migration { sql: include_str!("../../migrations/sqlite/0002_store.sql"), then: Some(fill_rows) },
    Migration { sql: include_str!("../../migrations/sqlite/0003_typed_log.sql"), then: None },
    Migration { sql: include_str!("../../migrations/sqlite/0004_approval_folder.sql"), then: None },
    Migration { sql: include_str!("../../migrations/sqlite/0005_held_prompts.sql"), then: None },
    Migration { sql: include_str!("../../migrations/sqlite/0006_bill.sql"), then: None },
];

/// What was found in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundSchema {
    application: i64,
    version: i64,
    tables: i64,
}

/// Brings the file to the newest schema. A file of a newer version is left as it is, and is an error.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let failure = |source: rusqlite::Error| super::failure(path, source);
    let found = look(connection).map_err(failure)?;
    if !is_due(found, known, path)? {
        return Ok(());
    }
    // Held until the end: nobody else migrates between the copy and the change. The kernel drops it if we die.
    let _lock = lock(path)?;
    let found = look(connection).map_err(failure)?;
    if !is_due(found, known, path)? {
        return Ok(());
    }
    if found.tables > 0 {
        refuse_beside_others(path)?;
        back_up(connection, path, found.version)?;
    } else {
        // Only before the first table; later, free pages can be given back to the file system.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(failure)?;
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    let found = look(&transaction).map_err(failure)?;
    if !is_due(found, known, path)? {
        return Ok(());
    }
    refuse_beside_others(path)?;
    for (number, migration) in (1i64..).zip(MIGRATIONS) {
        if number > found.version {
            transaction.execute_batch(migration.sql).map_err(failure)?;
            if let Some(then) = migration.then {
                then(&transaction)?;
            }
            transaction.execute_batch(&format!("PRAGMA user_version = {number};")).map_err(failure)?;
        }
    }
    transaction.execute_batch(&format!("PRAGMA application_id = {APPLICATION};")).map_err(failure)?;
    transaction.commit().map_err(failure)
}

/// Who has the file open while its schema is old knows no other.
fn refuse_beside_others(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    match owner::living(folder)? {
        Some(name) => {
            Err(Error::OlderAtWork { place: path.display().to_string(), by: owner::describe(folder, &name) })
        }
        None => Ok(()),
    }
}

/// The error that a file of a newer version is.
pub(super) fn refuse_newer(connection: &Connection, path: &Path) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    is_due(look(connection).map_err(|source| super::failure(path, source))?, known, path).map(drop)
}

fn look(connection: &Connection) -> rusqlite::Result<FoundSchema> {
    // All of one moment: another process may be making the tables right now.
    let alone = connection.is_autocommit();
    if alone {
        connection.execute_batch("BEGIN")?;
    }
    let found = read(connection);
    // A failure may have ended it already, and is what has to be reported.
    if alone && !connection.is_autocommit() {
        let ended = connection.execute_batch("COMMIT");
        return found.and_then(|found| ended.map(|()| found));
    }
    found
}

fn read(connection: &Connection) -> rusqlite::Result<FoundSchema> {
    Ok(FoundSchema {
        tables: connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        application: connection.query_row("PRAGMA application_id", [], |row| row.get(0))?,
        version: connection.query_row("PRAGMA user_version", [], |row| row.get(0))?,
    })
}

/// Ensures that a file is a whole database of ours that this version knows, without changing it.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let failure = |source: rusqlite::Error| super::failure(path, source);
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = look(connection).map_err(failure)?;
    if found.tables == 0 {
        return Err(Error::NotOurs { path: path.to_owned(), reason: "it is empty".to_owned() });
    }
    // An older one is understood as well.
    is_due(found, known, path)?;
    let check = "PRAGMA quick_check(1)";
    let reason: String = connection.query_row(check, [], |row| row.get(0)).map_err(failure)?;
    if reason == "ok" { Ok(()) } else { Err(Error::Damaged { path: path.to_owned(), reason }) }
}

/// Whether the file has an older schema than this version's. One that this version must not write is an error.
fn is_due(found: FoundSchema, known: i64, path: &Path) -> Result<bool, Error> {
    if found.application != APPLICATION && found.tables > 0 {
        let reason = "it holds another program's tables".to_owned();
        return Err(Error::NotOurs { path: path.to_owned(), reason });
    }
    if found.version > known {
        return Err(Error::Newer { place: path.display().to_string(), found: found.version, known });
    }
    Ok(found.version < known)
}

/// The copy that is made before a migration changes a file.
fn backup_path(path: &Path, version: i64) -> PathBuf {
    path.with_extension(format!("v{version}.backup.db"))
}

/// Copies the file under a name of its own, whole or not at all.
fn back_up(connection: &Connection, path: &Path, version: i64) -> Result<(), Error> {
    let target = backup_path(path, version);
    let partial = target.with_extension("part");
    if let Err(source) = std::fs::remove_file(&partial)
        && source.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::io(partial, source));
    }
    ensure_space(&target, size(connection)?, free_space(&target))?;
    if let Err(error) = super::copy_into(connection, &partial) {
        // Half a copy is of no use, and takes the space that may be what is missing.
        std::fs::remove_file(&partial).ok();
        return Err(error);
    }
    let io = |source| Error::io(&target, source);
    std::fs::rename(&partial, &target).map_err(io)?;
    // The name has to be on the disk too before the file that it saves is changed.
    let folder = target.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

/// How large a copy of the database may become.
fn size(connection: &Connection) -> Result<u64, Error> {
    let pages: u64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(pages.saturating_mul(page))
}

/// How much may be written beside a file, where the system says so.
fn free_space(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path.parent()?).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Refuses a copy that does not fit, before it has filled the disk for everybody else.
fn ensure_space(copy: &Path, needed: u64, free: Option<u64>) -> Result<(), Error> {
    match free {
        Some(free) if free < needed => Err(Error::NoSpaceForCopy { copy: copy.to_owned(), needed, free }),
        Some(_) | None => Ok(()),
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let path = path.with_extension("lock");
    let io = |source| Error::io(&path, source);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

/// Fills the columns and the index that came with the second schema.
fn fill_rows(connection: &Connection) -> Result<(), Error> {
    let mut statement = connection.prepare("SELECT key, id, seq, data FROM session ORDER BY key")?;
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let (key, id, seq): (i64, String, u64) = (found.get(0)?, found.get(1)?, found.get(2)?);
        let data: String = found.get(3)?;
        let filled = fill_session(connection, key, seq, &id, &data);
        if let Err(error @ Error::Corrupt { .. }) = &filled {
            // A damaged session must not keep the others from being opened.
            tracing::error!(session = id, error = error.to_string(), "a session is set aside");
            connection.execute(
                "INSERT OR IGNORE INTO quarantine VALUES (?1, 0, ?2)",
                rusqlite::params![id, error.to_string()],
            )?;
            continue;
        }
        filled?;
    }
    Ok(())
}

fn fill_session(connection: &Connection, key: i64, seq: u64, id: &str, data: &str) -> Result<(), Error> {
    let session = shape::decode(id, "session", data)?;
    write::put_session(connection, key, &SessionRow::of(&session, seq)?, None)?;
    index::fill(connection, key, session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_does_not_fit_is_not_begun() {
        let copy = Path::new("/data/everturn.v2.backup.db");
        assert!(ensure_space(copy, 4096, Some(4096)).is_ok());
        assert!(ensure_space(copy, 4096, None).is_ok());
        let error = ensure_space(copy, 5_000_000, Some(4096)).unwrap_err();
        assert!(matches!(&error, Error::NoSpaceForCopy { needed: 5_000_000, free: 4096, .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "the database is copied to /data/everturn.v2.backup.db before it is upgraded, which needs 5000000 bytes, and 4096 are \
             free; nothing was changed. Free some space and try again"
        );
        let here = free_space(&std::env::current_dir().unwrap().join("everturn.db")).unwrap();
        assert!(here > 0, "a build folder has room");
    }
}
