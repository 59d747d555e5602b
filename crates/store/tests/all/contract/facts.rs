//! Facts that belong to no session, and what has to go on after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use everturn_model::permission::{Action, Rule};
use everturn_model::{Event, Money, SessionId, Tokens};
use everturn_store::{Authority, Error, NewEvent, Store};
use everturn_testkit::deadline::within;

use crate::events::{NOW, admitted, append, begin, ended, new, promoted, prompt, started, titled, turn};
use crate::place::{Place, contract};

contract![
    projects_are_remembered_as_they_were_last_given,
    approvals_are_remembered_once_for_each_folder_of_a_project,
    a_session_is_unfinished_while_a_turn_is_open_or_a_prompt_waits,
    an_open_turn_that_was_asked_to_stop_says_so_until_it_closes,
    prompts_that_waited_when_a_session_was_stopped_are_held,
    a_session_without_work_is_not_stopped,
    unfinished_sessions_of_dead_owners_are_orphans,
    unfinished_sessions_of_silent_owners_are_orphans,
    a_store_names_its_place_without_secrets,
];

async fn projects_are_remembered_as_they_were_last_given(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    assert_eq!(one.projects().await.unwrap(), []);
    let given = [("b", "{\"b\": 1}"), ("a_", "{}"), ("aa", "not for us to read \0"), ("B", ""), ("ä", "{}")];
    for (id, data) in given {
        one.put_project(id, data.to_owned()).await.unwrap();
    }
    two.put_project("b", "{\"b\": 2}".to_owned()).await.unwrap();
    let expected =
        [("B", ""), ("a_", "{}"), ("aa", "not for us to read \0"), ("b", "{\"b\": 2}"), ("ä", "{}")]
            .map(|(id, data)| (id.to_owned(), data.to_owned()));
    assert_eq!(one.projects().await.unwrap(), expected, "in the order of their ids");
    drop((one, two));
    assert_eq!(place.open("own_c").await.projects().await.unwrap(), expected);
}

async fn approvals_are_remembered_once_for_each_folder_of_a_project(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let rule = |permission: &str, pattern: &str| Rule::new(permission, pattern, Action::Allow);
    one.approve("p", "/a", vec![rule("bash", "ls *")], NOW + 1).await.unwrap();
    two.approve("p", "/a", vec![rule("edit", "*")], NOW).await.unwrap();
    one.approve("p", "/a", vec![rule("bash", "git *")], NOW + 2).await.unwrap();
    one.approve("q", "/a", vec![rule("bash", "rm *"), rule("bash", "ls *")], NOW).await.unwrap();
    two.approve("p", "/a", vec![rule("bash", "ls *")], NOW + 9).await.unwrap();
    one.approve("p", "/a", Vec::new(), NOW).await.unwrap();
    let expected = [rule("edit", "*"), rule("bash", "ls *"), rule("bash", "git *")];
    assert_eq!(
        one.approvals("p", "/a").await.unwrap(),
        expected,
        "in the order in which they were first given"
    );
    assert_eq!(two.approvals("q", "/a").await.unwrap().len(), 2);
    assert_eq!(two.approvals("P", "/a").await.unwrap(), []);
    // Clones share a project, and so does everything that is in no repository.
    assert_eq!(one.approvals("p", "/b").await.unwrap(), []);
    two.approve("p", "/b", vec![rule("bash", "ls *")], NOW + 3).await.unwrap();
    assert_eq!(one.approvals("p", "/b").await.unwrap(), [rule("bash", "ls *")]);
    assert_eq!(one.approvals("p", "").await.unwrap(), []);
    drop((one, two));
    assert_eq!(place.open("own_c").await.approvals("p", "/a").await.unwrap(), expected);
}

async fn unfinished(store: &Store) -> BTreeSet<SessionId> {
    let found = store.unfinished().await.unwrap();
    let ids: BTreeSet<SessionId> = found.iter().cloned().collect();
    assert_eq!(ids.len(), found.len(), "each once");
    ids
}

async fn a_session_is_unfinished_while_a_turn_is_open_or_a_prompt_waits(place: &Place) {
    let store = place.open("own_a").await;
    let (id, quiet) = (begin(&store).await, begin(&store).await);
    append(&store, &quiet, vec![titled("nothing to do")]).await;
    let (none, one) = (BTreeSet::new(), BTreeSet::from([id.clone()]));
    assert_eq!(unfinished(&store).await, none);
    let (first, second) = (prompt("hello"), prompt("and"));
    append(&store, &id, vec![admitted(&first), admitted(&second)]).await;
    assert_eq!(unfinished(&store).await, one, "prompts wait");
    append(&store, &id, vec![promoted(&first, None)]).await;
    append(&store, &id, vec![new(Event::PromptCancelled { id: second.id })]).await;
    assert_eq!(unfinished(&store).await, one, "a promoted prompt has no answer yet");
    let step = turn(Some(&first.id));
    append(&store, &id, vec![started(&step)]).await;
    assert_eq!(unfinished(&store).await, one, "a turn is open");
    append(&store, &id, vec![new(Event::SessionTrashed {})]).await;
    assert_eq!(unfinished(&store).await, none, "what is in the trash does not go on");
    append(&store, &id, vec![new(Event::SessionRestored {})]).await;
    assert_eq!(unfinished(&store).await, one);
    append(&store, &id, vec![ended(&step, Default::default(), Default::default())]).await;
    assert_eq!(unfinished(&store).await, none);
}

