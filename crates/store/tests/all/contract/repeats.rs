//! Appending again: the same changes nothing and gives the same answer, anything else under a known id is refused.

use everturn_model::{Event, SessionId, fold};
use everturn_store::{Appended, Authority, Error, NewEvent, Store};

use crate::events::{
    added, admitted, append, begin, created, entry_id, log, new, note, prompt, session_id, staged, titled,
    tree,
};
use crate::place::{Place, contract};

contract![
    the_same_append_again_changes_nothing_and_gives_the_stored_answer,
    a_creation_may_be_repeated,
    a_known_id_with_another_body_is_refused,
    a_known_id_in_another_session_is_refused,
    a_batch_of_which_a_part_is_known_is_refused,
    a_batch_in_another_order_than_it_was_written_is_refused,
    an_id_twice_in_one_batch_is_refused,
    a_repeat_needs_the_right_it_was_made_by,
    a_prompt_gets_its_answer_again_while_a_revert_is_staged,
    concurrent_repeats_are_there_once,
];

async fn check_refused(store: &Store, id: &SessionId, events: Vec<NewEvent>, what: &str) {
    let before = (log(store, id).await, tree(store, id).await);
    let refused = store.append(id, Authority::Open, events).await;
    let taken = |error: &fold::Error| matches!(error, fold::Error::Taken(_));
    assert!(
        matches!(&refused, Err(Error::Unfit { source, .. }) if taken(source)),
        "{what} is refused because the id is taken: {refused:?}"
    );
    assert_eq!((log(store, id).await, tree(store, id).await), before, "{what} changes nothing");
}

async fn the_same_append_again_changes_nothing_and_gives_the_stored_answer(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let batch = vec![titled("b"), admitted(&prompt("hello")), titled("c")];
    let first = append(&one, &id, batch.clone()).await;
    let stored = Appended { fresh: false, ..first.clone() };
    assert_eq!(append(&one, &id, batch.clone()).await, stored);
    assert_eq!(append(&two, &id, batch.clone()).await, stored, "through another store");
    let later = append(&two, &id, vec![titled("d")]).await;
    let now = Appended { seq: later.seq, session: later.session, ..stored.clone() };
    assert_eq!(append(&one, &id, batch.clone()).await, now, "also when more came after it");
    let single = append(&one, &id, vec![batch[1].clone()]).await;
    assert_eq!(single, Appended { first: 2, ..now.clone() }, "also a part of it alone");
    drop((one, two));
    let again = place.open("own_c").await;
    assert_eq!(append(&again, &id, batch).await, now, "also after reopening");
    assert_eq!(log(&again, &id).await.len(), 5);
}

async fn a_creation_may_be_repeated(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    let batch = vec![created(&id), titled("b")];
    let first = append(&store, &id, batch.clone()).await;
    assert_eq!(append(&store, &id, batch).await, Appended { fresh: false, ..first });
}

async fn a_known_id_with_another_body_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let event = titled("b");
    append(&store, &id, vec![event.clone()]).await;
    let other = NewEvent { event: titled("c").event, ..event.clone() };
    check_refused(&store, &id, vec![other], "another body").await;
    let interrupt = NewEvent { event: Event::InterruptRequested {}, ..event };
    check_refused(&store, &id, vec![interrupt], "another kind").await;
}

async fn a_known_id_in_another_session_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let event = new(Event::InterruptRequested {});
    append(&store, &one, vec![event.clone()]).await;
    check_refused(&store, &two, vec![event.clone()], "an event of another session").await;
    let fresh = session_id();
    let refused = store.append(&fresh, Authority::Open, vec![created(&fresh), event]).await;
    assert!(matches!(refused, Err(Error::Unfit { .. })), "{refused:?}");
    assert_eq!(store.session(&fresh).await.unwrap(), None);
}

async fn a_batch_of_which_a_part_is_known_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let (a, b) = (titled("a"), titled("b"));
    append(&store, &id, vec![a.clone(), b.clone()]).await;
    for (batch, what) in [
        (vec![a.clone(), titled("c")], "known and new"),
        (vec![titled("c"), b.clone()], "new and known"),
        (vec![a.clone(), b.clone(), titled("c")], "known and one more"),
        (vec![a, titled("c"), b], "new between known"),
    ] {
        check_refused(&store, &id, batch, what).await;
    }
}

async fn a_batch_in_another_order_than_it_was_written_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let (a, b, c) = (titled("a"), titled("b"), titled("c"));
    append(&store, &id, vec![a.clone(), b.clone(), c.clone()]).await;
    check_refused(&store, &id, vec![b.clone(), a.clone()], "backwards").await;
    check_refused(&store, &id, vec![a, c], "with a gap").await;
    assert_eq!(append(&store, &id, vec![b.clone()]).await.first, 2);
    check_refused(&store, &id, vec![b.clone(), b], "the same twice").await;
}

async fn an_id_twice_in_one_batch_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let one = titled("a");
    check_refused(&store, &id, vec![one.clone(), NewEvent { id: one.id, ..titled("b") }], "two bodies").await;
    let one = new(Event::InterruptRequested {});
    check_refused(&store, &id, vec![one.clone(), titled("b"), one], "the same event").await;
}

async fn a_repeat_needs_the_right_it_was_made_by(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let lease = store.acquire(&id).await.unwrap();
    let event = titled("b");
    let first = store.append(&id, Authority::Owned(lease.clone()), vec![event.clone()]).await.unwrap();
    let again = store.append(&id, Authority::Owned(lease.clone()), vec![event.clone()]).await.unwrap();
    assert_eq!(again, Appended { fresh: false, ..first });
    store.release(lease.clone()).await.unwrap();
    let late = store.append(&id, Authority::Owned(lease), vec![event]).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
}

async fn a_prompt_gets_its_answer_again_while_a_revert_is_staged(place: &Place) {
    // The answer was lost, the revert came between, and the retry was refused although the prompt was accepted.
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let entry = note(None, "to be reverted");
    append(&store, &id, vec![added(&entry, Vec::new())]).await;
    let prompt = vec![admitted(&prompt("hello"))];
    let first = store.append(&id, Authority::Admission, prompt.clone()).await.unwrap();
    append(&store, &id, vec![staged(&entry.id)]).await;
    let again = store.append(&id, Authority::Admission, prompt).await.unwrap();
    assert_eq!((again.first, again.fresh), (first.first, false));
}

async fn concurrent_repeats_are_there_once(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let batch = vec![
        titled("b"),
        new(Event::TitleChanged { entry: entry_id(), parent: None, title: "c".into(), replaces: None }),
    ];
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = if number % 2 == 0 { one.clone() } else { two.clone() };
        let (id, batch) = (id.clone(), batch.clone());
        asking.spawn(async move { append(&store, &id, batch).await });
    }
    let answers = asking.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.fresh).count(), 1, "one of them wrote it");
    assert!(answers.iter().all(|answer| (answer.first, answer.seq) == (1, 2)), "{answers:?}");
    assert_eq!(log(&one, &id).await.len(), 3);
}
