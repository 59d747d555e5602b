//! Pieces of a session's path, in the JSON that it is stored as.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::ClientWrapper;
use everturn_model::tree::NodeJson;
use everturn_model::{EntryId, SessionId};
use tokio_postgres::Row;

use super::blob::{self, Blobs};
use super::failure::ServerFailure;
use super::path::WALK;
use super::pool::query;
use super::reader;
use crate::query::{PathPiece, StoredPath};
use crate::shape;

/// How many entries a walk fetches at once when it is not known how many it needs.
const STRIDE: usize = 64;

/// The ids from the leaf to an entry, or to the root when it is not on the path. Nothing else is read of them.
const DOWN_TO: &str = "
    WITH RECURSIVE up (depth, id, parent) AS (
      SELECT 1::bigint, e.id, e.parent FROM entry e WHERE e.session = $1 AND e.id = $2
      UNION ALL
      SELECT up.depth + 1, e.id, e.parent FROM up CROSS JOIN LATERAL (
        SELECT id, parent FROM entry WHERE session = $1 AND id = up.parent LIMIT 1
      ) e WHERE up.id <> $3 AND up.depth < (SELECT count(*) FROM entry WHERE session = $1)
    )
    SELECT id FROM up ORDER BY depth";

/// A piece of a path; none when there is no such session, or no such entry.
pub(super) async fn piece(
    client: &ClientWrapper,
    id: &SessionId,
    piece: &PathPiece,
) -> Result<Option<StoredPath>, ServerFailure> {
    let Some((key, session)) = reader::key_and_session(client, id).await? else { return Ok(None) };
    let leaf = session.leaf.clone();
    let walk = ServerWalk { client, key, session: id.as_str() };
    let (nodes, more, inbox) = match piece {
        PathPiece::Whole => (walk.whole(leaf).await?, false, walk.inbox().await?),
        PathPiece::Newest(messages) => {
            let (nodes, more) = walk.up(leaf, *messages).await?;
            (nodes, more, walk.inbox().await?)
        }
        PathPiece::UpTo(entry, messages) => {
            if !walk.exists(entry).await? {
                return Ok(None);
            }
            let (nodes, more) = walk.up(Some(entry.clone()), *messages).await?;
            (nodes, more, Vec::new())
        }
        PathPiece::At(entry) => {
            let Some(after) = walk.after(leaf, entry).await? else { return Ok(None) };
            let (nodes, more) = walk.with_results(entry, after).await?;
            (nodes, more, Vec::new())
        }
    };
    Ok(Some(StoredPath { session, nodes, inbox, more }))
}

/// An entry as it is stored.
#[derive(Debug)]
struct EntryJson {
    id: EntryId,
    parent: Option<EntryId>,
    json: String,
}

/// Where a path is read.
#[derive(Debug)]
struct ServerWalk<'c> {
    client: &'c ClientWrapper,
    key: i64,
    session: &'c str,
}

