//! A database of the version before this one: read as it is, and made anew only where work is left.

use everturn_model::fault::FaultKind;
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::request::{CallRef, OpenCall, Reply};
use everturn_model::subject::SubjectKind;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{Body, Entry, Event, Fault, Money, Part, Record, SessionId, Tokens};
use everturn_store::{Authority, NewEvent, Options, Store, UseGroup, UseQuery, UseSum};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::events::{
    NOW, admitted, asked, begin, ended, entry_id, new, part_id, part_started, permission, prompt, started,
    titled, turn,
};
use crate::postgres;

/// A call of an open turn that asked, got its answer and has begun.
async fn call(store: &Store, id: &SessionId) -> (Entry, Part) {
    let turn = turn(None);
    let state = ToolState::Pending { input: json!({}), raw: String::new() };
    let (name, tool) = ("c".to_owned(), "bash".to_owned());
    let part = Part::new(
        part_id(),
        PartKind::Tool { call: name.clone(), tool, state, hosted: false, metadata: None },
    );
    let (entry, own) = (turn.id.clone(), part.id.clone());
    let mut request = permission(&format!("per_{}", id.as_str()));
    // Requests of earlier versions named no part, and answers no call.
    request.call = Some(CallRef { entry: entry.clone(), call: name, part: None });
    let reply = Some(Reply::Once);
    let events = vec![
        started(&turn),
        part_started(&entry, &part),
        new(Event::ToolCalled {
            entry: entry.clone(),
            part: own.clone(),
            input: json!({}),
            hosted: false,
            metadata: None,
            progress: None,
        }),
        asked(&request),
        new(Event::RequestAnswered {
            id: request.id,
            call: None,
            reply,
            message: None,
            answers: None,
            follows: None,
        }),
        new(Event::ToolBegun { entry, part: own, forecast: Vec::new() }),
    ];
    store.append(id, Authority::Open, events).await.unwrap();
    (turn, part)
}

async fn open_call(store: &Store, id: &SessionId, turn: &Entry) -> Option<OpenCall> {
    let node = store.node(id, &turn.id).await.unwrap().unwrap();
    node.parts[0].open.as_deref().cloned()
}

#[tokio::test]
async fn what_an_open_call_asked_is_found_in_the_log_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let (left, closed) = (begin(&store).await, begin(&store).await);
    let (turn, part) = call(&store, &left).await;
    store.append(&closed, Authority::Open, vec![titled("closed")]).await.unwrap();
    let expected = open_call(&store, &left, &turn).await.unwrap();
    let last = expected.request.as_ref().unwrap();
    assert!(expected.begun && last.answer.as_ref().unwrap().reply == Some(Reply::Once));
    drop(store);

    let path = folder.path().join("everturn.db");
    let connection = Connection::open(&path).unwrap();
    let sql = "SELECT data FROM part WHERE id = ?1";
    let mut row: Value = serde_json::from_str(
        &connection.query_row(sql, [part.id.as_str()], |row| row.get::<_, String>(0)).unwrap(),
    )
    .unwrap();
    row.as_object_mut().unwrap().remove("open").unwrap();
    connection
        .execute("UPDATE part SET data = ?1 WHERE id = ?2", params![row.to_string(), part.id.as_str()])
        .unwrap();
    connection
        .execute_batch("UPDATE meta SET value = 1 WHERE name = 'fold'; PRAGMA user_version = 2;")
        .unwrap();
    drop(connection);

    let store = Store::open(options()).await.unwrap();
    assert_eq!(open_call(&store, &left, &turn).await, Some(expected), "the log had it");
    let audits = store.audits(9).await.unwrap().into_iter().filter(|audit| audit.action == "rebuild");
    let rebuilt: Vec<Value> = audits.map(|audit| audit.detail).collect();
    assert_eq!(rebuilt.len(), 1);
    assert_eq!(rebuilt[0]["sessions"], 1, "a session without work is left alone");
    assert!(store.verify_all(None).await.unwrap().is_sound());

    let mut result = ToolResult::new("c", "bash", Outcome::Completed, "ok");
    result.end = Some(NOW);
    let entry =
        Entry::new(entry_id(), Some(turn.id.clone()), NOW, Body::ToolResult { result: Box::new(result) });
    let settled = Event::ToolSettled {
        entry: Box::new(entry),
        assistant: Some(turn.id.clone()),
        part: Some(part.id.clone()),
    };
    store.append(&left, Authority::Open, vec![new(settled)]).await.unwrap();
    assert_eq!(open_call(&store, &left, &turn).await, None, "nothing of it is needed any more");
    drop(store);
    // There was once no copy, because this upgrade changes little; the version before can only read the file since.
    let copy = Connection::open(folder.path().join("everturn.v2.backup.db")).unwrap();
    let version: i64 = copy.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let before: String = copy.query_row(sql, [part.id.as_str()], |row| row.get(0)).unwrap();
    assert_eq!((version, before), (2, row.to_string()), "the copy is the file as it was");
}

