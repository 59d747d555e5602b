//! Bills: each use is a line, the lines of a session come to what it has spent, and all of them are added up.

use everturn_model::event::Seed;
use everturn_model::session::{ModelRef, Spent};
use everturn_model::tree::Node;
use everturn_model::{Body, Entry, Event, Money, SessionId, Tokens};
use everturn_store::{Store, UseGroup, UseKey, UseQuery, UseSum};

use crate::events::{append, at, creation, ended, new, session, session_id, started, turn};
use crate::place::{Place, contract};

contract![
    uses_are_added_up_by_model_project_and_time,
    uses_of_the_project_of_everything_else_are_added_up_by_folder,
    an_import_is_billed_to_the_models_of_its_answers_and_no_higher_than_it_says,
    a_family_has_used_what_all_of_it_used_wherever_they_are,
    what_was_deleted_for_good_is_in_no_bill,
];

const DAY: i64 = 86_400_000;

fn tokens(input: u64) -> Tokens {
    Tokens { input, ..Tokens::default() }
}

fn by(name: &str) -> ModelRef {
    ModelRef { provider: "p".into(), model: name.into(), variant: None }
}

fn step(model: &str) -> Entry {
    let mut turn = turn(None);
    turn.body.assistant_mut().unwrap().model = Some(by(model));
    turn
}

/// A step of a model at a time.
async fn used(store: &Store, id: &SessionId, model: &str, time: i64, input: u64, cost: &str) {
    let step = step(model);
    let done = at(time, ended(&step, tokens(input), cost.parse().unwrap()).event);
    append(store, id, vec![started(&step), done]).await;
}

fn sum(key: UseKey, sessions: u64, uses: u64, input: u64, cost: &str) -> UseSum {
    UseSum { key, sessions, uses, tokens: tokens(input), cost: cost.parse().unwrap() }
}

fn model(name: &str) -> UseKey {
    UseKey::Model(Some(("p".into(), name.into())))
}

async fn uses(store: &Store, group: UseGroup, since: i64) -> Vec<UseSum> {
    store.uses(UseQuery { group, since }).await.unwrap()
}

