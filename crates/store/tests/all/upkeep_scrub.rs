//! Removing a secret: everywhere, for good, and without breaking anything.

use std::collections::BTreeSet;
use std::path::Path;

use everturn_model::permission::{Action, Rule};
use everturn_model::{Event, Record, SessionId, Tree};
use everturn_store::{Audit, Authority, Cut, Error, Fork, Hash, Options, Scrub, Scrubbed, Search, Store};
use serde_json::json;

use crate::upkeep::{Rich, TIME, count, damage, file, open};

const SECRET: &str = "hunter22hunter22";

/// The files of a folder that hold the bytes.
fn holding(folder: &Path, secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, secret));
        } else if std::fs::read(&path).unwrap().windows(secret.len()).any(|bytes| bytes == secret.as_bytes())
        {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

/// Seq, id and time of all events.
async fn places(store: &Store, id: &SessionId) -> Vec<(u64, String, i64)> {
    let log = store.events(id, None, usize::MAX).await.unwrap();
    log.into_iter().map(|record| (record.seq, record.id.to_string(), record.time)).collect()
}

/// All that can be read of a session.
async fn whole(store: &Store, id: &SessionId) -> (Tree, Vec<Record>) {
    (store.tree(id).await.unwrap().unwrap(), store.events(id, None, usize::MAX).await.unwrap())
}

#[tokio::test]
async fn nothing_of_a_secret_is_left_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other) = (Rich::new(0x1000), Rich::new(0x2000));
    rich.put(&store, SECRET).await;
    other.put(&store, "harmless").await;
    let child = Rich::new(0x3000);
    let mut session = store.session(&rich.id).await.unwrap().unwrap();
    session.id = child.id.clone();
    session.title = "a copy".into();
    let events = [1, 2].map(|number| child.event(number, Event::RevertCleared {}).id);
    let fork = Fork { source: rich.id.clone(), cut: Cut::Tree, session, events, time: TIME };
    store.fork(fork).await.unwrap();
    let put = store.put_blob(&rich.id, format!("token={SECRET}\n").repeat(2000).into_bytes()).await.unwrap();
    let naming = rich.title(0x200, &format!("see {put}"));
    store.append(&rich.id, Authority::Open, vec![naming]).await.unwrap();
    let lease = store.acquire(&rich.id).await.unwrap();
    let (entry, part) = (rich.entry(20), rich.part(23));
    store.save_stream(&lease, &entry, &part, 0, "it is hunter22".into());
    store.save_stream(&lease, &entry, &part, 14, "hunter22, says é".into());
    store.put_project("global", json!({ "env": { "TOKEN": SECRET } }).to_string()).await.unwrap();
    let rule =
        |pattern: &str| Rule { permission: "bash".into(), pattern: pattern.into(), action: Action::Allow };
    store.approve("global", "/srv", vec![rule(&format!("login {SECRET}"))], 3).await.unwrap();
    store.set_aside(&other.id, &format!("because of {SECRET}"), 4).await.unwrap();
    assert_eq!(holding(folder.path(), SECRET), ["everturn.db-wal"]);
    let before =
        [places(&store, &rich.id).await, places(&store, &other.id).await, places(&store, &child.id).await];
    let untouched = whole(&store, &other.id).await;
    let old = folder.path().join("everturn.v1.backup.db");
    std::fs::write(&old, "an old copy").unwrap();

    let scrubbed = store.scrub(Scrub::new(SECRET, &format!("{SECRET} leaked"), 9)).await.unwrap();
    let blobs = scrubbed.blobs;
    let expected = Scrubbed {
        sessions: vec![rich.id.clone(), child.id.clone()],
        // Of the first: title, prompt, the same promoted, answer, long text, task, request, waiting prompt, name of the
        // blob. Of the copy: its seed.
        events: 9 + 1,
        blobs,
        left: Vec::new(),
        at_work: BTreeSet::new(),
        backups: vec![old],
        erased: true,
    };
    assert_eq!(scrubbed, expected);
    assert!(blobs >= 2, "{blobs}");
    assert_eq!(holding(folder.path(), SECRET), [""; 0]);
    assert_eq!(holding(folder.path(), "hunter22"), [""; 0], "neither in halves, nor in the index");

    let after =
        [places(&store, &rich.id).await, places(&store, &other.id).await, places(&store, &child.id).await];
    assert_eq!(after, before);
    assert!(whole(&store, &other.id).await == untouched);
    assert!(store.verify_all(None).await.unwrap().is_sound());
    let clean = b"token=[scrubbed]\n".repeat(2000);
    let session = store.session(&rich.id).await.unwrap().unwrap();
    assert_eq!(session.title, format!("see {}", Hash::of(&clean)), "the name of the blob follows it");
    assert_eq!(store.blob(Hash::of(&clean)).await.unwrap(), Some(clean));
    assert_eq!(store.blob(put).await.unwrap(), None);
    let streams = store.streams(&rich.id).await.unwrap();
    assert_eq!(streams[0].text, "it is ****************, says é");
    let projects = store.projects().await.unwrap();
    assert_eq!(projects, [("global".to_owned(), r#"{"env":{"TOKEN":"[scrubbed]"}}"#.to_owned())]);
    assert_eq!(store.approvals("global", "/srv").await.unwrap(), [rule("login [scrubbed]")]);
    assert_eq!(store.set_aside_list().await.unwrap()[0].reason, "because of [scrubbed]");
    let find = |text: &str| store.search(Search { text: text.into(), limit: 50, ..Search::default() });
    assert_eq!(find(SECRET).await.unwrap(), []);
    assert_eq!(find("please fix scrubbed").await.unwrap().len(), 2);
    let audits = store.audits(10).await.unwrap();
    let [Audit { time: 9, action, detail }, each @ ..] = &audits[..] else { panic!() };
    let noted: Vec<_> = each.iter().map(|audit| (audit.action.as_str(), &audit.detail["session"])).collect();
    assert_eq!(noted, [("scrub", &json!(child.id)), ("scrub", &json!(rich.id))], "with each change of a log");
    assert_eq!(action, "scrub");
    assert_eq!(detail["reason"], "[scrubbed] leaked");
    assert_eq!(detail["sessions"], json!([rich.id, child.id]));
    assert_eq!(
        (&detail["events"], &detail["blobs"], &detail["left"]),
        (&json!(10), &json!(blobs), &json!([]))
    );
    store.append(&rich.id, Authority::Owned(lease), vec![rich.title(0x201, "goes on")]).await.unwrap();

    let again = store.scrub(Scrub::new(SECRET, "again", 10)).await.unwrap();
    assert_eq!((again.sessions, again.events, again.blobs), (Vec::new(), 0, 0));
    drop(store);
    assert_eq!(holding(folder.path(), SECRET), [""; 0]);
}

#[tokio::test]
async fn a_scrub_of_one_session_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (one, two) = (Rich::new(0x1000), Rich::new(0x2000));
    one.put(&store, SECRET).await;
    two.put(&store, SECRET).await;
    let untouched = whole(&store, &two.id).await;
    let scrub =
        Scrub { session: Some(one.id.clone()), replacement: String::new(), ..Scrub::new(SECRET, "", 9) };
    let scrubbed = store.scrub(scrub).await.unwrap();
    assert_eq!((scrubbed.sessions, scrubbed.events), (vec![one.id.clone()], 8));
    assert!(!format!("{:?}", whole(&store, &one.id).await).contains(SECRET));
    assert!(whole(&store, &two.id).await == untouched, "the blob that both used is still there for it");
    assert!(store.verify_all(None).await.unwrap().is_sound());
    assert_eq!(count(&folder, "SELECT count(*) FROM blob"), 2);
}

#[tokio::test]
async fn a_secret_with_quotes_and_lines_is_found_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    let secret = "p\"ss\\w\nrd é";
    rich.put(&store, secret).await;
    let input = json!({ "command": "login", (secret): secret }).to_string();
    store.append(&rich.id, Authority::Open, vec![rich.title(0x200, &input)]).await.unwrap();
    let scrubbed = store.scrub(Scrub::new(secret, "", 9)).await.unwrap();
    assert_eq!((scrubbed.events, scrubbed.left), (9, Vec::new()));
    let title = store.session(&rich.id).await.unwrap().unwrap().title;
    assert_eq!(title, r#"{"command":"login","[scrubbed]":"[scrubbed]"}"#);
    assert_eq!(holding(folder.path(), "ss\\"), [""; 0]);
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_session_that_would_break_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let (rich, other, broken) = (Rich::new(0x1000), Rich::new(0x2000), Rich::new(0x3000));
    rich.put(&store, "harmless").await;
    other.put(&store, &format!("about {}", rich.entry(20))).await;
    broken.put(&store, &format!("about {}", rich.entry(20))).await;
    damage(&folder, &broken.id, "DELETE FROM event WHERE session = KEY AND seq = 5");
    let before = whole(&store, &rich.id).await;
    let rows = || {
        file(&folder)
            .query_row("SELECT sum(length(data)) FROM event", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let logged = rows();
    // An id: other sessions may name it, its own may not lose it.
    let scrubbed = store.scrub(Scrub::new(rich.entry(20).as_str(), "", 9)).await.unwrap();
    assert_eq!(scrubbed.sessions, std::slice::from_ref(&other.id));
    let left: Vec<_> = scrubbed.left.iter().map(|(id, reason)| (id.clone(), reason.as_str())).collect();
    let [(one, "an id would have changed"), (two, reason)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!([one, two], [&rich.id, &broken.id]);
    assert!(reason.contains("has no event 5"), "{reason}");
    assert!(whole(&store, &rich.id).await == before);
    assert!(rows() < logged);
    // A word of the event's own shape, and a number.
    for word in ["session.created", "1794711664171"] {
        let scrub = Scrub { session: Some(rich.id.clone()), ..Scrub::new(word, "", 9) };
        let scrubbed = store.scrub(scrub).await.unwrap();
        assert_eq!((scrubbed.sessions, scrubbed.left.len()), (Vec::new(), 1), "{word}");
        assert!(whole(&store, &rich.id).await == before);
    }
}

#[tokio::test]
async fn sessions_that_are_at_work_meanwhile_are_named() {
    // What was on its way was stored after the scrub, which had said that nothing was left.
    let folder = tempfile::tempdir().unwrap();
    let runner = open(&folder).await;
    let (busy, resting) = (Rich::new(0x1000), Rich::new(0x2000));
    for rich in [&busy, &resting] {
        rich.put(&runner, SECRET).await;
    }
    let lease = runner.acquire(&busy.id).await.unwrap();
    let store = Store::open(Options::folder(folder.path(), "own_other")).await.unwrap();
    let scrub = || Scrub::new(SECRET, "leaked", 9);
    let scrubbed = store.scrub(scrub()).await.unwrap();
    assert_eq!(scrubbed.sessions.len(), 2, "what is stored of it is clean");
    assert_eq!(scrubbed.at_work, BTreeSet::from([busy.id.clone()]));
    let only = Scrub { session: Some(resting.id.clone()), ..scrub() };
    assert_eq!(store.scrub(only).await.unwrap().at_work, BTreeSet::new());
    runner.release(lease).await.unwrap();
    assert_eq!(store.scrub(scrub()).await.unwrap().at_work, BTreeSet::new());
}

#[tokio::test]
async fn a_scrub_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rich = Rich::new(0x1000);
    let short = store.scrub(Scrub::new("12345", "", 9)).await;
    assert!(matches!(short, Err(Error::Scrub(_))), "{short:?}");
    let same = Scrub { replacement: format!("-{SECRET}-"), ..Scrub::new(SECRET, "", 9) };
    assert!(matches!(store.scrub(same.clone()).await, Err(Error::Scrub(_))));
    assert!(!format!("{same:?}").contains(SECRET), "it is not shown by accident");
    let missing = Scrub { session: Some(rich.id.clone()), ..Scrub::new(SECRET, "", 9) };
    assert!(matches!(store.scrub(missing).await, Err(Error::NoSession(_))));
    assert_eq!(store.audits(10).await.unwrap(), []);
}
