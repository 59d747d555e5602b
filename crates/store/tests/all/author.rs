//! Makes events that make sense: what the owner of a session writes, and what anybody may write beside it.
//!
//! An author keeps the tree of its session and folds in what it writes, so that each event fits those before it. What
//! others wrote in between it reads from the log.

use everturn_model::entry::{Assistant, Body, Entry, User};
use everturn_model::event::{Amendment, Cause, SessionChange};
use everturn_model::fault::Fault;
use everturn_model::finish::Finish;
use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::{PartKind, Span};
use everturn_model::request::{Ask, Request};
use everturn_model::session::{ModelRef, Revert};
use everturn_model::todo::Todo;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{
    EntryId, Event, EventId, Extra, Map, Money, Part, PartId, Record, RequestId, Session, SessionId, Tokens,
    Tree, fold,
};
use everturn_store::{Appended, Error, NewEvent, Store};
use serde_json::json;

const TIME: i64 = 1_794_711_664_171;

/// Numbers that follow from a seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Self(seed);
        // Neighbouring seeds shall not begin alike.
        let first = chance.next();
        Self(first ^ seed.rotate_left(32))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another one.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count.max(1)).unwrap()).unwrap()
    }

    fn bytes(&mut self) -> [u8; RANDOM] {
        let mut bytes = [0; RANDOM];
        let (low, high) = (self.next().to_le_bytes(), self.next().to_le_bytes());
        bytes.iter_mut().zip(low.into_iter().chain(high)).for_each(|(byte, random)| *byte = random);
        bytes
    }
}

/// Writes one session.
pub(crate) struct Author {
    pub(crate) chance: Chance,
    tree: Tree,
    seq: u64,
    count: u64,
    /// One text of so many is longer than what is kept in a row; 0 means none.
    pub(crate) large: u64,
    /// So many events at once at most.
    pub(crate) most: u64,
}

impl Author {
    /// A session that does not exist yet, and the event that creates it.
    pub(crate) fn create(id: &SessionId, seed: u64) -> (Self, NewEvent) {
        let mut chance = Chance::new(seed);
        let session = Session::new(id.clone(), "global", "/srv/demo", "New session", "0.1.0", TIME);
        let event = Event::SessionCreated { session: Box::new(session.clone()) };
        let new = NewEvent { id: EventId::mint(Stamp::at(TIME, 0), chance.bytes()), time: TIME, event };
        (Self { chance, tree: Tree::new(session), seq: 0, count: 0, large: 80, most: 5 }, new)
    }

    /// Somebody who writes without looking: only [`Self::open`] makes events that fit then.
    pub(crate) fn blind(id: &SessionId, seed: u64) -> Self {
        Self::create(id, seed).0
    }

    /// A session that exists.
    pub(crate) async fn resume(store: &Store, id: &SessionId, seed: u64) -> Result<Option<Self>, Error> {
        let log = store.events(id, None, usize::MAX).await?;
        let Some(tree) = fold::replay(&log).unwrap() else { return Ok(None) };
        let seq = log.last().map_or(0, |record| record.seq);
        Ok(Some(Self { chance: Chance::new(seed), tree, seq, count: 0, large: 80, most: 5 }))
    }

    pub(crate) fn session(&self) -> SessionId {
        self.tree.session.id.clone()
    }

    /// Takes note of an answer, and of what others wrote before it.
    pub(crate) async fn answered(&mut self, store: &Store, appended: &Appended) -> Result<(), Error> {
        let missed = usize::try_from(appended.first - self.seq - 1).unwrap();
        if missed > 0 {
            for record in store.events(&self.session(), Some(self.seq), missed).await? {
                // Folded in later than it happened, which is good enough to know what fits.
                fold::apply(&mut self.tree, &record).unwrap();
            }
        }
        self.seq = appended.seq;
        Ok(())
    }

    /// The next events of the owner, one or some.
    pub(crate) fn owned(&mut self) -> Vec<NewEvent> {
        let count = 1 + self.chance.below(self.most);
        let mut events = Vec::new();
        for _ in 0..count {
            let event = self.owned_event();
            events.push(self.record(event));
        }
        events
    }

