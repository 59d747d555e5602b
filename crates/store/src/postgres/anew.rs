//! A session as a whole: its rows written anew, brought in from elsewhere, or all of it deleted.

use std::collections::BTreeSet;

use serde_json::json;

use super::failure::Failure;
use super::link::Link;
use super::pool::{self, Values};
use super::reader::count;
use super::rows::{BLOBS, Batch};
use super::upkeep::{lock, put_audit};
use super::{kept, lease};
use crate::Error;
use crate::payload::Hash;
use crate::row::{Rows, SessionRow, Spent};
use crate::upkeep::audit::Audit;
use crate::upkeep::backup::Loaded;
use crate::upkeep::kept::digest;
use crate::upkeep::rebuild::Anew;
use crate::upkeep::trash::Burial;

/// Writes a session's rows anew, if its log still ends where it did.
pub(super) async fn put_anew(link: &Link, anew: Anew) -> Result<bool, Failure> {
    let Some(key) = lock(link, &anew.id).await? else { return Ok(false) };
    let own: Values<'_> = &[&key];
    let last = pool::query(&link.client, "SELECT max(seq) FROM event WHERE session = $1", own).await?;
    let last: Option<i64> = last.first().map(|row| row.try_get(0)).transpose()?.flatten();
    if last != i64::try_from(anew.last).ok() || digest(&kept::log(&link.client, key).await?) != anew.digest {
        return Ok(false);
    }
    // Before anything names a blob: a collection must not take it away meanwhile.
    link.query(&link.statements.guard_blobs, &[&BLOBS]).await?;
    clear_rows(link, key).await?;
    let change = "UPDATE event SET type = $3, data = $4 WHERE session = $1 AND seq = $2";
    for row in &anew.log {
        let seq = i64::try_from(row.seq).unwrap_or(i64::MAX);
        pool::query(&link.client, change, &[&key, &seq, &row.name, &row.data.as_bytes()]).await?;
    }
    let hashes = |hashes: &BTreeSet<Hash>| -> Vec<Vec<u8>> {
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

/// Deletes a session for good, unless a living process runs it.
pub(super) async fn bury(link: &Link, burial: &Burial, me: &lease::Me) -> Result<bool, Failure> {
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

/// Writes a session that comes from elsewhere: its log, and its row as far as it is known. The other rows are made of
/// the log afterwards.
pub(super) async fn load(link: &Link, loaded: Loaded) -> Result<(), Failure> {
    let id = loaded.id.as_str();
    let buried = !link.query(&link.statements.buried, &[&[id].as_slice()]).await?.is_empty();
    if buried {
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
    let mut batch = Batch::default();
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
        spent: Spent::default(),
        data: String::new(),
    }
}
