//! Opening what is there: other programs' files, newer schemas, garbage, damage, things that may not be read. Each gives
//! an error that names the file and says what to do next, and nothing is overwritten.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Options, Store};
use serde::{Deserialize, Serialize};

use crate::campaign::{Child, runtime, say, task};
use crate::events::{begin, titled};

async fn check(prepare: impl AsyncFnOnce(&Path)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everturn.db");
    prepare(&path).await;
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap_err();
    assert!(std::fs::read(&path).unwrap() == before, "the file is untouched");
    assert!(error.to_string().contains("everturn.db"), "the error names the file: {error}");
    error
}

#[tokio::test]
async fn garbage_is_refused() {
    let error = check(async |path: &Path| {
        std::fs::write(path, "this is no database at all, only text".repeat(100)).unwrap()
    })
    .await;
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let error = check(async |path: &Path| {
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
    assert_eq!(store.session(&id).await.unwrap().unwrap().title, "a title");
    let refused = store.append(&id, Authority::Open, vec![titled("b")]).await.unwrap_err();
    assert!(matches!(refused, Error::Newer { found: 999, .. }), "{refused}");
    assert!(refused.to_string().contains("everturn.db"), "{refused}");
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before, "the file is untouched");
}

#[cfg(unix)]
#[tokio::test]
async fn the_data_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(Store::open(Options::folder(&data, "own_test")).await.unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("everturn.db")), 0o600);
}

/// A store with enough in it to fill many pages, closed again.
async fn filled(folder: &Path) -> SessionId {
    let store = Store::open(Options::folder(folder, "own_test")).await.unwrap();
    let id = begin(&store).await;
    for number in 0..100 {
        let title = format!("title {number} {}", "and so on ".repeat(400));
        store.append(&id, Authority::Open, vec![titled(&title)]).await.unwrap();
    }
    id
}

#[tokio::test]
async fn a_few_letters_are_refused() {
    let error = check(async |path: &Path| std::fs::write(path, "hello").unwrap()).await;
    assert!(matches!(error, Error::NotOurs { .. }), "{error}");
    assert!(error.to_string().contains("Move it away"), "{error}");
}

#[tokio::test]
async fn an_empty_file_becomes_a_new_store() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("everturn.db"), "").unwrap();
    let id = filled(folder.path()).await;
    let store = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap();
    assert!(store.session(&id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_beginning_is_refused() {
    let error = check(async |path: &Path| {
        filled(path.parent().unwrap()).await;
        let mut bytes = std::fs::read(path).unwrap();
        bytes[100..2000].fill(0x55);
        std::fs::write(path, bytes).unwrap();
    })
    .await;
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("everturn restore"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_refused() {
    for keep in [100, 4096, 5000] {
        let error = check(async |path: &Path| {
            filled(path.parent().unwrap()).await;
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(keep).unwrap();
        })
        .await;
        assert!(matches!(error, Error::Damaged { .. }), "{keep}: {error}");
    }
}

/// Every page but the first is damaged in turn. Opening or reading may fail with an error that says what to do; what
/// is read all the same is right; nothing is changed by it, and no append is acknowledged that cannot be read.
#[tokio::test]
async fn a_damaged_page_in_the_middle_is_reported_and_not_written_over() {
    let original = tempfile::tempdir().unwrap();
    let id = filled(original.path()).await;
    let whole = std::fs::read(original.path().join("everturn.db")).unwrap();
    let store = Store::open(Options::folder(original.path(), "own_test")).await.unwrap();
    let right = (store.events(&id, None, 1000).await.unwrap(), store.tree(&id).await.unwrap());
    let pages = whole.len() / 4096;
    let mut reported = 0;
    for page in (1..pages).step_by(crate::campaign::cases(7, 1).try_into().unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everturn.db");
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let opened = Store::open(Options::folder(folder.path(), "own_test")).await;
        let read = match &opened {
            Ok(store) => match store.events(&id, None, 1000).await {
                Ok(log) => store.tree(&id).await.map(|tree| (log, tree)),
                Err(error) => Err(error),
            },
            Err(_) => opened.as_ref().map(|_| right.clone()).map_err(|_| Error::Closed),
        };
        let error = opened.as_ref().err().or(match &read {
            Ok(read) => {
                assert!(*read == right, "page {page}: what is read is right");
                None
            }
            Err(error) => Some(error),
        });
        if let Some(error) = error {
            reported += 1;
            let typed = matches!(error, Error::Damaged { .. } | Error::Corrupt { .. });
            assert!(typed, "page {page}: {error:?}");
        }
        drop(opened);
        assert!(std::fs::read(&path).unwrap() == bytes, "page {page}: the file is untouched");
    }
    assert!(reported > 3, "most pages matter: {reported} of {pages}");
}

#[tokio::test]
async fn a_folder_in_place_of_the_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everturn.db");
    std::fs::create_dir(&path).unwrap();
    let error = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("everturn.db"), "{error}");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_in_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, "mine").unwrap();
    let error = Store::open(Options::folder(&path, "own_test")).await.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("data"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// An ordinary user who is nobody else on this machine.
const NOBODY: u32 = 65534;

#[derive(Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
}

/// Does nothing unless it is started by a test here.
#[test]
fn child() {
    let Some(Task { folder }) = task() else { return };
    let opened = runtime().block_on(Store::open(Options::folder(folder, "own_test")));
    say(&match opened {
        Ok(_) => "opened".to_owned(),
        Err(error @ Error::Io { .. }) => format!("refused: {error}"),
        Err(error) => format!("otherwise: {error:?}"),
    });
}

/// What an ordinary user is told who opens `folder/data`, a filled store that was prepared somehow.
async fn as_ordinary_user(prepare: impl FnOnce(&Path)) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().join("data");
    filled(&data).await;
    let root = rustix::process::getuid().is_root();
    if root {
        for entry in std::fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    prepare(&data);
    let before = std::fs::read(data.join("everturn.db")).ok();
    let mut child = Child::start_as("opening::child", &Task { folder: data.clone() }, root.then_some(NOBODY));
    let said = child.line();
    child.succeed();
    assert!(before.is_none() || std::fs::read(data.join("everturn.db")).ok() == before, "nothing is changed");
    (folder, said.unwrap())
}

#[tokio::test]
async fn an_ordinary_user_may_open_what_is_theirs() {
    let (_folder, said) = as_ordinary_user(|_| {}).await;
    assert_eq!(said, "opened");
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused() {
    let mode = std::fs::Permissions::from_mode(0o400);
    let prepare = |data: &Path| std::fs::set_permissions(data.join("everturn.db"), mode).unwrap();
    let (_folder, said) = as_ordinary_user(prepare).await;
    assert!(said.starts_with("refused: ") && said.contains("data/everturn.db"), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
}

#[tokio::test]
async fn a_folder_of_somebody_else_is_refused() {
    if !rustix::process::getuid().is_root() {
        // Only root can make one.
        return;
    }
    for mode in [0o700, 0o555] {
        let prepare = |data: &Path| {
            chown(data, Some(0), Some(0)).unwrap();
            std::fs::set_permissions(data, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let (_folder, said) = as_ordinary_user(prepare).await;
        assert!(said.starts_with("refused: ") && said.contains("/data"), "{said}");
    }
}
