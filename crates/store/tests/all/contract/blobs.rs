//! Large payloads: they come back identical wherever they are read.

use everturn_model::event::Seed;
use everturn_model::session::ForkOrigin;
use everturn_model::tree::Node;
use everturn_model::{Event, Part, PartKind};
use everturn_store::{Hash, Store};

use crate::events::{
    added, admitted, append, begin, created, file, log, new, note, promoted, prompt, session_id, text,
    titled, tree,
};
use crate::place::{Place, contract};

contract![
    an_attachment_of_100_kib_comes_back_identical,
    an_attachment_of_5_mib_comes_back_identical,
    a_large_text_of_any_kind_comes_back_identical,
    an_attachment_of_a_fork_is_the_same,
    an_attachment_that_two_sessions_have_is_stored_once,
    a_blob_is_read_by_its_hash,
];

/// An attachment of so many bytes that do not compress well.
fn attachment(bytes: usize, seed: u64) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = seed | 1;
    let mut url = String::from("data:image/png;base64,");
    while url.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 58).unwrap();
        url.push(char::from(digits[at]));
    }
    url
}

/// A prompt with this attachment is the same while it waits and afterwards, in its event, its node and the tree.
async fn check_attachment(place: &Place, url: &str) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let mut item = prompt("look at this");
    item.parts.push(file(url));
    append(&store, &id, vec![admitted(&item)]).await;
    assert!(store.tail(&id, 1).await.unwrap().unwrap().inbox == [item.clone()], "waiting");
    append(&store, &id, vec![promoted(&item, None)]).await;
    let check = async |store: &Store| {
        let log = log(store, &id).await;
        assert!(log[1].event == Event::PromptAdmitted { item: Box::new(item.clone()) }, "in the log");
        let node = store.node(&id, &item.id).await.unwrap().unwrap();
        assert!(node.parts == item.parts, "in the node");
        assert!(tree(store, &id).await.node(&item.id) == Some(&node), "in the tree");
        assert!(store.tail(&id, 1).await.unwrap().unwrap().nodes == [node], "in the tail");
    };
    check(&store).await;
    drop(store);
    check(&place.open("own_b").await).await;
}

async fn an_attachment_of_100_kib_comes_back_identical(place: &Place) {
    check_attachment(place, &attachment(100 * 1024, 1)).await;
}

async fn an_attachment_of_5_mib_comes_back_identical(place: &Place) {
    check_attachment(place, &attachment(5 * 1024 * 1024, 2)).await;
}

async fn a_large_text_of_any_kind_comes_back_identical(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let texts = [
        "x".repeat(1 << 20),
        "\0".repeat(100_000),
        "\"\\\u{1}\n".repeat(40_000),
        "漢👍é".repeat(30_000),
        format!("\0marker {}", "y".repeat(100_000)),
        format!("*{}", "z".repeat(100_000)),
        format!("@{}", "0".repeat(64)),
    ];
    for words in texts {
        let entry = note(None, &words);
        let part = text(&words);
        append(&store, &id, vec![titled(&words), added(&entry, vec![part.clone()])]).await;
        let last = log(&store, &id).await.split_off(1);
        let titles = last.iter().rev().find_map(|record| match &record.event {
            Event::TitleChanged { title, .. } => Some(title),
            _ => None,
        });
        assert!(titles == Some(&words), "in the log");
        assert!(store.session(&id).await.unwrap().unwrap().title == words, "in the session's row");
        let node = store.node(&id, &entry.id).await.unwrap().unwrap();
        assert!(node == Node::new(entry, vec![part]), "in the node");
    }
    let whole = everturn_model::fold::replay(&log(&store, &id).await).unwrap();
    assert!(whole == store.tree(&id).await.unwrap(), "in the tree");
}

async fn an_attachment_of_a_fork_is_the_same(place: &Place) {
    let store = place.open("own_a").await;
    let (id, fork) = (begin(&store).await, session_id());
    let entry = note(None, "with a file");
    let parts: Vec<Part> = (1..4).map(|seed| file(&attachment(200 * 1024, seed % 2))).collect();
    append(&store, &id, vec![added(&entry, parts.clone())]).await;
    let node = Node::new(entry.clone(), parts);
    let seed = Seed { nodes: vec![node.clone()], leaf: Some(entry.id.clone()), ..Seed::default() };
    let origin = ForkOrigin { session: id.clone(), entry: Some(entry.id.clone()) };
    let forked = new(Event::SessionForked { origin, seed: Box::new(seed) });
    append(&store, &fork, vec![created(&fork), forked.clone()]).await;
    for session in [&id, &fork] {
        assert!(store.node(session, &entry.id).await.unwrap().as_ref() == Some(&node), "{session}");
    }
    assert!(log(&store, &fork).await[1].event == forked.event);
}

async fn an_attachment_that_two_sessions_have_is_stored_once(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let url = attachment(1 << 20, 9);
    let put = async |store: &Store| {
        let id = begin(store).await;
        let mut item = prompt("look at this");
        item.parts.push(file(&url));
        append(store, &id, vec![admitted(&item), promoted(&item, None)]).await;
    };
    put(&one).await;
    let once = one.disk_use().await.unwrap().blobs;
    assert_eq!(once.size, u64::try_from(url.len()).unwrap(), "{once:?}");
    put(&one).await;
    put(&two).await;
    assert_eq!(two.disk_use().await.unwrap().blobs, once);
}

async fn a_blob_is_read_by_its_hash(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let url = attachment(100 * 1024, 7);
    let part = file(&url);
    append(&store, &id, vec![added(&note(None, "x"), vec![part.clone()])]).await;
    assert!(matches!(part.kind, PartKind::File { .. }));
    assert!(store.blob(Hash::of(url.as_bytes())).await.unwrap().as_deref() == Some(url.as_bytes()));
    assert_eq!(store.blob(Hash::of(b"never")).await.unwrap(), None);
}
