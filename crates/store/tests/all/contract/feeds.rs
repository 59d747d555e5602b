//! The feed: each event once and in order, whoever writes it, and the text that others stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everturn_model::{EntryId, Event, PartId, Record, SessionId};
use everturn_store::{Authority, FeedItem, PurgedSession, Store, Timing, WrittenBy};
use everturn_testkit::deadline::within;
use tokio::task::JoinSet;

use crate::events::{
    NOW, added, admitted, append, at, begin, created, ended, leaf_moved, log, new, note, part_ended,
    part_started, promoted, prompt, session_id, started, streaming, text, titled, turn,
};
use crate::listener::Listener;
use crate::place::{Kind, Place, contract};

contract![
    everybody_hears_every_event_of_every_session_once_and_in_order,
    nothing_from_before_is_told,
    own_commits_are_told_before_their_answer_and_in_place,
    owned_and_open_appends_of_two_stores_come_in_the_order_of_the_log,
    what_is_told_after_a_commit_never_comes_before_it,
    events_of_others_come_with_the_rows_that_they_touched,
    a_long_log_of_another_is_read_to_its_end,
    streamed_text_of_another_comes_piece_by_piece_with_its_place,
    text_that_was_streaming_already_is_told_from_its_beginning,
    own_text_is_not_told,
    a_session_that_is_taken_over_is_told_without_a_break,
    sessions_that_others_run_are_known,
    a_damaged_session_is_a_gap_and_holds_up_no_other,
    a_session_that_is_deleted_for_good_is_told_once,
    a_session_that_is_deleted_and_purged_at_once_is_told_once,
];

/// Writes so many events, one by one.
async fn write(store: Store, id: SessionId, count: usize) {
    for number in 0..count {
        append(&store, &id, vec![titled(&format!("title {number}"))]).await;
    }
}

async fn everybody_hears_every_event_of_every_session_once_and_in_order(place: &Place) {
    let (one, mut here) = Listener::open(place, "own_a").await;
    let (two, mut there) = Listener::open(place, "own_b").await;
    let stores = [one, two];
    let ids: Vec<SessionId> = (0..20).map(|_| session_id()).collect();
    let mut writing = JoinSet::new();
    for (number, id) in ids.iter().enumerate() {
        let (one, two, id) = (stores[number % 2].clone(), stores[(number + 1) % 2].clone(), id.clone());
        writing.spawn(async move {
            append(&one, &id, vec![created(&id)]).await;
            // Both write to it at once.
            let both = [(one, id.clone()), (two, id)];
            both.into_iter().map(|(store, id)| write(store, id, 7)).collect::<JoinSet<()>>().join_all().await;
        });
    }
    let (heard_here, heard_there) = tokio::join!(here.gather(300), there.gather(300));
    writing.join_all().await;
    let mut logs = BTreeMap::new();
    for id in &ids {
        logs.insert(id.clone(), log(&stores[0], id).await);
    }
    assert_eq!(heard_here, logs);
    assert_eq!(heard_there, logs);
    here.check_quiet(&stores[1]).await;
}

async fn nothing_from_before_is_told(place: &Place) {
    let old = place.open("own_old").await;
    let ids = [begin(&old).await, begin(&old).await];
    write(old.clone(), ids[0].clone(), 5).await;
    let (one, mut here) = Listener::open(place, "own_a").await;
    let (two, mut there) = Listener::open(place, "own_b").await;
    // Neither has seen either session: nobody may take what was there for a gap.
    append(&one, &ids[0], vec![titled("b"), titled("c")]).await;
    append(&two, &ids[1], vec![titled("d")]).await;
    append(&one, &ids[1], vec![titled("e")]).await;
    let mut expected = BTreeMap::new();
    expected.insert(ids[0].clone(), log(&old, &ids[0]).await.split_off(6));
    expected.insert(ids[1].clone(), log(&old, &ids[1]).await.split_off(1));
    for listener in [&mut here, &mut there] {
        assert_eq!(listener.gather(4).await, expected);
    }
    here.check_quiet(&two).await;
}

async fn own_commits_are_told_before_their_answer_and_in_place(place: &Place) {
    let quiet = place.open("own_quiet").await;
    let (one, mut here) = Listener::open(place, "own_a").await;
    let id = begin(&one).await;
    for number in 1..=20 {
        append(&one, &id, vec![titled("b")]).await;
        let heard = here.events();
        assert_eq!(heard.last().unwrap().record.seq, number, "told before the append was answered");
        assert!(heard.iter().all(|committed| committed.by == WrittenBy::Us));
    }
    // After a rest nothing is remembered of the session, and an own commit is still told at once.
    let elsewhere = begin(&quiet).await;
    assert_eq!(here.event().await.record.session, elsewhere);
    append(&one, &id, vec![titled("c")]).await;
    let heard = here.events();
    assert!(heard.iter().any(|committed| committed.record.session == id && committed.record.seq == 21));
}

