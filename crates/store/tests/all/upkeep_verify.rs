//! Checking and rebuilding: every kind of damage is named, and what the log still tells is healed.

use everturn_model::{Money, Tokens, Tree};
use everturn_store::{
    Authority, CheckReport, Error, FOLD_VERSION, Rebuilt, RebuiltAll, RowTable, Search, SessionCheck,
    SessionProblem, Store,
};
use serde_json::json;

use crate::events::{append, begin, used};
use crate::upkeep::{Rich, count, damage, file, open};

async fn tree(store: &Store, rich: &Rich) -> Tree {
    store.tree(&rich.id).await.unwrap().unwrap()
}

/// Damages one of two sessions, and expects that the check names it, that the other one is untouched, and that a
/// rebuild heals it.
async fn check(sql: &str, expected: impl FnOnce(&Rich) -> Vec<SessionProblem>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    other.put(&store, "lexer").await;
    let (before, events) = (tree(&store, &rich).await, 12);
    assert_eq!(
        store.verify_all(None).await.unwrap(),
        CheckReport { sessions: 2, events: 24, ..CheckReport::default() }
    );

    damage(&folder, &rich.id, sql);
    let problems = expected(&rich);
    let verdict = SessionCheck { session: rich.id.clone(), events, problems };
    assert_eq!(store.verify(&rich.id).await.unwrap(), verdict, "{sql}");
    let report = store.verify_all(None).await.unwrap();
    assert_eq!(report.damaged, std::slice::from_ref(&verdict), "{sql}");
    assert!(verdict.can_be_rebuilt());
    tree(&store, &other).await;

    let rebuilt = Rebuilt { session: rich.id.clone(), events, entries: 3, parts: 4, cut: Vec::new() };
    assert_eq!(store.rebuild(&rich.id, 7).await.unwrap(), rebuilt, "{sql}");
    let sound = SessionCheck { session: rich.id.clone(), events, problems: Vec::new() };
    assert_eq!(store.verify(&rich.id).await.unwrap(), sound, "{sql}");
    assert_eq!(tree(&store, &rich).await, before, "{sql}");
    let audits = store.audits(10).await.unwrap();
    let noted: Vec<_> =
        audits.iter().map(|audit| (audit.time, audit.action.as_str(), &audit.detail)).collect();
    assert_eq!(noted, [(7, "rebuild", &json!({ "session": rich.id }))]);
    store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "goes on")]).await.unwrap();
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn columns_of_the_session_are_checked() {
    let columns = [
        ("seq", "99"),
        ("project", "'other'"),
        ("directory", "'/elsewhere'"),
        ("parent", "'ses_other'"),
        ("title", "'other'"),
        ("folded", "'other'"),
        ("created", "1"),
        ("updated", "'garbage'"),
        ("archived", "1"),
        ("trashed", "1"),
        ("open", "0"),
        ("input", "1"),
        ("output", "1"),
        ("reasoning", "1"),
        ("cache_read", "1"),
        ("cache_write", "-1"),
        ("cost", "1"),
        ("data", "replace(data, 'about parser', 'about nothing')"),
    ];
    for (column, value) in columns {
        check(&format!("UPDATE session SET {column} = {value} WHERE key = KEY"), |_| {
            vec![SessionProblem::Column(column)]
        })
        .await;
    }
}

#[tokio::test]
async fn an_id_that_is_no_text_is_found_by_the_log() {
    // Paging through the ids never came past it, and nobody could name it.
    let garbled = crate::damaged_feed::GARBLED_ID;
    check(&format!("UPDATE session SET id = {garbled} WHERE key = KEY"), |_| {
        vec![SessionProblem::Column("id")]
    })
    .await;
}

#[tokio::test]
async fn a_session_whose_id_nobody_knows_is_reported_and_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    other.put(&store, "lexer").await;
    damage(&folder, &rich.id, "UPDATE event SET data = '{' WHERE session = KEY AND seq = 0");
    let garbled = crate::damaged_feed::GARBLED_ID;
    damage(&folder, &rich.id, &format!("UPDATE session SET id = {garbled} WHERE key = KEY"));
    let report = store.verify_all(None).await.unwrap();
    assert_eq!((report.sessions, report.damaged.len()), (2, 1), "{report:?}");
    let named = report.damaged[0].session.clone();
    assert!(named.as_str().contains('\u{fffd}'), "{named}");
    assert!(store.purge(&named, 5).await.unwrap());
    assert!(store.verify_all(None).await.unwrap().is_sound());
    assert_eq!(count(&folder, "SELECT count(*) FROM session"), 1);
}

