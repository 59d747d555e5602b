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

/// What the commit of one event takes, in the middle of many.
pub(crate) async fn time(rounds: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Options::folder(folder.path(), "own_bench")).await.unwrap();
    let id = SessionId::new("ses_benchbenchbenchbenchbench0");
    let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
    let append = async |number: usize, event: Event| {
        let new = NewEvent { id: EventId::new(format!("evt_{number:026}")), time: 0, event };
        store.append(&id, Authority::Open, vec![new]).await.unwrap();
    };
    append(0, Event::SessionCreated { session }).await;
    let mut times = Vec::new();
    for number in 1..=rounds {
        let began = Instant::now();
        append(number, Event::TodoUpdated { todos: Vec::new() }).await;
        times.push(began.elapsed());
    }
    median(&mut times)
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
