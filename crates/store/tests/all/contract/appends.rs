//! Appending: whole or not at all, in order, by the right that was named, and as the observer hears it.

use std::sync::Arc;

use everturn_model::event::Amendment;
use everturn_model::fold::{self, Changes};
use everturn_model::inbox::{Delivery, InboxItem, WAITING_LIMIT};
use everturn_model::json::DEPTH_LIMIT;
use everturn_model::part::PartKind;
use everturn_model::request::{CallRef, Request};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_model::{Body, Entry, EntryId, Event, Map, PartId, Record, RequestId, Session, SessionId, Tree};
use everturn_store::{Appended, ArchivedSessions, Authority, Error, Filter, Lease, NewEvent, Search, Store};

use crate::events::{
    NOW, added, admitted, amended, answered, append, asked, begin, chain, created, entry_id, leaf_moved, log,
    new, note, part_started, permission, promoted, prompt, session, session_id, staged, started, text,
    titled, todo, tool, tree, turn, unfit,
};
use crate::listener::Listener;
use crate::place::{Place, contract};

contract![
    a_session_begins_with_its_creation_and_only_there,
    a_creation_names_the_session_it_is_appended_to,
    the_answer_says_where_the_events_are_and_what_the_session_is_now,
    a_batch_with_one_bad_event_leaves_nothing_behind,
    what_was_acknowledged_is_there_for_every_store_and_after_reopening,
    any_text_comes_back_as_it_was,
    an_open_append_needs_no_lease_and_an_owned_one_does,
    an_owned_append_is_refused_unless_owner_epoch_and_session_are_right,
    a_prompt_is_not_admitted_while_a_revert_is_staged,
    no_more_prompts_wait_than_may,
    what_could_never_be_read_again_is_not_stored,
    the_observer_hears_of_each_event_in_order_with_the_rows_it_touched,
    an_event_of_many_comes_with_the_rows_that_it_touched_and_no_others,
    an_event_that_changes_the_path_comes_with_the_whole_session,
    the_observer_hears_neither_of_refusals_nor_of_repeats,
];

async fn a_session_begins_with_its_creation_and_only_there(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    let early = store.append(&id, Authority::Open, vec![titled("x")]).await;
    assert!(matches!(&early, Err(Error::NoSession(found)) if *found == id), "{early:?}");
    let nothing = store.append(&id, Authority::Open, Vec::new()).await;
    assert!(matches!(&nothing, Err(Error::NoSession(found)) if *found == id), "{nothing:?}");
    assert_eq!(store.session(&id).await.unwrap(), None);
    append(&store, &id, vec![created(&id)]).await;
    let twice = store.append(&id, Authority::Open, vec![created(&id)]).await;
    assert!(matches!(&twice, Err(Error::Exists(found)) if *found == id), "{twice:?}");
    let later = store.append(&id, Authority::Open, vec![titled("x"), created(&id)]).await;
    assert!(matches!(&later, Err(Error::Exists(found)) if *found == id), "{later:?}");
    assert_eq!(log(&store, &id).await.len(), 1);
}

async fn a_creation_names_the_session_it_is_appended_to(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (session_id(), session_id());
    let refused = store.append(&id, Authority::Open, vec![created(&other)]).await;
    assert!(matches!(&refused, Err(Error::Unfit { session, .. }) if *session == id), "{refused:?}");
    assert_eq!((store.session(&id).await.unwrap(), store.session(&other).await.unwrap()), (None, None));
}

async fn the_answer_says_where_the_events_are_and_what_the_session_is_now(place: &Place) {
    let store = place.open("own_a").await;
    let id = session_id();
    let first = append(&store, &id, vec![created(&id), titled("b")]).await;
    let renamed = Session { title: "b".into(), ..first.session.as_ref().clone() };
    assert_eq!(first, Appended { first: 0, seq: 1, session: Arc::new(renamed), fresh: true });
    let second = append(&store, &id, vec![titled("c"), titled("d"), titled("e")]).await;
    let session = store.session(&id).await.unwrap().unwrap();
    assert_eq!(session.title, "e");
    assert_eq!(second, Appended { first: 2, seq: 4, session: Arc::new(session), fresh: true });
}

