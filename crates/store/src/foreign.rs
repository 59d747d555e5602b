//! Databases of other programs, read without writing to them.
//!
//! The store is the only crate that knows SQLite; importers ask here for rows and turn them into sessions elsewhere.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::Error;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Real(f64),
    /// Text; bytes that are not text are replaced.
    Text(String),
}

impl Column {
    /// The text, if it is text.
    #[must_use]
    pub fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Integer(_) | Self::Real(_) => None,
        }
    }

    /// The whole number, if it is one.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Null | Self::Real(_) | Self::Text(_) => None,
        }
    }

    /// The number, whole or not.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "costs are far below 2^53")]
            Self::Integer(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Null | Self::Text(_) => None,
        }
    }
}

/// A database of another program, opened for reading only.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    // Held until the connection is closed: a private copy, where one had to be made.
    _copy: Option<tempfile::TempDir>,
}

impl Database {
    /// Opens a database file that is there. Nothing is written beside it: a database at rest is read as it is, one that
    /// another program has open is read with it, and one that was left in the middle of its work is copied first.
    ///
    /// # Errors
    /// When it is not there or is not a database.
    pub fn open(path: &Path) -> Result<Self, Error> {
        crate::sqlite::keep_locks();
        let io = |source| Error::io(path, source);
        let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
        let unfinished = std::fs::metadata(beside("-wal")).is_ok_and(|file| file.len() > 0);
        let in_use = beside("-shm").exists();
        let (connection, copy) = if !unfinished && !in_use {
            (Connection::open_with_flags(address(path), flags())?, None)
        } else if in_use {
            (Connection::open_with_flags(path, flags())?, None)
        } else {
            let copy = tempfile::tempdir().map_err(io)?;
            let file = copy.path().join("copy.db");
            std::fs::copy(path, &file).map_err(io)?;
            std::fs::copy(beside("-wal"), copy.path().join("copy.db-wal")).map_err(io)?;
            (Connection::open(file)?, Some(copy))
        };
        let not_ours = |source: rusqlite::Error| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Error::Damaged { path: path.to_owned(), reason: source.to_string() }
            }
            _ => Error::NotOurs { path: path.to_owned(), reason: source.to_string() },
        };
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(not_ours)?;
        Ok(Self { connection, _copy: copy })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// True when the table is there with all of these columns.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn has(&self, table: &str, columns: &[&str]) -> Result<bool, Error> {
        let mut statement = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let names = statement.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(!names.is_empty() && columns.iter().all(|column| names.iter().any(|name| name == column)))
    }

    /// The rows of a query with text parameters.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn select(&self, sql: &str, parameters: &[&str]) -> Result<Vec<Vec<Column>>, Error> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            let mut columns = Vec::with_capacity(width);
            for index in 0..width {
                columns.push(match row.get_ref(index)? {
                    ValueRef::Null => Column::Null,
                    ValueRef::Integer(number) => Column::Integer(number),
                    ValueRef::Real(number) => Column::Real(number),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        Column::Text(String::from_utf8_lossy(bytes).into_owned())
                    }
                });
            }
            out.push(columns);
        }
        Ok(out)
    }
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI
}

/// The file as an address that promises SQLite that nobody changes it, so that it needs no files beside it.
fn address(path: &Path) -> String {
    let mut name = String::new();
    for byte in path.display().to_string().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                name.push(char::from(byte));
            }
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    format!("file:{name}?immutable=1")
}