async fn uses_are_added_up_by_model_project_and_time(place: &Place) {
    let store = place.open("own_a").await;
    assert_eq!(uses(&store, UseGroup::Everything, i64::MIN).await, []);
    let [one, two] = [session_id(), session_id()];
    let mut other = session(&two);
    other.project = "other".to_owned();
    append(&store, &one, vec![creation(session(&one))]).await;
    append(&store, &two, vec![creation(other)]).await;
    used(&store, &one, "large", DAY, 10, "0.1").await;
    used(&store, &one, "small", DAY + 1, 1, "0.2").await;
    used(&store, &two, "large", 2 * DAY - 1, 20, "0.0000000003").await;
    used(&store, &two, "large", 2 * DAY, 40, "0.0000000003").await;
    let title = Event::UsageRecorded {
        source: "title".into(),
        model: Some(by("small")),
        tokens: tokens(2),
        cost: Money::ZERO,
        failed: false,
    };
    append(&store, &two, vec![at(3 * DAY, title), new(nothing())]).await;

    // Of a cost, what counts is what the session's sum grew by in billionths: of two times 0.3 of one that is one.
    let all = sum(UseKey::Everything, 2, 5, 73, "0.300000001");
    assert_eq!(uses(&store, UseGroup::Everything, i64::MIN).await, [all]);
    let models = [sum(model("large"), 2, 3, 70, "0.100000001"), sum(model("small"), 2, 2, 3, "0.2")];
    assert_eq!(uses(&store, UseGroup::Model, i64::MIN).await, models);
    let project = |id: &str| UseKey::Project(id.to_owned());
    let projects = [sum(project("global"), 1, 2, 11, "0.3"), sum(project("other"), 1, 3, 62, "0.000000001")];
    let by_project = UseGroup::Project { by_folder: "none".to_owned() };
    assert_eq!(uses(&store, by_project, i64::MIN).await, projects);
    let spans = UseGroup::Spans(vec![(i64::MIN >> 3, DAY), (DAY, 2 * DAY), (2 * DAY, i64::MAX >> 3)]);
    let days = [sum(UseKey::Span(1), 2, 3, 31, "0.3"), sum(UseKey::Span(2), 1, 2, 42, "0.000000001")];
    assert_eq!(uses(&store, spans.clone(), i64::MIN).await, days);

    let late = [sum(UseKey::Span(1), 1, 1, 20, "0"), sum(UseKey::Span(2), 1, 2, 42, "0.000000001")];
    assert_eq!(uses(&store, spans, DAY + 2).await, late);
    assert_eq!(store.first_use().await.unwrap(), Some(DAY));
    assert_eq!(store.settle_bills().await.unwrap(), []);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

async fn uses_of_the_project_of_everything_else_are_added_up_by_folder(place: &Place) {
    let store = place.open("own_a").await;
    for (project, folder, input) in [
        ("global", "/a", 1),
        ("global", "/b", 10),
        ("global", "/a", 100),
        ("global", "", 1000),
        ("own", "/a", 10_000),
        ("own", "/a/inner", 100_000),
    ] {
        let id = session_id();
        let mut session = session(&id);
        (session.project, session.directory) = (project.to_owned(), folder.to_owned());
        append(&store, &id, vec![creation(session)]).await;
        used(&store, &id, "m", DAY, input, "0").await;
    }
    let project = |id: &str| UseKey::Project(id.to_owned());
    let folder = |path: &str| UseKey::Folder(path.to_owned());
    let expected = [
        // A session that names no folder.
        sum(project("global"), 1, 1, 1000, "0"),
        sum(project("own"), 2, 2, 110_000, "0"),
        sum(folder("/a"), 2, 2, 101, "0"),
        sum(folder("/b"), 1, 1, 10, "0"),
    ];
    let by_project = UseGroup::Project { by_folder: "global".to_owned() };
    assert_eq!(uses(&store, by_project.clone(), i64::MIN).await, expected);
    assert_eq!(uses(&store, by_project, DAY + 1).await, []);
}

/// A use of nothing, which is no line.
fn nothing() -> Event {
    Event::UsageRecorded {
        source: "title".into(),
        model: None,
        tokens: Tokens::default(),
        cost: Money::ZERO,
        failed: false,
    }
}

async fn an_import_is_billed_to_the_models_of_its_answers_and_no_higher_than_it_says(place: &Place) {
    let store = place.open("own_a").await;
    let answer = |model: &str, time: i64, cost: &str| {
        let mut entry = step(model);
        if let Body::Assistant(assistant) = &mut entry.body {
            (assistant.tokens, assistant.cost) = (tokens(10), cost.parse().unwrap());
            assistant.completed = Some(time);
        }
        Node::new(entry, Vec::new())
    };
    for (spent, cost) in [(15, "1.25"), (100, "9")] {
        let id = session_id();
        let mut whole = session(&id);
        whole.spent = Spent { tokens: tokens(spent), cost: cost.parse().unwrap() };
        whole.time.updated = 9 * DAY;
        let nodes = vec![answer("large", DAY, "1"), answer("small", 2 * DAY, "0.5")];
        let seed = Box::new(Seed { nodes, ..Seed::default() });
        let import = Event::SessionImported { dialect: "opencode".into(), seed };
        append(&store, &id, vec![creation(whole), new(import)]).await;
    }
    let models = [
        // The rest of the second; the first has none.
        sum(UseKey::Model(None), 1, 1, 80, "7.5"),
        sum(model("large"), 2, 2, 20, "2"),
        // Of the first, no more than it says: 5 tokens and a quarter.
        sum(model("small"), 2, 2, 15, "0.75"),
    ];
    assert_eq!(uses(&store, UseGroup::Model, i64::MIN).await, models);
    let spans = UseGroup::Spans(vec![(DAY, 2 * DAY), (2 * DAY, 3 * DAY), (9 * DAY, 10 * DAY)]);
    let days = [
        sum(UseKey::Span(0), 2, 2, 20, "2"),
        sum(UseKey::Span(1), 2, 2, 15, "0.75"),
        sum(UseKey::Span(2), 1, 1, 80, "7.5"),
    ];
    assert_eq!(uses(&store, spans, i64::MIN).await, days);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

async fn a_family_has_used_what_all_of_it_used_wherever_they_are(place: &Place) {
    let store = place.open("own_a").await;
    let [root, child, grandchild, stranger] = [(); 4].map(|()| session_id());
    let of = |id: &SessionId, parent: Option<&SessionId>| {
        let mut session = session(id);
        session.parent = parent.cloned();
        vec![creation(session)]
    };
    append(&store, &root, of(&root, None)).await;
    append(&store, &child, of(&child, Some(&root))).await;
    append(&store, &grandchild, of(&grandchild, Some(&child))).await;
    append(&store, &stranger, of(&stranger, None)).await;
    used(&store, &root, "m", 1, 1, "0.1").await;
    used(&store, &child, "m", 1, 10, "0.02").await;
    used(&store, &grandchild, "m", 1, 100, "0.003").await;
    used(&store, &stranger, "m", 1, 1000, "5").await;
    append(&store, &grandchild, vec![new(Event::SessionTrashed {})]).await;
    let asked = vec![root.clone(), child.clone(), session_id()];
    let totals = store.family_totals(asked).await.unwrap();
    let found = |id: &SessionId| {
        let total = &totals[id];
        (total.sessions, total.tokens.input, total.cost)
    };
    assert_eq!(totals.len(), 2);
    assert_eq!(found(&root), (3, 111, "0.123".parse().unwrap()));
    assert_eq!(found(&child), (2, 110, "0.023".parse().unwrap()));
}

async fn what_was_deleted_for_good_is_in_no_bill(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    append(&store, &id, vec![creation(session(&id))]).await;
    used(&store, &id, "m", 1, 1, "0.1").await;
    assert!(store.purge(&id, 7).await.unwrap());
    assert_eq!(uses(&store, UseGroup::Everything, i64::MIN).await, []);
    assert_eq!(store.first_use().await.unwrap(), None);
}
