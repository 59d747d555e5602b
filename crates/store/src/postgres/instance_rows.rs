//! Rows that belong to no session, all at once.

use deadpool_postgres::ClientWrapper;
use everturn_model::SessionId;

use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::pool::query;
use super::reader;
use super::rows::plain;
use super::upkeep::put_audit;
use crate::upkeep::audit::Audit;
use crate::upkeep::instance_rows::{Approval, InstanceRows};
use crate::upkeep::set_aside::SetAside;
use crate::upkeep::trash::Tombstone;

pub(super) async fn instance_rows(client: &ClientWrapper) -> Result<InstanceRows, ServerFailure> {
    let sql = "SELECT project, folder, permission, pattern, time FROM approval ORDER BY time, 1, 2, 3, 4";
    let rows = query(client, sql, &[]).await?;
    let approvals = rows.iter().map(|row| {
        let (project, folder, permission) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Approval { project, folder, permission, pattern: row.try_get(3)?, time: row.try_get(4)? })
    });
    let approvals = approvals.collect::<Result<_, ServerFailure>>()?;
    let mut audits = audits(client, i64::MAX).await?;
    audits.reverse();
    Ok(InstanceRows {
        projects: reader::projects(client).await?,
        approvals,
        tombstones: tombstones(client).await?,
        aside: set_aside_list(client).await?,
        audits,
    })
}

pub(super) async fn tombstones(client: &ClientWrapper) -> Result<Vec<Tombstone>, ServerFailure> {
    let rows = query(client, "SELECT session, time FROM tombstone ORDER BY session", &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        Ok(Tombstone { session: SessionId::new(row.try_get::<_, String>(0)?), time: row.try_get(1)? })
    };
    rows.iter().map(of).collect()
}

pub(super) async fn set_aside_list(client: &ClientWrapper) -> Result<Vec<SetAside>, ServerFailure> {
    let rows = query(client, "SELECT session, time, reason FROM quarantine ORDER BY session", &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let session = SessionId::new(row.try_get::<_, String>(0)?);
        Ok(SetAside { session, time: row.try_get(1)?, reason: row.try_get(2)? })
    };
    rows.iter().map(of).collect()
}

/// What was done to the log, the newest first.
pub(super) async fn audits(client: &ClientWrapper, limit: i64) -> Result<Vec<Audit>, ServerFailure> {
    let sql = "SELECT time, action, detail FROM audit ORDER BY key DESC LIMIT $1";
    let rows = query(client, sql, &[&limit]).await?;
    let of = |row: &tokio_postgres::Row| {
        let detail: String = row.try_get(2)?;
        // What cannot be read is shown as it is.
        let detail = serde_json::from_str(&detail).unwrap_or(serde_json::Value::String(detail));
        Ok(Audit { time: row.try_get(0)?, action: row.try_get(1)?, detail })
    };
    rows.iter().map(of).collect()
}

/// Replaces all of them, if they are still the same.
pub(super) async fn swap(
    link: &WriterConnection,
    before: &InstanceRows,
    after: &InstanceRows,
) -> Result<bool, ServerFailure> {
    link.run("LOCK TABLE project, approval, tombstone, quarantine, audit IN SHARE ROW EXCLUSIVE MODE")
        .await?;
    if instance_rows(&link.client).await? != *before {
        return Ok(false);
    }
    link.run(
        "DELETE FROM project; DELETE FROM approval; DELETE FROM tombstone; DELETE FROM quarantine; DELETE FROM audit",
    )
    .await?;
    let client = &link.client;
    for (id, data) in &after.projects {
        let sql = "INSERT INTO project (id, data) VALUES ($1, $2)";
        query(client, sql, &[&plain(id), &data.as_bytes()]).await?;
    }
    for row in &after.approvals {
        // Two may have become the same.
        let sql = "INSERT INTO approval (project, folder, permission, pattern, time)
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let (project, folder) = (plain(&row.project), plain(&row.folder));
        let (permission, pattern) = (plain(&row.permission), plain(&row.pattern));
        query(client, sql, &[&project, &folder, &permission, &pattern, &row.time]).await?;
    }
    for stone in &after.tombstones {
        let sql = "INSERT INTO tombstone (session, time) VALUES ($1, $2)";
        query(client, sql, &[&stone.session.as_str(), &stone.time]).await?;
    }
    for aside in &after.aside {
        let sql = "INSERT INTO quarantine (session, time, reason) VALUES ($1, $2, $3)";
        query(client, sql, &[&aside.session.as_str(), &aside.time, &plain(&aside.reason)]).await?;
    }
    for audit in &after.audits {
        put_audit(link, audit).await?;
    }
    Ok(true)
}
