//! Upkeep: deleting for good, retention, disk use, checking and rebuilding, setting aside, scrubbing, backups.

use std::time::Duration;

use everturn_model::{Event, SessionId};
use everturn_store::upkeep::scrub::Scrub;
use everturn_store::upkeep::trash::Retention;
use everturn_store::{Error, Filter, Hash, Options, PageRequest, Search, Store};

use crate::events::{NOW, added, append, begin, file, log, new, note, text, titled, tree};
use crate::place::{Place, contract};

contract![
    a_session_goes_into_the_trash_and_comes_back,
    nothing_is_left_of_a_session_that_was_deleted_for_good,
    a_session_that_a_living_process_runs_is_not_deleted,
    the_trash_is_emptied_when_its_time_has_come,
    an_emptied_trash_is_empty_although_a_clock_was_ahead,
    a_blob_lives_as_long_as_a_session_that_uses_it,
    disk_use_names_blobs_trash_and_the_largest,
    a_whole_session_is_found_whole_and_can_be_made_anew,
    a_damaged_session_hides_no_other_and_is_healed_from_its_log,
    a_session_that_is_set_aside_is_read_and_not_written,
    a_secret_is_scrubbed_and_the_scrub_is_noted,
    a_backup_is_restored_with_everything_in_it,
];

/// A session with a text, an attachment of more than 64 KiB and a title.
async fn filled(store: &Store, words: &str) -> SessionId {
    let id = begin(store).await;
    let entry = note(None, words);
    let attachment = format!("data:text/plain,{}", words.repeat(80_000 / words.len()));
    append(store, &id, vec![added(&entry, vec![text(words), file(&attachment)]), titled(words)]).await;
    id
}

async fn found(store: &Store, words: &str) -> usize {
    let search = Search { text: words.to_owned(), limit: 50, ..Search::default() };
    store.search(search).await.unwrap().len()
}

async fn a_session_goes_into_the_trash_and_comes_back(place: &Place) {
    let store = place.open("own_a").await;
    let id = filled(&store, "walnut").await;
    let listed = async |trashed: bool| {
        let filter = Filter { trashed, ..Filter::default() };
        store.sessions(filter).await.unwrap().len()
    };
    assert_eq!((listed(false).await, listed(true).await, found(&store, "walnut").await), (1, 0, 3));
    append(&store, &id, vec![new(Event::SessionTrashed {})]).await;
    assert_eq!((listed(false).await, listed(true).await, found(&store, "walnut").await), (0, 1, 0));
    append(&store, &id, vec![new(Event::SessionRestored {})]).await;
    assert_eq!((listed(false).await, listed(true).await, found(&store, "walnut").await), (1, 0, 3));
}

async fn nothing_is_left_of_a_session_that_was_deleted_for_good(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (filled(&store, "walnut").await, filled(&store, "hazel").await);
    assert!(store.purge(&id, NOW).await.unwrap());
    assert!(!store.purge(&id, NOW).await.unwrap(), "it is gone");
    assert_eq!(store.session(&id).await.unwrap(), None);
    assert_eq!(log(&store, &id).await, []);
    assert_eq!((found(&store, "walnut").await, found(&store, "hazel").await), (0, 3));
    let late = store.append(&id, everturn_store::Authority::Open, vec![titled("late")]).await;
    assert!(matches!(late, Err(Error::Purged(_))), "{late:?}");
    let again = store.append(&id, everturn_store::Authority::Open, vec![crate::events::created(&id)]).await;
    assert!(matches!(again, Err(Error::Purged(_))), "{again:?}");
    let stones = store.tombstones().await.unwrap();
    assert_eq!(stones.iter().map(|stone| &stone.session).collect::<Vec<_>>(), [&id]);
    assert_eq!(store.audits(1).await.unwrap()[0].action, "purge");
    assert!(store.verify(&other).await.unwrap().is_sound());
}

async fn a_session_that_a_living_process_runs_is_not_deleted(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = filled(&one, "walnut").await;
    let lease = one.acquire(&id).await.unwrap();
    let refused = two.purge(&id, NOW).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    one.release(lease).await.unwrap();
    assert!(two.purge(&id, NOW).await.unwrap());
}

