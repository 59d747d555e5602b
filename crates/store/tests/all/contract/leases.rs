//! Leases: one owner at a time, takeover from the dead and the silent, and fencing of whoever lost one.

use std::time::{Duration, Instant};

use everturn_model::{Event, SessionId};
use everturn_store::{Authority, Error, Lease, Store};
use everturn_testkit::deadline::within;
use tokio::task::JoinSet;

use crate::events::{append, begin, log, new, part_started, session_id, started, streaming, titled, turn};
use crate::place::{Place, contract};

contract![
    a_session_has_one_owner_and_taking_what_one_has_changes_nothing,
    a_session_that_is_not_there_cannot_be_taken,
    a_session_that_was_given_back_is_free,
    last_words_give_a_session_back,
    what_is_refused_gives_nothing_back,
    one_of_many_who_take_a_session_at_once_gets_it,
    the_session_of_a_dead_owner_is_taken_at_once,
    the_session_of_a_silent_owner_is_taken_when_patience_ends_and_not_before,
    an_owner_that_speaks_keeps_its_session_for_longer_than_anybodys_patience,
    whoever_lost_a_lease_can_do_nothing_with_it,
    a_lease_of_before_holds_until_somebody_takes_it,
    ownership_never_goes_back_along_the_log,
];

fn check_busy(answer: &Result<Lease, Error>, id: &SessionId, by: &str) {
    let busy = |session: &SessionId, owner: &str| session == id && owner == by;
    assert!(matches!(answer, Err(Error::Busy { session, owner }) if busy(session, owner)), "{answer:?}");
}

async fn a_session_has_one_owner_and_taking_what_one_has_changes_nothing(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    assert_eq!((one.owner(), two.owner()), ("own_a", "own_b"));
    let (id, other) = (begin(&one).await, begin(&one).await);
    let lease = one.acquire(&id).await.unwrap();
    assert_eq!(lease, Lease { session: id.clone(), owner: "own_a".into(), epoch: 1, taken_from: None });
    assert_eq!(one.acquire(&id).await.unwrap(), lease);
    check_busy(&two.acquire(&id).await, &id, "own_a");
    one.renew(&lease).await.unwrap();
    assert_eq!(two.acquire(&other).await.unwrap().owner, "own_b", "each session has its own");
    one.append(&id, Authority::Owned(lease), vec![titled("b")]).await.unwrap();
}

async fn a_session_that_is_not_there_cannot_be_taken(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    let refused = store.acquire(&id).await;
    assert!(matches!(&refused, Err(Error::NoSession(found)) if *found == id), "{refused:?}");
}

async fn a_session_that_was_given_back_is_free(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let mut last = 0;
    for round in 0..4 {
        let (holder, other) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let lease = holder.acquire(&id).await.unwrap();
        assert!(lease.epoch > last, "each ownership has a greater number");
        last = lease.epoch;
        check_busy(&other.acquire(&id).await, &id, holder.owner());
        holder.release(lease.clone()).await.unwrap();
        check_lost(holder, &lease).await;
    }
    let lease = two.acquire(&id).await.unwrap();
    assert!(lease.epoch > last);
    let old = Lease { epoch: last, ..lease.clone() };
    two.release(old).await.unwrap();
    two.renew(&lease).await.unwrap();
    check_busy(&one.acquire(&id).await, &id, "own_b");
}

async fn last_words_give_a_session_back(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    let (owned, leaving) = (Authority::Owned(lease.clone()), Authority::Leaving(lease.clone()));
    // They may all be of one commit: what comes after the last words is refused there as well.
    let (first, last, late) = tokio::join!(
        biased;
        one.append(&id, owned.clone(), vec![titled("b")]),
        one.append(&id, leaving, vec![titled("c"), titled("d")]),
        one.append(&id, owned, vec![titled("too late")]),
    );
    let appended = (first.unwrap(), last.unwrap());
    assert_eq!((appended.0.seq, appended.1.seq), (1, 3));
    assert!(matches!(&late, Err(Error::Fenced(found)) if *found == id), "{late:?}");
    check_lost(&one, &lease).await;
    assert_eq!(one.session(&id).await.unwrap().unwrap().title, "d");
    let taken = two.acquire(&id).await.unwrap();
    assert_eq!((taken.epoch, taken.taken_from), (lease.epoch + 1, None));
}

