//! Planning an append: from what is stored and what is new to the rows that have to be written.
//!
//! Both engines do the same three steps in one transaction: load the rows that the new events touch, plan, write what
//! the plan says. The middle step is here and touches no database, so the engines cannot differ in what an append
//! means.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use everturn_model::bill::BillLine;
use everturn_model::event::RowsToFold;
use everturn_model::fold::{self, Changes};
use everturn_model::inbox::WAITING_LIMIT;
use everturn_model::subject::Subject;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, EventId, Millis, PartId, Record, RequestId, SessionId, Tree};

use crate::Error;
use crate::append::{Appended, Authority, Committed, NewEvent, WrittenBy};
use crate::row::{self, LogRow, Packing, Rows, SessionRow};

/// A session as far as an append needs it.
#[derive(Debug, Clone)]
pub(crate) struct SessionState {
    /// The seq of its last event.
    pub(crate) seq: u64,
    /// The session row and the rows that are touched.
    pub(crate) tree: Tree,
    /// Who runs it.
    pub(crate) owner: Option<String>,
    /// Which ownership that is.
    pub(crate) epoch: u64,
    /// The stamp of its last change.
    pub(crate) changed: u64,
}

/// An append as it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct AppendRequest {
    pub(crate) session: SessionId,
    pub(crate) authority: Authority,
    pub(crate) events: Vec<NewEvent>,
}

impl AppendRequest {
    /// The ids of its events.
    pub(crate) fn ids(&self) -> Vec<EventId> {
        self.events.iter().map(|event| event.id.clone()).collect()
    }
}

/// The rows that an append has to see.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NeededRows {
    pub(crate) whole: bool,
    pub(crate) entries: Vec<EntryId>,
    pub(crate) parts: Vec<(EntryId, PartId)>,
    pub(crate) inbox: Vec<EntryId>,
    pub(crate) requests: Vec<RequestId>,
}

impl NeededRows {
    /// What events need, each row once.
    pub(crate) fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut needs = Self::default();
        let (mut entries, mut parts) = (HashSet::new(), HashSet::new());
        let (mut inbox, mut requests) = (HashSet::new(), HashSet::new());
        for event in events {
            let touches: RowsToFold<'e> = event.touches();
            needs.whole |= touches.whole;
            for entry in touches.entries {
                push(&mut needs.entries, &mut entries, entry);
                for part in &touches.parts {
                    if parts.insert((entry, *part)) {
                        needs.parts.push((entry.clone(), (*part).clone()));
                    }
                }
            }
            touches.inbox.into_iter().for_each(|id| push(&mut needs.inbox, &mut inbox, id));
            touches.requests.into_iter().for_each(|id| push(&mut needs.requests, &mut requests, id));
        }
        needs
    }
}

fn push<'e, T: Clone + Eq + Hash>(list: &mut Vec<T>, seen: &mut HashSet<&'e T>, item: &'e T) {
    if seen.insert(item) {
        list.push(item.clone());
    }
}

/// An event that is in the log already, found by its id.
#[derive(Debug, Clone)]
pub(crate) struct KnownEvent {
    pub(crate) id: EventId,
    pub(crate) session: SessionId,
    pub(crate) seq: u64,
    pub(crate) event: Event,
}

/// What an append comes to.
#[derive(Debug)]
pub(crate) enum AppendOutcome {
    /// It was there already.
    Present(Appended),
    /// This has to be written.
    Fresh(Box<AppendPlan>),
}

/// The rows that an append writes.
#[derive(Debug)]
pub(crate) struct AppendPlan {
    /// Whether the session is new.
    pub(crate) created: bool,
    /// Its row.
    pub(crate) session: SessionRow,
    /// Whether nobody has the session from then on.
    pub(crate) given_back: bool,
    /// The log's rows, which may still be made: [`row::finish`] waits for them.
    pub(crate) log: Vec<Packing>,
    /// The projections' rows.
    pub(crate) rows: Rows,
    /// The answer.
    pub(crate) appended: Appended,
    /// For the observer.
    pub(crate) committed: Vec<Arc<Committed>>,
}

