//! Blobs, the trash, deleting for good, retention, and what takes how much space.

use std::time::Duration;

use everturn_model::{Event, SessionId};
use everturn_store::{
    Authority, BlobUse, Collected, Error, FeedItem, Filter, FreeSpace, Hash, Options, Retention, Search,
    Store, Swept, Timing, Tombstone, TrashUse,
};
use serde_json::json;

use crate::listener::Listener;
use crate::upkeep::{Rich, count, damage, file, open};

const TABLES: [&str; 10] =
    ["session", "event", "entry", "part", "inbox", "request", "todo", "stream", "text", "blob_use"];

fn rows(folder: &tempfile::TempDir) -> Vec<i64> {
    let mut rows: Vec<i64> =
        TABLES.iter().map(|table| count(folder, &format!("SELECT count(*) FROM {table}"))).collect();
    rows.push(count(folder, "SELECT count(*) FROM search_docsize"));
    rows.push(count(folder, "SELECT count(*) FROM quarantine"));
    rows
}

#[tokio::test]
async fn a_blob_lives_as_long_as_a_session_that_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (one, two) = (Rich::new(0x1000), Rich::new(0x2000));
    let nowhere = store.put_blob(&one.id, b"bytes".to_vec()).await;
    assert!(matches!(nowhere, Err(Error::NoSession(_))), "{nowhere:?}");
    for rich in [&one, &two] {
        store.append(&rich.id, Authority::Open, rich.log("x").into_iter().take(1).collect()).await.unwrap();
    }
    let bytes = b"some bytes ".repeat(1000);
    let hash = store.put_blob(&one.id, bytes.clone()).await.unwrap();
    assert_eq!(hash, Hash::of(&bytes));
    assert_eq!(store.put_blob(&two.id, bytes.clone()).await.unwrap(), hash);
    assert_eq!(store.put_blob(&two.id, bytes.clone()).await.unwrap(), hash, "twice is once");
    assert_eq!(store.collect().await.unwrap(), Collected::default());
    store.purge(&one.id, 5).await.unwrap();
    assert_eq!(store.collect().await.unwrap(), Collected::default());
    assert_eq!(store.blob(hash).await.unwrap(), Some(bytes));
    store.purge(&two.id, 5).await.unwrap();
    let packed = count(&folder, "SELECT length(data) FROM blob");
    let collected = Collected { blobs: 1, bytes: u64::try_from(packed).unwrap() };
    assert_eq!(store.collect().await.unwrap(), collected);
    assert_eq!(store.blob(hash).await.unwrap(), None);
    let late = store.put_blob(&one.id, b"late".to_vec()).await;
    assert!(matches!(late, Err(Error::Purged(_))), "{late:?}");
}

#[tokio::test]
async fn nothing_is_left_of_a_session_that_was_deleted_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let other = Rich::new(0x2000);
    other.put(&store, "lexer").await;
    let before = rows(&folder);
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    store.put_blob(&rich.id, b"more".to_vec()).await.unwrap();
    let lease = store.acquire(&rich.id).await.unwrap();
    store.save_stream(&lease, &rich.entry(20), &rich.part(23), 0, "half a sen".into());
    store.set_aside(&rich.id, "for a test", 1).await.unwrap();
    assert!(rows(&folder).iter().zip(&before).all(|(now, before)| now > before), "a row in every table");

    let time = store.session(&rich.id).await.unwrap().unwrap().time;
    assert!(store.purge(&rich.id, 5).await.unwrap());
    assert_eq!(rows(&folder), before);
    assert!(!store.purge(&rich.id, 6).await.unwrap(), "it is gone already");
    assert_eq!(store.tombstones().await.unwrap(), [Tombstone { session: rich.id.clone(), time: 5 }]);
    let audits = store.audits(10).await.unwrap();
    let noted: Vec<_> =
        audits.iter().map(|audit| (audit.time, audit.action.as_str(), &audit.detail)).collect();
    let detail = json!({
        "session": rich.id, "events": 12, "project": "global", "directory": "/srv/demo",
        "created": time.created, "updated": time.updated,
    });
    assert_eq!(noted, [(5, "purge", &detail)]);

    assert_eq!(store.session(&rich.id).await.unwrap(), None);
    let search = Search { text: "parser".into(), limit: 10, ..Search::default() };
    assert_eq!(store.search(search).await.unwrap(), []);
    let late = store.append(&rich.id, Authority::Owned(lease), vec![rich.title(0x200, "late")]).await;
    assert!(matches!(late, Err(Error::Purged(_))), "{late:?}");
    let again = store.append(&rich.id, Authority::Open, rich.log("parser")).await;
    assert!(matches!(again, Err(Error::Purged(_))), "{again:?}");
    drop(store);
    let store = open(&folder).await;
    assert_eq!(store.sessions(Filter::default()).await.unwrap().len(), 1);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_session_that_a_living_process_runs_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    let owner = Store::open(Options::folder(folder.path(), "own_other")).await.unwrap();
    owner.acquire(&rich.id).await.unwrap();
    let busy = store.purge(&rich.id, 5).await;
    assert!(matches!(&busy, Err(Error::Busy { owner, .. }) if owner == "own_other"), "{busy:?}");
    assert_eq!(store.verify(&rich.id).await.unwrap().events, 12);
    drop(owner);
    assert!(store.purge(&rich.id, 5).await.unwrap());
}

