//! Leases: which process runs a session.

use everturn_model::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::stored_session::maybe_text;
use crate::Error;
use crate::append::Lease;
use crate::owner::Owner;

/// Takes a session that is free, ours, or that of a process that is dead or silent for too long.
pub(super) fn acquire(connection: &Connection, session: &SessionId, owner: &Owner) -> Result<Lease, Error> {
    let row = connection
        .prepare_cached("SELECT owner, epoch FROM session WHERE id = ?1")?
        // A name that is damaged is nobody's, and must not keep the session from everybody.
        .query_row([session.as_str()], |row| Ok((maybe_text(row, 0)?, row.get::<_, u64>(1)?)))
        .optional()?;
    let Some((holder, epoch)) = row else { return Err(Error::NoSession(session.clone())) };
    match &holder {
        Some(name) if name == owner.name() => {
            return Ok(Lease { session: session.clone(), owner: name.clone(), epoch, taken_from: None });
        }
        Some(name) if !owner.has_lost(name) => {
            return Err(Error::Busy { session: session.clone(), owner: name.clone() });
        }
        _ => {}
    }
    let taken_from = holder.and_then(|name| owner.last_beat(&name));
    connection
        .prepare_cached("UPDATE session SET owner = ?2, epoch = epoch + 1 WHERE id = ?1")?
        .execute(params![session.as_str(), owner.name()])?;
    Ok(Lease { session: session.clone(), owner: owner.name().to_owned(), epoch: epoch + 1, taken_from })
}

/// Says whether a lease still holds.
pub(super) fn check(connection: &Connection, lease: &Lease) -> Result<(), Error> {
    let holds = connection
        .prepare_cached("SELECT 1 FROM session WHERE id = ?1 AND owner = ?2 AND epoch = ?3")?
        .exists(params![lease.session.as_str(), lease.owner, lease.epoch])?;
    if holds { Ok(()) } else { Err(Error::Fenced(lease.session.clone())) }
}

/// Gives back a session whose lease was seen to hold.
pub(super) fn free(connection: &Connection, key: i64) -> Result<(), Error> {
    connection.prepare_cached("UPDATE session SET owner = NULL WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// Gives a session back, if it is still ours.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Error> {
    connection
        .prepare_cached("UPDATE session SET owner = NULL WHERE id = ?1 AND owner = ?2 AND epoch = ?3")?
        .execute(params![lease.session.as_str(), lease.owner, lease.epoch])?;
    Ok(())
}
