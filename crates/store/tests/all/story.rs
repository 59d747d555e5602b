//! Random histories that make sense: numbers become events that fit the session so far.

use everturn_model::compaction::{CarriedContext, Pins};
use everturn_model::entry::{Assistant, Body, Compaction, Entry, Pair, Shell, User, UserSummary};
use everturn_model::event::{Amendment, Cause, Seed, SessionChange, StepRemains};
use everturn_model::fault::{Fault, FaultKind};
use everturn_model::frame::{CallsWanted, RequestDigests, RequestFrame};
use everturn_model::ids::RANDOM;
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::{PartKind, Span};
use everturn_model::request::{Ask, CallRef, PROJECT_TRUST, Reply, Request};
use everturn_model::session::{ForkOrigin, ModelRef, Revert, Summary};
use everturn_model::subject::Subject;
use everturn_model::todo::Todo;
use everturn_model::tool::{FileForecast, Outcome, ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{
    EntryId, Event, EventId, Extra, Map, Money, Part, PartId, Record, RequestId, Session, SessionId, Tokens,
    Tree, fold,
};
use serde_json::json;

use crate::events::{NOW, entry_id, part_id, stamp};

/// A decision of a random history: what to try next, and two numbers to choose with.
pub(crate) type Step = (u8, u16, u16);

/// Turns random numbers into events that make sense for the tree so far.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) tree: Tree,
    pub(crate) records: Vec<Record>,
}

impl Story {
    /// A session as it begins.
    pub(crate) fn begin(session: Session) -> Self {
        let record = Record {
            id: EventId::mint(stamp(), [9; RANDOM]),
            session: session.id.clone(),
            seq: 0,
            time: NOW,
            event: Event::SessionCreated { session: Box::new(session) },
            subject: None,
        };
        Self { tree: fold::begin(&record).unwrap(), records: vec![record] }
    }

    /// A history that is known.
    pub(crate) fn of(records: Vec<Record>) -> Self {
        Self { tree: fold::replay(&records).unwrap().unwrap(), records }
    }

    /// Any entry.
    pub(crate) fn pick(&self, by: u16) -> Option<EntryId> {
        let nodes = self.tree.nodes();
        nodes.get(usize::from(by) % nodes.len().max(1)).map(|node| node.entry.id.clone())
    }

    /// A call of the open turn, named by its part or only by its id.
    fn caller(&self, by: u16) -> Option<CallRef> {
        let entry = self.open_assistant()?;
        let parts = self.tree.node(&entry)?.parts.iter().filter(|part| part.kind.call().is_some());
        let parts: Vec<&Part> = parts.collect();
        let part = parts.get(usize::from(by) % parts.len().max(1))?;
        let call = part.kind.call()?.to_owned();
        Some(CallRef { entry, call, part: (!by.is_multiple_of(5)).then(|| part.id.clone()) })
    }

    fn open_assistant(&self) -> Option<EntryId> {
        let leafward = self.tree.nodes().iter().rev();
        let mut open =
            leafward.filter(|node| node.entry.body.assistant().is_some_and(|a| a.completed.is_none()));
        open.next().map(|node| node.entry.id.clone())
    }

    fn open_part(&self, assistant: &EntryId, running: bool) -> Option<PartId> {
        let node = self.tree.node(assistant)?;
        let wanted = |part: &&Part| match &part.kind {
            PartKind::Text { time: Some(Span { end: None, .. }), .. } => !running,
            PartKind::Tool { state: ToolState::Pending { .. }, .. } => true,
            PartKind::Tool { state: ToolState::Running { .. }, .. } => running,
            _ => false,
        };
        node.parts.iter().find(wanted).map(|part| part.id.clone())
    }

