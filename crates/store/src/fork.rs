//! Forks and clones: a session made of another one's entries, in one append.

use everturn_model::event::Event;
use everturn_model::session::Origin;
use everturn_model::tree::Node;
use everturn_model::{EntryId, EventId, Millis, Session, SessionId, copy, fold};

use crate::append::{Appended, Authority, NewEvent};
use crate::{Error, Store};

/// What of a session is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// The conversation: the path to the leaf.
    Leaf,
    /// The path up to an entry, without it.
    Before(EntryId),
    /// The path up to an entry, with it.
    Through(EntryId),
    /// Everything, with all branches: a clone.
    Tree,
}

/// A fork as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// The session that is copied.
    pub source: SessionId,
    /// What of it.
    pub cut: Cut,
    /// The new session, without entries.
    pub session: Session,
    /// The ids of the two events: the creation and the copy.
    pub events: [EventId; 2],
    /// When.
    pub time: Millis,
}

pub(crate) async fn fork(store: &Store, fork: Fork) -> Result<Appended, Error> {
    let Fork { source, cut, session, events, time } = fork;
    let (nodes, leaf) = nodes(store, &source, &cut).await?;
    let origin = Origin { session: source, entry: leaf.clone() };
    let seed = copy::copy(&session.id, nodes, leaf.as_ref(), time);
    let id = session.id.clone();
    let [first, second] = events;
    let events = vec![
        NewEvent { id: first, time, event: Event::SessionCreated { session: Box::new(session) } },
        NewEvent { id: second, time, event: Event::SessionForked { origin, seed: Box::new(seed) } },
    ];
    store.append(&id, Authority::Open, events).await
}

/// The nodes to copy, parents first, and the end of the new path.
async fn nodes(store: &Store, source: &SessionId, cut: &Cut) -> Result<(Vec<Node>, Option<EntryId>), Error> {
    let missing = || Error::NoSession(source.clone());
    let leaf = match cut {
        Cut::Tree => {
            let tree = store.tree(source).await?.ok_or_else(missing)?;
            let leaf = tree.session.leaf.clone();
            return Ok((tree.into_nodes(), leaf));
        }
        Cut::Leaf => store.session(source).await?.ok_or_else(missing)?.leaf,
        Cut::Through(entry) => Some(entry.clone()),
        Cut::Before(entry) => {
            let unknown = || fold::Error::Missing { name: "fork", id: entry.to_string() };
            let unfit = || Error::Unfit { session: source.clone(), source: unknown() };
            store.node(source, entry).await?.ok_or_else(unfit)?.entry.parent
        }
    };
    let Some(leaf) = leaf else { return Ok((Vec::new(), None)) };
    let mut nodes = store.walk(source, &leaf, usize::MAX).await?;
    nodes.reverse();
    Ok((nodes, Some(leaf)))
}