async fn the_trash_is_emptied_when_its_time_has_come(place: &Place) {
    let store = place.open("own_a").await;
    let (old, young, kept) =
        (filled(&store, "walnut").await, filled(&store, "hazel").await, filled(&store, "elm").await);
    let day = 24 * 60 * 60 * 1000;
    let trash = |time| crate::events::at(time, Event::SessionTrashed {});
    append(&store, &old, vec![trash(NOW)]).await;
    append(&store, &young, vec![trash(NOW + 20 * day)]).await;
    let retention = Retention { trash: Some(Duration::from_secs(30 * 24 * 60 * 60)) };
    let swept = store.sweep(retention, NOW + 40 * day).await.unwrap();
    assert_eq!(swept.purged, [old]);
    assert_eq!(swept.collected.blobs, 1, "its attachment, which its event and its row share");
    for id in [&young, &kept] {
        assert!(store.session(id).await.unwrap().is_some());
    }
    let never = store.sweep(Retention { trash: None }, NOW + 400 * day).await.unwrap();
    assert_eq!(never.purged, []);
}

async fn an_emptied_trash_is_empty_although_a_clock_was_ahead(place: &Place) {
    // What was put there by a clock that was ahead stayed, and nobody was told.
    let store = place.open("own_a").await;
    let (ahead, kept) = (filled(&store, "walnut").await, filled(&store, "hazel").await);
    let later = NOW + 400 * 24 * 60 * 60 * 1000;
    append(&store, &ahead, vec![crate::events::at(later, Event::SessionTrashed {})]).await;
    let second = Retention { trash: Some(Duration::from_secs(1)) };
    assert_eq!(store.sweep(second, NOW).await.unwrap().purged, [], "it is not there for a second");
    let all = Retention { trash: Some(Duration::ZERO) };
    assert_eq!(store.sweep(all, NOW).await.unwrap().purged, [ahead]);
    assert!(store.session(&kept).await.unwrap().is_some());
}

async fn a_blob_lives_as_long_as_a_session_that_uses_it(place: &Place) {
    let store = place.open("own_a").await;
    let (one, two) = (begin(&store).await, begin(&store).await);
    let hash = store.put_blob(&one, b"shared".to_vec()).await.unwrap();
    assert_eq!(store.put_blob(&two, b"shared".to_vec()).await.unwrap(), hash);
    assert_eq!(hash, Hash::of(b"shared"));
    store.purge(&one, NOW).await.unwrap();
    assert_eq!(store.collect().await.unwrap().blobs, 0);
    assert_eq!(store.blob(hash).await.unwrap().unwrap(), b"shared");
    store.purge(&two, NOW).await.unwrap();
    assert_eq!(store.collect().await.unwrap().blobs, 1);
    assert_eq!(store.blob(hash).await.unwrap(), None);
}

async fn disk_use_names_blobs_trash_and_the_largest(place: &Place) {
    let store = place.open("own_a").await;
    let (small, large) = (begin(&store).await, filled(&store, "walnut").await);
    append(&store, &small, vec![new(Event::SessionTrashed {})]).await;
    let used = store.disk_use().await.unwrap();
    assert_eq!((used.sessions, used.trash.sessions), (2, 1));
    assert!(used.file > 0 && used.blobs.count > 0 && used.blobs.packed < used.blobs.size, "{used:?}");
    let named: Vec<&SessionId> = used.largest.iter().map(|large| &large.session).collect();
    assert_eq!(named, [&large, &small]);
}

async fn a_whole_session_is_found_whole_and_can_be_made_anew(place: &Place) {
    let store = place.open("own_a").await;
    let id = filled(&store, "walnut").await;
    assert!(store.verify(&id).await.unwrap().is_sound());
    let before = tree(&store, &id).await;
    let rebuilt = store.rebuild(&id, NOW).await.unwrap();
    assert_eq!((rebuilt.events, rebuilt.parts), (3, 2));
    assert_eq!(tree(&store, &id).await, before);
    assert_eq!(found(&store, "walnut").await, 3);
    let report = store.verify_all(None).await.unwrap();
    assert_eq!((report.sessions, report.damaged.len()), (1, 0));
    assert_eq!(store.audits(10).await.unwrap()[0].action, "rebuild");
}

