//! Backups and restoring them: by copy, by the log, while others write, and out of bad files.

use std::path::{Path, PathBuf};

use everturn_model::permission::{Action, Rule};
use everturn_model::{Record, SessionId, Tree};
use everturn_store::{Authority, Error, Filter, Hash, Options, SetAside, Store, Tombstone};

use crate::upkeep::{Rich, damage, open};

type Whole =
    (Vec<(SessionId, Tree, Vec<Record>)>, Vec<(String, String)>, Vec<Rule>, Vec<Tombstone>, Vec<SetAside>);

async fn whole(store: &Store) -> Whole {
    let mut sessions = Vec::new();
    for filter in [Filter::default(), Filter { trashed: true, ..Filter::default() }] {
        for session in store.sessions(filter).await.unwrap() {
            let tree = store.tree(&session.id).await.unwrap().unwrap();
            let log = store.events(&session.id, None, usize::MAX).await.unwrap();
            sessions.push((session.id, tree, log));
        }
    }
    sessions.sort_by(|one, two| one.0.cmp(&two.0));
    let approvals = store.approvals("global", "/srv").await.unwrap();
    let (tombstones, aside) = (store.tombstones().await.unwrap(), store.set_aside_list().await.unwrap());
    (sessions, store.projects().await.unwrap(), approvals, tombstones, aside)
}

/// A store with something of everything, and the hash of a blob in it.
async fn full(folder: &tempfile::TempDir) -> (Store, Hash) {
    let store = open(folder).await;
    for (base, word) in [(0x1000, "parser"), (0x2000, "lexer"), (0x3000, "gone"), (0x4000, "aside")] {
        Rich::new(base).put(&store, word).await;
    }
    let trashed = Rich::new(0x2000).event(0x300, everturn_model::Event::SessionTrashed {});
    store.append(&Rich::new(0x2000).id, Authority::Open, vec![trashed]).await.unwrap();
    let hash = store.put_blob(&Rich::new(0x1000).id, b"some bytes".repeat(500)).await.unwrap();
    store.purge(&Rich::new(0x3000).id, 5).await.unwrap();
    store.set_aside(&Rich::new(0x4000).id, "for a test", 6).await.unwrap();
    store.put_project("global", r#"{"a":1}"#.into()).await.unwrap();
    let rule = Rule { permission: "bash".into(), pattern: "ls *".into(), action: Action::Allow };
    store.approve("global", "/srv", vec![rule], 7).await.unwrap();
    store.acquire(&Rich::new(0x1000).id).await.unwrap();
    (store, hash)
}

/// What a restored store must be.
async fn check(restored: &Store, expected: &Whole, hash: Hash) {
    assert!(whole(restored).await == *expected);
    assert_eq!(restored.blob(hash).await.unwrap(), Some(b"some bytes".repeat(500)));
    assert!(restored.verify_all(None).await.unwrap().is_sound());
    let rich = Rich::new(0x1000);
    // The owner from then lives still, and has nothing to say here.
    let lease = restored.acquire(&rich.id).await.unwrap();
    assert_eq!(lease.owner, "own_new");
    restored.append(&rich.id, Authority::Owned(lease), vec![rich.title(0x400, "goes on")]).await.unwrap();
    let purged = restored.append(&Rich::new(0x3000).id, Authority::Open, Rich::new(0x3000).log("gone")).await;
    assert!(matches!(purged, Err(Error::Purged(_))), "{purged:?}");
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn new(folder: &Path) -> Options {
    Options::folder(folder.join("restored"), "own_new")
}

#[tokio::test]
async fn a_backup_is_a_store_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (store, hash) = full(&folder).await;
    let expected = whole(&store).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("copy.db");
    store.backup(&target).await.unwrap();
    assert_eq!(files(elsewhere.path()), ["copy.db"], "nothing half is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let twice = store.backup(&target).await.unwrap_err();
    assert!(matches!(twice, Error::Occupied(_)), "{twice}");
    let before = std::fs::read(&target).unwrap();
    let restored = Store::restore(&target, new(elsewhere.path())).await.unwrap();
    check(&restored, &expected, hash).await;
    let [audit] = &restored.audits(1).await.unwrap()[..] else { panic!() };
    assert_eq!(
        (audit.action.as_str(), &audit.detail["from"]),
        ("restore", &target.display().to_string().into())
    );
    assert_eq!(std::fs::read(&target).unwrap(), before, "the backup is as it was");
    let again = Store::restore(&target, new(elsewhere.path())).await.unwrap_err();
    assert!(matches!(again, Error::Occupied(_)), "{again}");
    drop(restored);
    assert_eq!(files(elsewhere.path()), ["copy.db", "restored"]);
    assert!(whole(&store).await == expected, "and so is the store");
}

#[tokio::test]
async fn a_dump_goes_by_the_log_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, hash) = full(&folder).await;
    let expected = whole(&store).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("dump.db");
    store.dump(&target).await.unwrap();
    assert_eq!(files(elsewhere.path()), ["dump.db"]);
    let twice = store.dump(&target).await.unwrap_err();
    assert!(matches!(twice, Error::Occupied(_)), "{twice}");

    let restored = Store::restore(&target, new(elsewhere.path())).await.unwrap();
    check(&restored, &expected, hash).await;

    let loaded = Store::open(Options::folder(elsewhere.path().join("loaded"), "own_new")).await.unwrap();
    loaded.load(&target).await.unwrap();
    check(&loaded, &expected, hash).await;
    let full = loaded.load(&target).await.unwrap_err();
    assert!(matches!(full, Error::Occupied(_)), "{full}");
}

