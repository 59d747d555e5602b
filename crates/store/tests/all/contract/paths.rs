//! Reading a conversation: pages of its path in both directions, its tail, its entries one by one.

use everturn_model::entry::{Body, Compaction, Shell};
use everturn_model::event::{Amendment, Seed};
use everturn_model::tree::Node;
use everturn_model::{Entry, EntryId, Event, SessionId, Tree, path};
use everturn_store::{Error, Order, Page, PageRequest, PathQuery, Store, Tail};

use crate::events::{
    NOW, added, admitted, amended, append, begin, chain, entry_id, leaf_moved, new, note, promoted, prompt,
    session_id, started, text, titled, tree, turn,
};
use crate::place::{Place, contract};

contract![
    pages_of_any_size_are_the_whole_path,
    pages_go_on_in_the_same_conversation_when_its_end_moves_meanwhile,
    a_path_can_end_at_any_entry,
    a_path_without_entries_is_empty_and_one_without_a_session_an_error,
    a_path_ends_where_a_parent_is_missing,
    a_path_that_runs_in_a_circle_ends,
    a_tail_has_as_many_messages_as_asked_for,
    an_entry_is_read_alone_as_it_is_in_the_tree,
    a_waiting_prompt_is_read_alone_as_it_is_in_the_tree,
];

fn query(session: &SessionId, order: Order, limit: u32) -> PathQuery {
    PathQuery { session: session.clone(), leaf: None, order, limit }
}

/// All pages from one on, which are bounded, full except for the last, and not more than there can be.
async fn rest(store: &Store, page: Page<Node>, limit: u32) -> Vec<Node> {
    let mut nodes = page.items;
    let mut next = page.next;
    let mut pages = 1;
    while let Some(cursor) = next {
        let full = nodes.len() == pages * usize::try_from(limit).unwrap();
        assert!(full, "only the last page has less: {} after {pages} pages of {limit}", nodes.len());
        let page = store.path(PageRequest::After(cursor)).await.unwrap();
        assert!(!page.items.is_empty(), "a page that was announced is not empty");
        nodes.extend(page.items);
        next = page.next;
        pages += 1;
        assert!(pages < 100, "the pages end");
    }
    nodes
}

async fn pages(store: &Store, query: PathQuery) -> Vec<Node> {
    let limit = query.limit;
    let first = store.path(PageRequest::First(query)).await.unwrap();
    rest(store, first, limit).await
}

fn expected(tree: &Tree, leaf: Option<&EntryId>, order: Order) -> Vec<Node> {
    let mut nodes: Vec<Node> = path::to(tree, leaf).into_iter().cloned().collect();
    if order == Order::Newest {
        nodes.reverse();
    }
    nodes
}

/// Every page size in both directions gives the path that the tree has.
async fn check_path(store: &Store, id: &SessionId) {
    let tree = tree(store, id).await;
    let length = u32::try_from(expected(&tree, tree.session.leaf.as_ref(), Order::Oldest).len()).unwrap();
    for order in [Order::Newest, Order::Oldest] {
        for limit in 1..=length + 1 {
            let found = pages(store, query(id, order, limit)).await;
            assert_eq!(found, expected(&tree, tree.session.leaf.as_ref(), order), "{order:?} by {limit}");
        }
    }
}

/// A conversation with a branch, and with entries of many kinds; some have parts, some are hidden.
pub(super) async fn conversation(store: &Store) -> SessionId {
    let id = begin(store).await;
    let trunk = chain(store, &id, 3).await;
    let left = chain_from(store, &id, &trunk[2].id, 2).await;
    append(store, &id, vec![leaf_moved(left.last(), Some(&trunk[1].id))]).await;
    let item = prompt("a question");
    let answer = turn(Some(&item.id));
    append(store, &id, vec![admitted(&item), promoted(&item, Some(&trunk[1].id)), started(&answer)]).await;
    append(store, &id, vec![titled("a name does not move the end")]).await;
    let body = Body::Shell(Shell { command: "ls".into(), ..Shell::default() });
    let shell = Entry::new(entry_id(), Some(answer.id.clone()), NOW, body);
    append(store, &id, vec![new(Event::ShellStarted { entry: Box::new(shell.clone()), parts: Vec::new() })])
        .await;
    let body = Body::Compaction(Compaction { summary: Some("so far".into()), ..Compaction::default() });
    let compaction = Entry::new(entry_id(), Some(shell.id.clone()), NOW, body);
    let switch =
        Entry::new(entry_id(), Some(compaction.id.clone()), NOW, Body::AgentSwitch { agent: "plan".into() });
    let last = note(Some(&switch.id), "the end");
    append(
        store,
        &id,
        vec![
            added(&compaction, vec![text("one"), text("two")]),
            added(&switch, Vec::new()),
            added(&last, vec![text("three")]),
            amended(&switch.id, None, Amendment::Hide),
            amended(&item.id, None, Amendment::Hide),
        ],
    )
    .await;
    id
}

