//! Cursors: good in every store of a place and after reopening, and refused when they are not ours.

use everturn_model::SessionId;
use everturn_store::{BadCursor, Cursor, Error, Filter, Order, PageRequest, PathQuery, Store};

use crate::events::{append, begin, chain, titled};
use crate::place::{Place, contract};

contract![
    a_cursor_is_good_in_every_store_of_its_place,
    a_cursor_keeps_its_question,
    a_cursor_of_another_place_is_refused,
    a_cursor_with_any_change_is_refused,
    a_cursor_of_another_list_is_refused,
    text_that_never_was_a_cursor_is_refused,
];

/// A cursor of the list of sessions and one of a path.
async fn cursors(store: &Store) -> (Cursor, Cursor, SessionId) {
    let id = begin(store).await;
    begin(store).await;
    begin(store).await;
    chain(store, &id, 3).await;
    let filter = Filter { limit: Some(1), ..Filter::default() };
    let sessions = store.page(PageRequest::First(filter)).await.unwrap().next.unwrap();
    let query = PathQuery { session: id.clone(), leaf: None, order: Order::Newest, limit: 1 };
    let path = store.path(PageRequest::First(query)).await.unwrap().next.unwrap();
    (sessions, path, id)
}

async fn refusals(store: &Store, cursor: &Cursor) -> [BadCursor; 2] {
    let sessions = store.page(PageRequest::After(cursor.clone())).await;
    let path = store.path(PageRequest::After(cursor.clone())).await;
    let (Err(Error::Cursor(sessions)), Err(Error::Cursor(path))) = (&sessions, &path) else {
        panic!("{cursor}: {sessions:?} {path:?}")
    };
    [*sessions, *path]
}

async fn a_cursor_is_good_in_every_store_of_its_place(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let (sessions, path, _) = cursors(&one).await;
    let expected = (
        one.page(PageRequest::After(sessions.clone())).await.unwrap(),
        one.path(PageRequest::After(path.clone())).await.unwrap(),
    );
    assert_eq!((expected.0.items.len(), expected.1.items.len()), (1, 1));
    let found = async |store: &Store| {
        let sessions = store.page(PageRequest::After(sessions.clone())).await.unwrap();
        (sessions, store.path(PageRequest::After(path.clone())).await.unwrap())
    };
    assert_eq!(found(&two).await, expected);
    drop((one, two));
    assert_eq!(found(&place.open("own_c").await).await, expected, "after reopening");
    let text: Cursor = sessions.to_string().parse().unwrap();
    assert_eq!(text, sessions, "it travels as text");
}

async fn a_cursor_keeps_its_question(place: &Place) {
    let store = place.open("own_a").await;
    let wanted = [begin(&store).await, begin(&store).await, begin(&store).await];
    for id in &wanted {
        append(&store, id, vec![titled("wanted")]).await;
        begin(&store).await;
    }
    let filter = Filter { limit: Some(2), search: Some("want".into()), ..Filter::default() };
    let first = store.page(PageRequest::First(filter)).await.unwrap();
    let second = store.page(PageRequest::After(first.next.unwrap())).await.unwrap();
    let ids: Vec<SessionId> = first.items.into_iter().chain(second.items).map(|session| session.id).collect();
    let [a, b, c] = wanted;
    assert_eq!((ids, second.next), (vec![c, b, a], None));
}

async fn a_cursor_of_another_place_is_refused(place: &Place) {
    let elsewhere = Place::new(place.kind());
    let (here, there) = (place.open("own_a").await, elsewhere.open("own_a").await);
    let (sessions, path, _) = cursors(&there).await;
    assert_eq!(refusals(&here, &sessions).await, [BadCursor::Foreign; 2]);
    assert_eq!(refusals(&here, &path).await, [BadCursor::Foreign; 2]);
}

async fn a_cursor_with_any_change_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let (sessions, path, _) = cursors(&store).await;
    for good in [sessions, path] {
        let text = good.as_str();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let mut forged = text.to_owned();
            forged.replace_range(at..=at, other);
            let forged: Cursor = forged.parse().unwrap();
            assert_eq!(refusals(&store, &forged).await, [BadCursor::Foreign; 2], "changed at {at}");
        }
        let (_, short) = text.split_at(1);
        let (shorter, _) = text.split_at(text.len() - 1);
        for forged in [short, shorter, &format!("{text}A"), &format!("{text}AAAA")] {
            assert_eq!(refusals(&store, &forged.parse().unwrap()).await, [BadCursor::Foreign; 2], "{forged}");
        }
    }
}

async fn a_cursor_of_another_list_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let (sessions, path, _) = cursors(&store).await;
    let refused = store.path(PageRequest::After(sessions)).await;
    assert!(matches!(refused, Err(Error::Cursor(BadCursor::OtherKind))), "{refused:?}");
    let refused = store.page(PageRequest::After(path)).await;
    assert!(matches!(refused, Err(Error::Cursor(BadCursor::OtherKind))), "{refused:?}");
}

async fn text_that_never_was_a_cursor_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    for garbage in ["", "A", "AAAA", "0", "garbage", &"x".repeat(4096)] {
        assert_eq!(refusals(&store, &garbage.parse().unwrap()).await, [BadCursor::Foreign; 2], "{garbage}");
    }
    for garbage in [" ", "a b", "ä", "=", "AA==", "a/b", "a+b", "\0", &"x".repeat(4097)] {
        assert_eq!(garbage.parse::<Cursor>(), Err(BadCursor::Foreign), "{garbage}");
    }
}
