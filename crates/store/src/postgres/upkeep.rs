//! Upkeep on PostgreSQL: the primitives that the shared part asks for.
//!
//! What changes a session here holds the lock of its row, as appends do.

use everturn_model::{Millis, SessionId};
use serde_json::json;
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::Link;
use super::pool::{self, Values};
use super::reader::count;
use super::rows::{BLOBS, Batch};
use super::{Engine, kept, lease};
use crate::Error;
use crate::payload::Blob;
use crate::upkeep::aside::SetAside;
use crate::upkeep::audit::Audit;
use crate::upkeep::blob::Collected;
use crate::upkeep::disk::{BlobUse, Large, Measured};
use crate::upkeep::kept::Kept;
use crate::upkeep::rebuild::Anew;
use crate::upkeep::trash::{Burial, Space, Tombstone};

impl Engine {
    /// Begins a transaction over a connection of its own: upkeep is rare and may take long.
    pub(super) async fn begin(&self) -> Result<Link, Error> {
        self.refuse_reader()?;
        let named = |failure: Failure| failure.into_error(self.address.name());
        let link = Link::make(&self.address).await.map_err(named)?;
        link.run("BEGIN").await.map_err(named)?;
        Ok(link)
    }

    /// Ends it: with a commit if all went well.
    pub(super) async fn finish<T>(&self, link: Link, outcome: Result<T, Failure>) -> Result<T, Error> {
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

    pub(crate) async fn kept(&self, id: &SessionId) -> Result<Option<Kept>, Error> {
        read!(self, client => kept::kept(&client, id))
    }

    pub(crate) async fn ids(&self, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        let sql = "SELECT id FROM session WHERE $1::text IS NULL OR id > $1 ORDER BY id LIMIT $2";
        let (after, limit) = (after.map(SessionId::as_str), i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = read!(self, client => pool::query(&client, sql, &[&after, &limit]))?;
        self.each(&rows, |row| Ok(SessionId::new(row.try_get::<_, String>(0)?)))
    }

    pub(crate) async fn put_anew(&self, anew: Anew) -> Result<bool, Error> {
        let link = self.begin().await?;
        let outcome = put_anew(&link, anew).await;
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

    pub(crate) async fn bury(&self, burial: Burial) -> Result<bool, Error> {
        let link = self.begin().await?;
        let outcome = bury(&link, &burial, &self.me).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn is_buried(&self, id: &SessionId) -> Result<bool, Error> {
        let sql = "SELECT FROM tombstone WHERE session = $1";
        Ok(!read!(self, client => pool::query(&client, sql, &[&id.as_str()]))?.is_empty())
    }

    pub(crate) async fn tombstones(&self) -> Result<Vec<Tombstone>, Error> {
        let sql = "SELECT session, time FROM tombstone ORDER BY session";
        let rows = read!(self, client => pool::query(&client, sql, &[]))?;
        self.each(&rows, |row| {
            Ok(Tombstone { session: SessionId::new(row.try_get::<_, String>(0)?), time: row.try_get(1)? })
        })
    }

    pub(crate) async fn trashed_since(&self, since: Millis) -> Result<Vec<SessionId>, Error> {
        let sql = "SELECT id FROM session WHERE trashed <= $1 ORDER BY trashed, key";
        let rows = read!(self, client => pool::query(&client, sql, &[&since]))?;
        self.each(&rows, |row| Ok(SessionId::new(row.try_get::<_, String>(0)?)))
    }

    /// The server gives space back by itself.
    #[expect(clippy::unused_async, reason = "the engines have the same methods")]
    pub(crate) async fn shrink(&self) -> Result<Space, Error> {
        Ok(Space::default())
    }

    pub(crate) async fn measure(&self) -> Result<Measured, Error> {
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
            Ok((Large { session, title: row.try_get(1)?, bytes: count(row, 2)? }, row.try_get(3)?))
        })?;
        let measured = self.each(&totals, |row| {
            let blobs = BlobUse { count: count(row, 1)?, size: count(row, 2)?, packed: count(row, 3)? };
            Ok(Measured { file: count(row, 0)?, blobs, ..Measured::default() })
        })?;
        let measured = measured.into_iter().next().unwrap_or_default();
        Ok(Measured { sessions, ..measured })
    }

    pub(crate) async fn set_aside(&self, aside: SetAside) -> Result<(), Error> {
        let link = self.begin().await?;
        let outcome = set_aside(&link, &aside).await;
        self.finish(link, outcome).await
    }

    pub(crate) async fn set_aside_list(&self) -> Result<Vec<SetAside>, Error> {
        let sql = "SELECT session, time, reason FROM quarantine ORDER BY session";
        let rows = read!(self, client => pool::query(&client, sql, &[]))?;
        self.each(&rows, |row| {
            let session = SessionId::new(row.try_get::<_, String>(0)?);
            Ok(SetAside { session, time: row.try_get(1)?, reason: row.try_get(2)? })
        })
    }

    pub(crate) async fn take_back(&self, id: &SessionId) -> Result<bool, Error> {
        let sql = "DELETE FROM quarantine WHERE session = $1 RETURNING session";
        Ok(!write!(self, client => pool::query(&client, sql, &[&id.as_str()]))?.is_empty())
    }

    pub(crate) async fn audits(&self, limit: usize) -> Result<Vec<Audit>, Error> {
        let sql = "SELECT time, action, detail FROM audit ORDER BY key DESC LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = read!(self, client => pool::query(&client, sql, &[&limit]))?;
        self.each(&rows, |row| {
            let detail: String = row.try_get(2)?;
            // What cannot be read is shown as it is.
            let detail = serde_json::from_str(&detail).unwrap_or(serde_json::Value::String(detail));
            Ok(Audit { time: row.try_get(0)?, action: row.try_get(1)?, detail })
        })
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

    fn each<T>(&self, rows: &[Row], of: impl FnMut(&Row) -> Result<T, Failure>) -> Result<Vec<T>, Error> {
        let all: Result<Vec<T>, Failure> = rows.iter().map(of).collect();
        all.map_err(|failure| failure.into_error(self.address.name()))
    }
}

/// Locks a session's row; none when there is no such session.
async fn lock(link: &Link, id: &SessionId) -> Result<Option<i64>, Failure> {
    let sql = "SELECT key FROM session WHERE id = $1 FOR UPDATE";
    let rows = pool::query(&link.client, sql, &[&id.as_str()]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Why a session that has no row has none.
async fn missing(link: &Link, id: &SessionId) -> Result<Failure, Failure> {
    let sql = "SELECT FROM tombstone WHERE session = $1";
    let buried = !pool::query(&link.client, sql, &[&id.as_str()]).await?.is_empty();
    let error = if buried { Error::Purged(id.clone()) } else { Error::NoSession(id.clone()) };
    Ok(error.into())
}

/// Writes a session's rows anew, if its log still ends where it did.
async fn put_anew(link: &Link, anew: Anew) -> Result<bool, Failure> {
    let Some(key) = lock(link, &anew.id).await? else { return Ok(false) };
    let own: Values<'_> = &[&key];
    let last = pool::query(&link.client, "SELECT max(seq) FROM event WHERE session = $1", own).await?;
    let last: Option<i64> = last.first().map(|row| row.try_get(0)).transpose()?.flatten();
    if last != i64::try_from(anew.last).ok() {
        return Ok(false);
    }
    clear_rows(link, key).await?;
    let change = "UPDATE event SET type = $3, data = $4 WHERE session = $1 AND seq = $2";
    for row in &anew.log {
        let seq = i64::try_from(row.seq).unwrap_or(i64::MAX);
        pool::query(&link.client, change, &[&key, &seq, &row.name, &row.data.as_bytes()]).await?;
    }
    let hashes = |hashes: &std::collections::BTreeSet<crate::payload::Hash>| -> Vec<Vec<u8>> {
        hashes.iter().map(|hash| hash.as_bytes().to_vec()).collect()
    };
    let unused = "DELETE FROM blob_use WHERE session = $1 AND hash = ANY($2)";
    pool::query(&link.client, unused, &[&key, &hashes(&anew.unused)]).await?;
    let used = "INSERT INTO blob_use (session, hash) SELECT $1, hash FROM unnest($2::bytea[]) u (hash)
                ON CONFLICT DO NOTHING";
    pool::query(&link.client, used, &[&key, &hashes(&anew.uses)]).await?;
    for blob in anew.blobs.iter().chain(&anew.rows.blobs) {
        // What is there under this name may be damaged.
        let wrong = "DELETE FROM blob WHERE hash = $1 AND (size <> $2 OR data <> $3)";
        let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
        let hash = blob.hash.as_bytes().as_slice();
        pool::query(&link.client, wrong, &[&hash, &size, &blob.packed]).await?;
    }
    let mut rows = anew.rows;
    rows.blobs.extend(anew.blobs);
    let mut batch = Batch::default();
    batch.add(key, anew.session, Vec::new(), rows);
    batch.write(link).await?;
    let piece = "UPDATE stream SET text = $4 WHERE session = $1 AND part = $2 AND start = $3";
    for row in &anew.streams {
        let start = i64::try_from(row.start).unwrap_or(i64::MAX);
        pool::query(&link.client, piece, &[&key, &row.part, &start, &row.text.as_bytes()]).await?;
    }
    if anew.lift {
        let sql = "DELETE FROM quarantine WHERE session = $1";
        pool::query(&link.client, sql, &[&anew.id.as_str()]).await?;
    }
    if let Some(audit) = &anew.audit {
        put_audit(link, audit).await?;
    }
    Ok(true)
}

/// Removes a session's projections; its log, its streams and its blobs stay.
async fn clear_rows(link: &Link, key: i64) -> Result<(), Failure> {
    for table in ["entry", "part", "inbox", "request", "todo", "text"] {
        pool::query(&link.client, &format!("DELETE FROM {table} WHERE session = $1"), &[&key]).await?;
    }
    Ok(())
}

async fn put_blob(link: &Link, id: &SessionId, blob: Blob) -> Result<(), Failure> {
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

async fn collect(link: &Link) -> Result<Collected, Failure> {
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

async fn bury(link: &Link, burial: &Burial, me: &lease::Me) -> Result<bool, Failure> {
    let id = &burial.session;
    let Some(key) = lock(link, id).await? else { return Ok(false) };
    let rows = pool::query(&link.client, "SELECT trashed FROM session WHERE key = $1", &[&key]).await?;
    let trashed: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
    if burial.trashed.is_some_and(|since| trashed.is_none_or(|trashed| trashed > since)) {
        return Ok(false);
    }
    if let Some(owner) = lease::living_owner(&link.client, id, me).await? {
        return Err(Error::Busy { session: id.clone(), owner }.into());
    }
    clear_rows(link, key).await?;
    let gone = "WITH gone AS (DELETE FROM event WHERE session = $1 RETURNING 1) SELECT count(*) FROM gone";
    let rows = pool::query(&link.client, gone, &[&key]).await?;
    let events = rows.first().map(|row| count(row, 0)).transpose()?.unwrap_or(0);
    for table in ["stream", "blob_use"] {
        pool::query(&link.client, &format!("DELETE FROM {table} WHERE session = $1"), &[&key]).await?;
    }
    pool::query(&link.client, "DELETE FROM session WHERE key = $1", &[&key]).await?;
    pool::query(&link.client, "DELETE FROM quarantine WHERE session = $1", &[&id.as_str()]).await?;
    let tombstone = "INSERT INTO tombstone (session, time) VALUES ($1, $2)
                     ON CONFLICT (session) DO UPDATE SET time = excluded.time";
    pool::query(&link.client, tombstone, &[&id.as_str(), &burial.time]).await?;
    put_audit(link, &Audit::new(burial.time, "purge", json!({ "session": id, "events": events }))).await?;
    Ok(true)
}

async fn set_aside(link: &Link, aside: &SetAside) -> Result<(), Failure> {
    if lock(link, &aside.session).await?.is_none() {
        return Err(missing(link, &aside.session).await?);
    }
    let sql = "INSERT INTO quarantine (session, time, reason) VALUES ($1, $2, $3)
               ON CONFLICT (session) DO UPDATE SET time = excluded.time, reason = excluded.reason";
    let reason = super::rows::plain(&aside.reason);
    pool::query(&link.client, sql, &[&aside.session.as_str(), &aside.time, &reason]).await?;
    Ok(())
}

pub(super) async fn put_audit(link: &Link, audit: &Audit) -> Result<(), Failure> {
    let sql = "INSERT INTO audit (time, action, detail) VALUES ($1, $2, $3)";
    pool::query(&link.client, sql, &[&audit.time, &audit.action, &audit.detail.to_string()]).await?;
    Ok(())
}
