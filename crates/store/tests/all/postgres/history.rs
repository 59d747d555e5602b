//! Random histories: whatever happens, and however it falls into groups, the rows are the fold of the log.

use everturn_model::{Record, fold};
use everturn_store::{Authority, NewEvent};
use proptest::prelude::*;
use tokio::task::JoinSet;

use super::Place;
use crate::history::{Step, Story, configuration};

fn check(seed: u8, steps: &[Step], batches: &[usize]) {
    let mut story = Story::begin();
    story.seed(seed);
    for step in steps {
        story.step(*step);
    }
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = place.open("own_test").await;
        let id = story.tree.session.id.clone();
        let new = |record: &Record| NewEvent {
            id: record.id.clone(),
            time: record.time,
            event: record.event.clone(),
        };
        let mut rest = story.records.as_slice();
        let mut sizes = batches.iter().cycle();
        // All at once, in their order: what falls into one group is planned without a look at the database.
        let mut appends = JoinSet::new();
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
            let (store, id, first) = (store.clone(), id.clone(), now[0].seq);
            let events: Vec<NewEvent> = now.iter().map(new).collect();
            appends.spawn(async move {
                let appended = store.append(&id, Authority::Open, events).await.unwrap();
                assert_eq!(appended.first, first, "seq has no gaps");
            });
            rest = later;
        }
        appends.join_all().await;
        let log = store.events(&id, None, usize::MAX).await.unwrap();
        assert_eq!(log, story.records, "the log is what was appended");
        let tree = store.tree(&id).await.unwrap().unwrap();
        assert_eq!(tree, story.tree, "the rows are the fold of the log");
        assert_eq!(fold::replay(&log).unwrap(), Some(tree));
    });
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn rows_are_the_fold_of_the_log_on_a_server(
        seed in 0u8..6,
        steps in prop::collection::vec(any::<Step>(), 1..120),
        batches in prop::collection::vec(1usize..6, 1..4),
    ) {
        check(seed, &steps, &batches);
    }
}
