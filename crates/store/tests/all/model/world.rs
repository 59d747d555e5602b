//! Two stores of one place, and what is done with them beside the model.

use std::sync::Arc;

use everturn_model::subject::Subject;
use everturn_model::{Event, Record, Session, SessionId, fold};
use everturn_store::{
    Appended, ArchivedSessions, Authority, Cut, Durability, Error, Filter, Fork, Lease, NewEvent, Store,
    Totals,
};
use tokio::runtime::{Builder, Runtime};

use super::ops::{Op, Which, Who};
use super::reference::{Known, copied, listed, odd};
use crate::events::{NOW, admitted, again, at, new, prompt, session_id, titled};
use crate::place::{Kind, Place};
use crate::story::Story;

/// A database that sequences share.
#[derive(Debug)]
pub(super) struct World {
    // Closed before the place goes.
    stores: [Option<Store>; 2],
    place: Place,
    runtime: Runtime,
    names: u32,
    sequences: u32,
}

impl World {
    pub(super) fn new(kind: Kind) -> Self {
        let place = Place::in_memory(kind);
        let mut builder = match kind {
            Kind::Sqlite => Builder::new_current_thread(),
            Kind::Postgres => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let mut world = Self { stores: [None, None], place, runtime, names: 0, sequences: 0 };
        for who in [false, true] {
            world.restart(who);
        }
        world
    }

    pub(super) fn sequences(&self) -> u32 {
        self.sequences
    }

    fn restart(&mut self, who: Who) {
        let slot = usize::from(who);
        let entered = self.runtime.enter();
        self.stores[slot] = None;
        drop(entered);
        self.names += 1;
        let name = format!("own_{}", self.names);
        let open = self.place.open_with(&name, |options| options.durability = Durability::Process);
        self.stores[slot] = Some(self.runtime.block_on(open));
    }

    /// Does what a sequence says, and compares everything in the end.
    pub(super) fn run(&mut self, ops: &[Op]) {
        self.sequences += 1;
        let mut sequence = Sequence { project: format!("project {}", self.sequences), known: Vec::new() };
        for op in ops {
            if let Op::Restart { who } = op {
                self.restart(*who);
                continue;
            }
            let [Some(one), Some(two)] = &self.stores else { panic!("both are open") };
            self.runtime.block_on(sequence.perform(one, two, op));
        }
        // Either of them has to know everything; to ask both every time would take twice as long.
        let [Some(one), Some(two)] = &self.stores else { panic!("both are open") };
        let (first, second) = if self.sequences.is_multiple_of(2) { (one, two) } else { (two, one) };
        self.runtime.block_on(sequence.check_all(first, second));
    }
}

/// The sessions of one sequence.
struct Sequence {
    project: String,
    known: Vec<Known>,
}

impl Sequence {
    async fn perform(&mut self, one: &Store, two: &Store, op: &Op) {
        let store = |who: Who| if who { two } else { one };
        let living = [one.owner(), two.owner()];
        match op {
            Op::Create { who, seed } => self.create(store(*who), *seed).await,
            Op::Fork { who, which, leaf, by_store } => {
                self.fork(store(*who), *which, *leaf, *by_store).await;
            }
            Op::Odd { who, which, odd: kind, a, b } => {
                let Some(at) = self.at(*which) else { return };
                let (story, others) = (self.known[at].story.clone(), self.known.clone());
                if let Some(event) = odd(&story, &others, *kind, *a, *b) {
                    self.known[at].odd(store(*who), event).await;
                }
            }
            Op::Append { who, which, right, steps } => {
                let Some(at) = self.at(*which) else { return };
                let known = &mut self.known[at];
                let before = known.story.records.len();
                let authority = known.authority(store(*who), *right);
                if authority == Authority::Admission && known.session().revert.is_some() {
                    return known.check_staged(store(*who)).await;
                }
                steps.iter().for_each(|step| known.story.step(*step));
                known.put(store(*who), authority, before).await;
            }
            Op::Trash { who, which } => self.put_event(store(*who), *which, Event::SessionTrashed {}).await,
            Op::Restore { who, which } => {
                self.put_event(store(*who), *which, Event::SessionRestored {}).await;
            }
            Op::Purge { who, which } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].purge(store(*who), &living).await;
            }
            Op::Acquire { who, which } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].acquire(store(*who), &living).await;
            }
            Op::Release { who, which } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].release(store(*who)).await;
            }
            Op::Stale { who, which, lost } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].check_stale(store(*who), *lost).await;
            }
            Op::Repeat { who, which, from, count } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].check_repeat(store(*who), *from, *count).await;
            }
            Op::Forge { who, which, at: seq } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].check_forged(store(*who), *seq).await;
            }
            Op::Look { who, which } => {
                let Some(at) = self.at(*which) else { return };
                self.known[at].check(store(*who)).await;
            }
            Op::Restart { .. } => {}
        }
    }

    /// A session by a number that wraps around; those that were deleted for good too.
    fn at(&self, which: Which) -> Option<usize> {
        (!self.known.is_empty()).then(|| usize::from(which) % self.known.len())
    }

    fn fresh(&self) -> Session {
        Session::new(session_id(), &self.project, "/srv/demo", "New session", "0.1.0", NOW)
    }

    async fn create(&mut self, store: &Store, seed: u8) {
        let mut story = Story::begin(self.fresh());
        story.seed(seed);
        let mut known = Known::new(story);
        known.put(store, Authority::Open, 0).await;
        self.known.push(known);
    }

    async fn fork(&mut self, store: &Store, which: Which, leaf: u16, by_store: bool) {
        let Some(at) = self.at(which) else { return };
        let source = &self.known[at];
        let mut story = Story::begin(self.fresh());
        let Some(event) = copied(&source.story.tree, leaf) else { return };
        if !by_store || source.purged {
            story.record(event, leaf);
            let mut known = Known::new(story);
            known.put(store, Authority::Open, 0).await;
            self.known.push(known);
            return;
        }
        let Event::SessionForked { origin, seed } = event else { return };
        let fork = Fork {
            source: source.id(),
            cut: Cut::Through(origin.entry.clone().unwrap()),
            session: story.tree.session,
            events: [titled("").id, titled("").id],
            time: NOW,
        };
        let id = fork.session.id.clone();
        store.fork(fork).await.unwrap();
        // The copy has ids of its own choice, which only its log tells.
        let story = Story::of(store.events(&id, None, usize::MAX).await.unwrap());
        assert_eq!(story.tree.session.origin, Some(origin));
        let bodies =
            |story: &Story| story.tree.nodes().iter().map(|node| node.entry.body.kind()).collect::<Vec<_>>();
        let expected: Vec<_> = seed.nodes.iter().map(|node| node.entry.body.kind()).collect();
        assert_eq!(bodies(&story), expected, "the same path");
        self.known.push(Known::new(story));
    }

    async fn put_event(&mut self, store: &Store, which: Which, event: Event) {
        let Some(at) = self.at(which) else { return };
        let known = &mut self.known[at];
        let before = known.story.records.len();
        known.story.record(event, 0);
        known.put(store, Authority::Open, before).await;
    }

    async fn check_all(&self, store: &Store, other: &Store) {
        for known in &self.known {
            known.check(store).await;
            known.check_sound(other).await;
        }
        for project in [self.project.clone(), format!("{}+", self.project)] {
            use ArchivedSessions::{Excluded, Included, Only};
            for (archived, trashed) in [(Excluded, false), (Included, false), (Only, false), (Excluded, true)]
            {
                let project = Some(project.clone());
                let filter = Filter { project, archived, trashed, ..Filter::default() };
                let expected = listed(&self.known, &filter);
                assert_eq!(store.sessions(filter.clone()).await.unwrap(), expected, "{filter:?}");
                let mut totals = Totals::default();
                for session in &expected {
                    totals.sessions += 1;
                    totals.tokens = totals.tokens.plus(&session.spent.tokens);
                    totals.cost += everturn_model::Money::from_nanos(session.spent.cost.to_nanos());
                }
                assert_eq!(store.totals(filter).await.unwrap(), totals);
            }
        }
        let there: Vec<&Known> = self.known.iter().filter(|known| !known.purged).collect();
        let ours = |id: &SessionId| self.known.iter().any(|known| known.session().id == *id);
        let mut expected: Vec<_> = there
            .iter()
            .filter(|known| known.session().time.trashed.is_none())
            .flat_map(|known| known.story.tree.requests.values().map(|request| (known.id(), request.clone())))
            .collect();
        expected.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
        let mut found = store.requests().await.unwrap();
        found.retain(|(id, _)| ours(id));
        assert_eq!(found, expected);
        let mut expected: Vec<_> =
            there.iter().filter(|known| known.unfinished()).map(|known| known.id()).collect();
        expected.sort();
        let mut found = store.unfinished().await.unwrap();
        found.retain(ours);
        found.sort();
        assert_eq!(found, expected);
    }
}

