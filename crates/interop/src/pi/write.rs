//! A tree as a session file.
//!
//! With the bytes that a session came from, whatever did not change is copied: entries, and also what lies between
//! them. Without them, every entry is written again from the tree. Entries made here follow in pi's version 3; pi takes
//! its last line for the leaf, so the file always ends at the session's leaf.

use everturn_model::entry::Assistant;
use everturn_model::tool::{ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{Body, Entry, EntryId, Finish, Map, Part, PartKind, Tokens, Tree};
use serde_json::{Value, json};

use super::DIALECT;
use super::decode::LEAF;
use super::encode::{self, EntryEncoder, is_unreadable};
use super::javascript::{self, stringify};
use super::line::{self, LineContent};
use super::names::{is_trailing, is_unwritten};
use super::read::is_counted;
use super::view::{encoder, part};

/// Writes a session as a file of pi or omp. `source` are the bytes that it was imported from.
#[must_use]
pub fn write(tree: &Tree, source: Option<&[u8]>) -> Vec<u8> {
    let mut writer = SessionFileWriter::new(tree);
    match source.and_then(|source| writer.pieces(source).map(|pieces| (source, pieces))) {
        Some((source, pieces)) => writer.splice(source, &pieces),
        None => writer.rewrite_all(),
    }
    writer.append();
    writer.out
}

/// A stretch of the source that something here stands for.
struct SourcePiece {
    start: usize,
    end: usize,
    now: PieceChange,
}

/// What becomes of it.
enum PieceChange {
    /// It is copied.
    Same,
    /// Another line stands there.
    Line(String),
    /// Its line goes.
    Gone,
}

struct SessionFileWriter<'t> {
    tree: &'t Tree,
    encoder: EntryEncoder,
    /// What came from a file, in its order.
    imported: Vec<&'t Node>,
    /// What was made here and is part of a conversation.
    native: Vec<&'t Node>,
    /// Labels and names made here.
    trailing: Vec<&'t Node>,
    /// Whether lines follow those of the source.
    grows: bool,
    out: Vec<u8>,
}

impl<'t> SessionFileWriter<'t> {
    fn new(tree: &'t Tree) -> Self {
        let (mut imported, mut native, mut trailing) = (Vec::new(), Vec::new(), Vec::new());
        for node in tree.nodes() {
            if node.entry.origin.is_some() {
                imported.push(node);
            } else if is_trailing(node) {
                trailing.push(node);
            } else if !is_unwritten(node) {
                native.push(node);
            }
        }
        trailing.retain(|node| !node.entry.hidden);
        imported.sort_by_key(|node| node.entry.origin.as_ref().map(|origin| origin.start));
        let mut writer =
            Self { tree, encoder: encoder(tree), imported, native, trailing, grows: false, out: Vec::new() };
        writer.grows = !writer.native.is_empty() || !writer.trailing.is_empty() || writer.needs_mark();
        for node in writer.native.clone() {
            writer.name_steps(node);
        }
        writer
    }

    /// The last entry that pi would see as the leaf.
    fn last(&self) -> Option<&EntryId> {
        let counted = |node: &&&Node| is_counted(node) && !is_unwritten(node);
        let imported = || self.imported.iter().rev().find(counted);
        self.native.last().or_else(imported).map(|node| &node.entry.id)
    }

    /// Whether the leaf would be lost, because it is not the last line.
    fn needs_mark(&self) -> bool {
        self.trailing.is_empty() && self.last() != self.tree.session.leaf.as_ref()
    }

    /// Whether entries of an older version are lifted to version 3: new ones need ids to point at.
    fn upgrades(&self) -> bool {
        self.grows && self.encoder.version < 3
    }

    fn entry(&self, node: &Node) -> Option<Value> {
        if self.upgrades() { self.encoder.current(node) } else { self.encoder.entry(node) }
    }

