//! What a commit waits for, whatever the server's administrator has set.

use everturn_model::SessionId;
use everturn_store::{Authority, Durability, Store};

use super::Place;
use crate::postgres::{ID, created, event, titled};

/// Notes the setting under which each event is written, where the writer cannot tell.
const WITNESS: &str = "
    CREATE TABLE public.witness (setting text);
    CREATE FUNCTION public.testify() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO public.witness VALUES (current_setting('synchronous_commit'));
      RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER INSERT ON everturn.event FOR EACH ROW EXECUTE FUNCTION public.testify();";

/// The settings that events are written under, if the database has one of its own.
async fn settings(database: &str, durability: Durability) -> Vec<String> {
    let place = Place::new();
    let client = place.client().await;
    let name = place.database.name();
    client
        .batch_execute(&format!("ALTER DATABASE {name} SET synchronous_commit = {database}"))
        .await
        .unwrap();
    drop(place.open("own_first").await);
    client.batch_execute(WITNESS).await.unwrap();

    let mut options = place.options("own_test");
    options.durability = durability;
    let store = Store::open(options).await.unwrap();
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    // Commits of those who wait for nothing leave no setting behind for the next one.
    let lease = store.acquire(&id).await.unwrap();
    store.append(&id, Authority::Owned(lease), vec![titled(2, "by its owner")]).await.unwrap();
    let rows = client.query("SELECT setting FROM public.witness", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_commit_waits_for_the_disk_whatever_the_server_is_set_to() {
    // Servers are often set to `off` for speed. What is acknowledged would then be lost with the power, and no test
    // noticed that the setting was not enforced.
    for database in ["off", "local"] {
        assert_eq!(settings(database, Durability::Full).await, ["on", "on"], "{database}");
    }
    assert_eq!(
        settings("remote_apply", Durability::Full).await,
        ["remote_apply"; 2],
        "more is left as it is"
    );
    assert_eq!(settings("on", Durability::Process).await, ["off", "off"]);
}
