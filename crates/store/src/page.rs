//! Pages of lists: cursors that remember their query and their place.

use everturn_model::tree::Node;
use everturn_model::{EntryId, Session};
use serde::{Deserialize, Serialize};

use crate::cursor::{self, BadCursor, Cursor};
use crate::query::{Filter, Order, Page, PageRequest, PathQuery};
use crate::{Error, Store};

/// How many a page has when nobody says.
const USUAL: u32 = 50;

/// The most that a page has.
const MOST: u32 = 1000;

#[derive(Serialize, Deserialize)]
struct SessionsPlace {
    filter: Filter,
    after: (i64, i64),
}

#[derive(Serialize, Deserialize)]
struct PathPlace {
    query: PathQuery,
    /// The first entry of the page.
    at: EntryId,
    /// Whether the path might run in a circle.
    #[serde(default)]
    tangled: bool,
}

pub(crate) async fn sessions(store: &Store, ask: PageRequest<Filter>) -> Result<Page<Session>, Error> {
    let (filter, after) = match ask {
        PageRequest::First(filter) => (filter, None),
        PageRequest::After(cursor) => {
            let place: SessionsPlace = cursor::open(store.secret(), "sessions", &cursor)?;
            (place.filter, Some(place.after))
        }
    };
    let limit = filter.limit.unwrap_or(USUAL).clamp(1, MOST);
    // One more than asked for tells whether there is a next page.
    let wanted = Filter { limit: Some(limit + 1), ..filter.clone() };
    let mut found = store.listed(wanted, after).await?;
    let more = found.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        found.pop();
    }
    let next = match found.last() {
        Some((_, after)) if more => Some(seal(store, "sessions", &SessionsPlace { filter, after: *after })?),
        _ => None,
    };
    Ok(Page { items: found.into_iter().map(|(session, _)| session).collect(), next })
}

pub(crate) async fn path(store: &Store, ask: PageRequest<PathQuery>) -> Result<Page<Node>, Error> {
    let (query, at, mut tangled) = match ask {
        PageRequest::After(cursor) => {
            let place: PathPlace = cursor::open(store.secret(), "path", &cursor)?;
            (place.query, Some(place.at), place.tangled)
        }
        PageRequest::First(mut query) => {
            let session = store.session(&query.session).await?;
            let session = session.ok_or_else(|| Error::NoSession(query.session.clone()))?;
            // Fixed here, so that later pages go on in the same conversation.
            query.leaf = query.leaf.or(session.leaf);
            (query, None, false)
        }
    };
    let Some(leaf) = query.leaf.clone() else { return Ok(Page { items: Vec::new(), next: None }) };
    let limit = usize::try_from(query.limit.clamp(1, MOST)).unwrap_or(usize::MAX);
    if query.order == Order::Newest && !tangled {
        // One more than asked for tells whether there is a next page.
        let mut items =
            store.walk(&query.session, at.as_ref().unwrap_or(&leaf), limit.saturating_add(1)).await?;
        // Our own ids ascend along a path, so it cannot come back to where it was. Those of an import need not, and
        // only the whole path tells where a circle closes.
        tangled = !items.is_sorted_by(|child, parent| child.entry.id > parent.entry.id);
        if !tangled {
            let next = items.get(limit).map(|node| node.entry.id.clone());
            items.truncate(limit);
            let next = next.map(|at| seal(store, "path", &PathPlace { query, at, tangled })).transpose()?;
            return Ok(Page { items, next });
        }
    }
    let mut spine = store.spine(&query.session, &leaf).await?;
    if query.order == Order::Oldest {
        spine.reverse();
    }
    let start = match &at {
        None => 0,
        Some(at) => spine.iter().position(|id| id == at).ok_or(BadCursor::Foreign)?,
    };
    let next = spine.get(start.saturating_add(limit)).cloned();
    let wanted = spine.into_iter().skip(start).take(limit).collect();
    let items = store.nodes(&query.session, wanted).await?;
    let next = next.map(|at| seal(store, "path", &PathPlace { query, at, tangled })).transpose()?;
    Ok(Page { items, next })
}

fn seal(store: &Store, kind: &str, place: &impl Serialize) -> Result<Cursor, Error> {
    cursor::seal(store.secret(), kind, place).map_err(|error| Error::Corrupt {
        session: String::new(),
        place: "cursor".to_owned(),
        reason: error.to_string(),
    })
}
