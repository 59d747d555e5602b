//! Upkeep on SQLite: the primitives that the shared part asks for.

use everturn_model::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;

use super::writer::Job;
use super::{Engine, kept, write};
use crate::Error;
use crate::owner::Owner;
use crate::payload::Blob;
use crate::upkeep::aside::SetAside;
use crate::upkeep::audit::Audit;
use crate::upkeep::blob::Collected;
use crate::upkeep::disk::{BlobUse, Large, Measured};
use crate::upkeep::kept::Kept;
use crate::upkeep::rebuild::Anew;
use crate::upkeep::trash::{Burial, Space, Tombstone};

impl Engine {
    /// Work of the writer outside transactions.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, result) = Job::alone(work);
        self.send(job)?;
        result.await.map_err(|_| Error::Closed)?
    }

    pub(crate) async fn kept(&self, id: &SessionId) -> Result<Option<Kept>, Error> {
        let id = id.clone();
        self.read(move |connection| kept::kept(connection, &id)).await
    }

    pub(crate) async fn ids(&self, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        let after = after.cloned();
        self.read(move |connection| ids(connection, after.as_ref(), limit)).await
    }

    pub(crate) async fn put_anew(&self, anew: Anew) -> Result<bool, Error> {
        self.write(move |connection| put_anew(connection, &anew)).await
    }

    pub(crate) async fn put_blob(&self, id: &SessionId, blob: Blob) -> Result<(), Error> {
        let id = id.clone();
        let put = move |connection: &Connection| {
            let Some(key) = key_of(connection, &id)? else {
                write::refuse_buried(connection, &id)?;
                return Err(Error::NoSession(id));
            };
            write::refuse_quarantined(connection, &id)?;
            write::put_blobs(connection, key, &[blob])
        };
        self.write(put).await
    }

    pub(crate) async fn collect(&self) -> Result<Collected, Error> {
        self.write(collect).await
    }

    pub(crate) async fn bury(&self, burial: Burial) -> Result<bool, Error> {
        let owner = self.owner.clone();
        self.write(move |connection| bury(connection, &burial, &owner)).await
    }

    pub(crate) async fn is_buried(&self, id: &SessionId) -> Result<bool, Error> {
        let id = id.clone();
        let buried = move |connection: &Connection| match write::refuse_buried(connection, &id) {
            Ok(()) => Ok(false),
            Err(Error::Purged(_)) => Ok(true),
            Err(error) => Err(error),
        };
        self.read(buried).await
    }

    pub(crate) async fn tombstones(&self) -> Result<Vec<Tombstone>, Error> {
        self.read(tombstones).await
    }

    pub(crate) async fn trashed_since(&self, since: Millis) -> Result<Vec<SessionId>, Error> {
        let trashed = move |connection: &Connection| {
            let sql = "SELECT id FROM session WHERE trashed <= ?1 ORDER BY trashed, key";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([since], |row| kept::text(row, 0))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(SessionId::new).collect())
        };
        self.read(trashed).await
    }

    pub(crate) async fn shrink(&self) -> Result<Space, Error> {
        self.alone(|connection| shrink(connection)).await
    }

    pub(crate) async fn measure(&self) -> Result<Measured, Error> {
        let path = self.path.clone();
        let size = |end: &str| {
            let file = format!("{}{end}", path.display());
            std::fs::metadata(file).map_or(0, |file| file.len())
        };
        let (file, log) = (size(""), size("-wal"));
        let measured = self.read(measure).await?;
        Ok(Measured { file, log, ..measured })
    }

    pub(crate) async fn set_aside(&self, aside: SetAside) -> Result<(), Error> {
        let put = move |connection: &Connection| {
            if kept::key(connection, &aside.session)?.is_none() {
                write::refuse_buried(connection, &aside.session)?;
                return Err(Error::NoSession(aside.session));
            }
            put_aside(connection, &aside)
        };
        self.write(put).await
    }

    pub(crate) async fn set_aside_list(&self) -> Result<Vec<SetAside>, Error> {
        self.read(set_aside_list).await
    }

    pub(crate) async fn take_back(&self, id: &SessionId) -> Result<bool, Error> {
        let id = id.clone();
        self.write(move |connection| take_back(connection, &id)).await
    }

    pub(crate) async fn audits(&self, limit: usize) -> Result<Vec<Audit>, Error> {
        self.read(move |connection| audits(connection, limit)).await
    }

    /// The version of the fold that made the rows, and the time.
    pub(crate) async fn fold_version(&self) -> Result<(i64, Millis), Error> {
        let read = |connection: &Connection| {
            let sql = "SELECT (SELECT value FROM meta WHERE name = 'fold'), unixepoch() * 1000";
            let (found, now) = connection
                .query_row(sql, [], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?)))?;
            Ok((found.unwrap_or(0), now))
        };
        self.read(read).await
    }

    pub(crate) async fn note_fold(&self, version: i64, audit: Audit) -> Result<(), Error> {
        let note = move |connection: &Connection| {
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('fold', ?1)", [version])?;
            put_audit(connection, &audit)
        };
        self.write(note).await
    }
}