#[tokio::test]
async fn a_session_whose_owner_is_damaged_is_nobodys() {
    // It could neither be changed nor deleted, and nothing said what is wrong with it.
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    let garble = || damage(&folder, &rich.id, "UPDATE session SET owner = x'ff' WHERE key = KEY");
    garble();
    store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "another name")]).await.unwrap();
    let lease = store.acquire(&rich.id).await.unwrap();
    store.release(lease).await.unwrap();
    garble();
    assert!(store.purge(&rich.id, 9).await.unwrap());
}

/// Values that no version of the store has put into the row of a session. A name of 300 characters is one that no file can
/// have.
const DAMAGED: [&str; 14] = [
    "changed = 'soon'",
    "changed = x'ff'",
    "changed = 1.5",
    "changed = -7",
    "trashed = 'soon'",
    "trashed = x'ff'",
    "created = 'soon'",
    "updated = x'ff'",
    "project = x'ff'",
    "owner = ''",
    "owner = hex(zeroblob(150))",
    "owner = 'own' || char(0) || 'test'",
    "owner = '..'",
    "owner = 7",
];

#[tokio::test]
async fn a_session_with_a_damaged_stamp_or_owner_is_deleted_for_good() {
    // A stamp that is no number stopped it, and an owner that no file can be named after was taken for a living process.
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    for (base, damaged) in (1..).zip(DAMAGED) {
        let (listed, trashed) = (Rich::new(base * 0x1000), Rich::new(base * 0x100_0000));
        for rich in [&listed, &trashed] {
            rich.put(&store, "parser").await;
        }
        trash(&store, &trashed, 5).await;
        for rich in [&listed, &trashed] {
            damage(&folder, &rich.id, &format!("UPDATE session SET {damaged} WHERE key = KEY"));
            assert!(store.purge(&rich.id, 9).await.unwrap(), "{damaged}");
        }
    }
    assert_eq!(rows(&folder), [0; 12]);
}

#[tokio::test]
async fn a_damaged_session_keeps_nothing_in_the_trash_that_is_emptied() {
    // It stopped the sweep before those behind it; with a damaged time it stayed itself, and nobody was told.
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    for (round, damaged) in (1..).zip(DAMAGED) {
        let all: Vec<Rich> = (1..=5).map(|number| Rich::new(round * 0x10_0000 + number * 0x1000)).collect();
        for (rich, time) in all.iter().zip(1..) {
            rich.put(&store, "parser").await;
            trash(&store, rich, time).await;
        }
        damage(&folder, &all[2].id, &format!("UPDATE session SET {damaged} WHERE key = KEY"));
        let mut swept = store.sweep(Retention { trash: Some(Duration::ZERO) }, 10).await.unwrap();
        swept.purged.sort_unstable();
        let ids: Vec<SessionId> = all.iter().map(|rich| rich.id.clone()).collect();
        assert_eq!((swept.purged, swept.busy), (ids, Vec::new()), "{damaged}");
    }
}

#[tokio::test]
async fn the_feed_goes_on_past_a_deleted_session() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (observer, mut listener) = Listener::new();
    // It looks only when an own commit finds a gap.
    let timing = Timing { look: Duration::from_secs(600), ..Timing::default() };
    let options =
        Options { observer: Some(observer), timing, ..Options::folder(folder.path(), "own_listener") };
    let listening = Store::open(options).await.unwrap();
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    store.purge(&rich.id, 5).await.unwrap();
    other.put(&store, "lexer").await;
    let event = other.event(0x300, Event::SessionTrashed {});
    listening.append(&other.id, Authority::Open, vec![event]).await.unwrap();
    let gone = listener.next().await;
    assert!(matches!(&gone, FeedItem::Purged(purged) if purged.session == rich.id), "{gone:?}");
    let heard = listener.gather(13).await;
    assert_eq!(heard.keys().collect::<Vec<_>>(), [&other.id]);
    assert_eq!(heard[&other.id], store.events(&other.id, None, usize::MAX).await.unwrap());
}

async fn trash(store: &Store, rich: &Rich, time: i64) {
    let mut event = rich.event(0x300, Event::SessionTrashed {});
    event.time = time;
    store.append(&rich.id, Authority::Open, vec![event]).await.unwrap();
}

