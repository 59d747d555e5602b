//! Reading a session file into a session and its entries.

use std::collections::{HashMap, HashSet};

use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::Provenance;
use everturn_model::event::Seed;
use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::tree::Node;
use everturn_model::{Body, Entry, EntryId, Map, Millis, PartKind, Session, SessionId};
use serde_json::{Value, json};

use super::decode::{self, HEADER, UNREADABLE, VALUE};
use super::encode::EntryEncoder;
use super::file::{Dialect, Error, SessionFile};
use super::line::{self, LineContent, SessionLine};
use super::link::{self, Link, StatedParent, UnlinkedLine};
use super::names::EntryNames;
use super::problems::{LineProblem, ProblemKind};
use super::{DIALECT, javascript, patch};

/// How much of a file pi reads when it looks for the latest session.
const SIGHT: usize = 512;

/// How long a title made from the first message may be.
const TITLE: usize = 100;

/// Reads a session file of pi (versions 1 to 3) or omp (5 and 18), whatever happened to it.
///
/// # Errors
/// When nothing in it is an entry of a session. An empty file is an empty session.
pub fn read(bytes: &[u8]) -> Result<SessionFile, Error> {
    let lines = line::lines(bytes);
    let mut reader = SessionFileReader::new(bytes, &lines);
    if !lines.is_empty() && !reader.found {
        return Err(Error::NotASession { lines: lines.len() });
    }
    reader.take_header();
    Ok(reader.finish())
}

/// A line that is not the header or the title slot.
struct EntryLine<'a> {
    line: SessionLine<'a>,
    value: Option<Value>,
    /// Its place among the values of the file, by which version 1 names entries.
    ordinal: Option<usize>,
}

