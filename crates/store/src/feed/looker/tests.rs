//! When the looking task looks at a folder, and when it does not.

use std::sync::Mutex;

use everturn_model::{Event, EventId, Session};

use super::*;
use crate::append::{Authority, NewEvent};
use crate::feed::FeedItem;
use crate::options::Options;
use crate::plan::AppendRequest;
use crate::sqlite::SqliteEngine;
use crate::upkeep::trash::Purge;

/// A process with a feed, without the task that looks.
struct Watcher {
    engine: SqliteEngine,
    sequencer: Arc<Sequencer>,
    reader: FeedReader,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// What the observer was told.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Event(SessionId, u64),
    Purged(SessionId),
}

impl Watcher {
    async fn open(folder: &tempfile::TempDir) -> Self {
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let hears = Arc::clone(&heard);
        let sequencer = Arc::new(Sequencer::new(Arc::new(move |item| {
            hears.lock().unwrap().push(match item {
                FeedItem::Committed(committed) => {
                    Heard::Event(committed.record.session.clone(), committed.record.seq)
                }
                FeedItem::Purged(purged) => Heard::Purged(purged.session.clone()),
                FeedItem::Text(_) | FeedItem::Gap => panic!("nothing is streamed or missing"),
            });
        })));
        let options = Options::folder(folder.path(), "own_here");
        let engine = SqliteEngine::open(folder.path(), &options, Some(&sequencer)).unwrap();
        let reader = FeedReader::Sqlite(engine.feed_reader());
        sequencer.begin(reader.position().await.unwrap(), Vec::new());
        // The first question finds out what to compare with.
        glance(&sequencer, &reader, false).await.unwrap();
        Self { engine, sequencer, reader, heard }
    }

    async fn glance(&self) -> u64 {
        glance(&self.sequencer, &self.reader, false).await.unwrap();
        self.sequencer.looks()
    }

    /// What was told since this was last asked.
    fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

/// Another process with the same folder.
fn other(folder: &tempfile::TempDir) -> SqliteEngine {
    SqliteEngine::open(folder.path(), &Options::folder(folder.path(), "own_other"), None).unwrap()
}

fn first(id: &SessionId) -> Heard {
    Heard::Event(id.clone(), 0)
}

async fn append(engine: &SqliteEngine, session: &SessionId, number: u64, event: Event) {
    let event = NewEvent { id: EventId::new(format!("evt_{session}_{number}")), time: 0, event };
    let asked = AppendRequest { session: session.clone(), authority: Authority::Open, events: vec![event] };
    engine.append(asked).await.unwrap();
}

async fn create(engine: &SqliteEngine, name: &str) -> SessionId {
    let id = SessionId::new(name);
    let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
    append(engine, &id, 0, Event::SessionCreated { session }).await;
    id
}

#[tokio::test]
async fn own_commits_make_nobody_look_and_those_of_others_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = Watcher::open(&folder).await;
    let ids = [create(&here.engine, "ses_1").await, create(&here.engine, "ses_2").await];
    assert_eq!(here.glance().await, 0, "all of it is known");
    assert_eq!(here.heard(), ids.map(|id| first(&id)));
    let other = other(&folder);
    assert_eq!(here.glance().await, 0, "nothing happened");
    let id = create(&other, "ses_3").await;
    assert_eq!(here.glance().await, 1);
    assert_eq!(here.heard(), [first(&id)]);
    assert_eq!(here.glance().await, 1, "nothing happened since");
    let id = create(&here.engine, "ses_4").await;
    assert_eq!(here.glance().await, 1);
    assert_eq!(here.heard(), [first(&id)]);
}