async fn what_is_refused_gives_nothing_back(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    let leaving = |lease: &Lease| Authority::Leaving(lease.clone());
    let ended = Event::PartEnded {
        entry: "msg_unknown".into(),
        part: "prt_unknown".into(),
        text: String::new(),
        metadata: None,
    };
    let nonsense = new(ended);
    let unfit = one.append(&id, leaving(&lease), vec![titled("b"), nonsense]).await;
    assert!(matches!(unfit, Err(Error::Unfit { .. })), "{unfit:?}");
    check_busy(&two.acquire(&id).await, &id, "own_a");
    one.release(lease.clone()).await.unwrap();
    let taken = two.acquire(&id).await.unwrap();
    let stale = one.append(&id, leaving(&lease), vec![titled("stale")]).await;
    assert!(matches!(&stale, Err(Error::Fenced(found)) if *found == id), "{stale:?}");
    check_busy(&one.acquire(&id).await, &id, "own_b");
    two.append(&id, Authority::Owned(taken), vec![titled("c")]).await.unwrap();
}

async fn one_of_many_who_take_a_session_at_once_gets_it(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await, place.open("own_c").await];
    for _ in 0..10 {
        let id = begin(&stores[0]).await;
        let mut taking = JoinSet::new();
        for store in stores.clone() {
            let id = id.clone();
            taking.spawn(async move { store.acquire(&id).await });
        }
        let answers = taking.join_all().await;
        let [won] = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect::<Vec<_>>()[..] else {
            panic!("one of them has it: {answers:?}")
        };
        for answer in &answers {
            let busy = |owner: &str| owner == won.owner;
            assert!(
                answer.is_ok() || matches!(answer, Err(Error::Busy { owner, .. }) if busy(owner)),
                "{answer:?}"
            );
        }
    }
}

/// A lease is good for nothing any more.
async fn check_lost(store: &Store, lease: &Lease) {
    let id = &lease.session;
    let before = log(store, id).await;
    let renewed = store.renew(lease).await;
    assert!(matches!(&renewed, Err(Error::Fenced(found)) if found == id), "{renewed:?}");
    let stale = store.append(id, Authority::Owned(lease.clone()), vec![titled("stale")]).await;
    assert!(matches!(&stale, Err(Error::Fenced(found)) if found == id), "{stale:?}");
    assert_eq!(log(store, id).await, before);
}

async fn the_session_of_a_dead_owner_is_taken_at_once(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    one.append(&id, Authority::Owned(lease.clone()), vec![titled("b")]).await.unwrap();
    check_busy(&two.acquire(&id).await, &id, "own_a");
    drop(one);
    let began = Instant::now();
    let taken = two.acquire(&id).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waited for its silence");
    assert_eq!(
        taken,
        Lease { session: id, owner: "own_b".into(), epoch: lease.epoch + 1, taken_from: taken.taken_from }
    );
    check_lost(&two, &lease).await;
    two.append(&taken.session.clone(), Authority::Owned(taken), vec![titled("c")]).await.unwrap();
}

