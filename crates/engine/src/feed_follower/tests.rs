//! What is known of sessions that other processes run, and what a gap in the feed does to it.

use everturn_model::Body;
use everturn_model::entry::{Assistant, Entry};
use everturn_store::{Authority, NewEvent, Observer, Options};

use super::*;
use crate::mint::Mint;
use crate::world::System;

#[test]
fn a_session_rests_only_after_the_event_that_was_told_last() {
    let (busy, id) = (BusyElsewhere::default(), SessionId::new("ses_1"));
    assert!(!busy.follow(&id, 3), "nobody said that it is busy");
    assert!(busy.add(id.clone(), None));
    assert!(busy.follow(&id, 4));
    assert!(!busy.add(id.clone(), None), "this is no news");
    assert!(!busy.end(&id, Some(3)), "more was told meanwhile");
    assert!(busy.end(&id, Some(4)));
    assert!(!busy.end(&id, Some(4)), "it is said once");
    assert!(busy.all().is_empty());
}

#[test]
fn after_a_gap_nothing_is_known_of_what_was_told_last() {
    let (busy, id) = (BusyElsewhere::default(), SessionId::new("ses_1"));
    let (questions, mut asked) = mpsc::unbounded_channel();
    busy.questions.set(questions).unwrap();
    busy.add(id.clone(), Some(4));
    busy.doubt();
    assert!(matches!(asked.try_recv(), Ok(RestQuestion::All)), "sessions may have begun that nobody told of");
    assert!(!busy.end(&id, Some(4)) && busy.has(&id));
    assert!(busy.end(&id, None));
}

#[tokio::test]
async fn a_session_that_begins_a_turn_here_is_not_busy_elsewhere() {
    // That another process ran it may be told after this one has taken it. It would be called idle in mid-turn.
    let (data, mint, busy) =
        (tempfile::tempdir().unwrap(), Mint::new(Arc::new(System)), BusyElsewhere::default());
    let follower =
        FeedFollower::new(Bus::default(), DrainSlots::default(), WaitingCalls::default(), busy.clone());
    let mut options = Options::folder(data.path(), "own_1");
    options.observer = Some(Arc::new(move |item| follower.take(item)) as Observer);
    let store = Store::open(options).await.unwrap();
    let id = mint.session();
    let session = Session::new(id.clone(), "global", "/srv/demo", "t", "1", mint.now());
    let body = Body::Assistant(Assistant::default());
    let begun = Entry::new(mint.entry(&session), None, mint.now(), body);
    let append = async |authority, event| {
        let new = NewEvent { id: mint.event(), time: mint.now(), event };
        store.append(&id, authority, vec![new]).await.unwrap();
    };
    append(Authority::Open, Event::SessionCreated { session: Box::new(session) }).await;
    let lease = store.acquire(&id).await.unwrap();
    busy.add(id.clone(), None);
    append(Authority::Owned(lease), Event::StepStarted { entry: Box::new(begun), frame: None }).await;
    assert!(!busy.has(&id));
}
