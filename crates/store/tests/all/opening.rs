//! Opening what is there: other programs' files, newer schemas, garbage. Nothing is overwritten.

use everturn_store::{Error, Store};

fn check(prepare: impl FnOnce(&std::path::Path)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everturn.db");
    prepare(&path);
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(folder.path(), "own_test", None).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), before, "the file is untouched");
    assert!(error.to_string().contains("everturn.db"), "the error names the file: {error}");
    error
}

#[test]
fn garbage_is_refused() {
    let error =
        check(|path| std::fs::write(path, "this is no database at all, only text".repeat(100)).unwrap());
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
}

#[test]
fn another_programs_database_is_refused() {
    let error = check(|path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); PRAGMA wal_checkpoint;")
            .unwrap();
    });
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
}

#[test]
fn a_newer_schema_is_refused() {
    let error = check(|path| {
        drop(Store::open(path.parent().unwrap(), "own_test", None).unwrap());
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.execute_batch("PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    });
    assert!(matches!(error, Error::Newer { found: 999, .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn the_data_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(Store::open(&data, "own_test", None).unwrap());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("everturn.db")), 0o600);
}
