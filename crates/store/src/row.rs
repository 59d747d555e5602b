//! The rows of both engines: what each column holds, and how a fold's state becomes them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use everturn_model::bill::BillLine;
use everturn_model::session::Spent;
use everturn_model::tree::Node;
use everturn_model::usage::Cache;
use everturn_model::{
    EntryId, Event, Millis, Money, Part, PartId, Record, Session, ToJson, Tokens, Tree, json,
};

use crate::payload::{self, Blob, Packed};
use crate::plan::TouchedRows;
use crate::{Error, parallel, text, words};

/// An event that brings more nodes than this is written down on a thread of its own.
const ASIDE: usize = 64;

/// Of an entry, so many parts are looked up one by one.
const FEW: usize = 8;

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) time: Millis,
    /// The event's name and version.
    pub(crate) name: String,
    /// Under which ownership it was written; none when anybody could.
    pub(crate) epoch: Option<u64>,
    pub(crate) data: String,
}

/// A row of the log whose payload may still be made, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Packing {
    row: LogRow,
    packed: Result<Packed, JoinHandle<Result<Packed, Error>>>,
}

impl LogRow {
    /// Begins the row of an event.
    pub(crate) fn begin(record: &Arc<Record>, epoch: Option<u64>) -> Result<Packing, Error> {
        let row = Self {
            seq: record.seq,
            id: record.id.to_string(),
            time: record.time,
            name: record.event.stored_name(),
            epoch,
            data: String::new(),
        };
        // A fork's payload takes as long to make as all of its rows: the two go on side by side, and on one engine
        // with writing these.
        let packed = if holds(&record.event) > ASIDE {
            let record = Arc::clone(record);
            Err(std::thread::spawn(move || pack_event(&record)))
        } else {
            Ok(pack_event(record)?)
        };
        Ok(Packing { row, packed })
    }
}

/// How many nodes an event brings at once.
fn holds(event: &Event) -> usize {
    match event {
        Event::SessionForked { seed, .. } | Event::SessionImported { seed, .. } => seed.nodes.len(),
        _ => 0,
    }
}

/// The rows of a log, and the blobs that they name.
pub(crate) fn finish(log: Vec<Packing>) -> Result<(Vec<LogRow>, Vec<Blob>), Error> {
    let panicked = |_| unpacked(io::Error::other("the thread that packs ended with a panic"));
    let mut blobs = Vec::new();
    let finish = |Packing { row, packed }| {
        let packed = packed.or_else(|thread| thread.join().map_err(panicked)?)?;
        blobs.extend(packed.blobs);
        Ok(LogRow { data: packed.data, ..row })
    };
    let rows = log.into_iter().map(finish).collect::<Result<_, Error>>()?;
    Ok((rows, blobs))
}

fn unpacked(source: io::Error) -> Error {
    Error::io("compression", source)
}

/// The row of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) seq: u64,
    pub(crate) project: String,
    pub(crate) directory: String,
    pub(crate) parent: Option<String>,
    pub(crate) title: String,
    /// The title in small letters, to search in.
    pub(crate) folded: String,
    pub(crate) created: Millis,
    pub(crate) updated: Millis,
    pub(crate) archived: Option<Millis>,
    pub(crate) trashed: Option<Millis>,
    pub(crate) open: bool,
    pub(crate) spent: SpentSums,
    pub(crate) data: String,
}

/// What a session used, as numbers that a database can add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SpentSums {
    pub(crate) input: i64,
    pub(crate) output: i64,
    pub(crate) reasoning: i64,
    pub(crate) cache_read: i64,
    pub(crate) cache_write: i64,
    /// Billionths of a dollar.
    pub(crate) cost: i64,
}

impl SessionRow {
    pub(crate) fn of(session: &Session, seq: u64) -> Result<Self, Error> {
        let Spent { tokens, cost } = &session.spent;
        Ok(Self {
            id: session.id.to_string(),
            seq,
            project: session.project.clone(),
            directory: session.directory.clone(),
            parent: session.parent.as_ref().map(ToString::to_string),
            title: session.title.clone(),
            folded: session.title.to_lowercase(),
            created: session.time.created,
            updated: session.time.updated,
            archived: session.time.archived,
            trashed: session.time.trashed,
            open: session.is_at_work(),
            spent: SpentSums { cost: cost.to_nanos(), ..SpentSums::of(tokens) },
            data: encode(session)?,
        })
    }
}