    /// The event that a step means here; none when it means nothing.
    fn event(&self, (what, a, b): Step) -> Option<Event> {
        let leaf = self.tree.session.leaf.clone();
        let text = format!("text {a} é\n{b}");
        let time = NOW + i64::from(a);
        Some(match what % 36 {
            0 | 1 => {
                let item = InboxItem {
                    id: entry_id(),
                    time,
                    delivery: if a % 2 == 0 { Delivery::Steer } else { Delivery::Queue },
                    reply: b % 5 != 0,
                    user: User { agent: Some(format!("agent{}", a % 3)), ..User::default() },
                    parts: vec![Part::new(part_id(), PartKind::text(text))],
                    extra: Extra::default(),
                    resume: true,
                    place: None,
                    revision: 0,
                };
                Event::PromptAdmitted { item: Box::new(item) }
            }
            2 | 3 => {
                let waiting = &self.tree.inbox;
                let id = waiting.iter().nth(usize::from(a) % waiting.len().max(1))?.id.clone();
                // Unless an entry has taken its id meanwhile.
                if self.tree.node(&id).is_some() {
                    return None;
                }
                Event::PromptPromoted { id, parent: leaf, revision: None }
            }
            4 => Event::PromptCancelled { id: self.tree.inbox.iter().next()?.id.clone() },
            5 => Event::PromptRerouted {
                id: self.tree.inbox.iter().last()?.id.clone(),
                delivery: Delivery::Queue,
            },
            6 | 7 => {
                let model = ModelRef { provider: "p".into(), model: format!("m{}", a % 3), variant: None };
                let frame = a.is_multiple_of(3).then(|| Box::new(frame(&model, &text)));
                let digests = frame.is_some().then(|| RequestDigests {
                    frame: Some(text.clone()),
                    body: text,
                    size: 0,
                });
                let (model, sent) = (Some(model), digests);
                let body = Body::Assistant(Assistant { model, sent, ..Assistant::default() });
                let mut entry = Entry::new(entry_id(), leaf, time, body);
                entry.wire = b.is_multiple_of(3).then(|| format!("msg_wire_{b}"));
                Event::StepStarted { entry: Box::new(entry), frame }
            }
            8 => {
                let entry = self.open_assistant()?;
                let kind = PartKind::Text {
                    text: String::new(),
                    synthetic: None,
                    ignored: None,
                    time: Some(Span { start: time, end: None }),
                    metadata: None,
                };
                let mut part = Part::new(part_id(), kind);
                part.wire = b.is_multiple_of(3).then(|| format!("text-{b}"));
                Event::PartStarted { entry, part: Box::new(part) }
            }
            9 => {
                let entry = self.open_assistant()?;
                let state = ToolState::Pending { input: json!({}), raw: String::new() };
                let call = format!("call_{}", a % 4);
                let kind = PartKind::Tool { call, tool: "bash".into(), state, hosted: false, metadata: None };
                Event::PartStarted { entry, part: Box::new(Part::new(part_id(), kind)) }
            }
            10 => {
                let entry = self.open_assistant()?;
                let part = self.open_part(&entry, false)?;
                Event::PartEnded { entry, part, text, metadata: None }
            }
            11 => {
                let entry = self.open_assistant()?;
                let part = self.tree.node(&entry)?.parts.iter().find(|part| {
                    matches!(part.kind, PartKind::Tool { state: ToolState::Pending { .. }, .. })
                });
                let part = part?.id.clone();
                let input = json!({"n": a});
                Event::ToolCalled { entry, part, input, hosted: b % 5 == 0, metadata: None, progress: None }
            }
            12 => {
                let entry = self.open_assistant()?;
                let part = self.open_part(&entry, true)?;
                let running = matches!(
                    self.tree.node(&entry)?.part(&part)?.kind,
                    PartKind::Tool { state: ToolState::Running { .. }, .. }
                );
                let metadata: Map = json!({"output": text}).as_object().cloned()?;
                match running {
                    true if b % 3 == 0 => {
                        let (before, after) = (None, Some(text));
                        let file = FileForecast { path: "/srv/a.txt".to_owned(), before, after };
                        let forecast = if b % 2 == 0 { vec![file] } else { Vec::new() };
                        Event::ToolBegun { entry, part, forecast }
                    }
                    true => Event::ToolProgress { entry, part, metadata },
                    false => return None,
                }
            }
            13 => {
                let result = ToolResult::new(&format!("call_{}", a % 4), "bash", Outcome::Completed, &text);
                let body = Body::ToolResult { result: Box::new(result) };
                let entry = Box::new(Entry::new(entry_id(), leaf, time, body));
                // Most ends say whose they are; those of other programs need not.
                let caller = self.caller(a).filter(|_| b % 4 > 0);
                let (assistant, part) =
                    caller.map_or((None, None), |caller| (Some(caller.entry), caller.part));
                Event::ToolSettled { entry, assistant, part }
            }
            14 => {
                let entry = self.open_assistant()?;
                let tokens = Tokens { input: u64::from(a), output: u64::from(b), ..Tokens::default() };
                let finish = ["stop", "tool-calls", "paused"][usize::from(a % 3)];
                let kind =
                    PartKind::StepFinish { reason: finish.into(), snapshot: None, tokens, cost: Money::ZERO };
                Event::StepEnded {
                    entry,
                    finish: finish.into(),
                    tokens,
                    cost: Money::from_f64(f64::from(b) / 1000.0),
                    snapshot: None,
                    files: None,
                    parts: vec![Part::new(part_id(), kind)],
                    declined: b % 7 == 0,
                    estimated: b % 5 == 0,
                    error: (a % 3 == 0).then(|| Fault::new(FaultKind::OutputLength, text)),
                    structured: (a % 4 == 0).then(|| serde_json::json!({ "answer": b })),
                }
            }
            15 => Event::StepFailed {
                entry: self.open_assistant()?,
                error: Fault::internal(text),
                resumes: a % 2 == 0,
                remains: Box::new(Self::remains(a, b)),
            },
            16 => {
                let body = match a % 5 {
                    0 => Body::AgentSwitch { agent: text },
                    1 => Body::ThinkingSwitch { level: Some(text) },
                    2 => Body::Epoch {
                        baseline: text,
                        snapshot: json!({"date": a}),
                        directory: Some("/srv/demo".to_owned()),
                    },
                    3 => Body::Synthetic { text: Some(text), origin_type: None, display: None },
                    _ => Body::Custom { custom_type: text, data: Some(json!([a, null])) },
                };
                let entry = Box::new(Entry::new(entry_id(), leaf, time, body));
                Event::EntryAdded { entry, parts: Vec::new() }
            }
            17 => {
                // One that was made here has a pair, and may have waited.
                let waiting = self.tree.inbox.iter().next().map(|item| item.id.clone());
                // Unless an entry has taken its id meanwhile.
                let free = |id: &EntryId| a % 3 == 0 && self.tree.node(id).is_none();
                let id = waiting.filter(free).unwrap_or_else(entry_id);
                let pair = Pair { second: entry_id().to_string(), second_time: time, ..Pair::default() };
                let pair = (a % 2 == 0).then(|| Box::new(pair));
                let compaction = Compaction { reason: Some("auto".into()), pair, ..Compaction::default() };
                let entry = Entry::new(id, leaf, time, Body::Compaction(compaction));
                Event::CompactionStarted { entry: Box::new(entry), parts: Vec::new() }
            }
            18 => {
                let open = self.tree.nodes().iter().rev().find(|node| {
                    matches!(&node.entry.body, Body::Compaction(Compaction { summary: None, .. }))
                });
                let entry = open?.entry.id.clone();
                let pins = Pins { goal: Some(text.clone()), facts: Vec::new() };
                let carried = CarriedContext { pins, ..CarriedContext::default() };
                Event::CompactionEnded {
                    entry,
                    summary: text,
                    first_kept: self.pick(a),
                    recent: None,
                    carried: (a % 2 == 0).then(|| Box::new(carried)),
                    remains: Box::new(summary_remains(part_id(), b)),
                }
            }
            19 => {
                let to = if a % 5 == 0 { None } else { self.pick(b) };
                let cause = match &self.tree.session.revert {
                    Some(revert) => Cause::Revert { message: revert.message.clone() },
                    None => Cause::Branch,
                };
                Event::LeafMoved { from: leaf, to, cause }
            }
            20 => {
                let message = self.pick(a)?;
                let revert = Revert { snapshot: Some(text), ..Revert::new(message) };
                let summary = Summary { additions: u64::from(a), ..Summary::default() };
                Event::RevertStaged { revert: Box::new(revert), summary: Some(summary) }
            }
            21 => {
                let entry = self.pick(a)?;
                let part = self.tree.node(&entry)?.parts.first().map(|part| part.id.clone());
                let part = if b % 2 == 0 { part } else { None };
                let change = if b % 3 == 0 { Amendment::Unhide } else { Amendment::Hide };
                Event::EntryAmended { entry, part, change }
            }
            22 => match a % 4 {
                0 if b % 3 == 0 => {
                    let pins = Pins { goal: None, facts: vec![text] };
                    Event::SessionChanged { changes: vec![SessionChange::Pinned { pins }] }
                }
                0 => Event::SessionChanged { changes: vec![SessionChange::Archived { time: Some(time) }] },
                1 => Event::TitleChanged { entry: entry_id(), parent: leaf, title: text, replaces: None },
                2 => {
                    let body = Body::Label { target: self.pick(b), label: Some(text) };
                    Event::Labeled { entry: Box::new(Entry::new(entry_id(), leaf, time, body)) }
                }
                _ => {
                    let todo = Todo {
                        content: text,
                        status: "pending".into(),
                        priority: "low".into(),
                        extra: Map::new(),
                    };
                    Event::TodoUpdated { todos: vec![todo] }
                }
            },
            23 => {
                let mut item = self.tree.inbox.iter().next()?.clone();
                item.parts.push(Part::new(part_id(), PartKind::text(text)));
                Event::PromptEdited { item: Box::new(item) }
            }
            24 => Event::SessionMoved {
                project: format!("{}+", self.tree.session.project.trim_end_matches('+')),
                directory: format!("/srv/{}", a % 3),
                path: None,
                extra: Map::new(),
            },
            25 => {
                let shell = Shell { command: text, ..Shell::default() };
                let entry = Entry::new(entry_id(), leaf, time, Body::Shell(shell));
                Event::ShellStarted { entry: Box::new(entry), parts: Vec::new() }
            }
            26 => {
                let open = self.tree.nodes().iter().rev();
                let mut open = open
                    .filter(|node| matches!(&node.entry.body, Body::Shell(shell) if shell.output.is_none()));
                let entry = open.next()?.entry.id.clone();
                Event::ShellEnded { entry, output: text, exit: Some(i64::from(b)), part: None }
            }
            27 => {
                let entry = self.pick(a)?;
                let part = self.tree.node(&entry)?.parts.first()?.clone();
                let change = Amendment::ReplacePart {
                    part: Box::new(Part { kind: PartKind::text(text), ..part.clone() }),
                };
                Event::EntryAmended { entry, part: Some(part.id), change }
            }
            28 => {
                let entry = self.pick(a)?;
                let mut new = self.tree.node(&entry)?.entry.clone();
                new.time += 1;
                Event::EntryAmended {
                    entry,
                    part: None,
                    change: Amendment::ReplaceEntry { entry: Box::new(new) },
                }
            }
            29 => Event::RevertCleared {},
            30 => Event::InterruptRequested {},
            31 => {
                let tokens = Tokens { input: u64::from(a), reasoning: u64::from(b), ..Tokens::default() };
                let cost = Money::from_f64(f64::from(a) / 100_000.0);
                match self.open_assistant() {
                    Some(entry) if b % 4 == 0 => {
                        Event::UsageReported { entry, tokens, cost, last: b % 8 == 0 }
                    }
                    Some(entry) if b % 4 == 1 => {
                        let error = Fault::new(FaultKind::CutStream, text);
                        let kind = PartKind::Retry { attempt: u64::from(a), error, created: time };
                        let part = Box::new(Part::new(part_id(), kind));
                        Event::RetryScheduled { entry, part, next: time + i64::from(b) }
                    }
                    Some(entry) if b % 8 == 2 => Event::RecoveryBegun { entry },
                    _ if b % 8 == 6 => match a % 3 {
                        0 => Event::RecoveryLeft {},
                        1 => Event::SessionParked { reason: Fault::internal(text) },
                        _ => Event::SessionResumed {},
                    },
                    _ => {
                        let (source, failed) = ("title".to_owned(), b % 3 == 0);
                        Event::UsageRecorded { source, tokens, cost, model: None, failed }
                    }
                }
            }
            32 => {
                // Sometimes long enough to be kept apart.
                let long = if a % 16 == 0 { text.repeat(6000) } else { text };
                Event::PartAdded {
                    entry: self.open_assistant()?,
                    part: Box::new(Part::new(part_id(), PartKind::text(long))),
                }
            }
            33 => {
                let open = self.tree.nodes().iter().rev().find(|node| {
                    matches!(&node.entry.body, Body::Compaction(Compaction { summary: None, .. }))
                });
                let entry = open?.entry.id.clone();
                let remains = Box::new(summary_remains(part_id(), b));
                Event::CompactionFailed { entry, error: Fault::internal(text), remains }
            }
            _ => match self.tree.requests.keys().next().cloned() {
                Some(id) if a % 2 == 0 => {
                    let call = self.tree.requests.get(&id)?.call.clone().filter(|_| b % 3 > 0);
                    let reply = Some(if b % 2 == 0 { Reply::Once } else { Reply::Reject });
                    Event::RequestAnswered { id, call, reply, message: None, answers: None, follows: None }
                }
                _ => {
                    let user = self.tree.nodes().iter().find(|node| matches!(node.entry.body, Body::User(_)));
                    if let (Some(user), 0) = (user, b % 2) {
                        Event::TurnSummarized {
                            entry: user.entry.id.clone(),
                            summary: UserSummary::default(),
                            session: Summary::default(),
                        }
                    } else {
                        let call = self.caller(a);
                        let permission = if call.is_some() { "bash" } else { PROJECT_TRUST }.to_owned();
                        let metadata = Map::from_iter([("digest".to_owned(), text.clone().into())]);
                        let (patterns, always) = (vec![text], Vec::new());
                        let ask = Ask::Permission { permission, patterns, always, metadata };
                        let id = RequestId::mint(stamp(), [7; RANDOM]);
                        Event::RequestAsked { request: Box::new(Request::new(id, time, ask, call)) }
                    }
                }
            },
        })
    }