/// What can be seen of a session in all ways.
async fn everything(store: &Store, id: &SessionId) -> impl PartialEq + std::fmt::Debug + use<> {
    let search = Search { text: "lost".into(), limit: 10, ..Search::default() };
    (
        log(store, id).await,
        tree(store, id).await,
        store.sessions(Filter { archived: ArchivedSessions::Included, ..Filter::default() }).await.unwrap(),
        store.requests().await.unwrap(),
        store.search(search).await.unwrap(),
        store.unfinished().await.unwrap(),
    )
}

async fn a_batch_with_one_bad_event_leaves_nothing_behind(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    chain(&store, &id, 2).await;
    let before = everything(&store, &id).await;
    let request = permission("per_lost");
    let good = || {
        vec![
            titled("lost"),
            admitted(&prompt("lost")),
            asked(&request),
            new(Event::TodoUpdated { todos: vec![todo("lost")] }),
            added(&note(None, "lost"), vec![text("lost")]),
        ]
    };
    for at in 0..=good().len() {
        let mut batch = good();
        batch.insert(at, unfit());
        let refused = store.append(&id, Authority::Open, batch).await;
        let missing = |error: &fold::Error| matches!(error, fold::Error::Missing { .. });
        assert!(matches!(&refused, Err(Error::Unfit { source, .. }) if missing(source)), "{refused:?}");
        assert_eq!(everything(&store, &id).await, before, "the bad one at {at}");
    }
    let fresh = session_id();
    let refused = store.append(&fresh, Authority::Open, vec![created(&fresh), titled("lost"), unfit()]).await;
    assert!(matches!(refused, Err(Error::Unfit { .. })), "{refused:?}");
    assert_eq!(store.session(&fresh).await.unwrap(), None, "not even the session");
    assert_eq!(everything(&store, &id).await, before);
}

async fn what_was_acknowledged_is_there_for_every_store_and_after_reopening(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    for number in 0..20 {
        let (writer, reader) = if number % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let title = format!("title {number}");
        append(writer, &id, vec![titled(&title)]).await;
        assert_eq!(reader.session(&id).await.unwrap().unwrap().title, title);
    }
    let before = everything(&one, &id).await;
    drop((one, two));
    let again = place.open("own_c").await;
    assert_eq!(everything(&again, &id).await, before);
    let log = log(&again, &id).await;
    assert_eq!(fold::replay(&log).unwrap(), again.tree(&id).await.unwrap());
}

async fn any_text_comes_back_as_it_was(place: &Place) {
    let store = place.open("own_a").await;
    let texts = [
        "",
        " ",
        "'; DROP TABLE session; --",
        "\\ \\u0000 \\x00 %_ $1 ?1",
        "nul \0 within",
        "\0",
        "tab\t line\r\n bell\u{7} escape\u{1b}[0m",
        "ẞ İ ﬁ Σς 漢字 한글 👩‍👩‍👧 \u{202e}right\u{202c}",
        "\u{fffd} \u{feff} \u{ffff} \u{10ffff}",
        "e\u{301} é",
    ];
    for words in texts {
        let id = session_id();
        let mut session = session(&id);
        for field in [&mut session.title, &mut session.project, &mut session.directory, &mut session.slug] {
            words.clone_into(field);
        }
        let first = crate::events::creation(session.clone());
        append(&store, &id, vec![first]).await;
        let events = vec![
            admitted(&prompt(words)),
            added(&note(None, words), vec![text(words)]),
            new(Event::TodoUpdated { todos: vec![todo(words)] }),
            titled(words),
        ];
        append(&store, &id, events).await;
        let log = log(&store, &id).await;
        assert_eq!(log[0].event, Event::SessionCreated { session: Box::new(session) }, "{words:?}");
        assert_eq!(fold::replay(&log).unwrap(), store.tree(&id).await.unwrap(), "{words:?}");
        let filter = Filter { search: Some(words.to_owned()), ..Filter::default() };
        let found = store.sessions(filter).await.unwrap();
        assert!(found.iter().any(|found| found.id == id), "a title is found by itself: {words:?}");
        let filter = Filter { project: Some(words.to_owned()), ..Filter::default() };
        let ids: Vec<SessionId> =
            store.sessions(filter).await.unwrap().into_iter().map(|found| found.id).collect();
        assert_eq!(ids, [id], "and by its project: {words:?}");
    }
}

