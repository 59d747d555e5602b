//! The log of OpenCode's V2 engine becomes ours and is told again the same; folding it gives its messages.

use std::collections::BTreeMap;
use std::io::Read as _;

use everturn_interop::opencode::rows::{
    OpenCodeEventRow, OpenCodeSessionInputRow, OpenCodeSessionMessageRow,
};
use everturn_interop::opencode::{v1, v2};
use everturn_model::entry::{Assistant, Body};
use everturn_model::event::Record;
use everturn_model::part::PartKind;
use everturn_model::subject::{EventPayload, Subject};
use everturn_model::{
    Entry, EntryId, Event, EventId, Fault, FaultKind, Finish, Money, Part, PartId, Session, SessionId,
    Tokens, Tree, fold, path,
};
use rusqlite::{Connection, Row};
use serde_json::{Value, json};

use super::data::{fixture, unpacked};
use super::rows::{all, sessions};

fn event(row: &Row<'_>) -> rusqlite::Result<OpenCodeEventRow> {
    Ok(OpenCodeEventRow {
        id: row.get("id")?,
        aggregate_id: row.get("aggregate_id")?,
        seq: row.get("seq")?,
        kind: row.get("type")?,
        data: row.get("data")?,
    })
}

fn message(row: &Row<'_>) -> rusqlite::Result<OpenCodeSessionMessageRow> {
    Ok(OpenCodeSessionMessageRow {
        id: row.get("id")?,
        session_id: row.get("session_id")?,
        kind: row.get("type")?,
        seq: row.get("seq")?,
        time_created: row.get("time_created")?,
        time_updated: row.get("time_updated")?,
        data: row.get("data")?,
    })
}

fn input(row: &Row<'_>) -> rusqlite::Result<OpenCodeSessionInputRow> {
    Ok(OpenCodeSessionInputRow {
        id: row.get("id")?,
        session_id: row.get("session_id")?,
        prompt: row.get("prompt")?,
        delivery: row.get("delivery")?,
        admitted_seq: row.get("admitted_seq")?,
        promoted_seq: row.get("promoted_seq")?,
        time_created: row.get("time_created")?,
    })
}

fn database() -> (tempfile::TempDir, Connection) {
    let folder = unpacked("v2/opencode-v2-1.18.33.tar.gz");
    let mut files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let mut found = files.find(|path| path.extension().is_some_and(|end| end == "db"));
    if found.is_none() {
        found = Some(folder.path().join("opencode/opencode.db"));
    }
    let db = Connection::open(found.unwrap()).unwrap();
    (folder, db)
}

fn events(db: &Connection, session: &str) -> Vec<OpenCodeEventRow> {
    all(db, "select * from event where aggregate_id = ? order by seq", &[session], event)
}

/// What each record is told as once it was stored, and the tree after the last.
fn told(records: &[Record]) -> (Vec<v2::V2Event>, Tree) {
    let (first, rest) = records.split_first().unwrap();
    let mut tree = fold::begin(first).unwrap();
    let mut list = vec![v2::write_session_event(first, &tree.session).unwrap()];
    for record in rest {
        let record = stored(record, &tree);
        fold::apply(&mut tree, &record).unwrap();
        let told = v2::write_event(&record).unwrap();
        list.push(told.or_else(|| v2::write_session_event(&record, &tree.session)).unwrap());
    }
    (list, tree)
}

/// A record as a store gives it back.
fn stored(record: &Record, before: &Tree) -> Record {
    let subject = Subject::of(&record.event, before);
    let json = Record { subject, ..record.clone() }.to_json().unwrap();
    let EventPayload { event, subject } = serde_json::from_str(&json).unwrap();
    Record { event, subject, ..record.clone() }
}

