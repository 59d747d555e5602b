//! Forks and clones: a copy stands on its own, has the same shape, and says where it came from.

use everturn_model::tree::Node;
use everturn_model::{EntryId, SessionId};
use everturn_store::{Appended, Cut, Error, Fork, Store};

use crate::events::{
    NOW, added, append, begin, leaf_moved, log, new, note, session, session_id, text, todo, tree,
};
use crate::place::{Place, contract};

contract![
    a_fork_has_the_path_under_new_ids,
    a_fork_ends_before_or_with_an_entry,
    a_clone_has_every_branch,
    a_fork_made_twice_is_there_once,
    a_fork_of_what_is_not_there_is_refused,
    a_fork_lives_on_without_its_source,
];

/// A session with two branches: a, b, c and, from a, d. The leaf is d.
async fn branched(store: &Store) -> (SessionId, [EntryId; 4]) {
    let id = begin(store).await;
    let a = note(None, "first alpha");
    let b = note(Some(&a.id), "second beta");
    let c = note(Some(&b.id), "third gamma");
    let d = note(Some(&a.id), "other delta");
    for entry in [&a, &b, &c] {
        append(store, &id, vec![added(entry, vec![text("with a part")])]).await;
    }
    append(store, &id, vec![leaf_moved(Some(&c.id), Some(&a.id)), added(&d, vec![text("with a part")])])
        .await;
    (id, [a.id, b.id, c.id, d.id])
}

fn fork(source: &SessionId, cut: Cut) -> Fork {
    let events = [new(todo_event()).id, new(todo_event()).id];
    Fork { source: source.clone(), cut, session: session(&session_id()), events, time: NOW }
}

fn todo_event() -> everturn_model::Event {
    everturn_model::Event::TodoUpdated { todos: vec![todo("only for its id")] }
}

async fn check_fork(store: &Store, source: &SessionId, cut: Cut) -> (Appended, Vec<Node>) {
    let appended = store.fork(fork(source, cut)).await.unwrap();
    let copied = tree(store, &appended.session.id).await;
    assert_eq!(copied.session, *appended.session);
    let origin = copied.session.origin.clone().unwrap();
    assert_eq!(&origin.session, source);
    (appended, copied.into_nodes())
}

/// What the nodes say, and which of them each one follows.
fn shape(nodes: &[Node]) -> Vec<(String, Option<usize>)> {
    let place = |id: &EntryId| nodes.iter().position(|node| &node.entry.id == id).unwrap();
    nodes
        .iter()
        .map(|node| {
            assert_eq!(node.parts.len(), 1);
            (format!("{:?}", node.entry.body), node.entry.parent.as_ref().map(place))
        })
        .collect()
}

async fn a_fork_has_the_path_under_new_ids(place: &Place) {
    let store = place.open("own_a").await;
    let (id, [a, _, _, d]) = branched(&store).await;
    let (appended, copied) = check_fork(&store, &id, Cut::Leaf).await;
    let source = tree(&store, &id).await;
    let path: Vec<Node> = [&a, &d].map(|id| source.node(id).unwrap().clone()).into();
    assert_eq!(shape(&copied), shape(&path));
    assert_eq!(appended.session.leaf.as_ref(), copied.last().map(|node| &node.entry.id));
    assert!(copied.iter().all(|node| source.node(&node.entry.id).is_none()), "its ids are its own");
    assert!(copied[0].entry.id < copied[1].entry.id, "and ascend");
}

async fn a_fork_ends_before_or_with_an_entry(place: &Place) {
    let store = place.open("own_a").await;
    let (id, [_, b, c, _]) = branched(&store).await;
    let (_, before) = check_fork(&store, &id, Cut::Before(c.clone())).await;
    let (_, through) = check_fork(&store, &id, Cut::Through(c)).await;
    assert_eq!((before.len(), through.len()), (2, 3));
    assert_eq!(shape(&through)[..2], shape(&before));
    let (empty, nothing) = check_fork(&store, &id, Cut::Before(b)).await;
    assert_eq!(nothing.len(), 1);
    assert!(empty.session.leaf.is_some());
}

async fn a_clone_has_every_branch(place: &Place) {
    let store = place.open("own_a").await;
    let (id, _) = branched(&store).await;
    let (appended, copied) = check_fork(&store, &id, Cut::Tree).await;
    let source = tree(&store, &id).await;
    assert_eq!(shape(&copied), shape(source.nodes()));
    let leaf = copied.iter().find(|node| Some(&node.entry.id) == appended.session.leaf.as_ref()).unwrap();
    assert_eq!(leaf.entry.body, source.node(source.session.leaf.as_ref().unwrap()).unwrap().entry.body);
}

async fn a_fork_made_twice_is_there_once(place: &Place) {
    let store = place.open("own_a").await;
    let (id, _) = branched(&store).await;
    let fork = fork(&id, Cut::Leaf);
    let first = store.fork(fork.clone()).await.unwrap();
    let again = store.fork(fork).await.unwrap();
    assert_eq!((first.fresh, again.fresh), (true, false));
    assert_eq!(first.session, again.session);
    assert_eq!(log(&store, &first.session.id).await.len(), 2);
}

async fn a_fork_of_what_is_not_there_is_refused(place: &Place) {
    let store = place.open("own_a").await;
    let (id, _) = branched(&store).await;
    let nobody = store.fork(fork(&session_id(), Cut::Leaf)).await;
    assert!(matches!(nobody, Err(Error::NoSession(_))), "{nobody:?}");
    let nowhere = store.fork(fork(&id, Cut::Through(EntryId::new("msg_nowhere")))).await;
    assert!(matches!(nowhere, Err(Error::Unfit { .. })), "{nowhere:?}");
}

async fn a_fork_lives_on_without_its_source(place: &Place) {
    let store = place.open("own_a").await;
    let (id, _) = branched(&store).await;
    let (appended, copied) = check_fork(&store, &id, Cut::Leaf).await;
    assert!(store.purge(&id, NOW).await.unwrap());
    assert_eq!(tree(&store, &appended.session.id).await.into_nodes(), copied);
}