    /// Events that fit whatever others did, one or some.
    pub(crate) fn open(&mut self) -> Vec<NewEvent> {
        let count = 1 + self.chance.below(self.most);
        let mut events = Vec::new();
        for _ in 0..count {
            let event = self.open_event();
            events.push(self.record(event));
        }
        events
    }

    /// A part that is being streamed.
    pub(crate) fn streaming(&self) -> Option<(EntryId, PartId)> {
        let entry = self.open_step()?;
        let node = self.tree.node(&entry)?;
        let open =
            |part: &&Part| matches!(part.kind, PartKind::Text { time: Some(Span { end: None, .. }), .. });
        node.parts.iter().find(open).map(|part| (entry.clone(), part.id.clone()))
    }

    /// Folds an event into the tree and gives it an id.
    pub(crate) fn record(&mut self, event: Event) -> NewEvent {
        self.count += 1;
        let id = EventId::mint(self.stamp(), self.chance.bytes());
        let time = TIME + i64::try_from(self.count).unwrap_or(0);
        let session = self.session();
        let record = Record { id, session, seq: self.seq + 1, time, event, subject: None };
        fold::apply(&mut self.tree, &record).unwrap();
        NewEvent { id: record.id, time, event: record.event }
    }

    fn stamp(&mut self) -> Stamp {
        self.count += 1;
        Stamp::at(TIME, self.count)
    }

    fn entry_id(&mut self) -> EntryId {
        EntryId::mint(self.stamp(), self.chance.bytes())
    }

    fn part_id(&mut self) -> PartId {
        PartId::mint(self.stamp(), self.chance.bytes())
    }

