//! What happens between a commit and the word of it.

use std::sync::Mutex;

use everturn_model::{Event, Session};

use super::*;
use crate::append::{Authority, NewEvent, WrittenBy};
use crate::feed::FeedItem;
use crate::feed::excerpt::Excerpt;
use crate::feed::position::Position;
use crate::options::Durability;
use crate::sqlite::migrate;

fn append(
    session: &SessionId,
    number: usize,
    event: Event,
) -> (Job, oneshot::Receiver<Result<Appended, Error>>) {
    let events = vec![NewEvent { id: EventId::new(format!("evt_{session}_{number}")), time: 0, event }];
    let asked = AppendRequest { session: session.clone(), authority: Authority::Open, events };
    let (answer, result) = oneshot::channel();
    (Job::Append(Box::new(asked), answer), result)
}

/// All that a session's log has, as a look finds it.
fn look_at(connection: &Connection, id: &SessionId, sequencer: &Sequencer) {
    let records: Vec<Record> = reader::events(connection, id, None, 8).unwrap();
    let (_, session) = reader::key_and_session(connection, id).unwrap().unwrap();
    let head = records.last().unwrap().seq;
    let excerpt = Excerpt { head, records, rows: everturn_model::Tree::new(session) };
    sequencer.deliver(id, excerpt.into_committed());
}

#[test]
fn a_look_between_a_commit_and_its_word_tells_our_own_events_as_our_own() {
    // They were told as another process's, and a session that worked here seemed to work elsewhere for ever.
    let folder = tempfile::tempdir().unwrap();
    let path = schema::prepare(folder.path()).unwrap();
    let settings = schema::ConnectionSettings { path: path.clone(), durability: Durability::Full, vfs: None };
    let mut connection = schema::open(&settings).unwrap();
    migrate::migrate(&mut connection, &path).unwrap();
    schema::configure(&connection, &settings).unwrap();
    let told: Arc<Mutex<Vec<Arc<Committed>>>> = Arc::default();
    let hears = Arc::clone(&told);
    let sequencer = Arc::new(Sequencer::new(Arc::new(move |item| match item {
        FeedItem::Committed(committed) => hears.lock().unwrap().push(committed),
        FeedItem::Text(_) | FeedItem::Purged(_) | FeedItem::Gap => panic!("only events happen"),
    })));
    sequencer.begin(Position::Newest(0), Vec::new());
    let ids: Vec<SessionId> = (0..2).map(|number| SessionId::new(format!("ses_{number}"))).collect();
    // SQLite calls this when everybody can read the commit and the writer does not know of it yet.
    let (reads, looks) = (schema::open_reader(&settings).unwrap(), Arc::clone(&sequencer));
    let sessions = ids.clone();
    let look = move |_: &mut Wal, _| {
        looks.begin_look();
        sessions.iter().for_each(|id| look_at(&reads, id, &looks));
        looks.end_look(Position::Newest(1));
        Ok(())
    };
    connection.wal_hook(Some(look)).unwrap();
    let writer = WriterThread {
        connection,
        path,
        sequencer: Some(Arc::clone(&sequencer)),
        hook: None,
        pages: Arc::default(),
    };
    let (jobs, answers): (Vec<Job>, Vec<_>) = ids
        .iter()
        .map(|id| {
            let session = Box::new(Session::new(id.clone(), "global", "/srv", "t", "1", 0));
            append(id, 0, Event::SessionCreated { session })
        })
        .unzip();
    writer.commit_all(jobs);
    for mut answer in answers {
        assert!(answer.try_recv().unwrap().unwrap().fresh);
    }
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(|told| told.record.session.clone()).collect::<Vec<_>>(), ids, "each once");
    assert!(told.iter().all(|told| told.by == WrittenBy::Us));
}