struct SessionFileReader<'a> {
    rows: Vec<EntryLine<'a>>,
    problems: Vec<LineProblem>,
    /// Whether anything looks like a session.
    found: bool,
    slot: Option<(Map, SessionLine<'a>)>,
    header: Option<(Map, SessionLine<'a>)>,
    digest: u64,
}

impl<'a> SessionFileReader<'a> {
    fn new(bytes: &[u8], lines: &[SessionLine<'a>]) -> Self {
        let mut reader = Self {
            rows: Vec::with_capacity(lines.len()),
            problems: Vec::new(),
            found: false,
            slot: None,
            header: None,
            digest: fingerprint(bytes),
        };
        if lines.is_empty() {
            reader.report(0, ProblemKind::Empty);
        }
        if lines.iter().any(|line| bytes.get(line.end) == Some(&b'\r')) {
            reader.report(0, ProblemKind::CarriageReturns);
        }
        let mut ordinal = 0;
        for line in lines {
            reader.row(*line, &mut ordinal);
        }
        reader
    }

    fn report(&mut self, line: usize, kind: ProblemKind) {
        self.problems.push(LineProblem { line, kind });
    }

    fn row(&mut self, line: SessionLine<'a>, ordinal: &mut usize) {
        if line.marked {
            self.report(line.number, ProblemKind::ByteOrderMark);
        }
        let mut row = EntryLine { line, value: None, ordinal: None };
        match line::parse(line.bytes) {
            LineContent::Value { value, replaced_bytes, replaced_halves } => {
                self.found |= value.get("type").is_some_and(Value::is_string);
                if replaced_bytes {
                    self.report(line.number, ProblemKind::InvalidText);
                }
                if replaced_halves {
                    self.report(line.number, ProblemKind::HalfCharacter);
                }
                if !value.is_object() {
                    self.report(line.number, ProblemKind::NotAnEntry);
                }
                row.value = Some(value);
                row.ordinal = Some(*ordinal);
                *ordinal += 1;
            }
            LineContent::Broken(reason) => {
                self.found |= line.bytes.starts_with(b"{\"type\":\"");
                let kind = if line.ended { ProblemKind::Unreadable(reason) } else { ProblemKind::CutShort };
                self.report(line.number, kind);
            }
        }
        self.rows.push(row);
    }

    /// Takes the title slot and the header out of the rows.
    fn take_header(&mut self) {
        let kind = |row: &EntryLine<'_>| {
            row.value.as_ref().and_then(|value| value.get("type")?.as_str().map(str::to_owned))
        };
        if self.rows.first().and_then(kind).as_deref() == Some("title") {
            self.slot = self.take(0);
        }
        let header = self.rows.iter().position(|row| kind(row).as_deref() == Some(HEADER));
        let first = self.rows.iter().position(|row| row.value.is_some());
        let Some(header) = header else {
            if !self.rows.is_empty() || self.slot.is_some() {
                self.report(0, ProblemKind::NoHeader);
            }
            return;
        };
        self.header = self.take(header);
        let Some((map, line)) = &self.header else { return };
        let number = line.number;
        let hidden = self.slot.is_none() && (line.start > 0 || line.end > SIGHT);
        let bad = !map.get("id").is_some_and(Value::is_string);
        let version = map.get("version").cloned().unwrap_or(Value::Null);
        if first != Some(header) {
            self.report(number, ProblemKind::LateHeader);
        }
        if hidden {
            self.report(number, ProblemKind::OutOfSight);
        }
        if bad {
            self.report(number, ProblemKind::BadHeader);
        }
        let known = version.is_null() || version.as_u64().is_some_and(|version| (1..=3).contains(&version));
        if !known {
            self.report(number, ProblemKind::FutureVersion(version.to_string()));
        }
    }

    fn take(&mut self, at: usize) -> Option<(Map, SessionLine<'a>)> {
        let row = self.rows.remove(at);
        match row.value {
            Some(Value::Object(map)) => Some((map, row.line)),
            _ => None,
        }
    }

    /// The version by the header, or by the shape of the entries where there is none.
    fn version(&self) -> u64 {
        match &self.header {
            Some((header, _)) => match header.get("version") {
                None | Some(Value::Null) => 1,
                Some(version) => version.as_u64().unwrap_or(3),
            },
            None => {
                let named =
                    |row: &EntryLine<'_>| row.value.as_ref().is_some_and(|value| value.get("id").is_some());
                if self.rows.is_empty() || self.rows.iter().any(named) { 3 } else { 1 }
            }
        }
    }

    fn dialect(&self) -> Dialect {
        if self.slot.is_some() {
            return Dialect::Omp18;
        }
        let titled = self
            .header
            .as_ref()
            .is_some_and(|(header, _)| header.contains_key("title") || header.contains_key("titleSource"));
        let mut dialect = if titled { Dialect::Omp5 } else { Dialect::Pi };
        for value in self.rows.iter().filter_map(|row| row.value.as_ref()) {
            match value.get("type").and_then(Value::as_str) {
                Some(
                    "model_usage"
                    | "service_tier_change"
                    | "title_change"
                    | "credential_pin"
                    | "session_init"
                    | "mode_change"
                    | "reset_boundary",
                ) => return Dialect::Omp18,
                Some("ttsr_injection") => dialect = Dialect::Omp5,
                Some("model_change") if value.get("model").is_some_and(Value::is_string) => {
                    dialect = Dialect::Omp5;
                }
                Some("compaction" | "branch_summary") if value.get("fromExtension").is_some() => {
                    dialect = Dialect::Omp5;
                }
                _ => {}
            }
        }
        dialect
    }

    /// What each row says about its place in the tree.
    fn places(&self, version: u64) -> Vec<UnlinkedLine> {
        let place = |row: &EntryLine<'_>| {
            let Some(value) = &row.value else {
                return UnlinkedLine {
                    id: None,
                    claim: link::salvage(&String::from_utf8_lossy(row.line.bytes)),
                };
            };
            if is_header(value) {
                return UnlinkedLine { id: None, claim: StatedParent::Broken { id: None, parent: None } };
            }
            let id = value.get("id").and_then(Value::as_str).map(str::to_owned).filter(|_| version > 1);
            let claim = match version {
                0 | 1 => StatedParent::Sequence,
                _ if !value.is_object() => StatedParent::Broken { id: None, parent: None },
                _ => link::claim(value),
            };
            UnlinkedLine { id, claim }
        };
        self.rows.iter().map(place).collect()
    }

    fn check_rows(&mut self, version: u64, links: &[Link]) {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut report = |kind| found.push(LineProblem { line: row.line.number, kind });
            let Some(value) = row.value.as_ref().filter(|value| value.is_object()) else { continue };
            if is_header(value) {
                report(ProblemKind::ExtraHeader);
                continue;
            }
            match value.get("type").and_then(Value::as_str) {
                Some(name) if decode::is_known(name) => {}
                Some(name) => report(ProblemKind::UnknownType(name.to_owned())),
                None => report(ProblemKind::NotAnEntry),
            }
            if version > 1 {
                match value.get("id").and_then(Value::as_str) {
                    None => report(ProblemKind::NoId),
                    Some(id) if !seen.insert(id) => report(ProblemKind::RepeatedId(id.to_owned())),
                    Some(_) => {}
                }
            }
            if decode::time(value).is_none() {
                report(ProblemKind::NoTime);
            }
            if let Some(problem) = links.get(at).and_then(|link| link.problem.clone()) {
                report(problem);
            }
        }
        self.problems.append(&mut found);
    }

    fn finish(mut self) -> SessionFile {
        let (version, dialect) = (self.version(), self.dialect());
        let places = self.places(version);
        let links = link::resolve(&places);
        self.check_rows(version, &links);

        let header = self.header.as_ref().map(|(header, _)| header.clone());
        let id = header.as_ref().and_then(|header| header.get("id")?.as_str());
        let name = id.map_or_else(|| format!("{:016x}", self.digest), str::to_owned);
        let created =
            header.as_ref().and_then(|header| javascript::moment(header.get("timestamp")?.as_str()?));
        let mut mint = DerivedIds::new(&name);
        let mut nodes = self.nodes(version, created, &mut mint);
        self.connect(&mut nodes, &places, &links, version);
        let nodes = self.carry(nodes, &links, version, dialect);

        let leaf = nodes.iter().rev().find(|node| is_counted(node)).map(|node| node.entry.id.clone());
        let session = self.session(&name, version, dialect, created, &nodes);
        self.problems.sort_by_key(|problem| problem.line);
        let seed = Seed { nodes, leaf, ..Seed::default() };
        SessionFile { dialect, version, header, session, seed, problems: self.problems }
    }

    /// The rows as nodes, with their typed fields and not yet connected.
    fn nodes(&self, version: u64, created: Option<Millis>, mint: &mut DerivedIds) -> Vec<Node> {
        let mut last = created.unwrap_or_default();
        let mut nodes = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let time = row.value.as_ref().and_then(decode::time).unwrap_or(last);
            last = time;
            let id = mint.entry(time);
            let foreign = |name: &str| Body::Foreign { foreign_type: name.to_owned() };
            let bare = |body| Node::new(Entry::new(id.clone(), None, time, body), Vec::new());
            let mut node = match &row.value {
                None => bare(foreign(UNREADABLE)),
                Some(value) if !value.is_object() => bare(foreign(VALUE)),
                Some(value) => {
                    let decoded = decode::entry(value, time, mint);
                    let entry = Entry::new(id.clone(), None, decoded.time, decoded.body);
                    let mut node = Node::new(entry, decoded.parts);
                    let mut extra = Map::new();
                    if let Some(shape) = decoded.shape {
                        extra.insert("as".to_owned(), shape.into());
                    }
                    if decoded.plain {
                        extra.insert("plain".to_owned(), true.into());
                    }
                    node.entry.extra.set(DIALECT, extra);
                    node
                }
            };
            let named = row.value.as_ref().and_then(|value| value.get("id")?.as_str().map(str::to_owned));
            node.entry.origin = Some(Provenance {
                id: named.filter(|_| version > 1),
                start: u64::try_from(row.line.start).unwrap_or_default(),
                end: u64::try_from(row.line.end).unwrap_or_default(),
            });
            nodes.push(node);
        }
        nodes
    }

    /// Sets parents, and what labels and compactions point at.
    fn connect(&mut self, nodes: &mut [Node], places: &[UnlinkedLine], links: &[Link], version: u64) {
        let ids: Vec<EntryId> = nodes.iter().map(|node| node.entry.id.clone()).collect();
        let index = link::index(places);
        let by_name = |name: &str| index.get(name).and_then(|at| ids.get(*at)).cloned();
        let by_ordinal: HashMap<usize, &EntryId> =
            self.rows.iter().zip(&ids).filter_map(|(row, id)| Some((row.ordinal?, id))).collect();
        let mut missing = Vec::new();
        for ((node, link), row) in nodes.iter_mut().zip(links).zip(&self.rows) {
            node.entry.parent = link.parent.and_then(|at| ids.get(at)).cloned();
            let Some(value) = &row.value else { continue };
            let (slot, name) = match &mut node.entry.body {
                Body::Label { target, .. } => (target, "targetId"),
                Body::Compaction(compaction) => (&mut compaction.first_kept, "firstKeptEntryId"),
                _ => continue,
            };
            if version < 2 {
                let at = value.get("firstKeptEntryIndex").and_then(Value::as_u64);
                let at = at.and_then(|at| usize::try_from(at).ok());
                *slot = at.and_then(|at| by_ordinal.get(&at)).map(|id| (*id).clone());
            } else if let Some(name) = value.get(name).and_then(Value::as_str) {
                *slot = by_name(name);
                if slot.is_none() {
                    let kind = ProblemKind::MissingTarget(name.to_owned());
                    missing.push(LineProblem { line: row.line.number, kind });
                }
            }
        }
        self.problems.append(&mut missing);
    }

    /// Adds to each node what its typed fields do not say.
    fn carry(&mut self, mut nodes: Vec<Node>, links: &[Link], version: u64, dialect: Dialect) -> Vec<Node> {
        let encoder = EntryEncoder { names: EntryNames::of(&nodes, version), dialect, version };
        for ((node, link), row) in nodes.iter_mut().zip(links).zip(&mut self.rows) {
            let mut extra = node.entry.extra.get(DIALECT).cloned().unwrap_or_default();
            match row.value.take() {
                Some(value) => extra.append(&mut patch::diff(&encoder.typed(node), &value)),
                None => {
                    let raw = String::from_utf8_lossy(row.line.bytes);
                    extra.insert("raw".to_owned(), raw.into());
                }
            }
            if link.mended {
                extra.insert("mended".to_owned(), true.into());
            }
            node.entry.extra.set(DIALECT, extra);
        }
        nodes
    }

    fn session(
        &self,
        name: &str,
        version: u64,
        dialect: Dialect,
        created: Option<Millis>,
        nodes: &[Node],
    ) -> Session {
        let header = self.header.as_ref().map(|(header, _)| header);
        let directory = header.and_then(|header| header.get("cwd")?.as_str()).unwrap_or_default();
        let created = created.or_else(|| Some(nodes.first()?.entry.time)).unwrap_or_default();
        let updated = nodes.iter().map(|node| node.entry.time).max().unwrap_or(created).max(created);
        let title = self.title(nodes);
        let id = SessionId::mint(Stamp::at(created, 1).descending(), digits(name));
        let mut session = Session::new(id, "global", directory, &title, dialect.name(), created);
        session.time.updated = updated;
        let mut extra = Map::new();
        extra.insert("dialect".to_owned(), dialect.name().into());
        extra.insert("version".to_owned(), version.into());
        for (name, found) in [("header", &self.header), ("slot", &self.slot)] {
            if let Some((map, line)) = found {
                let place = json!({"value": map, "start": line.start, "end": line.end});
                extra.insert(name.to_owned(), place);
            }
        }
        session.extra.set(DIALECT, extra);
        session
    }

    /// The session's name: the last one given, else that of omp's slot or header, else how the first message begins.
    fn title(&self, nodes: &[Node]) -> String {
        let given = nodes.iter().rev().find_map(|node| match &node.entry.body {
            Body::Title { title } => Some(title.clone()),
            _ => None,
        });
        let kept = [&self.slot, &self.header]
            .into_iter()
            .flatten()
            .find_map(|(map, _)| map.get("title").and_then(Value::as_str).map(str::trim))
            .filter(|title| !title.is_empty());
        let first = || {
            let user = nodes.iter().find(|node| matches!(node.entry.body, Body::User(_)))?;
            user.parts.iter().find_map(|part| match &part.kind {
                PartKind::Text { text, .. } => text.lines().find(|line| !line.trim().is_empty()),
                _ => None,
            })
        };
        let title =
            given.flatten().or_else(|| kept.map(str::to_owned)).or_else(|| first().map(str::to_owned));
        title.unwrap_or_default().trim().chars().take(TITLE).collect()
    }
}

fn is_header(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some(HEADER)
}

/// True for lines that pi counts as entries: JSON, and no header.
pub(super) fn is_counted(node: &Node) -> bool {
    !super::encode::is_unreadable(node)
        && !matches!(&node.entry.body, Body::Foreign { foreign_type } if foreign_type == HEADER)
}

fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn digits(name: &str) -> [u8; RANDOM] {
    let (low, high) = (fingerprint(name.as_bytes()), fingerprint(format!("{name}/session").as_bytes()));
    let mut digits = [0; RANDOM];
    for (digit, byte) in digits.iter_mut().zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes())) {
        *digit = byte;
    }
    digits
}