async fn an_open_append_needs_no_lease_and_an_owned_one_does(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let id = begin(&one).await;
    let lease = one.acquire(&id).await.unwrap();
    append(&two, &id, vec![titled("from elsewhere")]).await;
    append(&one, &id, vec![titled("from the owner, as anybody")]).await;
    one.append(&id, Authority::Owned(lease.clone()), vec![titled("from the owner")]).await.unwrap();
    // The lease is the right, not the handle through which it is used.
    two.append(&id, Authority::Owned(lease), vec![titled("for the owner")]).await.unwrap();
    assert_eq!(log(&one, &id).await.len(), 5);
}

async fn an_owned_append_is_refused_unless_owner_epoch_and_session_are_right(place: &Place) {
    let store = place.open("own_a").await;
    let (id, other) = (begin(&store).await, begin(&store).await);
    let lease = store.acquire(&id).await.unwrap();
    store.acquire(&other).await.unwrap();
    let wrong = [
        Lease { owner: "own_b".into(), ..lease.clone() },
        Lease { epoch: lease.epoch + 1, ..lease.clone() },
        Lease { epoch: lease.epoch - 1, ..lease.clone() },
        Lease { session: other.clone(), ..lease.clone() },
    ];
    for wrong in wrong {
        let refused = store.append(&id, Authority::Owned(wrong.clone()), vec![titled("no")]).await;
        assert!(matches!(&refused, Err(Error::Fenced(found)) if *found == id), "{wrong:?}: {refused:?}");
    }
    let nowhere = Lease { session: session_id(), ..lease.clone() };
    let refused = store.append(&nowhere.session.clone(), Authority::Owned(nowhere), vec![titled("no")]).await;
    assert!(matches!(refused, Err(Error::NoSession(_))), "{refused:?}");
    assert_eq!(log(&store, &id).await.len(), 1);
    store.append(&id, Authority::Owned(lease), vec![titled("yes")]).await.unwrap();
}

async fn a_prompt_is_not_admitted_while_a_revert_is_staged(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let entries = chain(&store, &id, 2).await;
    let lease = store.acquire(&id).await.unwrap();
    let (first, second) = (prompt("before"), prompt("meanwhile"));
    store.append(&id, Authority::Admission, vec![admitted(&first)]).await.unwrap();
    append(&store, &id, vec![staged(&entries[1].id)]).await;
    let before = log(&store, &id).await;
    let refused = store.append(&id, Authority::Admission, vec![admitted(&second)]).await;
    assert!(matches!(&refused, Err(Error::Staged(found)) if *found == id), "{refused:?}");
    assert_eq!(log(&store, &id).await, before);
    append(&store, &id, vec![titled("anybody may still rename it")]).await;
    store.append(&id, Authority::Owned(lease), vec![new(Event::RevertCleared {})]).await.unwrap();
    store.append(&id, Authority::Admission, vec![admitted(&second)]).await.unwrap();
    assert_eq!(tree(&store, &id).await.inbox, [first, second].into_iter().collect());
}

