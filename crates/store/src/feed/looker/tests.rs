//! When the looking task looks at a folder, and when it does not.

use std::sync::Mutex;

use everturn_model::{Event, EventId, Session};

use super::*;
use crate::append::{Authority, NewEvent};
use crate::feed::FeedItem;
use crate::options::Options;
use crate::plan::AppendRequest;
use crate::sqlite::SqliteEngine;

/// A process with a feed, without the task that looks.
struct Watcher {
    engine: SqliteEngine,
    sequencer: Arc<Sequencer>,
    reader: FeedReader,
    told: Arc<Mutex<Vec<SessionId>>>,
}

impl Watcher {
    async fn open(folder: &tempfile::TempDir) -> Self {
        let told: Arc<Mutex<Vec<SessionId>>> = Arc::default();
        let hears = Arc::clone(&told);
        let sequencer = Arc::new(Sequencer::new(Arc::new(move |item| match item {
            FeedItem::Committed(committed) => hears.lock().unwrap().push(committed.record.session.clone()),
            FeedItem::Text(_) | FeedItem::Purged(_) | FeedItem::Gap => panic!("only events happen"),
        })));
        let options = Options::folder(folder.path(), "own_here");
        let engine = SqliteEngine::open(folder.path(), &options, Some(&sequencer)).unwrap();
        let reader = FeedReader::Sqlite(engine.feed_reader());
        sequencer.begin(reader.position().await.unwrap(), Vec::new());
        // The first question finds out what to compare with.
        glance(&sequencer, &reader, false).await.unwrap();
        Self { engine, sequencer, reader, told }
    }

    async fn glance(&self) -> u64 {
        glance(&self.sequencer, &self.reader, false).await.unwrap();
        self.sequencer.looks()
    }
}

async fn create(engine: &SqliteEngine, name: &str) -> SessionId {
    let id = SessionId::new(name);
    let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
    let event = NewEvent {
        id: EventId::new(format!("evt_{name}")),
        time: 0,
        event: Event::SessionCreated { session },
    };
    let asked = AppendRequest { session: id.clone(), authority: Authority::Open, events: vec![event] };
    engine.append(asked).await.unwrap();
    id
}

#[tokio::test]
async fn own_commits_make_nobody_look_and_those_of_others_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = Watcher::open(&folder).await;
    let mut ids = vec![create(&here.engine, "ses_1").await, create(&here.engine, "ses_2").await];
    assert_eq!(here.glance().await, 0, "all of it is known");
    let other =
        SqliteEngine::open(folder.path(), &Options::folder(folder.path(), "own_other"), None).unwrap();
    assert_eq!(here.glance().await, 0, "nothing happened");
    ids.push(create(&other, "ses_3").await);
    assert_eq!(here.glance().await, 1);
    assert_eq!(*here.told.lock().unwrap(), ids);
    assert_eq!(here.glance().await, 1, "nothing happened since");
    ids.push(create(&here.engine, "ses_4").await);
    assert_eq!(here.glance().await, 1);
    assert_eq!(*here.told.lock().unwrap(), ids);
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
    let FeedReader::Sqlite(file) = &reader else { panic!("it is a file") };
    let asked = file.questions();
    let count = || asked.load(std::sync::atomic::Ordering::Relaxed);
    let check = async |advance: Duration, expected: u64| {
        // Twice, because the task may begin to wait only after the first time. All of it is less than a second.
        for _ in 0..2 {
            // Timers are rounded up to whole milliseconds.
            tokio::time::advance(advance + Duration::from_millis(1)).await;
            let end = std::time::Instant::now() + Duration::from_secs(5);
            while std::time::Instant::now() < end {
                if count() >= expected {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        panic!("asked {} times instead of {expected}", count());
    };
    // The clock stands still while a thread works for the tasks.
    let (_work, ended) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    tokio::time::pause();
    let (look, before) = (Duration::from_millis(25), count());
    let looking = tokio::spawn(run(sequencer, reader, look));
    // The notice of the write above is there.
    check(look, before + 1).await;
    for (number, advance) in (2..).zip([look, look * 2, look * 4]) {
        check(advance, before + number).await;
    }
    looking.abort();
}