async fn a_damaged_session_hides_no_other_and_is_healed_from_its_log(place: &Place) {
    let store = place.open("own_a").await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(filled(&store, &format!("walnut{number}")).await);
    }
    place.garble(&ids[2]).await;
    let others: std::collections::BTreeSet<&SessionId> = ids.iter().filter(|id| **id != ids[2]).collect();
    let mut listed = Vec::new();
    let mut ask = PageRequest::First(Filter { limit: Some(2), ..Filter::default() });
    loop {
        let page = store.page(ask).await.unwrap();
        listed.extend(page.items.into_iter().map(|session| session.id));
        match page.next {
            Some(next) => ask = PageRequest::After(next),
            None => break,
        }
    }
    assert_eq!(listed.iter().collect::<std::collections::BTreeSet<_>>(), others, "a page once ended at it");
    let refused = store.append(&ids[2], everturn_store::Authority::Open, vec![titled("no")]).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    let report = store.verify_all(Some(NOW)).await.unwrap();
    assert_eq!(report.damaged.iter().map(|verdict| &verdict.session).collect::<Vec<_>>(), [&ids[2]]);
    assert_eq!(store.set_aside_list().await.unwrap()[0].session, ids[2]);
    store.rebuild(&ids[2], NOW).await.unwrap();
    assert_eq!(store.set_aside_list().await.unwrap(), []);
    append(&store, &ids[2], vec![titled("yes")]).await;
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

async fn a_session_that_is_set_aside_is_read_and_not_written(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (filled(&store, "walnut").await, begin(&store).await);
    store.set_aside(&id, "looks odd", NOW).await.unwrap();
    let refused = store.append(&id, everturn_store::Authority::Open, vec![titled("no")]).await;
    assert!(
        matches!(&refused, Err(Error::Quarantined { reason, .. }) if reason == "looks odd"),
        "{refused:?}"
    );
    assert_eq!(tree(&store, &id).await.nodes().len(), 2);
    append(&store, &other, vec![titled("yes")]).await;
    assert_eq!(store.set_aside_list().await.unwrap()[0].session, id);
    assert!(store.take_back(&id).await.unwrap());
    append(&store, &id, vec![titled("yes")]).await;
}

async fn a_secret_is_scrubbed_and_the_scrub_is_noted(place: &Place) {
    const SECRET: &str = "sk-live-3f9a77c1";
    let store = place.open("own_a").await;
    let (id, other) = (filled(&store, SECRET).await, filled(&store, "walnut").await);
    let untouched = log(&store, &other).await;
    let seqs: Vec<_> = log(&store, &id).await.iter().map(|record| (record.seq, record.id.clone())).collect();
    let scrub = Scrub {
        secret: SECRET.into(),
        replacement: "[gone]".into(),
        session: None,
        reason: "it leaked".into(),
        time: NOW,
    };
    let scrubbed = store.scrub(scrub).await.unwrap();
    assert_eq!((scrubbed.sessions.as_slice(), scrubbed.left.len()), ([id.clone()].as_slice(), 0));
    let after = log(&store, &id).await;
    assert!(!format!("{after:?}").contains(SECRET) && format!("{after:?}").contains("[gone]"));
    assert_eq!(after.iter().map(|record| (record.seq, record.id.clone())).collect::<Vec<_>>(), seqs);
    assert!(!format!("{:?}", tree(&store, &id).await).contains(SECRET));
    assert_eq!(log(&store, &other).await, untouched);
    assert!(store.verify(&id).await.unwrap().is_sound());
    let audit = &store.audits(1).await.unwrap()[0];
    assert_eq!(audit.action, "scrub");
    assert!(!audit.detail.to_string().contains(SECRET) && audit.detail.to_string().contains("it leaked"));
}

async fn a_backup_is_restored_with_everything_in_it(place: &Place) {
    let store = place.open("own_a").await;
    let (id, gone) = (filled(&store, "walnut").await, filled(&store, "hazel").await);
    store.purge(&gone, NOW).await.unwrap();
    store.put_project("demo", "{}".into()).await.unwrap();
    let lease = store.acquire(&id).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.db");
    store.backup(&file).await.unwrap();
    let twice = store.backup(&file).await;
    assert!(matches!(twice, Err(Error::Occupied(_))), "{twice:?}");
    // Whatever engine it came from, it can be opened on SQLite and on the engine it came from.
    let elsewhere = tempfile::tempdir().unwrap();
    let fresh = Place::new(place.kind());
    for options in [Options::folder(elsewhere.path().join("new"), "own_x"), fresh.options("own_y")] {
        let restored = Store::restore(&file, options).await.unwrap();
        assert_eq!(log(&restored, &id).await, log(&store, &id).await);
        assert_eq!(tree(&restored, &id).await, tree(&store, &id).await);
        assert_eq!(restored.projects().await.unwrap(), store.projects().await.unwrap());
        assert_eq!(restored.tombstones().await.unwrap(), store.tombstones().await.unwrap());
        assert_eq!(found(&restored, "walnut").await, 3);
        let taken = restored.acquire(&id).await.unwrap();
        assert!(taken.epoch >= lease.epoch, "nobody runs it, and older leases hold no longer");
    }
}