#[tokio::test]
async fn what_is_left_open_on_a_server_is_made_anew_once() {
    let place = postgres::Place::new();
    let store = place.open("own_test").await;
    let [at_work, asking, closed] = [begin(&store).await, begin(&store).await, begin(&store).await];
    let waiting = begin(&store).await;
    store.append(&waiting, Authority::Open, prompted_then_stopped()).await.unwrap();
    let (turn, part) = call(&store, &at_work).await;
    // Nothing is at work here, and still somebody has to be asked.
    store.append(&asking, Authority::Open, vec![asked(&permission("per_alone"))]).await.unwrap();
    store.append(&closed, Authority::Open, vec![titled("closed")]).await.unwrap();
    let expected = open_call(&store, &at_work, &turn).await.unwrap();
    drop(store);

    let client = place.client().await;
    let row = client.query_one("SELECT data FROM everturn.part WHERE id = $1", &[&part.id.as_str()]).await;
    let mut row: Value = serde_json::from_slice(row.unwrap().get(0)).unwrap();
    row.as_object_mut().unwrap().remove("open").unwrap();
    let written = row.to_string();
    let sql = "UPDATE everturn.part SET data = $1 WHERE id = $2";
    assert_eq!(client.execute(sql, &[&written.as_bytes(), &part.id.as_str()]).await.unwrap(), 1);
    let forget = "UPDATE everturn.session SET data =
                  convert_to((convert_from(data, 'UTF8')::jsonb - 'waiting' - 'held')::text, 'UTF8')";
    assert_eq!(client.execute(forget, &[]).await.unwrap(), 4);
    client.batch_execute("UPDATE everturn.meta SET value = '1' WHERE name = 'fold'").await.unwrap();

    for _ in 0..2 {
        let store = place.open("own_test").await;
        assert_eq!(open_call(&store, &at_work, &turn).await, Some(expected.clone()), "the log had it");
        let audits = store.audits(9).await.unwrap().into_iter().filter(|audit| audit.action == "rebuild");
        let rebuilt: Vec<Value> = audits.map(|audit| audit.detail).collect();
        assert_eq!(rebuilt.len(), 1, "once");
        assert_eq!(rebuilt[0]["sessions"], 3, "a session without work is left alone");
        check_held(&store, &waiting).await;
        assert!(store.verify_all(None).await.unwrap().is_sound());
    }
}

/// Somebody gives a session a prompt, and then stops its work.
fn prompted_then_stopped() -> Vec<NewEvent> {
    let turn = turn(None);
    let (tokens, cost) = (Tokens::default(), Money::ZERO);
    let prompt = InboxItem { delivery: Delivery::Steer, ..prompt("go on") };
    let stop = new(Event::InterruptRequested {});
    vec![started(&turn), admitted(&prompt), stop, ended(&turn, tokens, cost)]
}

async fn check_held(store: &Store, id: &SessionId) {
    let now = store.session(id).await.unwrap().unwrap();
    assert_eq!((now.waiting, now.held), (1, true));
}

#[tokio::test]
async fn a_prompt_that_was_stopped_in_the_version_before_is_held() {
    // Rows of before do not say so: it would have been answered at the next start.
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let id = begin(&store).await;
    store.append(&id, Authority::Open, prompted_then_stopped()).await.unwrap();
    drop(store);
    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    let forget = "UPDATE session SET data = json_remove(data, '$.waiting', '$.held');
                  UPDATE inbox SET data = json_set(data, '$.interrupts', 1);
                  UPDATE meta SET value = 3 WHERE name = 'fold'";
    connection.execute_batch(forget).unwrap();
    drop(connection);
    let store = Store::open(options()).await.unwrap();
    check_held(&store, &id).await;
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_session_where_only_a_request_waits_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let [asking, closed] = [begin(&store).await, begin(&store).await];
    store.append(&asking, Authority::Open, vec![asked(&permission("per_alone"))]).await.unwrap();
    let title = store.session(&asking).await.unwrap().unwrap().title;
    drop(store);
    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    let rename = "UPDATE session SET data = json_set(data, '$.title', 'of before');
                  UPDATE meta SET value = 2 WHERE name = 'fold'";
    connection.execute_batch(rename).unwrap();
    drop(connection);
    let store = Store::open(options()).await.unwrap();
    assert_eq!(store.session(&asking).await.unwrap().unwrap().title, title, "the log had it");
    let left_alone = store.session(&closed).await.unwrap().unwrap().title;
    assert_eq!(left_alone, "of before", "a session without work is left alone");
}

