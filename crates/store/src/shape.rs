//! From rows to what they stand for: the same for both engines, however they fetch them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use everturn_model::tree::Node;
use everturn_model::{Entry, EntryId, FromJson, Part, PartId, Session, Tree};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Error;
use crate::query::StreamText;

/// What a row's JSON means.
pub(crate) fn decode<T: FromJson>(session: &str, place: &str, data: &str) -> Result<T, Error> {
    T::from_json(data).map_err(|error| damaged(session, place, &error))
}

/// A row that cannot be understood.
pub(crate) fn damaged(session: &str, place: &str, reason: &dyn fmt::Display) -> Error {
    Error::Corrupt { session: session.to_owned(), place: place.to_owned(), reason: reason.to_string() }
}

/// The parts of entries, each with its place, by the entry's id.
#[derive(Debug, Default)]
pub(crate) struct Parts(HashMap<String, Vec<(i64, Part)>>);

impl Parts {
    pub(crate) fn add(&mut self, entry: &str, order: i64, part: Part) {
        match self.0.get_mut(entry) {
            Some(list) => list.push((order, part)),
            None => drop(self.0.insert(entry.to_owned(), vec![(order, part)])),
        }
    }

    /// The entry with its parts in their order.
    pub(crate) fn join(&mut self, entry: Entry) -> Node {
        let mut own = self.0.remove(entry.id.as_str()).unwrap_or_default();
        own.sort_by_key(|(order, _)| *order);
        Node::new(entry, own.into_iter().map(|(_, part)| part).collect())
    }
}

/// A tree of a session row, entries with their places, and parts.
pub(crate) fn tree(session: Session, mut entries: Vec<(i64, Entry)>, mut parts: Parts) -> Tree {
    entries.sort_by_key(|(order, _)| *order);
    let mut tree = Tree::new(session);
    for (_, entry) in entries {
        tree.insert(parts.join(entry));
    }
    tree
}

/// As how many messages clients show an entry, by its JSON.
pub(crate) fn messages(session: &str, entry: &str) -> Result<usize, Error> {
    let outline: Outline = serde_json::from_str(entry).map_err(|error| damaged(session, "entry", &error))?;
    Ok(match outline.body {
        _ if outline.hidden => 0,
        ShownAs::Two => 2,
        ShownAs::One => 1,
        ShownAs::Nothing => 0,
    })
}

/// What tells how an entry is shown; the rest of its JSON is passed over.
#[derive(Deserialize)]
struct Outline {
    body: ShownAs,
    #[serde(default)]
    hidden: bool,
}

enum ShownAs {
    Nothing,
    One,
    Two,
}

impl<'de> Deserialize<'de> for ShownAs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyName)
    }
}

/// Looks at the name of a body's kind, which is its only key.
struct BodyName;

impl<'de> Visitor<'de> for BodyName {
    type Value = ShownAs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body of an entry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ShownAs, A::Error> {
        let mut shows = ShownAs::Nothing;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            map.next_value::<IgnoredAny>()?;
            shows = match name.as_ref() {
                "shell" | "compaction" => ShownAs::Two,
                "user" | "assistant" | "synthetic" | "branch_summary" => ShownAs::One,
                _ => ShownAs::Nothing,
            };
        }
        Ok(shows)
    }
}

/// Streamed texts put together from their saved pieces, which come by part and start.
#[derive(Debug, Default)]
pub(crate) struct Streams(Vec<StreamText>);

impl Streams {
    pub(crate) fn add(&mut self, entry: String, part: String, start: usize, piece: String) {
        match self.0.last_mut().filter(|stream| stream.part.as_str() == part) {
            // A piece that was not saved makes a hole: what comes after it does not continue it.
            Some(stream) if stream.text.len() != start => {}
            Some(stream) => stream.text.push_str(&piece),
            None if start > 0 => {}
            None => {
                let (entry, part) = (EntryId::new(entry), PartId::new(part));
                self.0.push(StreamText { entry, part, text: piece });
            }
        }
    }

    pub(crate) fn finish(self) -> Vec<StreamText> {
        self.0
    }
}
