//! What pi or omp make of a tree: entries, branches, labels, names, listing.
//!
//! A view is made from the model's nodes alone. By default it follows the links as the file had them, so that it shows
//! what the program itself shows, a cut-off history included; [`PiView::mended`] follows the links of the model, which is
//! what Everturn goes on from.

use std::collections::{HashMap, HashSet};

use everturn_model::tree::Node;
use everturn_model::{Body, EntryId, Map, Millis, Tree};
use serde_json::{Value, json};

use super::decode::HEADER;
use super::encode::EntryEncoder;
use super::file::Dialect;
use super::names::{EntryNames, is_unwritten};
use super::read::is_counted;
use super::{DIALECT, context, javascript, omp};

/// Above this many entries a tree is shown flat: nesting has no bound in a conversation.
const NESTED: usize = 400;

/// Which program's eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// pi 0.73.1.
    Pi,
    /// omp 18.2.3.
    Omp18,
}

/// Where a path ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEnd {
    /// At the session's leaf.
    Current,
    /// Before the first entry.
    Root,
    /// At this entry.
    At(EntryId),
}

/// What pi shows of a session in its list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionListing {
    /// The session's id there.
    pub id: Value,
    /// The folder.
    pub cwd: String,
    /// Its name.
    pub name: Option<String>,
    /// The session it was forked from.
    pub parent_session: Option<String>,
    /// When it was created.
    pub created: Option<Millis>,
    /// The newest message of a person or a model.
    pub modified: Option<Millis>,
    /// How many messages there are, on all branches.
    pub messages: usize,
    /// The first thing that a person wrote.
    pub first_message: String,
    /// Everything that people and models wrote.
    pub text: String,
}

/// A tree as a program sees it.
#[derive(Debug)]
pub struct PiView<'t> {
    tree: &'t Tree,
    program: Program,
    encoder: EntryEncoder,
    mended: bool,
    /// The nodes that the program counts, in order.
    entries: Vec<&'t Node>,
    /// The last entry with each of pi's ids; none stands for entries that have no id.
    index: HashMap<Option<String>, &'t Node>,
}

impl<'t> PiView<'t> {
    /// What `program` makes of a tree.
    #[must_use]
    pub fn new(tree: &'t Tree, program: Program) -> Self {
        let encoder = encoder(tree);
        let entries: Vec<&Node> = tree.nodes().iter().filter(|node| counts(node, program)).collect();
        let index =
            entries.iter().map(|node| (encoder.names.id(&node.entry.id).map(str::to_owned), *node)).collect();
        Self { tree, program, encoder, mended: false, entries, index }
    }

    /// The same through the model's own links, where the file's are damaged.
    #[must_use]
    pub fn mended(mut self) -> Self {
        self.mended = true;
        self
    }

