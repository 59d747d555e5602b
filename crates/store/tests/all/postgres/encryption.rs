//! A server that takes only encrypted connections: with the authority that made its certificate the store trusts it,
//! and without it, or under another name, it does not.

use std::path::{Path, PathBuf};

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Options, Store, StorePlace};
use everturn_testkit::{Postgres, within};

use super::Place;
use crate::postgres::{ID, created, event, titled};

/// Options for an address, with an authority or with those of the machine.
fn options(url: &str, folder: &Path, owner: &str, authorities: Option<PathBuf>) -> Options {
    let mut options = Options::server(url, folder, owner);
    match &mut options.place {
        StorePlace::Server(server) => server.authorities = authorities,
        StorePlace::Folder(_) => panic!("a server"),
    }
    options
}

/// The error of an attempt to connect, which must be about the certificate and tell no password.
async fn refused(server: &Postgres, options: Options) -> String {
    let opened = within("a store that is refused", Store::open(options)).await;
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.to_lowercase().contains("certificate"), "{text}");
    assert!(!format!("{text} {error:?}").contains(server.password()), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_by_its_authority_and_by_its_name() {
    // The store had never connected over TLS in a test: an authority that was not used went unnoticed.
    let server = tokio::task::block_in_place(Postgres::start_with_tls);
    let place = tokio::task::block_in_place(|| Place::on(&server));
    let (folder, authority) = (place.folder.path(), server.ca_file().unwrap());
    let named = |host: &str, parameters: &str| {
        let (user, password, port) = (server.user(), server.password(), server.port());
        format!("postgres://{user}:{password}@{host}:{port}/{}?{parameters}", place.database.name())
    };

    // By number and by name; two stores that hear of each other.
    let url = place.database.url();
    assert!(url.contains("sslmode=require"), "{url}");
    let one = Store::open(options(&url, folder, "own_one", Some(authority.clone()))).await.unwrap();
    let url = named("localhost", "sslmode=verify-full&hostaddr=127.0.0.1");
    let two = Store::open(options(&url, folder, "own_two", Some(authority.clone()))).await.unwrap();
    let id = SessionId::new(ID);
    one.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let mut watch = two.watch(&id, Some(0));
    one.append(&id, Authority::Open, vec![titled(2, "in secret")]).await.unwrap();
    let seen = within("the event of the other store", watch.next()).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(two.session(&id).await.unwrap().unwrap().title, "in secret");

    // Without the authority, with another one, and under a name that is not in the certificate.
    let url = place.database.url();
    refused(&server, options(&url, folder, "own_test", None)).await;
    let other = tokio::task::block_in_place(Postgres::start_with_tls);
    refused(&server, options(&url, folder, "own_test", other.ca_file())).await;
    let url = named("elsewhere.example", "sslmode=require&hostaddr=127.0.0.1");
    let text = refused(&server, options(&url, folder, "own_test", Some(authority.clone()))).await;
    assert!(text.contains("elsewhere.example"), "{text}");

    // In the clear it is not to be had at all.
    let url = named("127.0.0.1", "sslmode=disable");
    let error = Store::open(options(&url, folder, "own_test", Some(authority))).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("no encryption"), "{error}");
    drop((one, two));
    tokio::task::block_in_place(|| drop((place, other, server)));
}

#[tokio::test]
async fn a_file_without_a_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    let open = async || {
        let url = "postgres://me:hidden@127.0.0.1:1/mine?sslmode=require";
        Store::open(options(url, folder.path(), "own_test", Some(file.clone()))).await.unwrap_err()
    };
    for content in [None, Some(""), Some("no certificate")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = open().await;
        assert!(matches!(&error, Error::Io { path, .. } if *path == file), "{content:?}: {error:?}");
    }
}
