//! The fold: the one function that turns events into state.
//!
//! A store folds each event into its rows as it appends, loading only what [`Event::touches`] names; a rebuild folds
//! the whole log. Both call [`apply`], so projections cannot differ from the log by a second implementation.

mod compaction;
mod shell;
mod step;

use std::collections::HashSet;

use crate::bill::BillLine;
use crate::budget::BudgetPause;
use crate::entry::{Body, Entry};
use crate::event::{Amendment, Cause, Event, Record, Seed, SessionChange, StepRemains};
use crate::finish::Finish;
use crate::ids::Stamp;
use crate::inbox::{Delivery, InboxItem};
use crate::part::PartKind;
use crate::path::{self, PathState};
use crate::request::{CallRef, GivenAnswer, LastRequest, OpenCall, Reply};
use crate::session::{ModelRef, REFUSED_TRUST_LIMIT, RULE_LIMIT, Session, Summary};
use crate::tool::{IllegalTransition, ToolState};
use crate::tree::{Node, Tree};
use crate::usage::InterimUsage;
use crate::{EntryId, Millis, Part, PartId, RequestId};
use step::end_part;

/// Why an event cannot be folded: the log or the caller is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first event of a session is always its creation.
    #[error("event {name} at seq {seq}: a session's log begins with session.created, and only there")]
    NotCreated {
        /// The event's name.
        name: &'static str,
        /// Its place.
        seq: u64,
    },
    /// An id is already used in the session.
    #[error("{0} is already used in this session")]
    Taken(String),
    /// An event names something that is not there.
    #[error("{name} names {id}, which is not in this session")]
    Missing {
        /// The event's name.
        name: &'static str,
        /// What it names.
        id: String,
    },
    /// The tool state machine has no such step.
    #[error("call {call}: {source}")]
    Transition {
        /// The call.
        call: String,
        /// The step.
        source: IllegalTransition,
    },
    /// A prompt was changed after it was decided that it goes on: look at it again.
    #[error("the prompt {0} was changed meanwhile")]
    Stale(EntryId),
    /// A session may have so many permission rules and no more.
    #[error("a session has at most {RULE_LIMIT} permission rules")]
    TooManyRules,
    /// An event is about a kind of entry or part that the named one is not.
    #[error("{name} does not fit {id}")]
    Unfit {
        /// The event's name.
        name: &'static str,
        /// The entry or part.
        id: String,
    },
}

/// The rows that an event changed, besides the session row, which every event may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Entries that are new or have a new header.
    pub entries: Vec<EntryId>,
    /// Parts that are new or changed, with their entry.
    pub parts: Vec<(EntryId, PartId)>,
    /// Waiting prompts that came, changed or went.
    pub inbox: Vec<EntryId>,
    /// Requests that came or went.
    pub requests: Vec<RequestId>,
    /// Whether the task list changed.
    pub todos: bool,
    /// What was used, as lines of the session's bill. A line that is there already under its number is replaced.
    pub bill: Vec<BillLine>,
}

/// Begins a tree from the first event of a log.
///
/// # Errors
/// When the record is not a session's creation at seq 0.
pub fn begin(record: &Record) -> Result<Tree, Error> {
    match &record.event {
        Event::SessionCreated { session } if record.seq == 0 => Ok(Tree::new((**session).clone())),
        event => Err(Error::NotCreated { name: event.name(), seq: record.seq }),
    }
}

/// Folds a whole log.
///
/// # Errors
/// When an event does not fit what came before it.
pub fn replay<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<Option<Tree>, Error> {
    let mut records = records.into_iter();
    let Some(first) = records.next() else { return Ok(None) };
    let mut tree = begin(first)?;
    for record in records {
        apply(&mut tree, record)?;
    }
    Ok(Some(tree))
}

/// Folds one event into a tree that holds at least the rows the event touches, and says what changed.
///
/// # Errors
/// When the event does not fit the tree; the tree may then be half changed and must be discarded.
pub fn apply(tree: &mut Tree, record: &Record) -> Result<Changes, Error> {
    let (name, changes) = (record.event.name(), Changes::default());
    let mut fold = Fold { tree, seq: record.seq, time: record.time, name, changes };
    fold.event(record)?;
    let changes = fold.changes;
    let session = &mut tree.session;
    // A turn that has closed needs no stopping, and nothing holds an inbox that is empty.
    session.stopping &= session.open;
    session.held &= session.waiting > 0;
    Ok(changes)
}