    fn line(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    /// The header, repaired where the file grows: pi empties a file whose header it cannot read.
    fn header(&self) -> Option<Map> {
        let session = &self.tree.session;
        let mut header = match part(self.tree, "header") {
            Some(header) => header.clone(),
            None => {
                let created = javascript::date(session.time.created).unwrap_or_default();
                let header = json!({"type": "session", "version": 3, "id": session.id.as_str(),
                    "timestamp": created, "cwd": session.directory});
                return header.as_object().cloned();
            }
        };
        if self.upgrades() {
            header.insert("version".to_owned(), 3.into());
        }
        if self.grows && !header.get("id").is_some_and(Value::is_string) {
            let id = header.get("id").filter(|id| !id.is_null()).map(stringify);
            header.insert("id".to_owned(), id.unwrap_or_else(|| session.id.to_string()).into());
        }
        Some(header)
    }

    /// Everything in the source that something here stands for; none when this is not where the session came from.
    fn pieces(&self, source: &[u8]) -> Option<Vec<SourcePiece>> {
        let mut pieces = Vec::with_capacity(self.imported.len() + 2);
        for name in ["slot", "header"] {
            let Some(place) = self.tree.session.extra.field(DIALECT, name) else { continue };
            let at =
                |name: &str| place.get(name).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
            let (start, end) = (at("start")?, at("end")?);
            let now = if name == "header" { self.header() } else { part(self.tree, "slot").cloned() };
            let now = compare(source.get(start..end)?, now.map(Value::Object).as_ref());
            pieces.push(SourcePiece { start, end, now });
        }
        for node in &self.imported {
            let origin = node.entry.origin.as_ref()?;
            let (start, end) = (usize::try_from(origin.start).ok()?, usize::try_from(origin.end).ok()?);
            let bytes = source.get(start..end)?;
            let now = if is_unwritten(node) {
                PieceChange::Gone
            } else {
                compare(bytes, self.entry(node).as_ref())
            };
            pieces.push(SourcePiece { start, end, now });
        }
        pieces.sort_by_key(|piece| piece.start);
        let apart = pieces.iter().zip(pieces.iter().skip(1)).all(|(piece, next)| piece.end <= next.start);
        apart.then_some(pieces)
    }

    /// The source with its pieces replaced.
    fn splice(&mut self, source: &[u8], pieces: &[SourcePiece]) {
        if self.grows && part(self.tree, "header").is_none() {
            let header = self.header().map(Value::Object).unwrap_or_default();
            self.line(&stringify(&header));
        }
        let mut at = 0;
        for piece in pieces {
            let before = source.get(at..piece.start).unwrap_or_default();
            at = piece.end;
            match &piece.now {
                PieceChange::Same => {
                    self.out.extend_from_slice(before);
                    self.out.extend_from_slice(source.get(piece.start..piece.end).unwrap_or_default());
                }
                PieceChange::Line(text) => {
                    self.out.extend_from_slice(before);
                    self.out.extend_from_slice(text.as_bytes());
                }
                PieceChange::Gone => {
                    self.out.extend_from_slice(before);
                    let rest = source.get(at..).unwrap_or_default();
                    at += ["\r\n", "\n"]
                        .iter()
                        .find(|end| rest.starts_with(end.as_bytes()))
                        .map_or(0, |end| end.len());
                }
            }
        }
        self.out.extend_from_slice(source.get(at..).unwrap_or_default());
        if self.grows && !self.out.is_empty() && !self.out.ends_with(b"\n") {
            self.out.push(b'\n');
        }
    }

    /// Every imported line, written again.
    fn rewrite_all(&mut self) {
        if let Some(slot) = part(self.tree, "slot") {
            let slot = stringify(&Value::Object(slot.clone()));
            self.line(&slot);
        }
        if let Some(header) = self.header() {
            self.line(&stringify(&Value::Object(header)));
        }
        for node in self.imported.clone() {
            if is_unwritten(node) {
                continue;
            }
            let raw = node.entry.extra.field(DIALECT, "raw").and_then(Value::as_str);
            match (is_unreadable(node), raw, self.entry(node)) {
                (true, Some(raw), _) => self.line(raw),
                (_, _, Some(entry)) => self.line(&stringify(&entry)),
                _ => {}
            }
        }
    }

    /// What was made here.
    fn append(&mut self) {
        for node in self.native.clone() {
            for value in self.steps(node) {
                self.line(&stringify(&value));
            }
        }
        let leaf = self.tree.session.leaf.as_ref();
        let mut end = self.encoder.names.parent(leaf).map(str::to_owned);
        let mut chain = Vec::new();
        for node in &self.trailing {
            if let Some(mut value) = self.encoder.entry(node) {
                put(&mut value, "parentId", end.clone());
                end = self.encoder.names.id(&node.entry.id).map(str::to_owned);
                chain.push(value);
            }
        }
        let titled = |node: &Node| matches!(node.entry.body, Body::Title { .. });
        let title = self.tree.session.title.as_str();
        if part(self.tree, "header").is_none()
            && !title.is_empty()
            && self.imported.is_empty()
            && !self.trailing.iter().any(|node| titled(node))
        {
            let id = self.encoder.names.derive(&format!("{}/title", self.tree.session.id));
            let mut value = self.made("session_info", &id, end.as_deref());
            put(&mut value, "name", Some(title.to_owned()));
            chain.push(value);
        }
        if chain.is_empty() && self.needs_mark() {
            let at = leaf.map_or("root", |leaf| leaf.as_str());
            let id = self.encoder.names.derive(&format!("{}/leaf/{at}", self.tree.session.id));
            let mut value = self.made("custom", &id, end.as_deref());
            put(&mut value, "customType", Some(LEAF.to_owned()));
            chain.push(value);
        }
        for value in chain {
            self.line(&stringify(&value));
        }
    }

    fn made(&self, kind: &str, id: &str, parent: Option<&str>) -> Value {
        let time = javascript::date(self.tree.session.time.updated).unwrap_or_default();
        json!({"type": kind, "id": id, "parentId": parent, "timestamp": time})
    }

    /// Names the lines that an assistant becomes beyond its first, so that its children can follow the last.
    fn name_steps(&mut self, node: &Node) {
        let more = steps(node).iter().map(AssistantStep::lines).sum::<usize>().saturating_sub(1);
        if more > 0 {
            let tail = self.step_id(node, more);
            self.encoder.names.continue_at(&node.entry.id, tail);
        }
    }

    fn step_id(&self, node: &Node, at: usize) -> String {
        match (at, self.encoder.names.id(&node.entry.id)) {
            (0, Some(id)) => id.to_owned(),
            // Part of an entry: its own id with a number cannot be one of pi's eight digits.
            (_, id) => format!("{}-{at}", id.unwrap_or_default()),
        }
    }

    /// The lines of an entry. pi keeps each step and each result apart; an assistant of another program may hold several.
    fn steps(&self, node: &Node) -> Vec<Value> {
        let steps = steps(node);
        let single = steps.len() == 1 && steps.iter().all(|step| step.results.is_empty());
        if steps.is_empty() || single {
            return self.encoder.entry(node).into_iter().collect();
        }
        let mut values = Vec::new();
        let mut parent = self.encoder.names.parent(node.entry.parent.as_ref()).map(str::to_owned);
        for step in steps {
            let mut lines = vec![self.encoder.typed(&step.node)];
            lines.extend(step.results.iter().map(|result| {
                let time = result.end.unwrap_or(step.node.entry.time);
                json!({"type": "message", "id": "", "parentId": null,
                    "timestamp": javascript::date(time).unwrap_or_default(),
                    "message": encode::tool_result(time, result)})
            }));
            for mut line in lines {
                let id = self.step_id(node, values.len());
                put(&mut line, "id", Some(id.clone()));
                put(&mut line, "parentId", parent.replace(id));
                values.push(line);
            }
        }
        values
    }
}

/// One step of an assistant, with the results that it holds itself.
struct AssistantStep {
    node: Node,
    results: Vec<ToolResult>,
}

impl AssistantStep {
    fn lines(&self) -> usize {
        1 + self.results.len()
    }
}

/// The steps of an assistant; nothing for other entries.
fn steps(node: &Node) -> Vec<AssistantStep> {
    let Body::Assistant(whole) = &node.entry.body else { return Vec::new() };
    let mut groups: Vec<Vec<&Part>> = vec![Vec::new()];
    for part in &node.parts {
        if matches!(part.kind, PartKind::StepStart { .. })
            && groups.last().is_some_and(|group| !group.is_empty())
        {
            groups.push(Vec::new());
        }
        if let Some(group) = groups.last_mut() {
            group.push(part);
        }
    }
    let count = groups.len();
    let step = |(at, group): (usize, Vec<&Part>)| {
        let last = at + 1 == count;
        let mut assistant = whole.clone();
        if !last {
            let idle = Assistant { tokens: Tokens::default(), error: None, ..whole.clone() };
            assistant =
                Assistant { cost: everturn_model::Money::ZERO, finish: Some(Finish::ToolCalls), ..idle };
        }
        let finish = group.iter().find_map(|part| match &part.kind {
            PartKind::StepFinish { reason, tokens, cost, .. } => Some((reason.clone(), *tokens, *cost)),
            _ => None,
        });
        if let Some((reason, tokens, cost)) = finish.filter(|_| count > 1) {
            (assistant.finish, assistant.tokens, assistant.cost) = (Some(reason), tokens, cost);
        }
        let results = group.iter().filter(|part| !part.hidden).filter_map(|part| match &part.kind {
            PartKind::Tool {
                state: ToolState::Completed { result, .. } | ToolState::Error { result, .. },
                ..
            } => Some((**result).clone()),
            _ => None,
        });
        let results = results.collect();
        let entry = Entry { body: Body::Assistant(assistant), ..node.entry.clone() };
        AssistantStep { node: Node::new(entry, group.into_iter().cloned().collect()), results }
    };
    groups.into_iter().enumerate().map(step).collect()
}

fn put(value: &mut Value, name: &str, text: Option<String>) {
    if let Some(map) = value.as_object_mut() {
        map.insert(name.to_owned(), text.into());
    }
}

/// What becomes of a stretch of the source that is to mean `value`; none means whatever it is.
fn compare(bytes: &[u8], value: Option<&Value>) -> PieceChange {
    let Some(value) = value else { return PieceChange::Same };
    match line::parse(bytes) {
        LineContent::Value { value: found, .. } if &found == value => PieceChange::Same,
        _ => PieceChange::Line(stringify(value)),
    }
}
