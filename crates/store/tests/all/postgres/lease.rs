//! Leases: one owner at a time, fencing of the one that lost it, takeover from the dead and the silent.

use std::time::{Duration, Instant};

use everturn_model::{EntryId, PartId, SessionId};
use everturn_store::{Authority, Error, Options, Store, Timing};
use everturn_testkit::within;

use super::Place;
use crate::postgres::{ID, created, event, titled};

const SHORT: Timing = Timing {
    // Much longer than between two beats, as a machine under load lets a process speak late.
    patience: Duration::from_millis(2000),
    beat: Duration::from_millis(100),
    look: Duration::from_millis(50),
};

#[tokio::test]
async fn a_living_owner_keeps_others_out_and_a_dead_one_does_not() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let first = place.open("own_first").await;
    first.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = first.acquire(&id).await.unwrap();
    assert_eq!(first.acquire(&id).await.unwrap(), lease, "taking what one has changes nothing");
    first.renew(&lease).await.unwrap();

    let second = place.open("own_second").await;
    let busy = second.acquire(&id).await;
    assert!(matches!(&busy, Err(Error::Busy { owner, .. }) if owner == "own_first"), "{busy:?}");

    drop(first);
    let taken = second.acquire(&id).await.unwrap();
    assert!(taken.epoch > lease.epoch);
    let stale = second.append(&id, Authority::Owned(lease.clone()), vec![titled(2, "stale")]).await;
    assert!(matches!(stale, Err(Error::Fenced(_))), "{stale:?}");
    assert!(matches!(second.renew(&lease).await, Err(Error::Fenced(_))));
    second.append(&id, Authority::Owned(taken.clone()), vec![titled(3, "fresh")]).await.unwrap();
    assert_eq!(second.session(&id).await.unwrap().unwrap().title, "fresh");
    second.release(taken.clone()).await.unwrap();
    let gone = second.append(&id, Authority::Owned(taken), vec![titled(4, "gone")]).await;
    assert!(matches!(gone, Err(Error::Fenced(_))), "{gone:?}");
}

#[tokio::test]
async fn an_open_append_needs_no_lease() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let first = place.open("own_first").await;
    first.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = first.acquire(&id).await.unwrap();
    let second = place.open("own_second").await;
    second.append(&id, Authority::Open, vec![titled(2, "from elsewhere")]).await.unwrap();
    first.append(&id, Authority::Owned(lease), vec![titled(3, "from the owner")]).await.unwrap();
    assert_eq!(first.events(&id, None, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_silent_owner_of_another_machine_loses_its_sessions() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let other = tempfile::tempdir().unwrap();
    // Another folder stands for another machine: nothing is known of its processes but what they say.
    let url = place.database.url();
    let far = Options { timing: SHORT, ..Options::server(&url, other.path(), "own_far") };
    let far = Store::open(far).await.unwrap();
    far.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = far.acquire(&id).await.unwrap();
    let near = Store::open(Options { timing: SHORT, ..place.options("own_near") }).await.unwrap();
    // It goes on as long as it speaks, longer than patience lasts.
    let began = Instant::now();
    while began.elapsed() < SHORT.patience * 2 {
        let busy = near.acquire(&id).await;
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
        tokio::time::sleep(SHORT.beat).await;
    }

    // Silence: the row is as if it had not been written for long.
    let client = place.client().await;
    client
        .batch_execute(
            "CREATE FUNCTION mute() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.name = ''own_far'' THEN RETURN NULL; END IF; RETURN NEW; END';
             CREATE TRIGGER mute BEFORE INSERT OR UPDATE ON everturn.host FOR EACH ROW EXECUTE FUNCTION mute();",
        )
        .await
        .unwrap();
    let taken = within("the patience with the silent one to end", async {
        loop {
            match near.acquire(&id).await {
                Err(Error::Busy { .. }) => tokio::time::sleep(SHORT.look).await,
                taken => return taken.unwrap(),
            }
        }
    })
    .await;
    assert!(taken.epoch > lease.epoch);
    let stale = far.append(&id, Authority::Owned(lease), vec![titled(2, "stale")]).await;
    assert!(matches!(stale, Err(Error::Fenced(_))), "{stale:?}");
}

#[tokio::test]
async fn a_process_that_closes_says_so() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let client = place.client().await;
    let count = || async {
        let row = client.query_one("SELECT count(*) FROM everturn.host", &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    assert_eq!(count().await, 1);
    drop(store);
    within("its name to be gone", async {
        while count().await > 0 {
            tokio::time::sleep(SHORT.look).await;
        }
    })
    .await;
    let own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    within("its connections to be closed", async {
        while client.query_one(own, &[]).await.unwrap().get::<_, i64>(0) > 1 {
            tokio::time::sleep(SHORT.look).await;
        }
    })
    .await;
}

#[tokio::test]
async fn orphans_are_unfinished_sessions_of_the_dead() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let first = place.open("own_first").await;
    let second = place.open("own_second").await;
    first.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    first.acquire(&id).await.unwrap();
    let prompt = everturn_model::inbox::InboxItem {
        id: EntryId::new("msg_prompt"),
        time: 5,
        delivery: everturn_model::inbox::Delivery::Queue,
        reply: true,
        user: everturn_model::entry::User::default(),
        parts: Vec::new(),
        extra: everturn_model::Extra::default(),
        resume: true,
        place: None,
        revision: 0,
    };
    let admitted = everturn_model::Event::PromptAdmitted { item: Box::new(prompt) };
    first.append(&id, Authority::Admission, vec![event(2, admitted)]).await.unwrap();
    assert_eq!(second.unfinished().await.unwrap(), std::slice::from_ref(&id));
    assert!(second.orphans().await.unwrap().is_empty());
    assert!(first.orphans().await.unwrap().is_empty());
    drop(first);
    assert_eq!(second.orphans().await.unwrap(), [id]);
}

#[tokio::test]
async fn streamed_text_is_saved_piece_by_piece_and_fenced() {
    let place = Place::new();
    let id = SessionId::new(ID);
    let store = place.open("own_test").await;
    store.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = store.acquire(&id).await.unwrap();
    let (entry, part) = (EntryId::new("msg_1"), PartId::new("prt_1"));
    store.save_stream(&lease, &entry, &part, 0, "one ".to_owned());
    store.save_stream(&lease, &entry, &part, 4, "two\0".to_owned());
    store.save_stream(&lease, &entry, &part, 12, "after a hole".to_owned());
    let mut stale = lease.clone();
    stale.epoch -= 1;
    store.save_stream(&stale, &entry, &PartId::new("prt_2"), 0, "stale".to_owned());
    // Written before it, in the same queue.
    store.append(&id, Authority::Owned(lease), vec![titled(2, "x")]).await.unwrap();
    let streams = store.streams(&id).await.unwrap();
    assert_eq!(streams.iter().map(|stream| stream.text.as_str()).collect::<Vec<_>>(), ["one two\0"]);
}