fn key_of(connection: &Connection, id: &SessionId) -> Result<Option<i64>, Error> {
    let sql = "SELECT key FROM session WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

fn ids(connection: &Connection, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
    let sql = "SELECT id FROM session WHERE ?1 IS NULL OR id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let after = after.map(SessionId::as_str);
    let rows = statement
        .query_map(params![after, i64::try_from(limit).unwrap_or(i64::MAX)], |row| kept::text(row, 0))?;
    let mut ids = rows.collect::<Result<Vec<_>, _>>()?;
    // A log whose session's row is gone counts too: that is what a check has to find.
    let lost = kept::lost(connection)?.into_iter().map(|(_, id)| id);
    ids.extend(lost.filter(|id| after.is_none_or(|after| id.as_str() > after)));
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(limit);
    Ok(ids.into_iter().map(SessionId::new).collect())
}

/// Writes a session's rows anew, if its log still ends where it did.
pub(super) fn put_anew(connection: &Connection, anew: &Anew) -> Result<bool, Error> {
    let Some(key) = kept::key(connection, &anew.id)? else { return Ok(false) };
    let last: Option<u64> = connection
        .prepare_cached("SELECT max(seq) FROM event WHERE session = ?1")?
        .query_row([key], |row| row.get(0))?;
    if last != Some(anew.last) {
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
        .execute(params![key, anew.id.as_str()])?;
    clear_rows(connection, key)?;
    let mut change =
        connection.prepare_cached("UPDATE event SET type = ?3, data = ?4 WHERE session = ?1 AND seq = ?2")?;
    for row in &anew.log {
        change.execute(params![key, row.seq, row.name, row.data])?;
    }
    for hash in &anew.unused {
        connection
            .prepare_cached("DELETE FROM blob_use WHERE session = ?1 AND hash = ?2")?
            .execute(params![key, hash.as_bytes()])?;
    }
    for hash in &anew.uses {
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob_use VALUES (?1, ?2)")?
            .execute(params![key, hash.as_bytes()])?;
    }
    let all = anew.blobs.iter().chain(&anew.rows.blobs);
    for blob in all {
        // What is there under this name may be damaged.
        connection
            .prepare_cached("DELETE FROM blob WHERE hash = ?1 AND (size != ?2 OR data != ?3)")?
            .execute(params![blob.hash.as_bytes(), blob.size, blob.packed])?;
    }
    write::put_blobs(connection, key, &anew.blobs)?;
    write::put_session(connection, key, &anew.session, None)?;
    write::put_rows(connection, key, &anew.rows)?;
    let mut piece = connection
        .prepare_cached("UPDATE stream SET text = ?4 WHERE session = ?1 AND part = ?2 AND start = ?3")?;
    for row in &anew.streams {
        piece.execute(params![key, row.part, row.start, row.text])?;
    }
    if anew.lift {
        take_back(connection, &anew.id)?;
    }
    if let Some(audit) = &anew.audit {
        put_audit(connection, audit)?;
    }
    Ok(true)
}

/// Removes a session's projections; its log, its streams and its blobs stay.
fn clear_rows(connection: &Connection, key: i64) -> Result<(), Error> {
    for sql in [
        "DELETE FROM entry WHERE session = ?1",
        "DELETE FROM part WHERE session = ?1",
        "DELETE FROM inbox WHERE session = ?1",
        "DELETE FROM request WHERE session = ?1",
        "DELETE FROM todo WHERE session = ?1",
        "DELETE FROM search WHERE rowid IN (SELECT key FROM text WHERE session = ?1)",
        "DELETE FROM text WHERE session = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    Ok(())
}

fn collect(connection: &Connection) -> Result<Collected, Error> {
    let unused = "FROM blob WHERE NOT EXISTS (SELECT 1 FROM blob_use u WHERE u.hash = blob.hash)";
    let sizes = format!("SELECT count(*), ifnull(sum(octet_length(data)), 0) {unused}");
    let collected =
        connection.query_row(&sizes, [], |row| Ok(Collected { blobs: row.get(0)?, bytes: row.get(1)? }))?;
    if collected.blobs > 0 {
        connection.execute(&format!("DELETE {unused}"), [])?;
    }
    Ok(collected)
}

fn bury(connection: &Connection, burial: &Burial, owner: &Owner) -> Result<bool, Error> {
    let id = &burial.session;
    let found = connection
        .prepare_cached("SELECT owner, trashed FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    let (holder, trashed) = found.unwrap_or_default();
    let Some(key) = kept::key(connection, id)? else { return Ok(false) };
    if burial.trashed.is_some_and(|since| trashed.is_none_or(|trashed| trashed > since)) {
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
    take_back(connection, id)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO tombstone VALUES (?1, ?2)")?
        .execute(params![id.as_str(), burial.time])?;
    put_audit(connection, &Audit::new(burial.time, "purge", json!({ "session": id, "events": events })))?;
    Ok(true)
}

pub(super) fn tombstones(connection: &Connection) -> Result<Vec<Tombstone>, Error> {
    let mut statement = connection.prepare_cached("SELECT session, time FROM tombstone ORDER BY session")?;
    let rows = statement.query_map([], |row| {
        Ok(Tombstone { session: SessionId::new(kept::text(row, 0)?), time: row.get(1)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn put_aside(connection: &Connection, aside: &SetAside) -> Result<(), Error> {
    connection.prepare_cached("INSERT OR REPLACE INTO quarantine VALUES (?1, ?2, ?3)")?.execute(params![
        aside.session.as_str(),
        aside.time,
        aside.reason
    ])?;
    Ok(())
}

pub(super) fn set_aside_list(connection: &Connection) -> Result<Vec<SetAside>, Error> {
    let sql = "SELECT session, time, reason FROM quarantine ORDER BY session";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(SetAside {
            session: SessionId::new(kept::text(row, 0)?),
            time: row.get(1)?,
            reason: kept::text(row, 2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn take_back(connection: &Connection, id: &SessionId) -> Result<bool, Error> {
    let removed =
        connection.prepare_cached("DELETE FROM quarantine WHERE session = ?1")?.execute([id.as_str()])?;
    Ok(removed > 0)
}

pub(super) fn put_audit(connection: &Connection, audit: &Audit) -> Result<(), Error> {
    connection
        .prepare_cached("INSERT INTO audit (time, action, detail) VALUES (?1, ?2, ?3)")?
        .execute(params![audit.time, audit.action, audit.detail.to_string()])?;
    Ok(())
}

pub(super) fn audits(connection: &Connection, limit: usize) -> Result<Vec<Audit>, Error> {
    let sql = "SELECT time, action, detail FROM audit ORDER BY key DESC LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let detail = kept::text(row, 2)?;
        // What cannot be read is shown as it is.
        let detail = serde_json::from_str(&detail).unwrap_or(serde_json::Value::String(detail));
        Ok(Audit { time: row.get(0)?, action: kept::text(row, 1)?, detail })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Gives free pages back, where the file was made so that this is possible.
fn shrink(connection: &Connection) -> Result<Space, Error> {
    let before = free(connection)?;
    // Does nothing in a file that was made without it.
    connection.execute_batch("PRAGMA incremental_vacuum")?;
    let after = free(connection)?;
    Ok(Space { returned: before.saturating_sub(after), free: after })
}

/// Bytes in pages that hold nothing.
fn free(connection: &Connection) -> Result<u64, Error> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    Ok(pragma("freelist_count")? * pragma("page_size")?)
}

fn measure(connection: &Connection) -> Result<Measured, Error> {
    let blobs = connection.query_row(
        "SELECT count(*), ifnull(sum(size), 0), ifnull(sum(octet_length(data)), 0) FROM blob",
        [],
        |row| Ok(BlobUse { count: row.get(0)?, size: row.get(1)?, packed: row.get(2)? }),
    )?;
    let mut statement = connection.prepare_cached(
        "WITH log AS (SELECT session, sum(octet_length(data)) AS bytes FROM event GROUP BY session),
         user AS (SELECT hash, count(*) AS users FROM blob_use GROUP BY hash),
         share AS (
           SELECT u.session, sum(octet_length(b.data) / user.users) AS bytes FROM blob_use u
           JOIN user ON user.hash = u.hash JOIN blob b ON b.hash = u.hash GROUP BY u.session
         )
         SELECT s.id, s.title, s.trashed IS NOT NULL, ifnull(log.bytes, 0) + ifnull(share.bytes, 0)
         FROM session s LEFT JOIN log ON log.session = s.key LEFT JOIN share ON share.session = s.key",
    )?;
    let rows = statement.query_map([], |row| {
        let (session, title) = (SessionId::new(kept::text(row, 0)?), kept::text(row, 1)?);
        Ok((Large { session, title, bytes: row.get(3)? }, row.get(2)?))
    })?;
    let sessions = rows.collect::<Result<_, _>>()?;
    Ok(Measured { free: free(connection)?, blobs, sessions, ..Measured::default() })
}