    /// The entry that one of pi's ids means: the last that has it.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&'t EntryId> {
        self.index.get(&Some(id.to_owned())).map(|node| &node.entry.id)
    }

    /// The id by which the program knows an entry.
    #[must_use]
    pub fn name_of(&self, entry: &EntryId) -> Option<&str> {
        self.encoder.names.id(entry)
    }

    /// The entries that the program counts.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &'t EntryId> {
        self.entries.iter().map(|node| &node.entry.id)
    }

    /// An entry as the program holds it in memory, in version 3.
    #[must_use]
    pub fn entry(&self, id: &EntryId) -> Option<Value> {
        self.tree.node(id).and_then(|node| self.encode(node))
    }

    /// The session header as the program holds it in memory.
    #[must_use]
    pub fn header(&self) -> Option<Map> {
        let mut header = part(self.tree, "header")?.clone();
        if self.encoder.version < 3 {
            header.insert("version".to_owned(), 3.into());
        }
        if let (Program::Omp18, Some(slot)) = (self.program, part(self.tree, "slot")) {
            for (from, to) in [("title", "title"), ("source", "titleSource")] {
                match slot.get(from).filter(|value| value.as_str() != Some("")) {
                    Some(value) => header.insert(to.to_owned(), value.clone()),
                    None => header.shift_remove(to),
                };
            }
        }
        Some(header)
    }

    /// The context of a path.
    #[must_use]
    pub fn context(&self, leaf: &PathEnd) -> Value {
        let path = self.path(leaf);
        match self.program {
            Program::Pi => context::build(self, &path),
            Program::Omp18 => omp::build(self, &path),
        }
    }

    /// The entries from the root to a leaf.
    #[must_use]
    pub fn branch(&self, leaf: &PathEnd) -> Vec<&'t EntryId> {
        self.path(leaf).into_iter().map(|node| &node.entry.id).collect()
    }

    /// The entries that follow an entry.
    #[must_use]
    pub fn children(&self, id: &EntryId) -> Vec<&'t EntryId> {
        let own = |node: &&&Node| {
            let name = self.encoder.names.id(&node.entry.id).map(str::to_owned);
            self.index.get(&name).is_some_and(|last| last.entry.id == node.entry.id)
                && self.counted_parent(node).is_some_and(|parent| &parent.entry.id == id)
        };
        self.entries.iter().filter(own).map(|node| &node.entry.id).collect()
    }

    /// Bookmarks and when they were set: the last for each entry, whatever branch it is on.
    #[must_use]
    pub fn labels(&self) -> HashMap<&'t EntryId, (&'t str, Millis)> {
        let mut labels = HashMap::new();
        for node in &self.entries {
            match &node.entry.body {
                Body::Label { target: Some(target), label: Some(label) } => {
                    labels.insert(target, (label.as_str(), node.entry.time));
                }
                Body::Label { target: Some(target), label: None } => drop(labels.remove(target)),
                _ => {}
            }
        }
        labels
    }

    /// The session's name: the last one given, on any branch.
    #[must_use]
    pub fn name(&self) -> Option<&'t str> {
        let last = self.entries.iter().rev().find_map(|node| match &node.entry.body {
            Body::Title { title } => Some(title.as_deref()),
            _ => None,
        });
        last.flatten()
    }

    /// The tree: roots with their children, or, above 400 entries, a flat list in preorder with depths.
    #[must_use]
    pub fn tree(&self) -> Value {
        let forest = Forest::new(self);
        if self.entries.len() > NESTED { forest.flat() } else { forest.nested() }
    }

    /// What the program shows in its list of sessions; none where it takes the file for no session.
    #[must_use]
    pub fn listing(&self) -> Option<SessionListing> {
        let header = part(self.tree, "header")?;
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let created = text("timestamp").and_then(javascript::moment);
        let mut listing = SessionListing {
            id: header.get("id").cloned().unwrap_or_default(),
            cwd: text("cwd").unwrap_or_default().to_owned(),
            name: self.name().map(str::to_owned),
            parent_session: text("parentSession").map(str::to_owned),
            created,
            modified: None,
            messages: 0,
            first_message: String::new(),
            text: String::new(),
        };
        let mut texts = Vec::new();
        for node in &self.entries {
            self.list(node, &mut listing, &mut texts);
        }
        listing.text = texts.join(" ");
        listing.modified = listing.modified.or(created);
        if listing.first_message.is_empty() {
            listing.first_message = "(no messages)".to_owned();
        }
        Some(listing)
    }

    fn list(&self, node: &Node, listing: &mut SessionListing, texts: &mut Vec<String>) {
        let Some(Value::Object(entry)) = self.encode(node) else { return };
        if entry.get("type").and_then(Value::as_str) != Some("message") {
            return;
        }
        listing.messages += 1;
        let Some(message) = entry.get("message") else { return };
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            return;
        }
        let own = message.get("timestamp").and_then(Value::as_i64);
        let time = own.or_else(|| javascript::moment(entry.get("timestamp")?.as_str()?));
        listing.modified = listing.modified.max(time);
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(blocks)) => {
                let texts =
                    blocks.iter().filter(|block| block.get("type").is_some_and(|kind| kind == "text"));
                texts.filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join(" ")
            }
            _ => return,
        };
        if text.is_empty() {
            return;
        }
        if listing.first_message.is_empty() && role == "user" {
            listing.first_message.clone_from(&text);
        }
        texts.push(text);
    }

    pub(super) fn encode(&self, node: &Node) -> Option<Value> {
        self.encoder.current(node)
    }

    /// The entry that a node follows: by the model, or as its line says.
    fn parent(&self, node: &Node) -> Option<&'t Node> {
        if self.mended || node.entry.extra.field(DIALECT, "mended").is_none() {
            return self.tree.node(node.entry.parent.as_ref()?);
        }
        let written = written_parent(node)?;
        self.index.get(&Some(written.to_owned())).copied()
    }

    /// The nearest entry above a node that the program counts.
    fn counted_parent(&self, node: &Node) -> Option<&'t Node> {
        let mut next = self.parent(node)?;
        for _ in 0..self.tree.nodes().len() {
            if self.counts(next) {
                return Some(next);
            }
            next = self.parent(next)?;
        }
        None
    }

    fn counts(&self, node: &Node) -> bool {
        counts(node, self.program)
    }

    fn path(&self, leaf: &PathEnd) -> Vec<&'t Node> {
        let mut next = match leaf {
            PathEnd::Current => self.tree.session.leaf.as_ref().and_then(|id| self.tree.node(id)),
            PathEnd::Root => None,
            PathEnd::At(id) => self.tree.node(id),
        };
        let mut path = Vec::new();
        let mut seen = HashSet::new();
        while let Some(node) = next
            && seen.insert(&node.entry.id)
        {
            if !is_unwritten(node) {
                path.push(node);
            }
            next = self.parent(node);
        }
        path.reverse();
        path
    }
}

