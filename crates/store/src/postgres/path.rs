//! Walking a conversation from its end to its beginning, many entries at a time.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::ClientWrapper;
use everturn_model::tree::Node;
use everturn_model::{Entry, EntryId, SessionId};

use super::blob::{self, Blobs};
use super::failure::ServerFailure;
use super::pool::query;
use super::reader::Payloads;
use crate::shape;

/// Follows parents from an entry; the inner limit makes each step one look into the index. A damaged session can have
/// a circle, so the number of steps is bounded and the caller stops where it comes back.
pub(super) const WALK: &str = "
    WITH RECURSIVE up (depth, id, parent, data) AS (
      SELECT 1::bigint, e.id, e.parent, e.data FROM entry e WHERE e.session = $1 AND e.id = $2
      UNION ALL
      SELECT up.depth + 1, e.id, e.parent, e.data FROM up CROSS JOIN LATERAL (
        SELECT id, parent, data FROM entry WHERE session = $1 AND id = up.parent LIMIT 1
      ) e WHERE up.depth < $3
    )
    SELECT depth, id, data, parent FROM up ORDER BY depth";

const SPINE: &str = "
    WITH RECURSIVE up (depth, id, parent) AS (
      SELECT 1::bigint, e.id, e.parent FROM entry e WHERE e.session = $1 AND e.id = $2
      UNION ALL
      SELECT up.depth + 1, e.id, e.parent FROM up CROSS JOIN LATERAL (
        SELECT id, parent FROM entry WHERE session = $1 AND id = up.parent LIMIT 1
      ) e WHERE up.depth < (SELECT count(*) FROM entry WHERE session = $1)
    )
    SELECT id FROM up ORDER BY depth";

/// The nodes from an entry back towards the root, the entry first.
pub(super) async fn walk(
    client: &ClientWrapper,
    id: &SessionId,
    from: &EntryId,
    limit: usize,
) -> Result<Vec<Node>, ServerFailure> {
    let Some(key) = key(client, id).await? else { return Ok(Vec::new()) };
    let entries = entries(client, key, id, from, limit).await?;
    join(client, key, id, entries).await
}

async fn key(client: &ClientWrapper, id: &SessionId) -> Result<Option<i64>, ServerFailure> {
    let rows = query(client, "SELECT key FROM session WHERE id = $1", &[&id.as_str()]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

async fn entries(
    client: &ClientWrapper,
    key: i64,
    id: &SessionId,
    from: &EntryId,
    limit: usize,
) -> Result<Vec<Entry>, ServerFailure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let rows = query(client, WALK, &[&key, &from.as_str(), &limit]).await?;
    let payloads = Payloads::of(id.as_str(), "entry", &rows)?;
    let blobs = Blobs::of(client, payloads.texts()).await?;
    let mut seen = HashSet::new();
    let mut entries = Vec::with_capacity(rows.len());
    for (_, name, entry) in payloads.decode(&blobs)? {
        if !seen.insert(name) {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Entries with their parts.
async fn join(
    client: &ClientWrapper,
    key: i64,
    id: &SessionId,
    entries: Vec<Entry>,
) -> Result<Vec<Node>, ServerFailure> {
    let names: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let sql = "SELECT ord, entry, data FROM part WHERE session = $1 AND entry = ANY($2)";
    let rows = query(client, sql, &[&key, &names]).await?;
    let payloads = Payloads::of(id.as_str(), "part", &rows)?;
    let blobs = Blobs::of(client, payloads.texts()).await?;
    let mut parts = shape::Parts::default();
    for (order, entry, part) in payloads.decode(&blobs)? {
        parts.add(entry, order, part);
    }
    Ok(entries.into_iter().map(|entry| parts.join(entry)).collect())
}

/// The ids from an entry back to the root, the entry first.
pub(super) async fn spine(
    client: &ClientWrapper,
    id: &SessionId,
    from: &EntryId,
) -> Result<Vec<EntryId>, ServerFailure> {
    let Some(key) = key(client, id).await? else { return Ok(Vec::new()) };
    let mut seen = HashSet::new();
    let mut spine = Vec::new();
    for row in query(client, SPINE, &[&key, &from.as_str()]).await? {
        let id: String = row.try_get(0)?;
        if !seen.insert(id.clone()) {
            break;
        }
        spine.push(EntryId::new(id));
    }
    Ok(spine)
}

/// Nodes by their ids, in the order asked for; missing ones are left out.
pub(super) async fn nodes(
    client: &ClientWrapper,
    id: &SessionId,
    wanted: &[EntryId],
) -> Result<Vec<Node>, ServerFailure> {
    let Some(key) = key(client, id).await? else { return Ok(Vec::new()) };
    let names: Vec<&str> = wanted.iter().map(EntryId::as_str).collect();
    let sql = "SELECT id, data FROM entry WHERE session = $1 AND id = ANY($2)";
    let rows = query(client, sql, &[&key, &names]).await?;
    let mut found = HashMap::new();
    for row in &rows {
        let data = blob::text(id.as_str(), "entry", row.try_get(1)?)?;
        found.insert(row.try_get::<_, &str>(0)?, data);
    }
    let blobs = Blobs::of(client, found.values().copied()).await?;
    let entries = found.values().map(|data| blobs.decode::<Entry>(id.as_str(), "entry", data));
    let joined = join(client, key, id, entries.collect::<Result<_, _>>()?).await?;
    let joined: HashMap<EntryId, Node> =
        joined.into_iter().map(|node| (node.entry.id.clone(), node)).collect();
    Ok(wanted.iter().filter_map(|entry| joined.get(entry).cloned()).collect())
}

pub(super) async fn node(
    client: &ClientWrapper,
    id: &SessionId,
    entry: &EntryId,
) -> Result<Option<Node>, ServerFailure> {
    Ok(nodes(client, id, std::slice::from_ref(entry)).await?.pop())
}