/// A session with a waiting prompt.
async fn busy(store: &Store) -> SessionId {
    let id = begin(store).await;
    append(store, &id, vec![admitted(&prompt("hello"))]).await;
    id
}

async fn an_open_turn_that_was_asked_to_stop_says_so_until_it_closes(place: &Place) {
    // Whoever took such a session over once read its whole log for this.
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let check = async |event: NewEvent, expected: bool| {
        let name = event.event.name();
        append(&store, &id, vec![event]).await;
        assert_eq!(store.session(&id).await.unwrap().unwrap().stopping, expected, "after {name}");
    };
    let interrupt = || new(Event::InterruptRequested {});
    let (first, second) = (turn(None), prompt("go on"));
    check(interrupt(), false).await;
    check(started(&first), false).await;
    check(interrupt(), true).await;
    check(titled("b"), true).await;
    check(admitted(&second), true).await;
    check(ended(&first, Tokens::default(), Money::ZERO), false).await;
    check(promoted(&second, Some(&first.id)), false).await;
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

async fn prompts_that_waited_when_a_session_was_stopped_are_held(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let check = async |event: NewEvent, expected: (bool, u64)| {
        let name = event.event.name();
        append(&store, &id, vec![event]).await;
        let now = store.session(&id).await.unwrap().unwrap();
        assert_eq!((now.held, now.waiting), expected, "after {name}");
    };
    let (first, second) = (prompt("one"), prompt("two"));
    check(admitted(&first), (false, 1)).await;
    check(new(Event::InterruptRequested {}), (true, 1)).await;
    check(titled("b"), (true, 1)).await;
    check(admitted(&second), (false, 2)).await;
    check(new(Event::InterruptRequested {}), (true, 2)).await;
    check(new(Event::SessionResumed {}), (false, 2)).await;
    check(promoted(&first, None), (false, 1)).await;
    check(new(Event::InterruptRequested {}), (true, 1)).await;
    check(new(Event::PromptCancelled { id: second.id }), (false, 0)).await;
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

async fn a_session_without_work_is_not_stopped(place: &Place) {
    // Whoever stopped it looked first, and stopped what came between the look and the stop.
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let stop =
        async || store.append(&id, Authority::Interrupt, vec![new(Event::InterruptRequested {})]).await;
    assert!(matches!(stop().await, Err(Error::Idle(found)) if found == id));
    append(&store, &id, vec![admitted(&prompt("one"))]).await;
    let stopped = stop().await.unwrap().session;
    assert_eq!((stopped.interrupts, stopped.held, stopped.stopping), (1, true, false));
    let id = begin(&store).await;
    append(&store, &id, vec![started(&turn(None))]).await;
    let stop = store.append(&id, Authority::Interrupt, vec![new(Event::InterruptRequested {})]).await;
    let stopped = stop.unwrap().session;
    assert_eq!((stopped.interrupts, stopped.held, stopped.stopping), (1, false, true));
    let nobody = SessionId::new("ses_nobody");
    let stop = store.append(&nobody, Authority::Interrupt, vec![new(Event::InterruptRequested {})]).await;
    assert!(matches!(stop, Err(Error::NoSession(found)) if found == nobody));
}

async fn unfinished_sessions_of_dead_owners_are_orphans(place: &Place) {
    let (one, two) = (place.open("own_a").await, place.open("own_b").await);
    let (theirs, idle, free, mine) =
        (busy(&one).await, begin(&one).await, busy(&one).await, busy(&two).await);
    one.acquire(&theirs).await.unwrap();
    one.acquire(&idle).await.unwrap();
    two.acquire(&mine).await.unwrap();
    assert_eq!(two.orphans().await.unwrap(), [], "both owners live");
    drop(one);
    assert_eq!(two.orphans().await.unwrap(), std::slice::from_ref(&theirs));
    assert_eq!(unfinished(&two).await, BTreeSet::from([theirs.clone(), free, mine]));
    let lease = two.acquire(&theirs).await.unwrap();
    assert_eq!(two.orphans().await.unwrap(), [], "it has an owner again");
    drop(two);
    let three = place.open("own_c").await;
    assert_eq!(three.orphans().await.unwrap().len(), 2, "everything of the dead");
    append(&three, &theirs, vec![new(Event::SessionTrashed {})]).await;
    assert!(!three.orphans().await.unwrap().contains(&theirs), "but not the trash");
    three.renew(&lease).await.unwrap();
}

async fn unfinished_sessions_of_silent_owners_are_orphans(place: &Place) {
    let patience = Duration::from_millis(300);
    let two = place.open_impatient("own_b", patience).await;
    let one = place.open_silent("own_a", patience).await;
    let id = busy(&one).await;
    one.acquire(&id).await.unwrap();
    within("the owner to be silent for too long", async {
        while two.orphans().await.unwrap() != [id.clone()] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(one.orphans().await.unwrap(), [], "one's own are none");
    two.acquire(&id).await.unwrap();
    assert_eq!(two.orphans().await.unwrap(), []);
    let taken = one.acquire(&id).await;
    assert!(matches!(taken, Err(Error::Busy { .. })), "{taken:?}");
}

async fn a_store_names_its_place_without_secrets(place: &Place) {
    let store = place.open("own_a").await;
    assert!(store.read_only().is_none());
    assert!(!store.place().is_empty());
    let shown = format!("{} {store:?} {:?}", store.place(), place.options("own_a"));
    if let Some(password) = place.password() {
        assert!(!shown.contains(&password), "{shown}");
    }
}