#[tokio::test]
async fn an_interrupt_of_an_open_turn_is_found_in_the_log_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let id = begin(&store).await;
    let events = vec![started(&turn(None)), new(Event::InterruptRequested {})];
    store.append(&id, Authority::Open, events).await.unwrap();
    drop(store);
    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    let forget = "UPDATE session SET data = json_set(json_remove(data, '$.stopping'), '$.stop', json('{\"prompted\":false}'));
                  UPDATE meta SET value = 3 WHERE name = 'fold'";
    connection.execute_batch(forget).unwrap();
    drop(connection);
    let store = Store::open(options()).await.unwrap();
    assert!(store.session(&id).await.unwrap().unwrap().stopping, "the log had it");
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn events_and_rows_in_shapes_of_before_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let id = begin(&store).await;
    let turn = turn(None);
    let failed = Event::StepFailed {
        entry: turn.id.clone(),
        error: Fault::new(FaultKind::Aborted, "Aborted"),
        resumes: false,
        remains: Box::default(),
    };
    store.append(&id, Authority::Open, vec![started(&turn), new(failed)]).await.unwrap();
    let (log, node) = (store.events(&id, None, 99).await.unwrap(), store.node(&id, &turn.id).await.unwrap());
    drop(store);

    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    let ours = r#"{"kind":"aborted","message":"Aborted"}"#;
    let before = r#"{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#;
    let rewrite = |sql: &str| connection.execute(sql, params![ours, before]).unwrap();
    assert_eq!(rewrite("UPDATE entry SET data = replace(data, ?1, ?2) WHERE instr(data, ?1)"), 1);
    let events = "UPDATE event SET type = 'step.failed.1', data = replace(replace(data, ?1, ?2), ',\"subject\":{}', '')
                  WHERE instr(data, ?1)";
    assert_eq!(rewrite(events), 1);
    drop(connection);

    let store = Store::open(options()).await.unwrap();
    assert_eq!(store.node(&id, &turn.id).await.unwrap(), node);
    let read = store.events(&id, None, 99).await.unwrap();
    let events = |log: &[Record]| log.iter().map(|record| record.event.clone()).collect::<Vec<_>>();
    assert_eq!(events(&read), events(&log));
    assert_eq!(read.last().unwrap().subject, None, "records of before did not say what they are about");
    assert!(store.verify_all(None).await.unwrap().is_sound());
    assert_eq!(store.rebuild(&id, NOW).await.unwrap().events, 3);
    assert_eq!(store.node(&id, &turn.id).await.unwrap(), node);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_record_says_what_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Options::folder(folder.path(), "own_test")).await.unwrap();
    let id = begin(&store).await;
    call(&store, &id).await;
    let log = store.events(&id, None, 99).await.unwrap();
    let called = log.iter().find(|record| matches!(record.event, Event::ToolCalled { .. })).unwrap();
    let kind = called.subject.as_ref().unwrap().kind.clone();
    assert_eq!(kind, Some(SubjectKind::Call { call: "c".to_owned(), tool: "bash".to_owned() }));
    // The same again is the same, although what was asked for does not say what it is about.
    let again = crate::events::again(called);
    assert!(!store.append(&id, Authority::Open, vec![again]).await.unwrap().fresh);
}

#[tokio::test]
async fn the_bills_of_sessions_of_an_earlier_version_are_made_of_their_logs_when_somebody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::folder(folder.path(), "own_test");
    let store = Store::open(options()).await.unwrap();
    let (whole, broken) = (begin(&store).await, begin(&store).await);
    let tokens = Tokens { input: 7, ..Tokens::default() };
    let cost: Money = "0.25".parse().unwrap();
    for id in [&whole, &broken] {
        let turn = turn(None);
        store.append(id, Authority::Open, vec![started(&turn), ended(&turn, tokens, cost)]).await.unwrap();
    }
    let everything = || UseQuery { group: UseGroup::Everything, since: i64::MIN };
    let before = store.uses(everything()).await.unwrap();
    drop(store);
    let connection = Connection::open(folder.path().join("everturn.db")).unwrap();
    connection.execute_batch("DELETE FROM bill; INSERT INTO unbilled SELECT key FROM session").unwrap();
    let sql =
        "UPDATE event SET data = 'x' WHERE seq = 2 AND session = (SELECT key FROM session WHERE id = ?1)";
    connection.execute(sql, [broken.as_str()]).unwrap();
    drop(connection);

    let store = Store::open(options()).await.unwrap();
    assert_eq!(store.uses(everything()).await.unwrap(), []);
    assert_eq!(store.verify(&whole).await.unwrap().problems, [], "lines may be missing until somebody asks");
    // What is used meanwhile does not get lost, nor counted twice.
    let turn = turn(None);
    let more = vec![started(&turn), ended(&turn, tokens, cost)];
    store.append(&whole, Authority::Open, more).await.unwrap();
    for _ in 0..2 {
        let unbilled = store.settle_bills().await.unwrap();
        assert_eq!(unbilled.iter().map(|one| &one.session).collect::<Vec<_>>(), [&broken]);
    }
    let after = store.uses(everything()).await.unwrap();
    assert_eq!(after, [UseSum { sessions: 1, uses: 2, ..before[0].clone() }]);
    assert_eq!(store.verify(&whole).await.unwrap().problems, []);
}