/// Takes the session of an owner that is silent, as soon as that is possible.
async fn take_from_silent(store: &Store, id: &SessionId) -> Lease {
    within("the patience with a silent owner to end", async {
        loop {
            match store.acquire(id).await {
                Ok(lease) => return lease,
                Err(Error::Busy { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

async fn the_session_of_a_silent_owner_is_taken_when_patience_ends_and_not_before(place: &Place) {
    let patience = Duration::from_millis(800);
    let two = place.open_impatient("own_b", patience).await;
    let id = begin(&two).await;
    let opened = Instant::now();
    let one = place.open_silent("own_a", patience).await;
    let lease = one.acquire(&id).await.unwrap();
    let taken = take_from_silent(&two, &id).await;
    // Clocks of files and servers count in milliseconds.
    assert!(opened.elapsed() + Duration::from_millis(5) > patience, "{:?}", opened.elapsed());
    assert_eq!(
        taken,
        Lease { session: id, owner: "own_b".into(), epoch: lease.epoch + 1, taken_from: taken.taken_from }
    );
    check_lost(&one, &lease).await;
    two.renew(&taken).await.unwrap();
}

async fn an_owner_that_speaks_keeps_its_session_for_longer_than_anybodys_patience(place: &Place) {
    let patience = Duration::from_secs(2);
    let one = place.open_speaking("own_a", patience).await;
    let two = place.open_speaking("own_b", patience).await;
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    let began = Instant::now();
    while began.elapsed() < patience + Duration::from_millis(500) {
        check_busy(&two.acquire(&id).await, &id, "own_a");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    one.renew(&lease).await.unwrap();
}

async fn whoever_lost_a_lease_can_do_nothing_with_it(place: &Place) {
    let patience = Duration::from_millis(300);
    let two = place.open_impatient("own_b", patience).await;
    let one = place.open_silent("own_a", patience).await;
    let (id, marker) = (begin(&one).await, begin(&two).await);
    let lease = one.acquire(&id).await.unwrap();
    let (step, part) = (turn(None), streaming());
    let begun = vec![started(&step), part_started(&step.id, &part)];
    one.append(&id, Authority::Owned(lease.clone()), begun).await.unwrap();
    let taken = take_from_silent(&two, &id).await;

    // It still runs and does not know yet.
    check_lost(&one, &lease).await;
    one.save_stream(&lease, &step.id, &part.id, 0, "stale".to_owned());
    one.release(lease.clone()).await.unwrap();
    two.renew(&taken).await.unwrap();
    check_busy(&one.acquire(&id).await, &id, "own_b");
    append(&one, &id, vec![titled("what anybody may, it still may")]).await;
    // What the same store saves after the stale piece is there, so that one was decided about.
    let marked = one.acquire(&marker).await.unwrap();
    one.save_stream(&marked, &step.id, &part.id, 0, "good".to_owned());
    within("the later piece", async {
        while one.streams(&marker).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(two.streams(&id).await.unwrap(), []);
    two.append(&id, Authority::Owned(taken), vec![titled("c")]).await.unwrap();
}

async fn a_lease_of_before_holds_until_somebody_takes_it(place: &Place) {
    let one = place.open("own_a").await;
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    drop(one);
    let two = place.open("own_b").await;
    // Nobody has taken it over: what its owner wrote last must not be refused.
    two.renew(&lease).await.unwrap();
    two.append(&id, Authority::Owned(lease.clone()), vec![titled("the last words")]).await.unwrap();
    two.acquire(&id).await.unwrap();
    check_lost(&two, &lease).await;
}

async fn ownership_never_goes_back_along_the_log(place: &Place) {
    let stores = [place.open("own_a").await, place.open("own_b").await];
    let id = begin(&stores[0]).await;
    let mut running = JoinSet::new();
    for store in stores.clone() {
        let id = id.clone();
        running.spawn(async move {
            let mut written = 0;
            while written < 20 {
                append(&store, &id, vec![titled("as anybody")]).await;
                let lease = match store.acquire(&id).await {
                    Ok(lease) => lease,
                    Err(Error::Busy { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                for _ in 0..3 {
                    let batch = vec![titled("as the owner"), titled("as the owner still")];
                    store.append(&id, Authority::Owned(lease.clone()), batch).await.unwrap();
                    written += 1;
                }
                store.release(lease).await.unwrap();
            }
        });
    }
    within("both to have had their turns", running.join_all()).await;
    let epochs = place.epochs(&id).await;
    assert_eq!(epochs.len(), log(&stores[0], &id).await.len());
    let owned: Vec<u64> = epochs.iter().flatten().copied().collect();
    assert!(owned.is_sorted(), "{owned:?}");
    assert!(owned.last() > owned.first() && epochs.contains(&None), "{epochs:?}");
}
