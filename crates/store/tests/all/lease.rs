//! Leases: one owner at a time, fencing of the one that lost it, takeover from the dead.

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Options, Store};

use crate::append::{ID, created, event, titled};

#[tokio::test]
async fn a_living_owner_keeps_others_out_and_a_dead_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let id = SessionId::new(ID);
    let first = Store::open(Options::folder(folder.path(), "own_first")).await.unwrap();
    first.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = first.acquire(&id).await.unwrap();
    assert_eq!(first.acquire(&id).await.unwrap(), lease, "taking what one has changes nothing");

    let second = Store::open(Options::folder(folder.path(), "own_second")).await.unwrap();
    let busy = second.acquire(&id).await;
    assert!(matches!(&busy, Err(Error::Busy { owner, .. }) if owner == "own_first"), "{busy:?}");

    drop(first);
    let taken = second.acquire(&id).await.unwrap();
    assert!(taken.epoch > lease.epoch);
    let stale = second.append(&id, Authority::Owned(lease), vec![titled(2, "stale")]).await;
    assert!(matches!(stale, Err(Error::Fenced(_))), "{stale:?}");
    second.append(&id, Authority::Owned(taken), vec![titled(3, "fresh")]).await.unwrap();
    assert_eq!(second.session(&id).await.unwrap().unwrap().title, "fresh");
}

#[tokio::test]
async fn an_open_append_needs_no_lease() {
    let folder = tempfile::tempdir().unwrap();
    let id = SessionId::new(ID);
    let first = Store::open(Options::folder(folder.path(), "own_first")).await.unwrap();
    first.append(&id, Authority::Open, vec![event(1, created(ID))]).await.unwrap();
    let lease = first.acquire(&id).await.unwrap();
    let second = Store::open(Options::folder(folder.path(), "own_second")).await.unwrap();
    second.append(&id, Authority::Open, vec![titled(2, "from elsewhere")]).await.unwrap();
    first.append(&id, Authority::Owned(lease), vec![titled(3, "from the owner")]).await.unwrap();
    assert_eq!(first.events(&id, None, 10).await.unwrap().len(), 3);
}
