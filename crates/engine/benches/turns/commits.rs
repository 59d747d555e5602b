//! Commits: how many a turn makes, and what they take without the turn.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everturn_model::{Event, EventId, Record, Session, SessionId};
use everturn_store::{Authority, CommitHook, CommitMoment, NewEvent, Options, Store};

/// How many commits the write-ahead log holds: each ends with a frame that says how large the database is then. Nothing may
/// have been moved into the database meanwhile.
pub(crate) fn count(data: &Path) -> usize {
    let log = std::fs::read(data.join("everturn.db-wal")).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let frame = 24 + usize::try_from(number(8)).unwrap();
    let salts = &log[16..24];
    let frames = (32..log.len()).step_by(frame);
    let own = frames.filter(|at| log.get(at + 8..at + 16) == Some(salts));
    own.filter(|at| number(at + 4) != 0).count()
}

/// What an engine commits, commit by commit.
#[derive(Clone, Default)]
pub(crate) struct CommitDiary {
    commits: Arc<Mutex<Vec<Vec<Event>>>>,
}

impl CommitDiary {
    pub(crate) fn hook(&self) -> CommitHook {
        let commits = Arc::clone(&self.commits);
        Arc::new(move |moment, records: &[&Record]| {
            if moment == CommitMoment::After {
                commits.lock().unwrap().push(records.iter().map(|record| record.event.clone()).collect());
            }
        })
    }

    /// What was committed since the last time.
    pub(crate) fn take(&self) -> Vec<Vec<Event>> {
        std::mem::take(&mut self.commits.lock().unwrap())
    }
}

/// A store in which nothing happens but commits.
pub(crate) struct CommitClock {
    store: Store,
    number: usize,
    _folder: tempfile::TempDir,
}

impl CommitClock {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Options::folder(folder.path(), "own_bench")).await.unwrap();
        Self { store, number: 0, _folder: folder }
    }

    async fn session(&mut self) -> SessionId {
        self.number += 1;
        let id = SessionId::new(format!("ses_bench{:021}", self.number));
        let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
        self.append(&id, Authority::Open, vec![Event::SessionCreated { session }]).await;
        id
    }

    async fn append(&mut self, session: &SessionId, authority: Authority, events: Vec<Event>) {
        let new = events.into_iter().map(|event| {
            self.number += 1;
            NewEvent { id: EventId::new(format!("evt_{:026}", self.number)), time: 0, event }
        });
        let new = new.collect();
        self.store.append(session, authority, new).await.unwrap();
    }

    /// What the smallest commit takes.
    pub(crate) async fn smallest(&mut self) -> Duration {
        let session = self.session().await;
        let began = Instant::now();
        self.append(&session, Authority::Open, vec![Event::TodoUpdated { todos: Vec::new() }]).await;
        began.elapsed()
    }

    /// What the commits of a turn take in another session, one after the other and with nothing between them.
    pub(crate) async fn same(&mut self, commits: &[Vec<Event>]) -> Duration {
        let session = self.session().await;
        let began = Instant::now();
        let Some(((admission, last), turn)) = commits.split_first().and_then(|(first, rest)| {
            let (last, turn) = rest.split_last()?;
            Some(((first, last), turn))
        }) else {
            panic!("a turn has more commits");
        };
        self.append(&session, Authority::Open, admission.clone()).await;
        let lease = self.store.acquire(&session).await.unwrap();
        for events in turn {
            self.append(&session, Authority::Owned(lease.clone()), events.clone()).await;
        }
        self.append(&session, Authority::Leaving(lease), last.clone()).await;
        began.elapsed()
    }
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
