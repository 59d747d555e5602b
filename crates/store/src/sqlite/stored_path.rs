//! Pieces of a session's path, in the JSON that it is stored as.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use everturn_model::tree::NodeJson;
use everturn_model::{EntryId, Session, SessionId};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::reader;
use super::stored_session::text;
use crate::query::{PathPiece, StoredPath};
use crate::{Error, shape};

/// A piece of a path; none when there is no such session, or no such entry.
pub(super) fn piece(
    connection: &Connection,
    id: &SessionId,
    piece: &PathPiece,
) -> Result<Option<StoredPath>, Error> {
    let Some((key, session)) = reader::key_and_session(connection, id)? else { return Ok(None) };
    let leaf = session.leaf.clone();
    let mut walk = FileWalk::new(connection, key, id.as_str())?;
    let inbox = || reader::inbox(connection, key, id.as_str());
    let (nodes, more, inbox) = match piece {
        PathPiece::Whole => (whole(connection, key, &session)?, false, inbox()?),
        PathPiece::Newest(messages) => {
            let (nodes, more) = walk.up(leaf, *messages)?;
            (nodes, more, inbox()?)
        }
        PathPiece::UpTo(entry, messages) => {
            if walk.parent(entry)?.is_none() {
                return Ok(None);
            }
            let (nodes, more) = walk.up(Some(entry.clone()), *messages)?;
            (nodes, more, Vec::new())
        }
        PathPiece::At(entry) => {
            let Some(after) = walk.after(leaf, entry)? else { return Ok(None) };
            let (nodes, more) = walk.with_results(entry, after)?;
            (nodes, more, Vec::new())
        }
    };
    Ok(Some(StoredPath { session, nodes, inbox, more }))
}

/// Statements that read a path node by node.
struct FileWalk<'c> {
    connection: &'c Connection,
    key: i64,
    session: &'c str,
    parent: CachedStatement<'c>,
    entry: CachedStatement<'c>,
    parts: CachedStatement<'c>,
}

impl<'c> FileWalk<'c> {
    fn new(connection: &'c Connection, key: i64, session: &'c str) -> Result<Self, Error> {
        Ok(Self {
            connection,
            key,
            session,
            parent: connection.prepare_cached("SELECT parent FROM entry WHERE session = ?1 AND id = ?2")?,
            entry: connection
                .prepare_cached("SELECT parent, data FROM entry WHERE session = ?1 AND id = ?2")?,
            // Sorted here: a sorter of the database costs more than the few parts of an entry.
            parts: connection
                .prepare_cached("SELECT ord, data FROM part WHERE session = ?1 AND entry = ?2")?,
        })
    }

    /// The parent of an entry, if there is such an entry.
    fn parent(&mut self, id: &EntryId) -> Result<Option<Option<EntryId>>, Error> {
        let found = self.parent.query_row(params![self.key, id.as_str()], |row| row.get(0)).optional()?;
        Ok(found.map(|parent: Option<String>| parent.map(EntryId::new)))
    }

