//! Rows beside what a log means.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn_model::inbox::InboxItem;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::{Entry, EntryId, Part, PartId, RequestId, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kept::{self, Flaw, Kept};
use super::verify::{Problem, Table};
use crate::payload::Hash;
use crate::plan::Replayed;
use crate::row::{SessionRow, encode};
use crate::{Error, Store};

/// A comparison of one session.
pub(super) struct Check<'c> {
    pub(super) store: &'c Store,
    pub(super) kept: &'c Kept,
    /// Blobs that the session needs.
    pub(super) named: BTreeSet<Hash>,
    pub(super) problems: Vec<Problem>,
}

/// A row in its place.
struct Line {
    id: String,
    order: i64,
    parent: Option<String>,
    data: String,
}

impl Line {
    fn new(id: String, order: i64, data: String) -> Self {
        Self { id, order, parent: None, data }
    }
}

impl Check<'_> {
    /// Compares all rows with what the log means.
    pub(super) async fn rows(&mut self, replayed: &Replayed) -> Result<(), Error> {
        self.session(&replayed.session);
        self.entries(replayed).await?;
        self.parts(replayed).await?;
        self.small(replayed).await?;
        self.texts(replayed);
        Ok(())
    }

    fn session(&mut self, wanted: &SessionRow) {
        let Some(found) = &self.kept.session else {
            return self.problems.push(Problem::Missing { table: Table::Session, id: wanted.id.clone() });
        };
        match same::<Session>(&found.data, &wanted.data) {
            Ok(true) => {}
            Ok(false) => self.problems.push(Problem::Column("data")),
            Err(Flaw { reason, .. }) => {
                let id = wanted.id.clone();
                self.problems.push(Problem::Garbled { table: Table::Session, id, reason });
            }
        }
        let columns = [
            ("id", found.id == wanted.id),
            ("seq", found.seq == wanted.seq),
            ("project", found.project == wanted.project),
            ("directory", found.directory == wanted.directory),
            ("parent", found.parent == wanted.parent),
            ("title", found.title == wanted.title),
            ("folded", found.folded == wanted.folded),
            ("created", found.created == wanted.created),
            ("updated", found.updated == wanted.updated),
            ("archived", found.archived == wanted.archived),
            ("trashed", found.trashed == wanted.trashed),
            ("open", found.open == wanted.open),
            ("input", found.spent.input == wanted.spent.input),
            ("output", found.spent.output == wanted.spent.output),
            ("reasoning", found.spent.reasoning == wanted.spent.reasoning),
            ("cache_read", found.spent.cache_read == wanted.spent.cache_read),
            ("cache_write", found.spent.cache_write == wanted.spent.cache_write),
            ("cost", found.spent.cost == wanted.spent.cost),
        ];
        let wrong = columns.into_iter().filter(|(_, same)| !same);
        self.problems.extend(wrong.map(|(column, _)| Problem::Column(column)));
    }

    async fn entries(&mut self, replayed: &Replayed) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.entries {
            if let Some(node) = replayed.tree.node(&EntryId::new(row.id.clone())) {
                let mut line = Line::new(row.id.clone(), row.order, encode(&node.entry)?);
                line.parent.clone_from(&row.parent);
                wanted.push(line);
            }
        }
        let found = self.kept.rows.entries.iter().map(|row| {
            let mut line = Line::new(row.id.clone(), row.order, row.data.clone());
            line.parent.clone_from(&row.parent);
            line
        });
        self.table::<Entry>(Table::Entry, found.collect(), wanted).await
    }

    async fn parts(&mut self, replayed: &Replayed) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.parts {
            let node = replayed.tree.node(&EntryId::new(row.entry.clone()));
            if let Some(part) = node.and_then(|node| node.part(&PartId::new(row.id.clone()))) {
                wanted.push(Line::new(format!("{}/{}", row.entry, row.id), row.order, encode(part)?));
            }
        }
        let rows = self.kept.rows.parts.iter();
        let found =
            rows.map(|row| Line::new(format!("{}/{}", row.entry, row.id), row.order, row.data.clone()));
        self.table::<Part>(Table::Part, found.collect(), wanted).await
    }

    /// The waiting prompts, the requests and the task list.
    async fn small(&mut self, replayed: &Replayed) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.inbox {
            if let Some(item) = replayed.tree.waiting(&EntryId::new(row.id.clone())) {
                wanted.push(Line::new(row.id.clone(), row.order, encode(item)?));
            }
        }
        let rows = self.kept.rows.inbox.iter();
        let found =
            rows.map(|row| Line::new(row.id.clone(), row.order, row.data.clone().unwrap_or_default()));
        self.table::<InboxItem>(Table::Inbox, found.collect(), wanted).await?;
        let mut wanted = Vec::new();
        for row in &replayed.rows.requests {
            if let Some(request) = replayed.tree.requests.get(&RequestId::new(row.id.clone())) {
                wanted.push(Line::new(row.id.clone(), 0, encode(request)?));
            }
        }
        let rows = self.kept.rows.requests.iter();
        let found = rows.map(|row| Line::new(row.id.clone(), 0, row.data.clone().unwrap_or_default()));
        self.table::<Request>(Table::Request, found.collect(), wanted).await?;
        // No row and an empty list mean the same.
        let line = |data: String| Line::new(replayed.session.id.clone(), 0, data);
        let found = line(self.kept.rows.todos.clone().unwrap_or_else(|| "[]".to_owned()));
        let wanted = line(encode(&replayed.tree.todos)?);
        self.table::<Vec<Todo>>(Table::Todo, vec![found], vec![wanted]).await
    }

    async fn table<T: Serialize + DeserializeOwned>(
        &mut self,
        table: Table,
        found: Vec<Line>,
        wanted: Vec<Line>,
    ) -> Result<(), Error> {
        let mut found: HashMap<String, Line> =
            found.into_iter().map(|line| (line.id.clone(), line)).collect();
        for line in wanted {
            let id = line.id.clone();
            let Some(row) = found.remove(&id) else {
                self.problems.push(Problem::Missing { table, id });
                continue;
            };
            let json = kept::json(self.store, &row.data, &mut self.named).await?;
            match json.and_then(|json| same::<T>(&json, &line.data)) {
                Err(Flaw { reason, .. }) => {
                    self.problems.push(Problem::Garbled { table, id: id.clone(), reason });
                }
                Ok(true) if row.parent == line.parent => {}
                Ok(_) => self.problems.push(Problem::Differs { table, id: id.clone() }),
            }
            if row.order != line.order {
                self.problems.push(Problem::Misplaced { table, id });
            }
        }
        let rest: BTreeSet<String> = found.into_keys().collect();
        self.problems.extend(rest.into_iter().map(|id| Problem::Surplus { table, id }));
        Ok(())
    }

    fn texts(&mut self, replayed: &Replayed) {
        let place = |entry: &str, part: &str| format!("{entry}/{part}");
        let found: BTreeMap<String, bool> =
            self.kept.texts.iter().map(|text| (place(&text.entry, &text.part), text.indexed)).collect();
        let wanted: BTreeSet<String> =
            replayed.rows.texts.iter().map(|row| place(&row.entry, &row.part)).collect();
        let table = Table::Text;
        for id in &wanted {
            if found.get(id) != Some(&true) {
                self.problems.push(Problem::Missing { table, id: id.clone() });
            }
        }
        let rest = found.into_keys().filter(|id| !wanted.contains(id));
        self.problems.extend(rest.map(|id| Problem::Surplus { table, id }));
    }

    /// Every blob that is needed is there, is whole, and is noted as used.
    pub(super) async fn blobs(&mut self) -> Result<(), Error> {
        for hash in std::mem::take(&mut self.named) {
            let bytes = kept::fetch(self.store, hash).await?;
            if !bytes.is_ok_and(|bytes| bytes.is_some_and(|bytes| Hash::of(&bytes) == hash)) {
                self.problems.push(Problem::Blob { hash });
            }
            if !self.kept.uses.contains(&hash) {
                self.problems.push(Problem::Unnoted { hash });
            }
        }
        Ok(())
    }
}

/// True when JSON of a type means the same; the second is as this version writes it.
fn same<T: Serialize + DeserializeOwned>(found: &str, wanted: &str) -> Result<bool, Flaw> {
    if found == wanted {
        return Ok(true);
    }
    let value: T = kept::decode(found)?;
    let again = encode(&value).map_err(|error| Flaw { blob: None, reason: error.to_string() })?;
    Ok(again == wanted)
}