async fn no_more_prompts_wait_than_may(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let items: Vec<InboxItem> = (1..WAITING_LIMIT).map(|_| prompt("waits")).collect();
    append(&store, &id, items.iter().map(admitted).collect()).await;
    let (last, more) = (admitted(&prompt("last")), admitted(&prompt("more")));
    store.append(&id, Authority::Admission, vec![last.clone()]).await.unwrap();
    let refused = store.append(&id, Authority::Admission, vec![more.clone()]).await;
    assert!(matches!(&refused, Err(Error::InboxFull(found)) if *found == id), "{refused:?}");
    assert_eq!(tree(&store, &id).await.inbox.len() as u64, WAITING_LIMIT);
    // What is there already is answered again, and what one leaves another takes.
    assert!(!store.append(&id, Authority::Admission, vec![last]).await.unwrap().fresh);
    append(&store, &id, vec![new(Event::PromptCancelled { id: items[0].id.clone() })]).await;
    store.append(&id, Authority::Admission, vec![more]).await.unwrap();
}

async fn what_could_never_be_read_again_is_not_stored(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let with = |levels: usize| {
        let deep = (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        let mut part = text("words");
        if let PartKind::Text { metadata, .. } = &mut part.kind {
            *metadata = Some(Map::from_iter([("deep".to_owned(), deep)]));
        }
        InboxItem { parts: vec![part], ..prompt("deep") }
    };
    let before = log(&store, &id).await;
    let refused = store.append(&id, Authority::Open, vec![titled("no"), admitted(&with(123))]).await;
    assert!(matches!(&refused, Err(Error::TooDeep { session, .. }) if *session == id), "{refused:?}");
    assert_eq!(log(&store, &id).await, before);
    // What may come from outside is stored, through all that becomes of it.
    let item = with(DEPTH_LIMIT);
    append(&store, &id, vec![admitted(&item)]).await;
    append(&store, &id, vec![promoted(&item, None)]).await;
    assert_eq!(tree(&store, &id).await.node(&item.id).unwrap().parts, item.parts);
    assert!(store.verify(&id).await.unwrap().is_sound());
}

async fn the_observer_hears_of_each_event_in_order_with_the_rows_it_touched(place: &Place) {
    let (store, mut listener) = Listener::open(place, "own_a").await;
    let id = session_id();
    let item = prompt("hello");
    let batch = vec![created(&id), titled("b"), admitted(&item), promoted(&item, None), titled("c")];
    append(&store, &id, batch).await;
    let heard = listener.events();
    let told: Vec<Record> = heard.iter().map(|committed| Record::clone(&committed.record)).collect();
    assert_eq!(told, log(&store, &id).await, "all of them, before the append was answered");
    let mut expected: Option<Tree> = None;
    for committed in &heard {
        let before = expected.as_ref().map(|tree| tree.session.clone());
        assert_eq!(committed.before, before);
        let changes = match &mut expected {
            None => {
                expected = Some(fold::begin(&committed.record).unwrap());
                Changes::default()
            }
            Some(tree) => fold::apply(tree, &committed.record).unwrap(),
        };
        let (whole, touched) = (expected.as_ref().unwrap(), &committed.tree);
        assert_eq!(touched.session, whole.session);
        for id in &changes.entries {
            assert_eq!(touched.node(id), whole.node(id));
        }
        for id in &changes.inbox {
            assert_eq!(touched.waiting(id), whole.waiting(id));
        }
    }
}

/// The ids of the rows beside an event: entries with their parts, waiting prompts, requests, tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RowIds {
    nodes: Vec<(EntryId, Vec<PartId>)>,
    inbox: Vec<EntryId>,
    requests: Vec<RequestId>,
    todos: Vec<String>,
}

