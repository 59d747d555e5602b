//! The full-text index as a whole: filling it, and rebuilding it where it is damaged.
//!
//! The index says nothing that the rows do not say. So when it is damaged, nobody should have to restore a backup for
//! it, and nothing should wait for a person: it is emptied and filled again.

use everturn_model::Session;
use rusqlite::{Connection, ffi};

use super::{reader, write};
use crate::{Error, plan, row, shape};

/// Whether an error says that the index is damaged, and not the file.
pub(super) fn is_damaged(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CORRUPT_VTAB)
}

/// Empties the index and fills it again, in a transaction of its own.
pub(super) fn heal(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let healed = refill(connection).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if healed.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    healed
}

fn refill(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch("INSERT INTO search (search) VALUES ('delete-all'); DELETE FROM text")?;
    let mut statement = connection.prepare("SELECT key, id, data FROM session ORDER BY key")?;
    let mut sessions = statement.query([])?;
    while let Some(found) = sessions.next()? {
        let (key, id, data): (i64, String, String) = (found.get(0)?, found.get(1)?, found.get(2)?);
        let filled = shape::decode(&id, "session", &data).and_then(|session| fill(connection, key, session));
        match filled {
            // A damaged session must not keep the others from being found; `verify` reports it.
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(session = id, error = error.to_string(), "a session cannot be searched");
            }
            filled => filled?,
        }
    }
    Ok(())
}

/// Makes the texts of a session findable, of which none is in the index yet.
pub(super) fn fill(connection: &Connection, key: i64, session: Session) -> Result<(), Error> {
    let tree = reader::rows(connection, key, session)?;
    let mut touched = plan::TouchedRows::default();
    touched.all(&tree);
    let mut rows = row::Rows::of(&tree, &touched)?;
    rows.name(&tree.session.title);
    write::put_texts(connection, key, true, &rows.texts)
}
