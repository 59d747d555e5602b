//! The order of the feed, with a log that two processes write, a writer that comes late and looks that take their time.

use everturn_model::{EventId, Record, Tree};
use proptest::prelude::*;

use super::*;
use crate::feed::position::TransactionSnapshot;

/// What an observer or a telling left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Event(usize, u64, Teller),
    /// Something that was to be told after this event of this session.
    Sign(usize, u64),
    Purged(usize),
    Gap,
}

/// Whose an event was told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Teller {
    We,
    Others,
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// This process commits so many events to a session; its writer tells of them later.
    Own(usize, u64),
    /// This process tries to, and fails.
    Fail(usize, u64),
    /// The writer tells of the oldest commit that it has not told of.
    Tell,
    /// Another process begins an append: it has a number, and the session, but nobody sees it yet.
    Begin(usize, u64),
    /// It commits.
    Commit(usize),
    /// A look begins, or reads its next session, or ends.
    Look,
    /// Something is told after what this process committed to a session.
    Sign(usize),
}

const SESSIONS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = 0..SESSIONS;
    let step = prop_oneof![
        3 => (session.clone(), 1..3_u64).prop_map(|(session, count)| Step::Own(session, count)),
        1 => (session.clone(), 1..3_u64).prop_map(|(session, count)| Step::Fail(session, count)),
        3 => Just(Step::Tell),
        2 => (session.clone(), 1..3_u64).prop_map(|(session, count)| Step::Begin(session, count)),
        2 => session.clone().prop_map(Step::Commit),
        4 => Just(Step::Look),
        2 => session.prop_map(Step::Sign),
    ];
    proptest::collection::vec(step, 0..80)
}

/// A look that has begun.
struct Glance {
    since: Position,
    now: Position,
    left: VecDeque<(usize, u64)>,
}

/// A database with its log, and the process whose feed it is.
struct World {
    sequencer: Sequencer,
    /// What the observer was told, in order, and the signs.
    heard: Arc<Mutex<Vec<Told>>>,
    /// The stamp of each event, by session, and who wrote it.
    logs: [Vec<(u64, Teller)>; SESSIONS],
    next: u64,
    /// Appends of the other process that are not committed, by session: stamp and how many events.
    running: BTreeMap<usize, (u64, u64)>,
    /// Own commits that the writer has not told of: session, first seq, how many, own stamp, the stamp before.
    untold: VecDeque<(usize, u64, u64, u64, u64)>,
    /// The last own event of each session that the writer has told of.
    own: [Option<u64>; SESSIONS],
    glance: Option<Glance>,
    page: usize,
    /// Commits are numbered one after the other, and only one is made at a time.
    numbered: bool,
}

fn name(session: usize) -> SessionId {
    SessionId::new(format!("ses_{session}"))
}

/// Events that this process appends.
fn own(session: usize, first: u64, count: u64, stamp: u64, follows: u64) -> Vec<Arc<Committed>> {
    let event = |seq| Arc::new(committed(session, seq, stamp, WrittenBy::Us, follows));
    (first..first + count).map(event).collect()
}

/// An event as a look finds it.
fn read(session: usize, seq: u64, stamp: u64) -> Committed {
    committed(session, seq, stamp, WrittenBy::Others { newest: false }, 0)
}

fn committed(session: usize, seq: u64, stamp: u64, by: WrittenBy, follows: u64) -> Committed {
    let id = name(session);
    let record = Record {
        id: EventId::new(format!("evt_{session}_{seq}_{stamp}")),
        session: id.clone(),
        seq,
        time: 0,
        event: Event::InterruptRequested {},
        subject: None,
    };
    let tree = Tree::new(Session::new(id, "global", "/srv", "t", "1", 0));
    Committed { record: Arc::new(record), before: None, tree, by, follows }
}

fn number(session: &SessionId) -> usize {
    session.as_str().trim_start_matches("ses_").parse().unwrap()
}

impl World {
    fn new(page: usize, numbered: bool) -> Self {
        let heard: Arc<Mutex<Vec<Told>>> = Arc::default();
        let hears = Arc::clone(&heard);
        let sequencer = Sequencer::new(Arc::new(move |item| {
            let told = match item {
                FeedItem::Committed(committed) => {
                    let teller = if committed.by == WrittenBy::Us { Teller::We } else { Teller::Others };
                    Told::Event(number(&committed.record.session), committed.record.seq, teller)
                }
                FeedItem::Purged(purged) => Told::Purged(number(&purged.session)),
                FeedItem::Text(_) => return,
                FeedItem::Gap => Told::Gap,
            };
            hears.lock().unwrap().push(told);
        }));
        // Two events of each session are from before.
        let logs = [[1, 2], [3, 3], [4, 5]].map(|log| log.map(|stamp| (stamp, Teller::Others)).to_vec());
        let world = Self {
            sequencer,
            heard,
            logs,
            next: 6,
            running: BTreeMap::new(),
            untold: VecDeque::new(),
            own: [None; SESSIONS],
            glance: None,
            page,
            numbered,
        };
        world.sequencer.begin(world.position(), Vec::new());
        world
    }

