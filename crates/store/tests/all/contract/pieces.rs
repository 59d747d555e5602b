//! Reading pieces of a conversation as they are stored, in proportion to what is asked for.

use everturn_model::entry::Body;
use everturn_model::event::Seed;
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_model::{Entry, EntryId, Event, SessionId, path};
use everturn_store::{Error, Options, PathPiece, Store, StoredPath};
use everturn_testkit::disk::{self, Disk, DiskFaultKind};

use super::paths::{conversation, messages};
use crate::events::{
    NOW, added, admitted, append, begin, chain, entry_id, leaf_moved, new, prompt, session_id, text, tree,
    turn,
};
use crate::place::{Place, contract};

contract![
    each_piece_is_what_the_tree_has,
    a_page_ends_where_it_ended_when_the_path_ends_elsewhere,
    results_come_with_their_call,
    a_page_of_a_long_conversation_reads_nothing_else,
];

fn read(path: &StoredPath) -> Vec<Node> {
    path.nodes.iter().map(|json| json.read().unwrap()).collect()
}

async fn piece(store: &Store, id: &SessionId, piece: PathPiece) -> Option<StoredPath> {
    store.stored_path(id, piece).await.unwrap()
}

/// The newest of these nodes until clients show so many messages, and whether there are more.
fn newest(nodes: &[&Node], wanted: usize) -> (Vec<Node>, bool) {
    let mut left = wanted;
    let mut found: Vec<Node> = Vec::new();
    for node in nodes.iter().rev() {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(messages(node));
        found.push((*node).clone());
    }
    found.reverse();
    let more = found.len() < nodes.len();
    (found, more)
}

async fn each_piece_is_what_the_tree_has(place: &Place) {
    let store = place.open("own_a").await;
    let id = conversation(&store).await;
    append(&store, &id, vec![admitted(&prompt("waiting"))]).await;
    let tree = tree(&store, &id).await;
    let way = path::to(&tree, tree.session.leaf.as_ref());
    let whole = piece(&store, &id, PathPiece::Whole).await.unwrap();
    assert_eq!((read(&whole), whole.more), (way.iter().copied().cloned().collect(), false));
    assert_eq!((whole.session, whole.inbox), (tree.session.clone(), tree.inbox.iter().cloned().collect()));
    assert!(whole.nodes.iter().all(|json| json.read().unwrap().entry.id == json.id));
    for node in tree.nodes() {
        let entry = &node.entry.id;
        let upto = path::to(&tree, Some(entry));
        for wanted in 0..=upto.len() + 1 {
            let found = piece(&store, &id, PathPiece::UpTo(entry.clone(), wanted)).await.unwrap();
            assert_eq!((read(&found), found.more), newest(&upto, wanted), "{wanted} up to {entry}");
            assert!(found.inbox.is_empty(), "what waits comes after it");
        }
        let at = piece(&store, &id, PathPiece::At(entry.clone())).await;
        let Some(place) = way.iter().position(|own| own.entry.id == *entry) else {
            assert_eq!(at, None, "{entry} is on another branch");
            continue;
        };
        let silent = way[place + 1..].iter().take_while(|node| messages(node) == 0);
        let expected: Vec<Node> = way[place..=place].iter().chain(silent).copied().cloned().collect();
        let at = at.unwrap();
        assert_eq!((read(&at), at.more), (expected, place > 0), "at {entry}");
    }
    assert_eq!(piece(&store, &id, PathPiece::At(entry_id())).await, None);
    assert_eq!(piece(&store, &id, PathPiece::UpTo(entry_id(), 1)).await, None);
    assert_eq!(piece(&store, &session_id(), PathPiece::Whole).await, None);
}

async fn a_page_ends_where_it_ended_when_the_path_ends_elsewhere(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let entries = chain(&store, &id, 4).await;
    let asked = PathPiece::UpTo(entries[3].id.clone(), 2);
    let before = piece(&store, &id, asked.clone()).await.unwrap();
    append(&store, &id, vec![leaf_moved(Some(&entries[3].id), Some(&entries[0].id))]).await;
    let after = piece(&store, &id, asked).await.unwrap();
    assert_eq!((before.nodes.len(), &before.nodes), (2, &after.nodes));
}

