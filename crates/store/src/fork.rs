//! Forks and clones: a session made of another one's entries, in one append.

use everturn_model::event::Event;
use everturn_model::session::ForkOrigin;
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
    // Before the rows: of a part that ends in between the text is whole in its row.
    let saved = store.streams(&source).await?.into_iter().map(|saved| (saved.part, saved.text)).collect();
    let (mut nodes, leaf) = nodes(store, &source, &cut).await?;
    copy::close_open(&mut nodes, &saved, time);
    let origin = ForkOrigin { session: source, entry: leaf.clone() };
    let seed = copy::copy(&session.id, nodes, leaf.as_ref(), time);
    let id = session.id.clone();
    let [first, second] = events;
    let events = vec![
        NewEvent { id: first, time, event: Event::SessionCreated { session: Box::new(session) } },
        NewEvent { id: second, time, event: Event::SessionForked { origin, seed: Box::new(seed) } },
    ];
    store.append(&id, Authority::Open, events).await
}

/// The nodes to copy and the end of the new path.
async fn nodes(store: &Store, source: &SessionId, cut: &Cut) -> Result<(Vec<Node>, Option<EntryId>), Error> {
    // All rows at once: asking for the path entry by entry costs more than the branches it would leave out.
    let tree = store.tree(source).await?.ok_or_else(|| Error::NoSession(source.clone()))?;
    let parent_of = |entry: &EntryId| {
        let missing = || fold::Error::Missing { name: "fork", id: entry.to_string() };
        let unfit = || Error::Unfit { session: source.clone(), source: missing() };
        tree.node(entry).map(|node| node.entry.parent.clone()).ok_or_else(unfit)
    };
    let leaf = match cut {
        Cut::Leaf | Cut::Tree => tree.session.leaf.clone(),
        Cut::Before(entry) => parent_of(entry)?,
        Cut::Through(entry) => parent_of(entry).map(|_| Some(entry.clone()))?,
    };
    let nodes = if *cut == Cut::Tree { tree.into_nodes() } else { tree.into_path(leaf.as_ref()) };
    Ok((nodes, leaf))
}
