//! A whole session: replacing its rows, bringing it in from elsewhere, or deleting all of it.

use std::collections::BTreeSet;

use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::pool::{self, StatementValues};
use super::reader::count;
use super::rows::{BLOBS, GroupBatch};
use super::upkeep::{lock, put_audit};
use super::{lease, stored_session};
use crate::Error;
use crate::payload::Hash;
use crate::row::{Rows, SessionRow, SpentSums};
use crate::upkeep::backup::RestoredSession;
use crate::upkeep::rebuild::RebuiltRows;
use crate::upkeep::stored_session::digest;
use crate::upkeep::trash::{Purge, PurgedPlace};

/// Replaces a session's rows, if its log still ends where it did.
pub(super) async fn replace_rows(
    link: &WriterConnection,
    rebuilt: RebuiltRows,
) -> Result<bool, ServerFailure> {
    let Some(key) = lock(link, &rebuilt.id).await? else { return Ok(false) };
    let own: StatementValues<'_> = &[&key];
    let last = pool::query(&link.client, "SELECT max(seq) FROM event WHERE session = $1", own).await?;
    let last: Option<i64> = last.first().map(|row| row.try_get(0)).transpose()?.flatten();
    if last != i64::try_from(rebuilt.last).ok()
        || digest(&stored_session::log(&link.client, key).await?) != rebuilt.digest
    {
        return Ok(false);
    }
    // Before anything names a blob: a collection must not take it away meanwhile.
    link.query(&link.statements.guard_blobs, &[&BLOBS]).await?;
    clear_rows(link, key).await?;
    let change = "UPDATE event SET type = $3, data = $4 WHERE session = $1 AND seq = $2";
    for row in &rebuilt.log {
        let seq = i64::try_from(row.seq).unwrap_or(i64::MAX);
        pool::query(&link.client, change, &[&key, &seq, &row.name, &row.data.as_bytes()]).await?;
    }
    let hashes = |hashes: &BTreeSet<Hash>| -> Vec<Vec<u8>> {
        hashes.iter().map(|hash| hash.as_bytes().to_vec()).collect()
    };
    let unused = "DELETE FROM blob_use WHERE session = $1 AND hash = ANY($2)";
    pool::query(&link.client, unused, &[&key, &hashes(&rebuilt.unused)]).await?;
    let used = "INSERT INTO blob_use (session, hash) SELECT $1, hash FROM unnest($2::bytea[]) u (hash)
                ON CONFLICT DO NOTHING";
    pool::query(&link.client, used, &[&key, &hashes(&rebuilt.uses)]).await?;
    for blob in rebuilt.blobs.iter().chain(&rebuilt.rows.blobs) {
        // What is there under this name may be damaged.
        let wrong = "DELETE FROM blob WHERE hash = $1 AND (size <> $2 OR data <> $3)";
        let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
        let hash = blob.hash.as_bytes().as_slice();
        pool::query(&link.client, wrong, &[&hash, &size, &blob.packed]).await?;
    }
    let mut rows = rebuilt.rows;
    rows.blobs.extend(rebuilt.blobs);
    let mut batch = GroupBatch::default();
    batch.add(key, rebuilt.session, Vec::new(), rows);
    batch.write(link).await?;
    let piece = "UPDATE stream SET text = $4 WHERE session = $1 AND part = $2 AND start = $3";
    for row in &rebuilt.streams {
        let start = i64::try_from(row.start).unwrap_or(i64::MAX);
        pool::query(&link.client, piece, &[&key, &row.part, &start, &row.text.as_bytes()]).await?;
    }
    if rebuilt.lift {
        let sql = "DELETE FROM quarantine WHERE session = $1";
        pool::query(&link.client, sql, &[&rebuilt.id.as_str()]).await?;
    }
    if let Some(audit) = &rebuilt.audit {
        put_audit(link, audit).await?;
    }
    Ok(true)
}

/// Removes a session's projections; its log, its streams and its blobs stay.
async fn clear_rows(link: &WriterConnection, key: i64) -> Result<(), ServerFailure> {
    for table in ["entry", "part", "inbox", "request", "todo", "bill", "unbilled", "text"] {
        pool::query(&link.client, &format!("DELETE FROM {table} WHERE session = $1"), &[&key]).await?;
    }
    Ok(())
}

/// Deletes a session for good, unless a living process runs it.
pub(super) async fn purge_session(
    link: &WriterConnection,
    purge: &Purge,
    me: &lease::ThisProcess,
) -> Result<bool, ServerFailure> {
    let id = &purge.session;
    let Some(key) = lock(link, id).await? else { return Ok(false) };
    let sql = "SELECT trashed, project, directory, changed::text::bigint, created, updated FROM session
               WHERE key = $1";
    let rows = pool::query(&link.client, sql, &[&key]).await?;
    let trashed: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
    let place = rows.first().map(|row| {
        let stamp = trashed.is_some().then(|| count(row, 3)).transpose()?;
        let (project, directory) = (row.try_get(1)?, row.try_get(2)?);
        let (created, updated) = (row.try_get(4)?, row.try_get(5)?);
        Ok::<_, ServerFailure>(PurgedPlace { project, directory, created, updated, trashed: stamp })
    });
    let place = place.transpose()?;
    if purge.trashed.is_some_and(|since| trashed.is_none_or(|trashed| trashed > since)) {
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
    pool::query(&link.client, tombstone, &[&id.as_str(), &purge.time]).await?;
    put_audit(link, &purge.audit(events, place)).await?;
    Ok(true)
}

/// Writes a session that comes from elsewhere: its log, and its row as far as it is known. The other rows are made of
/// the log afterwards.
pub(super) async fn load(link: &WriterConnection, loaded: RestoredSession) -> Result<(), ServerFailure> {
    let id = loaded.id.as_str();
    let purged = !link.query(&link.statements.purged, &[&[id].as_slice()]).await?.is_empty();
    if purged {
        return Err(Error::Purged(loaded.id).into());
    }
    if lock(link, &loaded.id).await?.is_some() {
        return Err(Error::Exists(loaded.id).into());
    }
    let keys = link.query(&link.statements.keys, &[&1i64]).await?;
    let Some(key) = keys.first().map(|row| row.try_get::<_, i64>(0)).transpose()? else {
        return Err(Error::Server("no key for a session".to_owned()).into());
    };
    let session = loaded.session.unwrap_or_else(|| nameless(id));
    let mut batch = GroupBatch::default();
    batch.add(key, session, loaded.log, Rows::default());
    batch.write(link).await?;
    // A later ownership than any before: leases from then must not hold again.
    let sql = "UPDATE session SET epoch = (SELECT coalesce(max(epoch), 0) + 1 FROM event WHERE session = $1)
               WHERE key = $1";
    pool::query(&link.client, sql, &[&key]).await?;
    Ok(())
}

/// The row of a session of which only the log is left.
fn nameless(id: &str) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        seq: 0,
        project: String::new(),
        directory: String::new(),
        parent: None,
        title: String::new(),
        folded: String::new(),
        created: 0,
        updated: 0,
        archived: None,
        trashed: None,
        open: false,
        spent: SpentSums::default(),
        data: String::new(),
    }
}