    /// What a step leaves that did not get to its end; now and then nothing.
    fn remains(a: u16, b: u16) -> StepRemains {
        if a.is_multiple_of(3) {
            return StepRemains::default();
        }
        let kind = PartKind::Snapshot { snapshot: format!("tree{a}") };
        StepRemains {
            finish: b.is_multiple_of(2).then(|| "content-filter".into()),
            tokens: Tokens { input: u64::from(a), output: u64::from(b), ..Tokens::default() },
            cost: Money::from_f64(f64::from(a) / 1000.0),
            estimated: b.is_multiple_of(3),
            snapshot: Some(format!("tree{a}")),
            files: Some(vec!["a.txt".to_owned()]),
            parts: vec![Part::new(part_id(), kind)],
        }
    }

    /// Some sessions begin with what came from elsewhere.
    pub(crate) fn seed(&mut self, size: u8) {
        if size == 0 {
            return;
        }
        let mut seed = Seed::default();
        for number in 0..size {
            let body = Body::User(User { agent: Some(format!("agent{number}")), ..User::default() });
            let entry = Entry::new(entry_id(), seed.leaf.take(), i64::from(number), body);
            seed.leaf = Some(entry.id.clone());
            let parts = vec![Part::new(part_id(), PartKind::text(format!("imported {number}")))];
            seed.nodes.push(Node::new(entry, parts));
        }
        let event = if size.is_multiple_of(2) {
            Event::SessionImported { dialect: "pi".into(), seed: Box::new(seed) }
        } else {
            let origin = ForkOrigin { session: SessionId::new("ses_other"), entry: None };
            Event::SessionForked { origin, seed: Box::new(seed) }
        };
        self.record(event, 0);
    }