    /// A text; seldom a long one, which hardly gets shorter when it is compressed.
    fn text(&mut self) -> String {
        let start = format!("text {} é\n", self.chance.next());
        if self.large == 0 || self.chance.below(self.large) != 0 {
            return start;
        }
        let length = 66_000 + self.chance.index(20_000);
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            // Letters and signs that JSON leaves as they are.
            bytes.extend(self.chance.next().to_le_bytes().map(|byte| 0x5d + byte % 32));
        }
        start + &String::from_utf8(bytes).unwrap()
    }

    fn open_step(&self) -> Option<EntryId> {
        let open = self.tree.session.leaf.as_ref().and_then(|leaf| self.tree.node(leaf));
        let open = open.filter(|node| node.entry.body.assistant().is_some_and(|a| a.completed.is_none()));
        open.map(|node| node.entry.id.clone())
    }

    fn owned_event(&mut self) -> Event {
        match self.open_step() {
            Some(entry) => self.step_event(entry),
            None => self.idle_event(),
        }
    }

    /// What happens while the model answers.
    fn step_event(&mut self, entry: EntryId) -> Event {
        let unfinished = self.tree.node(&entry).and_then(|node| {
            let open = |part: &&Part| {
                matches!(
                    &part.kind,
                    PartKind::Text { time: Some(Span { end: None, .. }), .. }
                        | PartKind::Tool { state: ToolState::Pending { .. }, .. }
                )
            };
            node.parts.iter().find(open).cloned()
        });
        let text = self.text();
        match unfinished {
            Some(Part { id, kind: PartKind::Tool { .. }, .. }) => Event::ToolCalled {
                entry,
                part: id,
                input: json!({"command": text}),
                hosted: false,
                metadata: None,
                progress: None,
            },
            Some(part) => Event::PartEnded { entry, part: part.id, text, metadata: None },
            None => match self.chance.below(5) {
                0 | 1 => {
                    let time = Some(Span { start: TIME, end: None });
                    let text = String::new();
                    let kind = PartKind::Text { text, synthetic: None, ignored: None, time, metadata: None };
                    Event::PartStarted { entry, part: Box::new(Part::new(self.part_id(), kind)) }
                }
                2 => {
                    let state = ToolState::Pending { input: json!({}), raw: String::new() };
                    let call = format!("call_{}", self.chance.next());
                    let kind =
                        PartKind::Tool { call, tool: "bash".into(), state, hosted: false, metadata: None };
                    Event::PartStarted { entry, part: Box::new(Part::new(self.part_id(), kind)) }
                }
                3 => Event::StepFailed {
                    entry,
                    error: Fault::internal(text),
                    resumes: false,
                    remains: Box::default(),
                },
                _ => {
                    let tokens = Tokens { input: self.chance.below(900), output: 7, ..Tokens::default() };
                    let (finish, cost) = (Finish::Stop, Money::from_f64(0.001));
                    let (snapshot, files, parts) = (None, None, Vec::new());
                    Event::StepEnded {
                        entry,
                        finish,
                        tokens,
                        cost,
                        snapshot,
                        files,
                        parts,
                        declined: false,
                        estimated: false,
                        error: None,
                        structured: None,
                    }
                }
            },
        }
    }

    /// What happens between answers.
    fn idle_event(&mut self) -> Event {
        let leaf = self.tree.session.leaf.clone();
        if let Some(id) = self.tree.inbox.iter().next().map(|item| item.id.clone()) {
            return Event::PromptPromoted { id, parent: leaf, revision: None };
        }
        let nodes = self.tree.nodes().len();
        let some = self.chance.index(nodes);
        let some = self.tree.nodes().get(some).map(|node| node.entry.id.clone());
        match (self.chance.below(10), some) {
            (0, Some(entry)) => Event::EntryAmended { entry, part: None, change: Amendment::Hide },
            (1, Some(entry)) => Event::EntryAmended { entry, part: None, change: Amendment::Unhide },
            (2, Some(message)) => {
                Event::RevertStaged { revert: Box::new(Revert::new(message)), summary: None }
            }
            (3, to) => {
                let cause = match &self.tree.session.revert {
                    Some(revert) => Cause::Revert { message: revert.message.clone() },
                    None => Cause::Branch,
                };
                Event::LeafMoved { from: leaf, to, cause }
            }
            (4, _) => {
                let (call, text) = (format!("call_{}", self.chance.next()), self.text());
                let result = Box::new(ToolResult::new(&call, "bash", Outcome::Completed, &text));
                let entry = Entry::new(self.entry_id(), leaf, TIME, Body::ToolResult { result });
                Event::ToolSettled { entry: Box::new(entry), assistant: None, part: None }
            }
            (5, _) => {
                let body = Body::Synthetic { text: Some(self.text()), origin_type: None, display: None };
                let entry = Box::new(Entry::new(self.entry_id(), leaf, TIME, body));
                Event::EntryAdded { entry, parts: Vec::new() }
            }
            _ => {
                let model = ModelRef { provider: "p".into(), model: "m".into(), variant: None };
                let body = Body::Assistant(Assistant { model: Some(model), ..Assistant::default() });
                Event::StepStarted {
                    entry: Box::new(Entry::new(self.entry_id(), leaf, TIME, body)),
                    frame: None,
                }
            }
        }
    }

    fn open_event(&mut self) -> Event {
        let text = self.text();
        match self.chance.below(5) {
            0 | 1 => {
                let item = InboxItem {
                    id: self.entry_id(),
                    time: TIME,
                    delivery: if self.chance.below(2) == 0 { Delivery::Steer } else { Delivery::Queue },
                    reply: true,
                    user: User { agent: Some("build".into()), ..User::default() },
                    parts: vec![Part::new(self.part_id(), PartKind::text(text))],
                    extra: Extra::default(),
                    resume: true,
                    place: None,
                    revision: 0,
                };
                Event::PromptAdmitted { item: Box::new(item) }
            }
            2 => Event::TitleChanged { entry: self.entry_id(), parent: None, title: text, replaces: None },
            3 => {
                let status = if self.chance.below(2) == 0 { "pending" } else { "completed" };
                let (status, priority) = (status.to_owned(), "low".to_owned());
                Event::TodoUpdated {
                    todos: vec![Todo { content: text, status, priority, extra: Map::new() }],
                }
            }
            _ if self.chance.below(2) == 0 => {
                let metadata = json!({"note": text}).as_object().cloned();
                Event::SessionChanged { changes: vec![SessionChange::Metadata { metadata }] }
            }
            _ => {
                let (permission, patterns, always) = ("bash".to_owned(), vec![text], Vec::new());
                let ask = Ask::Permission { permission, patterns, always, metadata: Map::new() };
                let id = RequestId::mint(self.stamp(), self.chance.bytes());
                Event::RequestAsked { request: Box::new(Request::new(id, TIME, ask, None)) }
            }
        }
    }
}
