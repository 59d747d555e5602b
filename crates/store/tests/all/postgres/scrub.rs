//! A scrub that takes its time, because somebody holds a session that it has to change.

use std::collections::BTreeSet;

use everturn_store::Authority;
use everturn_store::upkeep::scrub::Scrub;
use everturn_testkit::deadline::within;

use super::Place;
use crate::events::{NOW, append, begin, ended, started, titled, turn};

#[tokio::test]
async fn sessions_that_end_their_work_or_begin_it_during_a_scrub_are_named() {
    // What they were about to write was not seen, so that it has to be done again.
    const SECRET: &str = "sk-live-3f9a77c1";
    let place = Place::new();
    let (store, other) = (place.open("own_here").await, place.open("own_there").await);
    let [leaks, ends, begins, rests] =
        [begin(&store).await, begin(&store).await, begin(&store).await, begin(&store).await];
    append(&store, &leaks, vec![titled(SECRET)]).await;
    let (last, next) = (turn(None), turn(None));
    let ending = Authority::Owned(other.acquire(&ends).await.unwrap());
    let beginning = Authority::Owned(other.acquire(&begins).await.unwrap());
    other.acquire(&rests).await.unwrap();
    other.append(&ends, ending.clone(), vec![started(&last)]).await.unwrap();

    let (holder, watcher) = (place.client().await, place.client().await);
    let hold = format!("BEGIN; SELECT FROM everturn.session WHERE id = '{leaks}' FOR UPDATE");
    holder.batch_execute(&hold).await.unwrap();
    let scrub = Scrub {
        secret: SECRET.into(),
        replacement: "[gone]".into(),
        session: None,
        reason: "it leaked".into(),
        time: NOW,
    };
    let scrubbing = tokio::spawn(async move { store.scrub(scrub).await.unwrap() });
    let held = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    within("the scrub to be held up", async { while watcher.query(held, &[]).await.unwrap().is_empty() {} })
        .await;
    other.append(&ends, ending, vec![ended(&last, Default::default(), Default::default())]).await.unwrap();
    other.append(&begins, beginning, vec![started(&next)]).await.unwrap();
    holder.batch_execute("COMMIT").await.unwrap();
    let scrubbed = scrubbing.await.unwrap();
    assert_eq!((scrubbed.sessions, scrubbed.at_work), (vec![leaks], BTreeSet::from([ends, begins])));
}