/// Plans an append. After an error the state must not be used again.
pub(crate) fn plan(
    state: &mut Option<SessionState>,
    asked: AppendRequest,
    known: &[KnownEvent],
    observed: bool,
) -> Result<AppendOutcome, Error> {
    let AppendRequest { session: id, authority, events } = asked;
    // What anybody may append gets its first answer again, whatever became of the session meanwhile. An owner is always
    // asked for its lease first.
    let owned = authority.lease().is_some();
    let mut epoch = if owned { check_authority(state.as_ref(), &id, &authority)? } else { None };
    if let Some(first) = already_there(&id, &events, known)? {
        let state = state.as_ref().ok_or_else(|| Error::NoSession(id))?;
        let session = Arc::new(state.tree.session.clone());
        return Ok(AppendOutcome::Present(Appended { first, seq: state.seq, session, fresh: false }));
    }
    if !owned {
        epoch = check_authority(state.as_ref(), &id, &authority)?;
    }
    let mut progress = AppendProgress { epoch, observed, ..AppendProgress::default() };
    let mut events = events.into_iter();
    let created = state.is_none();
    let title = state.as_ref().map(|state| state.tree.session.title.clone());
    let first = state.as_ref().map_or(0, |state| state.seq + 1);
    let state = match state {
        Some(state) => state,
        None => {
            let new = events.next().ok_or_else(|| Error::NoSession(id.clone()))?;
            state.insert(progress.create(&id, new)?)
        }
    };
    for new in events {
        if let Event::SessionCreated { .. } = new.event {
            return Err(Error::Exists(id));
        }
        progress.append(state, &id, new)?;
    }
    let AppendProgress { touched, log, committed, .. } = progress;
    let mut rows = Rows::of(&state.tree, &touched)?;
    if title.as_ref() != Some(&state.tree.session.title) {
        rows.name(&state.tree.session.title);
    }
    let session = SessionRow::of(&state.tree.session, state.seq)?;
    let given_back = matches!(authority, Authority::Leaving(_));
    if given_back {
        state.owner = None;
    }
    let appended =
        Appended { first, seq: state.seq, session: Arc::new(state.tree.session.clone()), fresh: true };
    Ok(AppendOutcome::Fresh(Box::new(AppendPlan {
        created,
        session,
        given_back,
        log,
        rows,
        appended,
        committed,
    })))
}

/// The epoch under which the append is made; none for an open one.
fn check_authority(
    state: Option<&SessionState>,
    id: &SessionId,
    authority: &Authority,
) -> Result<Option<u64>, Error> {
    match (authority, state) {
        (Authority::Owned(lease) | Authority::Leaving(lease), Some(state)) => {
            let holds = state.owner.as_ref() == Some(&lease.owner)
                && state.epoch == lease.epoch
                && lease.session == *id;
            if holds { Ok(Some(lease.epoch)) } else { Err(Error::Fenced(id.clone())) }
        }
        (Authority::Owned(_) | Authority::Leaving(_), None) => Err(Error::NoSession(id.clone())),
        (Authority::Admission, Some(state)) if state.tree.session.revert.is_some() => {
            Err(Error::Staged(id.clone()))
        }
        (Authority::Admission, Some(state)) if state.tree.session.waiting >= WAITING_LIMIT => {
            Err(Error::InboxFull(id.clone()))
        }
        (Authority::Interrupt, Some(state)) if !state.tree.session.has_work() => Err(Error::Idle(id.clone())),
        (Authority::Interrupt, None) => Err(Error::NoSession(id.clone())),
        (Authority::Open | Authority::Admission | Authority::Interrupt, _) => Ok(None),
    }
}

/// The seq of the first event, when all of them are in this session's log already, one after the other and the same.
fn already_there(id: &SessionId, events: &[NewEvent], known: &[KnownEvent]) -> Result<Option<u64>, Error> {
    let mut seen = HashSet::new();
    if let Some(twice) = events.iter().find(|new| !seen.insert(&new.id)) {
        return Err(unfit(id, fold::Error::Taken(twice.id.to_string())));
    }
    if known.is_empty() {
        return Ok(None);
    }
    let mut first = None;
    let known: HashMap<&EventId, &KnownEvent> = known.iter().map(|known| (&known.id, known)).collect();
    for (offset, new) in (0u64..).zip(events) {
        let taken = || unfit(id, fold::Error::Taken(new.id.to_string()));
        let found = known.get(&new.id).ok_or_else(taken)?;
        let start = *first.get_or_insert(found.seq);
        if found.session != *id || found.seq != start + offset || found.event != new.event {
            return Err(taken());
        }
    }
    Ok(first)
}

