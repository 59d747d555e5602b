//! Walking a conversation from its end to its beginning.

use std::collections::HashSet;

use everturn_model::tree::Node;
use everturn_model::{EntryId, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::reader;
use crate::Error;

/// The nodes from an entry back towards the root, the entry first.
pub(super) fn walk(
    connection: &Connection,
    id: &SessionId,
    from: &EntryId,
    limit: usize,
) -> Result<Vec<Node>, Error> {
    let Some((key, _)) = reader::key_and_session(connection, id)? else { return Ok(Vec::new()) };
    let mut nodes = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(from.clone());
    while nodes.len() < limit
        && let Some(entry) = next.take()
        && seen.insert(entry.clone())
        && let Some(node) = reader::node_of(connection, key, id, &entry)?
    {
        next.clone_from(&node.entry.parent);
        nodes.push(node);
    }
    Ok(nodes)
}

/// The ids from an entry back to the root, the entry first.
pub(super) fn spine(connection: &Connection, id: &SessionId, from: &EntryId) -> Result<Vec<EntryId>, Error> {
    let key = connection
        .prepare_cached("SELECT key FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(key) = key else { return Ok(Vec::new()) };
    let mut parent = connection.prepare_cached("SELECT parent FROM entry WHERE session = ?1 AND id = ?2")?;
    let mut spine = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(from.to_string());
    while let Some(entry) = next.take()
        && seen.insert(entry.clone())
        && let Some(above) =
            parent.query_row(params![key, entry], |row| row.get::<_, Option<String>>(0)).optional()?
    {
        spine.push(EntryId::new(entry));
        next = above;
    }
    Ok(spine)
}

/// Nodes by their ids, in the order asked for; missing ones are left out.
pub(super) fn nodes(connection: &Connection, id: &SessionId, wanted: &[EntryId]) -> Result<Vec<Node>, Error> {
    let Some((key, _)) = reader::key_and_session(connection, id)? else { return Ok(Vec::new()) };
    let found = wanted.iter().map(|entry| reader::node_of(connection, key, id, entry));
    found.filter_map(Result::transpose).collect()
}