impl Known {
    /// A right that there is: the owner's, if it is this store; or anybody's.
    fn authority(&self, store: &Store, right: u8) -> Authority {
        match (right % 8, self.lease()) {
            (0..4, Some(lease)) if lease.owner == store.owner() => Authority::Owned(lease),
            (4, Some(lease)) if lease.owner == store.owner() => Authority::Leaving(lease),
            (5 | 6, _) => Authority::Admission,
            _ => Authority::Open,
        }
    }

    /// Appends what the model has got since it had so many events.
    async fn put(&mut self, store: &Store, authority: Authority, before: usize) {
        let events: Vec<NewEvent> = self.story.records[before..].iter().map(again).collect();
        if events.is_empty() {
            return;
        }
        let left = if let Authority::Leaving(lease) = &authority { Some(lease.clone()) } else { None };
        let answer = store.append(&self.id(), authority, events).await;
        if self.purged {
            assert!(matches!(answer, Err(Error::Purged(_))), "{answer:?}");
            return;
        }
        let last = self.story.records.last().unwrap().seq;
        let first = self.story.records[before].seq;
        let session = Arc::new(self.session().clone());
        assert_eq!(answer.unwrap(), Appended { first, seq: last, session, fresh: true });
        if left.is_some() {
            self.lost.extend(left);
            self.owner = None;
        }
    }

