//! Lists, pages, paths, totals and search.

use everturn_model::entry::{Body, User};
use everturn_model::event::SessionChange;
use everturn_model::part::PartKind;
use everturn_model::{Entry, EntryId, Event, Part, PartId, SessionId};
use everturn_store::{Ask, Authority, Filter, Order, PathQuery, Search, Store};

use super::Place;
use crate::append::{ID, created, event, titled};

/// A conversation of so many messages, `msg_000` first.
async fn converse(store: &Store, count: usize) {
    let mut events = vec![event(1, created(ID))];
    let mut parent = None;
    for number in 0..count {
        let id = EntryId::new(format!("msg_{number:03}"));
        let entry = Entry::new(id.clone(), parent.replace(id), 5, Body::User(User::default()));
        let texts = [format!("text of number {number}"), format!("second é {number}")];
        let part = |(at, text): (usize, String)| {
            Part::new(PartId::new(format!("prt_{number:03}_{at}")), PartKind::text(text))
        };
        let parts = texts.into_iter().enumerate().map(part).collect();
        let added = Event::EntryAdded { entry: Box::new(entry), parts };
        events.push(event(u64::try_from(number).unwrap() + 2, added));
    }
    store.append(&SessionId::new(ID), Authority::Open, events).await.unwrap();
}

#[tokio::test]
async fn a_path_is_walked_in_pages_from_both_ends() {
    let place = Place::new();
    let store = place.open("own_test").await;
    converse(&store, 95).await;
    for order in [Order::Newest, Order::Oldest] {
        let query = PathQuery { session: SessionId::new(ID), leaf: None, order, limit: 20 };
        let mut ask = Ask::First(query);
        let mut seen = Vec::new();
        loop {
            let page = store.path(ask).await.unwrap();
            assert!(page.items.iter().all(|node| node.parts.len() == 2), "parts come with their entries");
            seen.extend(page.items.into_iter().map(|node| node.entry.id.to_string()));
            match page.next {
                Some(next) => ask = Ask::After(next),
                None => break,
            }
        }
        let mut expected: Vec<String> = (0..95).map(|number| format!("msg_{number:03}")).collect();
        if order == Order::Newest {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
    let tail = store.tail(&SessionId::new(ID), 80).await.unwrap().unwrap();
    assert_eq!((tail.nodes.len(), tail.more), (80, true));
    assert_eq!(tail.nodes[0].entry.id.as_str(), "msg_015");
    let all = store.tail(&SessionId::new(ID), 500).await.unwrap().unwrap();
    assert_eq!((all.nodes.len(), all.more), (95, false));
}

#[tokio::test]
async fn sessions_are_listed_newest_first_in_pages_and_by_filter() {
    let place = Place::new();
    let store = place.open("own_test").await;
    for number in 0..25 {
        let name = format!("ses_{number:02}");
        let id = SessionId::new(&name);
        let start =
            vec![event(100 + number, created(&name)), titled(200 + number, &format!("Title {number}"))];
        store.append(&id, Authority::Open, start).await.unwrap();
    }
    let mut ask = Ask::First(Filter { limit: Some(10), ..Filter::default() });
    let mut seen = Vec::new();
    loop {
        let page = store.page(ask).await.unwrap();
        seen.extend(page.items.into_iter().map(|session| session.id.to_string()));
        match page.next {
            Some(next) => ask = Ask::After(next),
            None => break,
        }
    }
    let mut expected: Vec<String> = (0..25).map(|number| format!("ses_{number:02}")).collect();
    expected.reverse();
    assert_eq!(seen, expected);
    let named = Filter { search: Some("TITLE 2".into()), ..Filter::default() };
    assert_eq!(store.sessions(named.clone()).await.unwrap().len(), 6);
    assert_eq!(store.totals(named).await.unwrap().sessions, 6);
    let archive = Event::SessionChanged { changes: vec![SessionChange::Archived { time: Some(5) }] };
    store.append(&SessionId::new("ses_03"), Authority::Open, vec![event(300, archive)]).await.unwrap();
    let gone = event(301, Event::SessionTrashed {});
    store.append(&SessionId::new("ses_04"), Authority::Open, vec![gone]).await.unwrap();
    assert_eq!(store.totals(Filter::default()).await.unwrap().sessions, 23);
    assert_eq!(store.totals(Filter { archived: true, ..Filter::default() }).await.unwrap().sessions, 24);
    assert_eq!(store.totals(Filter { trashed: true, ..Filter::default() }).await.unwrap().sessions, 1);
    let project = Filter {
        project: Some("global".into()),
        directory: Some("/srv/demo".into()),
        roots: true,
        since: Some(1),
        ..Filter::default()
    };
    assert_eq!(store.sessions(project).await.unwrap().len(), 23);
}

#[tokio::test]
async fn words_of_texts_and_titles_are_found() {
    let place = Place::new();
    let store = place.open("own_test").await;
    converse(&store, 30).await;
    let id = SessionId::new(ID);
    store.append(&id, Authority::Open, vec![titled(900, "Über den Wolken's end")]).await.unwrap();
    let search = |text: &str| Search { text: text.into(), limit: 50, ..Search::default() };
    let hits = store.search(search("NUMBER 17 ")).await.unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].entry, Some(EntryId::new("msg_017")));
    assert_eq!(store.search(search("numb")).await.unwrap().len(), 30);
    let titles = store.search(search("über wol")).await.unwrap();
    assert_eq!(titles.len(), 1);
    assert_eq!(titles[0].entry, None);
    assert!(store.search(search("' | \\ :* nothing")).await.unwrap().is_empty());
    let elsewhere = Search { project: Some("other".into()), ..search("number") };
    assert!(store.search(elsewhere).await.unwrap().is_empty());
    let here = Search { session: Some(id), limit: 7, ..search("number") };
    assert_eq!(store.search(here).await.unwrap().len(), 7);
}

#[tokio::test]
async fn facts_of_projects_are_kept() {
    let place = Place::new();
    let store = place.open("own_test").await;
    let rule = |pattern: &str| everturn_model::permission::Rule {
        permission: "bash".into(),
        pattern: pattern.into(),
        action: everturn_model::permission::Action::Allow,
    };
    store.approve("global", vec![rule("ls"), rule("cat"), rule("ls")], 5).await.unwrap();
    store.approve("global", vec![rule("ls")], 6).await.unwrap();
    assert_eq!(store.approvals("global").await.unwrap().len(), 2);
    store.put_project("p", "{}".into()).await.unwrap();
    store.put_project("p", "{\"a\":1}".into()).await.unwrap();
    assert_eq!(store.projects().await.unwrap(), [("p".to_owned(), "{\"a\":1}".to_owned())]);
}