impl SpentSums {
    /// Tokens as a database counts them, without a cost.
    fn of(tokens: &Tokens) -> Self {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            input: count(tokens.input),
            output: count(tokens.output),
            reasoning: count(tokens.reasoning),
            cache_read: count(tokens.cache.read),
            cache_write: count(tokens.cache.write),
            cost: 0,
        }
    }

    /// Both together, as far as there are numbers.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cost: self.cost.saturating_add(other.cost),
        }
    }

    /// The tokens as the model counts them.
    pub(crate) fn tokens(&self) -> Tokens {
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let cache = Cache { read: count(self.cache_read), write: count(self.cache_write) };
        let (input, output, reasoning) = (count(self.input), count(self.output), count(self.reasoning));
        Tokens { total: None, input, output, reasoning, cache }
    }

    /// The cost as money again.
    pub(crate) fn money(&self) -> Money {
        Money::from_nanos(self.cost)
    }
}

/// The row of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryRow {
    pub(crate) id: String,
    pub(crate) order: i64,
    pub(crate) parent: Option<String>,
    pub(crate) data: String,
}

/// The row of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartRow {
    pub(crate) entry: String,
    pub(crate) id: String,
    pub(crate) order: i64,
    pub(crate) data: String,
}

/// The row of a waiting prompt; without data it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InboxRow {
    pub(crate) id: String,
    pub(crate) order: i64,
    pub(crate) data: Option<String>,
}

/// The row of a request; without data it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestRow {
    pub(crate) id: String,
    pub(crate) data: Option<String>,
}

/// A line of a session's bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BillRow {
    pub(crate) seq: u64,
    pub(crate) line: u64,
    pub(crate) time: Millis,
    /// Empty where no model is known, as the model is then.
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) source: String,
    pub(crate) spent: SpentSums,
}

impl BillRow {
    fn of(bill: &BillLine) -> Self {
        // Names of other programs may hold what a server takes in no text.
        let name = |text: &str| text.replace('\0', "\u{fffd}");
        let (provider, model) = match &bill.model {
            Some(model) => (name(&model.provider), name(&model.model)),
            None => (String::new(), String::new()),
        };
        let spent = SpentSums { cost: bill.nanos, ..SpentSums::of(&bill.tokens) };
        let (seq, line, source) = (bill.seq, bill.line, name(&bill.source));
        Self { seq, line, time: bill.time, provider, model, source, spent }
    }
}

/// Text that can be searched for; without it the place is no longer found. The title's place is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRow {
    pub(crate) entry: String,
    pub(crate) part: String,
    pub(crate) text: Option<String>,
}

/// Saved streams that have their final value now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndedStreams {
    /// Of one part.
    Part(PartId),
    /// All of the session.
    All,
}

/// Rows of a session's projections that have to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) entries: Vec<EntryRow>,
    pub(crate) parts: Vec<PartRow>,
    pub(crate) inbox: Vec<InboxRow>,
    pub(crate) requests: Vec<RequestRow>,
    pub(crate) todos: Option<String>,
    pub(crate) bill: Vec<BillRow>,
    pub(crate) texts: Vec<TextRow>,
    pub(crate) ended: Vec<EndedStreams>,
    pub(crate) blobs: Vec<Blob>,
}

impl Rows {
    /// The touched rows as they are in the tree.
    pub(crate) fn of(tree: &Tree, touched: &TouchedRows) -> Result<Self, Error> {
        let mut rows = Self { ended: touched.ended.clone(), ..Self::default() };
        for made in
            parallel::map(&touched.entries, |(id, order)| entry_row(tree, id, *order))?.into_iter().flatten()
        {
            rows.entries.push(made.row);
            rows.texts.extend(made.text);
            rows.blobs.extend(made.blobs);
        }
        let touched_parts = TouchedParts::of(tree, touched);
        let parts = parallel::map(&touched.parts, |(entry, id, order)| {
            touched_parts.get(entry, id).map(|part| part_row(part, entry, *order)).transpose()
        })?;
        for made in parts.into_iter().flatten() {
            rows.parts.push(made.row);
            rows.texts.extend(made.text);
            rows.blobs.extend(made.blobs);
        }
        for (id, order) in &touched.inbox {
            let data = tree.waiting(id).map(pack).transpose()?;
            let data = data.map(|packed| {
                rows.blobs.extend(packed.blobs);
                packed.data
            });
            rows.inbox.push(InboxRow { id: id.to_string(), order: *order, data });
        }
        for id in &touched.requests {
            let data = tree.requests.get(id).map(encode).transpose()?;
            rows.requests.push(RequestRow { id: id.to_string(), data });
        }
        if touched.todos {
            rows.todos = Some(encode(&tree.todos)?);
        }
        rows.bill.extend(touched.bill.values().map(BillRow::of));
        let gone = touched.amended.iter().map(|(entry, part)| TextRow {
            entry: entry.to_string(),
            part: part.as_ref().map(ToString::to_string).unwrap_or_default(),
            text: None,
        });
        let mut said: HashSet<(String, String)> = HashSet::new();
        if !touched.amended.is_empty() {
            said.extend(rows.texts.iter().map(|row| (row.entry.clone(), row.part.clone())));
        }
        rows.texts.extend(gone.filter(|row| !said.contains(&(row.entry.clone(), row.part.clone()))));
        Ok(rows)
    }

