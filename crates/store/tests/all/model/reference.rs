//! What the model knows: for each session its log, who has it, and which leases were lost.

use everturn_model::entry::{Body, Compaction};
use everturn_model::event::{Amendment, Cause, Seed};
use everturn_model::session::ForkOrigin;
use everturn_model::{Entry, EntryId, Event, Part, PartKind, Session, SessionId, Tokens, Tree, path};
use everturn_store::{ArchivedSessions, Filter, Lease};

use crate::events::{NOW, entry_id, note, part_id, permission, prompt, text};
use crate::story::Story;

/// A session in the model.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) story: Story,
    /// Who has the right to run it.
    pub(super) owner: Option<String>,
    pub(super) epoch: u64,
    /// Leases that hold no more.
    pub(super) lost: Vec<Lease>,
    pub(super) purged: bool,
}

impl Known {
    pub(super) fn new(story: Story) -> Self {
        Self { story, owner: None, epoch: 0, lost: Vec::new(), purged: false }
    }

    pub(super) fn id(&self) -> SessionId {
        self.story.tree.session.id.clone()
    }

    pub(super) fn session(&self) -> &Session {
        &self.story.tree.session
    }

    /// The lease of whoever has it.
    pub(super) fn lease(&self) -> Option<Lease> {
        let owner = self.owner.clone()?;
        Some(Lease { session: self.id(), owner, epoch: self.epoch, taken_from: None })
    }

    /// Whether it expects to go on.
    pub(super) fn unfinished(&self) -> bool {
        let tree = &self.story.tree;
        tree.session.time.trashed.is_none() && (tree.session.is_at_work() || !tree.inbox.is_empty())
    }
}

/// The sessions of a project that a list shows, in its order. They are given in the order of their creation.
pub(super) fn listed(known: &[Known], filter: &Filter) -> Vec<Session> {
    let fits = |session: &&Session| {
        filter.project.as_ref() == Some(&session.project)
            && filter.trashed == session.time.trashed.is_some()
            && match filter.archived {
                ArchivedSessions::Excluded => filter.trashed || session.time.archived.is_none(),
                ArchivedSessions::Included => true,
                ArchivedSessions::Only => session.time.archived.is_some(),
            }
    };
    let there = known.iter().rev().filter(|known| !known.purged).map(Known::session);
    let mut sessions: Vec<Session> = there.filter(fits).cloned().collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.time.updated));
    sessions
}

/// The copy of a path, under the ids that its entries have.
pub(super) fn copied(tree: &Tree, leaf: u16) -> Option<Event> {
    let nodes = tree.nodes();
    let leaf = nodes.get(usize::from(leaf) % nodes.len().max(1))?.entry.id.clone();
    let nodes = path::to(tree, Some(&leaf)).into_iter().cloned().collect();
    let origin = ForkOrigin { session: tree.session.id.clone(), entry: Some(leaf.clone()) };
    let seed = Seed { nodes, leaf: Some(leaf), todos: tree.todos.clone(), inbox: Vec::new() };
    Some(Event::SessionForked { origin, seed: Box::new(seed) })
}

/// An event that is strange here. Whether it fits is for the fold to say.
pub(super) fn odd(story: &Story, others: &[Known], odd: u8, a: u16, b: u16) -> Option<Event> {
    let tree = &story.tree;
    let leaf = tree.session.leaf.clone();
    let any = story.pick(a);
    let part_of = |entry: &EntryId| tree.node(entry).and_then(|node| node.parts.first()).cloned();
    Some(match odd % 20 {
        0 => Event::PromptCancelled { id: entry_id() },
        1 => Event::PromptPromoted { id: any.unwrap_or_else(entry_id), parent: leaf, revision: None },
        2 => Event::PartEnded {
            entry: any?,
            part: part_of(&story.pick(b)?)?.id,
            text: "odd".into(),
            metadata: None,
        },
        3 => Event::LeafMoved { from: leaf, to: Some(entry_id()), cause: Cause::Branch },
        4 => {
            let mut elsewhere = others.iter().flat_map(|known| known.story.tree.requests.values());
            let id =
                elsewhere.next().map_or_else(|| permission("per_nowhere").id, |request| request.id.clone());
            Event::RequestAnswered {
                id,
                call: None,
                reply: None,
                message: None,
                answers: None,
                follows: None,
            }
        }
        5 => Event::StepEnded {
            entry: any?,
            finish: "stop".into(),
            tokens: Tokens::default(),
            cost: everturn_model::Money::ZERO,
            snapshot: None,
            files: None,
            parts: story
                .pick(if b.is_multiple_of(2) { a } else { b })
                .and_then(|entry| part_of(&entry))
                .into_iter()
                .collect(),
            declined: false,
            estimated: false,
            error: None,
            structured: None,
        },
        6 => {
            let item = everturn_model::inbox::InboxItem { id: any?, ..prompt("under a taken id") };
            Event::PromptAdmitted { item: Box::new(item) }
        }
        7 => {
            let twice = text("twice");
            let item =
                everturn_model::inbox::InboxItem { parts: vec![twice.clone(), twice], ..prompt("odd") };
            Event::PromptAdmitted { item: Box::new(item) }
        }
        8 => {
            let entry = Entry { id: any?, ..note(leaf.as_ref(), "under a taken id") };
            Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() }
        }
        9 => {
            let entry = any?;
            let part = part_of(&entry)?;
            Event::PartStarted { entry, part: Box::new(Part { kind: PartKind::text("again"), ..part }) }
        }
        10 => Event::EntryAmended { entry: entry_id(), part: None, change: Amendment::Hide },
        11 => Event::EntryAmended { entry: any?, part: Some(part_id()), change: Amendment::Hide },
        12 => Event::CompactionEnded {
            entry: any?,
            summary: "odd".into(),
            first_kept: None,
            recent: None,
            carried: None,
            remains: Box::default(),
        },
        13 => Event::ShellEnded { entry: any?, output: "odd".into(), exit: None, part: None },
        14 => {
            let entry = any?;
            let part = part_of(&entry)?.id;
            let input = serde_json::Value::Null;
            Event::ToolCalled { entry, part, input, hosted: false, metadata: None, progress: None }
        }
        15 => {
            // The part is named by what replaces it alone.
            let entry = any?;
            let part = Part { kind: PartKind::text("replaced"), ..part_of(&entry)? };
            Event::EntryAmended { entry, part: None, change: Amendment::ReplacePart { part: Box::new(part) } }
        }
        16 => {
            let entry = note(leaf.as_ref(), "under another id");
            let change = Amendment::ReplaceEntry { entry: Box::new(entry) };
            Event::EntryAmended { entry: any?, part: None, change }
        }
        17 => {
            // Its parent is not there, as in some imports.
            let body = Body::Compaction(Compaction { summary: Some("odd".into()), ..Compaction::default() });
            let entry = Entry::new(entry_id(), Some(entry_id()), NOW, body);
            Event::EntryAdded { entry: Box::new(entry), parts: vec![text("odd")] }
        }
        18 => {
            // An import into a session that has something already.
            let entry = note(leaf.as_ref(), "came later");
            let seed = Seed { leaf: Some(entry.id.clone()), ..Seed::default() };
            let node = everturn_model::tree::Node::new(entry, vec![text("came later")]);
            let seed = Seed { nodes: vec![node], ..seed };
            Event::SessionImported { dialect: "pi".into(), seed: Box::new(seed) }
        }
        _ => {
            // A prompt waits under this id.
            let id = tree.inbox.iter().next()?.id.clone();
            let entry = Entry { id, ..note(leaf.as_ref(), "before the prompt") };
            Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() }
        }
    })
}
