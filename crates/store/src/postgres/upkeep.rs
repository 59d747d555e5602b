//! Upkeep on PostgreSQL: the primitives that the shared part asks for.
//!
//! What changes a session here holds the lock of its row, as appends do.

use std::path::{Path, PathBuf};

use everturn_model::{Millis, SessionId};
use tokio_postgres::Row;

use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::pool;
use super::reader::count;
use super::rows::BLOBS;
use super::{PostgresEngine, instance_rows, stored_session, whole_session};
use crate::Error;
use crate::payload::Blob;
use crate::upkeep::audit::Audit;
use crate::upkeep::backup::RestoredSession;
use crate::upkeep::blob::Collected;
use crate::upkeep::disk::{BlobUse, LargeSession, MeasuredSizes};
use crate::upkeep::instance_rows::InstanceRows;
use crate::upkeep::rebuild::RebuiltRows;
use crate::upkeep::set_aside::SetAside;
use crate::upkeep::stored_session::{KeyedId, StoredSession};
use crate::upkeep::trash::{FreeSpace, Purge, Tombstone};

impl PostgresEngine {
    /// Begins a transaction over a connection of its own: upkeep is rare and may take long.
    pub(super) async fn begin(&self) -> Result<WriterConnection, Error> {
        self.refuse_reader()?;
        let named = |failure: ServerFailure| failure.into_error(self.address.name());
        let link = WriterConnection::make(&self.address).await.map_err(named)?;
        link.run("BEGIN").await.map_err(named)?;
        Ok(link)
    }

    /// Ends it: with a commit if all went well.
    pub(super) async fn finish<T>(
        &self,
        link: WriterConnection,
        outcome: Result<T, ServerFailure>,
    ) -> Result<T, Error> {
        let outcome = match outcome {
            Ok(value) => link.run("COMMIT").await.map(|()| value),
            // Without a commit the server forgets it, whether it hears this or not.
            Err(failure) => {
                drop(link.run("ROLLBACK").await);
                Err(failure)
            }
        };
        outcome.map_err(|failure| failure.into_error(self.address.name()))
    }

    pub(crate) async fn stored(&self, id: &SessionId) -> Result<Option<StoredSession>, Error> {
        read!(self, client => stored_session::stored(&client, id))
    }

    pub(crate) async fn ids(&self, after: Option<i64>, limit: usize) -> Result<Vec<KeyedId>, Error> {
        let sql = "SELECT key, id FROM session WHERE $1::bigint IS NULL OR key > $1 ORDER BY key LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = read!(self, client => pool::query(&client, sql, &[&after, &limit]))?;
        self.each(&rows, |row| {
            Ok(KeyedId { key: row.try_get(0)?, id: SessionId::new(row.try_get::<_, String>(1)?) })
        })
    }

    /// Sessions with work left, or with somebody to be asked, wherever they are.
    pub(crate) async fn left_open(&self) -> Result<Vec<SessionId>, Error> {
        let sql = "SELECT id FROM session WHERE open
                   OR key IN (SELECT session FROM request) OR key IN (SELECT session FROM inbox)";
        let rows = read!(self, client => pool::query(&client, sql, &[]))?;
        self.each(&rows, |row| Ok(SessionId::new(row.try_get::<_, String>(0)?)))
    }

