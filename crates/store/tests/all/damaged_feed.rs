//! The feed of a file in which single values are damaged: the others are told of, and what is missing is not hidden.

use everturn_model::SessionId;
use everturn_store::{Authority, FeedItem, Options, Store};
use tempfile::TempDir;

use crate::listener::Listener;
use crate::upkeep::{Rich, damage, file, open};

/// One byte of a session's id that is no text any more.
pub(crate) const GARBLED_ID: &str =
    "CAST(CAST(substr(id, 1, 9) AS BLOB) || x'ff' || CAST(substr(id, 11) AS BLOB) AS TEXT)";

/// Two sessions in a file that one store writes and another one follows. Both are at work; the first has saved some text.
async fn followed(folder: &TempDir) -> (Store, Store, Listener, [Rich; 2]) {
    let writer = open(folder).await;
    let both = [Rich::new(0x1000), Rich::new(0x2000)];
    for rich in &both {
        rich.put(&writer, "parser").await;
    }
    let [first, second] = &both;
    writer.acquire(&second.id).await.unwrap();
    let lease = writer.acquire(&first.id).await.unwrap();
    writer.save_stream(&lease, &first.entry(20), &first.part(23), 0, "half ".into());
    // Nobody is told when text is saved; what is asked for after it is answered after it.
    writer.renew(&lease).await.unwrap();
    let (observer, listener) = Listener::new();
    let options = Options { observer: Some(observer), ..Options::folder(folder.path(), "own_follower") };
    (writer, Store::open(options).await.unwrap(), listener, both)
}

async fn rename(store: &Store, rich: &Rich, number: u64) {
    store.append(&rich.id, Authority::Open, vec![rich.title(number, "another name")]).await.unwrap();
}

/// The next thing that is told beside text, which may come at any moment.
async fn next(heard: &mut Listener) -> FeedItem {
    loop {
        match heard.next().await {
            FeedItem::Text(_) => {}
            other => return other,
        }
    }
}

/// The session of the next event.
async fn moved(heard: &mut Listener) -> SessionId {
    match next(heard).await {
        FeedItem::Committed(committed) => committed.record.session.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_whose_id_is_damaged_is_a_gap_and_holds_up_no_other() {
    // The look that met it failed, and was made again for ever: nobody was told of anything any more.
    let folder = tempfile::tempdir().unwrap();
    let (writer, _follower, mut heard, [bad, good]) = followed(&folder).await;
    let stamp = "(SELECT value + 1 FROM meta WHERE name = 'commits')";
    let changed = format!("UPDATE session SET id = {GARBLED_ID}, changed = {stamp} WHERE key = KEY");
    damage(&folder, &bad.id, &changed);
    rename(&writer, &good, 0x200).await;
    assert!(matches!(next(&mut heard).await, FeedItem::Gap), "what is missing is not hidden");
    assert_eq!(moved(&mut heard).await, good.id);
    rename(&writer, &good, 0x201).await;
    assert_eq!(moved(&mut heard).await, good.id);
}

#[tokio::test]
async fn a_count_of_commits_that_is_damaged_hides_no_event() {
    // The count began anew, below what the others had seen: what was committed then was told to nobody.
    for value in ["'garbage'", "0"] {
        let folder = tempfile::tempdir().unwrap();
        let (writer, follower, mut heard, [one, other]) = followed(&folder).await;
        file(&folder)
            .execute(&format!("UPDATE meta SET value = {value} WHERE name = 'commits'"), [])
            .unwrap();
        for number in 0x200..0x203 {
            rename(&writer, &one, number).await;
            assert_eq!(moved(&mut heard).await, one.id, "{value}");
            rename(&follower, &other, number).await;
            assert_eq!(moved(&mut heard).await, other.id, "{value}");
        }
        let rest = heard.heard().into_iter().filter(|item| !matches!(item, FeedItem::Text(_)));
        assert_eq!(rest.count(), 0, "each event once");
    }
}

#[tokio::test]
async fn text_whose_place_is_damaged_holds_up_no_other_text() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, _follower, mut heard, [bad, good]) = followed(&folder).await;
    damage(&folder, &bad.id, "UPDATE stream SET start = 'garbage', text = x'ff' WHERE session = KEY");
    // It kept the messages of the session from being read, too.
    assert_eq!(writer.streams(&bad.id).await.unwrap(), []);
    let lease = writer.acquire(&good.id).await.unwrap();
    writer.save_stream(&lease, &good.entry(20), &good.part(23), 0, "whole".into());
    loop {
        if let FeedItem::Text(piece) = heard.next().await
            && piece.session == good.id
        {
            return assert_eq!(piece.text, "whole");
        }
    }
}