    /// Makes the title findable.
    pub(crate) fn name(&mut self, title: &str) {
        self.texts.push(TextRow { entry: String::new(), part: String::new(), text: findable(title) });
    }
}

/// A row with what belongs to it.
struct RowParts<R> {
    row: R,
    text: Option<TextRow>,
    blobs: Vec<Blob>,
}

/// The row of an entry, if it is in the tree.
fn entry_row(tree: &Tree, id: &EntryId, order: i64) -> Result<Option<RowParts<EntryRow>>, Error> {
    let Some(node) = tree.node(id) else { return Ok(None) };
    let Packed { data, blobs } = pack(&node.entry)?;
    let parent = node.entry.parent.as_ref().map(EntryId::to_string);
    let text = text::of_entry(&node.entry).map(|text| TextRow {
        entry: id.to_string(),
        part: String::new(),
        text: findable(text),
    });
    Ok(Some(RowParts { row: EntryRow { id: id.to_string(), order, parent, data }, text, blobs }))
}

/// The parts of entries of which many were touched. Looking each up in its entry would take as long as the square of
/// their number: a prompt of 80,000 parts held up all writes for half a minute.
struct TouchedParts<'t> {
    tree: &'t Tree,
    indexed: HashMap<&'t EntryId, HashMap<&'t PartId, &'t Part>>,
}

impl<'t> TouchedParts<'t> {
    fn of(tree: &'t Tree, touched: &TouchedRows) -> Self {
        let mut counts: HashMap<&EntryId, usize> = HashMap::new();
        for (entry, _, _) in &touched.parts {
            *counts.entry(entry).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count > FEW).filter_map(|(id, _)| tree.node(id));
        let index = |node: &'t Node| node.parts.iter().map(|part| (&part.id, part)).collect();
        Self { tree, indexed: many.map(|node| (&node.entry.id, index(node))).collect() }
    }

    fn get(&self, entry: &EntryId, id: &PartId) -> Option<&'t Part> {
        match self.indexed.get(entry) {
            Some(parts) => parts.get(id).copied(),
            None => self.tree.node(entry)?.part(id),
        }
    }
}

/// The row of a part.
fn part_row(part: &Part, entry: &EntryId, order: i64) -> Result<RowParts<PartRow>, Error> {
    let (id, Packed { data, blobs }) = (&part.id, pack(part)?);
    let text = text::of_part(part).map(|text| TextRow {
        entry: entry.to_string(),
        part: id.to_string(),
        text: findable(text),
    });
    Ok(RowParts { row: PartRow { entry: entry.to_string(), id: id.to_string(), order, data }, text, blobs })
}

/// The text, if there is a word in it.
fn findable(text: &str) -> Option<String> {
    words::has_word(text).then(|| text.to_owned())
}

fn pack_event(record: &Record) -> Result<Packed, Error> {
    let json = record.to_json().map_err(|error| unwritable(&error))?;
    let depth = json::depth(json.as_bytes());
    if depth > json::STORED_DEPTH_LIMIT {
        return Err(Error::TooDeep { session: record.session.clone(), depth });
    }
    payload::pack(json).map_err(unpacked)
}

fn pack(value: &impl ToJson) -> Result<Packed, Error> {
    payload::pack(encode(value)?).map_err(unpacked)
}

pub(crate) fn encode(value: &impl ToJson) -> Result<String, Error> {
    value.to_json().map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> Error {
    Error::Corrupt { session: String::new(), place: "memory".to_owned(), reason: error.to_string() }
}
