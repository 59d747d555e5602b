//! The database file: its folder, its settings and its schema.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::Error;

/// Marks the file as ours: the bytes "Evtn".
const APPLICATION: i64 = 0x4576_746e;

const MIGRATIONS: &[&str] = &[include_str!("../../migrations/sqlite/0001_spine.sql")];

/// Before 3.51.3 a reset of the write-ahead log could lose a commit that another connection was reading.
const OLDEST_SQLITE: i32 = 3_051_003;

const BUSY: Duration = Duration::from_secs(30);

/// Makes the folder ready and names the database file in it.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(io)?;
    }
    if let Some(kind) = network_file_system(folder) {
        return Err(Error::NetworkFolder { path: folder.to_owned(), kind: kind.to_owned() });
    }
    Ok(folder.join("everturn.db"))
}

#[cfg(target_os = "linux")]
fn network_file_system(folder: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    match u64::try_from(kind).ok()? & 0xffff_ffff {
        0x6969 => Some("nfs"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("smb"),
        0x0102_1997 => Some("9p"),
        0x5346_414f => Some("afs"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_folder: &Path) -> Option<&'static str> {
    None
}

/// Opens the database for writing, creating or upgrading it.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        let reason = format!("this build has SQLite {}, which is too old", rusqlite::version());
        return Err(Error::NotOurs { path: path.to_owned(), reason });
    }
    let fresh = !path.exists();
    let mut connection = Connection::open(path).map_err(|source| unreadable(path, &source))?;
    if fresh {
        protect(path)?;
    }
    connection.busy_timeout(BUSY)?;
    configure(&connection).map_err(|source| unreadable(path, &source))?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens the database for reading.
pub(super) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -8000; PRAGMA mmap_size = 268435456;")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn protect(path: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(|source| Error::Io { path: path.to_owned(), source })?;
    }
    Ok(())
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn unreadable(path: &Path, source: &rusqlite::Error) -> Error {
    Error::NotOurs { path: path.to_owned(), reason: source.to_string() }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if application == APPLICATION && version == known {
        return Ok(());
    }
    // Two processes may come here at once: the second finds the work done when it gets the lock.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let application: i64 = transaction.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && tables > 0 {
        let reason = "it holds another program's tables".to_owned();
        return Err(Error::NotOurs { path: path.to_owned(), reason });
    }
    if version > known {
        return Err(Error::Newer { path: path.to_owned(), found: version, known });
    }
    for (number, sql) in (1i64..).zip(MIGRATIONS) {
        if number > version {
            transaction.execute_batch(sql)?;
            transaction.execute_batch(&format!("PRAGMA user_version = {number};"))?;
        }
    }
    transaction.execute_batch(&format!("PRAGMA application_id = {APPLICATION};"))?;
    transaction.commit()?;
    Ok(())
}
