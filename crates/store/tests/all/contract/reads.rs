//! Reading what belongs to a session: its log in pages, its inbox, its task list, its requests, its children.

use everturn_model::inbox::Delivery;
use everturn_model::request::Request;
use everturn_model::{Event, RequestId, Session, SessionId, fold};
use everturn_store::{Authority, Error, Store};

use crate::events::{
    NOW, admitted, answered, append, asked, at, begin, creation, log, new, permission, promoted, prompt,
    session, session_id, text, titled, todo, tree,
};
use crate::place::{Place, contract};

contract![
    a_log_is_read_in_pages_from_behind_any_seq,
    waiting_prompts_stand_in_the_order_of_their_admission,
    a_task_list_is_the_last_one_that_was_given,
    requests_of_all_sessions_wait_until_they_are_answered,
    requests_of_a_session_in_the_trash_wait_for_nobody_until_it_is_back,
    a_session_cannot_answer_anothers_request,
    a_session_cannot_take_the_id_of_anothers_request,
    children_are_listed_newest_first_and_without_the_trash,
    what_is_not_there_reads_as_nothing,
];

async fn a_log_is_read_in_pages_from_behind_any_seq(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    for number in 0..11 {
        append(&store, &id, vec![titled(&format!("title {number}"))]).await;
    }
    let whole = log(&store, &id).await;
    assert_eq!(whole.len(), 12);
    for limit in [1, 2, 5, 12, 100] {
        for after in std::iter::once(None).chain((0..14).map(Some)) {
            let skipped = after.map_or(0, |seq| usize::try_from(seq).unwrap() + 1);
            let expected: Vec<_> = whole.iter().skip(skipped).take(limit).cloned().collect();
            assert_eq!(store.events(&id, after, limit).await.unwrap(), expected, "{limit} after {after:?}");
        }
    }
    assert_eq!(store.events(&id, Some(u64::MAX), 5).await.unwrap(), []);
    assert_eq!(store.events(&id, None, 0).await.unwrap(), []);
}

async fn waiting_prompts_stand_in_the_order_of_their_admission(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let mut items: Vec<_> = (0..6).map(|number| prompt(&format!("prompt {number}"))).collect();
    // Admitted in another order than their ids have.
    items.reverse();
    for pair in items.chunks(2) {
        append(&store, &id, pair.iter().map(admitted).collect()).await;
    }
    let inbox = async || {
        let tail = store.tail(&id, 0).await.unwrap().unwrap().inbox;
        assert_eq!(tail, tree(&store, &id).await.inbox.into_iter().collect::<Vec<_>>());
        tail
    };
    assert_eq!(inbox().await, items);
    items[1].parts.push(text("and this"));
    items[4].delivery = Delivery::Steer;
    append(
        &store,
        &id,
        vec![
            new(Event::PromptEdited { item: Box::new(items[1].clone()) }),
            new(Event::PromptRerouted { id: items[4].id.clone(), delivery: Delivery::Steer }),
        ],
    )
    .await;
    (items[1].revision, items[4].revision) = (1, 1);
    assert_eq!(inbox().await, items, "a change does not move it");
    let gone = items.remove(3);
    append(&store, &id, vec![promoted(&gone, None)]).await;
    let gone = items.remove(0);
    append(&store, &id, vec![new(Event::PromptCancelled { id: gone.id.clone() })]).await;
    assert_eq!(inbox().await, items);
    append(&store, &id, vec![admitted(&gone)]).await;
    items.push(gone);
    assert_eq!(inbox().await, items, "what was taken back may come again, at the end");
    items.reverse();
    let ids = items.iter().map(|item| item.id.clone()).collect();
    append(&store, &id, vec![new(Event::InboxReordered { ids })]).await;
    (0..).zip(&mut items).for_each(|(place, item)| item.place = Some(place));
    items.push(prompt("late"));
    append(&store, &id, vec![admitted(&items[5])]).await;
    assert_eq!(
        inbox().await,
        items,
        "in the order that somebody gave them, and what comes later behind them"
    );
    assert_eq!(fold::replay(&log(&store, &id).await).unwrap(), store.tree(&id).await.unwrap());
}

async fn a_task_list_is_the_last_one_that_was_given(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (begin(&store).await, begin(&store).await);
    assert_eq!(store.todos(&id).await.unwrap(), []);
    let lists = [vec![todo("a"), todo("b")], vec![todo("c"), todo("a"), todo("a")], Vec::new()];
    for todos in lists {
        append(&store, &id, vec![new(Event::TodoUpdated { todos: todos.clone() })]).await;
        assert_eq!(store.todos(&id).await.unwrap(), todos);
        assert_eq!(tree(&store, &id).await.todos, todos);
    }
    assert_eq!(store.todos(&other).await.unwrap(), []);
}

/// The waiting requests are these, in the order of their ids, all together and one by one.
async fn check_requests(store: &Store, expected: &[(&SessionId, &Request)]) {
    let mut expected: Vec<(SessionId, Request)> =
        expected.iter().map(|(id, request)| ((*id).clone(), (*request).clone())).collect();
    expected.sort_by(|(_, a), (_, b)| a.id.as_str().as_bytes().cmp(b.id.as_str().as_bytes()));
    assert_eq!(store.requests().await.unwrap(), expected);
    for (session, request) in expected {
        let found = store.request(&request.id).await.unwrap();
        assert_eq!(found, Some((session.clone(), request.clone())));
        assert_eq!(tree(store, &session).await.requests.get(&request.id), Some(&request));
    }
}