    /// Appends an event of which only the fold knows whether it fits.
    async fn odd(&mut self, store: &Store, event: Event) {
        let good = titled("before the odd one");
        let mut story = self.story.clone();
        story.record(good.event, 0);
        let record = Record {
            id: new(event.clone()).id,
            seq: story.records.last().unwrap().seq + 1,
            session: self.id(),
            time: NOW,
            subject: Subject::of(&event, &story.tree),
            event,
        };
        match fold::apply(&mut story.tree, &record) {
            Ok(_) => {
                let before = self.story.records.len();
                story.records.push(record);
                self.story = story;
                self.put(store, Authority::Open, before).await;
            }
            Err(error) => {
                let mut batch: Vec<NewEvent> = story.records.last().map(again).into_iter().collect();
                batch.push(again(&record));
                let answer = store.append(&self.id(), Authority::Open, batch).await;
                match answer {
                    Err(Error::Purged(_)) if self.purged => {}
                    Err(Error::Unfit { source, .. }) => assert_eq!(source, error, "{record:?}"),
                    other => panic!("the fold says {error}, the store {other:?} to {record:?}"),
                }
            }
        }
    }

    async fn check_staged(&self, store: &Store) {
        let answer = store.append(&self.id(), Authority::Admission, vec![admitted(&prompt("not now"))]).await;
        match answer {
            Err(Error::Purged(_)) if self.purged => {}
            Err(Error::Staged(_)) if !self.purged => {}
            other => panic!("{other:?}"),
        }
    }

    async fn purge(&mut self, store: &Store, living: &[&str]) {
        let answer = store.purge(&self.id(), NOW).await;
        match &self.owner {
            _ if self.purged => assert!(!answer.unwrap(), "it is gone already"),
            Some(owner) if owner != store.owner() && living.contains(&owner.as_str()) => {
                assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
            }
            _ => {
                assert!(answer.unwrap());
                self.purged = true;
            }
        }
    }

