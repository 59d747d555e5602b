//! Lists of sessions: every filter against a plain one in memory, pages, and what sessions have used.

use std::collections::{BTreeMap, BTreeSet};

use everturn_model::event::SessionChange;
use everturn_model::usage::Cache;
use everturn_model::{Event, Money, Session, SessionId, Tokens};
use everturn_store::{ArchivedSessions, Filter, PageRequest, Store, Totals};

use crate::events::{
    NOW, admitted, append, at, changed, creation, ended, prompt, session, session_id, started, turn, used,
};
use crate::place::{Place, contract};

contract![
    every_filter_alone_and_with_others_finds_what_it_says,
    a_limit_takes_the_first_ones,
    pages_show_each_session_once_also_when_many_were_active_at_the_same_moment,
    a_page_is_never_larger_than_asked_for_or_a_thousand,
    who_is_active_between_pages_moves_to_the_front_and_nobody_shows_twice,
    totals_are_the_sums_of_what_sessions_spent_by_every_filter,
];

const TITLES: [&str; 6] =
    ["Straße nach Ägypten", "STRASSE", "漢字 TITLE", "100%_done \\ it's", "İstanbul", "plain title"];

/// Sessions of every sort, in the order in which they were made, as they are in the end.
async fn many(store: &Store) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..40_usize {
        let mut new = session(&session_id());
        let moment = NOW + i64::try_from(number % 5).unwrap();
        new.title = TITLES[number % TITLES.len()].to_owned();
        new.project = format!("project {}", number % 2);
        new.directory = format!("/srv/{}", number / 2 % 2);
        new.time.updated = moment;
        // Some belong to others.
        if number % 7 == 3 {
            new.parent = sessions.first().map(|parent| parent.id.clone());
        }
        let tokens = Tokens { input: 1000 + u64::try_from(number).unwrap(), ..Tokens::default() };
        let mut events = vec![creation(new.clone()), used(tokens, Money::from_f64(0.000_001_5))];
        if number % 4 == 1 {
            events.push(changed(SessionChange::Archived { time: Some(NOW) }));
        }
        if number % 9 == 4 {
            let step = turn(None);
            let cache = Cache { read: 7, write: 3 };
            let tokens = Tokens { total: Some(99), input: 5, output: 11, reasoning: 2, cache };
            events.extend([started(&step), ended(&step, tokens, Money::from_f64(0.25))]);
        }
        if number % 6 == 2 {
            events.push(at(NOW, Event::SessionTrashed {}));
        }
        let last = append(store, &new.id, events).await;
        sessions.push(last.session.as_ref().clone());
    }
    sessions
}

fn fits(filter: &Filter, session: &Session) -> bool {
    let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    let found = |text: &String| session.title.to_lowercase().contains(&text.to_lowercase());
    is(&filter.project, &session.project)
        && is(&filter.directory, &session.directory)
        && (!filter.roots || session.parent.is_none())
        && (filter.parent.is_none() || session.parent == filter.parent)
        && filter.search.as_ref().is_none_or(found)
        && filter.since.is_none_or(|since| session.time.updated >= since)
        && match filter.archived {
            ArchivedSessions::Excluded => filter.trashed || session.time.archived.is_none(),
            ArchivedSessions::Included => true,
            ArchivedSessions::Only => session.time.archived.is_some(),
        }
        && filter.trashed == session.time.trashed.is_some()
}

/// What a filter means, newest activity first; of one moment, the last one made first.
fn naive(filter: &Filter, sessions: &[Session]) -> Vec<Session> {
    let mut found: Vec<Session> =
        sessions.iter().rev().filter(|session| fits(filter, session)).cloned().collect();
    found.sort_by_key(|session| std::cmp::Reverse(session.time.updated));
    found
}

const ARCHIVED: [ArchivedSessions; 3] =
    [ArchivedSessions::Excluded, ArchivedSessions::Included, ArchivedSessions::Only];