async fn chain_from(store: &Store, id: &SessionId, parent: &EntryId, length: usize) -> Vec<EntryId> {
    let mut ids = vec![parent.clone()];
    for number in 0..length {
        let entry = note(ids.last(), &format!("branch {number}"));
        append(store, id, vec![added(&entry, Vec::new())]).await;
        ids.push(entry.id);
    }
    ids
}

async fn pages_of_any_size_are_the_whole_path(place: &Place) {
    let store = place.open("own_a").await;
    let id = conversation(&store).await;
    check_path(&store, &id).await;
    let whole = pages(&store, query(&id, Order::Oldest, 1000)).await;
    assert_eq!(whole.len(), 8);
}

async fn pages_go_on_in_the_same_conversation_when_its_end_moves_meanwhile(place: &Place) {
    let store = place.open("own_a").await;
    let id = conversation(&store).await;
    for (order, limit) in [(Order::Newest, 1), (Order::Newest, 3), (Order::Oldest, 1), (Order::Oldest, 3)] {
        let before = tree(&store, &id).await;
        let leaf = before.session.leaf.clone();
        let first = store.path(PageRequest::First(query(&id, order, limit))).await.unwrap();
        let more = chain_from(&store, &id, leaf.as_ref().unwrap(), 2).await;
        append(&store, &id, vec![leaf_moved(more.last(), Some(&before.nodes()[0].entry.id))]).await;
        let found = rest(&store, first, limit).await;
        assert_eq!(found, expected(&before, leaf.as_ref(), order), "{order:?} by {limit}");
        append(&store, &id, vec![leaf_moved(None, leaf.as_ref())]).await;
    }
}

async fn a_path_can_end_at_any_entry(place: &Place) {
    let store = place.open("own_a").await;
    let id = conversation(&store).await;
    let tree = tree(&store, &id).await;
    for node in tree.nodes() {
        let leaf = Some(node.entry.id.clone());
        for order in [Order::Newest, Order::Oldest] {
            let found = pages(&store, PathQuery { leaf: leaf.clone(), ..query(&id, order, 2) }).await;
            assert_eq!(found, expected(&tree, leaf.as_ref(), order));
        }
    }
}

async fn a_path_without_entries_is_empty_and_one_without_a_session_an_error(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let empty = Page { items: Vec::new(), next: None };
    for order in [Order::Newest, Order::Oldest] {
        assert_eq!(store.path(PageRequest::First(query(&id, order, 5))).await.unwrap(), empty);
        let unknown = PathQuery { leaf: Some(entry_id()), ..query(&id, order, 5) };
        assert_eq!(store.path(PageRequest::First(unknown)).await.unwrap(), empty);
        let missing = store.path(PageRequest::First(query(&session_id(), order, 5))).await;
        assert!(matches!(missing, Err(Error::NoSession(_))), "{missing:?}");
    }
    assert_eq!(store.tail(&session_id(), 5).await.unwrap(), None);
    let session = store.session(&id).await.unwrap().unwrap();
    let tail = Tail { session, nodes: Vec::new(), inbox: Vec::new(), more: false };
    assert_eq!(store.tail(&id, 5).await.unwrap(), Some(tail));
}

/// Brings entries into a session as an import does, the last one its leaf.
async fn import(store: &Store, entries: Vec<Entry>) -> SessionId {
    let id = begin(store).await;
    let leaf = entries.last().map(|entry| entry.id.clone());
    let nodes = entries.into_iter().map(|entry| Node::new(entry, vec![text("imported")])).collect();
    let seed = Seed { nodes, leaf, ..Seed::default() };
    append(store, &id, vec![new(Event::SessionImported { dialect: "pi".into(), seed: Box::new(seed) })])
        .await;
    id
}

