//! Rows beside what a log means.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn_model::inbox::InboxItem;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::{Entry, EntryId, FromJson, Part, PartId, RequestId, Session, ToJson};

use super::stored_session::{self, StoredFlaw, StoredSession};
use super::verify::{RowTable, SessionProblem};
use crate::payload::Hash;
use crate::plan::ReplayedLog;
use crate::row::{BillRow, SessionRow, SpentSums, encode};
use crate::{Error, Store};

/// A comparison of one session.
pub(super) struct RowComparison<'c> {
    pub(super) store: &'c Store,
    pub(super) stored: &'c StoredSession,
    /// Blobs that the session needs.
    pub(super) named: BTreeSet<Hash>,
    pub(super) problems: Vec<SessionProblem>,
}

/// A row in its place.
struct ComparedRow {
    id: String,
    order: i64,
    parent: Option<String>,
    data: String,
}

impl ComparedRow {
    fn new(id: String, order: i64, data: String) -> Self {
        Self { id, order, parent: None, data }
    }
}

impl RowComparison<'_> {
    /// Compares all rows with what the log means.
    pub(super) async fn rows(&mut self, replayed: &ReplayedLog) -> Result<(), Error> {
        self.session(&replayed.session);
        self.entries(replayed).await?;
        self.parts(replayed).await?;
        self.small(replayed).await?;
        self.bill(replayed);
        self.texts(replayed);
        Ok(())
    }

    fn session(&mut self, wanted: &SessionRow) {
        let Some(found) = &self.stored.session else {
            return self
                .problems
                .push(SessionProblem::Missing { table: RowTable::Session, id: wanted.id.clone() });
        };
        match same::<Session>(&found.data, &wanted.data) {
            Ok(true) => {}
            Ok(false) => self.problems.push(SessionProblem::Column("data")),
            Err(StoredFlaw { reason, .. }) => {
                let id = wanted.id.clone();
                self.problems.push(SessionProblem::Garbled { table: RowTable::Session, id, reason });
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
        self.problems.extend(wrong.map(|(column, _)| SessionProblem::Column(column)));
    }

    async fn entries(&mut self, replayed: &ReplayedLog) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.entries {
            if let Some(node) = replayed.tree.node(&EntryId::new(row.id.clone())) {
                let mut line = ComparedRow::new(row.id.clone(), row.order, encode(&node.entry)?);
                line.parent.clone_from(&row.parent);
                wanted.push(line);
            }
        }
        let found = self.stored.rows.entries.iter().map(|row| {
            let mut line = ComparedRow::new(row.id.clone(), row.order, row.data.clone());
            line.parent.clone_from(&row.parent);
            line
        });
        self.table::<Entry>(RowTable::Entry, found.collect(), wanted).await
    }

    async fn parts(&mut self, replayed: &ReplayedLog) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.parts {
            let node = replayed.tree.node(&EntryId::new(row.entry.clone()));
            if let Some(part) = node.and_then(|node| node.part(&PartId::new(row.id.clone()))) {
                wanted.push(ComparedRow::new(format!("{}/{}", row.entry, row.id), row.order, encode(part)?));
            }
        }
        let rows = self.stored.rows.parts.iter();
        let found = rows
            .map(|row| ComparedRow::new(format!("{}/{}", row.entry, row.id), row.order, row.data.clone()));
        self.table::<Part>(RowTable::Part, found.collect(), wanted).await
    }

    /// The waiting prompts, the requests and the task list.
    async fn small(&mut self, replayed: &ReplayedLog) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for row in &replayed.rows.inbox {
            if let Some(item) = replayed.tree.waiting(&EntryId::new(row.id.clone())) {
                wanted.push(ComparedRow::new(row.id.clone(), row.order, encode(item)?));
            }
        }
        let rows = self.stored.rows.inbox.iter();
        let found =
            rows.map(|row| ComparedRow::new(row.id.clone(), row.order, row.data.clone().unwrap_or_default()));
        self.table::<InboxItem>(RowTable::Inbox, found.collect(), wanted).await?;
        let mut wanted = Vec::new();
        for row in &replayed.rows.requests {
            if let Some(request) = replayed.tree.requests.get(&RequestId::new(row.id.clone())) {
                wanted.push(ComparedRow::new(row.id.clone(), 0, encode(request)?));
            }
        }
        let rows = self.stored.rows.requests.iter();
        let found = rows.map(|row| ComparedRow::new(row.id.clone(), 0, row.data.clone().unwrap_or_default()));
        self.table::<Request>(RowTable::Request, found.collect(), wanted).await?;
        // No row and an empty list mean the same.
        let line = |data: String| ComparedRow::new(replayed.session.id.clone(), 0, data);
        let found = line(self.stored.rows.todos.clone().unwrap_or_else(|| "[]".to_owned()));
        let wanted = line(encode(&replayed.tree.todos)?);
        self.table::<Vec<Todo>>(RowTable::Todo, vec![found], vec![wanted]).await
    }

    async fn table<T: ToJson + FromJson>(
        &mut self,
        table: RowTable,
        found: Vec<ComparedRow>,
        wanted: Vec<ComparedRow>,
    ) -> Result<(), Error> {
        let mut found: HashMap<String, ComparedRow> =
            found.into_iter().map(|line| (line.id.clone(), line)).collect();
        for line in wanted {
            let id = line.id.clone();
            let Some(row) = found.remove(&id) else {
                self.problems.push(SessionProblem::Missing { table, id });
                continue;
            };
            let json = stored_session::json(self.store, &row.data, &mut self.named).await?;
            match json.and_then(|json| same::<T>(&json, &line.data)) {
                Err(StoredFlaw { reason, .. }) => {
                    self.problems.push(SessionProblem::Garbled { table, id: id.clone(), reason });
                }
                Ok(true) if row.parent == line.parent => {}
                Ok(_) => self.problems.push(SessionProblem::Differs { table, id: id.clone() }),
            }
            if row.order != line.order {
                self.problems.push(SessionProblem::Misplaced { table, id });
            }
        }
        let rest: BTreeSet<String> = found.into_keys().collect();
        self.problems.extend(rest.into_iter().map(|id| SessionProblem::Surplus { table, id }));
        Ok(())
    }

    /// Each line is what the log says, and together they are what the session has spent. Of a session of an earlier version
    /// lines may be missing until somebody asks for them.
    fn bill(&mut self, replayed: &ReplayedLog) {
        let table = RowTable::Bill;
        let name = |row: &BillRow| format!("{}/{}", row.seq, row.line);
        let mut found: BTreeMap<String, &BillRow> =
            self.stored.rows.bill.iter().map(|row| (name(row), row)).collect();
        for wanted in &replayed.rows.bill {
            let id = name(wanted);
            match found.remove(&id) {
                Some(row) if row == wanted => {}
                Some(_) => self.problems.push(SessionProblem::Differs { table, id }),
                None if self.stored.billed => self.problems.push(SessionProblem::Missing { table, id }),
                None => {}
            }
        }
        let surplus = found.into_keys().map(|id| SessionProblem::Surplus { table, id });
        self.problems.extend(surplus);
        let lines = replayed.rows.bill.iter();
        let sums = lines.fold(SpentSums::default(), |sums, row| sums.plus(&row.spent));
        if sums != replayed.session.spent {
            self.problems.push(SessionProblem::Unbalanced);
        }
    }

    fn texts(&mut self, replayed: &ReplayedLog) {
        let place = |entry: &str, part: &str| format!("{entry}/{part}");
        let found: BTreeMap<String, bool> =
            self.stored.texts.iter().map(|text| (place(&text.entry, &text.part), text.indexed)).collect();
        let wanted: BTreeSet<String> =
            replayed.rows.texts.iter().map(|row| place(&row.entry, &row.part)).collect();
        let table = RowTable::Text;
        for id in &wanted {
            if found.get(id) != Some(&true) {
                self.problems.push(SessionProblem::Missing { table, id: id.clone() });
            }
        }
        let rest = found.into_keys().filter(|id| !wanted.contains(id));
        self.problems.extend(rest.map(|id| SessionProblem::Surplus { table, id }));
    }

    /// Every blob that is needed is there, is whole, and is noted as used.
    pub(super) async fn blobs(&mut self) -> Result<(), Error> {
        for hash in std::mem::take(&mut self.named) {
            let bytes = stored_session::fetch(self.store, hash).await?;
            if !bytes.is_ok_and(|bytes| bytes.is_some_and(|bytes| Hash::of(&bytes) == hash)) {
                self.problems.push(SessionProblem::Blob { hash });
            }
            if !self.stored.uses.contains(&hash) {
                self.problems.push(SessionProblem::Unnoted { hash });
            }
        }
        Ok(())
    }
}

/// True when JSON of a type means the same; the second is as this version writes it.
fn same<T: ToJson + FromJson>(found: &str, wanted: &str) -> Result<bool, StoredFlaw> {
    if found == wanted {
        return Ok(true);
    }
    let value: T = stored_session::decode(found)?;
    let again = encode(&value).map_err(|error| StoredFlaw { blob: None, reason: error.to_string() })?;
    Ok(again == wanted)
}
