//! What the system tells of, with a database that others write.

use everturn_testkit::deadline::within;
use rusqlite::Connection;

use super::FileWatch;

fn open(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t (x)").unwrap();
    connection
}

#[tokio::test]
async fn every_commit_stirs_also_after_the_log_was_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.db");
    let other = open(&path);
    let watch = FileWatch::begin(&path).unwrap();
    assert!(!watch.take_notices(), "nobody has written since");
    other.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    within("a commit", watch.stirred()).await;
    assert!(!watch.take_notices(), "it is told once");
    let log = folder.path().join("some.db-wal");
    // The last one that closes it moves the log into the file and deletes it.
    drop(other);
    assert!(!log.exists());
    let other = open(&path);
    watch.take_notices();
    other.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    within("a commit to a new log", watch.stirred()).await;
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(log.metadata().unwrap().len(), 0);
    watch.take_notices();
    other.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    within("a commit to an emptied log", watch.stirred()).await;
}

#[tokio::test]
async fn a_linked_database_is_watched_where_it_is() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = place.path().join("real.db");
    drop(open(&path));
    let link = folder.path().join("linked.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let watch = FileWatch::begin(&link).unwrap();
    open(&link).execute_batch("INSERT INTO t VALUES (1)").unwrap();
    within("a commit", watch.stirred()).await;
}
