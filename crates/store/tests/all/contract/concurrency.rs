//! Many appends at once: none disturbs another, and the logs have no gaps.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use everturn_model::{EventId, SessionId, fold};
use everturn_store::{Authority, Error, FeedItem, Lease, Store};
use tokio::task::JoinSet;

use crate::events::{append, begin, created, log, seq_of, session_id, titled, unfit};
use crate::place::{Place, contract};

contract![
    a_hundred_appends_at_once_of_which_some_are_bad_leave_the_good_ones,
    eight_writers_through_two_stores_leave_no_gaps,
    batches_of_one_session_are_not_mixed,
    a_session_that_many_create_is_created_once,
    observers_hear_of_concurrent_events_in_the_order_of_the_log_and_before_their_appender,
];

async fn check_log(store: &Store, id: &SessionId, expected: &HashSet<EventId>) {
    let log = log(store, id).await;
    let seqs: Vec<u64> = log.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (0..).take(log.len()).collect::<Vec<u64>>(), "seq has no gaps");
    let ids: HashSet<EventId> = log.iter().skip(1).map(|record| record.id.clone()).collect();
    assert_eq!(&ids, expected, "what was acknowledged is there, and nothing else");
    assert_eq!(
        fold::replay(&log).unwrap(),
        store.tree(id).await.unwrap(),
        "the rows are the fold of the log"
    );
}

async fn a_hundred_appends_at_once_of_which_some_are_bad_leave_the_good_ones(place: &Place) {
    let store = place.open("own_a").await;
    let mut sessions = Vec::new();
    for _ in 0..7 {
        sessions.push(begin(&store).await);
    }
    let mut asking = JoinSet::new();
    for number in 0..100 {
        let (store, id) = (store.clone(), sessions[number % sessions.len()].clone());
        asking.spawn(async move {
            let good = titled(&format!("title {number}"));
            let event = good.id.clone();
            let (authority, events) = match number % 5 {
                0 => (Authority::Open, vec![good, unfit()]),
                1 => {
                    let lease =
                        Lease { session: id.clone(), owner: "own_nobody".into(), epoch: 1, taken_from: None };
                    (Authority::Owned(lease), vec![good])
                }
                _ => (Authority::Open, vec![good]),
            };
            let missing = number % 20 == 3;
            let asked = if missing { session_id() } else { id.clone() };
            let answer = store.append(&asked, authority, events).await;
            match number % 5 {
                _ if missing => assert!(matches!(answer, Err(Error::NoSession(_))), "{answer:?}"),
                0 => assert!(matches!(answer, Err(Error::Unfit { .. })), "{answer:?}"),
                1 => assert!(matches!(answer, Err(Error::Fenced(_))), "{answer:?}"),
                _ => {
                    let answer = answer.unwrap();
                    assert_eq!(seq_of(&store, &id, &event).await, Some(answer.first));
                    return Some((id, event));
                }
            }
            None
        });
    }
    let mut expected: HashMap<SessionId, HashSet<EventId>> = HashMap::new();
    for (id, event) in asking.join_all().await.into_iter().flatten() {
        expected.entry(id).or_default().insert(event);
    }
    assert_eq!(expected.values().map(HashSet::len).sum::<usize>(), 55);
    for (id, events) in &expected {
        check_log(&store, id, events).await;
    }
}

async fn eight_writers_through_two_stores_leave_no_gaps(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await];
    let id = begin(&stores[0]).await;
    let mut writing = JoinSet::new();
    for writer in 0..8 {
        let (store, id) = (stores[writer % 2].clone(), id.clone());
        writing.spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0..20 {
                let event = titled(&format!("{writer} {number}"));
                acknowledged.push((event.id.clone(), append(&store, &id, vec![event]).await.first));
            }
            assert!(acknowledged.is_sorted_by_key(|(_, seq)| *seq), "each writer's own are in its order");
            acknowledged
        });
    }
    let acknowledged: Vec<(EventId, u64)> = writing.join_all().await.into_iter().flatten().collect();
    check_log(&stores[0], &id, &acknowledged.iter().map(|(event, _)| event.clone()).collect()).await;
    let log = log(&stores[1], &id).await;
    for (event, seq) in acknowledged {
        assert_eq!(log[usize::try_from(seq).unwrap()].id, event, "the answer names its place");
    }
}

async fn batches_of_one_session_are_not_mixed(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await];
    let id = begin(&stores[0]).await;
    let mut writing = JoinSet::new();
    for writer in 0..20 {
        let (store, id) = (stores[writer % 2].clone(), id.clone());
        let batch: Vec<_> = (0..5).map(|number| titled(&format!("{writer} {number}"))).collect();
        writing.spawn(async move {
            let ids: Vec<EventId> = batch.iter().map(|event| event.id.clone()).collect();
            (append(&store, &id, batch).await.first, ids)
        });
    }
    let answers = writing.join_all().await;
    let log = log(&stores[0], &id).await;
    for (first, ids) in answers {
        let stored: Vec<EventId> = log
            .iter()
            .skip(usize::try_from(first).unwrap())
            .take(5)
            .map(|record| record.id.clone())
            .collect();
        assert_eq!(stored, ids);
    }
}

async fn a_session_that_many_create_is_created_once(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await];
    for _ in 0..5 {
        let id = session_id();
        let mut creating = JoinSet::new();
        for number in 0..8 {
            let (store, id) = (stores[number % 2].clone(), id.clone());
            creating.spawn(async move { store.append(&id, Authority::Open, vec![created(&id)]).await });
        }
        let answers = creating.join_all().await;
        let made = answers.iter().filter(|answer| answer.is_ok()).count();
        let known = answers.iter().filter(|answer| matches!(answer, Err(Error::Exists(_)))).count();
        assert_eq!((made, known), (1, 7), "{answers:?}");
        check_log(&stores[0], &id, &HashSet::new()).await;
    }
}

async fn observers_hear_of_concurrent_events_in_the_order_of_the_log_and_before_their_appender(
    place: &Place,
) {
    let heard: Arc<Mutex<Vec<(SessionId, u64)>>> = Arc::default();
    let observer = {
        let heard = Arc::clone(&heard);
        Arc::new(move |item| match item {
            FeedItem::Committed(committed) => {
                heard.lock().unwrap().push((committed.record.session.clone(), committed.record.seq));
            }
            other => panic!("{other:?}"),
        })
    };
    let store = place.open_with("own_a", |options| options.observer = Some(observer)).await;
    let sessions = [begin(&store).await, begin(&store).await, begin(&store).await];
    let mut writing = JoinSet::new();
    for number in 0..60 {
        let (store, id) = (store.clone(), sessions[number % 3].clone());
        let heard = Arc::clone(&heard);
        writing.spawn(async move {
            let answer = append(&store, &id, vec![titled("b"), titled("c")]).await;
            let heard = heard.lock().unwrap();
            for seq in answer.first..=answer.first + 1 {
                assert!(heard.contains(&(id.clone(), seq)), "told before the answer");
            }
        });
    }
    writing.join_all().await;
    let heard = heard.lock().unwrap().clone();
    for id in &sessions {
        let seqs: Vec<u64> = heard.iter().filter(|(of, _)| of == id).map(|(_, seq)| *seq).collect();
        assert_eq!(seqs, (0..=40).collect::<Vec<u64>>());
    }
}
