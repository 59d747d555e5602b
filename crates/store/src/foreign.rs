//! Databases of other programs, read without writing to them.
//!
//! The store is the only crate that knows SQLite; importers ask here for rows and turn them into sessions elsewhere.

use std::path::Path;

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
    /// Text; bytes that are no text are replaced.
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
pub struct Database(Connection);

impl Database {
    /// Opens a database file that is there.
    ///
    /// # Errors
    /// When it is not there or is not a database.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let not_ours =
            |source: rusqlite::Error| Error::NotOurs { path: path.to_owned(), reason: source.to_string() };
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(not_ours)?;
        Ok(Self(connection))
    }

    /// True when the table is there with all of these columns.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn has(&self, table: &str, columns: &[&str]) -> Result<bool, Error> {
        let mut statement = self.0.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let names = statement.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(!names.is_empty() && columns.iter().all(|column| names.iter().any(|name| name == column)))
    }

    /// The rows of a query with text parameters.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn select(&self, sql: &str, parameters: &[&str]) -> Result<Vec<Vec<Column>>, Error> {
        let mut statement = self.0.prepare_cached(sql)?;
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