#[tokio::test]
async fn a_garbled_session_row_is_healed() {
    let reason = "expected value at line 1 column 1".to_owned();
    check("UPDATE session SET data = X'FF00FF' WHERE key = KEY", |rich| {
        vec![SessionProblem::Garbled { table: RowTable::Session, id: rich.id.to_string(), reason }]
    })
    .await;
}

#[tokio::test]
async fn a_lost_session_row_is_found_by_its_log() {
    check("DELETE FROM session WHERE key = KEY", |rich| {
        vec![SessionProblem::Missing { table: RowTable::Session, id: rich.id.to_string() }]
    })
    .await;
}

#[tokio::test]
async fn missing_rows_are_made_anew() {
    let missing = |table| move |id: String| vec![SessionProblem::Missing { table, id }];
    check("DELETE FROM entry WHERE session = KEY AND ord >> 20 = 4", |rich| {
        missing(RowTable::Entry)(rich.entry(20).to_string())
    })
    .await;
    check("DELETE FROM part WHERE session = KEY AND ord >> 20 = 5", |rich| {
        missing(RowTable::Part)(format!("{}/{}", rich.entry(20), rich.part(21)))
    })
    .await;
    check("DELETE FROM inbox WHERE session = KEY", |rich| {
        missing(RowTable::Inbox)(rich.entry(30).to_string())
    })
    .await;
    check("DELETE FROM request WHERE session = KEY", |rich| {
        let id = everturn_model::RequestId::mint(rich.stamp(40), [4; 14]);
        missing(RowTable::Request)(id.to_string())
    })
    .await;
    check("DELETE FROM todo WHERE session = KEY", |rich| {
        vec![SessionProblem::Differs { table: RowTable::Todo, id: rich.id.to_string() }]
    })
    .await;
    check("DELETE FROM text WHERE session = KEY AND entry = ''", |_| missing(RowTable::Text)("/".into()))
        .await;
    check(
        "DELETE FROM search WHERE rowid = (SELECT key FROM text WHERE session = KEY AND entry = '')",
        |_| missing(RowTable::Text)("/".into()),
    )
    .await;
}

#[tokio::test]
async fn rows_that_say_something_else_are_made_anew() {
    check("UPDATE entry SET parent = 'msg_x' WHERE session = KEY AND ord >> 20 = 4", |rich| {
        vec![SessionProblem::Differs { table: RowTable::Entry, id: rich.entry(20).to_string() }]
    })
    .await;
    check(
        "UPDATE part SET data = replace(data, 'fixed', 'broke') WHERE session = KEY AND ord >> 20 = 5",
        |rich| {
            let id = format!("{}/{}", rich.entry(20), rich.part(21));
            vec![SessionProblem::Differs { table: RowTable::Part, id }]
        },
    )
    .await;
    check("UPDATE part SET ord = 0 WHERE session = KEY AND ord >> 20 = 7", |rich| {
        let id = format!("{}/{}", rich.entry(20), rich.part(22));
        vec![SessionProblem::Misplaced { table: RowTable::Part, id }]
    })
    .await;
    check("UPDATE inbox SET data = replace(data, 'then', 'when') WHERE session = KEY", |rich| {
        vec![SessionProblem::Differs { table: RowTable::Inbox, id: rich.entry(30).to_string() }]
    })
    .await;
    check("UPDATE todo SET data = '[]' WHERE session = KEY", |rich| {
        vec![SessionProblem::Differs { table: RowTable::Todo, id: rich.id.to_string() }]
    })
    .await;
    check("UPDATE request SET data = '{' WHERE session = KEY", |rich| {
        let id = everturn_model::RequestId::mint(rich.stamp(40), [4; 14]).to_string();
        let reason = "EOF while parsing an object at line 1 column 1".to_owned();
        vec![SessionProblem::Garbled { table: RowTable::Request, id, reason }]
    })
    .await;
    check("UPDATE event SET type = 'other.1' WHERE session = KEY AND seq = 3", |_| {
        let (found, expected) = ("other.1".to_owned(), "prompt.promoted.2".to_owned());
        vec![SessionProblem::Misnamed { seq: 3, found, expected }]
    })
    .await;
}