#[test]
fn a_record_of_an_earlier_version_says_that_it_needs_a_tree_and_todays_will_do() {
    let (_folder, db) = database();
    let mut counts = [0, 0, 0];
    for session in sessions(&db) {
        let records = v2::read_events(events(&db, &session.id)).unwrap();
        let (list, tree) = told(&records);
        for (record, expected) in records.iter().zip(list) {
            assert_eq!(record.subject, None, "as a log of an earlier version has it");
            let mut completed = record.clone();
            completed.complete(&tree);
            match v2::write_event(record) {
                Err(v2::IncompleteRecord { seq, .. }) => {
                    assert_eq!(seq, record.seq);
                    counts[0] += 1;
                }
                Ok(Some(told)) => {
                    assert_eq!(told, expected);
                    counts[1] += 1;
                    continue;
                }
                Ok(None) => {
                    counts[2] += 1;
                    continue;
                }
            }
            let mut told = v2::write_event(&completed).unwrap().unwrap();
            if matches!(record.event, Event::PromptPromoted { .. }) && expected.data["delivery"] == "queue" {
                // Logs of earlier versions kept it with the entry; this one was read today.
                told.data["delivery"] = "queue".into();
            }
            assert_eq!(told, expected);
        }
    }
    // The last are how sessions were made and changed, which only a database is told.
    assert_eq!(counts, [266, 103, 8]);
}

fn row(event: &v2::V2Event) -> (String, String, i64, String, Value) {
    let seq = i64::try_from(event.seq).unwrap();
    (event.id.clone(), event.aggregate.clone(), seq, event.stored_name(), event.data.clone())
}

#[test]
fn every_event_comes_back_and_every_message_follows() {
    let (_folder, db) = database();
    let mut counts = (0, 0);
    for session in sessions(&db) {
        let rows = events(&db, &session.id);
        let (list, tree) = told(&v2::read_events(rows.clone()).unwrap());
        let source: Vec<_> = rows
            .into_iter()
            .map(|row| {
                (row.id, row.aggregate_id, row.seq, row.kind, serde_json::from_str(&row.data).unwrap())
            })
            .collect();
        assert_eq!(list.iter().map(row).collect::<Vec<_>>(), source);
        counts.0 += list.len();

        let sql = "select * from session_message where session_id = ? order by seq";
        let messages = all(&db, sql, &[&session.id], message).into_iter().map(|row| {
            let mut data: Value = serde_json::from_str(&row.data).unwrap();
            data["id"] = row.id.into();
            data["type"] = row.kind.into();
            data
        });
        let way = path::to(&tree, tree.session.leaf.as_ref());
        let messages: Vec<_> = messages.collect();
        assert_eq!(v2::messages(&tree.session.id, &way), messages, "{}", session.id);
        counts.1 += messages.len();

        let sql =
            "select * from session_input where session_id = ? and promoted_seq is null order by admitted_seq";
        let waiting = all(&db, sql, &[&session.id], input).into_iter().map(|row| {
            json!({"id": row.id, "sessionID": row.session_id, "delivery": row.delivery,
                "prompt": serde_json::from_str::<Value>(&row.prompt).unwrap(), "timeCreated": row.time_created})
        });
        let inbox = tree.inbox.iter().map(|item| Value::from(v2::input(&tree.session.id, item)));
        assert_eq!(inbox.collect::<Vec<_>>(), waiting.collect::<Vec<_>>());
        assert_eq!(
            tree.session.agent.or(Some("build".to_owned())),
            session.agent.or(Some("build".to_owned()))
        );
    }
    assert_eq!(counts, (377, 89));
}