    /// Goes on by what a step means here, if it means anything.
    pub(crate) fn step(&mut self, step: Step) {
        let Some(event) = self.event(step) else { return };
        self.record(event, step.1);
    }

    /// Goes on by an event.
    pub(crate) fn record(&mut self, event: Event, later: u16) {
        let seq = u64::try_from(self.records.len()).unwrap();
        let record = Record {
            id: EventId::mint(stamp(), [9; RANDOM]),
            session: self.tree.session.id.clone(),
            seq,
            time: NOW + i64::from(later),
            subject: Subject::of(&event, &self.tree),
            event,
        };
        fold::apply(&mut self.tree, &record).unwrap();
        self.records.push(record);
    }
}

/// What a summary leaves: nothing, as in a log of an earlier version, or what it used and a part.
fn summary_remains(id: PartId, by: u16) -> StepRemains {
    if by.is_multiple_of(3) {
        return StepRemains::default();
    }
    let part = Part { second: true, ..Part::new(id, PartKind::text("used")) };
    let tokens = Tokens { input: by.into(), ..Tokens::default() };
    StepRemains { tokens, cost: Money::from_nanos(by.into()), parts: vec![part], ..StepRemains::default() }
}

/// What a request consists of besides the conversation.
fn frame(model: &ModelRef, prompt: &str) -> RequestFrame {
    RequestFrame {
        agent: "build".to_owned(),
        prompt: prompt.to_owned(),
        note: None,
        reminder: None,
        model: model.clone(),
        wire: model.model.clone(),
        takes: None,
        tools: Vec::new(),
        calls: CallsWanted::None,
        max_output: Some(7),
        temperature: None,
        top_p: None,
        effort: None,
        thinking: None,
        options: Map::new(),
    }
}
