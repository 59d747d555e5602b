//! The database file: its folder, its settings, and how a connection is opened.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::Error;
use crate::options::Durability;

/// Before 3.51.3 a reset of the write-ahead log could lose a commit that another connection was reading.
const OLDEST_SQLITE: i32 = 3_051_003;

/// How long a write waits for other processes.
const BUSY: Duration = Duration::from_secs(30);

/// The number of the newest commit, read from the row that counts them. Sessions have the number of their last change: if
/// the count is damaged or began anew, it goes on behind them, because numbers that were told of are told of once. A number
/// that no count reaches is damage itself.
pub(super) const NEWEST_COMMIT: &str = "max(
       iif(typeof(value) = 'integer', value, 0),
       ifnull((SELECT max(changed) FROM session WHERE changed BETWEEN 0 AND 9007199254740992), 0)
     )";

/// How connections are opened.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSettings {
    pub(super) path: PathBuf,
    pub(super) durability: Durability,
    pub(super) vfs: Option<String>,
}

/// Makes the folder ready and names the database file in it.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf, Error> {
    let io = |source| Error::io(folder, source);
    std::fs::create_dir_all(folder).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder).map_err(io)?.permissions().mode();
        if mode & 0o777 != 0o700 {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(io)?;
        }
    }
    if let Some(kind) = network_file_system(folder) {
        return Err(Error::NetworkFolder { path: folder.to_owned(), kind: kind.to_owned() });
    }
    Ok(folder.join("everturn.db"))
}

#[cfg(target_os = "linux")]
fn network_file_system(folder: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    network_kind(u64::try_from(kind).ok()? & 0xffff_ffff)
}

/// File systems on which locks or shared memory do not reach all who use a file.
#[cfg(target_os = "linux")]
fn network_kind(magic: u64) -> Option<&'static str> {
    match magic {
        0x6969 => Some("nfs"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("smb"),
        0x0102_1997 => Some("9p"),
        0x5346_414f | 0x6b41_4653 => Some("afs"),
        0x6a65_6a63 => Some("virtiofs"),
        0x00c3_6400 => Some("ceph"),
        0x0bd0_0bd0 => Some("lustre"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_folder: &Path) -> Option<&'static str> {
    None
}

/// Opens the database for writing, creating it where there is none.
pub(super) fn open(settings: &ConnectionSettings) -> Result<Connection, Error> {
    let path = &settings.path;
    if rusqlite::version_number() < OLDEST_SQLITE {
        let reason = format!("this build has SQLite {}, which is too old", rusqlite::version());
        return Err(Error::NotOurs { path: path.clone(), reason });
    }
    let readable = |source| Error::io(path, source);
    let found = std::fs::exists(path).map_err(readable)?;
    if found {
        // SQLite would only say that it cannot open the file, not why. The file must not be opened here: closing it
        // again would drop the locks that other stores of this process hold on it.
        use rustix::fs::{Access, access};
        access(path, Access::READ_OK | Access::WRITE_OK).map_err(|error| readable(error.into()))?;
    } else {
        create(path)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(settings, flags).map_err(|source| unreadable(path, source))?;
    connection.busy_timeout(BUSY)?;
    check_header(&connection).map_err(|source| unreadable(path, source))?;
    Ok(connection)
}

/// Looks at the file before anything about it is changed.
fn check_header(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Settings of the connection that writes.
pub(super) fn configure(connection: &Connection, settings: &ConnectionSettings) -> Result<(), Error> {
    let durability = match settings.durability {
        Durability::Full => "FULL",
        Durability::Process => "NORMAL",
    };
    let configure = || {
        switch_to_wal(connection)?;
        connection.execute_batch(&format!(
            "PRAGMA synchronous = {durability}; PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY;
             PRAGMA journal_size_limit = 67108864; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
             PRAGMA mmap_size = 0;"
        ))
    };
    configure().map_err(|source| super::failure(&settings.path, source))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Several processes may open a new file at once, and SQLite does not wait for the others at this step by itself.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match &switched {
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                ) && began.elapsed() < BUSY =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return switched,
        }
    }
}

/// Opens the database for reading.
pub(super) fn open_reader(settings: &ConnectionSettings) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(settings, flags).map_err(|source| super::failure(&settings.path, source))?;
    connection.busy_timeout(BUSY)?;
    // Without a map of the file a damaged or shortened one is an error and not a signal that ends the process.
    connection.execute_batch(
        "PRAGMA query_only = ON; PRAGMA cache_size = -16000; PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn connect(settings: &ConnectionSettings, flags: OpenFlags) -> rusqlite::Result<Connection> {
    super::keep_locks();
    let connection = match &settings.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(&settings.path, flags, vfs.as_str()),
        None => Connection::open_with_flags(&settings.path, flags),
    }?;
    // Otherwise a statement is planned again each time that a value is bound to it, which takes longer than most of
    // ours run; and none of them would be planned otherwise.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// An empty file that only its owner may read: SQLite takes an empty file for a new database.
fn create(path: &Path) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    // Only if it is new: closing a file that others use drops this process's locks on it.
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(path) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io(path, source)),
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::NotOurs { path: path.to_owned(), reason: source.to_string() },
        _ => super::failure(path, source),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        let known = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6a65_6a63].map(super::network_kind);
        assert_eq!(known, [Some("nfs"), Some("smb"), Some("smb"), Some("9p"), Some("virtiofs")]);
        let local = [0xef53, 0x9123_683e, 0x5846_5342, 0x0102_1994, 0x794c_7630].map(super::network_kind);
        assert_eq!(local, [None; 5], "ext4, btrfs, xfs, tmpfs, overlayfs");
    }
}