struct Fold<'t> {
    tree: &'t mut Tree,
    seq: u64,
    time: Millis,
    name: &'static str,
    changes: Changes,
}

impl Fold<'_> {
    fn event(&mut self, record: &Record) -> Result<(), Error> {
        match &record.event {
            Event::SessionCreated { .. } => {
                return Err(Error::NotCreated { name: self.name, seq: record.seq });
            }
            Event::SessionForked { origin, seed } => {
                self.tree.session.origin = Some(origin.clone());
                self.seed(seed)?;
            }
            Event::SessionImported { seed, .. } => {
                // What the session spent before is what it came with, as long as nothing else is in its log.
                if record.seq == 1 {
                    self.changes.bill = BillLine::of_import(&self.tree.session, seed);
                }
                self.seed(seed)?;
            }
            Event::SessionChanged { changes } => self.change_session(changes)?,
            Event::SessionMoved { project, directory, path, .. } => {
                let session = &mut self.tree.session;
                session.project.clone_from(project);
                session.directory.clone_from(directory);
                session.path.clone_from(path);
                session.epoch = None;
                session.time.moved = Some(self.time);
            }
            Event::SessionTrashed {} => self.tree.session.time.trashed = Some(self.time),
            Event::SessionRestored {} => self.tree.session.time.trashed = None,
            Event::SessionResumed {} => {
                self.tree.session.held = false;
                self.tree.session.unpark();
            }
            Event::TitleChanged { replaces: Some(replaced), .. } if *replaced != self.tree.session.title => {}
            Event::TitleChanged { entry, parent, title, .. } => {
                self.tree.session.title.clone_from(title);
                let body = Body::Title { title: Some(title.clone()) };
                self.insert(Entry::new(entry.clone(), parent.clone(), self.time, body), &[])?;
            }
            Event::PromptAdmitted { item } => self.admit(item)?,
            Event::PromptEdited { item } => {
                self.change_waiting(&item.id, |waiting| {
                    let (place, revision) = (waiting.place, waiting.revision + 1);
                    *waiting = InboxItem { place, revision, ..(**item).clone() };
                })?;
            }
            Event::PromptRerouted { id, delivery } => {
                self.change_waiting(id, |waiting| {
                    (waiting.delivery, waiting.revision) = (*delivery, waiting.revision + 1);
                })?;
            }
            Event::InboxReordered { ids } => {
                for (place, id) in (0..).zip(ids) {
                    // One that is missing went on meanwhile, or was taken back.
                    if self.tree.waiting(id).is_some() {
                        self.change_waiting(id, |waiting| waiting.place = Some(place))?;
                    }
                }
            }
            Event::PromptCancelled { id } => drop(self.take(id)?),
            Event::PromptPromoted { id, parent, revision } => {
                let item = self.take(id)?;
                if revision.is_some_and(|revision| revision != item.revision) {
                    return Err(Error::Stale(id.clone()));
                }
                let session = &mut self.tree.session;
                session.open |= item.reply;
                // What waited when the session was stopped is held, so this came after it, and is not meant by it.
                session.stopping = false;
                let mut entry = Entry::new(item.id, parent.clone(), item.time, Body::User(item.user));
                entry.extra = item.extra;
                self.append(entry, &item.parts)?;
            }
            Event::EntryAdded { entry, parts } | Event::ShellStarted { entry, parts } => {
                match (&record.event, &entry.body) {
                    (_, Body::Compaction(_)) => self.tree.session.time.compacting = Some(self.time),
                    (Event::ShellStarted { .. }, _) => self.begin_shell(entry)?,
                    _ => {}
                }
                self.append((**entry).clone(), parts)?;
            }
            Event::CompactionStarted { entry, parts } => self.start_compaction(entry, parts)?,
            Event::Labeled { entry } => self.insert((**entry).clone(), &[])?,
            Event::StepStarted { entry, frame } => {
                let assistant = entry.body.assistant();
                let session = &mut self.tree.session;
                session.open = true;
                session.steps = assistant.and_then(|assistant| assistant.step).unwrap_or(session.steps);
                if frame.is_some() {
                    let sent = assistant.and_then(|assistant| assistant.sent.as_ref());
                    session.frames.extend(sent.and_then(|sent| sent.frame.clone()));
                }
                self.append((**entry).clone(), &[])?;
            }
            Event::ToolSettled { entry, assistant, part } => {
                self.append((**entry).clone(), &[])?;
                if let (Some(assistant), Some(part)) = (assistant, part) {
                    self.close_call(assistant, part);
                }
            }
            Event::LeafMoved { to, cause, .. } => self.move_leaf(to.as_ref(), cause)?,
            Event::RevertStaged { revert, summary } => {
                let session = &mut self.tree.session;
                session.revert = Some((**revert).clone());
                session.time.updated = self.time;
                if let Some(summary) = summary {
                    // The diffs are in the event for those who watch; the row keeps the numbers.
                    session.summary = Some(Summary { diffs: None, ..summary.clone() });
                }
            }
            Event::RevertCleared {} => {
                self.tree.session.revert = None;
                self.tree.session.time.updated = self.time;
            }
            Event::TodoUpdated { todos } => {
                self.tree.todos.clone_from(todos);
                self.changes.todos = true;
            }
            Event::RequestAsked { request } => {
                self.tree.requests.insert(request.id.clone(), (**request).clone());
                self.changes.requests.push(request.id.clone());
                if let Some(call) = &request.call {
                    let last = LastRequest { request: (**request).clone(), answer: None };
                    self.open_call(call, |open| open.request = Some(last));
                }
            }
            Event::RequestAnswered { id, call, reply, message, answers, follows } => {
                let request = self.tree.requests.remove(id).ok_or_else(|| missing(self.name, id))?;
                self.changes.requests.push(id.clone());
                if let (Some(Reply::Reject), Some(digest)) = (reply, request.trust_digest()) {
                    self.refuse_trust(digest);
                }
                if let (Some(pause), Some(reply)) = (BudgetPause::of(&request), reply) {
                    self.answer_budget(&pause, *reply);
                }
                if let Some(call) = call.as_ref().or(request.call.as_ref()) {
                    let given = GivenAnswer {
                        reply: *reply,
                        message: message.clone(),
                        answers: answers.clone(),
                        follows: follows.clone(),
                    };
                    self.open_call(call, |open| {
                        if let Some(last) = open.request.as_mut().filter(|last| last.request.id == *id) {
                            last.answer = Some(given);
                        }
                    });
                }
            }
            Event::UsageRecorded { source, model, tokens, cost, .. } => {
                self.spend(source, model.clone(), tokens, *cost);
            }
            Event::RecoveryBegun { .. } => self.tree.session.note_recovery(self.time),
            Event::RecoveryLeft {} => self.tree.session.recoveries.clear(),
            Event::SessionParked { reason } => {
                let session = &mut self.tree.session;
                (session.parked, session.parked_reason) = (true, Some(reason.clone()));
            }
            Event::InterruptRequested {} => {
                let session = &mut self.tree.session;
                session.interrupts += 1;
                (session.stopping, session.held, session.retry) = (true, true, None);
            }
            // Named one by one, so that an event that is new cannot be left out.
            Event::ShellEnded { .. }
            | Event::StepEnded { .. }
            | Event::StepFailed { .. }
            | Event::RetryScheduled { .. }
            | Event::UsageReported { .. }
            | Event::TurnSummarized { .. }
            | Event::PartStarted { .. }
            | Event::PartAdded { .. }
            | Event::PartEnded { .. }
            | Event::ToolCalled { .. }
            | Event::ToolBegun { .. }
            | Event::ToolProgress { .. }
            | Event::CompactionEnded { .. }
            | Event::CompactionFailed { .. }
            | Event::EntryAmended { .. } => self.inside(&record.event)?,
        }
        Ok(())
    }

    /// Events that change an existing entry or part.
    fn inside(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            Event::ShellEnded { entry, output, exit, part } => {
                self.end_shell(entry, output, *exit, part.as_deref())?;
            }
            Event::StepEnded {
                entry,
                finish,
                tokens,
                cost,
                snapshot,
                files,
                parts,
                declined,
                estimated,
                error,
                structured,
            } => {
                let goes_on = *finish == Finish::ToolCalls && !declined || *finish == Finish::Paused;
                let remains = StepRemains {
                    finish: Some(finish.clone()),
                    tokens: *tokens,
                    cost: *cost,
                    estimated: *estimated,
                    snapshot: snapshot.clone(),
                    files: files.clone(),
                    parts: parts.clone(),
                };
                self.close_step(entry, &remains, error.as_ref(), goes_on)?;
                if let Some(assistant) = self.entry(entry)?.body.assistant_mut() {
                    assistant.structured.clone_from(structured);
                }
            }
            Event::StepFailed { entry, error, resumes, remains } => {
                self.close_step(entry, remains, Some(error), *resumes)?;
            }
            Event::RetryScheduled { entry, part, next } => self.schedule_retry(entry, part, *next)?,
            Event::UsageReported { entry, tokens, cost, last } => {
                self.report_usage(entry, InterimUsage { tokens: *tokens, cost: *cost, last: *last })?;
            }
            Event::TurnSummarized { entry, summary, session } => {
                self.tree.session.summary = Some(session.clone());
                self.tree.session.time.updated = self.time;
                if self.tree.waiting(entry).is_some() {
                    self.change_waiting(entry, |item| item.user.summary = Some(summary.clone()))?;
                } else {
                    match &mut self.entry(entry)?.body {
                        Body::User(user) => user.summary = Some(summary.clone()),
                        Body::Compaction(compaction) if compaction.pair.is_some() => {
                            if let Some(pair) = &mut compaction.pair {
                                pair.user.summary = Some(summary.clone());
                            }
                        }
                        _ => return Err(self.unfit(entry)),
                    }
                }
            }
            Event::PartStarted { entry, part } => {
                // The provider answers again.
                self.tree.session.retry = None;
                self.add_part(entry, part)?;
            }
            Event::PartAdded { entry, part } => self.add_part(entry, part)?,
            Event::PartEnded { entry, part, text, metadata } => {
                let time = self.time;
                self.part(entry, part, |part| end_part(part, text, metadata.as_ref(), time))?;
            }
            Event::ToolCalled { entry, part, input, hosted, metadata, progress } => {
                let running = ToolState::Running {
                    input: input.clone(),
                    title: None,
                    metadata: progress.clone(),
                    start: self.time,
                };
                self.tool(entry, part, running)?;
                if *hosted || metadata.is_some() {
                    self.part(entry, part, |part| {
                        if let PartKind::Tool { hosted: mark, metadata: slot, .. } = &mut part.kind {
                            *mark |= hosted;
                            *slot = metadata.clone().or(slot.take());
                        }
                        true
                    })?;
                }
            }
            Event::ToolBegun { entry, part, forecast } => {
                self.part(entry, part, |part| {
                    let call = part.kind.call().is_some();
                    if call {
                        let open = part.open.get_or_insert_default();
                        open.begun = true;
                        // If a call was begun twice, the later beginning counts.
                        open.forecast.clone_from(forecast);
                    }
                    call
                })?;
            }
            Event::ToolProgress { entry, part, metadata } => {
                self.part(entry, part, |part| match &mut part.kind {
                    PartKind::Tool { state: ToolState::Running { metadata: slot, .. }, .. } => {
                        *slot = Some(metadata.clone());
                        true
                    }
                    _ => false,
                })?;
            }
            Event::CompactionEnded { entry, summary, first_kept, recent, carried, remains } => {
                let time = self.time;
                let Body::Compaction(compaction) = &mut self.entry(entry)?.body else {
                    return Err(self.unfit(entry));
                };
                compaction.completed = Some(time);
                compaction.summary = Some(summary.clone());
                compaction.first_kept.clone_from(first_kept);
                compaction.recent.clone_from(recent);
                compaction.carried.clone_from(carried);
                self.tree.session.compaction = Some(entry.clone());
                self.tree.session.epoch = None;
                self.close_compaction(entry, remains, None)?;
            }
            Event::CompactionFailed { entry, error, remains } => {
                self.close_compaction(entry, remains, Some(error))?;
            }
            Event::EntryAmended { entry, part, change } => self.amend(entry, part.as_ref(), change)?,
            _ => return Err(Error::Unfit { name: self.name, id: self.tree.session.id.to_string() }),
        }
        Ok(())
    }

    fn seed(&mut self, seed: &Seed) -> Result<(), Error> {
        for node in &seed.nodes {
            self.insert(node.entry.clone(), &node.parts)?;
        }
        for item in &seed.inbox {
            self.tree.inbox.push(item.clone());
            self.tree.session.waiting += 1;
            self.changes.inbox.push(item.id.clone());
            raise(&mut self.tree.session, item.id.as_str(), &item.parts);
        }
        self.tree.session.leaf.clone_from(&seed.leaf);
        self.changes.todos = self.tree.todos != seed.todos;
        self.tree.todos.clone_from(&seed.todos);
        self.recompute();
        Ok(())
    }

    fn change_session(&mut self, changes: &[SessionChange]) -> Result<(), Error> {
        let session = &mut self.tree.session;
        for change in changes {
            match change {
                SessionChange::Archived { time } => session.time.archived = *time,
                SessionChange::Permission { rules } => session.permission.clone_from(rules),
                SessionChange::PermissionAdded { rules } => {
                    let all = session.permission.get_or_insert_default();
                    if all.len() + rules.len() > RULE_LIMIT {
                        return Err(Error::TooManyRules);
                    }
                    all.extend_from_slice(rules);
                }
                SessionChange::Metadata { metadata } => session.metadata.clone_from(metadata),
                SessionChange::Parked => session.parked = true,
                SessionChange::Share { url } => session.share.clone_from(url),
                SessionChange::Pinned { pins } => session.pins.clone_from(pins),
            }
        }
        Ok(())
    }

    fn admit(&mut self, item: &InboxItem) -> Result<(), Error> {
        if self.tree.waiting(&item.id).is_some() || self.tree.node(&item.id).is_some() {
            return Err(Error::Taken(item.id.to_string()));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = item.parts.iter().find(|part| !seen.insert(&part.id)) {
            return Err(Error::Taken(twice.id.to_string()));
        }
        let session = &mut self.tree.session;
        session.time.updated = self.time;
        // What asks nothing of a model lets nothing go on that a person stopped, or that waits for one.
        if item.resume && item.reply {
            session.held = false;
            session.unpark();
        } else if !item.resume && session.waiting == 0 && (!session.open || session.stopping) {
            session.held = true;
        }
        session.waiting += 1;
        // A steer is for the next turn, and clients see its selection at once; a queued prompt brings its own later.
        if item.delivery == Delivery::Steer {
            session.agent = item.user.agent.clone().or(session.agent.take());
            session.model = item.user.model.clone().or(session.model.take());
        }
        raise(session, item.id.as_str(), &item.parts);
        self.tree.inbox.push(item.clone());
        self.changes.inbox.push(item.id.clone());
        Ok(())
    }

    fn move_leaf(&mut self, to: Option<&EntryId>, cause: &Cause) -> Result<(), Error> {
        if let Some(to) = to
            && self.tree.node(to).is_none()
        {
            return Err(missing(self.name, to));
        }
        self.tree.session.leaf = to.cloned();
        (self.tree.session.open, self.tree.session.retry) = (false, None);
        self.tree.session.open_compaction = None;
        if matches!(cause, Cause::Revert { .. }) {
            self.tree.session.revert = None;
        }
        self.recompute();
        Ok(())
    }

    fn recompute(&mut self) {
        let leaf = self.tree.session.leaf.clone();
        let state = path::state(path::to(self.tree, leaf.as_ref()));
        // A session that was given a selection keeps it while its path has none.
        let kept = PathState::cached(&self.tree.session);
        let holds =
            |id: &EntryId| self.tree.node(id).is_some_and(|node| self.tree.session.holds_epoch(&node.entry));
        let epoch = state.epoch.filter(holds);
        let state = PathState {
            agent: state.agent.or(kept.agent),
            model: state.model.or(kept.model),
            epoch,
            ..state
        };
        state.store(&mut self.tree.session);
    }

    fn amend(&mut self, id: &EntryId, part: Option<&PartId>, change: &Amendment) -> Result<(), Error> {
        match (part, change) {
            (Some(part), Amendment::Hide) => self.part(id, part, |part| hide(&mut part.hidden, true)),
            (Some(part), Amendment::Unhide) => self.part(id, part, |part| hide(&mut part.hidden, false)),
            (_, Amendment::ReplacePart { part }) => self.replace_part(id, part),
            (None, Amendment::Hide | Amendment::Unhide) => {
                let hidden = matches!(change, Amendment::Hide);
                let entry = self.entry(id)?;
                if entry.hidden == hidden {
                    return Ok(());
                }
                entry.hidden = hidden;
                if let Some((tokens, cost)) = entry.body.assistant().map(|a| (a.tokens, a.cost)) {
                    let session = &mut self.tree.session;
                    if hidden {
                        session.tokens = session.tokens.minus(&tokens);
                        session.cost = session.cost - cost;
                    } else {
                        session.tokens = session.tokens.plus(&tokens);
                        session.cost += cost;
                    }
                }
                Ok(())
            }
            (_, Amendment::ReplaceEntry { entry }) => {
                if &entry.id != id {
                    return Err(self.unfit(id));
                }
                let slot = self.entry(id)?;
                let parent = slot.parent.clone();
                *slot = (**entry).clone();
                slot.parent = parent;
                Ok(())
            }
        }
    }

    fn append(&mut self, entry: Entry, parts: &[Part]) -> Result<(), Error> {
        let id = entry.id.clone();
        self.insert(entry, parts)?;
        let mut state = PathState::cached(&self.tree.session);
        if let Some(node) = self.tree.node(&id) {
            state.step(node);
        }
        state.store(&mut self.tree.session);
        self.tree.session.leaf = Some(id);
        Ok(())
    }

    fn insert(&mut self, entry: Entry, parts: &[Part]) -> Result<(), Error> {
        let id = entry.id.clone();
        raise(&mut self.tree.session, id.as_str(), parts);
        if let Some(second) = second_id(&entry) {
            self.tree.session.raise_floor(second);
        }
        if !self.tree.insert(Node::new(entry, parts.to_vec())) {
            return Err(Error::Taken(id.to_string()));
        }
        self.changes.parts.extend(parts.iter().map(|part| (id.clone(), part.id.clone())));
        self.changes.entries.push(id);
        Ok(())
    }

    fn add_part(&mut self, entry: &EntryId, part: &Part) -> Result<(), Error> {
        let name = self.name;
        raise(&mut self.tree.session, "", std::slice::from_ref(part));
        let node = self.tree.node_mut(entry).ok_or_else(|| missing(name, entry))?;
        if node.part(&part.id).is_some() {
            return Err(Error::Taken(part.id.to_string()));
        }
        node.parts.push(part.clone());
        self.changes.parts.push((entry.clone(), part.id.clone()));
        Ok(())
    }

    fn replace_part(&mut self, entry: &EntryId, new: &Part) -> Result<(), Error> {
        self.part(entry, &new.id, |part| {
            let (hidden, open) = (part.hidden, part.open.take());
            *part = new.clone();
            (part.hidden, part.open) = (hidden, open);
            true
        })
    }

    fn part(
        &mut self,
        entry: &EntryId,
        id: &PartId,
        change: impl FnOnce(&mut Part) -> bool,
    ) -> Result<(), Error> {
        let name = self.name;
        let node = self.tree.node_mut(entry).ok_or_else(|| missing(name, entry))?;
        let part = node.parts.iter_mut().find(|part| &part.id == id).ok_or_else(|| missing(name, id))?;
        if !change(part) {
            return Err(Error::Unfit { name, id: id.to_string() });
        }
        let key = (entry.clone(), id.clone());
        if !self.changes.parts.contains(&key) {
            self.changes.parts.push(key);
        }
        Ok(())
    }

    fn tool(&mut self, entry: &EntryId, id: &PartId, next: ToolState) -> Result<(), Error> {
        let mut refused = None;
        self.part(entry, id, |part| match &mut part.kind {
            PartKind::Tool { call, state, .. } => {
                refused =
                    state.advance(next).err().map(|source| Error::Transition { call: call.clone(), source });
                true
            }
            _ => false,
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Remembers what the person would not trust.
    fn refuse_trust(&mut self, digest: &str) {
        let refused = &mut self.tree.session.refused_trust;
        refused.retain(|known| known != digest);
        refused.push(digest.to_owned());
        let surplus = refused.len().saturating_sub(REFUSED_TRUST_LIMIT);
        refused.drain(..surplus);
    }

    /// Changes what is known of a call that has not settled. A request may be about no call that is here.
    fn open_call(&mut self, call: &CallRef, change: impl FnOnce(&mut OpenCall)) {
        let Some(node) = self.tree.node_mut(&call.entry) else { return };
        let wanted = |part: &Part| match (&call.part, &part.kind) {
            (Some(id), PartKind::Tool { .. }) => part.id == *id,
            // Call ids repeat. The newest call is the one that is at work.
            (None, PartKind::Tool { call: own, state, .. }) => *own == call.call && !state.is_settled(),
            _ => false,
        };
        let Some(part) = node.parts.iter_mut().rev().find(|part| wanted(part)) else { return };
        change(part.open.get_or_insert_default());
        let key = (call.entry.clone(), part.id.clone());
        if !self.changes.parts.contains(&key) {
            self.changes.parts.push(key);
        }
    }

    /// Forgets what was known of a call until it settled.
    fn close_call(&mut self, entry: &EntryId, id: &PartId) {
        let Some(node) = self.tree.node_mut(entry) else { return };
        let Some(part) = node.parts.iter_mut().find(|part| part.id == *id) else { return };
        if part.open.take().is_some() {
            self.changes.parts.push((entry.clone(), id.clone()));
        }
    }

    fn entry(&mut self, id: &EntryId) -> Result<&mut Entry, Error> {
        let name = self.name;
        if !self.changes.entries.contains(id) {
            self.changes.entries.push(id.clone());
        }
        self.tree.node_mut(id).map(|node| &mut node.entry).ok_or_else(|| missing(name, id))
    }

    fn change_waiting(&mut self, id: &EntryId, change: impl FnOnce(&mut InboxItem)) -> Result<(), Error> {
        if !self.tree.inbox.change(id, change) {
            return Err(missing(self.name, id));
        }
        self.changes.inbox.push(id.clone());
        Ok(())
    }

    fn take(&mut self, id: &EntryId) -> Result<InboxItem, Error> {
        let item = self.tree.inbox.remove(id).ok_or_else(|| missing(self.name, id))?;
        self.tree.session.waiting = self.tree.session.waiting.saturating_sub(1);
        self.changes.inbox.push(id.clone());
        Ok(item)
    }

    /// Everything that is billed comes through here: into the sum, and as a line of the bill.
    fn spend(&mut self, source: &str, model: Option<ModelRef>, tokens: &crate::Tokens, cost: crate::Money) {
        let spent = &mut self.tree.session.spent;
        let before = *spent;
        spent.tokens = spent.tokens.plus(tokens);
        spent.cost += cost;
        let at = (self.seq, self.time);
        self.changes.bill.extend(BillLine::of_event(at, source, model, &before, spent));
    }

    fn unfit(&self, id: &EntryId) -> Error {
        Error::Unfit { name: self.name, id: id.to_string() }
    }
}

fn missing(name: &'static str, id: &impl ToString) -> Error {
    Error::Missing { name, id: id.to_string() }
}

fn hide(slot: &mut bool, hidden: bool) -> bool {
    *slot = hidden;
    true
}

fn raise(session: &mut Session, id: &str, parts: &[Part]) {
    session.raise_floor(id);
    for part in parts {
        session.raise_floor(part.id.as_str());
    }
}

fn second_id(entry: &Entry) -> Option<&str> {
    entry.body.pair().map(|pair| pair.second.as_str())
}

/// The greatest stamp used in a tree, for checks.
#[must_use]
pub fn floor(tree: &Tree) -> Stamp {
    let ids = tree.nodes().iter().flat_map(|node| {
        let own = std::iter::once(node.entry.id.as_str());
        own.chain(second_id(&node.entry)).chain(node.parts.iter().map(|part| part.id.as_str()))
    });
    ids.filter_map(Stamp::of).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
