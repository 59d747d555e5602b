//! Opening what is there: other programs' files, newer schemas, garbage. Nothing is overwritten.

use everturn_store::{Authority, Error, Options, Store};

use crate::events::{begin, titled};
use crate::place::described;

async fn check(prepare: impl AsyncFnOnce(&std::path::Path)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everturn.db");
    prepare(&path).await;
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), before, "the file is untouched");
    assert!(error.to_string().contains("everturn.db"), "the error names the file: {error}");
    error
}

#[tokio::test]
async fn garbage_is_refused() {
    let error = check(async |path: &std::path::Path| {
        std::fs::write(path, "this is no database at all, only text".repeat(100)).unwrap();
    })
    .await;
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let error = check(async |path: &std::path::Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); PRAGMA wal_checkpoint;")
            .unwrap();
    })
    .await;
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let id = begin(&store).await;
    drop(store);
    let path = folder.path().join("everturn.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let store = Store::open(options()).await.unwrap();
    assert_eq!(store.session(&id).await.unwrap().unwrap().title, crate::events::session(&id).title);
    let refused = store.append(&id, Authority::Open, vec![titled("b")]).await.unwrap_err();
    assert!(matches!(refused, Error::Newer { found: 999, .. }), "{refused}");
    assert!(refused.to_string().contains("everturn.db"), "{refused}");
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before, "the file is untouched");
}

#[tokio::test]
async fn nothing_is_upgraded_while_an_older_process_works_with_it() {
    // A command of a new version once changed the schema under a server of the old one, which went on writing in shapes
    // that the new one took for damage, and then could not read its own sessions.
    let folder = tempfile::tempdir().unwrap();
    let options = |owner: &str| Options::folder(folder.path(), owner);
    let old = Store::open(options("own_old")).await.unwrap();
    let id = begin(&old).await;
    let path = folder.path().join("everturn.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 2").unwrap();
    let refused = Store::open(options("own_new")).await.unwrap_err();
    // It was only named as leases name it, which helps nobody to stop it.
    let by = described(folder.path(), "own_old");
    assert_eq!(
        refused.to_string(),
        format!(
            "an older everturn ({by}) works with {}, and would not understand what this version writes; \
             nothing was changed. Stop it, then try again",
            path.display()
        )
    );
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let copied = folder.path().join("everturn.v2.backup.db").exists();
    assert_eq!((version, copied), (2, false));
    old.append(&id, Authority::Open, vec![titled("it goes on")]).await.unwrap();
    drop(old);
    let new = Store::open(options("own_new")).await.unwrap();
    assert_eq!(new.session(&id).await.unwrap().unwrap().title, "it goes on");
    assert!(connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap() > 2);
}

#[cfg(unix)]
#[tokio::test]
async fn the_data_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(Store::open(Options::folder(&data, "own_test")).await.unwrap());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("everturn.db")), 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_a_new_folder_at_once() {
    // The switch to the write-ahead log does not wait for others by itself; some of them were told "database is
    // locked".
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let open = |number: usize| {
            let options = Options::folder(folder.path(), &format!("own_{number}"));
            tokio::spawn(async move { Store::open(options).await.map(drop) })
        };
        let all: Vec<_> = (0..8).map(open).collect();
        for opened in all {
            opened.await.unwrap().unwrap();
        }
    }
}