#[tokio::test]
async fn one_look_finds_all_sessions_that_changed_however_many() {
    let folder = tempfile::tempdir().unwrap();
    let (here, other) = (Watcher::open(&folder).await, other(&folder));
    let mut ids = Vec::new();
    for number in 0..=SESSIONS {
        ids.push(create(&other, &format!("ses_{number}")).await);
    }
    assert_eq!(here.glance().await, 1);
    assert_eq!(here.heard(), ids.iter().map(first).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_session_that_is_gone_before_its_last_event_was_read_is_told_of_once() {
    // The look had found the event that put it into the trash, so that it passed for told. And the note of the purge is
    // counted as no commit: it was read only when something else happened.
    let folder = tempfile::tempdir().unwrap();
    let (here, other) = (Watcher::open(&folder).await, other(&folder));
    let id = create(&other, "ses_1").await;
    here.glance().await;
    assert_eq!(here.heard(), [first(&id)]);
    append(&other, &id, 1, Event::SessionTrashed {}).await;
    // A look by its steps, with a purge between two of them.
    let since = here.sequencer.begin_look().unwrap();
    let changes = here.reader.changes(&since).await.unwrap();
    assert_eq!((changes.sessions, changes.purged), (vec![(id.clone(), 1)], Vec::new()));
    let purge = Purge { session: id.clone(), time: 0, trashed: None };
    assert!(other.purge_session(purge).await.unwrap());
    let wanted = WantedLog { session: id.clone(), first: Some(1) };
    let found = here.reader.excerpts(&[wanted], &since).await.unwrap().remove(0);
    assert_eq!(tell_log(&here.sequencer, &id, 1, found).unwrap(), None);
    here.sequencer.end_look(changes.now);
    assert_eq!(here.heard(), []);
    here.glance().await;
    assert_eq!(here.heard(), [Heard::Purged(id)]);
    create(&other, "ses_2").await;
    here.glance().await;
    assert_eq!(here.heard(), [first(&SessionId::new("ses_2"))]);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_file_that_nobody_writes_is_asked_once_a_second() {
    // It was asked forty times.
    let folder = tempfile::tempdir().unwrap();
    let Watcher { engine: _kept, sequencer, reader, .. } = Watcher::open(&folder).await;
    let FeedReader::Sqlite(file) = &reader else { panic!("it is a file") };
    let asked = file.questions();
    let look = tokio::spawn(run(sequencer, reader, Options::folder(folder.path(), "own").timing.look));
    tokio::time::sleep(Duration::from_secs(60)).await;
    look.abort();
    let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
    // After the writes of the beginning it is asked a few times more.
    assert!((55..=68).contains(&asked), "{asked}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_commit_is_asked_for_again_soon_after_its_write() {
    // The system tells of the write and not of the commit, which comes after it: if it was not there yet, it was found only
    // by the next question, a second later.
    let folder = tempfile::tempdir().unwrap();
    let Watcher { engine, sequencer, reader, .. } = Watcher::open(&folder).await;
    create(&engine, "ses_1").await;
    // From here on nothing is new, which a question finds out without a thread: the task waits again at once.
    glance(&sequencer, &reader, false).await.unwrap();
    let FeedReader::Sqlite(file) = &reader else { panic!("it is a file") };
    let asked = file.questions();
    let count = || asked.load(std::sync::atomic::Ordering::Relaxed);
    let check = async |advance: Duration, expected: u64| {
        // Timers are rounded up to whole milliseconds.
        tokio::time::advance(advance + Duration::from_millis(1)).await;
        let end = std::time::Instant::now() + Duration::from_secs(5);
        while count() < expected && std::time::Instant::now() < end {
            tokio::task::yield_now().await;
        }
        assert_eq!(count(), expected, "after {advance:?}");
    };
    // The clock stands still while a thread works for the tasks.
    let (_work, ended) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    tokio::time::pause();
    let (look, before) = (Duration::from_millis(25), count());
    let looking = tokio::spawn(run(sequencer, reader, look));
    // Before the clock moves, the task has to know what time it is.
    tokio::task::yield_now().await;
    // The notice of the write above is there.
    check(look, before + 1).await;
    for (number, advance) in (2..).zip([look, look * 2, look * 4]) {
        check(advance, before + number).await;
    }
    looking.abort();
}