impl RowIds {
    fn of(tree: &Tree) -> Self {
        let parts = |node: &Node| node.parts.iter().map(|part| part.id.clone()).collect();
        Self {
            nodes: tree.nodes().iter().map(|node| (node.entry.id.clone(), parts(node))).collect(),
            inbox: tree.inbox.iter().map(|item| item.id.clone()).collect(),
            requests: tree.requests.keys().cloned().collect(),
            todos: tree.todos.iter().map(|todo| todo.content.clone()).collect(),
        }
    }

    /// One entry and some of its parts.
    fn node(entry: &EntryId, parts: &[&PartId]) -> Self {
        Self::default().and(entry, parts)
    }

    /// An entry more.
    fn and(mut self, entry: &EntryId, parts: &[&PartId]) -> Self {
        self.nodes.push((entry.clone(), parts.iter().copied().cloned().collect()));
        self
    }

    /// A waiting prompt.
    fn prompt(item: &InboxItem) -> Self {
        Self { inbox: vec![item.id.clone()], ..Self::default() }
    }
}

async fn an_event_of_many_comes_with_the_rows_that_it_touched_and_no_others(place: &Place) {
    // Each event of an append once carried the rows of all of them: a thousand prompts that were stopped together were a
    // million rows.
    let (one, mut here) = Listener::open(place, "own_a").await;
    let (_two, mut there) = Listener::open(place, "own_b").await;
    let id = begin(&one).await;
    let (first, second) = (prompt("first"), prompt("second"));
    let entry = note(None, "a note");
    let (above, below) = (text("above"), text("below"));
    let step = turn(Some(&entry.id));
    let [call, idle] = ["call_a", "call_b"].map(tool);
    let mut request = permission("per_of_the_call");
    let own_call = CallRef { entry: step.id.clone(), call: "call_a".into(), part: Some(call.id.clone()) };
    request.call = Some(own_call);
    let result = Box::new(ToolResult::new("call_a", "bash", Outcome::Completed, "done"));
    let settled = Entry::new(entry_id(), Some(step.id.clone()), NOW, Body::ToolResult { result });
    let waiting = Request { call: None, ..permission("per_of_nobody") };
    let begun = Event::ToolBegun { entry: step.id.clone(), part: call.id.clone(), forecast: Vec::new() };
    let settles = Event::ToolSettled {
        entry: Box::new(settled.clone()),
        assistant: Some(step.id.clone()),
        part: Some(call.id.clone()),
    };
    let todos = vec![todo("a task")];
    let asks = |request: &Request| RowIds { requests: vec![request.id.clone()], ..RowIds::default() };
    let batch = vec![
        (new(Event::TodoUpdated { todos }), RowIds { todos: vec!["a task".into()], ..RowIds::default() }),
        (asked(&waiting), asks(&waiting)),
        (admitted(&first), RowIds::prompt(&first)),
        (admitted(&second), RowIds::prompt(&second)),
        (added(&entry, vec![above.clone(), below.clone()]), RowIds::node(&entry.id, &[&above.id, &below.id])),
        (started(&step), RowIds::node(&step.id, &[])),
        (part_started(&step.id, &call), RowIds::node(&step.id, &[&call.id])),
        (part_started(&step.id, &idle), RowIds::node(&step.id, &[&idle.id])),
        (
            asked(&request),
            RowIds { requests: vec![request.id.clone()], ..RowIds::node(&step.id, &[&call.id]) },
        ),
        (answered(&request), RowIds::node(&step.id, &[&call.id])),
        (new(begun), RowIds::node(&step.id, &[&call.id])),
        (new(settles), RowIds::node(&settled.id, &[]).and(&step.id, &[&call.id])),
        (amended(&entry.id, Some(&below.id), Amendment::Hide), RowIds::node(&entry.id, &[&below.id])),
        (amended(&entry.id, None, Amendment::Hide), RowIds::node(&entry.id, &[])),
        (
            new(Event::PromptRerouted { id: second.id.clone(), delivery: Delivery::Steer }),
            RowIds::prompt(&second),
        ),
        (new(Event::PromptCancelled { id: second.id.clone() }), RowIds::default()),
        (titled("a name"), RowIds::default()),
        (new(Event::InterruptRequested {}), RowIds::default()),
        (promoted(&first, Some(&settled.id)), RowIds::node(&first.id, &[&first.parts[0].id])),
    ];
    let (events, mut expected): (Vec<NewEvent>, Vec<RowIds>) = batch.into_iter().unzip();
    let title = events.iter().find_map(|new| match &new.event {
        Event::TitleChanged { entry, .. } => Some(entry.clone()),
        _ => None,
    });
    expected[16] = RowIds::node(&title.unwrap(), &[]);
    append(&one, &id, events).await;
    let own = here.events().split_off(1);
    let found: Vec<RowIds> = own.iter().map(|committed| RowIds::of(&committed.tree)).collect();
    assert_eq!(found, expected);
    // As they are right after the event.
    let log = log(&one, &id).await;
    let mut whole = fold::begin(&log[0]).unwrap();
    for committed in &own {
        fold::apply(&mut whole, &committed.record).unwrap();
        let tree = &committed.tree;
        assert_eq!(tree.session, whole.session);
        for node in tree.nodes() {
            let now = whole.node(&node.entry.id).unwrap();
            assert_eq!(node.entry, now.entry);
            assert!(node.parts.iter().all(|part| now.part(&part.id) == Some(part)), "{node:?}");
        }
        assert!(tree.inbox.iter().all(|item| whole.waiting(&item.id) == Some(item)), "{tree:?}");
        assert!(
            tree.requests.iter().all(|(id, request)| whole.requests.get(id) == Some(request)),
            "{tree:?}"
        );
    }
    // To another process the same comes later: what waited is an entry or gone, and the parts of a prompt were told when
    // it was admitted.
    let mut far = expected;
    far[2] = RowIds { inbox: vec![first.id.clone()], ..RowIds::node(&first.id, &[]) };
    far[14] = RowIds::default();
    far[18] = RowIds::node(&first.id, &[]);
    let mut found = Vec::new();
    assert_eq!(there.event().await.record.seq, 0);
    for _ in &far {
        found.push(RowIds::of(&there.event().await.tree));
    }
    assert_eq!(found, far);
}

