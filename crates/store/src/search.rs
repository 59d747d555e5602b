//! Full-text search: from places that the index names to what a person is shown.

use everturn_model::{EntryId, PartId, SessionId};

use crate::query::{Hit, Search};
use crate::words::WordQuery;
use crate::{Error, Store, text};

/// How many characters a snippet has, about.
const SNIPPET: usize = 160;

/// A place that an index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedPlace {
    pub(crate) session: SessionId,
    pub(crate) title: String,
    /// Empty for the title.
    pub(crate) entry: String,
    /// Empty for the entry's own text.
    pub(crate) part: String,
}

/// Finds texts and shows what stands around the words.
pub(crate) async fn search(store: &Store, search: &Search) -> Result<Vec<Hit>, Error> {
    let Some(query) = WordQuery::parse(&search.text) else { return Ok(Vec::new()) };
    let limit = usize::try_from(search.limit).unwrap_or(usize::MAX);
    let mut hits = Vec::new();
    let mut skip = 0;
    while hits.len() < limit {
        let places = store.find(search, &query, skip).await?;
        let last = places.len() < limit;
        skip += places.len();
        for place in places {
            // What an amendment hides is in the index and must not show.
            if let Some(hit) = show(store, &query, place).await? {
                hits.push(hit);
            }
        }
        if last {
            break;
        }
    }
    hits.truncate(limit);
    Ok(hits)
}

async fn show(store: &Store, query: &WordQuery, place: IndexedPlace) -> Result<Option<Hit>, Error> {
    let IndexedPlace { session, title, entry, part } = place;
    if entry.is_empty() {
        let snippet = query.snippet(&title, SNIPPET);
        return Ok(Some(Hit { session, title, entry: None, part: None, snippet }));
    }
    let entry = EntryId::new(entry);
    let node = match store.node(&session, &entry).await {
        // One damaged session must not hide what was found in others.
        Err(error @ Error::Corrupt { .. }) => {
            tracing::error!(%session, error = error.to_string(), "a text that was found cannot be read");
            return Ok(None);
        }
        node => node?,
    };
    let Some(node) = node else { return Ok(None) };
    let found = if part.is_empty() {
        text::of_entry(&node.entry)
    } else {
        let part = node.parts.iter().find(|found| found.id.as_str() == part && !found.hidden);
        part.and_then(text::of_part)
    };
    let Some(found) = found.filter(|_| !node.entry.hidden) else { return Ok(None) };
    let snippet = query.snippet(found, SNIPPET);
    let part = (!part.is_empty()).then(|| PartId::new(part));
    Ok(Some(Hit { session, title, entry: Some(entry), part, snippet }))
}