/// What encoding a tree's entries needs.
pub(super) fn encoder(tree: &Tree) -> EntryEncoder {
    let field = |name: &str| tree.session.extra.field(DIALECT, name);
    let version = field("version").and_then(Value::as_u64).unwrap_or(3);
    let dialect = Dialect::of(field("dialect").and_then(Value::as_str).unwrap_or_default());
    EntryEncoder { names: EntryNames::of(tree.nodes(), version), dialect, version }
}

/// The header or title slot that came with a session.
pub(super) fn part<'t>(tree: &'t Tree, name: &str) -> Option<&'t Map> {
    tree.session.extra.field(DIALECT, name)?.get("value")?.as_object()
}

/// omp counts a second header as an entry; pi does not.
fn counts(node: &Node, program: Program) -> bool {
    !is_unwritten(node) && (is_counted(node) || (program == Program::Omp18 && is_header(node)))
}

fn is_header(node: &Node) -> bool {
    matches!(&node.entry.body, Body::Foreign { foreign_type } if foreign_type == HEADER)
}

/// The parent that a damaged line names.
fn written_parent(node: &Node) -> Option<&str> {
    node.entry.extra.field(DIALECT, "set")?.get("parentId")?.as_str()
}

/// The tree as the programs build it: one node for each id, under every entry that repeats it.
struct Forest<'v, 't> {
    view: &'v PiView<'t>,
    items: Vec<ForestNode>,
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
}

/// A node of the forest.
struct ForestNode {
    fields: Map,
    time: Option<Millis>,
}