async fn requests_of_all_sessions_wait_until_they_are_answered(place: &Place) {
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let requests = ["per_b", "per_A", "que_é", "per_a_", "per_aa"].map(permission);
    append(&store, &one, vec![asked(&requests[0]), asked(&requests[2])]).await;
    append(&store, &two, vec![asked(&requests[1]), asked(&requests[3]), asked(&requests[4])]).await;
    let [b, a, e, low, aa] = &requests;
    check_requests(&store, &[(&one, b), (&one, e), (&two, a), (&two, low), (&two, aa)]).await;
    append(&store, &one, vec![answered(b)]).await;
    append(&store, &two, vec![answered(aa)]).await;
    assert_eq!(store.request(&b.id).await.unwrap(), None);
    check_requests(&store, &[(&one, e), (&two, a), (&two, low)]).await;
    let twice = store.append(&one, Authority::Open, vec![answered(b)]).await;
    assert!(matches!(twice, Err(Error::Unfit { .. })), "{twice:?}");
    drop(store);
    let again = place.open("own_b").await;
    check_requests(&again, &[(&one, e), (&two, a), (&two, low)]).await;
}

async fn requests_of_a_session_in_the_trash_wait_for_nobody_until_it_is_back(place: &Place) {
    // They stayed listed, and nobody could answer them.
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let requests = ["per_a", "per_b", "per_c"].map(permission);
    let [a, b, c] = &requests;
    append(&store, &one, vec![asked(a), asked(c)]).await;
    append(&store, &two, vec![asked(b)]).await;
    append(&store, &one, vec![new(Event::SessionTrashed {})]).await;
    check_requests(&store, &[(&two, b)]).await;
    assert_eq!(store.request(&a.id).await.unwrap(), Some((one.clone(), a.clone())), "by its id it is found");
    append(&store, &one, vec![new(Event::SessionRestored {})]).await;
    check_requests(&store, &[(&one, a), (&two, b), (&one, c)]).await;
}

async fn a_session_cannot_answer_anothers_request(place: &Place) {
    // A request was once looked up by its id alone: the answer took it from its session, and the log of the one that
    // answered could not be folded any more.
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let request = permission("per_of_one");
    append(&store, &one, vec![asked(&request)]).await;
    let refused = store.append(&two, Authority::Open, vec![answered(&request)]).await;
    assert!(matches!(&refused, Err(Error::Unfit { session, .. }) if *session == two), "{refused:?}");
    check_requests(&store, &[(&one, &request)]).await;
    assert_eq!(log(&store, &two).await.len(), 1);
}

async fn a_session_cannot_take_the_id_of_anothers_request(place: &Place) {
    // The newer request once replaced the older one, which then waited in its session's log and nowhere else.
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let request = permission("per_of_one");
    append(&store, &one, vec![asked(&request)]).await;
    let other = Request { time: NOW + 1, ..request.clone() };
    let refused = store.append(&two, Authority::Open, vec![asked(&other)]).await;
    let taken = |error: &fold::Error| matches!(error, fold::Error::Taken(_));
    assert!(matches!(&refused, Err(Error::Unfit { source, .. }) if taken(source)), "{refused:?}");
    check_requests(&store, &[(&one, &request)]).await;
    append(&store, &one, vec![asked(&other)]).await;
    check_requests(&store, &[(&one, &other)]).await;
}

async fn children_are_listed_newest_first_and_without_the_trash(place: &Place) {
    let store = place.open("own_a").await;
    let (parent, other) = (begin(&store).await, begin(&store).await);
    let mut children: Vec<Session> = Vec::new();
    for (number, created) in [NOW + 5, NOW, NOW + 5, NOW + 9].into_iter().enumerate() {
        let mut child = session(&session_id());
        child.time.created = created;
        child.title = format!("child {number}");
        child.parent = Some(parent.clone());
        append(&store, &child.id, vec![creation(child.clone())]).await;
        children.push(child);
    }
    let mut stranger = session(&session_id());
    stranger.parent = Some(other.clone());
    append(&store, &stranger.id, vec![creation(stranger.clone())]).await;
    let [a, b, c, d] = children.try_into().unwrap();
    let expected = vec![d.clone(), c.clone(), a.clone(), b.clone()];
    assert_eq!(store.children(&parent).await.unwrap(), expected, "of one moment, the last one first");
    assert_eq!(store.children(&other).await.unwrap(), [stranger]);
    append(&store, &c.id, vec![at(NOW + 20, Event::SessionTrashed {})]).await;
    assert_eq!(store.children(&parent).await.unwrap(), [d.clone(), a.clone(), b.clone()]);
    append(&store, &c.id, vec![at(NOW + 21, Event::SessionRestored {})]).await;
    assert_eq!(store.children(&parent).await.unwrap(), expected);
}

async fn what_is_not_there_reads_as_nothing(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    assert_eq!(store.session(&id).await.unwrap(), None);
    assert_eq!(store.events(&id, None, 10).await.unwrap(), []);
    assert_eq!(store.todos(&id).await.unwrap(), []);
    assert_eq!(store.streams(&id).await.unwrap(), []);
    assert_eq!(store.children(&id).await.unwrap(), []);
    assert_eq!(store.requests().await.unwrap(), []);
    assert_eq!(store.request(&RequestId::new("per_nowhere")).await.unwrap(), None);
    assert_eq!(store.unfinished().await.unwrap(), []);
    assert_eq!(store.orphans().await.unwrap(), []);
}
