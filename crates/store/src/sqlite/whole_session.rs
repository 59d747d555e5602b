//! A whole session: replacing its rows, or deleting all of it.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{schema, stored_session, upkeep, write};
use crate::Error;
use crate::owner::Owner;
use crate::upkeep::backup::RestoredSession;
use crate::upkeep::rebuild::RebuiltRows;
use crate::upkeep::stored_session::digest;
use crate::upkeep::trash::{Purge, PurgedPlace};

/// Replaces a session's rows, if its log still ends where it did.
pub(super) fn replace_rows(connection: &Connection, rebuilt: &RebuiltRows) -> Result<bool, Error> {
    let Some(key) = stored_session::key(connection, &rebuilt.id)? else { return Ok(false) };
    let last: Option<u64> = connection
        .prepare_cached("SELECT max(seq) FROM event WHERE session = ?1")?
        .query_row([key], |row| row.get(0))?;
    if last != Some(rebuilt.last) || digest(&stored_session::log(connection, key)?) != rebuilt.digest {
        return Ok(false);
    }
    // Where the row was lost, a later ownership than any before: leases from then must not hold again.
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO session
             (key, id, seq, project, directory, title, created, updated, data, epoch, changed)
             SELECT ?1, ?2, 0, '', '', '', 0, 0, '', ifnull(max(epoch), 0) + 1, max(stamp)
             FROM event WHERE session = ?1",
        )?
        .execute(params![key, rebuilt.id.as_str()])?;
    connection
        .prepare_cached("UPDATE session SET id = ?2 WHERE key = ?1 AND id IS NOT ?2")?
        .execute(params![key, rebuilt.id.as_str()])?;
    clear_rows(connection, key)?;
    let mut change =
        connection.prepare_cached("UPDATE event SET type = ?3, data = ?4 WHERE session = ?1 AND seq = ?2")?;
    for row in &rebuilt.log {
        change.execute(params![key, row.seq, row.name, row.data])?;
    }
    for hash in &rebuilt.unused {
        connection
            .prepare_cached("DELETE FROM blob_use WHERE session = ?1 AND hash = ?2")?
            .execute(params![key, hash.as_bytes()])?;
    }
    for hash in &rebuilt.uses {
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob_use VALUES (?1, ?2)")?
            .execute(params![key, hash.as_bytes()])?;
    }
    let all = rebuilt.blobs.iter().chain(&rebuilt.rows.blobs);
    for blob in all {
        // What is there under this name may be damaged.
        connection
            .prepare_cached("DELETE FROM blob WHERE hash = ?1 AND (size != ?2 OR data != ?3)")?
            .execute(params![blob.hash.as_bytes(), blob.size, blob.packed])?;
    }
    write::put_blobs(connection, key, &rebuilt.blobs)?;
    write::put_session(connection, key, &rebuilt.session, None)?;
    write::put_rows(connection, key, &rebuilt.rows)?;
    write::put_texts(connection, key, false, &rebuilt.rows.texts)?;
    let mut piece = connection
        .prepare_cached("UPDATE stream SET text = ?4 WHERE session = ?1 AND part = ?2 AND start = ?3")?;
    for row in &rebuilt.streams {
        piece.execute(params![key, row.part, row.start, row.text])?;
    }
    if rebuilt.lift {
        upkeep::take_back(connection, &rebuilt.id)?;
    }
    if let Some(audit) = &rebuilt.audit {
        upkeep::put_audit(connection, audit)?;
    }
    Ok(true)
}

/// Writes a session that comes from elsewhere: its log, and its row as far as it is known. The other rows are made of
/// the log afterwards.
pub(super) fn load(connection: &Connection, loaded: &RestoredSession) -> Result<(), Error> {
    write::refuse_purged(connection, &loaded.id)?;
    let there =
        connection.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?.exists([loaded.id.as_str()])?;
    if there {
        return Err(Error::Exists(loaded.id.clone()));
    }
    let key = write::create(connection, &loaded.id)?;
    if let Some(session) = &loaded.session {
        write::put_session(connection, key, session, None)?;
    }
    write::put_log(connection, key, &loaded.log, 0)?;
    // A later ownership than any before: leases from then must not hold again.
    connection
        .prepare_cached(
            "UPDATE session SET epoch = (SELECT ifnull(max(epoch), 0) + 1 FROM event WHERE session = ?1) WHERE key = ?1",
        )?
        .execute([key])?;
    Ok(())
}

/// Removes a session's projections; its log, its streams and its blobs stay.
fn clear_rows(connection: &Connection, key: i64) -> Result<(), Error> {
    for sql in [
        "DELETE FROM entry WHERE session = ?1",
        "DELETE FROM part WHERE session = ?1",
        "DELETE FROM inbox WHERE session = ?1",
        "DELETE FROM request WHERE session = ?1",
        "DELETE FROM todo WHERE session = ?1",
        "DELETE FROM bill WHERE session = ?1",
        "DELETE FROM unbilled WHERE session = ?1",
        "DELETE FROM search WHERE rowid IN (SELECT key FROM text WHERE session = ?1)",
        "DELETE FROM text WHERE session = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    Ok(())
}

/// Deletes a session for good, unless a living process runs it.
pub(super) fn purge_session(connection: &Connection, purge: &Purge, owner: &Owner) -> Result<bool, Error> {
    let id = &purge.session;
    let found = connection
        .prepare_cached(
            "SELECT owner, trashed, project, directory, changed, created, updated FROM session WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let trashed = stored_session::maybe_number(row, 1)?;
            let place = PurgedPlace {
                project: stored_session::text(row, 2)?,
                directory: stored_session::text(row, 3)?,
                created: stored_session::number(row, 5)?,
                updated: stored_session::number(row, 6)?,
                // Without a stamp it is told once more, and not passed over.
                trashed: trashed.and(u64::try_from(stored_session::number(row, 4)?).ok()),
            };
            Ok((stored_session::maybe_text(row, 0)?, trashed, Some(place)))
        })
        .optional()?;
    let (holder, trashed, place) = found.unwrap_or_default();
    let Some(key) = stored_session::key(connection, id)? else { return Ok(false) };
    if purge.trashed.is_some_and(|since| trashed.is_none_or(|trashed| trashed > since)) {
        return Ok(false);
    }
    if let Some(holder) = holder
        && holder != owner.name()
        && !owner.has_lost(&holder)
    {
        return Err(Error::Busy { session: id.clone(), owner: holder });
    }
    clear_rows(connection, key)?;
    let events = connection.prepare_cached("DELETE FROM event WHERE session = ?1")?.execute([key])?;
    for sql in [
        "DELETE FROM stream WHERE session = ?1",
        "DELETE FROM blob_use WHERE session = ?1",
        "DELETE FROM session WHERE key = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    upkeep::take_back(connection, id)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO tombstone VALUES (?1, ?2)")?
        .execute(params![id.as_str(), purge.time])?;
    if trashed.is_none() {
        // Counted as a commit, so that the others look: they are to be told.
        let newest = schema::NEWEST_COMMIT;
        let count = format!("UPDATE meta SET value = {newest} + 1 WHERE name = 'commits'");
        connection.prepare_cached(&count)?.execute([])?;
    }
    let events = u64::try_from(events).unwrap_or(u64::MAX);
    upkeep::put_audit(connection, &purge.audit(events, place))?;
    Ok(true)
}