async fn owned_and_open_appends_of_two_stores_come_in_the_order_of_the_log(place: &Place) {
    let (owner, mut here) = Listener::open(place, "own_a").await;
    let (guest, mut there) = Listener::open(place, "own_b").await;
    let ids = [begin(&owner).await, begin(&owner).await, begin(&guest).await];
    let mut writing = JoinSet::new();
    for id in ids.clone() {
        let lease = owner.acquire(&id).await.unwrap();
        let (owner, guest, other) = (owner.clone(), guest.clone(), id.clone());
        writing.spawn(async move {
            for number in 0..40 {
                let event = titled(&format!("owned {number}"));
                owner.append(&id, Authority::Owned(lease.clone()), vec![event]).await.unwrap();
            }
        });
        writing.spawn(async move {
            for number in 0..40 {
                append(&guest, &other, vec![titled(&format!("open {number}")), titled("and another")]).await;
            }
        });
    }
    let (heard_here, heard_there) = tokio::join!(here.gather(363), there.gather(363));
    writing.join_all().await;
    for id in &ids {
        let whole = log(&owner, id).await;
        assert_eq!(whole.len(), 121);
        assert_eq!(heard_here[id], whole);
        assert_eq!(heard_there[id], whole);
    }
}

/// What was told, in order: events by their seq, and signs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Event(u64),
    Sign(u64),
}