#[tokio::test]
async fn rows_that_the_log_knows_nothing_of_are_removed() {
    let copy =
        "INSERT INTO entry SELECT session, 'msg_x', 1, parent, data FROM entry WHERE session = KEY LIMIT 1";
    check(copy, |_| vec![SessionProblem::Surplus { table: RowTable::Entry, id: "msg_x".into() }]).await;
    let copy =
        "INSERT INTO part SELECT session, 'msg_x', 'prt_x', 1, data FROM part WHERE session = KEY LIMIT 1";
    check(copy, |_| vec![SessionProblem::Surplus { table: RowTable::Part, id: "msg_x/prt_x".into() }]).await;
    let copy = "INSERT INTO inbox SELECT session, 'msg_x', 1, data FROM inbox WHERE session = KEY";
    check(copy, |_| vec![SessionProblem::Surplus { table: RowTable::Inbox, id: "msg_x".into() }]).await;
    let copy = "INSERT INTO request SELECT 'per_x', session, data FROM request WHERE session = KEY";
    check(copy, |_| vec![SessionProblem::Surplus { table: RowTable::Request, id: "per_x".into() }]).await;
    let copy = "INSERT INTO text (session, entry, part) VALUES (KEY, 'msg_x', '')";
    check(copy, |_| vec![SessionProblem::Surplus { table: RowTable::Text, id: "msg_x/".into() }]).await;
}

#[tokio::test]
async fn a_blob_that_is_not_noted_as_used_is_noted_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    damage(&folder, &rich.id, "DELETE FROM blob_use WHERE session = KEY");
    let problems = store.verify(&rich.id).await.unwrap().problems;
    assert!(matches!(problems.as_slice(), [SessionProblem::Unnoted { .. }]), "{problems:?}");
    store.rebuild(&rich.id, 7).await.unwrap();
    assert_eq!(store.verify(&rich.id).await.unwrap().problems, []);
    assert_eq!(store.collect().await.unwrap().blobs, 0);
}

/// Damages the log itself: the check says where, a rebuild refuses and changes nothing, and the other session is fine.
async fn check_log(sql: &str, seq: u64, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    other.put(&store, "lexer").await;
    damage(&folder, &rich.id, sql);
    let verdict = store.verify(&rich.id).await.unwrap();
    assert!(!verdict.can_be_rebuilt(), "{verdict:?}");
    let said: Vec<String> = verdict.problems.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|text| text.contains(expected)), "{said:?}");
    let report = store.verify_all(None).await.unwrap();
    assert_eq!((report.sessions, report.damaged), (2, vec![verdict]));
    let refused = store.rebuild(&rich.id, 7).await.unwrap_err();
    assert!(matches!(&refused, Error::Broken { seq: found, .. } if *found == seq), "{refused}");
    assert_eq!(store.audits(1).await.unwrap(), []);
    assert!(store.verify(&other.id).await.unwrap().is_sound());
    store.append(&other.id, Authority::Open, vec![other.title(0x200, "goes on")]).await.unwrap();
}