impl<'v, 't> Forest<'v, 't> {
    fn new(view: &'v PiView<'t>) -> Self {
        let labels = view.labels();
        let name = |node: &Node| view.encoder.names.id(&node.entry.id).map(str::to_owned);
        let at: HashMap<&EntryId, usize> =
            view.entries.iter().enumerate().map(|(at, node)| (&node.entry.id, at)).collect();
        let last = |node: &Node| view.index.get(&name(node)).and_then(|last| at.get(&last.entry.id)).copied();
        let mut forest = Self {
            view,
            items: Vec::with_capacity(view.entries.len()),
            roots: Vec::new(),
            children: vec![Vec::new(); view.entries.len()],
        };
        for node in &view.entries {
            let entry = view.encode(node).unwrap_or_default();
            forest.items.push(item(view, node, &entry, labels.get(&node.entry.id)));
        }
        for node in &view.entries {
            let Some(own) = last(node) else { continue };
            let parent = view.counted_parent(node).and_then(last).filter(|parent| *parent != own);
            match parent.and_then(|parent| forest.children.get_mut(parent)) {
                Some(children) => children.push(own),
                None => forest.roots.push(own),
            }
        }
        let items = &forest.items;
        for children in &mut forest.children {
            let time = |at: &usize| items.get(*at).and_then(|item| item.time);
            // A date that cannot be read compares with nothing; then the order of the file stays.
            if children.iter().all(|at| time(at).is_some()) {
                children.sort_by_key(time);
            }
        }
        forest
    }

    /// All items in preorder with their depth. Repeated ids make the tree a web, so what is shown more than once is
    /// bounded.
    fn preorder(&self) -> Vec<(usize, usize)> {
        let mut order = Vec::new();
        let mut stack: Vec<(usize, usize)> = self.roots.iter().rev().map(|root| (0, *root)).collect();
        let mut shown = HashSet::new();
        let bound = self.items.len() + 2 * NESTED;
        while let Some((depth, at)) = stack.pop() {
            order.push((depth, at));
            if !shown.insert(at) && order.len() > bound {
                continue;
            }
            let children = self.children.get(at).into_iter().flatten().rev();
            stack.extend(children.map(|child| (depth + 1, *child)));
            if order.len() > 4 * bound {
                break;
            }
        }
        order
    }

    fn nested(&self) -> Value {
        // Built from the end: a node takes the deeper ones that were finished after it.
        let mut open: Vec<(usize, Value)> = Vec::new();
        for (depth, at) in self.preorder().into_iter().rev() {
            let mut children = Vec::new();
            while let Some((_, child)) = open.pop_if(|(below, _)| *below > depth) {
                children.push(child);
            }
            let mut fields = self.items.get(at).map(|item| item.fields.clone()).unwrap_or_default();
            fields.insert("children".to_owned(), children.into());
            open.push((depth, fields.into()));
        }
        open.into_iter().rev().map(|(_, root)| root).collect::<Vec<_>>().into()
    }

    fn flat(&self) -> Value {
        let row = |(depth, at): (usize, usize)| {
            let fields = self.items.get(at).map(|item| &item.fields);
            let mut row = Map::new();
            row.insert("depth".to_owned(), depth.into());
            for name in ["id", "type", "label"] {
                if let Some(value) = fields.and_then(|fields| fields.get(name)) {
                    row.insert(name.to_owned(), value.clone());
                }
            }
            Value::Object(row)
        };
        debug_assert!(self.items.len() == self.view.entries.len());
        self.preorder().into_iter().map(row).collect::<Vec<_>>().into()
    }
}

fn item(view: &PiView<'_>, node: &Node, entry: &Value, label: Option<&(&str, Millis)>) -> ForestNode {
    let mut fields = Map::new();
    let names: &[&str] =
        if view.program == Program::Pi { &["id", "parentId", "type"] } else { &["id", "type"] };
    for name in names {
        if let Some(value) = entry.get(*name) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
    if let Some(role) = entry.get("message").and_then(|message| message.get("role")) {
        fields.insert("role".to_owned(), role.clone());
    }
    if let Some((label, time)) = label {
        fields.insert("label".to_owned(), json!(label));
        if view.program == Program::Pi {
            fields.insert("labelTimestamp".to_owned(), json!(javascript::date(*time)));
        }
    }
    let time = entry.get("timestamp").and_then(Value::as_str).and_then(javascript::moment);
    ForestNode { fields, time: time.or_else(|| node.entry.origin.is_none().then_some(node.entry.time)) }
}