/// Rows that events changed, in the order in which they were first touched.
#[derive(Debug, Default)]
pub(crate) struct TouchedRows {
    pub(crate) entries: Vec<(EntryId, i64)>,
    pub(crate) parts: Vec<(EntryId, PartId, i64)>,
    pub(crate) inbox: Vec<(EntryId, i64)>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) todos: bool,
    /// Lines of the bill by event and number. A later one replaces an earlier one.
    pub(crate) bill: BTreeMap<(u64, u64), BillLine>,
    pub(crate) ended: Vec<row::EndedStreams>,
    /// Those that were amended: what they are now may have no text to search for.
    pub(crate) amended: HashSet<(EntryId, Option<PartId>)>,
    seen_entries: HashSet<EntryId>,
    seen_parts: HashSet<(EntryId, PartId)>,
    /// Where each stands in `inbox`.
    seen_inbox: HashMap<EntryId, usize>,
    seen_requests: HashSet<RequestId>,
}

impl TouchedRows {
    /// Notes every entry and part of a tree.
    pub(crate) fn all(&mut self, tree: &Tree) {
        for (order, node) in (0..).zip(tree.nodes()) {
            self.entries.push((node.entry.id.clone(), order));
            self.parts.extend(node.parts.iter().map(|part| (node.entry.id.clone(), part.id.clone(), order)));
        }
    }

    /// Notes what a session brings along.
    fn create(&mut self, tree: &Tree) {
        self.bill.extend(BillLine::of_creation(&tree.session).map(|line| ((line.seq, line.line), line)));
    }

    /// Notes what an event changed.
    pub(crate) fn note(&mut self, record: &Record, changes: &Changes) {
        // Rows of one event stand in the order in which it made them.
        let base = i64::try_from(record.seq).unwrap_or(i64::MAX >> 20) << 20;
        for (order, id) in (base..).zip(&changes.entries) {
            if self.seen_entries.insert(id.clone()) {
                self.entries.push((id.clone(), order));
            }
        }
        for (order, key) in (base..).zip(&changes.parts) {
            if self.seen_parts.insert(key.clone()) {
                self.parts.push((key.0.clone(), key.1.clone(), order));
            }
        }
        for (order, id) in (base..).zip(&changes.inbox) {
            match self.seen_inbox.entry(id.clone()) {
                Entry::Vacant(free) => {
                    free.insert(self.inbox.len());
                    self.inbox.push((id.clone(), order));
                }
                // A prompt that was taken back and comes again stands at the end.
                Entry::Occupied(place) if matches!(record.event, Event::PromptAdmitted { .. }) => {
                    if let Some(seen) = self.inbox.get_mut(*place.get()) {
                        seen.1 = order;
                    }
                }
                Entry::Occupied(_) => {}
            }
        }
        for id in &changes.requests {
            if self.seen_requests.insert(id.clone()) {
                self.requests.push(id.clone());
            }
        }
        self.todos |= changes.todos;
        self.bill.extend(changes.bill.iter().map(|line| ((line.seq, line.line), line.clone())));
        match &record.event {
            Event::PartEnded { part, .. } => self.ended.push(row::EndedStreams::Part(part.clone())),
            Event::StepEnded { .. }
            | Event::StepFailed { .. }
            | Event::CompactionEnded { .. }
            | Event::CompactionFailed { .. } => self.ended.push(row::EndedStreams::All),
            // What changed, not what the event names: that may be the entry where only a part of it is replaced.
            Event::EntryAmended { .. } => {
                self.amended.extend(changes.entries.iter().map(|id| (id.clone(), None)));
                self.amended
                    .extend(changes.parts.iter().map(|(entry, id)| (entry.clone(), Some(id.clone()))));
            }
            _ => {}
        }
    }
}

/// A whole log as the rows that it means.
#[derive(Debug)]
pub(crate) struct ReplayedLog {
    pub(crate) tree: Tree,
    pub(crate) session: SessionRow,
    /// All rows that are there at the end; nothing in them says that a row or a stream is gone.
    pub(crate) rows: Rows,
}

/// Where a log stops making sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayFailure {
    pub(crate) seq: u64,
    pub(crate) reason: String,
}

/// Folds a whole log into the rows that it means; nothing when there is no log.
///
/// # Errors
/// When an event does not fit what came before it.
pub(crate) fn replay(id: &SessionId, records: &[Record]) -> Result<Option<ReplayedLog>, ReplayFailure> {
    let Some((first, rest)) = records.split_first() else { return Ok(None) };
    let stuck = |seq: u64, reason: &dyn std::fmt::Display| ReplayFailure { seq, reason: reason.to_string() };
    let mut tree = fold::begin(first).map_err(|error| stuck(first.seq, &error))?;
    if tree.session.id != *id {
        return Err(stuck(first.seq, &format!("it creates session {}", tree.session.id)));
    }
    let mut touched = TouchedRows::default();
    touched.create(&tree);
    let mut last = first.seq;
    for record in rest {
        let changes = fold::apply(&mut tree, record).map_err(|error| stuck(record.seq, &error))?;
        touched.note(record, &changes);
        last = record.seq;
    }
    let mut rows = Rows::of(&tree, &touched).map_err(|error| stuck(last, &error))?;
    rows.name(&tree.session.title);
    rows.inbox.retain(|row| row.data.is_some());
    rows.requests.retain(|row| row.data.is_some());
    rows.texts.retain(|row| row.text.is_some());
    rows.ended.clear();
    let session = SessionRow::of(&tree.session, last).map_err(|error| stuck(last, &error))?;
    Ok(Some(ReplayedLog { tree, session, rows }))
}

