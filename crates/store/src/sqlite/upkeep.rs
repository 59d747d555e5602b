//! Upkeep on SQLite: the primitives that the shared part asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_model::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::writer::Job;
use super::{SqliteEngine, copy, instance_rows, schema, space, stored_session, whole_session, write};
use crate::Error;
use crate::payload::Blob;
use crate::upkeep::audit::Audit;
use crate::upkeep::backup::RestoredSession;
use crate::upkeep::blob::Collected;
use crate::upkeep::disk::MeasuredSizes;
use crate::upkeep::instance_rows::InstanceRows;
use crate::upkeep::rebuild::RebuiltRows;
use crate::upkeep::set_aside::SetAside;
use crate::upkeep::stored_session::{KeyedId, StoredSession};
use crate::upkeep::trash::{FreeSpace, Purge, Tombstone};

/// How long free pages are given back at once. What is left is used again, or given back the next time: in a file of
/// gigabytes, finding the last page among the free ones takes SQLite long.
const LONGEST_SHRINK: Duration = Duration::from_secs(5);

impl SqliteEngine {
    /// Work of the writer outside transactions.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, result) = Job::alone(work);
        self.send(job)?;
        result.await.map_err(|_| Error::Closed)?
    }

    pub(crate) async fn stored(&self, id: &SessionId) -> Result<Option<StoredSession>, Error> {
        let id = id.clone();
        self.read(move |connection| stored_session::stored(connection, &id)).await
    }

    pub(crate) async fn ids(&self, after: Option<i64>, limit: usize) -> Result<Vec<KeyedId>, Error> {
        self.read(move |connection| ids(connection, after, limit)).await
    }

    /// Sessions with work left, or with somebody to be asked, wherever they are.
    pub(crate) async fn left_open(&self) -> Result<Vec<SessionId>, Error> {
        self.read(|connection| {
            let sql = "SELECT id FROM session WHERE open = 1
                       OR key IN (SELECT session FROM request) OR key IN (SELECT session FROM inbox)";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| stored_session::text(row, 0))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(SessionId::new).collect())
        })
        .await
    }

    pub(crate) async fn replace_rows(&self, rebuilt: RebuiltRows) -> Result<bool, Error> {
        self.write(move |connection| whole_session::replace_rows(connection, &rebuilt)).await
    }

    pub(crate) async fn put_blob(&self, id: &SessionId, blob: Blob) -> Result<(), Error> {
        let id = id.clone();
        let put = move |connection: &Connection| {
            let Some(key) = key_of(connection, &id)? else {
                write::refuse_purged(connection, &id)?;
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

    pub(crate) async fn purge_session(&self, purge: Purge) -> Result<bool, Error> {
        let owner = self.owner.clone();
        self.write(move |connection| whole_session::purge_session(connection, &purge, &owner)).await
    }

    pub(crate) async fn is_purged(&self, id: &SessionId) -> Result<bool, Error> {
        let id = id.clone();
        let purged = move |connection: &Connection| match write::refuse_purged(connection, &id) {
            Ok(()) => Ok(false),
            Err(Error::Purged(_)) => Ok(true),
            Err(error) => Err(error),
        };
        self.read(purged).await
    }

    pub(crate) async fn tombstones(&self) -> Result<Vec<Tombstone>, Error> {
        self.read(tombstones).await
    }

    pub(crate) async fn trashed_since(&self, since: Millis) -> Result<Vec<SessionId>, Error> {
        let trashed = move |connection: &Connection| {
            // A time that is no number is greater than all numbers.
            let sql = "SELECT id FROM session WHERE trashed <= ?1 OR (?2 AND trashed IS NOT NULL)
                       ORDER BY trashed, key";
            let mut statement = connection.prepare_cached(sql)?;
            let all = since == Millis::MAX;
            let rows = statement.query_map(params![since, all], |row| stored_session::text(row, 0))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(SessionId::new).collect())
        };
        self.read(trashed).await
    }

    pub(crate) async fn shrink(&self) -> Result<FreeSpace, Error> {
        let begun = Instant::now();
        let mut returned = 0;
        loop {
            let piece = self.alone(|connection| space::shrink(connection)).await?;
            returned += piece.returned;
            if piece.returned == 0 || begun.elapsed() > LONGEST_SHRINK {
                return Ok(FreeSpace { returned, ..piece });
            }
        }
    }

    pub(crate) async fn measure(&self) -> Result<MeasuredSizes, Error> {
        let path = self.path.clone();
        let size = |end: &str| {
            let file = format!("{}{end}", path.display());
            std::fs::metadata(file).map_or(0, |file| file.len())
        };
        let (file, log) = (size(""), size("-wal"));
        let measured = self.read(space::measure).await?;
        Ok(MeasuredSizes { file, log, ..measured })
    }

    pub(crate) async fn set_aside(&self, aside: SetAside) -> Result<(), Error> {
        let put = move |connection: &Connection| {
            if stored_session::key(connection, &aside.session)?.is_none() {
                write::refuse_purged(connection, &aside.session)?;
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

    pub(crate) async fn instance_rows(&self) -> Result<InstanceRows, Error> {
        self.read(instance_rows::instance_rows).await
    }

    pub(crate) async fn swap_instance_rows(
        &self,
        before: InstanceRows,
        after: InstanceRows,
    ) -> Result<bool, Error> {
        self.write(move |connection| instance_rows::swap(connection, &before, &after)).await
    }

    /// Copies the database into a new file while others write. True: this engine's backup is a copy of its file.
    pub(crate) async fn back_up(&self, target: &Path) -> Result<bool, Error> {
        let (readers, target) = (Arc::clone(&self.readers), target.to_owned());
        let back_up = move || {
            // A connection of its own, because a copy takes long and must not be in a transaction.
            let connection = schema::open_reader(readers.settings())?;
            connection.execute_batch("PRAGMA query_only = OFF")?;
            copy::copy(&connection, &target)
        };
        tokio::task::spawn_blocking(back_up).await.map_err(|_| Error::Closed)??;
        Ok(true)
    }

    pub(crate) async fn load_session(&self, loaded: RestoredSession) -> Result<(), Error> {
        self.write(move |connection| whole_session::load(connection, &loaded)).await
    }

    pub(crate) async fn put_audit(&self, audit: Audit) -> Result<(), Error> {
        self.write(move |connection| put_audit(connection, &audit)).await
    }

    pub(crate) async fn erase(&self) -> Result<bool, Error> {
        self.alone(|connection| space::erase(connection)).await
    }

    pub(crate) fn backups(&self) -> Vec<PathBuf> {
        let Some(folder) = self.path.parent() else { return Vec::new() };
        let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
        let is_backup = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            name.starts_with("everturn.v") && name.contains(".backup.")
        };
        let mut found: Vec<PathBuf> = files.flatten().map(|file| file.path()).filter(is_backup).collect();
        found.sort();
        found
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

fn ids(connection: &Connection, after: Option<i64>, limit: usize) -> Result<Vec<KeyedId>, Error> {
    let sql = "SELECT key, id FROM session WHERE ?1 IS NULL OR key > ?1 ORDER BY key LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(stored_session::keyed(connection, row)?);
    }
    // A log whose session's row is gone counts too: that is what a check has to find.
    ids.extend(stored_session::without_row(connection)?.into_iter().filter(|lost| Some(lost.key) > after));
    ids.sort_unstable_by_key(|session| session.key);
    ids.truncate(limit);
    Ok(ids)
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

pub(super) fn tombstones(connection: &Connection) -> Result<Vec<Tombstone>, Error> {
    let mut statement = connection.prepare_cached("SELECT session, time FROM tombstone ORDER BY session")?;
    let rows = statement.query_map([], |row| {
        Ok(Tombstone { session: SessionId::new(stored_session::text(row, 0)?), time: row.get(1)? })
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
            session: SessionId::new(stored_session::text(row, 0)?),
            time: row.get(1)?,
            reason: stored_session::text(row, 2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn take_back(connection: &Connection, id: &SessionId) -> Result<bool, Error> {
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
        let detail = stored_session::text(row, 2)?;
        // What cannot be read is shown as it is.
        let detail = serde_json::from_str(&detail).unwrap_or(serde_json::Value::String(detail));
        Ok(Audit { time: row.get(0)?, action: stored_session::text(row, 1)?, detail })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
