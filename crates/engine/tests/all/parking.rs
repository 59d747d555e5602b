//! Parking: a turn that takes down whoever takes it up is left alone, until a person lets it go on.

use everturn_engine::Prompt;
use everturn_model::{EntryId, Event, EventId, Millis};
use everturn_store::{Authority, NewEvent};

use crate::bench::Bench;
use crate::permission::ask;
use crate::saving::saved;

pub(crate) async fn begin(bench: &mut Bench) -> EntryId {
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    let entry = bench.streamed("two ").await.0;
    // Whoever finds that another process has taken the session over saves nothing of it any more.
    let saved = saved(&bench.other_store().await, bench, |text| text == "one two ").await;
    assert_eq!(saved, Ok(()));
    entry
}

/// As many processes take the turn up and die of it.
pub(crate) async fn fail(bench: &Bench, entry: &EntryId, times: usize) {
    fail_before(bench, entry, times, 0).await;
}

/// The same so many milliseconds ago.
async fn fail_before(bench: &Bench, entry: &EntryId, times: usize, ago: Millis) {
    let store = bench.other_store().await;
    for number in 0..times {
        let event = Event::RecoveryBegun { entry: entry.clone() };
        let id = EventId::from(format!("evt_recovery{number}").as_str());
        let time = bench.engine.mint().now() - ago;
        let new = NewEvent { id, time, event };
        store.append(&bench.session.id, Authority::Open, vec![new]).await.unwrap();
    }
}

#[tokio::test]
async fn a_recovery_that_failed_three_times_parks_the_session() {
    let mut bench = Bench::new().await;
    let entry = begin(&mut bench).await;
    fail(&bench, &entry, 3).await;
    bench.restart().await;
    bench.settled().await;
    let asked = bench.model.prompts().len();
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    let reason = session.parked_reason.unwrap();
    assert!(session.parked && reason.text().contains("failed 3 times in a row"), "{reason:?}");
    let transcript = bench.transcript().await;
    assert_eq!(transcript[1], "assistant: one two  !cut off", "what came is kept");

    // Neither a restart nor time lets it go on.
    bench.restart().await;
    bench.settled().await;
    assert_eq!((bench.transcript().await, bench.model.prompts().len()), (transcript, asked));

    bench.model.release("x");
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    bench.settled().await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!(
        (session.parked, session.parked_reason, session.recoveries, session.open),
        (false, None, vec![], false)
    );
    assert!(bench.transcript().await.last().unwrap().starts_with("assistant: one two three"));
}

#[tokio::test]
async fn a_recovery_that_failed_twice_is_tried_again() {
    let mut bench = Bench::new().await;
    let entry = begin(&mut bench).await;
    fail(&bench, &entry, 2).await;
    bench.model.release("x");
    bench.restart().await;
    bench.settled().await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((session.parked, session.open, session.recoveries), (false, false, vec![]));
}

#[tokio::test]
async fn recoveries_count_together_that_failed_within_ten_minutes() {
    const MINUTE: Millis = 60_000;
    for (ago, parks) in [(9 * MINUTE, true), (11 * MINUTE, false)] {
        let mut bench = Bench::new().await;
        let entry = begin(&mut bench).await;
        fail_before(&bench, &entry, 3, ago).await;
        bench.model.release("x");
        bench.restart().await;
        bench.settled().await;
        let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
        assert_eq!(session.parked, parks, "{ago} milliseconds ago");
    }
}

#[tokio::test]
async fn restarts_while_a_person_is_asked_are_nobodys_fault() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    for _ in 0..5 {
        bench.restart().await;
        let waiting = bench.engine.requests().waiting().await.unwrap();
        assert_eq!(waiting, [(bench.session.id.clone(), request.clone())]);
    }
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().parked);
}

#[tokio::test]
async fn what_wants_no_answer_lets_nothing_go_on_that_is_parked() {
    // A note that a client left for later called the model again, of a session that three recoveries had failed in.
    let mut bench = Bench::new().await;
    let entry = begin(&mut bench).await;
    fail(&bench, &entry, 3).await;
    bench.restart().await;
    bench.settled().await;
    bench.model.release("x");
    let asked = bench.model.prompts().len();
    let note = Prompt { reply: false, ..Prompt::text("only so you know") };
    bench.engine.inbox().admit(&bench.session.id, note).await.unwrap();
    bench.settled().await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((session.parked, session.waiting, bench.model.prompts().len()), (true, 1, asked));

    // It comes with what goes on later.
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    bench.settled().await;
    assert!(bench.transcript().await.contains(&"user: only so you know".to_owned()));
}
