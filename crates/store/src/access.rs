//! Whether a database may be written by this version.

/// What an engine found when it opened its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It has the schema of this version.
    Write,
    /// Its schema is newer: number found and newest known.
    Read { found: i64, known: i64 },
}
