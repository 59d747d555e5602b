//! Facts that belong to no session, all at once.

use rusqlite::{Connection, params};

use super::{kept, reader, upkeep};
use crate::Error;
use crate::upkeep::fact::{Approval, Facts};

pub(super) fn facts(connection: &Connection) -> Result<Facts, Error> {
    let mut statement = connection
        .prepare_cached("SELECT project, permission, pattern, time FROM approval ORDER BY time, 1, 2, 3")?;
    let rows = statement.query_map([], |row| {
        let (project, permission) = (kept::text(row, 0)?, kept::text(row, 1)?);
        Ok(Approval { project, permission, pattern: kept::text(row, 2)?, time: row.get(3)? })
    })?;
    let approvals = rows.collect::<Result<_, _>>()?;
    let mut audits = upkeep::audits(connection, usize::MAX)?;
    audits.reverse();
    Ok(Facts {
        projects: reader::projects(connection)?,
        approvals,
        tombstones: upkeep::tombstones(connection)?,
        aside: upkeep::set_aside_list(connection)?,
        audits,
    })
}

/// Replaces all facts, if they are still those.
pub(super) fn swap(connection: &Connection, before: &Facts, after: &Facts) -> Result<bool, Error> {
    if facts(connection)? != *before {
        return Ok(false);
    }
    connection.execute_batch(
        "DELETE FROM project; DELETE FROM approval; DELETE FROM tombstone; DELETE FROM quarantine; DELETE FROM audit;",
    )?;
    put(connection, after)?;
    Ok(true)
}

/// Writes facts into tables that have none.
pub(super) fn put(connection: &Connection, facts: &Facts) -> Result<(), Error> {
    for (id, data) in &facts.projects {
        connection.prepare_cached("INSERT INTO project VALUES (?1, ?2)")?.execute(params![id, data])?;
    }
    for row in &facts.approvals {
        // Two may have become the same.
        connection
            .prepare_cached("INSERT OR IGNORE INTO approval VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![row.project, row.permission, row.pattern, row.time])?;
    }
    for stone in &facts.tombstones {
        connection
            .prepare_cached("INSERT INTO tombstone VALUES (?1, ?2)")?
            .execute(params![stone.session.as_str(), stone.time])?;
    }
    for aside in &facts.aside {
        upkeep::put_aside(connection, aside)?;
    }
    for audit in &facts.audits {
        upkeep::put_audit(connection, audit)?;
    }
    Ok(())
}
