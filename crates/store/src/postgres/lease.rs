//! Leases: which process runs a session.
//!
//! Whether an owner is alive is decided by the server's clock alone, from the row that the owner keeps up to date. Only
//! of processes that share this process's folder on this machine more is known: their lock tells at once that they
//! are dead. Neither decides who may write: that is the epoch in the session's row.

use deadpool_postgres::ClientWrapper;
use everturn_model::SessionId;
use tokio_postgres::Row;

use super::failure::ServerFailure;
use super::pool::query;
use super::reader::count;
use crate::Error;
use crate::append::Lease;
use crate::owner::Owner;

/// How often an owner that changes while it is looked at is looked at again.
const LOOKS: usize = 5;

/// Who has a session, and what is known of that process.
struct LeaseHolder {
    owner: Option<String>,
    epoch: u64,
    /// It said so lately.
    alive: bool,
    /// Where it runs.
    boot: Option<String>,
}

impl LeaseHolder {
    /// From owner, epoch, whether it is alive, and where it runs.
    fn of(row: &Row, first: usize) -> Result<Self, ServerFailure> {
        Ok(Self {
            owner: row.try_get(first)?,
            epoch: count(row, first + 1)?,
            alive: row.try_get(first + 2)?,
            boot: row.try_get(first + 3)?,
        })
    }

    /// True when its process is gone or silent for too long.
    fn is_lost(&self, me: &ThisProcess) -> bool {
        let Some(name) = &self.owner else { return true };
        !self.alive || self.is_dead(name, me)
    }

    fn is_dead(&self, name: &str, me: &ThisProcess) -> bool {
        self.boot.as_deref() == Some(me.boot.as_str()) && me.owner.is_dead(name)
    }
}

/// This process, as leases know it.
#[derive(Debug, Clone)]
pub(super) struct ThisProcess {
    pub(super) owner: Owner,
    /// Which machine since when, and which folder of it.
    pub(super) boot: String,
}

const HOLDER: &str = "s.owner, s.epoch, coalesce(h.until > clock_timestamp(), false), h.boot
                      FROM session s LEFT JOIN host h ON h.name = s.owner";

/// Takes a session that is free, ours, or that of a process that is dead or silent for too long.
pub(super) async fn acquire(
    client: &ClientWrapper,
    session: &SessionId,
    me: &ThisProcess,
) -> Result<Lease, ServerFailure> {
    let look = format!("SELECT {HOLDER} WHERE s.id = $1");
    let name = me.owner.name();
    let mut seen = None;
    for _ in 0..LOOKS {
        let rows = query(client, &look, &[&session.as_str()]).await?;
        let Some(row) = rows.first() else { return Err(Error::NoSession(session.clone()).into()) };
        let holder = LeaseHolder::of(row, 0)?;
        if holder.owner.as_deref() == Some(name) {
            return Ok(Lease {
                session: session.clone(),
                owner: name.to_owned(),
                epoch: holder.epoch,
                taken_from: None,
            });
        }
        if !holder.is_lost(me) {
            let owner = holder.owner.unwrap_or_default();
            return Err(Error::Busy { session: session.clone(), owner }.into());
        }
        let dead = holder.owner.as_deref().is_some_and(|name| holder.is_dead(name, me));
        // Only if nothing changed since, and not from one that has spoken meanwhile.
        let take = "UPDATE session SET owner = $2, epoch = epoch + 1
                    WHERE id = $1 AND epoch = $3 AND owner IS NOT DISTINCT FROM $4 AND (owner IS NULL OR $5
                      OR NOT EXISTS (SELECT FROM host WHERE name = $4 AND until > clock_timestamp()))
                    RETURNING epoch";
        let epoch = i64::try_from(holder.epoch).unwrap_or(i64::MAX);
        let rows = query(client, take, &[&session.as_str(), &name, &epoch, &holder.owner, &dead]).await?;
        if let Some(row) = rows.first() {
            // Of a process on another machine nothing is known by which files could be judged.
            let taken_from = holder.owner.filter(|_| dead).and_then(|name| me.owner.last_beat(&name));
            let epoch = count(row, 0)?;
            return Ok(Lease { session: session.clone(), owner: name.to_owned(), epoch, taken_from });
        }
        seen = holder.owner;
    }
    Err(Error::Busy { session: session.clone(), owner: seen.unwrap_or_default() }.into())
}

/// Says whether a lease still holds.
pub(super) async fn check(client: &ClientWrapper, lease: &Lease) -> Result<(), ServerFailure> {
    let sql = "SELECT FROM session WHERE id = $1 AND owner = $2 AND epoch = $3";
    let epoch = i64::try_from(lease.epoch).unwrap_or(i64::MAX);
    let rows = query(client, sql, &[&lease.session.as_str(), &lease.owner, &epoch]).await?;
    if rows.is_empty() { Err(Error::Fenced(lease.session.clone()).into()) } else { Ok(()) }
}

/// Gives a session back, if it is still ours.
pub(super) async fn release(client: &ClientWrapper, lease: &Lease) -> Result<(), ServerFailure> {
    let sql = "UPDATE session SET owner = NULL WHERE id = $1 AND owner = $2 AND epoch = $3";
    let epoch = i64::try_from(lease.epoch).unwrap_or(i64::MAX);
    query(client, sql, &[&lease.session.as_str(), &lease.owner, &epoch]).await?;
    Ok(())
}

/// Sessions with an open turn whose owner is another process that is alive.
pub(super) async fn open_elsewhere(
    client: &ClientWrapper,
    me: &ThisProcess,
) -> Result<Vec<SessionId>, ServerFailure> {
    let sql = format!("SELECT s.id, {HOLDER} WHERE s.owner IS NOT NULL AND s.owner <> $1 AND s.open");
    let mut running = Vec::new();
    for row in query(client, &sql, &[&me.owner.name()]).await? {
        if !LeaseHolder::of(&row, 1)?.is_lost(me) {
            running.push(SessionId::new(row.try_get::<_, String>(0)?));
        }
    }
    Ok(running)
}

/// Unfinished sessions whose owner is another process that is gone or silent for too long.
pub(super) async fn orphans(
    client: &ClientWrapper,
    me: &ThisProcess,
) -> Result<Vec<SessionId>, ServerFailure> {
    let sql = format!(
        "SELECT s.id, {HOLDER} WHERE s.trashed IS NULL AND s.owner IS NOT NULL AND s.owner <> $1
         AND (s.open OR s.key IN (SELECT session FROM inbox))"
    );
    let mut orphans = Vec::new();
    for row in query(client, &sql, &[&me.owner.name()]).await? {
        if LeaseHolder::of(&row, 1)?.is_lost(me) {
            orphans.push(SessionId::new(row.try_get::<_, String>(0)?));
        }
    }
    Ok(orphans)
}

/// The other process that has a session, if it is alive.
pub(super) async fn living_owner(
    client: &ClientWrapper,
    session: &SessionId,
    me: &ThisProcess,
) -> Result<Option<String>, ServerFailure> {
    let rows = query(client, &format!("SELECT {HOLDER} WHERE s.id = $1"), &[&session.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let holder = LeaseHolder::of(row, 0)?;
    let lost = holder.is_lost(me);
    Ok(holder.owner.filter(|name| !lost && name != me.owner.name()))
}