    async fn acquire(&mut self, store: &Store, living: &[&str]) {
        let answer = store.acquire(&self.id()).await;
        if self.purged {
            assert!(matches!(answer, Err(Error::NoSession(_) | Error::Purged(_))), "{answer:?}");
            return;
        }
        match &self.owner {
            Some(owner) if owner == store.owner() => {}
            Some(owner) if living.contains(&owner.as_str()) => {
                assert!(matches!(&answer, Err(Error::Busy { owner: by, .. }) if by == owner), "{answer:?}");
                return;
            }
            _ => {
                self.lost.extend(self.lease());
                self.owner = Some(store.owner().to_owned());
                self.epoch += 1;
            }
        }
        assert_eq!(Some(answer.unwrap()), self.lease());
    }

    async fn release(&mut self, store: &Store) {
        let Some(lease) = self.lease().filter(|lease| lease.owner == store.owner()) else { return };
        store.release(lease.clone()).await.unwrap();
        self.lost.push(lease);
        self.owner = None;
    }

    async fn check_stale(&self, store: &Store, lost: u8) {
        let Some(lease) = self.lost.get(usize::from(lost) % self.lost.len().max(1)) else { return };
        let lease: Lease = lease.clone();
        let answer = store.append(&self.id(), Authority::Owned(lease.clone()), vec![titled("stale")]).await;
        match answer {
            Err(Error::Purged(_)) if self.purged => {}
            Err(Error::Fenced(_)) if !self.purged => {}
            other => panic!("{other:?}"),
        }
        let renewed = store.renew(&lease).await;
        assert!(matches!(renewed, Err(Error::Fenced(_))), "{renewed:?}");
    }

    async fn check_repeat(&self, store: &Store, from: u16, count: u8) {
        let from = usize::from(from) % self.story.records.len();
        let some = self.story.records[from..].iter().take(usize::from(count));
        let answer = store.append(&self.id(), Authority::Open, some.map(again).collect()).await;
        if self.purged {
            assert!(matches!(answer, Err(Error::Purged(_))), "{answer:?}");
            return;
        }
        let (first, seq) = (self.story.records[from].seq, self.story.records.last().unwrap().seq);
        let session = Arc::new(self.session().clone());
        assert_eq!(answer.unwrap(), Appended { first, seq, session, fresh: false });
    }

    async fn check_forged(&self, store: &Store, seq: u16) {
        let record = &self.story.records[usize::from(seq) % self.story.records.len()];
        let forged = NewEvent { id: record.id.clone(), ..at(NOW, titled("forged").event) };
        let answer = store.append(&self.id(), Authority::Open, vec![forged]).await;
        match answer {
            Err(Error::Purged(_)) if self.purged => {}
            Err(Error::Unfit { source: fold::Error::Taken(_), .. }) if !self.purged => {}
            other => panic!("{other:?}"),
        }
    }

    /// The log and the rows are what the model has.
    async fn check(&self, store: &Store) {
        let id = self.id();
        let log = store.events(&id, None, usize::MAX).await.unwrap();
        let (tree, session) = (store.tree(&id).await.unwrap(), store.session(&id).await.unwrap());
        if self.purged {
            assert_eq!((log, tree, session), (Vec::new(), None, None));
            return;
        }
        assert_eq!(log, self.story.records, "the log is what was appended");
        assert_eq!(tree.as_ref(), Some(&self.story.tree), "the rows are the fold of the log");
        assert_eq!(session.as_ref(), Some(self.session()));
        assert_eq!(store.todos(&id).await.unwrap(), self.story.tree.todos);
    }

    /// The whole log, folded from the beginning, gives the rows as well, and the store itself finds nothing wrong.
    async fn check_sound(&self, store: &Store) {
        if self.purged {
            return;
        }
        assert_eq!(fold::replay(&self.story.records).unwrap().as_ref(), Some(&self.story.tree));
        let verdict = store.verify(&self.id()).await.unwrap();
        assert!(verdict.is_sound(), "{verdict:?}");
    }
}