#[derive(Debug, Default)]
struct AppendProgress {
    epoch: Option<u64>,
    observed: bool,
    touched: TouchedRows,
    log: Vec<Packing>,
    committed: Vec<Arc<Committed>>,
}

impl AppendProgress {
    fn create(&mut self, id: &SessionId, new: NewEvent) -> Result<SessionState, Error> {
        if !matches!(new.event, Event::SessionCreated { .. }) {
            return Err(Error::NoSession(id.clone()));
        }
        let (session, event) = (id.clone(), new.event);
        let record = Record { id: new.id, session, seq: 0, time: new.time, event, subject: None };
        let record = Arc::new(record);
        let tree = fold::begin(&record).map_err(|source| unfit(id, source))?;
        if tree.session.id != *id {
            return Err(unfit(id, fold::Error::Taken(tree.session.id.to_string())));
        }
        self.log(&record)?;
        self.touched.create(&tree);
        if self.observed {
            let tree = tree.clone();
            let by = WrittenBy::Us;
            self.committed.push(Arc::new(Committed { record, before: None, tree, by, follows: 0 }));
        }
        Ok(SessionState { seq: 0, tree, owner: None, epoch: 0, changed: 0 })
    }

    fn append(&mut self, state: &mut SessionState, id: &SessionId, new: NewEvent) -> Result<(), Error> {
        let (seq, time): (u64, Millis) = (state.seq + 1, new.time);
        let subject = Subject::of(&new.event, &state.tree);
        let (session, event) = (id.clone(), new.event);
        let record = Arc::new(Record { id: new.id, session, seq, time, event, subject });
        self.log(&record)?;
        let before = self.observed.then(|| state.tree.session.clone());
        let changes = fold::apply(&mut state.tree, &record).map_err(|source| unfit(id, source))?;
        state.seq = seq;
        self.touched.note(&record, &changes);
        if self.observed {
            let tree = excerpt(&state.tree, &record.event, &changes);
            let (follows, by) = (state.changed, WrittenBy::Us);
            self.committed.push(Arc::new(Committed { record, before, tree, by, follows }));
        }
        Ok(())
    }

    fn log(&mut self, record: &Arc<Record>) -> Result<(), Error> {
        self.log.push(LogRow::begin(record, self.epoch)?);
        Ok(())
    }
}

/// The session row and the rows that an event touched. An append of many events has loaded those of all of them: copied
/// for each event, a thousand prompts that are stopped together would be a million.
fn excerpt(tree: &Tree, event: &Event, changes: &Changes) -> Tree {
    let touches = event.touches();
    if touches.whole {
        return tree.clone();
    }
    let mut excerpt = Tree::new(tree.session.clone());
    let changed = changes.parts.iter().map(|(_, part)| part);
    let parts: HashSet<&PartId> = touches.parts.iter().copied().chain(changed).collect();
    let entries = touches.entries.iter().copied().chain(&changes.entries);
    for id in entries.chain(changes.parts.iter().map(|(entry, _)| entry)) {
        let Some(node) = tree.node(id).filter(|_| excerpt.node(id).is_none()) else { continue };
        let parts = node.parts.iter().filter(|part| parts.contains(&part.id)).cloned().collect();
        excerpt.insert(Node::new(node.entry.clone(), parts));
    }
    let mut waiting: Vec<&EntryId> = touches.inbox.iter().copied().chain(&changes.inbox).collect();
    waiting.dedup();
    excerpt.inbox.extend(waiting.into_iter().filter_map(|id| tree.waiting(id)).cloned());
    let requests = touches.requests.iter().copied().chain(&changes.requests);
    excerpt.requests.extend(
        requests
            .filter_map(|id| tree.requests.get_key_value(id))
            .map(|(id, request)| (id.clone(), request.clone())),
    );
    if changes.todos {
        excerpt.todos.clone_from(&tree.todos);
    }
    excerpt
}

fn unfit(session: &SessionId, source: fold::Error) -> Error {
    Error::Unfit { session: session.clone(), source }
}