    /// A node and the id of its parent.
    fn node(&mut self, id: &EntryId) -> Result<Option<(NodeJson, Option<EntryId>)>, Error> {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<String>>(0)?, text(row, 1)?));
        let Some((parent, entry)) = self.entry.query_row(params![self.key, id.as_str()], read).optional()?
        else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        let mut rows = self.parts.query(params![self.key, id.as_str()])?;
        while let Some(row) = rows.next()? {
            parts.push((row.get(0)?, whole_json(self.connection, self.session, "part", text(row, 1)?)?));
        }
        let entry = whole_json(self.connection, self.session, "entry", entry)?;
        Ok(Some((join(id.clone(), entry, parts), parent.map(EntryId::new))))
    }

    /// From an entry back towards the root until clients show enough messages of it; oldest first. Also whether there
    /// is more.
    fn up(&mut self, from: Option<EntryId>, messages: usize) -> Result<(Vec<NodeJson>, bool), Error> {
        let mut nodes = Vec::new();
        let mut seen = HashSet::new();
        let (mut next, mut left) = (from, messages);
        while left > 0
            && let Some(id) = next.take()
            && seen.insert(id.clone())
            && let Some((node, parent)) = self.node(&id)?
        {
            left = left.saturating_sub(shape::messages(self.session, &node.entry)?);
            next = parent;
            nodes.push(node);
        }
        nodes.reverse();
        let more = match next {
            Some(id) => !seen.contains(&id) && self.parent(&id)?.is_some(),
            None => false,
        };
        Ok((nodes, more))
    }

    /// The ids that follow an entry on the path, newest first; none when it is not on it. Nothing else is read of them.
    fn after(&mut self, leaf: Option<EntryId>, entry: &EntryId) -> Result<Option<Vec<EntryId>>, Error> {
        let mut after = Vec::new();
        let mut seen = HashSet::new();
        let mut next = leaf;
        while let Some(id) = next.take()
            && seen.insert(id.clone())
            && let Some(parent) = self.parent(&id)?
        {
            if id == *entry {
                return Ok(Some(after));
            }
            after.push(id);
            next = parent;
        }
        Ok(None)
    }

    fn with_results(
        &mut self,
        entry: &EntryId,
        mut after: Vec<EntryId>,
    ) -> Result<(Vec<NodeJson>, bool), Error> {
        let Some((node, parent)) = self.node(entry)? else { return Ok((Vec::new(), false)) };
        let mut nodes = vec![node];
        while let Some(id) = after.pop()
            && let Some((node, _)) = self.node(&id)?
            && shape::messages(self.session, &node.entry)? == 0
        {
            nodes.push(node);
        }
        let more = parent.map_or(Ok(None), |parent| self.parent(&parent))?.is_some();
        Ok((nodes, more))
    }
}

/// The whole path: all rows of the session at once, which is faster than to ask for each.
fn whole(connection: &Connection, key: i64, session: &Session) -> Result<Vec<NodeJson>, Error> {
    let name = session.id.as_str();
    let mut entries: HashMap<EntryId, (Option<EntryId>, String)> = HashMap::new();
    let mut statement = connection.prepare_cached("SELECT id, parent, data FROM entry WHERE session = ?1")?;
    let mut rows = statement.query([key])?;
    while let Some(row) = rows.next()? {
        let parent: Option<String> = row.get(1)?;
        let id = EntryId::new(row.get::<_, String>(0)?);
        entries.insert(id, (parent.map(EntryId::new), text(row, 2)?));
    }
    let mut path = Vec::with_capacity(entries.len());
    let mut next = session.leaf.clone();
    // What was taken is gone: a circle ends where it began.
    while let Some((id, (parent, data))) = next.take().and_then(|id| entries.remove_entry(&id)) {
        path.push((id, whole_json(connection, name, "entry", data)?));
        next = parent;
    }
    path.reverse();
    let places: HashMap<&str, usize> =
        path.iter().enumerate().map(|(at, (id, _))| (id.as_str(), at)).collect();
    let mut parts: Vec<Vec<(i64, String)>> = vec![Vec::new(); path.len()];
    let mut statement = connection.prepare_cached("SELECT entry, ord, data FROM part WHERE session = ?1")?;
    let mut rows = statement.query([key])?;
    while let Some(row) = rows.next()? {
        let entry = row.get_ref(0)?.as_str().unwrap_or_default();
        if let Some(own) = places.get(entry).and_then(|at| parts.get_mut(*at)) {
            own.push((row.get(1)?, whole_json(connection, name, "part", text(row, 2)?)?));
        }
    }
    Ok(path.into_iter().zip(parts).map(|((id, entry), parts)| join(id, entry, parts)).collect())
}

/// An entry with its parts in their order.
fn join(id: EntryId, entry: String, mut parts: Vec<(i64, String)>) -> NodeJson {
    parts.sort_by_key(|(order, _)| *order);
    NodeJson { id, entry, parts: parts.into_iter().map(|(_, part)| part).collect() }
}

fn whole_json(connection: &Connection, session: &str, place: &str, data: String) -> Result<String, Error> {
    Ok(match reader::whole(connection, session, place, &data)? {
        Cow::Owned(json) => json,
        Cow::Borrowed(_) => data,
    })
}
