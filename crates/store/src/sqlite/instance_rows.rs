//! Rows that belong to no session, all at once.

use rusqlite::{Connection, params};

use super::{reader, stored_session, upkeep};
use crate::Error;
use crate::upkeep::instance_rows::{Approval, InstanceRows};

pub(super) fn instance_rows(connection: &Connection) -> Result<InstanceRows, Error> {
    let sql = "SELECT project, folder, permission, pattern, time FROM approval ORDER BY time, 1, 2, 3, 4";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let text = |at| stored_session::text(row, at);
        let (project, folder, permission) = (text(0)?, text(1)?, text(2)?);
        Ok(Approval { project, folder, permission, pattern: text(3)?, time: row.get(4)? })
    })?;
    let approvals = rows.collect::<Result<_, _>>()?;
    let mut audits = upkeep::audits(connection, usize::MAX)?;
    audits.reverse();
    Ok(InstanceRows {
        projects: reader::projects(connection)?,
        approvals,
        tombstones: upkeep::tombstones(connection)?,
        aside: upkeep::set_aside_list(connection)?,
        audits,
    })
}

/// Replaces all of them, if they are still the same.
pub(super) fn swap(
    connection: &Connection,
    before: &InstanceRows,
    after: &InstanceRows,
) -> Result<bool, Error> {
    if instance_rows(connection)? != *before {
        return Ok(false);
    }
    connection.execute_batch(
        "DELETE FROM project; DELETE FROM approval; DELETE FROM tombstone; DELETE FROM quarantine; DELETE FROM audit;",
    )?;
    put(connection, after)?;
    Ok(true)
}

/// Writes them into empty tables.
pub(super) fn put(connection: &Connection, instance_rows: &InstanceRows) -> Result<(), Error> {
    for (id, data) in &instance_rows.projects {
        connection.prepare_cached("INSERT INTO project VALUES (?1, ?2)")?.execute(params![id, data])?;
    }
    for row in &instance_rows.approvals {
        // Two may have become the same.
        connection
            .prepare_cached("INSERT OR IGNORE INTO approval VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![row.project, row.folder, row.permission, row.pattern, row.time])?;
    }
    for stone in &instance_rows.tombstones {
        connection
            .prepare_cached("INSERT INTO tombstone VALUES (?1, ?2)")?
            .execute(params![stone.session.as_str(), stone.time])?;
    }
    for aside in &instance_rows.aside {
        upkeep::put_aside(connection, aside)?;
    }
    for audit in &instance_rows.audits {
        upkeep::put_audit(connection, audit)?;
    }
    Ok(())
}
