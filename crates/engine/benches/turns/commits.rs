//! Commits: how many there were, and what one takes.

use std::path::Path;
use std::time::{Duration, Instant};

use everturn_model::{Event, EventId, Session, SessionId};
use everturn_store::{Authority, NewEvent, Options, Store};

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

/// A store in which nothing happens but commits of one event.
pub(crate) struct CommitClock {
    store: Store,
    session: SessionId,
    number: usize,
    _folder: tempfile::TempDir,
}

impl CommitClock {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Options::folder(folder.path(), "own_bench")).await.unwrap();
        let id = SessionId::new("ses_benchbenchbenchbenchbench0");
        let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
        let mut clock = Self { store, session: id, number: 0, _folder: folder };
        clock.append(Event::SessionCreated { session }).await;
        clock
    }

    async fn append(&mut self, event: Event) {
        let id = EventId::new(format!("evt_{:026}", self.number));
        self.number += 1;
        let new = NewEvent { id, time: 0, event };
        self.store.append(&self.session, Authority::Open, vec![new]).await.unwrap();
    }

    /// What one takes.
    pub(crate) async fn time(&mut self) -> Duration {
        let began = Instant::now();
        self.append(Event::TodoUpdated { todos: Vec::new() }).await;
        began.elapsed()
    }
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
