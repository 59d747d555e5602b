//! A server that takes only encrypted connections: with the authority that made its certificate the store trusts it,
//! and without it, or under another name, it does not.

use std::path::Path;

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Options, Store};
use everturn_testkit::{Postgres, within};

use super::Place;
use crate::listener::Listener;
use crate::postgres::{ID, created, event, titled};

/// An address with this authority.
fn trusting(url: &str, authority: &Path) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}sslrootcert={}", authority.display())
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
    let options = |url: &str, owner| Options::server(url, folder, owner);
    let one = Store::open(options(&trusting(&url, &authority), "own_one")).await.unwrap();
    // The second ties its password to the certificate, which the server checks.
    let binding = "sslmode=verify-full&hostaddr=127.0.0.1&channel_binding=require";
    let url = trusting(&named("localhost", binding), &authority);
    let (observer, mut listener) = Listener::new();
    let listening = Options { observer: Some(observer), ..options(&url, "own_two") };
    let two = Store::open(listening).await.unwrap();
    let id = SessionId::new(ID);
    one.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    assert_eq!(listener.event().await.record.seq, 0);
    one.append(&id, Authority::Open, vec![titled(2, "in secret")]).await.unwrap();
    assert_eq!(listener.event().await.record.seq, 1);
    assert_eq!(two.session(&id).await.unwrap().unwrap().title, "in secret");

    // Without the authority, with another one, and under a name that is not in the certificate.
    let url = place.database.url();
    refused(&server, options(&url, "own_test")).await;
    refused(&server, options(&format!("{url}&sslrootcert=system"), "own_test")).await;
    let other = tokio::task::block_in_place(Postgres::start_with_tls);
    refused(&server, options(&trusting(&url, &other.ca_file().unwrap()), "own_test")).await;
    let url = trusting(&named("elsewhere.example", "sslmode=require&hostaddr=127.0.0.1"), &authority);
    let text = refused(&server, options(&url, "own_test")).await;
    assert!(text.contains("elsewhere.example"), "{text}");

    // In the clear it is not to be had at all.
    let url = named("127.0.0.1", "sslmode=disable");
    let error = Store::open(options(&url, "own_test")).await.unwrap_err();
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
        let url = trusting("postgres://me:hidden@127.0.0.1:1/mine", &file);
        Store::open(Options::server(&url, folder.path(), "own_test")).await.unwrap_err()
    };
    for content in [None, Some(""), Some("no certificate")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = open().await;
        assert!(matches!(&error, Error::Io { path, .. } if *path == file), "{content:?}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_names_an_authority_never_connects_in_the_clear() {
    // An address without `sslmode` means to encrypt if the server can. This one cannot, and could be anybody.
    let place = tokio::task::block_in_place(Place::new);
    let server = Postgres::shared();
    let (user, password, address) = (server.user(), server.password(), server.address());
    let plain = format!("postgres://{user}:{password}@{address}/{}", place.database.name());
    let authority = place.folder.path().join("authority.pem");
    let tls = tokio::task::block_in_place(Postgres::start_with_tls);
    std::fs::copy(tls.ca_file().unwrap(), &authority).unwrap();
    Store::open(Options::server(&plain, place.folder.path(), "own_test")).await.unwrap();
    let trusting = trusting(&plain, &authority);
    let error = Store::open(Options::server(&trusting, place.folder.path(), "own_test")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("TLS"), "{error}");
    tokio::task::block_in_place(|| drop((tls, place, server)));
}