async fn a_path_ends_where_a_parent_is_missing(place: &Place) {
    let store = place.open("own_a").await;
    let first = note(Some(&entry_id()), "its parent is not in the file");
    let second = note(Some(&first.id), "second");
    let third = note(Some(&second.id), "third");
    let id = import(&store, vec![first, second, third]).await;
    check_path(&store, &id).await;
    check_tail(&store, &id).await;
}

async fn a_path_that_runs_in_a_circle_ends(place: &Place) {
    // Pages from the newest back once went round and round: each page knew only its own entries.
    let store = place.open("own_a").await;
    let mut first = note(None, "first");
    let second = note(Some(&first.id), "second");
    let third = note(Some(&second.id), "third");
    first.parent = Some(third.id.clone());
    let id = import(&store, vec![first, second, third]).await;
    check_path(&store, &id).await;
    check_tail(&store, &id).await;
}

/// How many messages clients show an entry as.
pub(super) fn messages(node: &Node) -> usize {
    match &node.entry.body {
        _ if node.entry.hidden => 0,
        Body::Shell(_) | Body::Compaction(_) => 2,
        Body::User(_) | Body::Assistant(_) | Body::Synthetic { .. } | Body::BranchSummary { .. } => 1,
        _ => 0,
    }
}

async fn check_tail(store: &Store, id: &SessionId) {
    let tree = tree(store, id).await;
    let whole = expected(&tree, tree.session.leaf.as_ref(), Order::Newest);
    let all: usize = whole.iter().map(messages).sum();
    for wanted in 0..=all + 1 {
        let mut left = wanted;
        let mut nodes: Vec<Node> = Vec::new();
        for node in &whole {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(messages(node));
            nodes.push(node.clone());
        }
        let more = nodes.len() < whole.len();
        nodes.reverse();
        let tail =
            Tail { session: tree.session.clone(), nodes, inbox: tree.inbox.iter().cloned().collect(), more };
        assert_eq!(store.tail(id, wanted).await.unwrap(), Some(tail), "{wanted} messages");
    }
}

async fn a_tail_has_as_many_messages_as_asked_for(place: &Place) {
    let store = place.open("own_a").await;
    let id = conversation(&store).await;
    append(&store, &id, vec![admitted(&prompt("waiting")), admitted(&prompt("too"))]).await;
    check_tail(&store, &id).await;
}

async fn an_entry_is_read_alone_as_it_is_in_the_tree(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (conversation(&store).await, begin(&store).await);
    for node in tree(&store, &id).await.nodes() {
        assert_eq!(store.node(&id, &node.entry.id).await.unwrap().as_ref(), Some(node));
        assert_eq!(store.node(&other, &node.entry.id).await.unwrap(), None, "in its own session only");
    }
    assert_eq!(store.node(&id, &entry_id()).await.unwrap(), None);
    assert_eq!(store.node(&session_id(), &entry_id()).await.unwrap(), None);
    assert_eq!(store.tree(&session_id()).await.unwrap(), None);
}

async fn a_waiting_prompt_is_read_alone_as_it_is_in_the_tree(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (conversation(&store).await, begin(&store).await);
    // One is so long that its text is a blob.
    let items = [prompt("first"), prompt(&"long ".repeat(20_000)), prompt("third")];
    append(&store, &id, items.iter().map(admitted).collect()).await;
    let inbox = tree(&store, &id).await.inbox;
    assert_eq!(inbox, items.iter().cloned().collect());
    for item in &inbox {
        assert_eq!(store.waiting_prompt(&id, &item.id).await.unwrap().as_ref(), Some(item));
        assert_eq!(store.waiting_prompt(&other, &item.id).await.unwrap(), None, "in its own session only");
        assert_eq!(store.node(&id, &item.id).await.unwrap(), None, "it is no entry yet");
    }
    append(&store, &id, vec![promoted(&items[0], None)]).await;
    assert_eq!(store.waiting_prompt(&id, &items[0].id).await.unwrap(), None, "it waits no more");
    append(&store, &id, vec![new(Event::PromptCancelled { id: items[2].id.clone() })]).await;
    assert_eq!(store.waiting_prompt(&id, &items[2].id).await.unwrap(), None, "it was taken back");
    assert_eq!(store.waiting_prompt(&id, &items[1].id).await.unwrap().as_ref(), Some(&items[1]));
    assert_eq!(store.waiting_prompt(&session_id(), &items[1].id).await.unwrap(), None);
}
