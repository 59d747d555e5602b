//! Opening what cannot be used: damage, garbage, things that may not be read, servers that are not there. Each gives an
//! error that names the file or the address and says what to do next, and nothing is overwritten.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn_model::{EntryId, Event, SessionId};
use everturn_store::{Authority, Error, Options, Store};
use everturn_testkit::postgres::Postgres;
use serde::{Deserialize, Serialize};

use crate::author::Author;
use crate::campaign::{Child, runtime, say, task};

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

/// A store with enough in it to fill many pages, closed again.
async fn filled(folder: &Path) -> SessionId {
    let id = SessionId::new("ses_filledfilledfilledfilled00");
    let store = Store::open(Options::folder(folder, "own_test")).await.unwrap();
    let (mut author, created) = Author::create(&id, 1);
    store.append(&id, Authority::Open, vec![created]).await.unwrap();
    for number in 0..100 {
        let (entry, parent) = (EntryId::new(format!("msg_title{number}")), None);
        let title = format!("title {number} {}", "and so on ".repeat(400));
        let titled = author.record(Event::TitleChanged { entry, parent, title, replaces: None });
        store.append(&id, Authority::Open, vec![titled]).await.unwrap();
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
    let mut child = Child::start_as("refusal::child", &Task { folder: data.clone() }, root.then_some(NOBODY));
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
        // Only root can make one, but every machine has some.
        let error = Store::open(Options::folder("/usr", "own_test")).await.unwrap_err();
        assert!(error.to_string().contains("/usr"), "{error}");
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

/// The error of a server's address, which must not tell the password.
async fn at(url: &str) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let opened = tokio::time::timeout(
        Duration::from_secs(60),
        Store::open(Options::server(url, folder.path(), "own_test")),
    );
    let error = opened.await.unwrap().unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hidden-password"), "{error:?}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_named() {
    // Taken and given back: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = at(&format!("postgres://me:hidden-password@127.0.0.1:{port}/mine?sslmode=disable")).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("Check that it runs"), "{text}");

    let error = at("postgres://me:hidden-password@nowhere.invalid:5432/mine?sslmode=disable").await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("nowhere.invalid"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_let_us_in_says_why() {
    let server = tokio::task::block_in_place(Postgres::shared);
    let database = tokio::task::block_in_place(|| server.database());
    let (address, name) = (server.address(), database.name());
    let user = server.user();

    let error = at(&format!("postgres://{user}:hidden-password@{address}/{name}?sslmode=disable")).await;
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("Check both"), "{text}");

    let password = server.password();
    let error = at(&format!("postgres://{user}:{password}@{address}/missing_database?sslmode=disable")).await;
    assert!(matches!(error, Error::NoDatabase { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("missing_database") && text.contains(&address.to_string()), "{error:?} {text}");

    let error = at(&format!("postgres://{user}:{password}@{address}/{name}?sslmode=require")).await;
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.to_lowercase().contains("tls"), "{error:?} {text}");
    tokio::task::block_in_place(|| drop((database, server)));
}

#[tokio::test]
async fn an_address_that_is_none_is_explained() {
    for url in [
        "",
        "postgres://",
        "mysql://me:hidden-password@localhost/mine",
        "postgres://me:hidden-password@host:port/x",
    ] {
        let error = at(url).await;
        assert!(matches!(error, Error::Address(_)), "{url}: {error:?}");
        assert!(error.to_string().contains("postgres://user:password@host"), "{error}");
    }
}