async fn an_event_that_changes_the_path_comes_with_the_whole_session(place: &Place) {
    // Whoever shows the path has to show other rows than before.
    let (store, mut listener) = Listener::open(place, "own_a").await;
    let id = begin(&store).await;
    let first = note(None, "first");
    let second = note(Some(&first.id), "second");
    let waiting = prompt("waiting");
    let rows = vec![added(&first, vec![text("a")]), added(&second, vec![text("b")]), admitted(&waiting)];
    append(&store, &id, rows).await;
    append(&store, &id, vec![leaf_moved(Some(&second.id), Some(&first.id))]).await;
    let told = listener.events().pop().unwrap();
    assert_eq!(told.tree, store.tree(&id).await.unwrap().unwrap());
    assert_eq!(told.tree.nodes().len(), 2);
}

async fn the_observer_hears_neither_of_refusals_nor_of_repeats(place: &Place) {
    let (one, mut listener) = Listener::open(place, "own_a").await;
    let id = begin(&one).await;
    let event: NewEvent = titled("b");
    append(&one, &id, vec![event.clone()]).await;
    append(&one, &id, vec![event]).await;
    let refused = one.append(&id, Authority::Open, vec![titled("no"), unfit()]).await;
    assert!(matches!(refused, Err(Error::Unfit { .. })), "{refused:?}");
    append(
        &one,
        &id,
        vec![new(Event::TitleChanged { entry: entry_id(), parent: None, title: "c".into(), replaces: None })],
    )
    .await;
    let seqs: Vec<u64> = listener.events().iter().map(|committed| committed.record.seq).collect();
    assert_eq!(seqs, [0, 1, 2]);
}
