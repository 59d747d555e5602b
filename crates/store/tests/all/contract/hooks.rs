//! The commit hook: called around every commit of events, with these events and no others.

use std::sync::{Arc, Mutex};

use everturn_model::Record;
use everturn_store::{Authority, CommitMoment};

use crate::events::{created, log, new, session_id, titled, todo, unfit};
use crate::place::{Place, contract};

contract![the_hook_is_called_before_and_after_each_commit_with_its_events];

type Called = Vec<(CommitMoment, Vec<&'static str>)>;

async fn the_hook_is_called_before_and_after_each_commit_with_its_events(place: &Place) {
    let called = Arc::new(Mutex::new(Called::new()));
    let note = {
        let called = Arc::clone(&called);
        move |moment, records: &[&Record]| {
            let names = records.iter().map(|record| record.event.name()).collect();
            called.lock().unwrap().push((moment, names));
        }
    };
    let store = place.open_with("own_a", |options| options.commit_hook = Some(Arc::new(note))).await;
    let id = session_id();
    let append = async |events| store.append(&id, Authority::Open, events).await;
    append(vec![created(&id), titled("b")]).await.unwrap();
    let todos = vec![new(everturn_model::Event::TodoUpdated { todos: vec![todo("x")] })];
    append(todos.clone()).await.unwrap();
    // What is there already is not committed again, and what is refused is not committed at all.
    assert!(!append(todos).await.unwrap().fresh);
    append(vec![titled("c"), unfit()]).await.unwrap_err();
    let names = [vec!["session.created", "title.changed"], vec!["todo.updated"]];
    let twice = |names: &Vec<&'static str>| {
        [(CommitMoment::Before, names.clone()), (CommitMoment::After, names.clone())]
    };
    assert_eq!(*called.lock().unwrap(), names.iter().flat_map(twice).collect::<Called>());
    assert_eq!(log(&store, &id).await.len(), 3);
}