async fn results_come_with_their_call(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let first = turn(None);
    let result = |parent: &EntryId| {
        let result = Box::new(ToolResult::new("c", "bash", Outcome::Completed, "done"));
        Entry::new(entry_id(), Some(parent.clone()), NOW, Body::ToolResult { result })
    };
    let one = result(&first.id);
    let two = result(&one.id);
    let last = turn(Some(&two.id));
    append(&store, &id, [&first, &one, &two, &last].map(|entry| added(entry, Vec::new())).into()).await;
    let at = async |entry: &Entry| {
        let found = piece(&store, &id, PathPiece::At(entry.id.clone())).await.unwrap();
        found.nodes.into_iter().map(|json| json.id).collect::<Vec<_>>()
    };
    assert_eq!(at(&first).await, [&first, &one, &two].map(|entry| entry.id.clone()));
    assert_eq!(at(&last).await, std::slice::from_ref(&last.id));
}

/// A conversation of so many messages with a part each.
async fn long(store: &Store, length: usize) -> (SessionId, Vec<EntryId>) {
    let id = begin(store).await;
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..length {
        let entry = turn(nodes.last().map(|node| &node.entry.id));
        nodes.push(Node::new(entry, vec![text(&format!("answer {number}"))]));
    }
    let ids: Vec<EntryId> = nodes.iter().map(|node| node.entry.id.clone()).collect();
    let seed = Seed { nodes, leaf: ids.last().cloned(), ..Seed::default() };
    let imported = Event::SessionImported { dialect: "pi".into(), seed: Box::new(seed) };
    append(store, &id, vec![new(imported)]).await;
    (id, ids)
}

async fn a_page_of_a_long_conversation_reads_nothing_else(place: &Place) {
    // A page was cut out of the whole conversation once: all of it was read, and one damaged row hid every page.
    let store = place.open("own_a").await;
    let (id, ids) = long(&store, 10_000).await;
    let page = PathPiece::UpTo(ids[5_099].clone(), 100);
    let expected = piece(&store, &id, page.clone()).await.unwrap();
    assert_eq!(
        expected.nodes.iter().map(|json| &json.id).collect::<Vec<_>>(),
        ids[5_000..5_100].iter().collect::<Vec<_>>()
    );
    place.garble_other_nodes(&id, &ids[5_000..5_100]).await;
    let found = piece(&store, &id, page).await.unwrap();
    assert_eq!((found.nodes == expected.nodes, found.more), (true, true));
    let one = piece(&store, &id, PathPiece::At(ids[5_098].clone())).await.unwrap();
    assert_eq!(one.nodes, expected.nodes[98..99]);
    let refused = store.tree(&id).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "the rest is damaged: {refused:?}");
}

#[tokio::test]
async fn a_page_takes_few_reads_of_the_file() {
    let folder = disk::scratch();
    let options = || Options::folder(folder.path(), "own_a");
    let store = Store::open(options()).await.unwrap();
    let (id, ids) = long(&store, 10_000).await;
    drop(store);
    let disk = Disk::register_without_trace("pages");
    let mut reads = Vec::new();
    for piece in [PathPiece::Newest(100), PathPiece::UpTo(ids[5_000].clone(), 100), PathPiece::Whole] {
        // A new store has nothing in its cache.
        let store = Store::open(Options { vfs: Some(disk.name().to_owned()), ..options() }).await.unwrap();
        store.session(&id).await.unwrap();
        disk.reset_calls();
        assert!(!store.stored_path(&id, piece).await.unwrap().unwrap().nodes.is_empty());
        reads.push(disk.calls(DiskFaultKind::Eio));
    }
    let [newest, middle, whole] = reads[..] else { panic!("{reads:?}") };
    assert!(newest * 20 < whole && middle * 20 < whole, "{reads:?}: a hundredth is asked for");
}