#[tokio::test]
async fn a_damaged_session_does_not_keep_the_others_out_of_a_dump() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, broken, garbled) = (Rich::new(0x1000), Rich::new(0x2000), Rich::new(0x3000));
    for one in [&rich, &broken, &garbled] {
        one.put(&store, "parser").await;
    }
    damage(&folder, &broken.id, "DELETE FROM event WHERE session = KEY AND seq = 5");
    damage(&folder, &garbled.id, "UPDATE session SET data = '{' WHERE key = KEY");
    let target = folder.path().join("dump.db");
    store.dump(&target).await.unwrap();
    let restored = Store::restore(&target, new(folder.path())).await.unwrap();
    let aside = restored.set_aside_list().await.unwrap();
    assert_eq!(aside.iter().map(|aside| &aside.session).collect::<Vec<_>>(), [&broken.id]);
    assert!(aside[0].reason.contains("has no event 5"), "{}", aside[0].reason);
    for one in [&rich, &garbled] {
        assert_eq!(restored.verify(&one.id).await.unwrap().problems, []);
    }
    assert_eq!(restored.session(&broken.id).await.unwrap().unwrap().title, "about parser");
    assert_eq!(restored.events(&broken.id, None, 100).await.unwrap().len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_whole_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    let writing = tokio::spawn({
        let (store, rich) = (store.clone(), Rich::new(0x1000));
        async move {
            for number in 0..300 {
                let title = rich.title(0x200 + number, &format!("title {number}"));
                store.append(&rich.id, Authority::Open, vec![title]).await.unwrap();
            }
        }
    });
    let mut copies: Vec<PathBuf> = Vec::new();
    while !writing.is_finished() || copies.is_empty() {
        let target = folder.path().join(format!("copy-{}.db", copies.len()));
        store.backup(&target).await.unwrap();
        copies.push(target);
    }
    writing.await.unwrap();
    let mut last = 0;
    for (number, copy) in copies.iter().enumerate() {
        let options = Options::folder(folder.path().join(format!("restored-{number}")), "own_new");
        let restored = Store::restore(copy, options).await.unwrap();
        assert!(restored.verify_all(None).await.unwrap().is_sound());
        let events = restored.events(&rich.id, None, 1000).await.unwrap().len();
        assert!(events >= last, "{events} after {last}");
        last = events;
    }
}