#[tokio::test]
async fn damage_of_the_log_is_named_and_not_papered_over() {
    check_log(
        "UPDATE event SET data = '{\"x\":1}' WHERE session = KEY AND seq = 6",
        6,
        "event 6 cannot be read",
    )
    .await;
    check_log("UPDATE event SET data = X'00FF' WHERE session = KEY AND seq = 0", 0, "event 0 cannot be read")
        .await;
    check_log("DELETE FROM event WHERE session = KEY AND seq = 5", 5, "has no event 5").await;
    check_log("UPDATE event SET seq = 50 WHERE session = KEY AND seq = 11", 11, "event 50 stands").await;
    check_log("DELETE FROM event WHERE session = KEY", 0, "there is no log").await;
    check_log("DELETE FROM event WHERE session = KEY AND seq = 0", 0, "has no event 0").await;
    let other = "UPDATE event SET data = replace(data, 'msg_', 'msg_x') WHERE session = KEY AND seq = 3";
    check_log(other, 3, "event 3 does not fit").await;
    let renamed = "UPDATE event SET data = replace(data, 'ses_', 'ses_x') WHERE session = KEY AND seq = 0";
    check_log(renamed, 0, "it creates session ses_x").await;
    let blobs = "(SELECT hash FROM blob_use WHERE session = KEY)";
    check_log(&format!("DELETE FROM blob WHERE hash IN {blobs}"), 7, "is missing").await;
    check_log(&format!("UPDATE blob SET data = X'0011' WHERE hash IN {blobs}"), 7, "blob").await;
    check_log(&format!("UPDATE blob SET data = zeroblob(size) WHERE hash IN {blobs}"), 7, "does not hold")
        .await;
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    assert!(matches!(store.verify(&rich.id).await, Err(Error::NoSession(_))));
    assert!(matches!(store.rebuild(&rich.id, 7).await, Err(Error::NoSession(_))));
    rich.put(&store, "parser").await;
    store.purge(&rich.id, 7).await.unwrap();
    assert!(matches!(store.verify(&rich.id).await, Err(Error::Purged(_))));
    assert!(matches!(store.rebuild(&rich.id, 7).await, Err(Error::Purged(_))));
    assert_eq!(store.verify_all(None).await.unwrap(), CheckReport::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_loses_nothing_that_is_appended_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    let writing = tokio::spawn({
        let (store, rich) = (store.clone(), Rich::new(0x1000));
        async move {
            for number in 0..100 {
                let title = rich.title(0x200 + number, &format!("title {number}"));
                store.append(&rich.id, Authority::Open, vec![title]).await.unwrap();
            }
        }
    });
    while !writing.is_finished() {
        match store.rebuild(&rich.id, 7).await {
            Ok(_) | Err(Error::Changing(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    writing.await.unwrap();
    assert_eq!(store.verify(&rich.id).await.unwrap().problems, []);
    assert_eq!(store.session(&rich.id).await.unwrap().unwrap().title, "title 99");
}

#[tokio::test]
async fn rows_of_an_older_fold_are_made_anew_when_the_store_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, broken) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, "parser").await;
    broken.put(&store, "lexer").await;
    let before = tree(&store, &rich).await;
    drop(store);
    damage(&folder, &rich.id, "UPDATE entry SET data = replace(data, 'parser', 'x') WHERE session = KEY");
    damage(&folder, &broken.id, "DELETE FROM event WHERE session = KEY AND seq = 5");
    file(&folder).execute("UPDATE meta SET value = value - 1 WHERE name = 'fold'", []).unwrap();
    let store = open(&folder).await;
    assert_eq!(tree(&store, &rich).await, before);
    let aside = store.set_aside_list().await.unwrap();
    assert_eq!(aside.iter().map(|aside| &aside.session).collect::<Vec<_>>(), [&broken.id]);
    assert_eq!(count(&folder, "SELECT value FROM meta WHERE name = 'fold'"), FOLD_VERSION);
    let audits = store.audits(10).await.unwrap();
    let detail = json!({ "sessions": 1, "refused": [broken.id], "fold": FOLD_VERSION });
    assert_eq!(audits.iter().map(|audit| &audit.detail).collect::<Vec<_>>(), [&detail]);
    let again = store.rebuild_all(9).await.unwrap();
    let RebuiltAll { sessions, refused } = again;
    assert_eq!((sessions, refused.len()), (1, 1));
}

/// Every write failed as long as the index was damaged, and no rebuild healed it.
#[tokio::test]
async fn a_damaged_index_is_made_anew_and_stops_nothing_for_long() {
    for harm in [
        "UPDATE search_data SET block = x'ff00ff00ff00' WHERE id >= 10",
        "DELETE FROM search_data WHERE id >= 10",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let rich = Rich::new(0x1000);
        rich.put(&store, "parser").await;
        let search = Search { text: "parser".to_owned(), project: None, session: None, limit: 50 };
        let found = store.search(search.clone()).await.unwrap();
        assert!(!found.is_empty());
        drop(store);

        damage(&folder, &rich.id, harm);
        let store = open(&folder).await;
        let mut refused = 0;
        for at in 0.. {
            let title = rich.title(0x200 + at, &format!("parser {at}"));
            match store.append(&rich.id, Authority::Open, vec![title]).await {
                Ok(_) if at > 40 => break,
                Ok(_) => {}
                Err(Error::Index { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(refused, 1, "the index is written to again at once: {harm}");
        assert_eq!(store.search(search).await.unwrap().len(), found.len(), "{harm}");
        assert!(store.verify_all(None).await.unwrap().is_sound());
    }
}

/// SQLite's own checkpoint is switched off, so the writer has to keep the write-ahead log short itself.
#[tokio::test]
async fn the_write_ahead_log_does_not_grow_with_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    rich.put(&store, "parser").await;
    for number in 0..600 {
        let title = rich.title(0x200 + number, &format!("{number} {}", "words and words ".repeat(60)));
        store.append(&rich.id, Authority::Open, vec![title]).await.unwrap();
    }
    let size = std::fs::metadata(folder.path().join("everturn.db-wal")).unwrap().len();
    assert!(size < 8_000_000, "{size} bytes");
}

#[tokio::test]
async fn what_is_nested_too_deep_to_be_read_is_cut_by_a_rebuild() {
    // Such data was once stored from prompts, patched parts and calls, and the session was never readable again.
    for filling in [0, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let rich = Rich::new(0x1000);
        rich.put(&store, "parser").await;
        let before = tree(&store, &rich).await;
        let deep = format!("{}\"{}\"{}", "[".repeat(130), "x".repeat(filling), "]".repeat(130));
        let text = r#""text":"please fix parser""#;
        let sql = format!("replace(data, '{text}', '{text},\"metadata\":{{\"deep\":{deep}}}')");
        damage(&folder, &rich.id, &format!("UPDATE event SET data = {sql} WHERE session = KEY"));
        damage(&folder, &rich.id, &format!("UPDATE part SET data = {sql} WHERE session = KEY"));
        let unreadable = store.tree(&rich.id).await;
        assert!(matches!(unreadable, Err(Error::Corrupt { .. })), "{unreadable:?}");

        let verdict = store.verify(&rich.id).await.unwrap();
        let seqs = verdict.problems.iter().filter_map(|problem| match problem {
            SessionProblem::TooDeep { seq, .. } => Some(*seq),
            _ => None,
        });
        assert_eq!((seqs.collect::<Vec<_>>(), verdict.can_be_rebuilt()), (vec![2, 3], true));
        // Nobody asked for a change of this log.
        let all = store.rebuild_all(6).await.unwrap();
        assert_eq!((all.sessions, all.refused.len()), (0, 1), "{all:?}");

        let rebuilt = Rebuilt { session: rich.id.clone(), events: 12, entries: 3, parts: 4, cut: vec![2, 3] };
        assert_eq!(store.rebuild(&rich.id, 7).await.unwrap(), rebuilt);
        assert_eq!(store.audits(1).await.unwrap()[0].detail, json!({ "session": rich.id, "cut": [2, 3] }));
        assert!(store.verify_all(None).await.unwrap().is_sound());
        let after = tree(&store, &rich).await;
        assert_eq!(after.nodes().len(), before.nodes().len());
        let kept = serde_json::to_string(&after.node(&rich.entry(10)).unwrap().parts).unwrap();
        assert!(kept.contains(text) && kept.contains("[removed: it was nested too deep"), "{kept}");
        store.append(&rich.id, Authority::Open, vec![rich.title(0x200, "goes on")]).await.unwrap();
    }
}

#[tokio::test]
async fn lines_of_a_bill_are_checked_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let id = begin(&store).await;
    let tokens = Tokens { input: 7, ..Tokens::default() };
    let cost: Money = "0.25".parse().unwrap();
    append(&store, &id, vec![used(tokens, cost), used(tokens, cost)]).await;
    let table = RowTable::Bill;
    for (sql, problem) in [
        ("UPDATE bill SET cost = 1 WHERE seq = 1", SessionProblem::Differs { table, id: "1/0".into() }),
        ("UPDATE bill SET time = 'never' WHERE seq = 1", SessionProblem::Differs { table, id: "1/0".into() }),
        ("DELETE FROM bill WHERE seq = 2", SessionProblem::Missing { table, id: "2/0".into() }),
        (
            "INSERT INTO bill SELECT session, 9, line, time, provider, model, source, 1, 1, 1, 1, 1, 1
             FROM bill WHERE seq = 1",
            SessionProblem::Surplus { table, id: "9/0".into() },
        ),
    ] {
        damage(&folder, &id, sql);
        let verdict = store.verify(&id).await.unwrap();
        assert_eq!(verdict.problems, [problem], "{sql}");
        store.rebuild(&id, 7).await.unwrap();
        assert_eq!(store.verify(&id).await.unwrap().problems, [], "{sql}");
        assert_eq!(count(&folder, "SELECT sum(cost) FROM bill"), 500_000_000, "{sql}");
    }
}