    pub(crate) async fn replace_rows(&self, rebuilt: RebuiltRows) -> Result<bool, Error> {
        let link = self.begin().await?;
        let outcome = whole_session::replace_rows(&link, rebuilt).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn put_blob(&self, id: &SessionId, blob: Blob) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = put_blob(&link, id, blob).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn collect(&self) -> Result<Collected, Error> {
        let link = self.begin().await?;
        let outcome = collect(&link).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn purge_session(&self, purge: Purge) -> Result<bool, Error> {
        let link = self.begin().await?;
        let outcome = whole_session::purge_session(&link, &purge, &self.me).await;
        let purged = self.finish(link, outcome).await?;
        if purged {
            self.pokes.send_modify(|count| *count += 1);
        }
        Ok(purged)
    }

    pub(crate) async fn is_purged(&self, id: &SessionId) -> Result<bool, Error> {
        let sql = "SELECT FROM tombstone WHERE session = $1";
        Ok(!read!(self, client => pool::query(&client, sql, &[&id.as_str()]))?.is_empty())
    }

    pub(crate) async fn tombstones(&self) -> Result<Vec<Tombstone>, Error> {
        read!(self, client => instance_rows::tombstones(&client))
    }

    pub(crate) async fn trashed_since(&self, since: Millis) -> Result<Vec<SessionId>, Error> {
        let sql = "SELECT id FROM session WHERE trashed <= $1 ORDER BY trashed, key";
        let rows = read!(self, client => pool::query(&client, sql, &[&since]))?;
        self.each(&rows, |row| Ok(SessionId::new(row.try_get::<_, String>(0)?)))
    }

    /// The server gives space back by itself.
    #[expect(clippy::unused_async, reason = "the engines have the same methods")]
    pub(crate) async fn shrink(&self) -> Result<FreeSpace, Error> {
        Ok(FreeSpace::default())
    }

    pub(crate) async fn measure(&self) -> Result<MeasuredSizes, Error> {
        let totals = "SELECT pg_database_size(current_database()),
                        (SELECT count(*) FROM blob), (SELECT coalesce(sum(size), 0)::bigint FROM blob),
                        (SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM blob)";
        let sizes = "WITH log AS (SELECT session, sum(octet_length(data)) AS bytes FROM event GROUP BY session),
                     users AS (SELECT hash, count(*) AS users FROM blob_use GROUP BY hash),
                     share AS (
                       SELECT u.session, sum(octet_length(b.data) / users.users) AS bytes FROM blob_use u
                       JOIN users ON users.hash = u.hash JOIN blob b ON b.hash = u.hash GROUP BY u.session
                     )
                     SELECT s.id, s.title, (coalesce(log.bytes, 0) + coalesce(share.bytes, 0))::bigint,
                       s.trashed IS NOT NULL
                     FROM session s LEFT JOIN log ON log.session = s.key LEFT JOIN share ON share.session = s.key";
        let totals = read!(self, client => pool::query(&client, totals, &[]))?;
        let sizes = read!(self, client => pool::query(&client, sizes, &[]))?;
        let sessions = self.each(&sizes, |row| {
            let session = SessionId::new(row.try_get::<_, String>(0)?);
            Ok((LargeSession { session, title: row.try_get(1)?, bytes: count(row, 2)? }, row.try_get(3)?))
        })?;
        let measured = self.each(&totals, |row| {
            let blobs = BlobUse { count: count(row, 1)?, size: count(row, 2)?, packed: count(row, 3)? };
            Ok(MeasuredSizes { file: count(row, 0)?, blobs, ..MeasuredSizes::default() })
        })?;
        let measured = measured.into_iter().next().unwrap_or_default();
        Ok(MeasuredSizes { sessions, ..measured })
    }

    pub(crate) async fn set_aside(&self, aside: SetAside) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = set_aside(&link, &aside).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn set_aside_list(&self) -> Result<Vec<SetAside>, Error> {
        read!(self, client => instance_rows::set_aside_list(&client))
    }

    pub(crate) async fn take_back(&self, id: &SessionId) -> Result<bool, Error> {
        let sql = "DELETE FROM quarantine WHERE session = $1 RETURNING session";
        Ok(!write!(self, client => pool::query(&client, sql, &[&id.as_str()]))?.is_empty())
    }

    pub(crate) async fn instance_rows(&self) -> Result<InstanceRows, Error> {
        read!(self, client => instance_rows::instance_rows(&client))
    }

    pub(crate) async fn swap_instance_rows(
        &self,
        before: InstanceRows,
        after: InstanceRows,
    ) -> Result<bool, Error> {
        let link = self.begin().await?;
        let outcome = instance_rows::swap(&link, &before, &after).await;
        self.finish(link, outcome).await
    }

    /// False: a server's files are not copied, its logs are.
    #[expect(clippy::unused_async, reason = "the engines have the same methods")]
    pub(crate) async fn back_up(&self, _target: &Path) -> Result<bool, Error> {
        Ok(false)
    }

    pub(crate) async fn load_session(&self, loaded: RestoredSession) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = whole_session::load(&link, loaded).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn put_audit(&self, audit: Audit) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = put_audit(&link, &audit).await;
        self.finish(link, outcome).await
    }

    /// Makes sure that what was deleted or overwritten is in no table any more. The server's own log and its backups
    /// keep it until they are recycled.
    pub(crate) async fn erase(&self) -> Result<bool, Error> {
        let named = |failure: ServerFailure| failure.into_error(self.address.name());
        let link = WriterConnection::make(&self.address).await.map_err(named)?;
        let tables =
            "event, entry, part, inbox, request, todo, bill, unbilled, stream, text, blob, session, project, approval, tombstone,
             quarantine, audit";
        link.run(&format!("VACUUM (FULL) {tables}")).await.map_err(named)?;
        Ok(true)
    }

    /// A server's backups are not in a folder of ours.
    pub(crate) fn backups(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    pub(crate) async fn audits(&self, limit: usize) -> Result<Vec<Audit>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        read!(self, client => instance_rows::audits(&client, limit))
    }

    /// The version of the fold that made the rows, and the time.
    pub(crate) async fn fold_version(&self) -> Result<(i64, Millis), Error> {
        let sql = "SELECT (SELECT convert_from(value, 'UTF8') FROM meta WHERE name = 'fold'),
                   (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let rows = read!(self, client => pool::query(&client, sql, &[]))?;
        let found = self.each(&rows, |row| {
            let version: Option<String> = row.try_get(0)?;
            Ok((version.and_then(|version| version.parse().ok()).unwrap_or(0), row.try_get(1)?))
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    pub(crate) async fn note_fold(&self, version: i64, audit: Audit) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = async {
            let sql = "INSERT INTO meta (name, value) VALUES ('fold', $1)
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            pool::query(&link.client, sql, &[&version.to_string().as_bytes()]).await?;
            put_audit(&link, &audit).await
        };
        let outcome = outcome.await;
        self.finish(link, outcome).await
    }

    pub(super) fn each<T>(
        &self,
        rows: &[Row],
        of: impl FnMut(&Row) -> Result<T, ServerFailure>,
    ) -> Result<Vec<T>, Error> {
        let all: Result<Vec<T>, ServerFailure> = rows.iter().map(of).collect();
        all.map_err(|failure| failure.into_error(self.address.name()))
    }
}

/// Locks a session's row; none when there is no such session.
pub(super) async fn lock(link: &WriterConnection, id: &SessionId) -> Result<Option<i64>, ServerFailure> {
    let sql = "SELECT key FROM session WHERE id = $1 FOR UPDATE";
    let rows = pool::query(&link.client, sql, &[&id.as_str()]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Why a session that has no row has none.
async fn missing(link: &WriterConnection, id: &SessionId) -> Result<ServerFailure, ServerFailure> {
    let sql = "SELECT FROM tombstone WHERE session = $1";
    let purged = !pool::query(&link.client, sql, &[&id.as_str()]).await?.is_empty();
    let error = if purged { Error::Purged(id.clone()) } else { Error::NoSession(id.clone()) };
    Ok(error.into())
}

async fn put_blob(link: &WriterConnection, id: &SessionId, blob: Blob) -> Result<(), ServerFailure> {
    let Some(key) = lock(link, id).await? else { return Err(missing(link, id).await?) };
    let sql = "SELECT reason FROM quarantine WHERE session = $1";
    if let Some(row) = pool::query(&link.client, sql, &[&id.as_str()]).await?.first() {
        return Err(Error::Quarantined { session: id.clone(), reason: row.try_get(0)? }.into());
    }
    let hash = blob.hash.as_bytes().as_slice();
    let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
    link.query(&link.statements.guard_blobs, &[&BLOBS]).await?;
    link.put(
        &link.statements.put_blobs,
        1,
        &[&[hash].as_slice(), &[size].as_slice(), &[blob.packed.as_slice()].as_slice()],
    )
    .await?;
    link.put(&link.statements.use_blobs, 1, &[&[key].as_slice(), &[hash].as_slice()]).await
}

async fn collect(link: &WriterConnection) -> Result<Collected, ServerFailure> {
    // Whoever names a blob holds this lock with others: nothing that is about to be used is collected.
    pool::query(&link.client, "SELECT pg_advisory_xact_lock($1)", &[&BLOBS]).await?;
    let sql = "WITH gone AS (
                 DELETE FROM blob b WHERE NOT EXISTS (SELECT FROM blob_use u WHERE u.hash = b.hash)
                 RETURNING octet_length(b.data) AS bytes
               ) SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone";
    let rows = pool::query(&link.client, sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(Collected::default()) };
    Ok(Collected { blobs: count(row, 0)?, bytes: count(row, 1)? })
}

async fn set_aside(link: &WriterConnection, aside: &SetAside) -> Result<(), ServerFailure> {
    if lock(link, &aside.session).await?.is_none() {
        return Err(missing(link, &aside.session).await?);
    }
    let sql = "INSERT INTO quarantine (session, time, reason) VALUES ($1, $2, $3)
               ON CONFLICT (session) DO UPDATE SET time = excluded.time, reason = excluded.reason";
    let reason = super::rows::plain(&aside.reason);
    pool::query(&link.client, sql, &[&aside.session.as_str(), &aside.time, &reason]).await?;
    Ok(())
}

pub(super) async fn put_audit(link: &WriterConnection, audit: &Audit) -> Result<(), ServerFailure> {
    let sql = "INSERT INTO audit (time, action, detail) VALUES ($1, $2, $3)";
    pool::query(&link.client, sql, &[&audit.time, &audit.action, &audit.detail.to_string()]).await?;
    Ok(())
}