#[tokio::test]
async fn what_is_no_backup_is_refused_and_nothing_is_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = full(&folder).await;
    let path = |name: &str| folder.path().join(name);
    store.backup(&path("good.db")).await.unwrap();
    let damaged = |name: &str, sql: &str| {
        std::fs::copy(path("good.db"), path(name)).unwrap();
        rusqlite::Connection::open(path(name)).unwrap().execute_batch(sql).unwrap();
    };
    damaged("newer.db", "PRAGMA user_version = 999");
    damaged("other.db", "PRAGMA application_id = 1");
    std::fs::write(path("text.db"), "only text ".repeat(1000)).unwrap();
    std::fs::write(path("empty.db"), "").unwrap();
    let mut bytes = std::fs::read(path("good.db")).unwrap();
    let most = bytes.len() / 8 * 7;
    bytes[most..].fill(0xa5);
    std::fs::write(path("torn.db"), bytes).unwrap();
    let refused = async |name: &str| {
        let error = Store::restore(&path(name), new(folder.path())).await.unwrap_err();
        assert!(error.to_string().contains(name), "it names the file: {error}");
        let made = path("restored");
        assert!(!made.exists() || files(&made).is_empty(), "{name}: {:?}", files(&made));
        error
    };
    assert!(matches!(refused("newer.db").await, Error::Newer { found: 999, .. }));
    assert!(matches!(refused("other.db").await, Error::NotOurs { .. }));
    assert!(matches!(refused("text.db").await, Error::NotOurs { .. }));
    assert!(matches!(refused("empty.db").await, Error::NotOurs { .. }));
    assert!(matches!(refused("missing.db").await, Error::Io { .. }));
    let torn = refused("torn.db").await;
    assert!(matches!(torn, Error::Damaged { .. }), "{torn}");
    Store::restore(&path("good.db"), new(folder.path())).await.unwrap();
}

#[tokio::test]
async fn an_older_backup_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.db");
    let connection = rusqlite::Connection::open(&old).unwrap();
    connection.execute_batch(include_str!("../../migrations/sqlite/0001_spine.sql")).unwrap();
    connection.execute_batch("PRAGMA user_version = 1; PRAGMA application_id = 0x4576746e").unwrap();
    let rich = Rich::new(0x1000);
    let created = &rich.log("x")[0];
    let data = serde_json::to_string(&created.event).unwrap();
    let session = match &created.event {
        everturn_model::Event::SessionCreated { session } => serde_json::to_string(session).unwrap(),
        other => panic!("{other:?}"),
    };
    connection
        .execute(
            "INSERT INTO session (id, seq, project, directory, title, created, updated, owner, data)
             VALUES (?1, 0, 'global', '/srv/demo', 'New session', ?2, ?2, 'own_old', ?3)",
            rusqlite::params![rich.id.as_str(), created.time, session],
        )
        .unwrap();
    connection
        .execute(
            "INSERT INTO event (session, seq, id, time, type, data) VALUES (1, 0, ?1, ?2, 'session.created.1', ?3)",
            rusqlite::params![created.id.as_str(), created.time, data],
        )
        .unwrap();
    drop(connection);
    let restored = Store::restore(&old, new(folder.path())).await.unwrap();
    assert_eq!(restored.verify(&rich.id).await.unwrap().problems, []);
    let loaded = Store::open(Options::folder(folder.path().join("loaded"), "own_new")).await.unwrap();
    loaded.load(&old).await.unwrap();
    assert_eq!(loaded.verify(&rich.id).await.unwrap().problems, []);
    let version = |path: &Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(version(&old), 1, "the backup is as it was");
    let newest = version(&folder.path().join("loaded/everturn.db"));
    assert!(newest > 1, "there have been migrations since");
    assert_eq!(version(&folder.path().join("restored/everturn.db")), newest);
}