    fn position(&self) -> Position {
        if self.numbered {
            return Position::Newest(self.next - 1);
        }
        let running: Vec<String> = {
            let mut running: Vec<u64> = self.running.values().map(|(stamp, _)| *stamp).collect();
            running.sort_unstable();
            running.iter().map(u64::to_string).collect()
        };
        let least = self.running.values().map(|(stamp, _)| *stamp).min().unwrap_or(self.next);
        let text = format!("{least}:{}:{}", self.next, running.join(","));
        Position::Snapshot(TransactionSnapshot::parse(&text).unwrap())
    }

    /// The stamp of a session's last event.
    fn newest(&self, session: usize) -> u64 {
        self.logs[session].last().unwrap().0
    }

    fn take_stamp(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn put(&mut self, session: usize, stamp: u64, count: u64, teller: Teller) {
        for _ in 0..count {
            self.logs[session].push((stamp, teller));
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            // The session's row is locked by whoever appends to it.
            Step::Own(session, count) if !self.running.contains_key(&session) => {
                let (first, before) = (self.logs[session].len() as u64, self.newest(session));
                let stamp = self.take_stamp();
                self.sequencer.announce(stamp, &own(session, first, count, stamp, before));
                self.put(session, stamp, count, Teller::We);
                self.untold.push_back((session, first, count, stamp, before));
            }
            // It was announced, and then the database refused it.
            Step::Fail(session, count) if !self.running.contains_key(&session) => {
                let (first, before) = (self.logs[session].len() as u64, self.newest(session));
                // A number that was given back is given to the next.
                let stamp = if self.numbered { self.next } else { self.take_stamp() };
                // The stamp makes the id, and this one is another event than the next with that number.
                let failed = own(session, first, count, stamp + 1000, before);
                self.sequencer.announce(stamp, &failed);
            }
            Step::Begin(session, count) if !self.running.contains_key(&session) => {
                let stamp = self.take_stamp();
                if self.numbered {
                    self.put(session, stamp, count, Teller::Others);
                } else {
                    self.running.insert(session, (stamp, count));
                }
            }
            Step::Commit(session) => {
                if let Some((stamp, count)) = self.running.remove(&session) {
                    self.put(session, stamp, count, Teller::Others);
                }
            }
            Step::Own(..) | Step::Fail(..) | Step::Begin(..) => {}
            Step::Tell => self.tell(),
            Step::Look => self.look(),
            Step::Sign(session) => {
                if let Some(seq) = self.own[session] {
                    let told = Arc::clone(&self.heard);
                    let sign = Box::new(move || told.lock().unwrap().push(Told::Sign(session, seq)));
                    self.sequencer.tell_after(&name(session), sign);
                }
            }
        }
    }

    fn tell(&mut self) {
        let Some((session, first, count, stamp, before)) = self.untold.pop_front() else { return };
        self.sequencer.commit(stamp, &own(session, first, count, stamp, before));
        self.sequencer.pass(stamp);
        self.own[session] = Some(first + count - 1);
    }

    fn look(&mut self) {
        let Some(glance) = &mut self.glance else {
            let since = self.sequencer.begin_look().unwrap();
            let changed = (0..SESSIONS).filter(|session| !since.covers(self.newest(*session)));
            let left = changed.map(|session| (session, self.logs[session].len() as u64 - 1)).collect();
            self.glance = Some(Glance { since, now: self.position(), left });
            return;
        };
        match glance.left.pop_front() {
            None => {
                let now = glance.now.clone();
                self.glance = None;
                self.sequencer.end_look(now);
            }
            Some((session, head)) => {
                let since = glance.since.clone();
                self.catch_up(session, head, &since);
            }
        }
    }

    fn catch_up(&self, session: usize, head: u64, since: &Position) {
        let (id, log) = (name(session), &self.logs[session]);
        let mut after = self.sequencer.last(&id);
        if after.is_some_and(|last| last >= head) {
            return;
        }
        if after.is_none() {
            let first = log.iter().position(|(stamp, _)| !since.covers(*stamp)).unwrap();
            after = (first as u64).checked_sub(1);
        }
        while after.is_none_or(|after| after < head) {
            let from = after.map_or(0, |after| after + 1);
            let page: Vec<Committed> = (0..)
                .zip(log)
                .skip_while(|(seq, _)| *seq < from)
                .take(self.page)
                .map(|(seq, (stamp, _))| read(session, seq, *stamp))
                .collect();
            after = page.last().map(|last| last.record.seq);
            self.sequencer.deliver(&id, page);
        }
    }

    /// Lets everything come to rest.
    fn rest(&mut self) {
        // The number of a commit that failed is not free until there is another one.
        self.step(&Step::Own(0, 1));
        for session in 0..SESSIONS {
            self.step(&Step::Commit(session));
        }
        while !self.untold.is_empty() {
            self.tell();
        }
        for _ in 0..3 {
            self.look();
            while self.glance.is_some() {
                self.look();
            }
        }
    }

    fn check(&self) {
        let told = self.heard.lock().unwrap();
        assert!(!told.contains(&Told::Gap), "nothing was missing: {told:?}");
        for (session, log) in self.logs.iter().enumerate() {
            let told: Vec<(u64, Teller)> = told
                .iter()
                .filter_map(|told| match told {
                    Told::Event(of, seq, teller) if *of == session => Some((*seq, *teller)),
                    _ => None,
                })
                .collect();
            let log = (0..).zip(log).map(|(seq, (_, teller))| (seq, *teller)).skip(2);
            assert_eq!(told, log.collect::<Vec<_>>(), "session {session}");
        }
        for (place, sign) in told.iter().enumerate() {
            if let Told::Sign(session, seq) = sign {
                let event =
                    told.iter().position(|told| *told == Told::Event(*session, *seq, Teller::We)).unwrap();
                assert!(event < place, "{sign:?} came before its event: {told:?}");
            }
        }
        let state = self.sequencer.lock();
        assert!(state.tracks.is_empty() && state.announced.is_empty(), "sessions that rest cost nothing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_event_is_told_once_and_in_order(steps in steps(), page in 1..4_usize, numbered: bool) {
        let mut world = World::new(page, numbered);
        for step in &steps {
            world.step(step);
        }
        world.rest();
        world.check();
    }
}

#[test]
fn an_own_commit_that_a_look_has_told_is_not_told_again_however_late_the_writer_comes() {
    // Two looks passed before the writer told of its commit: nothing was remembered of the session any more, and the
    // event before it had been told, so that it seemed to follow directly.
    let mut world = World::new(8, false);
    world.step(&Step::Own(0, 1));
    for _ in 0..3 {
        world.look();
        while world.glance.is_some() {
            world.look();
        }
    }
    assert!(world.sequencer.lock().tracks.is_empty());
    world.tell();
    assert_eq!(*world.heard.lock().unwrap(), [Told::Event(0, 2, Teller::We)]);
}

#[test]
fn what_waits_is_bounded_and_let_go_with_the_gap() {
    let mut world = World::new(8, false);
    world.step(&Step::Begin(0, 1));
    world.step(&Step::Commit(0));
    world.step(&Step::Own(0, 1));
    world.tell();
    assert_eq!(*world.heard.lock().unwrap(), [], "the event before it is missing");
    for _ in 0..MOST_HELD {
        world.step(&Step::Sign(0));
    }
    let told = world.heard.lock().unwrap().clone();
    assert_eq!(told[..3], [Told::Gap, Told::Event(0, 3, Teller::We), Told::Sign(0, 3)]);
    assert_eq!(told.len(), MOST_HELD + 2);
    // What could not be told in its place is not told out of place.
    world.rest();
    assert_eq!(world.heard.lock().unwrap().len(), told.len() + 1);
}

#[test]
fn an_own_part_that_a_look_saw_first_is_not_read_as_that_of_another() {
    let world = World::new(8, false);
    let part = Part::new(PartId::new("prt_1"), PartKind::text(""));
    let event = Event::PartStarted { entry: EntryId::new("msg_1"), part: Box::new(part) };
    let with = |by| {
        let mut committed = committed(0, 2, 6, by, 2);
        let record = Record { event: event.clone(), ..Record::clone(&committed.record) };
        committed.record = Arc::new(record);
        committed
    };
    let own = Arc::new(with(WrittenBy::Us));
    world.sequencer.announce(6, [&own]);
    world.sequencer.deliver(&name(0), vec![with(WrittenBy::Others { newest: true })]);
    world.sequencer.commit(6, &[own]);
    assert!(!world.sequencer.is_streaming());
    assert_eq!(*world.heard.lock().unwrap(), [Told::Event(0, 2, Teller::We)]);
}

#[test]
fn own_commits_alone_need_no_look_and_leave_nothing_behind() {
    // Each of them made the looking task read the sessions again.
    let mut world = World::new(8, true);
    for session in [0, 1, 0] {
        world.step(&Step::Own(session, 2));
        world.tell();
        assert!(world.sequencer.has_told(&world.position()));
        assert!(world.sequencer.lock().tracks.is_empty());
    }
    world.step(&Step::Begin(1, 1));
    assert!(!world.sequencer.has_told(&world.position()), "another process's is looked for");
    world.step(&Step::Own(0, 1));
    world.tell();
    assert!(!world.sequencer.has_told(&world.position()));
    world.rest();
    world.check();
    assert!(world.sequencer.has_told(&world.position()));
}

#[test]
fn text_behind_a_hole_is_not_read_again() {
    // Each look read everything behind it, and told nothing.
    let world = World::new(8, false);
    let session = Session::new(name(0), "global", "/srv", "t", "1", 0);
    let parts =
        ["prt_1", "prt_2"].map(|id| FollowedPart::new(&session, EntryId::new("msg_1"), PartId::new(id)));
    world.sequencer.begin(world.position(), parts.to_vec());
    let piece = |part: &str, start| SavedPiece {
        session: name(0),
        part: PartId::new(part),
        start,
        text: "text".to_owned(),
    };
    world.sequencer.tell_texts(vec![
        piece("prt_1", 0),
        piece("prt_1", 8),
        piece("prt_1", 12),
        piece("prt_2", 0),
    ]);
    let left: Vec<(String, usize)> =
        world.sequencer.open_parts().iter().map(|open| (open.part.to_string(), open.offset)).collect();
    assert_eq!(left, [("prt_2".to_owned(), 4)]);
}

/// Parts of two sessions that another process is streaming.
fn followed() -> [FollowedPart; 2] {
    [0, 1].map(|session| {
        let of = Session::new(name(session), "global", "/srv", "t", "1", 0);
        FollowedPart::new(&of, EntryId::new("msg_1"), PartId::new("prt_1"))
    })
}

#[test]
fn a_session_that_was_deleted_for_good_streams_nothing_and_holds_nothing_back() {
    let mut world = World::new(8, false);
    let parts = followed();
    world.sequencer.begin(world.position(), parts.to_vec());
    world.step(&Step::Begin(0, 1));
    world.step(&Step::Commit(0));
    world.step(&Step::Own(0, 1));
    world.tell();
    world.step(&Step::Sign(0));
    assert_eq!(*world.heard.lock().unwrap(), [], "the event before it is missing");
    let (project, directory) = ("global".to_owned(), "/srv".to_owned());
    world.sequencer.tell_purged(PurgedSession {
        session: name(0),
        project,
        directory,
        created: 0,
        updated: 0,
    });
    let expected = [Told::Gap, Told::Event(0, 3, Teller::We), Told::Sign(0, 3), Told::Purged(0)];
    assert_eq!(*world.heard.lock().unwrap(), expected);
    assert_eq!(world.sequencer.open_parts(), parts[1..]);
}

#[test]
fn a_part_is_followed_until_it_or_its_turn_ends_or_its_session_is_deleted() {
    let (entry, part) = (EntryId::new("msg_1"), PartId::new("prt_1"));
    let error = everturn_model::Fault::internal("no");
    let ends = [
        Event::PartEnded { entry: entry.clone(), part, text: String::new(), metadata: None },
        Event::StepEnded {
            entry: entry.clone(),
            finish: everturn_model::finish::Finish::Stop,
            tokens: Default::default(),
            cost: Default::default(),
            snapshot: None,
            files: None,
            parts: Vec::new(),
            declined: false,
            estimated: false,
            error: None,
            structured: None,
        },
        Event::StepFailed { entry, error, resumes: false, remains: Box::default() },
        Event::SessionTrashed {},
    ];
    for end in ends {
        let world = World::new(8, false);
        let parts = followed();
        world.sequencer.begin(world.position(), parts.to_vec());
        let mut last = read(0, 2, 6);
        let name = end.name();
        last.record = Arc::new(Record { event: end, ..Record::clone(&last.record) });
        world.sequencer.deliver(&parts[0].session, vec![last]);
        assert_eq!(world.sequencer.open_parts(), parts[1..], "after {name}");
    }
}

#[test]
fn a_look_that_ends_late_does_not_take_back_what_was_told_meanwhile() {
    // Another look would follow, for nothing.
    let mut world = World::new(8, true);
    world.look();
    for _ in 0..2 {
        world.step(&Step::Own(1, 1));
        world.tell();
    }
    world.look();
    assert!(world.glance.is_none() && world.sequencer.has_told(&world.position()));
    world.rest();
    world.check();
}

#[test]
fn what_a_look_read_beyond_its_moment_is_not_told_again() {
    // The writer's word of an older commit made the session be forgotten, of which more had been told by then.
    let mut world = World::new(8, true);
    world.step(&Step::Own(0, 1));
    world.look();
    world.step(&Step::Begin(0, 1));
    world.look();
    world.look();
    assert!(world.glance.is_none());
    world.tell();
    world.rest();
    world.check();
}