async fn what_is_told_after_a_commit_never_comes_before_it(place: &Place) {
    let other = place.open("own_b").await;
    let id = begin(&other).await;
    let (tell, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let signs = tell.clone();
    let observer = Arc::new(move |item| {
        if let FeedItem::Committed(committed) = item {
            tell.send(Told::Event(committed.record.seq)).unwrap();
        }
    });
    let store = place.open_with("own_a", |options| options.observer = Some(observer)).await;
    let disturbing = tokio::spawn(write(other.clone(), id.clone(), 60));
    for _ in 0..60 {
        let seq = append(&store, &id, vec![titled("own")]).await.seq;
        let signs = signs.clone();
        store.tell_after(&id, move || signs.send(Told::Sign(seq)).unwrap());
    }
    disturbing.await.unwrap();
    let mut told = Vec::new();
    while told.len() < 180 {
        told.push(within("all of it", hears.recv()).await.unwrap());
    }
    let events: Vec<u64> =
        told.iter().filter_map(|told| if let Told::Event(seq) = told { Some(*seq) } else { None }).collect();
    assert_eq!(events, (1..=120).collect::<Vec<u64>>());
    for (place, sign) in told.iter().enumerate() {
        if let Told::Sign(seq) = sign {
            let event = told.iter().position(|told| *told == Told::Event(*seq)).unwrap();
            assert!(event < place, "the sign after {seq} came before it");
        }
    }
}

async fn events_of_others_come_with_the_rows_that_they_touched(place: &Place) {
    let (_one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let id = begin(&other).await;
    let item = prompt("hello");
    let (entry, words) = (note(None, "a note"), text("its words"));
    let (step, part) = (turn(Some(&entry.id)), streaming());
    let events = vec![
        titled("b"),
        added(&entry, vec![words.clone()]),
        started(&step),
        part_started(&step.id, &part),
        part_ended(&step.id, &part, "said"),
        ended(&step, Default::default(), Default::default()),
        admitted(&item),
        promoted(&item, Some(&step.id)),
        leaf_moved(Some(&item.id), Some(&entry.id)),
        new(Event::TodoUpdated { todos: vec![crate::events::todo("x")] }),
    ];
    // All at once, so that they are read at once and all rows are of the end.
    append(&other, &id, events).await;
    let mut heard = Vec::new();
    for _ in 0..11 {
        heard.push(here.event().await);
    }
    let newest: Vec<bool> =
        heard.iter().map(|committed| committed.by == WrittenBy::Others { newest: true }).collect();
    assert_eq!(newest.iter().filter(|newest| **newest).count(), 1 + usize::from(newest[0]));
    assert!(newest[10]);
    assert!(heard.iter().all(|committed| committed.before.is_none()));
    assert!(heard[1..].iter().all(|committed| committed.tree.session.title == "b"));
    let node = |number: usize, id: &EntryId| heard[number].tree.node(id).unwrap().clone();
    assert_eq!(node(2, &entry.id).parts, [words]);
    assert_eq!((node(3, &step.id).entry, node(3, &step.id).parts.len()), (step.clone(), 0));
    assert_eq!(node(4, &step.id).parts, std::slice::from_ref(&part), "as it began");
    let said = node(5, &step.id).parts;
    assert!(format!("{said:?}").contains("\"said\""), "{said:?}");
    assert!(node(6, &step.id).entry.body.assistant().unwrap().completed.is_some());
    assert_eq!(heard[7].tree.waiting(&item.id), Some(&item));
    assert!(heard[9].lacks_rows(), "a move touches everything");
    assert_eq!(heard[9].tree.nodes().len(), 0, "which nobody reads who does not show it");
    assert!(heard.iter().enumerate().all(|(number, told)| told.lacks_rows() == (number == 9)));
    assert_eq!(heard[10].tree.todos.len(), 1);
}

async fn a_long_log_of_another_is_read_to_its_end(place: &Place) {
    let (_one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let id = session_id();
    let many = (0..700).map(|number| titled(&format!("title {number}")));
    append(&other, &id, std::iter::once(created(&id)).chain(many).collect()).await;
    let mut heard = here.gather(701).await;
    assert_eq!(heard.remove(&id).unwrap(), log(&other, &id).await);
    here.check_quiet(&other).await;
}

/// What a listener hears of a session until a part ends: the seqs, and the text of the part with the place of each piece.
async fn hear_text(listener: &mut Listener, id: &SessionId, part: &PartId) -> (Vec<u64>, String) {
    let (mut seqs, mut whole) = (Vec::new(), String::new());
    loop {
        match listener.next().await {
            FeedItem::Committed(committed) if committed.record.session == *id => {
                seqs.push(committed.record.seq);
                if matches!(&committed.record.event, Event::PartEnded { part: ended, .. } if ended == part) {
                    return (seqs, whole);
                }
            }
            FeedItem::Committed(_) => {}
            FeedItem::Text(piece) => {
                assert_eq!((&piece.session, &piece.part), (id, part));
                assert_eq!(piece.offset, whole.len(), "each piece follows the one before");
                whole.push_str(&piece.text);
            }
            FeedItem::Gap | FeedItem::Purged(_) => panic!("nothing was missed or deleted"),
        }
    }
}

/// Waits until a text was told up to here.
async fn hear_until(listener: &mut Listener, whole: &mut String, expected: &str) {
    while whole != expected {
        if let FeedItem::Text(piece) = listener.next().await {
            assert_eq!(piece.offset, whole.len(), "each piece follows the one before");
            whole.push_str(&piece.text);
            assert!(expected.starts_with(whole.as_str()), "{whole:?}");
        }
    }
}

async fn streamed_text_of_another_comes_piece_by_piece_with_its_place(place: &Place) {
    let (one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let id = begin(&other).await;
    let lease = other.acquire(&id).await.unwrap();
    let (step, part) = (turn(None), streaming());
    let owned = Authority::Owned(lease.clone());
    other.append(&id, owned.clone(), vec![started(&step), part_started(&step.id, &part)]).await.unwrap();
    let (mut start, mut told) = (0, String::new());
    for piece in ["Straße ", "漢字 \0 ", "end"] {
        other.save_stream(&lease, &step.id, &part.id, start, piece.to_owned());
        start += piece.len();
        let expected = told.clone() + piece;
        hear_until(&mut here, &mut told, &expected).await;
    }
    assert_eq!(one.streaming_parts().await.unwrap().len(), 1);
    // What was saved right before the end need not be told: the end has it all.
    other.save_stream(&lease, &step.id, &part.id, start, "!".to_owned());
    let end = part_ended(&step.id, &part, &(told.clone() + "!"));
    other.append(&id, owned, vec![end]).await.unwrap();
    loop {
        match here.next().await {
            FeedItem::Text(piece) => assert_eq!((piece.offset, piece.text.as_str()), (start, "!")),
            FeedItem::Committed(committed) => {
                assert!(matches!(committed.record.event, Event::PartEnded { .. }));
                break;
            }
            FeedItem::Gap | FeedItem::Purged(_) => panic!("nothing was missed or deleted"),
        }
    }
    here.check_quiet(&other).await;
    assert_eq!(one.streaming_parts().await.unwrap(), []);
}

async fn text_that_was_streaming_already_is_told_from_its_beginning(place: &Place) {
    let other = place.open("own_b").await;
    let id = begin(&other).await;
    let lease = other.acquire(&id).await.unwrap();
    let (step, [first, second]) = (turn(None), [streaming(), streaming()]);
    let began = vec![started(&step), part_started(&step.id, &first), part_started(&step.id, &second)];
    other.append(&id, Authority::Owned(lease.clone()), began).await.unwrap();
    other.save_stream(&lease, &step.id, &first.id, 0, "before ".to_owned());
    within("the text to be saved", async {
        while other.streams(&id).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (one, mut here) = Listener::open(place, "own_a").await;
    let open = one.streaming_parts().await.unwrap();
    let texts: Vec<String> = open.iter().map(|open| format!("{:?}", open.part.kind)).collect();
    assert_eq!(open.iter().map(|open| &open.part.id).collect::<Vec<_>>(), [&first.id, &second.id]);
    assert!(texts[0].contains("\"before \""), "{texts:?}");
    other.save_stream(&lease, &step.id, &first.id, 7, "after".to_owned());
    let mut told = String::new();
    hear_until(&mut here, &mut told, "before after").await;
    // Of this one nothing had been saved when the listener came.
    other.save_stream(&lease, &step.id, &second.id, 0, "second".to_owned());
    hear_until(&mut here, &mut String::new(), "second").await;
}

async fn own_text_is_not_told(place: &Place) {
    let (one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    let (step, part) = (turn(None), streaming());
    let owned = Authority::Owned(lease.clone());
    one.append(&id, owned.clone(), vec![started(&step), part_started(&step.id, &part)]).await.unwrap();
    one.save_stream(&lease, &step.id, &part.id, 0, "own".to_owned());
    append(&other, &id, vec![titled("of another")]).await;
    one.append(&id, owned, vec![part_ended(&step.id, &part, "own")]).await.unwrap();
    let (seqs, told) = hear_text(&mut here, &id, &part.id).await;
    assert_eq!((seqs, told.as_str()), (vec![0, 1, 2, 3, 4], ""));
}

/// Listens until the text of a session is this, and gathers what it hears on the way.
async fn follow_until(there: &mut Listener, told: &mut String, seqs: &mut Vec<u64>, text: &str) {
    while told != text {
        match there.next().await {
            FeedItem::Committed(committed) => seqs.push(committed.record.seq),
            FeedItem::Text(piece) => told.push_str(&piece.text),
            FeedItem::Gap | FeedItem::Purged(_) => panic!("nothing was missed or deleted"),
        }
    }
}

async fn a_session_that_is_taken_over_is_told_without_a_break(place: &Place) {
    let (_third, mut there) = Listener::open(place, "own_c").await;
    let (one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let id = begin(&other).await;
    let lease = other.acquire(&id).await.unwrap();
    let (step, part) = (turn(None), streaming());
    let began = vec![started(&step), part_started(&step.id, &part)];
    other.append(&id, Authority::Owned(lease.clone()), began).await.unwrap();
    other.save_stream(&lease, &step.id, &part.id, 0, "half a".to_owned());
    hear_until(&mut here, &mut String::new(), "half a").await;
    // Text that has ended is told no more, so the third one has to hear of it now too.
    let (mut told, mut seqs) = (String::new(), Vec::new());
    follow_until(&mut there, &mut told, &mut seqs, "half a").await;
    // It dies. Whoever takes the session over ends what it had begun, and goes on.
    drop(other);
    let lease = one.acquire(&id).await.unwrap();
    let owned = Authority::Owned(lease.clone());
    let end = part_ended(&step.id, &part, "half a");
    one.append(&id, owned.clone(), vec![end, ended(&step, Default::default(), Default::default())])
        .await
        .unwrap();
    let (next, said) = (turn(Some(&step.id)), streaming());
    let goes_on = vec![started(&next), part_started(&next.id, &said)];
    one.append(&id, owned.clone(), goes_on).await.unwrap();
    one.save_stream(&lease, &next.id, &said.id, 0, "sentence".to_owned());
    // To the third one all of it is of others, one after the other.
    follow_until(&mut there, &mut told, &mut seqs, "half asentence").await;
    assert_eq!(seqs, (0..=6).collect::<Vec<u64>>());
    one.append(&id, owned, vec![part_ended(&next.id, &said, "sentence")]).await.unwrap();
    let heard: Vec<u64> = here.events().iter().map(|committed| committed.record.seq).collect();
    assert_eq!(heard, [3, 4, 5, 6, 7], "its own are told at once, and its own text is not told");
}

async fn sessions_that_others_run_are_known(place: &Place) {
    let (one, other) = (place.open("own_a").await, place.open("own_b").await);
    let (busy, rests, own) = (begin(&one).await, begin(&one).await, begin(&one).await);
    for (store, id) in [(&other, &busy), (&one, &own)] {
        let lease = store.acquire(id).await.unwrap();
        store.append(id, Authority::Owned(lease), vec![started(&turn(None))]).await.unwrap();
    }
    other.acquire(&rests).await.unwrap();
    assert_eq!(one.run_elsewhere().await.unwrap(), std::slice::from_ref(&busy));
    assert_eq!(other.run_elsewhere().await.unwrap(), [own]);
    // Whoever runs it has its turn to close before it is at rest in the trash.
    append(&one, &busy, vec![new(Event::SessionTrashed {})]).await;
    assert_eq!(one.run_elsewhere().await.unwrap(), [busy]);
    // Nobody runs what a dead process has left.
    drop(other);
    assert_eq!(one.run_elsewhere().await.unwrap(), []);
}

async fn a_damaged_session_is_a_gap_and_holds_up_no_other(place: &Place) {
    let (observer, mut here) = Listener::new();
    // Nothing is looked for until an own commit finds a gap; a server tells at once.
    let slow = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let other = place.open("own_b").await;
    let (bad, good) = (begin(&other).await, begin(&other).await);
    let one = place
        .open_with("own_a", |options| {
            options.observer = Some(observer);
            options.timing = slow;
        })
        .await;
    if place.kind() == Kind::Postgres {
        // The notice of this is there before the damage, or with it; either way something of the session is told.
        append(&other, &bad, vec![titled("b")]).await;
        assert_eq!(here.event().await.record.session, bad);
        place.garble(&bad).await;
        append(&other, &good, vec![titled("b")]).await;
        assert_eq!(here.event().await.record.session, good, "the others go on");
        return;
    }
    append(&other, &bad, vec![titled("b")]).await;
    place.garble(&bad).await;
    append(&other, &good, vec![titled("b")]).await;
    append(&one, &good, vec![titled("c")]).await;
    assert!(matches!(here.next().await, FeedItem::Gap), "what is missing is not hidden");
    let heard: Vec<Record> =
        [here.event().await, here.event().await].iter().map(|told| Record::clone(&told.record)).collect();
    assert_eq!(heard, log(&one, &good).await.split_off(1));
}

async fn a_session_that_is_deleted_for_good_is_told_once(place: &Place) {
    // Its log goes with it: whoever had it in a list was never told.
    let other = place.open("own_b").await;
    let (before, id, trashed) = (begin(&other).await, begin(&other).await, begin(&other).await);
    assert!(other.purge(&before, NOW).await.unwrap());
    // A prompt is the last activity of a session.
    append(&other, &id, vec![at(NOW + 5, Event::PromptAdmitted { item: Box::new(prompt("hello")) })]).await;
    let (_one, mut here) = Listener::open(place, "own_a").await;
    append(&other, &trashed, vec![new(Event::SessionTrashed {})]).await;
    assert_eq!(here.event().await.record.session, trashed);
    assert!(other.purge(&trashed, NOW).await.unwrap(), "its event has said so");
    assert!(other.purge(&id, NOW + 9).await.unwrap());
    let FeedItem::Purged(purged) = here.next().await else { panic!("it was deleted for good") };
    let expected = PurgedSession {
        session: id,
        project: "global".into(),
        directory: "/srv/demo".into(),
        created: NOW,
        updated: NOW + 5,
    };
    assert_eq!(*purged, expected);
    here.check_quiet(&other).await;
}

async fn a_session_that_is_deleted_and_purged_at_once_is_told_once(place: &Place) {
    // Its last event, which says that it is gone, may go before anybody has read it: then nobody was told.
    let (_one, mut here) = Listener::open(place, "own_a").await;
    let other = place.open("own_b").await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(begin(&other).await);
    }
    here.gather(ids.len()).await;
    for id in &ids {
        append(&other, id, vec![new(Event::SessionTrashed {})]).await;
        assert!(other.purge(id, NOW).await.unwrap());
    }
    let mut told = Vec::new();
    for _ in &ids {
        told.push(match here.next().await {
            FeedItem::Purged(purged) => purged.session.clone(),
            FeedItem::Committed(trashed) => trashed.record.session.clone(),
            other => panic!("{other:?}"),
        });
    }
    told.sort_unstable();
    ids.sort_unstable();
    assert_eq!(told, ids);
    here.check_quiet(&other).await;
}