/// Every combination of filters.
fn filters() -> Vec<Filter> {
    let some = |text: &str| Some(text.to_owned());
    let flags = [false, true];
    let mut all = Vec::new();
    for project in [None, some("project 1"), some("Project 1")] {
        for directory in [None, some("/srv/0")] {
            for search in [None, some("stra"), some("title"), some("%"), some("ÄGY")] {
                for since in [None, Some(NOW + 3)] {
                    for roots in flags {
                        for trashed in flags {
                            all.extend(ARCHIVED.map(|archived| Filter {
                                project: project.clone(),
                                directory: directory.clone(),
                                roots,
                                parent: None,
                                search: search.clone(),
                                since,
                                archived,
                                trashed,
                                limit: None,
                            }));
                        }
                    }
                }
            }
        }
    }
    all
}

async fn every_filter_alone_and_with_others_finds_what_it_says(place: &Place) {
    let store = place.open("own_a").await;
    let sessions = many(&store).await;
    for filter in filters() {
        let found = store.sessions(filter.clone()).await.unwrap();
        assert_eq!(found, naive(&filter, &sessions), "{filter:?}");
    }
    // Those that belong to one are found wherever they are.
    for (trashed, expected) in [(false, 5), (true, 1)] {
        let parent = sessions.first().map(|first| first.id.clone());
        let filter = Filter { parent, trashed, archived: ArchivedSessions::Included, ..Filter::default() };
        let found = store.sessions(filter.clone()).await.unwrap();
        assert_eq!(found, naive(&filter, &sessions), "{filter:?}");
        assert_eq!(found.len(), expected, "{filter:?}");
    }
    // Titles in any case, with the characters that mean something in patterns.
    let texts = [
        "", " ", "STRASSE", "straße", "STRAßE", "_", "%_", "\\", "'", "''", "İ", "i\u{307}", "漢字 t",
        "ägypten", "*",
    ];
    for text in texts {
        let filter = Filter {
            search: Some(text.to_owned()),
            archived: ArchivedSessions::Included,
            ..Filter::default()
        };
        let found = store.sessions(filter.clone()).await.unwrap();
        assert_eq!(found, naive(&filter, &sessions), "{text:?}");
    }
}

async fn a_limit_takes_the_first_ones(place: &Place) {
    let store = place.open("own_a").await;
    let sessions = many(&store).await;
    for limit in [0, 1, 5, 1000] {
        for archived in ARCHIVED {
            let filter = Filter { limit: Some(limit), roots: true, archived, ..Filter::default() };
            let mut expected = naive(&filter, &sessions);
            expected.truncate(usize::try_from(limit).unwrap());
            assert_eq!(store.sessions(filter).await.unwrap(), expected, "{archived:?}");
        }
    }
}

async fn all_pages(store: &Store, filter: Filter) -> Vec<Session> {
    let limit = usize::try_from(filter.limit.unwrap()).unwrap();
    let mut ask = PageRequest::First(filter);
    let mut found = Vec::new();
    loop {
        let page = store.page(ask).await.unwrap();
        let more = page.next.is_some();
        assert!(page.items.len() == limit || (!more && page.items.len() < limit), "{}", page.items.len());
        found.extend(page.items);
        match page.next {
            Some(next) => ask = PageRequest::After(next),
            None => return found,
        }
    }
}

async fn pages_show_each_session_once_also_when_many_were_active_at_the_same_moment(place: &Place) {
    let store = place.open("own_a").await;
    let sessions = many(&store).await;
    let (project, search) = (Some("project 0".to_owned()), Some("t".to_owned()));
    let questions = [
        Filter::default(),
        Filter { archived: ArchivedSessions::Included, ..Filter::default() },
        Filter { archived: ArchivedSessions::Only, ..Filter::default() },
        Filter { trashed: true, ..Filter::default() },
        Filter { project, roots: true, ..Filter::default() },
        Filter { search, since: Some(NOW + 1), ..Filter::default() },
        Filter { project: Some("none".into()), ..Filter::default() },
    ];
    for filter in questions {
        let expected = naive(&filter, &sessions);
        let exact = u32::try_from(expected.len()).unwrap().max(1);
        for limit in [1, 2, 7, exact] {
            let found = all_pages(&store, Filter { limit: Some(limit), ..filter.clone() }).await;
            assert_eq!(found, expected, "{filter:?} by {limit}");
        }
    }
}