impl ServerWalk<'_> {
    async fn inbox(&self) -> Result<Vec<everturn_model::inbox::InboxItem>, ServerFailure> {
        reader::inbox(self.client, self.key, self.session).await
    }

    /// Rows of order, id, data and parent.
    async fn entries(&self, rows: &[Row]) -> Result<Vec<EntryJson>, ServerFailure> {
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            found.push(blob::text(self.session, "entry", row.try_get(2)?)?);
        }
        let blobs = Blobs::of(self.client, found.iter().copied()).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for (row, data) in rows.iter().zip(found) {
            entries.push(EntryJson {
                id: EntryId::new(row.try_get::<_, &str>(1)?),
                parent: row.try_get::<_, Option<&str>>(3)?.map(EntryId::new),
                json: blobs.whole(self.session, "entry", data)?.into_owned(),
            });
        }
        Ok(entries)
    }

    /// So many entries from one back towards the root.
    async fn stride(&self, from: &EntryId, limit: usize) -> Result<Vec<EntryJson>, ServerFailure> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query(self.client, WALK, &[&self.key, &from.as_str(), &limit]).await?;
        self.entries(&rows).await
    }

    /// Entries with their parts.
    async fn join(&self, entries: Vec<EntryJson>) -> Result<Vec<NodeJson>, ServerFailure> {
        let names: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let sql = "SELECT ord, entry, data FROM part WHERE session = $1 AND entry = ANY($2)";
        let rows = query(self.client, sql, &[&self.key, &names]).await?;
        self.join_rows(entries, &rows).await
    }

    /// Entries with those of these parts that are theirs, in their order.
    async fn join_rows(&self, entries: Vec<EntryJson>, rows: &[Row]) -> Result<Vec<NodeJson>, ServerFailure> {
        let mut found: HashMap<&str, Vec<(i64, &str)>> = HashMap::new();
        for row in rows {
            let part = (row.try_get(0)?, blob::text(self.session, "part", row.try_get(2)?)?);
            found.entry(row.try_get(1)?).or_default().push(part);
        }
        let all = found.values().flatten().map(|(_, data)| *data);
        let blobs = Blobs::of(self.client, all).await?;
        let mut nodes = Vec::with_capacity(entries.len());
        for EntryJson { id, json: entry, .. } in entries {
            let mut own = found.remove(id.as_str()).unwrap_or_default();
            own.sort_by_key(|(order, _)| *order);
            let mut parts = Vec::with_capacity(own.len());
            for (_, data) in own {
                parts.push(blobs.whole(self.session, "part", data)?.into_owned());
            }
            nodes.push(NodeJson { id, entry, parts });
        }
        Ok(nodes)
    }

    /// The whole path: all rows of the session at once.
    async fn whole(&self, leaf: Option<EntryId>) -> Result<Vec<NodeJson>, ServerFailure> {
        let key: super::pool::StatementValues<'_> = &[&self.key];
        let (rows, parts) = tokio::try_join!(
            query(self.client, "SELECT 0::bigint, id, data, parent FROM entry WHERE session = $1", key),
            query(self.client, "SELECT ord, entry, data FROM part WHERE session = $1", key),
        )?;
        let entries = self.entries(&rows).await?;
        let mut entries: HashMap<EntryId, EntryJson> =
            entries.into_iter().map(|entry| (entry.id.clone(), entry)).collect();
        let mut path = Vec::with_capacity(entries.len());
        let mut next = leaf;
        // What was taken is gone: a circle ends where it began.
        while let Some(entry) = next.take().and_then(|id| entries.remove(&id)) {
            next.clone_from(&entry.parent);
            path.push(entry);
        }
        path.reverse();
        self.join_rows(path, &parts).await
    }

    /// From an entry back towards the root until clients show enough messages of it; oldest first. Also whether there
    /// is more.
    async fn up(
        &self,
        from: Option<EntryId>,
        messages: usize,
    ) -> Result<(Vec<NodeJson>, bool), ServerFailure> {
        let mut path: Vec<EntryJson> = Vec::new();
        let mut seen = HashSet::new();
        let (mut next, mut left) = (from, messages);
        'walk: while left > 0
            && let Some(from) = next.clone()
        {
            let stride = left.saturating_mul(2).clamp(STRIDE, STRIDE * 16);
            let found = self.stride(&from, stride).await?;
            if found.is_empty() {
                // The entry it names is missing; what stands before it cannot be found.
                next = None;
            }
            for entry in found {
                if left == 0 {
                    break 'walk;
                }
                if !seen.insert(entry.id.clone()) {
                    next = None;
                    break 'walk;
                }
                left = left.saturating_sub(shape::messages(self.session, &entry.json)?);
                next.clone_from(&entry.parent);
                path.push(entry);
            }
        }
        path.reverse();
        let more = match next {
            Some(before) => !seen.contains(&before) && self.exists(&before).await?,
            None => false,
        };
        Ok((self.join(path).await?, more))
    }

    async fn exists(&self, entry: &EntryId) -> Result<bool, ServerFailure> {
        let sql = "SELECT 1 FROM entry WHERE session = $1 AND id = $2";
        Ok(!query(self.client, sql, &[&self.key, &entry.as_str()]).await?.is_empty())
    }

    /// The ids that follow an entry on the path, newest first; none when it is not on it.
    async fn after(
        &self,
        leaf: Option<EntryId>,
        entry: &EntryId,
    ) -> Result<Option<Vec<EntryId>>, ServerFailure> {
        let Some(leaf) = leaf else { return Ok(None) };
        let mut after = Vec::new();
        for row in query(self.client, DOWN_TO, &[&self.key, &leaf.as_str(), &entry.as_str()]).await? {
            let id: &str = row.try_get(0)?;
            if id == entry.as_str() {
                return Ok(Some(after));
            }
            after.push(EntryId::new(id));
        }
        Ok(None)
    }

    async fn with_results(
        &self,
        entry: &EntryId,
        mut after: Vec<EntryId>,
    ) -> Result<(Vec<NodeJson>, bool), ServerFailure> {
        let mut path = self.stride(entry, 1).await?;
        while let Some(id) = after.pop()
            && let Some(entry) = self.stride(&id, 1).await?.pop()
            && shape::messages(self.session, &entry.json)? == 0
        {
            path.push(entry);
        }
        let more = match path.first().and_then(|entry| entry.parent.as_ref()) {
            Some(parent) => self.exists(parent).await?,
            None => false,
        };
        Ok((self.join(path).await?, more))
    }
}
