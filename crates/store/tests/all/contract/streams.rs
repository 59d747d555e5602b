//! Streamed text: saved piece by piece beside the log, gone with the final value.

use everturn_model::{Entry, Part, SessionId};
use everturn_store::{Authority, Lease, Store, StreamText};
use everturn_testkit::deadline::within;

use crate::events::{append, begin, ended, part_ended, part_started, started, streaming, titled, turn};
use crate::place::{Place, contract};

contract![
    pieces_make_up_what_was_streamed_of_each_part,
    a_hole_ends_what_is_known,
    a_piece_may_be_saved_again,
    the_final_value_of_a_part_replaces_what_was_saved,
    the_end_of_a_step_removes_what_was_saved_of_all_its_parts,
    what_was_saved_survives_reopening,
    a_piece_of_a_lost_lease_is_not_saved,
];

/// A session with an open turn of two open parts, and the right to run it.
async fn speaking(store: &Store) -> (Lease, Entry, [Part; 2]) {
    let id = begin(store).await;
    let lease = store.acquire(&id).await.unwrap();
    let (step, parts) = (turn(None), [streaming(), streaming()]);
    append(
        store,
        &id,
        vec![started(&step), part_started(&step.id, &parts[0]), part_started(&step.id, &parts[1])],
    )
    .await;
    (lease, step, parts)
}

/// Waits until this is what was saved; saving does not wait for the disk.
async fn check_streams(store: &Store, id: &SessionId, expected: &[(&Entry, &Part, &str)]) {
    let mut expected: Vec<StreamText> = expected
        .iter()
        .map(|(entry, part, text)| StreamText {
            entry: entry.id.clone(),
            part: part.id.clone(),
            text: (*text).to_owned(),
        })
        .collect();
    expected.sort_by(|a, b| a.part.cmp(&b.part));
    within(&format!("the streams {expected:?}"), async {
        while store.streams(id).await.unwrap() != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn pieces_make_up_what_was_streamed_of_each_part(place: &Place) {
    let (store, other) = (place.open("own_a").await, place.open("own_b").await);
    let (lease, step, [a, b]) = speaking(&store).await;
    let id = lease.session.clone();
    assert_eq!(store.streams(&id).await.unwrap(), []);
    // Places are in bytes.
    let pieces = ["Straße ", "", "漢字 \0 ", "end"];
    let mut start = 0;
    for piece in pieces {
        store.save_stream(&lease, &step.id, &a.id, start, piece.to_owned());
        start += piece.len();
    }
    store.save_stream(&lease, &step.id, &b.id, 0, "other".to_owned());
    check_streams(&store, &id, &[(&step, &a, "Straße 漢字 \0 end"), (&step, &b, "other")]).await;
    check_streams(&other, &id, &[(&step, &a, "Straße 漢字 \0 end"), (&step, &b, "other")]).await;
}

async fn a_hole_ends_what_is_known(place: &Place) {
    let store = place.open("own_a").await;
    let (lease, step, [a, b]) = speaking(&store).await;
    let id = lease.session.clone();
    store.save_stream(&lease, &step.id, &b.id, 3, "without a beginning".to_owned());
    store.save_stream(&lease, &step.id, &a.id, 0, "one ".to_owned());
    store.save_stream(&lease, &step.id, &a.id, 8, "three ".to_owned());
    store.save_stream(&lease, &step.id, &a.id, 14, "four".to_owned());
    check_streams(&store, &id, &[(&step, &a, "one ")]).await;
    store.save_stream(&lease, &step.id, &a.id, 4, "two ".to_owned());
    check_streams(&store, &id, &[(&step, &a, "one two three four")]).await;
}

async fn a_piece_may_be_saved_again(place: &Place) {
    let store = place.open("own_a").await;
    let (lease, step, [a, _]) = speaking(&store).await;
    for _ in 0..3 {
        store.save_stream(&lease, &step.id, &a.id, 0, "one ".to_owned());
        store.save_stream(&lease, &step.id, &a.id, 4, "two".to_owned());
    }
    check_streams(&store, &lease.session, &[(&step, &a, "one two")]).await;
}

async fn the_final_value_of_a_part_replaces_what_was_saved(place: &Place) {
    let store = place.open("own_a").await;
    let (lease, step, [a, b]) = speaking(&store).await;
    let id = lease.session.clone();
    store.save_stream(&lease, &step.id, &a.id, 0, "one".to_owned());
    store.save_stream(&lease, &step.id, &b.id, 0, "two".to_owned());
    check_streams(&store, &id, &[(&step, &a, "one"), (&step, &b, "two")]).await;
    append(&store, &id, vec![titled("unrelated")]).await;
    check_streams(&store, &id, &[(&step, &a, "one"), (&step, &b, "two")]).await;
    let end = part_ended(&step.id, &a, "one and all");
    store.append(&id, Authority::Owned(lease), vec![end]).await.unwrap();
    check_streams(&store, &id, &[(&step, &b, "two")]).await;
}

async fn the_end_of_a_step_removes_what_was_saved_of_all_its_parts(place: &Place) {
    let store = place.open("own_a").await;
    let (lease, step, [a, b]) = speaking(&store).await;
    let (other, elsewhere, [c, _]) = speaking(&store).await;
    store.save_stream(&lease, &step.id, &a.id, 0, "one".to_owned());
    store.save_stream(&lease, &step.id, &b.id, 0, "two".to_owned());
    store.save_stream(&other, &elsewhere.id, &c.id, 0, "three".to_owned());
    check_streams(&store, &lease.session, &[(&step, &a, "one"), (&step, &b, "two")]).await;
    append(&store, &lease.session, vec![ended(&step, Default::default(), Default::default())]).await;
    assert_eq!(store.streams(&lease.session).await.unwrap(), []);
    check_streams(&store, &other.session, &[(&elsewhere, &c, "three")]).await;
}

async fn what_was_saved_survives_reopening(place: &Place) {
    let store = place.open("own_a").await;
    let (lease, step, [a, _]) = speaking(&store).await;
    store.save_stream(&lease, &step.id, &a.id, 0, "one ".to_owned());
    store.save_stream(&lease, &step.id, &a.id, 4, "two".to_owned());
    check_streams(&store, &lease.session, &[(&step, &a, "one two")]).await;
    drop(store);
    let again = place.open("own_b").await;
    assert_eq!(again.streams(&lease.session).await.unwrap().len(), 1);
    check_streams(&again, &lease.session, &[(&step, &a, "one two")]).await;
}

async fn a_piece_of_a_lost_lease_is_not_saved(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let (stale, step, [a, b]) = speaking(&one).await;
    let (marker, elsewhere, [c, _]) = speaking(&one).await;
    let id = stale.session.clone();
    one.save_stream(&stale, &step.id, &a.id, 0, "in time ".to_owned());
    check_streams(&one, &id, &[(&step, &a, "in time ")]).await;
    one.release(stale.clone()).await.unwrap();
    let lease = two.acquire(&id).await.unwrap();
    one.save_stream(&stale, &step.id, &a.id, 8, "too late".to_owned());
    one.save_stream(&stale, &step.id, &b.id, 0, "too late".to_owned());
    // What the same store saved after them is there, so they were decided about.
    one.save_stream(&marker, &elsewhere.id, &c.id, 0, "good".to_owned());
    check_streams(&one, &marker.session, &[(&elsewhere, &c, "good")]).await;
    check_streams(&one, &id, &[(&step, &a, "in time ")]).await;
    two.save_stream(&lease, &step.id, &a.id, 8, "goes on".to_owned());
    check_streams(&one, &id, &[(&step, &a, "in time goes on")]).await;
}