#[tokio::test]
async fn the_trash_is_emptied_when_its_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let all: Vec<Rich> = (1..=5).map(|number| Rich::new(number * 0x1000)).collect();
    for rich in &all {
        rich.put(&store, "parser").await;
    }
    let [kept, old, young, back, busy] = all.as_slice() else { panic!() };
    trash(&store, old, 1_000).await;
    trash(&store, young, 9_000).await;
    trash(&store, back, 1_000).await;
    trash(&store, busy, 1_000).await;
    let restored = back.event(0x301, Event::SessionRestored {});
    store.append(&back.id, Authority::Open, vec![restored]).await.unwrap();
    let owner = Store::open(Options::folder(folder.path(), "own_other")).await.unwrap();
    owner.acquire(&busy.id).await.unwrap();
    let ids = |filter| {
        let store = store.clone();
        async move {
            let sessions = store.sessions(filter).await.unwrap();
            let mut ids: Vec<SessionId> = sessions.into_iter().map(|session| session.id).collect();
            ids.sort();
            ids
        }
    };
    let trashed = Filter { trashed: true, ..Filter::default() };
    assert_eq!(ids(Filter::default()).await, [kept.id.clone(), back.id.clone()]);
    assert_eq!(ids(trashed.clone()).await, [old.id.clone(), young.id.clone(), busy.id.clone()]);

    let for_ever = store.sweep(Retention { trash: None }, 10_000).await.unwrap();
    assert_eq!(for_ever.purged, []);
    let policy = Retention { trash: Some(Duration::from_secs(5)) };
    let swept = store.sweep(policy, 10_000).await.unwrap();
    // Only one page was, each time, and the file stayed as large as it had ever been.
    let returned = swept.space.returned;
    let expected = Swept {
        purged: vec![old.id.clone()],
        busy: vec![busy.id.clone()],
        collected: Collected::default(),
        space: FreeSpace { returned, free: 0 },
    };
    assert_eq!(swept, expected, "the long text of the others is the same blob");
    assert_eq!(ids(trashed.clone()).await, [young.id.clone(), busy.id.clone()]);
    drop(owner);
    let swept = store.sweep(policy, 20_000).await.unwrap();
    assert_eq!(swept.purged, [busy.id.clone(), young.id.clone()]);
    assert!(swept.space.returned > 4096, "{swept:?}");
    assert_eq!(swept.space.free, 0);
    assert_eq!(ids(trashed).await, []);
    assert_eq!(ids(Filter::default()).await, [kept.id.clone(), back.id.clone()]);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn the_largest_sessions_and_the_trash_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let all: Vec<Rich> = (1..=12).map(|number| Rich::new(number * 0x1000)).collect();
    for (rich, size) in all.iter().zip(1..) {
        let mut log = rich.log("x");
        log.truncate(1);
        log.push(rich.title(0x200, &"t".repeat(1000 * size)));
        store.append(&rich.id, Authority::Open, log).await.unwrap();
    }
    let shared: Vec<u8> = (0..9000u32).flat_map(blake).collect();
    for rich in &all[..3] {
        store.put_blob(&rich.id, shared.clone()).await.unwrap();
    }
    trash(&store, &all[0], 5).await;
    let found = store.disk_use().await.unwrap();
    let bytes = |rich: &Rich| -> u64 {
        let sql = "SELECT sum(length(CAST(data AS BLOB))) FROM event WHERE session = (SELECT key FROM session WHERE id = ?1)";
        file(&folder).query_row(sql, [rich.id.as_str()], |row| row.get(0)).unwrap()
    };
    let share = u64::try_from(shared.len() / 3).unwrap();
    let mut expected: Vec<(SessionId, u64)> =
        all[..3].iter().map(|rich| (rich.id.clone(), bytes(rich) + share)).collect();
    expected.extend(all[3..].iter().map(|rich| (rich.id.clone(), bytes(rich))));
    let in_trash = expected[0].1;
    expected.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    expected.truncate(10);
    let largest: Vec<_> = found.largest.iter().map(|large| (large.session.clone(), large.bytes)).collect();
    assert_eq!(largest, expected);
    assert_eq!(found.largest[0].title.len(), 3000);
    assert_eq!(found.trash, TrashUse { sessions: 1, bytes: in_trash });
    assert_eq!(found.sessions, 12);
    let size = u64::try_from(shared.len()).unwrap();
    assert_eq!(found.blobs, BlobUse { count: 1, size, packed: size });
    assert_eq!(found.file, std::fs::metadata(folder.path().join("everturn.db")).unwrap().len());
    assert!(found.log > 0);
}

/// Bytes that cannot be compressed.
fn blake(number: u32) -> Vec<u8> {
    Hash::of(&number.to_be_bytes()).as_bytes().to_vec()
}