async fn a_page_is_never_larger_than_asked_for_or_a_thousand(place: &Place) {
    let store = place.open("own_a").await;
    let sessions = many(&store).await;
    let first = async |limit| {
        let page = store
            .page(PageRequest::First(Filter {
                limit,
                archived: ArchivedSessions::Included,
                ..Filter::default()
            }))
            .await
            .unwrap();
        (page.items.len(), page.next.is_some())
    };
    let all = naive(&Filter { archived: ArchivedSessions::Included, ..Filter::default() }, &sessions).len();
    assert_eq!(first(Some(0)).await, (1, true), "a page has at least one");
    assert_eq!(first(Some(u32::MAX)).await, (all, false));
    assert_eq!(first(None).await, (all, false), "and some when nobody says");
}

/// What is promised while sessions become active between pages: activity moves a session to the front, before the
/// place where the reader is. So a session is shown once if it was not active meanwhile, or if it was shown before it
/// was; if it was active before its turn came, it is not shown, and a new first page has it. Nobody is shown twice.
async fn who_is_active_between_pages_moves_to_the_front_and_nobody_shows_twice(place: &Place) {
    let store = place.open("own_a").await;
    for limit in [1, 2, 7] {
        let project = format!("busy {limit}");
        let mut ids: Vec<SessionId> = Vec::new();
        for number in 0..30 {
            let mut new = session(&session_id());
            new.project.clone_from(&project);
            new.time.updated = NOW + number / 10;
            append(&store, &new.id, vec![creation(new.clone())]).await;
            ids.push(new.id);
        }
        let mut shown: BTreeMap<SessionId, usize> = BTreeMap::new();
        let mut active: BTreeSet<SessionId> = BTreeSet::new();
        let mut expected: BTreeSet<SessionId> = ids.iter().cloned().collect();
        let filter = Filter { project: Some(project.clone()), limit: Some(limit), ..Filter::default() };
        let mut ask = PageRequest::First(filter.clone());
        for round in 0_i64.. {
            let page = store.page(ask).await.unwrap();
            for session in page.items {
                *shown.entry(session.id).or_default() += 1;
            }
            let Some(next) = page.next else { break };
            ask = PageRequest::After(next);
            // One of them is active, and one is new.
            let busy = &ids[usize::try_from(round).unwrap() * 11 % ids.len()];
            append(&store, busy, vec![at(NOW + 100 + round, admitted(&prompt("hello")).event)]).await;
            active.insert(busy.clone());
            if !shown.contains_key(busy) {
                expected.remove(busy);
            }
            let mut late = session(&session_id());
            late.project.clone_from(&project);
            late.time.updated = NOW + 100 + round;
            append(&store, &late.id, vec![creation(late.clone())]).await;
        }
        assert!(shown.values().all(|times| *times == 1), "nobody is shown twice");
        assert_eq!(shown.into_keys().collect::<BTreeSet<_>>(), expected);
        let again: BTreeSet<SessionId> =
            all_pages(&store, filter).await.into_iter().map(|session| session.id).collect();
        assert!(active.is_subset(&again) && ids.iter().all(|id| again.contains(id)), "a new list has all");
    }
}

fn sums(sessions: &[Session]) -> Totals {
    let mut totals = Totals::default();
    for session in sessions {
        totals.sessions += 1;
        totals.tokens = totals.tokens.plus(&session.spent.tokens);
        totals.cost += Money::from_nanos(session.spent.cost.to_nanos());
    }
    totals
}

async fn totals_are_the_sums_of_what_sessions_spent_by_every_filter(place: &Place) {
    let store = place.open("own_a").await;
    assert_eq!(store.totals(Filter::default()).await.unwrap(), Totals::default());
    let sessions = many(&store).await;
    for filter in filters() {
        let totals = store.totals(filter.clone()).await.unwrap();
        assert_eq!(totals, sums(&naive(&filter, &sessions)), "{filter:?}");
        assert_eq!(totals.tokens.total, None);
    }
}
