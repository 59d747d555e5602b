//! Opening: new, again, by two at once, foreign, newer, and what a wrong address says.

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Filter, Options, PageRequest, Store};
use everturn_testkit::Postgres;

use super::Place;
use crate::place::described;
use crate::postgres::{ID, created, event, titled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_may_open_a_new_database_at_once() {
    let place = Place::new();
    let open = |number: usize| {
        let options = place.options(&format!("own_{number}"));
        tokio::spawn(async move { Store::open(options).await.unwrap() })
    };
    let stores: Vec<_> = (0..6).map(open).collect();
    let mut opened = Vec::new();
    for store in stores {
        opened.push(store.await.unwrap());
    }
    let id = SessionId::new(ID);
    opened[0].append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    opened[0]
        .append(&SessionId::new("ses_2"), Authority::Open, vec![event(2, created("ses_2"))])
        .await
        .unwrap();
    let first =
        opened[1].page(PageRequest::First(Filter { limit: Some(1), ..Filter::default() })).await.unwrap();
    let next = opened[2].page(PageRequest::After(first.next.unwrap())).await.unwrap();
    assert_eq!(next.items.len(), 1, "all of them seal cursors with the same key");
}

#[tokio::test]
async fn another_programs_schema_is_left_alone() {
    let place = Place::new();
    let client = place.client().await;
    client.batch_execute("CREATE SCHEMA everturn; CREATE TABLE everturn.schema (name text)").await.unwrap();
    let refused = Store::open(place.options("own_test")).await;
    assert!(matches!(refused, Err(Error::NotOurs { .. })), "{refused:?}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'everturn'";
    assert_eq!(client.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn an_empty_schema_that_somebody_made_is_used() {
    let place = Place::new();
    place.client().await.batch_execute("CREATE SCHEMA everturn").await.unwrap();
    place.open("own_test").await;
}

#[tokio::test]
async fn a_newer_database_is_read_and_not_written() {
    let place = Place::new();
    let id = SessionId::new(ID);
    {
        let store = place.open("own_old").await;
        store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    }
    place.client().await.batch_execute("UPDATE everturn.schema SET version = 999").await.unwrap();
    let store = place.open("own_test").await;
    assert!(matches!(store.read_only(), Some(Error::Newer { found: 999, .. })));
    assert!(store.session(&id).await.unwrap().is_some());
    let write = store.append(&id, Authority::Open, vec![titled(2, "x")]).await;
    assert!(matches!(write, Err(Error::Newer { .. })), "{write:?}");
    assert!(matches!(store.acquire(&id).await, Err(Error::Newer { .. })));
}

#[tokio::test]
async fn nothing_is_upgraded_while_an_older_process_works_with_it() {
    // A command of a new version once changed the schema under a server of the old one, which went on writing.
    let place = Place::new();
    let old = place.open("own_old").await;
    let client = place.client().await;
    client.batch_execute("UPDATE everturn.schema SET version = 1").await.unwrap();
    let version = async || {
        let row = client.query_one("SELECT version FROM everturn.schema", &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    let check_refused = async |by: &str| {
        let refused = Store::open(place.options("own_new")).await;
        assert!(matches!(&refused, Err(Error::OlderAtWork { by: found, .. }) if found == by), "{refused:?}");
        assert_eq!(version().await, 1);
    };
    check_refused(&described(place.folder.path(), "own_old")).await;
    // Its row says for a while that it lives; on this machine its lock says that it is dead.
    let here = "CREATE TEMP TABLE dead AS SELECT boot FROM everturn.host WHERE name = 'own_old'";
    client.batch_execute(here).await.unwrap();
    drop(old);
    let left = "DELETE FROM everturn.host; INSERT INTO everturn.host
                SELECT 'own_dead', clock_timestamp() + interval '1 hour', boot FROM dead";
    client.batch_execute(left).await.unwrap();
    let elsewhere = "INSERT INTO everturn.host VALUES ('own_far', clock_timestamp() + interval '1 hour', 'another machine')";
    client.batch_execute(elsewhere).await.unwrap();
    check_refused("own_far, on another machine or with another data folder").await;
    client
        .batch_execute("UPDATE everturn.host SET until = clock_timestamp() WHERE name = 'own_far'")
        .await
        .unwrap();
    place.open("own_new").await;
    assert!(version().await > 1);
}

#[tokio::test]
async fn a_wrong_address_says_what_is_wrong_and_keeps_the_password() {
    let server = Postgres::shared();
    let place = Place::on(&server);
    let secret = "s3cr3t";
    let folder = place.folder.path();
    let host = server.address();
    let name = place.database.name().to_owned();
    let open = |url: String| async move {
        let options = Options::server(&url, folder, "own_test");
        let debug = format!("{options:?}");
        let error = Store::open(options).await.unwrap_err();
        let text = format!("{debug} {error} {error:?}");
        assert!(!text.contains(secret), "{text}");
        error
    };
    let off = "sslmode=disable";
    let wrong = open(format!("postgres://postgres:{secret}@{host}/{name}?{off}")).await;
    assert!(matches!(wrong, Error::Refused { .. }), "{wrong:?}");
    let (user, password) = (server.user(), server.password());
    let missing = open(format!("postgres://{user}:{password}@{host}/nowhere?{off}")).await;
    // It was once called a wrong password, which sent people to look in the wrong place.
    assert!(
        matches!(&missing, Error::NoDatabase { reason, .. } if reason.contains("\"nowhere\"")),
        "{missing:?}"
    );
    let text = missing.to_string();
    assert!(text.contains("Create it") && !text.contains("password"), "{text}");
    let nobody = open(format!("postgres://nobody:{secret}@{host}/{name}?{off}")).await;
    assert!(matches!(nobody, Error::Refused { .. }), "{nobody:?}");
    let nobody = open(format!("postgres://u:{secret}@127.0.0.1:1/{name}?{off}")).await;
    assert!(matches!(&nobody, Error::Unreachable { address, .. } if address == "127.0.0.1:1"), "{nobody:?}");
    for bad in [
        format!("postgres://u:{secret}@host:notaport/x"),
        format!("postgres://u:{secret}@host/x?{secret}=1"),
        format!("postgres://u:p@{secret}@host/x"),
        format!("mysql://u:{secret}@host/x"),
        format!("postgres://u:{secret}@/x"),
    ] {
        let bad = open(bad).await;
        assert!(matches!(bad, Error::Address(_)), "{bad:?}");
    }
    let store = place.open("own_test").await;
    assert!(!store.place().contains(password), "{}", store.place());
    assert!(!format!("{store:?}").contains(password));
}
