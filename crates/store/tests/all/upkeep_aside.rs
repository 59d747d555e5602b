//! Damaged sessions: set aside, taken back, and never in the way of others.

use everturn_model::SessionId;
use everturn_store::{Authority, Error, Filter, Page, PageRequest, Search, SetAside, Store};

use crate::upkeep::{Rich, damage, open};

#[tokio::test]
async fn a_session_that_is_set_aside_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    let nowhere = store.set_aside(&rich.id, "reason", 5).await;
    assert!(matches!(nowhere, Err(Error::NoSession(_))), "{nowhere:?}");
    rich.put(&store, "parser").await;
    other.put(&store, "lexer").await;
    store.set_aside(&rich.id, "it smells", 5).await.unwrap();
    let aside = SetAside { session: rich.id.clone(), time: 5, reason: "it smells".into() };
    assert_eq!(store.set_aside_list().await.unwrap(), [aside]);
    let refused = store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "x")]).await;
    assert!(
        matches!(&refused, Err(Error::Quarantined { reason, .. }) if reason == "it smells"),
        "{refused:?}"
    );
    assert_eq!(store.session(&rich.id).await.unwrap().unwrap().title, "about parser");
    store.append(&other.id, Authority::Open, vec![other.title(0x200, "x")]).await.unwrap();
    assert!(store.take_back(&rich.id).await.unwrap());
    assert!(!store.take_back(&rich.id).await.unwrap());
    store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "x")]).await.unwrap();
    store.set_aside(&rich.id, "again", 5).await.unwrap();
    store.rebuild(&rich.id, 6).await.unwrap();
    assert_eq!(store.set_aside_list().await.unwrap(), []);
}

#[tokio::test]
async fn a_check_can_set_aside_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    other.put(&store, "lexer").await;
    damage(&folder, &rich.id, "DELETE FROM inbox WHERE session = KEY");
    damage(&folder, &rich.id, "DELETE FROM request WHERE session = KEY");
    assert_eq!(store.verify_all(None).await.unwrap().damaged.len(), 1);
    assert_eq!(store.set_aside_list().await.unwrap(), []);
    assert_eq!(store.verify_all(Some(5)).await.unwrap().damaged.len(), 1);
    let reason = format!("waiting prompt {} is missing (and 1 more)", rich.entry(30));
    let aside = SetAside { session: rich.id.clone(), time: 5, reason };
    assert_eq!(store.set_aside_list().await.unwrap(), [aside]);
    store.rebuild(&rich.id, 6).await.unwrap();
    assert_eq!(store.set_aside_list().await.unwrap(), []);
}

fn ids(page: Page<everturn_model::Session>) -> Vec<SessionId> {
    page.items.into_iter().map(|session| session.id).collect()
}

/// Everything that spans sessions still answers for the ones that are whole.
async fn check(sql: &str, hidden: bool) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let all: Vec<Rich> = (1..=4).map(|number| Rich::new(number * 0x1000)).collect();
    for rich in &all {
        rich.put(&store, "parser").await;
    }
    let bad = &all[1];
    damage(&folder, &bad.id, sql);
    let listed: Vec<SessionId> =
        all.iter().rev().filter(|rich| !hidden || rich.id != bad.id).map(|rich| rich.id.clone()).collect();
    let whole: Vec<&Rich> = all.iter().filter(|rich| rich.id != bad.id).collect();

    let found = store.sessions(Filter::default()).await.unwrap();
    assert_eq!(found.into_iter().map(|session| session.id).collect::<Vec<_>>(), listed, "{sql}");
    let mut ask = PageRequest::First(Filter { limit: Some(1), ..Filter::default() });
    let mut paged = Vec::new();
    loop {
        let page = store.page(ask).await.unwrap();
        let next = page.next.clone();
        paged.extend(ids(page));
        match next {
            Some(cursor) => ask = PageRequest::After(cursor),
            None => break,
        }
    }
    assert_eq!(paged, listed, "{sql}");
    assert_eq!(store.totals(Filter::default()).await.unwrap().sessions, 4, "{sql}");
    let search = Search { text: "parser".into(), limit: 100, ..Search::default() };
    let hits = store.search(search).await.unwrap();
    let requests = store.requests().await.unwrap();
    let unfinished = store.unfinished().await.unwrap();
    for rich in &whole {
        // The title, the prompt, the answer and the long text.
        assert_eq!(hits.iter().filter(|hit| hit.session == rich.id).count(), 4, "{sql}");
        assert!(requests.iter().any(|(id, _)| *id == rich.id), "{sql}");
        assert!(unfinished.contains(&rich.id), "{sql}");
        assert!(store.verify(&rich.id).await.unwrap().is_sound(), "{sql}");
        store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "goes on")]).await.unwrap();
    }
    assert!(!store.verify(&bad.id).await.unwrap().is_sound(), "{sql}");
    drop(store);
    reopen(&folder, &whole).await;
}

async fn reopen(folder: &tempfile::TempDir, whole: &[&Rich]) {
    let store: Store = open(folder).await;
    for rich in whole {
        assert_eq!(store.session(&rich.id).await.unwrap().unwrap().title, "goes on");
    }
}

#[tokio::test]
async fn one_damaged_session_hides_no_other() {
    for garbage in ["'{'", "X'FFFE'", "12"] {
        check(&format!("UPDATE session SET data = {garbage} WHERE key = KEY"), true).await;
        for table in ["entry", "part", "request", "event", "inbox", "todo"] {
            check(&format!("UPDATE {table} SET data = {garbage} WHERE session = KEY"), false).await;
        }
    }
    check("UPDATE session SET input = 'many', cost = 1.5 WHERE key = KEY", false).await;
    check("UPDATE session SET seq = 'last' WHERE key = KEY", false).await;
}