#[test]
fn streams_and_histories_tell_the_same() {
    let (_folder, db) = database();
    let mut known = BTreeMap::new();
    for session in sessions(&db) {
        let (list, _) = told(&v2::read_events(events(&db, &session.id)).unwrap());
        known.extend(list.into_iter().map(|event| (event.id.clone(), event)));
    }
    let mut text = String::new();
    let file = std::fs::File::open(fixture("v2/events.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let mut data = line["data"].clone();
        if data.get("durable").is_none() {
            continue;
        }
        let stream = line["stream"].as_str().unwrap().split(':').next().unwrap().to_owned();
        data.as_object_mut().unwrap().shift_remove("location");
        let event = &known[data["id"].as_str().unwrap()];
        assert_eq!(event.value(), data);
        assert_eq!(event.is_public(), data["type"] != "session.created");
        *counts.entry(stream).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(stream, count)| (stream.as_str(), *count)).collect();
    assert_eq!(counts, [("durable", 363), ("history", 363), ("live", 361), ("live-after-restart", 9)]);
}

#[test]
fn v1_clients_see_the_same_conversation() {
    let (_folder, db) = database();
    for session in sessions(&db) {
        let (_, tree) = told(&v2::read_events(events(&db, &session.id)).unwrap());
        let way = path::to(&tree, tree.session.leaf.as_ref());
        let shown = v1::messages(&tree.session.id, &way, &tree.inbox);
        let again = v1::read_messages(
            &tree.session.id,
            shown.clone(),
            &mut everturn_model::derived_ids::DerivedIds::new(&session.id),
        );
        let refs: Vec<_> = again.nodes.iter().collect();
        assert_eq!(v1::messages(&tree.session.id, &refs, &[]).len(), shown.len());
        let roles = shown.iter().map(|message| message.info["role"].as_str().unwrap());
        let users = roles.filter(|role| *role == "user").count();
        assert_eq!(users > 0, !way.is_empty(), "{}", session.id);
    }
}

fn log(events: &[(&str, Value)]) -> Vec<OpenCodeEventRow> {
    let created =
        json!({"sessionID": "ses_1", "info": {"id": "ses_1", "time": {"created": 1, "updated": 1}}});
    let all = std::iter::once(("session.created.1".to_owned(), created));
    let all = all.chain(events.iter().map(|(kind, data)| (format!("session.next.{kind}"), data.clone())));
    let row = |(seq, (kind, mut data)): (i64, (String, Value))| {
        data["sessionID"] = "ses_1".into();
        OpenCodeEventRow {
            id: format!("evt_{seq}"),
            aggregate_id: "ses_1".to_owned(),
            seq,
            kind,
            data: data.to_string(),
        }
    };
    (0..).zip(all).map(row).collect()
}

fn check(events: &[(&str, Value)]) -> Tree {
    let rows = log(events);
    let (list, tree) = told(&v2::read_events(rows.clone()).unwrap());
    for (event, source) in list.iter().zip(rows) {
        assert_eq!(event.stored_name(), source.kind);
        assert_eq!(event.data, serde_json::from_str::<Value>(&source.data).unwrap());
    }
    tree
}

#[test]
fn events_that_were_not_recorded_survive() {
    let prompt = json!({"text": "x", "skills": ["later"]});
    let model = json!({"id": "m", "providerID": "p"});
    let step = |id: &str, time: i64| json!({"timestamp": time, "assistantMessageID": id, "agent": "build", "model": model});
    let tree = check(&[
        ("prompted.1", json!({"timestamp": 2, "messageID": "msg_1", "prompt": prompt, "delivery": "queue"})),
        ("synthetic.1", json!({"timestamp": 3, "messageID": "msg_2", "text": "note"})),
        ("shell.started.1", json!({"timestamp": 4, "messageID": "msg_3", "callID": "c", "command": "ls"})),
        ("shell.ended.1", json!({"timestamp": 5, "callID": "c", "output": "a\n"})),
        (
            "moved.1",
            json!({"timestamp": 6, "location": {"directory": "/b", "workspaceID": "wrk_1"}, "subdirectory": "s"}),
        ),
        ("step.started.1", step("msg_4", 7)),
        (
            "tool.called.1",
            json!({"timestamp": 8, "assistantMessageID": "msg_4", "callID": "h", "tool": "web",
            "input": {"q": 1}, "provider": {"executed": true, "metadata": {"a": {"b": 1}}}}),
        ),
        (
            "tool.progress.1",
            json!({"timestamp": 9, "assistantMessageID": "msg_4", "callID": "h",
            "structured": {"n": 1}, "content": [{"type": "text", "text": "half"}]}),
        ),
        (
            "tool.success.1",
            json!({"timestamp": 10, "assistantMessageID": "msg_4", "callID": "h",
            "structured": {"n": 2}, "content": [{"type": "file", "uri": "data:,"}], "result": {"x": 1},
            "provider": {"executed": true, "metadata": {"a": {"c": 2}}}}),
        ),
        (
            "step.failed.2",
            json!({"timestamp": 11, "assistantMessageID": "msg_4",
            "error": {"type": "provider.overloaded", "message": "busy"}}),
        ),
        ("retried.1", json!({"timestamp": 12, "attempt": 2, "error": {"type": "unknown", "message": "x"}})),
        ("usage.updated.7", json!({"timestamp": 13, "what": [1]})),
    ]);
    let way = path::to(&tree, tree.session.leaf.as_ref());
    assert_eq!(
        Value::from(v2::messages(&tree.session.id, &way)),
        json!([
            {"id": "msg_1", "type": "user", "time": {"created": 2}, "text": "x", "skills": ["later"]},
            {"id": "msg_2", "type": "synthetic", "time": {"created": 3}, "sessionID": "ses_1", "text": "note"},
            {"id": "msg_3", "type": "shell", "time": {"created": 4, "completed": 5}, "callID": "c",
                "command": "ls", "output": "a\n"},
            {"id": "msg_4", "type": "assistant", "time": {"created": 7, "completed": 11}, "agent": "build",
                "model": model, "finish": "error", "error": {"type": "provider.overloaded", "message": "busy"},
                "content": [{"type": "tool", "id": "h", "name": "web",
                    "provider": {"executed": true, "metadata": {"a": {"b": 1}}, "resultMetadata": {"a": {"c": 2}}},
                    "state": {"status": "completed", "input": {"q": 1}, "structured": {"n": 2},
                        "content": [{"type": "file", "uri": "data:,"}], "result": {"x": 1}},
                    "time": {"created": 8, "ran": 8, "completed": 10}}]}
        ])
    );
}

#[test]
fn a_turn_that_is_open_shows_how_far_it_is() {
    let step = json!({"timestamp": 2, "assistantMessageID": "msg_1", "agent": "a",
        "model": {"id": "m", "providerID": "p"}, "snapshot": "s"});
    let begin = json!({"timestamp": 3, "assistantMessageID": "msg_1", "callID": "c", "name": "bash"});
    let input = json!({"timestamp": 4, "assistantMessageID": "msg_1", "callID": "c", "text": "{\"a\""});
    let call = json!({"timestamp": 5, "assistantMessageID": "msg_1", "callID": "c", "tool": "bash",
        "input": {"a": 1}, "provider": {"executed": false}});
    let content = |events: &[(&str, Value)]| {
        let tree = check(events);
        let way = path::to(&tree, tree.session.leaf.as_ref());
        v2::messages(&tree.session.id, &way)[0]["content"][0].clone()
    };
    let pending = [
        ("step.started.1", step.clone()),
        ("tool.input.started.1", begin.clone()),
        ("tool.input.ended.1", input.clone()),
    ];
    assert_eq!(
        content(&pending),
        json!({"type": "tool", "id": "c", "name": "bash", "state": {"status": "pending", "input": "{\"a\""},
            "time": {"created": 3}})
    );
    let running = [
        ("step.started.1", step),
        ("tool.input.started.1", begin),
        ("tool.input.ended.1", input),
        ("tool.called.1", call),
    ];
    assert_eq!(
        content(&running),
        json!({"type": "tool", "id": "c", "name": "bash", "provider": {"executed": false},
            "state": {"status": "running", "input": {"a": 1}, "structured": {}, "content": []},
            "time": {"created": 3, "ran": 5}})
    );
}

/// What V2 clients are told of events of our own, after the creation of their session: the name and the data.
fn shown_as(events: Vec<Event>) -> Vec<(String, Value)> {
    let session = Box::new(Session::new(SessionId::new("ses_1"), "global", "/", "t", "1", 1));
    let all = std::iter::once(Event::SessionCreated { session }).chain(events);
    let record = |(seq, event)| {
        let id = EventId::new(format!("evt_{seq}"));
        Record { id, session: SessionId::new("ses_1"), seq, time: 7, event, subject: None }
    };
    let records: Vec<Record> = (0..).zip(all).map(record).collect();
    let (list, _) = told(&records);
    list.into_iter().skip(1).map(|event| (event.stored_name(), event.data)).collect()
}

#[test]
fn events_name_an_answer_as_clients_know_it() {
    let (id, part) = (EntryId::new("msg_ours"), PartId::new("prt_1"));
    let mut entry = Entry::new(id.clone(), None, 5, Body::Assistant(Assistant::default()));
    entry.wire = Some("msg_theirs".to_owned());
    let text = Box::new(Part::new(part.clone(), PartKind::text("")));
    let shown = shown_as(vec![
        Event::StepStarted { entry: Box::new(entry), frame: None },
        Event::PartStarted { entry: id.clone(), part: text },
        Event::PartEnded { entry: id.clone(), part, text: "hi".to_owned(), metadata: None },
        Event::StepEnded {
            entry: id,
            finish: Finish::ContentFilter,
            tokens: Tokens::default(),
            cost: Money::ZERO,
            snapshot: None,
            files: None,
            parts: Vec::new(),
            declined: false,
            estimated: false,
            error: None,
            structured: None,
        },
    ]);
    let event = |name: &str, time: i64, more: Value| {
        let mut data = json!({"timestamp": time, "sessionID": "ses_1", "assistantMessageID": "msg_theirs"});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (format!("session.next.{name}"), data)
    };
    let tokens = json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
    let expected = [
        event("step.started.1", 5, json!({"agent": "build"})),
        event("text.started.1", 7, json!({"textID": "prt_1"})),
        event("text.ended.1", 7, json!({"textID": "prt_1", "text": "hi"})),
        event("step.ended.2", 7, json!({"finish": "content-filter", "cost": 0, "tokens": tokens})),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_fault_without_a_message_is_told_by_its_name() {
    let id = EntryId::new("msg_1");
    let entry = Box::new(Entry::new(id.clone(), None, 5, Body::Assistant(Assistant::default())));
    let error = Fault { kind: FaultKind::OutputLength, message: None, came: None };
    let shown = shown_as(vec![
        Event::StepStarted { entry, frame: None },
        Event::StepFailed { entry: id, error, resumes: false, remains: Box::default() },
    ]);
    let error = json!({"type": "unknown", "message": "MessageOutputLengthError"});
    assert_eq!(shown[1].1["error"], error);
}

#[test]
fn a_broken_log_is_refused_with_its_place() {
    let mut gap = log(&[("revert.cleared.1", json!({"timestamp": 2}))]);
    gap[1].seq = 2;
    let headless = log(&[("revert.cleared.1", json!({"timestamp": 2}))]).split_off(1);
    let mut text = log(&[]);
    text[0].data = "3".to_owned();
    let errors = [gap, headless, text].map(|rows| v2::read_events(rows).unwrap_err().to_string());
    assert_eq!(
        errors,
        [
            "event evt_1 at seq 2: expected seq 1",
            "event evt_1 at seq 1: expected seq 0",
            "event evt_0 at seq 0: its data is no object"
        ]
    );
    assert_eq!(v2::read_events(Vec::new()), Ok(Vec::new()));
}
